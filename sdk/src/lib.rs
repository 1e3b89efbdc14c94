//! Write a format plugin for `ferry`: a library that teaches it to read or write one more format.
//!
//! A whole plugin, for IDX, the format of the MNIST data sets (their file endings vary; `.idx` is
//! ours). `ferry plugin new NAME` writes one for a format of several tensors, with its tests, to begin with. One file is one
//! tensor:
//!
//! ```text
//! 0        2 bytes    0, 0
//! 2        1 byte     the dtype: 8 U8, 9 I8, 11 I16, 12 I32, 13 F32, 14 F64
//! 3        1 byte     r: how many dimensions
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
//!     /// Two zeros at the beginning are too weak a magic: what is as long as its header says is an IDX file.
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
//!     /// Where the elements begin.
//!     fn begin(&self) -> u64 {
//!         4 + 4 * self.shape.len() as u64
//!     }
//!
//!     /// Where they end, if that can be said.
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
//!         // All of the rest: the host sees whether the shape fits into it, and never allocates by it.
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
//! // A round trip in memory.
//! let bytes = [&[0, 0, 11, 2, 0, 0, 0, 1, 0, 0, 0, 2][..], &[0x01, 0x02, 0x03, 0x04]].concat();
//! let (source, context) = (MemorySource::file("a.idx", bytes.clone()), MemoryContext::default());
//! let view = memory::MemoryView::read(&Idx, &[], &source, &context)?;
//! // Logical bytes are little-endian, whatever the file has.
//! assert_eq!(view.tensor_named("data")?, ("I16".into(), vec![1, 2], vec![2, 1, 4, 3]));
//! let output = memory::write(&Idx, &[], &view, &Target::File("b.idx".into()), &context)?;
//! assert_eq!(output.files["b.idx"], bytes);
//!
//! // What every format owes its host.
//! let sample = conformance::Sample::file("a.idx", bytes).holding(&["data"]);
//! let report = conformance::check(&Idx, &[sample]);
//! assert!(report.written > 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Building and installing
//!
//! A plugin is a dynamic library that depends on this crate alone. (Where programs are to link the formats
//! in as well, put them into a plain library crate with `pub fn formats() -> Vec<Box<dyn Format>>`, and
//! export that from a second crate: [`export_plugin!`] has a form for it.)
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib", "rlib"] # the rlib is for its tests
//!
//! [dependencies]
//! tensorferry-sdk = "0.1"
//! ```
//!
//! `ferry plugin test LIBRARY SAMPLE...` holds the built library to the rules of [`conformance`], as its own `cargo test` holds
//! the format.
//!
//! [`export_plugin!`] gives it the symbols that the host looks for, so it needs no `unsafe` code and
//! may `#![forbid(unsafe_code)]`. It has to be built with `panic = "unwind"`, the default. `cargo
//! build --release` leaves `target/release/lib*.so` (`.dylib`, `.dll`); `ferry` looks for libraries in
//! `--plugin-dir`, in the folders of `FERRY_PLUGIN_PATH`, in `plugins/` beside its executable, in
//! `../lib/ferry/plugins`, and in `ferry/plugins` of the user's data folder. `ferry plugin list` says
//! what was found where, and why a library was refused; `ferry plugin install` copies one into the last of these.
//! Opening a plugin runs its code, so that one which other users may write to, or whose folder or any above it they
//! may, is refused.
//!
//! The host opens a library when one of its formats is used, and knows from a cache what it described. A description
//! must therefore be the same each time, whatever the environment. Before that the library is opened once in a process of
//! its own: one that crashes, ends the process or takes more than ten seconds there is not opened again until
//! it changes. `ferry plugin check` looks anew, and shows what the library prints.
//!
//! A library built with an older SDK works in a newer host and the other way round, as long as the
//! ABI's major revision is the same; neither has to be built with the other's compiler.
//!
//! # Who does what
//!
//! - A **reader** describes: it reads headers and calls a [`CatalogSink`] with what is there, where its
//!   bytes lie, and how. Each call is checked before it returns, so that a header cannot point outside
//!   its file, claim a tensor twice, or exceed a limit; the reader passes the error on. Where bytes
//!   are compressed, it also returns what decodes them ([`TensorDecoder`]).
//! - A **writer** plans: it looks at a [`CatalogView`] and calls a [`LayoutSink`] with what is to lie
//!   where. Every tensor is written once, named as the alias of one that is, or left out with a loss.
//!   Bytes of the format's own, such as compressed ones, are encoded segment by segment, many at once, of a
//!   length that need not be known before ([`TensorPlan::encode`]); only a format that has to write in order
//!   streams a whole file ([`TensorPlan::stream`]). What depends on checksums and lengths comes last
//!   ([`TensorPlan::seal`]).
//! - The **host** does the rest: it opens and maps files, copies and transposes tensors, changes byte
//!   orders, computes checksums, on many threads; it reserves space, renames finished files into place,
//!   resumes, verifies, and reports progress. A plugin opens no file.
//!
//! Readers and writers are called from many threads. The same input and options give the same bytes;
//! when a new version of a plugin gives others, it raises [`Description::output_revision`].
//!
//! # Limits, errors, losses
//!
//! Input is hostile. Never allocate by a length that a file claims: [`Source::read_vec`] checks it
//! against the file and against [`Limits::header_bytes`] first. Do not recurse where a file decides how
//! deep. A panic does not end the host, but is reported as the plugin's fault.
//!
//! An [`Error`] has a kind, which says whose fault it is and decides the exit code, and its place: file,
//! tensor, offset, what was expected and what was found. What the output cannot hold is no error but a
//! [`Loss`]: the user is shown all of them, and can have a conversion end at the first. A writer reports
//! losses of what its [`Capabilities`] promise; the host itself reports the metadata, attributes, state and
//! ties that a format does not promise to keep. Losses go into a [`LossSink`] where they are found: the catalog, the
//! layout, and for records the sink that each call is given.
//!
//! # What is here
//!
//! Everything is at the crate's root but three modules:
//!
//! - [`memory`]: a host in memory, for unit tests;
//! - [`conformance`]: the tests that every format passes;
//! - [`mirror`]: how the traits cross the boundary; hosts use it, plugins do not.
//!
//! The root's items by what they are for: declaring a format ([`Format`], [`Description`],
//! [`Capabilities`], [`TypedOption`], [`Options`]); reading ([`TensorReader`], [`TensorDecoder`],
//! [`Source`], [`CatalogSink`], [`Storage`], [`Block`], [`Dtype`], [`DtypeInfo`], [`Node`], [`Tree`], [`Value`]);
//! writing ([`TensorWriter`], [`CatalogView`], [`LayoutSink`], [`TensorPart`], [`TensorPlan`], [`Digests`],
//! [`SealSink`]); both ([`Context`], [`Limits`], [`Error`], [`Loss`], [`LossSink`]); and what the sinks build,
//! for tests and hosts ([`Catalog`], [`Layout`]).
// Arrow's C structures are what needs unsafe code: `records/c_data.rs`, `c_shape.rs` and `c_import.rs` beside it.
#![cfg_attr(not(feature = "arrow-60"), forbid(unsafe_code))]
#![deny(unsafe_code)]
#![warn(missing_docs)]

