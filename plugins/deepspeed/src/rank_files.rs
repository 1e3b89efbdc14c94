//! Finds the files of a checkpoint by the ranks in the file names.
//!
//! With tensor or pipeline parallelism, the files of other ranks contain different parts of the
//! tensors in rank 0's file. Such files are joined or rejected according to their names, so that a
//! part is never mistaken for a whole tensor.

use crate::tags::{newest, only_step, tag_options};
use std::collections::BTreeMap;
use tensorferry_sdk::{Entry, Error, ErrorKind, Result, Source, check_name};

const MODEL: &str = "_model_states.pt";
const OPTIMIZER: &str = "_optim_states.pt";
/// Prefixes that the optimizers for half-precision training add to file names.
const PREFIXES: [&str; 3] = ["", "bf16_", "fp16_"];
/// A file that only universal checkpoints contain.
const UNIVERSAL: &str = "zero/optimizer_state.pt";
/// Maximum number of file names that an error lists.
const MAX_NAMED: usize = 20;

/// The files of one checkpoint. Their names are relative to the user's input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RankFiles {
    /// The folder of the checkpoint, with a slash at the end. Empty if the folder is the input
    /// itself.
    pub(crate) folder: String,
    /// Whether each rank has its own model states (stage 3).
    pub(crate) is_partitioned: bool,
    /// Whether each parameter is stored whole, in its own files.
    pub(crate) is_universal: bool,
    /// Model states, by rank.
    model: BTreeMap<u64, String>,
    /// Optimizer states, by rank.
    optimizer: BTreeMap<u64, String>,
    /// Model states of tensor ranks other than 0, by rank. Each contains the rank's part of the
    /// module.
    parts: BTreeMap<u64, String>,
    /// For each layer of a pipeline, the layer's files by tensor rank.
    layers: BTreeMap<u64, BTreeMap<u64, String>>,
    /// Optimizer states of tensor ranks other than 0, whose vectors cannot be joined.
    part_of_vectors: Vec<String>,
    /// A file that exists only with tensor or pipeline parallelism, if such a file was found.
    parallel: Option<String>,
}

