//! Opens the document of a SavedModel: the message that says what the rest of the folder is for.

use super::NAMES;
use crate::document::Document;
use crate::message_kind::{self, MessageForm, MessageKind};
use tensorferry_sdk::{Entry, Error, Limits, Result, Source};

/// The message in chunks.
const CHUNKED: &str = NAMES[2];

/// Opens the document of the folder, or the one that the user named.
pub(super) fn open(source: &dyn Source, limits: &Limits) -> Result<Document> {
    let name = match source.entry() {
        Entry::File(name) => name.as_str(),
        _ => source.first_of(NAMES)?.ok_or_else(|| {
            Error::malformed("the folder holds no SavedModel").expected("saved_model.pb or saved_model.pbtxt")
        })?,
    };
    if name.rsplit('/').next() == Some(CHUNKED) {
        return Err(Error::unsupported(
            "a SavedModel in chunks: its variables alone can be read, from variables/variables.index; or load it \
             with TensorFlow and save it without experimental_image_format",
        )
        .file(name));
    }
    let form = match message_kind::detect(source, source.open(name)?)? {
        Some((MessageKind::SavedModel, form)) => form,
        Some((MessageKind::Graph | MessageKind::MetaGraph, _)) => {
            let error = Error::unsupported("a graph, not a SavedModel; --from tf-graph reads its constants");
            return Err(error.file(name));
        }
        // What does not begin like one may be one whose first field is not the first.
        None if name.ends_with(".pbtxt") => MessageForm::Text,
        None => MessageForm::Wire,
    };
    Document::open(source, name, "tensorflow.SavedModel", form, limits)
}
