//! Builds checkpoints by hand and reads them through the in-memory host.

use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Catalog, Context, MemoryContext, MemorySource, Result};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::pickle::{
    call, dict, global, int, ints, list, pickle, storage, tensor, text, tuple,
};
use tensorferry_test_kit::tensors::floats;
use tensorferry_test_kit::zip::Zip;
use tensorferry_torch_dcp::TorchDcp;

const METADATA: &str = "torch.distributed.checkpoint.metadata";
const FILESYSTEM: &str = "torch.distributed.checkpoint.filesystem";

pub(crate) const NONE: &[u8] = b"N";

/// Returns a pickled object whose state is a dict.
pub(crate) fn object(module: &str, class: &str, state: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let state: Vec<_> = state.iter().map(|(key, value)| (text(key), value.clone())).collect();
    [&global(module, class)[..], b")\x81", &dict(&state), b"b"].concat()
}

pub(crate) fn size(dims: &[i64]) -> Vec<u8> {
    call(&global("torch", "Size"), &[ints(dims)])
}

/// The entries of the dicts in a checkpoint's table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) described: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) stored: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) paths: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The location of an archive in a data file.
#[derive(Debug, Clone)]
pub(crate) struct At {
    pub(crate) file: String,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) transforms: Vec<u8>,
}

impl At {
    pub(crate) fn new(file: &str, offset: usize, len: usize) -> Self {
        Self { file: file.to_owned(), offset, len, transforms: NONE.to_vec() }
    }
}

impl Table {
    /// Adds the description of a tensor with the given chunks.
    pub(crate) fn tensor(&mut self, name: &str, dtype: &str, dims: &[i64], chunks: &[(&[i64], &[i64])]) {
        let state = [global("torch", dtype), global("torch", "strided"), b"\x89".to_vec()];
        let properties = [&global(METADATA, "TensorProperties")[..], b")\x81", &tuple(&state), b"b"].concat();
        let chunks: Vec<Vec<u8>> = chunks
            .iter()
            .map(|(offsets, sizes)| {
                object(
                    METADATA,
                    "ChunkStorageMetadata",
                    &[("offsets", size(offsets)), ("sizes", size(sizes))],
                )
            })
            .collect();
        let state = [("properties", properties), ("size", size(dims)), ("chunks", list(&chunks))];
        self.described.push((text(name), object(METADATA, "TensorStorageMetadata", &state)));
    }

    pub(crate) fn object(&mut self, name: &str) {
        self.described.push((text(name), object(METADATA, "BytesStorageMetadata", &[])));
    }

    pub(crate) fn stored(&mut self, name: &str, offsets: Option<&[i64]>, at: &At) {
        let offsets = offsets.map_or_else(|| NONE.to_vec(), size);
        let index = object(METADATA, "MetadataIndex", &[("fqn", text(name)), ("offset", offsets)]);
        let number = |number: usize| int(i64::try_from(number).unwrap());
        let state = [
            ("relative_path", text(&at.file)),
            ("offset", number(at.offset)),
            ("length", number(at.len)),
            ("transform_descriptors", at.transforms.clone()),
        ];
        self.stored.push((index, object(FILESYSTEM, "_StorageInfo", &state)));
    }

    pub(crate) fn path(&mut self, name: &str, steps: &[Vec<u8>]) {
        self.paths.push((text(name), tuple(steps)));
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let state = [
            ("state_dict_metadata", dict(&self.described)),
            ("storage_data", dict(&self.stored)),
            ("planner_data", dict(&self.paths)),
        ];
        pickle(&object(METADATA, "Metadata", &state))
    }
}

/// Returns an archive that contains an F32 tensor.
pub(crate) fn archive(values: &[f32], dims: &[i64], strides: &[i64]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let len = i64::try_from(values.len()).unwrap();
    Zip::torch(&pickle(&tensor(storage("FloatStorage", "0", len), 0, dims, strides)), &[&bytes]).bytes()
}

/// Returns an archive that contains an object without tensors.
pub(crate) fn saved(object: &[u8]) -> Vec<u8> {
    Zip::torch(&pickle(object), &[]).bytes()
}

/// A checkpoint of two ranks. The checkpoint contains an object and `model.w`, a tensor with three
/// rows. Two of the rows are in rank 0's file.
pub(crate) struct Sample {
    pub(crate) table: Table,
    pub(crate) files: Files,
    /// Locations of the two chunks of `model.w`, followed by the location of the object.
    pub(crate) places: [At; 3],
}

pub(crate) const CHUNKS: [(&[i64], &[i64]); 2] = [(&[0, 0], &[2, 2]), (&[2, 0], &[1, 2])];

impl Sample {
    pub(crate) fn new() -> Self {
        let first = archive(&[1.0, 2.0, 3.0, 4.0], &[2, 2], &[2, 1]);
        let epoch = saved(&int(7));
        let second = archive(&[5.0, 6.0], &[1, 2], &[2, 1]);
        let places = [
            At::new("__0_0.distcp", epoch.len(), first.len()),
            At::new("__1_0.distcp", 0, second.len()),
            At::new("__0_0.distcp", 0, epoch.len()),
        ];
        let files = [("__0_0.distcp", [epoch, first].concat()), ("__1_0.distcp", second)];
        let files = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        let mut sample = Self { table: Table::default(), files, places };
        sample.describe(&CHUNKS);
        sample
    }

    /// Sets the chunks of `model.w` and their locations.
    pub(crate) fn describe(&mut self, chunks: &[(&[i64], &[i64])]) {
        self.table = Table::default();
        self.table.tensor("model.w", "float32", &[3, 2], chunks);
        self.table.object("epoch");
        self.table.path("model.w", &[text("model"), text("w")]);
        self.table.path("epoch", &[text("epoch")]);
        for ((offsets, _), at) in chunks.iter().zip(&self.places.clone()[..2]) {
            self.table.stored("model.w", Some(offsets), at);
        }
        self.table.stored("epoch", None, &self.places[2].clone());
    }

    /// Returns the checkpoint's files, including the current table.
    pub(crate) fn files(&self) -> Files {
        let mut files = self.files.clone();
        files.insert(".metadata".to_owned(), self.table.bytes());
        files
    }

    pub(crate) fn error(&self) -> String {
        error(self.files())
    }
}

pub(crate) fn source(files: Files) -> MemorySource {
    MemorySource::folder(files)
}

pub(crate) fn catalog(files: Files) -> Result<Catalog> {
    with_context(files, &MemoryContext::default())
}

pub(crate) fn with_context(files: Files, context: &dyn Context) -> Result<Catalog> {
    MemoryView::read(&TorchDcp, &[], &source(files), context).map(|view| view.catalog().clone())
}

/// Reads an invalid checkpoint and returns the error message.
pub(crate) fn error(files: Files) -> String {
    catalog(files).unwrap_err().to_string()
}

/// Reads a checkpoint and returns the shape and the values of a tensor.
pub(crate) fn values(files: Files, name: &str) -> (Vec<u64>, Vec<f32>) {
    let (source, context) = (source(files), MemoryContext::default());
    let view = MemoryView::read(&TorchDcp, &[], &source, &context).unwrap();
    let (dtype, shape, bytes) = view.tensor_named(name).unwrap();
    assert_eq!(dtype, "F32");
    (shape, floats(&bytes))
}
