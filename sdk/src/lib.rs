//! Write a format plugin for `ferry`.
#![forbid(unsafe_code)]

/// The version of this SDK, which a plugin's manifest carries.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

mod catalog;
mod context;
mod digest;
mod dtype;
mod error;
#[doc(hidden)]
pub mod export;
mod format;
mod layout;
mod limits;
mod loss;
pub mod memory;
pub mod mirror;
mod options;
mod region;
mod source;
mod tree;
mod view;

pub use catalog::{
    Block, ByteOrder, Catalog, CatalogBuilder, CatalogSink, Data, Place, Storage, StorageId,
    Tensor, TensorId, row_major_strides,
};
pub use context::{Context, MemoryContext};
pub use digest::{Checksum, Digest, DigestAlgorithm};
pub use dtype::{Dtype, DtypeInfo, element_count};
pub use error::{Error, ErrorKind, Result};
pub use format::{
    ByteSink, Capabilities, Description, Digests, Format, Magic, NothingToSeal, Score, SealSink,
    TensorPlan, TensorReader, TensorWriter,
};
pub use layout::{
    Content, DeferredId, DigestId, DigestRequest, Layout, LayoutBuilder, LayoutSink, Order,
    OutputFile, OutputId, Placed, Role, Segment, Target, TensorPart,
};
pub use limits::Limits;
pub use loss::{Loss, LossKind};
pub use options::{OptionKind, OptionSpec, Options, Side, parse_size};
pub use region::{Region, check_tiling};
pub use source::{Entry, FileId, MemorySource, Source, check_name, check_range};
pub use tree::{Node, NodeId, NodeKind, Tree};
pub use view::{CatalogView, StorageView, TensorView};
