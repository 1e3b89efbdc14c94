//! Builds checkpoints by hand and reads them through the in-memory host.

use tensorferry_deepspeed::DeepSpeed;
pub(crate) use tensorferry_sdk::memory::pairs as options;
use tensorferry_sdk::{Catalog, Error, MemorySource, Result};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::pickle::{call, dict, global, int, ints, list, pickle, storage, tensor, text};
use tensorferry_test_kit::tensors::{self, floats, with_view};
use tensorferry_test_kit::zip::Zip;

pub(crate) type Entries = Vec<(&'static str, Vec<u8>)>;

pub(crate) const NONE: &[u8] = b"N";
pub(crate) const MODEL: &str = "mp_rank_00_model_states.pt";

/// A file in the format of `torch.save`, which contains a dict and the storages of its tensors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Saved {
    pub(crate) entries: Entries,
    pub(crate) storages: Vec<Vec<u8>>,
}

impl Saved {
    /// Adds a storage with these values and returns an F32 tensor in it.
    pub(crate) fn floats(&mut self, values: &[f32], dims: &[i64]) -> Vec<u8> {
        self.tensor("FloatStorage", values.iter().flat_map(|value| value.to_le_bytes()).collect(), 4, dims)
    }

    pub(crate) fn tensor(&mut self, class: &str, bytes: Vec<u8>, width: usize, dims: &[i64]) -> Vec<u8> {
        let len = i64::try_from(bytes.len() / width).unwrap();
        let key = self.storages.len().to_string();
        self.storages.push(bytes);
        let strides: Vec<i64> = (0..dims.len()).map(|dim| dims[dim + 1..].iter().product()).collect();
        tensor(storage(class, &key, len), 0, dims, &strides)
    }

    pub(crate) fn set(&mut self, key: &'static str, value: Vec<u8>) {
        self.entries.retain(|(other, _)| *other != key);
        self.entries.push((key, value));
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.wrapped(|dict| dict)
    }

    /// Returns the bytes of the file, after applying `wrap` to the pickled dict.
    pub(crate) fn wrapped(&self, wrap: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
        let entries: Vec<_> = self.entries.iter().map(|(key, value)| (text(key), value.clone())).collect();
        let storages: Vec<&[u8]> = self.storages.iter().map(Vec::as_slice).collect();
        Zip::torch(&pickle(&wrap(dict(&entries))), &storages).bytes()
    }
}

/// Returns a pickled dict with names as keys.
pub(crate) fn names(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    dict(&entries.iter().map(|(name, value)| (text(name), value.clone())).collect::<Vec<_>>())
}

pub(crate) fn size(dims: &[i64]) -> Vec<u8> {
    call(&global("torch", "Size"), &[ints(dims)])
}

/// A run with two ranks. The first group has the parameters `a` [3] and `b` [2, 3], and the second
/// group has `c` [2]. `tied` is an additional name for `b`, and `frozen` [3] was not trained.
/// `count` is an I64 buffer, and `mean` is a BF16 buffer.
pub(crate) struct Run {
    pub(crate) stage: u8,
    pub(crate) model: Vec<Saved>,
    pub(crate) optimizer: Vec<Saved>,
}

