//! Builds runs by hand and reads them through the in-memory host.

use std::collections::BTreeMap;
use tensorferry_megatron::Megatron;
use tensorferry_sdk::memory::MemoryView;
pub(crate) use tensorferry_sdk::memory::pairs as options;
use tensorferry_sdk::{Catalog, Limits, MemoryContext, MemorySource, Result};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::pickle::{dict, global, int, pickle, storage, tensor, text};
use tensorferry_test_kit::tensors::{self, contents, floats, with_view};
use tensorferry_test_kit::zip::Zip;

/// Names, shapes and values of the tensors in a rank's model. All are F32.
pub(crate) type Tensors = Vec<(String, Vec<i64>, Vec<f32>)>;

/// The content of a rank's file. It consists of arguments, which are integers, booleans or calls,
/// and the model.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rank {
    pub(crate) args: Vec<(&'static str, i64)>,
    pub(crate) flags: Vec<(&'static str, bool)>,
    /// Arguments whose values are calls of `os.system`.
    pub(crate) calls: Vec<&'static str>,
    /// One model per virtual stage.
    pub(crate) chunks: Vec<Tensors>,
    pub(crate) iteration: i64,
}

impl Rank {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut storages: Vec<Vec<u8>> = Vec::new();
        let mut entries = Vec::new();
        let args = self.args.iter().map(|(key, value)| (text(key), int(*value)));
        let flags = self.flags.iter().map(|(key, value)| (text(key), vec![if *value { 0x88 } else { 0x89 }]));
        let call = || [&global("os", "system")[..], &text("true"), b"\x85R"].concat();
        let calls = self.calls.iter().map(|key| (text(key), call()));
        let state = dict(&args.chain(flags).chain(calls).collect::<Vec<_>>());
        entries.push((text("args"), [&global("argparse", "Namespace")[..], b")\x81", &state, b"b"].concat()));
        entries.push((text("iteration"), int(self.iteration)));
        for (index, chunk) in self.chunks.iter().enumerate() {
            let mut tensors = Vec::new();
            for (name, dims, values) in chunk {
                let key = storages.len().to_string();
                storages.push(values.iter().flat_map(|value| value.to_le_bytes()).collect());
                let strides: Vec<i64> = (0..dims.len()).map(|dim| dims[dim + 1..].iter().product()).collect();
                let len = i64::try_from(values.len()).unwrap();
                tensors.push((text(name), tensor(storage("FloatStorage", &key, len), 0, dims, &strides)));
            }
            let key = if self.chunks.len() == 1 { "model".to_owned() } else { format!("model{index}") };
            entries.push((text(&key), dict(&tensors)));
        }
        let storages: Vec<&[u8]> = storages.iter().map(Vec::as_slice).collect();
        Zip::torch(&pickle(&dict(&entries)), &storages).bytes()
    }
}

pub(crate) fn one(name: &str, dims: &[i64], values: &[f32]) -> (String, Vec<i64>, Vec<f32>) {
    (name.to_owned(), dims.to_vec(), values.to_vec())
}

/// Returns a run that consists of these ranks. Each rank is paired with the numbers in the name of
/// its folder.
pub(crate) fn run(ranks: &[(&str, Rank)]) -> Files {
    let file = |(name, rank): &(&str, Rank)| {
        (format!("iter_0000005/mp_rank_{name}/model_optim_rng.pt"), rank.bytes())
    };
    let mut files: Files = ranks.iter().map(file).collect();
    files.insert("latest_checkpointed_iteration.txt".to_owned(), b"5".to_vec());
    files
}

pub(crate) fn catalog(files: Files, given: &[(&str, &str)]) -> Result<Catalog> {
    tensors::catalog(&Megatron, files, given)
}

pub(crate) fn error(files: Files, given: &[(&str, &str)]) -> String {
    let error = catalog(files, given).unwrap_err();
    let hint = error.details().find(|(name, _)| *name == "hint");
    format!("{error} {}", hint.map(|(_, text)| text).unwrap_or_default())
}

/// Reads a catalog with these limits, and without options.
pub(crate) fn limited(files: Files, limits: Limits) -> Result<Catalog> {
    let (source, context) = (MemorySource::folder(files), MemoryContext::new(limits));
    MemoryView::read(&Megatron, &[], &source, &context).map(|view| view.catalog().clone())
}

/// Returns the shape and values of each tensor.
pub(crate) fn tensors(files: Files, given: &[(&str, &str)]) -> BTreeMap<String, (Vec<u64>, Vec<f32>)> {
    let read = with_view(&Megatron, &MemorySource::folder(files), given, contents).unwrap().unwrap();
    read.into_iter().map(|(name, (_, shape, bytes))| (name, (shape, floats(&bytes)))).collect()
}
