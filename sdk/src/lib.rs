//! Write a format plugin for `ferry`. A plugin is a library that enables ferry to read or write an
//! additional format.
//!
//! The following example is a complete plugin for IDX, the format of the MNIST datasets. The
//! suffixes of IDX files vary, and this example uses `.idx`. To start your own plugin, run `ferry
//! plugin new NAME`. This command generates a plugin, with tests, for a format whose files contain
//! several tensors. An IDX file contains one tensor:
//!
//! ```text
//! 0        2 bytes    0, 0
//! 2        1 byte     the dtype: 8 U8, 9 I8, 11 I16, 12 I32, 13 F32, 14 F64
//! 3        1 byte     r: the number of dimensions
//! 4        4 r bytes  the dimensions, each a u32, big-endian
//! 4 + 4 r  the rest   the elements, row-major, big-endian
//! ```
//!
//! ```
//! use tensorferry_sdk::*;
//!
//! const DTYPES: [(u8, Dtype); 6] = [
//!     (8, Dtype::U8), (9, Dtype::I8), (11, Dtype::I16), (12, Dtype::I32), (13, Dtype::F32), (14, Dtype::F64),
//! ];
//!
//! struct Idx;
//!
//! impl Format for Idx {
//!     fn describe(&self) -> Description {
//!         Description::new("idx", "IDX, as of MNIST")
//!             .suffixes([".idx"])
//!             .capabilities(Capabilities::READ | Capabilities::WRITE)
//!     }
//!
//!     /// Checks the length of the file, because two zeros are too weak as a magic.
//!     fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
//!         let fits = |header: &Header| header.end() == Some(source.len(header.file));
//!         let is_idx = Header::read(source, context).is_ok_and(|header| fits(&header));
//!         Ok(Some(if is_idx { Score::LIKELY } else { Score::NO }))
//!     }
//!
//!     fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
//!         Ok(Box::new(Idx))
//!     }
//!
//!     fn writer(&self, _options: &Options) -> Result<Box<dyn TensorWriter>> {
//!         Ok(Box::new(Idx))
//!     }
//! }
//!
//! struct Header {
//!     file: FileId,
//!     dtype: Dtype,
//!     shape: Vec<u64>,
//! }
//!
//! impl Header {
//!     fn read(source: &dyn Source, context: &dyn Context) -> Result<Self> {
//!         let path = source.entry().name();
//!         let file = source.open(path)?;
//!         let start = source.read_vec(file, 0, 4, context.limits())?;
//!         let &[0, 0, code, rank] = &start[..] else {
//!             return Err(Error::malformed("not an IDX file").file(path).offset(0));
//!         };
//!         let dtype = DTYPES.iter().find(|(number, _)| *number == code).map(|(_, dtype)| *dtype);
//!         let dtype = dtype.ok_or_else(|| {
//!             Error::malformed("no such dtype").file(path).offset(2).expected("8, 9 or 11 to 14").found(code)
//!         })?;
//!         let dims = source.read_vec(file, 4, 4 * u64::from(rank), context.limits())?;
//!         let dims = dims.chunks_exact(4).map(|d| u32::from_be_bytes([d[0], d[1], d[2], d[3]]));
//!         Ok(Self { file, dtype, shape: dims.map(u64::from).collect() })
//!     }
//!
//!     /// Returns the offset of the first element.
//!     fn begin(&self) -> u64 {
//!         4 + 4 * self.shape.len() as u64
//!     }
//!
//!     /// Returns the end of the elements, or `None` if it overflows.
//!     fn end(&self) -> Option<u64> {
//!         let bytes = self.dtype.info()?.bytes_of(element_count(&self.shape).ok()?).ok()?;
//!         self.begin().checked_add(bytes)
//!     }
//! }
//!
//! impl TensorReader for Idx {
//!     fn read(
//!         &self,
//!         source: &dyn Source,
//!         catalog: &mut dyn CatalogSink,
//!         context: &dyn Context,
//!     ) -> Result<Box<dyn TensorDecoder>> {
//!         let header = Header::read(source, context)?;
//!         // The rest of the file. The host checks that the shape fits before it allocates anything.
//!         let (file, begin) = (header.file, header.begin());
//!         let data = Storage::file(file, begin, source.len(file) - begin).byte_order(ByteOrder::Big);
//!         let storage = catalog.storage(data)?;
//!         catalog.tensor("data", header.dtype, &header.shape, storage, 0)?;
//!         Ok(Box::new(NothingEncoded))
//!     }
//! }
//!
//! impl TensorWriter for Idx {
//!     fn plan(
//!         &self,
//!         catalog: &dyn CatalogView,
//!         target: &Target,
//!         layout: &mut dyn LayoutSink,
//!         _context: &dyn Context,
//!     ) -> Result<Box<dyn TensorPlan>> {
//!         let mut kept = None;
//!         for id in catalog.tensor_ids() {
//!             let tensor = catalog.tensor(id);
//!             let code = DTYPES.iter().find(|(_, dtype)| *dtype == tensor.dtype).map(|(code, _)| *code);
//!             let dims: Option<Vec<u32>> = tensor.shape.iter().map(|&dim| u32::try_from(dim).ok()).collect();
//!             match (code, u8::try_from(tensor.shape.len()), dims) {
//!                 (Some(code), Ok(rank), Some(dims)) if kept.is_none() => kept = Some((id, code, rank, dims)),
//!                 _ => layout.omit(id, "an IDX file holds one tensor, of U8, I8, I16, I32, F32 or F64")?,
//!             }
//!         }
//!         let (id, code, rank, dims) = kept.ok_or_else(|| Error::unsupported("no tensor that IDX can hold"))?;
//!         let name = catalog.tensor(id).name;
//!         if name != "data" {
//!             layout.loss(Loss::new(LossKind::Name, name, "IDX has no names: it will be read as \"data\""))?;
//!         }
//!         let file = layout.file(target.file_or("data.idx"), Role::Data)?;
//!         layout.bytes(file, &[0, 0, code, rank])?;
//!         layout.bytes(file, &dims.into_iter().flat_map(u32::to_be_bytes).collect::<Vec<u8>>())?;
//!         layout.tensor(file, TensorPart { byte_order: ByteOrder::Big, ..TensorPart::whole(id) })?;
//!         Ok(Box::new(NothingToSeal))
//!     }
//! }
//!
//! export_plugin!(Idx);
//!
//! # fn main() -> Result<()> {
//! // Write and read a file in memory.
//! let bytes = [&[0, 0, 11, 2, 0, 0, 0, 1, 0, 0, 0, 2][..], &[0x01, 0x02, 0x03, 0x04]].concat();
//! let (source, context) = (MemorySource::file("a.idx", bytes.clone()), MemoryContext::default());
//! let view = memory::MemoryView::read(&Idx, &[], &source, &context)?;
//! // Logical bytes are little-endian, even if the file is not.
//! assert_eq!(view.tensor_named("data")?, ("I16".into(), vec![1, 2], vec![2, 1, 4, 3]));
//! let output = memory::write(&Idx, &[], &view, &Target::File("b.idx".into()), &context)?;
//! assert_eq!(output.files["b.idx"], bytes);
//!
//! // Run the checks that every format must pass.
//! let sample = conformance::Sample::file("a.idx", bytes).holding(&["data"]);
//! let report = conformance::check(&Idx, &[sample]);
//! assert!(report.written > 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Building and installing
//!
//! A plugin is a dynamic library whose only dependency on ferry is this crate. If programs should
//! also be able to link the formats, put them into a plain library crate with `pub fn formats() ->
//! Vec<Box<dyn Format>>`. Then export the formats from a second crate, with the third form of
//! [`export_plugin!`].
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib", "rlib"] # the rlib is for its tests
//!
//! [dependencies]
//! tensorferry-sdk = "0.1"
//! ```
//!
//! `ferry plugin test LIBRARY SAMPLE...` checks the built library against the rules of
//! [`conformance`]. The plugin's own `cargo test` checks the format against the same rules.
//!
//! [`export_plugin!`] defines the symbols that the host requires, so a plugin needs no `unsafe`
//! code and can use `#![forbid(unsafe_code)]`. Build the plugin with `panic = "unwind"`, which is
//! the default. `cargo build --release` writes `target/release/lib*.so` (`.dylib` on macOS, `.dll`
//! on Windows). `ferry` searches these folders for libraries:
//!
//! - `--plugin-dir`;
//! - the folders of `FERRY_PLUGIN_PATH`;
//! - `plugins/` next to the `ferry` executable;
//! - `../lib/ferry/plugins`, relative to the folder of the executable;
//! - `ferry/plugins` in the user's data folder.
//!
//! `ferry plugin list` shows the path of each library, and the reason why a library was refused.
//! `ferry plugin install` copies a library into the last of these folders. Opening a plugin runs
//! its code. ferry therefore refuses a library if other users can write to the library, its folder,
//! or any parent folder.
//!
//! The host opens a library when one of its formats is used, and caches the descriptions of its
//! formats. Descriptions must therefore never depend on the environment. Before the first use, the
//! host opens the library once in a separate process. If the library crashes, ends the process or
//! takes more than ten seconds, the host does not open it again until it changes. `ferry plugin
//! check` repeats this test and shows what the library prints.
//!
//! A library built with an older SDK works in a newer host and vice versa, as long as the ABI's
//! major revision is the same. The library and the host do not need to be built with the same
//! compiler.
//!
//! # Division of work
//!
//! - A **reader** describes the input. The reader reads headers, and describes the content of the
//!   input to a [`CatalogSink`], including the location and form of the bytes. Each call is checked
//!   before it returns, so a header cannot refer to bytes outside its file, declare a tensor twice,
//!   or exceed a limit. The reader must return such errors to the host. If bytes are compressed,
//!   the reader also returns a decoder ([`TensorDecoder`]).
//! - A **writer** plans the output. The writer reads a [`CatalogView`] and describes the location
//!   of all content to a [`LayoutSink`]. Every tensor must be written once, be declared as the
//!   alias of a written tensor, or be omitted with a loss. For compression and other special
//!   encodings, the plugin encodes segments, many of them concurrently. The length of a segment
//!   does not need to be known in advance ([`TensorPlan::encode`]). If a format must be written
//!   sequentially, the plugin streams the whole file ([`TensorPlan::stream`]). Bytes that depend on
//!   checksums and lengths are written last ([`TensorPlan::seal`]).
//! - The **host** does everything else. The host opens and maps files, copies and transposes
//!   tensors, changes byte orders and computes checksums on many threads. The host also reserves
//!   disk space, renames finished files, resumes interrupted runs, verifies outputs and reports
//!   progress. A plugin does not open files itself.
//!
//! Readers and writers are called from many threads. The same input and options must always produce
//! the same bytes. If a new version of a plugin writes different bytes, increase
//! [`Description::output_revision`].
//!
//! # Limits, errors and losses
//!
//! Treat every input as hostile. Never allocate a buffer whose length comes from a file without
//! checking that length. [`Source::read_vec`] first compares the length with the file size and
//! [`Limits::header_bytes`]. Do not recurse to a depth that a file controls. A panic does not end
//! the host process. The host reports the panic as a fault of the plugin.
//!
//! An [`Error`] has a kind, which identifies who must fix it and determines the exit code. The
//! error also contains the file, the tensor, the offset, and the expected and found values. Content
//! that the output format cannot store is a [`Loss`], not an error. The user sees all losses, and
//! can request that the conversion fail at the first loss. If a writer cannot keep content that its
//! [`Capabilities`] promise to keep, it reports a loss. The host reports the metadata, attributes,
//! state and ties that a format does not promise to keep. Report each loss to the nearest
//! [`LossSink`]: the catalog, the layout, or the sink that is passed to a call of a record format.
//!
//! # Overview
//!
//! All items are at the root of the crate, except for the items in these modules:
//!
//! - [`file_name`]: helpers for file names and their suffixes;
//! - `records`: record formats, with the feature `arrow-60`;
//! - [`memory`]: an in-memory host for unit tests;
//! - [`conformance`]: the tests that every format must pass;
//! - [`mirror`]: the conversion of the traits at the boundary, which is used by hosts but not by
//!   plugins.
//!
//! The items at the root, grouped by purpose:
//!
//! - Declaring a format: [`Format`], [`Description`], [`Capabilities`], [`TypedOption`],
//!   [`Options`].
//! - Reading: [`TensorReader`], [`TensorDecoder`], [`Source`], [`CatalogSink`], [`Storage`],
//!   [`Block`], [`Dtype`], [`DtypeInfo`], [`Node`], [`Tree`], [`Value`].
//! - Writing: [`TensorWriter`], [`CatalogView`], [`LayoutSink`], [`TensorPart`], [`TensorPlan`],
//!   [`Digests`], [`SealSink`].
//! - Reading and writing: [`Context`], [`Limits`], [`Error`], [`Loss`], [`LossSink`].
//! - Results of the sinks, for tests and hosts: [`Catalog`], [`Layout`].
// The conversions of Arrow's C structures need unsafe code: see `records/c_data.rs`, `c_shape.rs`
// and `c_import.rs`.
#![cfg_attr(not(feature = "arrow-60"), forbid(unsafe_code))]
#![deny(unsafe_code)]
#![warn(missing_docs)]