/// Values of the run's parameters.
pub(crate) const A: [f32; 3] = [1.0, 2.0, 3.0];
pub(crate) const B: [f32; 6] = [4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
pub(crate) const C: [f32; 2] = [10.0, 11.0];
pub(crate) const FROZEN: [f32; 3] = [-1.0, -2.0, -3.0];

impl Run {
    pub(crate) fn of_stage(stage: u8) -> Self {
        let model = (0..if stage == 3 { 2 } else { 1 }).map(|rank| model_states(stage, rank)).collect();
        let optimizer = (0..2).map(|rank| optimizer_states(stage, rank)).collect();
        Self { stage, model, optimizer }
    }

    pub(crate) fn optimizer_name(rank: usize) -> String {
        format!("zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    }

    pub(crate) fn model_name(&self, rank: usize) -> String {
        if self.stage == 3 {
            format!("zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        } else {
            MODEL.to_owned()
        }
    }

    /// Returns the files of the run, including `latest`, which contains the name of their folder.
    pub(crate) fn files(&self) -> Files {
        let model = (0..).zip(&self.model).map(|(rank, saved)| (self.model_name(rank), saved.bytes()));
        let optimizer =
            (0..).zip(&self.optimizer).map(|(rank, saved)| (Self::optimizer_name(rank), saved.bytes()));
        let mut files: Files =
            model.chain(optimizer).map(|(name, bytes)| (format!("step/{name}"), bytes)).collect();
        files.insert("latest".to_owned(), b"step".to_vec());
        files
    }

    pub(crate) fn error(&self) -> String {
        error(self.files())
    }
}

fn model_states(stage: u8, rank: usize) -> Saved {
    let mut saved = Saved::default();
    let count = saved.tensor("LongStorage", 5_i64.to_le_bytes().to_vec(), 8, &[]);
    // The values 1.5 and -2.0 in BF16.
    let mean = saved.tensor("BFloat16Storage", vec![0xc0, 0x3f, 0x00, 0xc0], 2, &[2]);
    let (mut module, fragment);
    if stage == 3 {
        let empty = saved.floats(&[], &[0]);
        module = ["a", "b", "c", "frozen", "tied"].map(|name| (name, empty.clone())).to_vec();
        let share: &[f32] = if rank == 0 { &FROZEN[..2] } else { &[FROZEN[2], 99.0] };
        fragment = saved.floats(share, &[2]);
    } else {
        let b = saved.floats(&B, &[2, 3]);
        module =
            vec![("a", saved.floats(&A, &[3])), ("b", b.clone()), ("c", saved.floats(&C, &[2])), ("tied", b)];
        fragment = saved.floats(&FROZEN, &[3]);
        module.push(("frozen", fragment.clone()));
    }
    module.extend([("count", count), ("mean", mean)]);
    saved.set("module", names(&module));
    saved.set("buffer_names", list(&[text("count"), text("mean")]));
    let groups = [names(&[("a", size(&[3])), ("b", size(&[2, 3]))]), names(&[("c", size(&[2]))])];
    saved.set("param_shapes", list(&groups));
    saved.set("frozen_param_shapes", names(&[("frozen", size(&[3]))]));
    saved.set("frozen_param_fragments", names(&[("frozen", fragment)]));
    saved.set("shared_params", names(&[("tied", text("b"))]));
    saved
}

/// Returns a rank's pieces of the two groups.
pub(crate) fn pieces(stage: u8, rank: usize) -> [Vec<f32>; 2] {
    match (stage, rank) {
        // Two elements of `a`, three of `b` and one of `c`; the rest is padding.
        (3, 0) => [vec![1.0, 2.0, 4.0, 5.0, 6.0], vec![10.0]],
        (3, _) => [vec![3.0, 99.0, 7.0, 8.0, 9.0], vec![11.0]],
        (_, 0) => [vec![1.0, 2.0, 3.0, 4.0, 5.0], vec![10.0]],
        (_, _) => [vec![6.0, 7.0, 8.0, 9.0], vec![11.0]],
    }
}

fn optimizer_states(stage: u8, rank: usize) -> Saved {
    let mut saved = Saved::default();
    let groups = pieces(stage, rank);
    let weights: Vec<Vec<u8>> =
        groups.iter().map(|group| saved.floats(group, &[i64::try_from(group.len()).unwrap()])).collect();
    let mut state = Vec::new();
    for (index, group) in (0..).zip(&groups) {
        // In stages 1 and 2, the optimizer's vectors still contain padding.
        let mut moments: Vec<f32> = group.iter().map(|value| value / 2.0).collect();
        moments.push(77.0);
        if stage == 3 {
            moments.pop();
        }
        let moments = saved.floats(&moments, &[i64::try_from(moments.len()).unwrap()]);
        let step = saved.floats(&[2.0], &[]);
        state.push((int(index), names(&[("step", step), ("exp_avg", moments), ("count", int(4))])));
    }
    let kept = names(&[("state", dict(&state)), ("param_groups", list(&[]))]);
    let (weights_key, kept_key) = match stage {
        3 => ("fp32_flat_groups", "optimizer_state_dict"),
        _ => ("single_partition_of_fp32_groups", "base_optimizer_state"),
    };
    let stage_class = global("deepspeed.runtime.zero.config", "ZeroStageEnum");
    let partitions = if stage == 3 { int(2) } else { list(&[int(2), int(2)]) };
    let entries = [
        ("zero_stage", call(&stage_class, &[int(stage.into())])),
        ("partition_count", partitions),
        (weights_key, list(&weights)),
        (kept_key, kept),
        // An object that is created directly from its class, without a function call.
        ("loss_scaler", [&global("deepspeed.runtime.fp16.loss_scaler", "LossScaler")[..], b")\x81"].concat()),
    ];
    saved.set("optimizer_state_dict", names(&entries));
    saved
}

pub(crate) fn catalog(files: Files, given: &[(&str, &str)]) -> Result<Catalog> {
    tensors::catalog(&DeepSpeed, files, given)
}

/// Returns the error message for a checkpoint, including the hint.
pub(crate) fn error(files: Files) -> String {
    with_hint(&catalog(files, &[]).unwrap_err())
}

pub(crate) fn with_hint(error: &Error) -> String {
    let hint = error.details().find(|(name, _)| *name == "hint");
    format!("{error} {}", hint.map(|(_, text)| text).unwrap_or_default())
}

/// Returns the name, dtype and shape of each tensor, and the values of F32 tensors.
pub(crate) fn tensors(files: Files, given: &[(&str, &str)]) -> Vec<(String, String, Vec<u64>, Vec<f32>)> {
    with_view(&DeepSpeed, &MemorySource::folder(files), given, |view| {
        let tensor = |name: &String| {
            let (dtype, shape, bytes) = view.tensor_named(name).unwrap();
            let values = if dtype == "F32" { floats(&bytes) } else { Vec::new() };
            (name.clone(), dtype, shape, values)
        };
        view.catalog().tensors().iter().map(|entry| tensor(&entry.name)).collect()
    })
    .unwrap()
}