/// The version of this SDK, which a plugin's manifest carries.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

mod block;
mod builder;
mod byte_sink;
mod cast;
mod catalog;
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
mod held;
mod layout;
mod layout_builder;
mod limits;
mod loss;
pub mod memory;
pub mod mirror;
mod options;
mod packed;
mod proof;
#[cfg(feature = "arrow-60")]
pub mod records;
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
    Capabilities, Description, Digests, EncodedPlace, EncodedStorage, Format, Magic, NothingEncoded,
    NothingToSeal, Score, SealSink, TensorDecoder, TensorPlan, TensorReader, TensorWriter,
};
pub use grid::{Edges, Grid, Tiles};
pub use layout::{
    Content, DeferredId, DigestId, DigestRequest, Encoded, EncodedId, Layout, LayoutSink, Order, OutputFile,
    OutputId, Placed, PlacedEncoded, Role, Segment, SourceRange, Target, TensorPart,
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
    ByteOrder, CastStorage, Compute, ComputedStorage, JoinedRanges, Place, ReadStorage, Storage, StorageId,
    StorageRange,
};
pub use tensor::{CODES_OF, Data, Tensor};
pub use tensor_id::TensorId;
pub use text::{hex, listed};
pub use tree::{Node, NodeId, NodeKind, Tree};
pub use typed_option::TypedOption;
pub use unique_names::UniqueNames;
pub use value::Value;
pub use view::{CatalogBytes, CatalogView, StorageView, TensorView};
