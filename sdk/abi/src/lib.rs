//! The boundary between the `ferry` host and a plugin's library, in `abi_stable` types.
//!
//! Plugin authors do not use this crate: `tensorferry-sdk` shows its traits as plain Rust. Each
//! trait here mirrors one of the SDK's; what it means is documented there.
//!
//! # What keeps it stable
//! - Catalogs, layouts and descriptions cross as calls on objects, never as structs, so that the
//!   host checks each fact while a file is still being parsed, and an object can gain methods.
//! - Every method that is added after revision 1.0 stands last and has a default body: an older
//!   library's object then runs the default.
//! - What may grow is a number (`u32`, `u64`) or a word, never an `enum`.
//! - This crate's version is part of the layout check. The major number is the ABI's revision: a
//!   library of another one is refused. The minor number rises with each addition.

mod arrow;
mod export;
mod host;
mod manifest;
mod plugin;
mod records;

pub use arrow::{ArrowArray, ArrowArrayStream, ArrowSchema};
pub use export::{LibHeader, Provide, header};
pub use host::{
    ByteSink, CatalogSink, CatalogView, Context, DescriptionSink, Digests, LayoutSink, LossSink, SealSink,
    Source,
};
pub use host::{
    ByteSink_TO, ByteSinkMut, CatalogSink_TO, CatalogSinkMut, CatalogView_TO, CatalogViewRef, Context_TO,
    ContextRef, DescriptionSink_TO, DescriptionSinkMut, Digests_TO, DigestsRef, LayoutSink_TO, LayoutSinkMut,
    LossSink_TO, LossSinkMut, SealSink_TO, SealSinkMut, Source_TO, SourceBox, SourceRef,
};
pub use manifest::{MANIFEST_SYMBOL, Manifest, REVISION};
pub use plugin::{
    Format, Format_TO, FormatBox, Plugin, PluginRef, TensorDecoder, TensorDecoder_TO, TensorDecoderBox,
    TensorPlan, TensorPlan_TO, TensorPlanBox, TensorReader, TensorReader_TO, TensorReaderBox, TensorWriter,
    TensorWriter_TO, TensorWriterBox,
};

pub use records::{
    RecordPlan, RecordPlan_TO, RecordPlanBox, RecordReader, RecordReader_TO, RecordReaderBox, RecordSet,
    RecordSet_TO, RecordSetBox, RecordWriter, RecordWriter_TO, RecordWriterBox,
};

pub use abi_stable;

use abi_stable::StableAbi;
use abi_stable::std_types::{RResult, RStr, RString, RVec, Tuple2};

/// An error as it crosses: its kind's number, its message, and named details.
#[repr(C)]
#[derive(StableAbi, Debug, Clone)]
pub struct AbiError {
    /// The SDK's `ErrorKind`, by its number there.
    pub kind: u32,
    /// The message without the place.
    pub message: RString,
    /// File, tensor, offset, expected, found; a host shows names that it does not know.
    pub details: RVec<Tuple2<RString, RString>>,
}

/// A loss as it crosses.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct AbiLoss<'a> {
    /// The word of the SDK's `LossKind`.
    pub kind: RStr<'a>,
    /// 0 lost, 1 changed, 2 a note; a number that is not known is the first.
    pub severity: u32,
    /// Whether it follows from what the user asked for.
    pub asked: bool,
    /// The thing: a tensor's name, a path in the tree, a file.
    pub what: RStr<'a>,
    /// Why it was not carried.
    pub why: RStr<'a>,
}

impl AbiError {
    /// What the default body of a call says that an older host does not have.
    #[must_use]
    pub fn missing(what: &str) -> Self {
        Self::unsupported(&format!("this ferry is too old for that: {what}"))
    }

    /// What the default body of a call says of something that an older plugin does not have.
    #[must_use]
    pub fn unsupported(message: &str) -> Self {
        const UNSUPPORTED: u32 = 2;
        Self { kind: UNSUPPORTED, message: message.into(), details: RVec::new() }
    }
}

/// What a fallible call returns.
pub type AbiResult<T> = RResult<T, AbiError>;