/// Content of a file according to its name.
#[derive(Debug, PartialEq, Eq)]
enum FileKind {
    Model {
        rank: Option<u64>,
    },
    Optimizer {
        rank: u64,
    },
    /// The parts of the module on a tensor rank other than 0.
    ModuleShard {
        rank: u64,
    },
    /// The optimizer states of a tensor rank other than 0.
    OptimizerShard,
    /// The parts of one pipeline layer on a tensor rank.
    Layer {
        layer: u64,
        rank: u64,
    },
    /// A part of the checkpoint that cannot be read, and the reason.
    Unsupported(&'static str),
    Other,
}

/// Finds the files of the checkpoint that the user selected. The checkpoint is in the folder named
/// by `tag`, or otherwise in the folder named by the file `latest`. Without these names, the
/// checkpoint is the input folder itself, or the only step in that folder.
pub(crate) fn find(source: &dyn Source, tag: Option<&str>) -> Result<RankFiles> {
    let tag = match (tag, newest(source)?) {
        (Some(tag), _) => Some(tag.to_owned()),
        (None, Some(newest)) => Some(newest),
        (None, None) if *source.entry() == Entry::Folder && !is_checkpoint(&source.list("")?) => {
            only_step(source)?
        }
        (None, None) => None,
    };
    let folder = match tag {
        Some(tag) => {
            check_name(&tag)?;
            format!("{tag}/")
        }
        None => String::new(),
    };
    let names = match list(source, &folder) {
        Ok(names) if !names.is_empty() || folder.is_empty() => names,
        Err(error) if error.kind() != ErrorKind::Malformed => return Err(error),
        _ => {
            let error = no_folder(&folder);
            return Err(tag_options(source).map_or(error.clone(), |tags| error.hint(format!("pass {tags}"))));
        }
    };
    let mut files = RankFiles {
        is_partitioned: false,
        is_universal: source.contains(&format!("{folder}{UNIVERSAL}"))?,
        model: BTreeMap::new(),
        optimizer: BTreeMap::new(),
        parts: BTreeMap::new(),
        layers: BTreeMap::new(),
        part_of_vectors: Vec::new(),
        parallel: None,
        folder,
    };
    let mut whole = None;
    for path in names {
        let name = path.get(files.folder.len()..).unwrap_or_default();
        let kind = kind(name);
        if matches!(kind, FileKind::ModuleShard { .. } | FileKind::OptimizerShard | FileKind::Layer { .. }) {
            files.parallel.get_or_insert_with(|| path.clone());
        }
        let before = match kind {
            FileKind::Unsupported(why) => return Err(Error::unsupported(why).file(path)),
            FileKind::Other => None,
            FileKind::OptimizerShard => {
                files.part_of_vectors.push(path.clone());
                None
            }
            FileKind::ModuleShard { rank } => files.parts.insert(rank, path.clone()),
            FileKind::Layer { layer, rank } => {
                files.layers.entry(layer).or_default().insert(rank, path.clone())
            }
            FileKind::Model { rank: None } => whole.replace(path.clone()),
            FileKind::Model { rank: Some(rank) } => files.model.insert(rank, path.clone()),
            FileKind::Optimizer { rank } => files.optimizer.insert(rank, path.clone()),
        };
        if let Some(before) = before {
            let error = Error::malformed("two files for one rank").hint("remove the files of earlier runs");
            return Err(error.file(path).found(before));
        }
    }
    files.is_partitioned = !files.model.is_empty();
    match whole {
        Some(whole) if files.is_partitioned => {
            let error = Error::malformed("model states of stage 3 next to those of a different stage")
                .hint("remove the files of earlier runs");
            Err(error.file(whole))
        }
        Some(whole) => {
            files.model.insert(0, whole);
            Ok(files)
        }
        None if files.is_partitioned || !files.layers.is_empty() => Ok(files),
        None => Err(Error::malformed("no model states in the folder")
            .file(files.folder.trim_end_matches('/'))
            .expected(format!("mp_rank_00{MODEL} or zero_pp_rank_0_mp_rank_00{MODEL}"))),
    }
}

/// Lists the files in a folder. Returns a specific error if the folder does not exist.
pub(crate) fn list(source: &dyn Source, folder: &str) -> Result<Vec<String>> {
    source.list(folder).map_err(|error| match error.kind() {
        ErrorKind::Io => no_folder(folder),
        _ => error,
    })
}

fn no_folder(folder: &str) -> Error {
    Error::malformed("no such folder").file(folder.trim_end_matches('/'))
}

/// Returns whether any of these names is the name of a checkpoint file.
pub(crate) fn is_checkpoint(names: &[String]) -> bool {
    names.iter().any(|path| kind(path.rsplit('/').next().unwrap_or_default()) != FileKind::Other)
}

impl RankFiles {
    /// Returns whether the module is split across several tensor ranks, or across the files of a
    /// pipeline's layers.
    pub(crate) fn is_parallel(&self) -> bool {
        self.parallel.is_some()
    }

    /// Returns an error if the checkpoint uses tensor or pipeline parallelism.
    pub(crate) fn check_data_parallel_only(&self) -> Result<()> {
        self.parallel.as_ref().map_or(Ok(()), |file| {
            let error =
                Error::unsupported("the vectors of tensor- or pipeline-parallel ranks are not joined")
                    .hint("pass -i state=model to read the module as it ran");
            Err(error.file(file))
        })
    }

    /// Returns the files with the model states of all tensor ranks.
    pub(crate) fn tensor_ranks(&self) -> Result<Vec<&str>> {
        let ranks = self.parts.keys().next_back().map_or(1, |last| last.saturating_add(1));
        let file = |rank| if rank == 0 { self.model.get(&0) } else { self.parts.get(&rank) };
        self.all_ranks(ranks, self.parts.len() as u64 + 1, file, |rank| format!("mp_rank_{rank:02}{MODEL}"))
    }

