//! A document is a file that holds one message, in wire form or in text form. One in wire form is read
//! where it lies; a text is turned into wire form first, which is held.

use crate::message_kind::MessageForm;
use crate::text;
use tensorferry_proto_file::Wire;
use tensorferry_sdk::{FileId, Limits, Result, Source};

/// A document, opened.
#[derive(Debug)]
pub(crate) struct Document {
    name: String,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// The file itself.
    File(FileId),
    /// The wire form of what the text stands for.
    Text(Vec<u8>),
}

impl Document {
    /// Opens a file that holds a `message` (`tensorflow.GraphDef`).
    pub(crate) fn open(
        source: &dyn Source,
        name: &str,
        message: &str,
        form: MessageForm,
        limits: &Limits,
    ) -> Result<Self> {
        let file = source.open(name)?;
        let content = match form {
            MessageForm::Wire => Content::File(file),
            MessageForm::Text => {
                let bytes = source.read_vec(file, 0, source.len(file), limits)?;
                Content::Text(text::to_wire(&bytes, message, name, limits)?)
            }
        };
        Ok(Self { name: name.to_owned(), content })
    }

    /// A walker of the message.
    pub(crate) fn wire<'a>(&'a self, source: &'a dyn Source) -> Wire<'a> {
        match &self.content {
            Content::File(file) => Wire::of_file(source, *file),
            Content::Text(wire) => Wire::of_memory(wire, &self.name),
        }
    }

    /// The file, if the message lies there in wire form.
    pub(crate) fn file(&self) -> Option<FileId> {
        match self.content {
            Content::File(file) => Some(file),
            Content::Text(_) => None,
        }
    }

    /// The file's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The path of a file that lies in the same folder.
    pub(crate) fn beside(&self, name: &str) -> String {
        match self.name.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{name}"),
            None => name.to_owned(),
        }
    }
}
