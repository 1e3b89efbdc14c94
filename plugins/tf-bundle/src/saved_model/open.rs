//! Opens the document of a SavedModel: the message that describes the rest of the folder.

use super::NAMES;
use crate::document::Document;
use crate::message_kind::{self, MessageForm, MessageKind};
use tensorferry_sdk::{Entry, Error, Limits, Result, Source};

/// The name of a document that is stored in chunks.
const CHUNKED: &str = NAMES[2];

/// Opens the document of the folder, or the document that the user specified.
pub(super) fn open(source: &dyn Source, limits: &Limits) -> Result<Document> {
    let name = match source.entry() {
        Entry::File(name) => name.as_str(),
        _ => source.first_of(NAMES)?.ok_or_else(|| {
            Error::malformed("the folder contains no SavedModel")
                .expected("saved_model.pb or saved_model.pbtxt")
        })?,
    };
    if name.rsplit('/').next() == Some(CHUNKED) {
        return Err(Error::unsupported(
            "a chunked SavedModel cannot be read",
        )
        .hint(
            "pass variables/variables.index to read only its variables, or load it with TensorFlow and save it \
             without experimental_image_format",
        )
        .file(name));
    }
    let form = match message_kind::detect(source, source.open(name)?)? {
        Some((MessageKind::SavedModel, form)) => form,
        Some((MessageKind::Graph | MessageKind::MetaGraph, _)) => {
            let error = Error::unsupported("the file is a graph, not a SavedModel")
                .hint("pass --from tf-graph to read its constants");
            return Err(error.file(name));
        }
        // The document may start with an unusual field, so its form is determined from the file
        // extension.
        None if name.ends_with(".pbtxt") => MessageForm::Text,
        None => MessageForm::Wire,
    };
    Document::open(source, name, "tensorflow.SavedModel", form, limits)
}
