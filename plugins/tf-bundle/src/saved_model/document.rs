//! The document of a SavedModel: the message that says what the rest of the folder is for.

use crate::message_kind::{self, Form, MessageKind};
use crate::text;
use crate::wire::Wire;
use tensorferry_sdk::{Entry, Error, FileId, Limits, Result, Source};

/// What it is called, in the order in which TensorFlow looks for it.
const NAMES: [&str; 3] = ["saved_model.pb", "saved_model.pbtxt", CHUNKED];
/// What it is called in chunks.
const CHUNKED: &str = "saved_model.cpb";

/// The document, opened.
#[derive(Debug)]
pub(super) struct Document {
    name: String,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// The file itself.
    Wire(FileId),
    /// The wire form of what the text stands for.
    Text(Vec<u8>),
}

impl Document {
    /// Opens the document of the folder, or the one that the user named.
    ///
    /// # Errors
    /// Malformed, if there is none, or if a text is none; unsupported, if it is in chunks, or another
    /// message; i/o.
    pub(super) fn open(source: &dyn Source, limits: &Limits) -> Result<Self> {
        let name = match source.entry() {
            Entry::File(name) => name.as_str(),
            _ => NAMES.into_iter().find(|name| source.contains(name)).ok_or_else(|| {
                Error::malformed("the folder holds no SavedModel")
                    .expected("saved_model.pb or saved_model.pbtxt")
            })?,
        };
        if name.rsplit('/').next() == Some(CHUNKED) {
            return Err(Error::unsupported(
                "a SavedModel in chunks: its variables alone can be read, from variables/variables.index; or load it \
                 with TensorFlow and save it without experimental_image_format",
            )
            .file(name));
        }
        let file = source.open(name)?;
        let content = match message_kind::detect(source, file)? {
            Some((MessageKind::SavedModel, Form::Text)) => Self::text(source, file, name, limits)?,
            Some((MessageKind::Graph | MessageKind::MetaGraph, _)) => {
                return Err(Error::unsupported(
                    "a graph, not a SavedModel; --from tf-graph reads its constants",
                )
                .file(name));
            }
            // What does not begin like one may be one whose first field is not the first.
            None if name.ends_with(".pbtxt") => Self::text(source, file, name, limits)?,
            Some((MessageKind::SavedModel, Form::Wire)) | None => Content::Wire(file),
        };
        Ok(Self { name: name.to_owned(), content })
    }

    fn text(source: &dyn Source, file: FileId, name: &str, limits: &Limits) -> Result<Content> {
        let bytes = source.read_vec(file, 0, source.len(file), limits)?;
        Ok(Content::Text(text::to_wire(&bytes, "tensorflow.SavedModel", name, limits)?))
    }

    /// A walker of the message.
    pub(super) fn wire<'a>(&'a self, source: &'a dyn Source) -> Wire<'a> {
        match &self.content {
            Content::Wire(file) => Wire::of_file(source, *file),
            Content::Text(wire) => Wire::of_memory(wire, &self.name),
        }
    }

    /// The document's file.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The path of a file that lies in the same folder.
    pub(super) fn beside(&self, name: &str) -> String {
        match self.name.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{name}"),
            None => name.to_owned(),
        }
    }
}
