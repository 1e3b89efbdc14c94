//! A SavedModel is a folder that contains graphs, their signatures and objects, and a bundle with
//! the variables.
//!
//! ```text
//! saved_model.pb             SavedModel {saved_model_schema_version = 1, meta_graphs = 2}
//! saved_model.pbtxt          the same as text, as an alternative
//! saved_model.cpb            the same in chunks, for models larger than 2 GB; not supported
//! fingerprint.pb             FingerprintDef: hashes of the other files
//! variables/variables.*      the bundle; a model without variables has none
//! assets/                    files that the graph reads
//! assets.extra/              files that only servers read, such as warm-up requests
//!
//! MetaGraphDef   meta_info_def = 1 {tags = 4, tensorflow_version = 5}, graph_def = 2, saver_def = 3,
//!                collection_def = 4, signature_def = 5, asset_file_def = 6, object_graph_def = 7
//! ```
//! To choose a graph, the user specifies all of its tags. The graph itself may exceed the memory
//! limit, so it is read in place.
//!
//! Sources: `tensorflow/cc/saved_model/loader.cc` and `constants.h`, and the messages in
//! `tensorflow/core/protobuf`.

mod fingerprint;
mod meta_graph;
mod open;
mod outline;
mod read;
mod saved_variables;
mod substitute;
mod tags;
#[cfg(test)]
mod tests;

pub(crate) use read::SavedModelReader;
pub(crate) use substitute::SavedModelWriter;

/// The possible names of the document, in TensorFlow's search order.
pub(crate) const NAMES: [&str; 3] = ["saved_model.pb", "saved_model.pbtxt", "saved_model.cpb"];
/// The prefix of the bundle in the folder.
pub(crate) const VARIABLES: &str = "variables/variables";