/// The version of this SDK, which every plugin's manifest contains.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

mod block;
mod builder;
mod byte_sink;
mod cast;
mod catalog;
mod catalog_checker;
mod computed;
pub mod conformance;
mod context;
mod digest;
mod dtype;
mod error;
#[doc(hidden)]
pub mod export;
pub mod file_name;
mod format;
mod grid;
mod layout;
mod layout_builder;
mod limits;
mod loss;
pub mod memory;
pub mod mirror;
mod options;
mod packed;
#[cfg(feature = "arrow-60")]
pub mod records;
mod reduction;
mod region;
mod shard_name;
mod shard_tag;
mod shared_bytes;
mod sharing;
mod source;
mod storage;
mod tensor;
mod tensor_id;
mod text;
mod tree;
mod typed_option;
mod unique_names;
mod value;
mod view;

pub use block::{Block, row_major_strides};
pub use builder::{CatalogBuilder, CatalogSink};
pub use byte_sink::ByteSink;
pub use catalog::Catalog;
pub use context::{Context, Level, MemoryContext, Purpose};
pub use digest::{Checksum, Digest, DigestAlgorithm, DigestValue, crc32c, crc32c_append};
pub use dtype::{Dtype, DtypeInfo, element_count};
pub use error::{Error, ErrorKind, Result};
pub use format::{
    Capabilities, Description, Digests, EncodedLocation, EncodedStorage, Format, Magic, NothingEncoded,
    NothingToSeal, Score, SealSink, TensorDecoder, TensorPlan, TensorReader, TensorWriter,
};
pub use grid::{Edges, Grid, Tiles};
pub use layout::{
    Content, DeferredId, DigestId, DigestRequest, Encoded, EncodedId, Layout, LayoutSink, Order, OutputFile,
    OutputId, PlacedEncoded, PlacedSegment, Role, Segment, SourceRange, Target, TensorPart,
};
pub use layout_builder::LayoutBuilder;
pub use limits::Limits;
pub use loss::{Loss, LossKind, LossSink, Severity};
#[cfg(feature = "arrow-60")]
pub use {arrow_array, arrow_schema};

pub use options::{OptionKind, OptionSpec, Options, Side, parse_size};
pub use region::{Region, check_tiling};
pub use shard_name::ShardName;
pub use shard_tag::ShardTag;
pub use shared_bytes::SharedBytes;
pub use source::{Entry, FileId, FileRange, MemorySource, Source, check_name, check_range, split_ranges};
pub use storage::{
    ByteOrder, CastStorage, Compute, ComputedStorage, JoinedRanges, ReadStorage, Storage, StorageId,
    StorageLocation, StorageRange,
};
pub use tensor::{CODES_OF, Data, Tensor};
pub use tensor_id::TensorId;
pub use text::{hex, listed};
pub use tree::{Node, NodeId, NodeKind, Tree};
pub use typed_option::TypedOption;
pub use unique_names::UniqueNames;
pub use value::Value;
pub use view::{CatalogBytes, CatalogView, StorageView, TensorView};
