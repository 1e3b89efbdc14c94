//! Reads and writes TensorFlow checkpoints and SavedModels, and reads frozen graphs, without
//! TensorFlow.
//!
//! | Format | Reads | Writes |
//! |---|---|---|
//! | `tf-bundle` | checkpoints of both versions | V2 |
//! | `saved-model` | the variables of a SavedModel | a copy of a SavedModel with new variables |
//! | `tf-graph` | the constants of a GraphDef | |
//!
//! The following modules document the layouts of the structures that they read: `bundle/`,
//! `table/`, `v1/`, `graph_def/`, `tensor_proto/` and `text/`. `names/` maps tensor names to
//! checkpoint keys and back.
#![forbid(unsafe_code)]

mod options;
mod probe;
mod read;
mod write;

mod bundle;
mod bundle_tensors;
mod document;
mod dtype;
mod graph_def;
mod locate;
mod message_kind;
mod names;
mod saved_model;
mod side_entry;
mod slice_key;
mod state_file;
mod table;
mod tensor_proto;
#[cfg(test)]
mod testing;
mod text;
mod v1;

use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};

#[derive(Debug, Clone, Copy, Default)]
pub struct TfBundle;

impl Format for TfBundle {
    fn describe(&self) -> Description {
        Description::new("tf-bundle", "TensorFlow checkpoint")
            .suffixes([bundle::INDEX_SUFFIX])
            .members([
                format!("*{}", bundle::INDEX_SUFFIX),
                "*.data-?????-of-?????".to_owned(),
                state_file::STATE_FILE.to_owned(),
            ])
            .capabilities(
                Capabilities::READ
                    | Capabilities::WRITE
                    | Capabilities::METADATA
                    | Capabilities::TIES
                    | Capabilities::PREFIX,
            )
            .options(options::of_bundles())
            .output_revision(2)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        probe::checkpoint(source, context).map(Some)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::CheckpointReader { options: options::ReadOptions::new(options)? }))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::BundleWriter { options: options::WriteOptions::new(options)? }))
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SavedModel;

impl Format for SavedModel {
    fn describe(&self) -> Description {
        Description::new("saved-model", "TensorFlow SavedModel")
            .members(saved_model::NAMES)
            .capabilities(
                Capabilities::READ | Capabilities::WRITE | Capabilities::METADATA | Capabilities::TIES,
            )
            .options(options::of_saved_models())
            .output_revision(2)
    }

    fn probe(&self, source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        probe::saved_model(source).map(Some)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(saved_model::SavedModelReader { options: options::ReadOptions::new(options)? }))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(saved_model::SavedModelWriter::new(options)?))
    }
}

/// The format `tf-graph`: frozen graphs.
#[derive(Debug, Clone, Copy, Default)]
pub struct TfGraph;

impl Format for TfGraph {
    fn describe(&self) -> Description {
        Description::new("tf-graph", "TensorFlow graph with its constants")
            .suffixes([".pb", ".pbtxt"])
            .capabilities(Capabilities::READ)
    }

    fn probe(&self, source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        probe::graph(source).map(Some)
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(graph_def::GraphReader))
    }
}

/// Returns the formats of this crate, for programs that link the crate.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(TfBundle), Box::new(SavedModel), Box::new(TfGraph)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