    /// Returns the number of each layer of a pipeline, and the layer's files from all tensor ranks.
    pub(crate) fn layers(&self) -> Result<Vec<(u64, Vec<&str>)>> {
        let last = self.layers.values().filter_map(|files| files.keys().next_back()).max();
        let ranks = last.map_or(1, |last| last.saturating_add(1));
        let layer = |(&layer, files): (&u64, &'_ BTreeMap<u64, String>)| {
            let name = |rank| format!("layer_{layer:02}-model_{rank:02}-model_states.pt");
            let there = files.len() as u64;
            let missing = (0..ranks).find(|rank| !files.contains_key(rank));
            missing
                .map_or(Ok(()), |rank| Err(self.missing(&[name(rank)]).found(format!("{there} of {ranks}"))))
        };
        self.layers.iter().try_for_each(layer)?;
        let files = self.layers.iter();
        Ok(files.map(|(layer, files)| (*layer, files.values().map(String::as_str).collect())).collect())
    }

    fn all_ranks<'f>(
        &self,
        ranks: u64,
        there: u64,
        file: impl Fn(u64) -> Option<&'f String>,
        name: impl Fn(u64) -> String,
    ) -> Result<Vec<&'f str>> {
        let mut files = Vec::new();
        for rank in 0..ranks {
            let missing = || self.missing(&[name(rank)]).found(format!("{there} of {ranks}"));
            files.push(file(rank).map(String::as_str).ok_or_else(missing)?);
        }
        Ok(files)
    }

    /// Returns the file with rank 0's model states.
    pub(crate) fn first_model(&self) -> Result<&str> {
        self.model.get(&0).map(String::as_str).ok_or_else(|| self.missing(&[self.model_name(0)]))
    }

    /// Returns a file that contains one rank's optimizer states, and therefore also the number of
    /// ranks.
    pub(crate) fn any_optimizer(&self) -> Result<&str> {
        self.optimizer.values().next().map(String::as_str).ok_or_else(|| {
            Error::malformed("no optimizer states in the folder")
                .hint("pass -i state=model for a checkpoint that was saved without ZeRO")
                .file(self.folder.trim_end_matches('/'))
                .expected(self.optimizer_name(0))
        })
    }

    /// Returns the files with the optimizer states of all ranks. Checks that the files of all
    /// `ranks` ranks exist.
    pub(crate) fn optimizer(&self, ranks: u64) -> Result<Vec<&str>> {
        self.complete(&self.optimizer, ranks, |rank| self.optimizer_name(rank))
    }

    /// Returns the files with model states. In stage 3, there is one for each of the `ranks`. In
    /// other stages, there is a single file.
    pub(crate) fn model(&self, ranks: u64) -> Result<Vec<&str>> {
        self.complete(&self.model, if self.is_partitioned { ranks } else { 1 }, |rank| self.model_name(rank))
    }

    /// Returns the number of ranks that have model states.
    pub(crate) fn models(&self) -> u64 {
        self.model.len() as u64
    }

    /// Returns all files with model states or optimizer states.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        let layers = self.layers.values().flat_map(BTreeMap::values);
        let files = self.model.values().chain(self.optimizer.values()).chain(self.parts.values());
        files.chain(layers).chain(&self.part_of_vectors).map(String::as_str)
    }

    fn complete<'f>(
        &self,
        files: &'f BTreeMap<u64, String>,
        ranks: u64,
        name: impl Fn(u64) -> String,
    ) -> Result<Vec<&'f str>> {
        if let Some((_, extra)) = files.range(ranks..).next() {
            return Err(Error::malformed("a file belongs to a rank that is not part of the run")
                .file(extra)
                .expected(format!("files of {ranks} ranks"))
                .hint("remove the files of earlier runs"));
        }
        if (files.len() as u64) < ranks {
            let missing = (0..ranks).filter(|rank| !files.contains_key(rank)).map(name);
            return Err(self
                .missing(&missing.take(MAX_NAMED).collect::<Vec<_>>())
                .found(format!("{} of {ranks}", files.len())));
        }
        Ok(files.values().map(String::as_str).collect())
    }

    fn missing(&self, names: &[String]) -> Error {
        let folder = self.folder.trim_end_matches('/');
        Error::malformed("files of some ranks are missing").file(folder).expected(names.join(", "))
    }

    fn model_name(&self, rank: u64) -> String {
        if self.is_partitioned {
            format!("zero_pp_rank_{rank}_mp_rank_00{MODEL}")
        } else {
            format!("mp_rank_00{MODEL}")
        }
    }

    /// Returns the name that a rank's optimizer states should have, with the same prefix as the
    /// existing files.
    fn optimizer_name(&self, rank: u64) -> String {
        let known = self.optimizer.values().next().and_then(|path| path.get(self.folder.len()..));
        let prefix =
            PREFIXES.into_iter().rev().find(|prefix| known.is_some_and(|name| name.starts_with(prefix)));
        format!("{}zero_pp_rank_{rank}_mp_rank_00{OPTIMIZER}", prefix.unwrap_or_default())
    }
}

