//! Reads and writes Keras files. Files with the suffixes `.weights.h5` and `.h5` are HDF5 files. A
//! `.keras` file is a zip archive that contains an HDF5 file.
//!
//! ```text
//! model.keras             zip: metadata.json, config.json, model.weights.h5, assets/...; or a folder of these
//! x.weights.h5            HDF5: <path of attributes>/vars/<number>; vars has the attribute "name", the layer's
//! x.weights.json          {"weight_map": {"/<path>/vars": "x_00000.weights.h5" or a list of such}}
//! x.h5, x.hdf5            HDF5 of Keras 1 and 2: groups of layers, whose order and names are in the attributes
//!                         layer_names and weight_names; a whole model has them in model_weights, next to
//!                         optimizer_weights and the attributes model_config, training_config
//! ```
//!
//! | HDF5 | dtype |
//! |---|---|
//! | integers of 1, 2, 4, 8 bytes, floats of IEEE 754, any byte order | I8 to U64, F16, F32, F64; BF16 as in HDF5 2 |
//! | enum {FALSE, TRUE} over i8; compound {r, i} | BOOL; C32, C64, C128 |
//! | opaque of two bytes with the attribute `dtype` = `bfloat16` | BF16 |
//! | other opaque types | left out, or the type passed as `-i opaque` |
//! | strings of fixed and variable length | STR |
//! | references, lists of variable length, times, other structures | left out, with a loss |
//!
//! The host copies contiguous data and unfiltered chunks directly from the file. Each compressed
//! chunk (deflate, lzf, shuffle, fletcher32) is a separate storage, so that chunks are decoded in
//! parallel. A variable that was never written reads as its fill value. Soft links inside the file
//! are resolved. The reader rejects links to other files, data in other files, and files that Keras
//! itself rejects because of their size.
//!
//! The catalog's tree contains the parts `model`, `optimizer` and `metrics`, and the values of the
//! JSON configuration. Classes to which the configuration refers are never loaded.
//!
//! | File | Content |
//! |---|---|
//! | `input.rs` | the files of an input |
//! | `read.rs` | the catalog |
//! | `model.rs` | the datasets of a model's files |
//! | `names.rs` | names of layers and variables |
//! | `config.rs` | JSON as a tree |
//! | `write.rs`, `like.rs` | new outputs, and outputs that copy a different file |
//! | `hdf5/` | reading and planning of HDF5 files |
//!
//! Sources: `keras/src/saving/saving_lib.py` and `keras/src/legacy/saving/legacy_h5_format.py` in
//! Keras 3, the HDF5 File Format Specification 4.0, and files that Keras 2, Keras 3 and h5py wrote.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod config;
mod hdf5;
mod input;
mod like;
mod model;
mod names;
mod options;

use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};

/// Name of the HDF5 file in an archive or folder. A folder that contains this file is a model.
const WEIGHTS: &str = "model.weights.h5";
const CONFIG: &str = "config.json";
const METADATA: &str = "metadata.json";
const ARCHIVE_SUFFIX: &str = ".keras";
const WEIGHTS_SUFFIX: &str = ".weights.h5";
const MAP_SUFFIX: &str = ".weights.json";

#[derive(Debug, Clone, Copy, Default)]
pub struct Keras;

impl Format for Keras {
    fn describe(&self) -> Description {
        Description::new("keras", "Keras: .keras, .weights.h5, .h5")
            .suffixes([WEIGHTS_SUFFIX, ARCHIVE_SUFFIX, MAP_SUFFIX, ".h5", ".hdf5"])
            .magic(0, *hdf5::SIGNATURE)
            .magic(0, *tensorferry_zip::MAGIC)
            .members(["*.weights.h5", "*.keras", "*.h5", "*.hdf5"])
            .capabilities(Capabilities::READ | Capabilities::WRITE | Capabilities::TIES)
            .options(options::declared())
            .attribute("specification", "https://keras.io/guides/serialization_and_saving/")
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source, context).map(Some)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader { options: options::ReadOptions::new(options)? }))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer { options: options::WriteOptions::new(options)? }))
    }
}

/// Returns the formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Keras)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
