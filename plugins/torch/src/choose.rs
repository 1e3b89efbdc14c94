//! Selects the files of a checkpoint. A checkpoint is a single file, or a set of shards with the
//! names that the Hugging Face Hub uses.

use crate::SUFFIXES;
use tensorferry_hub::{self as hub, Choice, Naming};
use tensorferry_sdk::file_name::has_any_suffix;
use tensorferry_sdk::{Context, Entry, Error, Result, Source};

/// File names that the Hugging Face libraries use for PyTorch models.
pub(crate) const NAMING: Naming =
    Naming { title: "PyTorch", stem: "pytorch_model", suffix: ".bin", index_suffix: ".bin.index.json" };

/// Selects the files to read, depending on whether the input is a file, a folder or a prefix.
pub(crate) fn choose(shard_is_alone: bool, source: &dyn Source, context: &dyn Context) -> Result<Choice> {
    if *source.entry() != Entry::Folder {
        return hub::choose(&NAMING, shard_is_alone, source, context);
    }
    let names = source.list("")?;
    let (training, mut files): (Vec<&String>, Vec<&String>) =
        names.iter().filter(|name| is_candidate(name)).partition(|name| is_training_state(name));
    if files.is_empty() {
        files = training;
    }
    let called: Vec<&str> = files.iter().map(|name| name.as_str()).collect();
    let kept = hub::without_variants(&NAMING, &called);
    files.retain(|name| kept.contains(&name.as_str()));
    let usual = format!("{}{}", NAMING.stem, NAMING.suffix);
    let is_split = names.iter().any(|name| is_index(name));
    let is_set = files.iter().all(|name| NAMING.shard(name).is_some());
    match &*files {
        _ if is_split || names.contains(&usual) => hub::choose(&NAMING, shard_is_alone, source, context),
        [] => Err(Error::malformed("no PyTorch checkpoint in the folder").expected(usual)),
        [one] if !is_set || shard_is_alone => {
            if !shard_is_alone {
                hub::refuse_part(source, one, context)?;
            }
            Ok(Choice::Files(vec![(*one).clone()]))
        }
        _ if is_set => hub::choose(&NAMING, shard_is_alone, source, context),
        several => {
            let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
            if hub::are_ranks_of_one_model(&names) {
                return Err(hub::unjoinable_ranks(&names));
            }
            let found = hub::list(several.iter().map(|name| format!("{name:?}"))).unwrap_or_default();
            let message = format!("the folder has several checkpoints: {found}");
            Err(Error::usage(message).hint("pass one of them instead of the folder"))
        }
    }
}

/// Returns whether a file in a folder has a name that a checkpoint may have.
pub(crate) fn is_candidate(name: &str) -> bool {
    !name.starts_with('.') && (has_any_suffix(name, SUFFIXES) || is_index(name))
}

fn is_index(name: &str) -> bool {
    !name.starts_with('.') && NAMING.stem_of_index(name).is_some()
}

/// Returns whether a file has a name that transformers or accelerate uses for training state, such
/// as `optimizer.pt` or `rng_state_0.pth`.
pub(crate) fn is_training_state(name: &str) -> bool {
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let stem = stem.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '_');
    ["optimizer", "scheduler", "scaler", "rng_state", "training_args"].contains(&stem)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{ErrorKind, MemoryContext, MemorySource, Purpose};

    #[test]
    fn a_file_of_a_rank_is_not_taken_for_a_model() {
        let chosen = |name: &str, is_alone, purpose| {
            let mut context = MemoryContext::default();
            context.purpose = purpose;
            choose(is_alone, &MemorySource::file(name, []), &context)
        };
        for name in [
            "zero_pp_rank_0_mp_rank_00_model_states.pt",
            "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
            "layer_03-model_00-model_states.pt",
        ] {
            let error = chosen(name, false, Purpose::FLAT).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains("rank"), "{error}");
            assert!(error.details().any(|(name, text)| name == "hint" && text.contains("shard=alone")));
            chosen(name, true, Purpose::FLAT).unwrap();
            chosen(name, false, Purpose::SHOW).unwrap();
        }
        for name in ["mp_rank_00_model_states.pt", "model.pt", "layer_states.pt"] {
            chosen(name, false, Purpose::FLAT).unwrap();
        }
    }

    #[test]
    fn what_trainers_keep_is_no_second_model() {
        let chosen = |names: &[&str]| {
            let files = names.iter().map(|name| (*name, Vec::<u8>::new()));
            choose(false, &MemorySource::folder(files), &MemoryContext::default())
        };
        let beside = ["optimizer.pt", "rng_state_0.pth", "rng_state.pth", "training_args.bin"];
        let one = |name: &str| Choice::Files(vec![name.to_owned()]);
        assert_eq!(chosen(&[&beside[..], &["net.pt"]].concat()).unwrap(), one("net.pt"));
        assert_eq!(chosen(&beside[..1]).unwrap(), one("optimizer.pt"));
        assert_eq!(chosen(&["consolidated.00.pth"]).unwrap(), one("consolidated.00.pth"));
        let ranks = chosen(&["consolidated.00.pth", "consolidated.01.pth"]).unwrap_err();
        assert_eq!(ranks.kind(), ErrorKind::Unsupported);
        assert!(ranks.to_string().contains("cannot join"), "{ranks}");
        assert!(chosen(&["net.pt", "other.pt"]).is_err());
    }
}