fn kind(name: &str) -> FileKind {
    let (stem, is_model) = match (name.strip_suffix(MODEL), name.strip_suffix(OPTIMIZER)) {
        (Some(stem), _) => (stem, true),
        (_, Some(stem)) => (stem, false),
        _ => return layer(name).unwrap_or(FileKind::Other),
    };
    if ["layer_", "expert_", "expp_rank_"].iter().any(|prefix| stem.starts_with(prefix)) {
        return FileKind::Unsupported("mixtures of experts are not supported");
    }
    let (rank, mp_rank) = match stem.strip_prefix("mp_rank_") {
        Some(mp_rank) => (None, mp_rank),
        None => {
            let zero =
                PREFIXES.iter().find_map(|prefix| stem.strip_prefix(prefix)?.strip_prefix("zero_pp_rank_"));
            let Some((rank, mp_rank)) = zero.and_then(|zero| zero.split_once("_mp_rank_")) else {
                return FileKind::Unsupported("unknown kind of states");
            };
            let Some(rank) = number(rank) else {
                return FileKind::Unsupported("unknown kind of states");
            };
            (Some(rank), mp_rank)
        }
    };
    match (number(mp_rank), rank) {
        (Some(0), rank) if is_model => FileKind::Model { rank },
        (Some(0), Some(rank)) => FileKind::Optimizer { rank },
        (Some(0), None) => FileKind::Unsupported("unknown kind of states"),
        (Some(rank), None) if is_model => FileKind::ModuleShard { rank },
        (Some(_), Some(_)) if !is_model => FileKind::OptimizerShard,
        (Some(_), _) => FileKind::Unsupported("tensor parallelism in stage 3 is not supported"),
        (None, _) => {
            FileKind::Unsupported("tensor parallelism combined with pipeline parallelism is not supported")
        }
    }
}

/// Parses names such as `layer_03-model_00-model_states.pt`.
fn layer(name: &str) -> Option<FileKind> {
    let numbers = name.strip_prefix("layer_")?.strip_suffix("-model_states.pt")?;
    let numbers = numbers.split_once("-model_").map(|(layer, rank)| (number(layer), number(rank)));
    Some(match numbers {
        Some((Some(layer), Some(rank))) => FileKind::Layer { layer, rank },
        _ => FileKind::Unsupported("unknown kind of pipeline layer"),
    })
}

fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::MemorySource;

    fn source(names: &[&str]) -> MemorySource {
        let files = names.iter().map(|name| match name.split_once('=') {
            Some((name, text)) => (name.to_owned(), text.as_bytes().to_vec()),
            None => ((*name).to_owned(), Vec::new()),
        });
        MemorySource::folder(files)
    }

    fn with_hint(error: &Error) -> String {
        let hint = error.details().find(|(name, _)| *name == "hint");
        format!("{error} {}", hint.map(|(_, text)| text).unwrap_or_default())
    }

    fn refusal(names: &[&str]) -> String {
        with_hint(&find(&source(names), None).unwrap_err())
    }

    #[test]
    fn latest_leads_to_the_folder() {
        let names =
            ["latest=step2\n", "step1/mp_rank_00_model_states.pt", "step2/mp_rank_00_model_states.pt"];
        assert_eq!(find(&source(&names), None).unwrap().first_model().unwrap(), names[2]);
        assert_eq!(find(&source(&names), Some("step1")).unwrap().first_model().unwrap(), names[1]);
        assert_eq!(find(&source(&["mp_rank_00_model_states.pt"]), None).unwrap().folder, "");
        for bad in ["latest=../step2", "latest=", "latest=/etc", "latest=a\0b"] {
            assert!(refusal(&[bad, "mp_rank_00_model_states.pt"]).contains("latest"), "{bad}");
        }
        assert!(refusal(&["latest=step3"]).contains("step3"));
    }

    #[test]
    fn a_step_is_found_without_latest_where_it_is_the_only_one() {
        let names = [
            "global_step2/mp_rank_00_model_states.pt",
            "global_step10/mp_rank_00_model_states.pt",
            "latest=gone",
        ];
        assert_eq!(find(&source(&names[..1]), None).unwrap().folder, "global_step2/");
        let several = refusal(&names[..2]);
        assert!(several.contains("-i tag=global_step"), "{several}");
        assert_eq!(find(&source(&names), Some("global_step10")).unwrap().folder, "global_step10/");
        let gone = refusal(&names);
        assert!(gone.contains("gone") && gone.contains("-i tag=global_step2"), "{gone}");
    }

    #[test]
    fn parts_of_other_parallelism_are_named() {
        let parts = [
            ("zero_pp_rank_1_mp_rank_12_model_states.pt", "tensor"),
            ("mp_rank_00_001_model_states.pt", "pipeline"),
            ("layer_03-odd_00-model_states.pt", "pipeline"),
            ("layer_0_expert_3_mp_rank_00_model_states.pt", "experts"),
            ("expp_rank_1_mp_rank_00_optim_states.pt", "experts"),
            ("other_optim_states.pt", "unknown kind"),
        ];
        for (part, why) in parts {
            let refusal = refusal(&["mp_rank_00_model_states.pt", part]);
            assert!(refusal.contains(part) && refusal.contains(why), "{refusal}");
        }
    }

    #[test]
    fn parts_that_can_be_joined_are_all_there() {
        let first = "mp_rank_00_model_states.pt";
        for part in [
            "mp_rank_01_model_states.pt",
            "zero_pp_rank_0_mp_rank_01_optim_states.pt",
            "layer_03-model_00-model_states.pt",
        ] {
            let files = find(&source(&[first, part]), None).unwrap();
            let refusal = with_hint(&files.check_data_parallel_only().unwrap_err());
            assert!(
                files.is_parallel() && refusal.contains(part) && refusal.contains("state=model"),
                "{refusal}"
            );
            // `all` includes files that are not needed for reading.
            assert!(files.all().any(|file| file == part), "{part}");
        }
        let files = find(&source(&[first, "mp_rank_02_model_states.pt"]), None).unwrap();
        assert!(files.tensor_ranks().unwrap_err().to_string().contains("mp_rank_01"));
        let layers = [
            "layer_00-model_00-model_states.pt",
            "layer_00-model_01-model_states.pt",
            "layer_10-model_00-model_states.pt",
        ];
        let files = find(&source(&layers), None).unwrap();
        let missing = files.layers().unwrap_err().to_string();
        assert!(missing.contains("layer_10-model_01"), "{missing}");
        assert_eq!(find(&source(&layers[..2]), None).unwrap().layers().unwrap(), [(0, layers[..2].to_vec())]);
        let far = find(&source(&[first, "mp_rank_18446744073709551615_model_states.pt"]), None).unwrap();
        assert!(far.tensor_ranks().unwrap_err().to_string().contains("mp_rank_01"));
    }

    #[test]
    fn a_rank_has_one_file_and_none_is_missing() {
        let model = "mp_rank_00_model_states.pt";
        let of = |rank: u64| format!("bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt");
        let names = [of(0), of(2), of(10)];
        let files = find(&source(&[model, &names[0], &names[1], &names[2]]), None).unwrap();
        let missing = files.optimizer(11).unwrap_err().to_string();
        assert!(
            missing.contains(&of(1)) && missing.contains(&of(9)) && !missing.contains(&of(2)),
            "{missing}"
        );
        assert!(files.optimizer(3).unwrap_err().to_string().contains(&of(10)));
        assert!(files.optimizer(u64::MAX).is_err());
        let two = refusal(&[model, "zero_pp_rank_0_mp_rank_00_optim_states.pt", &names[0]]);
        assert!(two.contains("two files for one rank"), "{two}");
        assert!(refusal(&[&names[0]]).contains("no model states"));
        let zero = find(&source(&[model]), None).unwrap();
        assert!(with_hint(&zero.any_optimizer().unwrap_err()).contains("state=model"));
    }
}
