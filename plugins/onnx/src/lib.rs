//! Reads the tensors of ONNX models, and writes models with replaced tensors.
//!
//! A model is one protobuf message, `ModelProto`, without magic bytes. `walk.rs` finds and names
//! its tensors, and `tensor_proto.rs` reads a tensor. The messages are parsed in place, field by
//! field, instead of being decoded into objects, because `raw_data` may contain 2 GB.
//!
//! | `data_type` | dtypes |
//! |---|---|
//! | 1 to 16 | F32, U8, I8, U16, I16, I32, I64, STR, BOOL, F16, F64, U32, U64, C64, C128, BF16 |
//! | 17 to 20, 24 | F8_E4M3, F8_E4M3FNUZ, F8_E5M2, F8_E5M2FNUZ, F8_E8M0 |
//! | 21 to 23, 25, 26 | U4, I4, F4, U2, I2, packed, in whole bytes |
//!
//! Files with external elements (`external_data`) must be below the model's folder.
//!
//! A graph cannot be derived from tensors. The writer therefore uses the graph of an existing
//! model, and copies all bytes of that model except the tensors that it replaces (`splice.rs`).
//!
//! Sources: `onnx/onnx.proto`, `onnx/external_data_helper.py` and `onnx/numpy_helper.py` in ONNX
//! 1.23, and files written by ONNX.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod dtype;
mod external;
mod message;
mod options;
mod sparse;
mod splice;
mod tensor_proto;
mod values;
mod walk;

use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};

const SUFFIX: &str = ".onnx";

/// The ONNX format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Onnx;

impl Format for Onnx {
    fn describe(&self) -> Description {
        Description::new("onnx", "ONNX model")
            .suffixes([SUFFIX])
            .members(["*.onnx"])
            .capabilities(Capabilities::READ | Capabilities::WRITE | Capabilities::EXTERNAL)
            .options(options::declared())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source).map(Some)
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer { options: options::WriteOptions::new(options)? }))
    }
}

/// Returns the formats of this crate, for programs that link the crate.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Onnx)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
