//! Reads and writes files in the format of `torch.save`, for the plugins `torch`, `torch-dcp`,
//! `deepspeed` and `megatron`.
//!
//! | File | Contents |
//! |---|---|
//! | `container.rs` | detection of the container from the first bytes |
//! | `archive.rs` | the records of a zip archive |
//! | `object_file.rs`, `open.rs` | [`ObjectFile`]: the saved object as a graph, and the locations of its storages |
//! | `legacy.rs` | the object of a stream of pickles |
//! | `window.rs` | buffered headers of a legacy file |
//! | `tar.rs`, `tar/` | the object of a tar archive |
//! | `described.rs` | calls that rebuild tensors, for files whose pickles do not contain them |
//! | `pickle/` | the graph of a pickle |
//! | `rebuild/` | [`RebuiltTensor`](rebuild::RebuiltTensor): the tensors that torch's rebuild functions would create |
//! | `storages.rs` | [`Storages`]: views as tensors, or blocks of tensors, of a catalog |
//! | `decoding.rs`, `decoded.rs` | reading the values that quantized and sparse tensors represent |
//! | `lazy/` | bytes that are computed on demand |
//! | `budget.rs` | a limit on the bytes that are copied out of a graph |
//! | `dtype.rs` | torch's dtypes and their storage classes |
//! | `numpy.rs` | numpy's arrays and scalars |
//! | `flatten/`, `names.rs` | a whole graph as tensors and a tree |
//! | `calls.rs`, `data_calls.rs`, `call_losses.rs` | calls in a pickle whose results are unknown |
//! | `pickle_writer.rs`, `plain_copy.rs`, `written_tensor.rs`, `written_archive.rs` | writing pickles, tensors in pickles, and archives |
//!
//! ```
//! # use tensorferry_sdk::*;
//! use tensorferry_torch_file::{Extent, ObjectFile, Storages, ViewLocation, rebuild};
//!
//! // The blocks of the tensor under a key of a saved dict.
//! fn blocks(
//!     source: &dyn Source,
//!     key: &str,
//!     storages: &mut Storages,
//!     catalog: &mut dyn CatalogSink,
//!     context: &dyn Context,
//! ) -> Result<Option<Vec<Block>>> {
//!     let file = source.open(source.entry().name())?;
//!     let object = ObjectFile::open(source, Extent::whole(source, file), context)?;
//!     let Some(value) = object.graph().entry(object.root(), key) else { return Ok(None) };
//!     let Some(rebuild::RebuiltTensor::View(view)) = rebuild::tensor(object.graph(), value)? else { return Ok(None) };
//!     Ok(match storages.locate(catalog, &object, &view)? {
//!         ViewLocation::Found(location) => Some(location.blocks()),
//!         ViewLocation::Lost(_) => None,
//!     })
//! }
//! ```
//!
//! A pickle is a program, but this crate never executes its calls. [`pickle`] evaluates the pickle
//! to inert values and records the calls. ferry reports to the user which functions the pickle
//! would have called.
//!
//! Sources: `torch/serialization.py`, `torch/_utils.py` and `caffe2/serialize/inline_container.cc`
//! in PyTorch 2.15, and files that this version wrote.
#![forbid(unsafe_code)]

pub mod archive;
mod budget;
mod call_losses;
mod calls;
mod container;
mod data_calls;
mod decoded;
mod decoding;
mod described;
mod dtype;
mod flatten;
mod lazy;
mod legacy;
mod names;
mod numpy;
mod object_file;
mod open;
mod persistent_id;
pub mod pickle;
pub mod pickle_writer;
mod plain_copy;
pub mod rebuild;
mod storages;
mod tar;
mod window;
mod written_archive;
mod written_tensor;

pub use budget::Budget;
pub use call_losses::Calls;
pub use container::Container;
pub use decoding::Decoding;
pub use described::{DescribedStorage, DescribedTensor};
pub use dtype::TorchDtype;
pub use flatten::{Destination, FlattenedObject, NEW, flatten};
pub use lazy::LazyView;
pub use names::Names;
pub use object_file::ObjectFile;
pub use pickle_writer::PickleWriter;
pub use plain_copy::{ClassName, push_plain};
pub use storages::{Location, Storages, ViewLocation};
pub use tensorferry_zip::{Extent, ZipPlan};
pub use written_archive::WrittenArchive;
pub use written_tensor::{WholeTensor, WrittenTensor, contiguous_strides};
