//! Containers for a hostile pickle. In each, the pickle is the object of an otherwise valid file.

use std::path::{Path, PathBuf};
use tensorferry_test_kit::pickle::{
    call, dict, global, int, ints, list, pickle, storage, tensor, text, tuple,
};
use tensorferry_test_kit::tar::tar;
use tensorferry_test_kit::zip::Zip;

/// The bytes of storage `0` in each container.
pub(crate) const STORAGE: [u8; 16] = [7; 16];

/// Returns an F32 tensor that covers the whole storage.
pub(crate) fn float() -> Vec<u8> {
    tensor(storage("FloatStorage", "0", 4), 0, &[4], &[1])
}

/// The files of a container. The first file is the one to pass to the program.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) container: &'static str,
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl Files {
    fn new(container: &'static str, files: &[(&str, Vec<u8>)]) -> Self {
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect();
        Self { container, files }
    }

    /// Writes the files, and returns the path to pass.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        for (name, bytes) in &self.files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        folder.join(&self.files[0].0)
    }
}

/// Returns each container with a pickle as its object. The pickle may refer only to storage `0`.
pub(crate) fn around(object: &[u8], has_storage: bool) -> Vec<Files> {
    let storages: &[&[u8]] = if has_storage { &[&STORAGE] } else { &[] };
    let archive = || Zip::torch(object, storages).bytes();
    let mut all = vec![
        Files::new("zip", &[("model.pt", archive())]),
        Files::new("stream", &[("model.pt", stream(object, has_storage))]),
        Files::new("script", &[("model.pt", script(object, storages))]),
        Files::new("exported", &[("model.pt2", exported(&archive()))]),
        Files::new("shards", &shards(archive())),
        Files::new("distributed", &distributed(&archive())),
    ];
    if !has_storage {
        all.push(Files::new("tar", &[("model.pt", in_tar(object))]));
    }
    all
}

/// Returns files in which the pickle replaces a table or dict that the reader needs.
pub(crate) fn instead_of_tables(object: &[u8]) -> Vec<Files> {
    let archive = Zip::torch(object, &[]).bytes();
    let model = ("step/mp_rank_00_model_states.pt", archive.clone());
    let optimizer = ("step/zero_pp_rank_0_mp_rank_00_optim_states.pt", archive);
    vec![
        Files::new("table", &[(".metadata", object.to_vec())]),
        Files::new("deepspeed", &[("latest", b"step".to_vec()), model, optimizer]),
    ]
}

fn stream(object: &[u8], has_storage: bool) -> Vec<u8> {
    let magic = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    let keys = if has_storage { list(&[text("0")]) } else { list(&[]) };
    let head = [&magic[..], &int(1001), &dict(&[])].map(pickle).concat();
    let data = if has_storage { [&4_i64.to_le_bytes()[..], &STORAGE].concat() } else { Vec::new() };
    [head, object.to_vec(), pickle(&keys), data].concat()
}

fn script(object: &[u8], storages: &[&[u8]]) -> Vec<u8> {
    let mut zip = Zip::torch(object, storages);
    zip.add("constants.pkl", &pickle(&tuple(&[])));
    zip.bytes()
}

fn exported(weights: &[u8]) -> Vec<u8> {
    let mut zip = Zip::default();
    zip.add("archive_format", b"pt2");
    zip.add("models/model.json", b"{}");
    zip.add("data/weights/model.pt", weights);
    zip.add(".data/version", b"6\n");
    zip.bytes()
}

fn shards(archive: Vec<u8>) -> [(&'static str, Vec<u8>); 3] {
    let other = Zip::torch(&pickle(&dict(&[(text("other"), float())])), &[&STORAGE]).bytes();
    let index = r#"{"weight_map": {"other": "pytorch_model-00001-of-00002.bin", "w": "pytorch_model-00002-of-00002.bin"}}"#;
    [
        ("pytorch_model.bin.index.json", index.into()),
        ("pytorch_model-00001-of-00002.bin", other),
        ("pytorch_model-00002-of-00002.bin", archive),
    ]
}

fn in_tar(object: &[u8]) -> Vec<u8> {
    let none = [pickle(&int(0)), pickle(&list(&[]))].concat();
    tar(&[("pickle", object.to_vec()), ("tensors", none.clone()), ("storages", none)])
}

/// Returns a checkpoint with one object.
fn distributed(archive: &[u8]) -> [(&'static str, Vec<u8>); 2] {
    let table = Table { described: vec![(text("x"), described())], stored: vec![stored("x", archive.len())] };
    [(".metadata", pickle(&table.metadata())), ("__0_0.distcp", archive.to_vec())]
}

/// The table of a distributed checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) described: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) stored: Vec<(Vec<u8>, Vec<u8>)>,
}

const METADATA: &str = "torch.distributed.checkpoint.metadata";

impl Table {
    pub(crate) fn metadata(&self) -> Vec<u8> {
        let state = [
            ("state_dict_metadata", dict(&self.described)),
            ("storage_data", dict(&self.stored)),
            ("planner_data", dict(&[])),
        ];
        object(METADATA, "Metadata", &state)
    }
}

/// Returns an object whose state is a dict.
pub(crate) fn object(module: &str, class: &str, state: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let state: Vec<_> = state.iter().map(|(key, value)| (text(key), value.clone())).collect();
    [&global(module, class)[..], b")\x81", &dict(&state), b"b"].concat()
}

/// Returns the table's entry for an object that is not a tensor.
pub(crate) fn described() -> Vec<u8> {
    object(METADATA, "BytesStorageMetadata", &[])
}

/// Returns the table's entry for a tensor.
pub(crate) fn described_tensor(dims: &[i64], chunks: Vec<u8>) -> Vec<u8> {
    let state = tuple(&[global("torch", "float32"), global("torch", "strided"), b"\x89".to_vec()]);
    let properties = [&global(METADATA, "TensorProperties")[..], b")\x81", &state, b"b"].concat();
    let state = [("properties", properties), ("size", size(dims)), ("chunks", chunks)];
    object(METADATA, "TensorStorageMetadata", &state)
}

pub(crate) fn chunk(offsets: &[i64], sizes: &[i64]) -> Vec<u8> {
    object(METADATA, "ChunkStorageMetadata", &[("offsets", size(offsets)), ("sizes", size(sizes))])
}

/// Returns the entry for an object at the start of `__0_0.distcp`.
pub(crate) fn stored(name: &str, len: usize) -> (Vec<u8>, Vec<u8>) {
    (index(&text(name), b"N".to_vec()), place(len))
}

pub(crate) fn index(name: &[u8], offset: Vec<u8>) -> Vec<u8> {
    object(METADATA, "MetadataIndex", &[("fqn", name.to_vec()), ("offset", offset)])
}

pub(crate) fn place(len: usize) -> Vec<u8> {
    let state = [
        ("relative_path", text("__0_0.distcp")),
        ("offset", int(0)),
        ("length", int(i64::try_from(len).unwrap())),
        ("transform_descriptors", b"N".to_vec()),
    ];
    object("torch.distributed.checkpoint.filesystem", "_StorageInfo", &state)
}

pub(crate) fn size(dims: &[i64]) -> Vec<u8> {
    call(&global("torch", "Size"), &[ints(dims)])
}
