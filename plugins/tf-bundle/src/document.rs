//! A document is a file that contains a single message in wire form or in text form. The wire form
//! is read in place. The text form is first converted to wire form, which is kept in memory.

use crate::message_kind::MessageForm;
use crate::text;
use tensorferry_proto_file::Wire;
use tensorferry_sdk::{FileId, Limits, Result, Source};

#[derive(Debug)]
pub(crate) struct Document {
    name: String,
    content: Content,
}

#[derive(Debug)]
enum Content {
    File(FileId),
    /// The wire form of a text document.
    Text(Vec<u8>),
}

impl Document {
    /// Opens a file that contains a message of the type `message`, such as `tensorflow.GraphDef`.
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

    /// Returns a reader of the message.
    pub(crate) fn wire<'a>(&'a self, source: &'a dyn Source) -> Wire<'a> {
        match &self.content {
            Content::File(file) => Wire::of_file(source, *file),
            Content::Text(wire) => Wire::of_memory(wire, &self.name),
        }
    }

    /// Returns the file if it contains the message in wire form, and `None` if it is text.
    pub(crate) fn file(&self) -> Option<FileId> {
        match self.content {
            Content::File(file) => Some(file),
            Content::Text(_) => None,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the file `name` in the folder of this document.
    pub(crate) fn sibling(&self, name: &str) -> String {
        match self.name.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{name}"),
            None => name.to_owned(),
        }
    }
}
