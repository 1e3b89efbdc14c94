//! Scores how likely an input is to be a DeepSpeed checkpoint, by the names of its files.

use crate::rank_files::is_checkpoint;
use crate::tags::{POINTERS, newest, steps};
use tensorferry_sdk::{Entry, ErrorKind, Result, Score, Source};

/// Score of a folder that also contains a model that is ready to load. Training libraries may save
/// such a model next to the checkpoint. The score is low, because the user probably wants to read
/// the model.
const NEXT_TO_MODEL: Score = Score(20);
/// Maximum number of step folders whose files are listed.
const MAX_LISTED: usize = 16;

pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    match source.entry() {
        Entry::Folder => {}
        Entry::File(name) if POINTERS.contains(&name.as_str()) => {}
        Entry::File(_) | Entry::Prefix(_) => return Ok(Score::NO),
    }
    let names = source.list("")?;
    if *source.entry() == Entry::Folder && is_checkpoint(&names) {
        return Ok(Score::CERTAIN);
    }
    let tag = match newest(source) {
        Ok(tag) => tag,
        Err(error) if error.kind() == ErrorKind::Malformed => None,
        Err(error) => return Err(error),
    };
    // Other formats also use a file called `latest`, so check that the folder in it exists and
    // contains a checkpoint. Listing a missing folder fails.
    let is_step = |tag: &String| source.list(&format!("{tag}/")).is_ok_and(|names| is_checkpoint(&names));
    // Without a usable pointer file, the user can still select the step with an option.
    if !tag.iter().any(is_step) && !steps(source)?.iter().take(MAX_LISTED).any(is_step) {
        return Ok(Score::NO);
    }
    let is_model = |name: &String| name.ends_with(".safetensors") || name.starts_with("pytorch_model");
    Ok(if names.iter().any(is_model) { NEXT_TO_MODEL } else { Score::CERTAIN })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::MemorySource;

    fn of(entry: Entry, names: &[(&str, &str)]) -> Score {
        let files = names.iter().map(|&(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        score(&MemorySource::new(entry, files.collect())).unwrap()
    }

    #[test]
    fn names_decide() {
        let states = ("a/mp_rank_00_model_states.pt", "");
        assert_eq!(of(Entry::Folder, &[("latest", "a"), states]), Score::CERTAIN);
        assert_eq!(of(Entry::File("latest".to_owned()), &[("latest", "a"), states]), Score::CERTAIN);
        assert_eq!(of(Entry::Folder, &[("zero_pp_rank_0_mp_rank_00_optim_states.pt", "")]), Score::CERTAIN);
        assert_eq!(of(Entry::Folder, &[("latest", "b"), states]), Score::NO);
        assert_eq!(of(Entry::Folder, &[("latest", "../a"), states]), Score::NO);
        assert_eq!(of(Entry::Folder, &[("model.pt", "")]), Score::NO);
        let step = ("global_step2/mp_rank_00_model_states.pt", "");
        assert_eq!(of(Entry::Folder, &[step]), Score::CERTAIN);
        assert_eq!(of(Entry::Folder, &[("latest", "gone"), step]), Score::CERTAIN);
        assert_eq!(of(Entry::Folder, &[("global_step2/model.pt", "")]), Score::NO);
        let beside = of(Entry::Folder, &[("latest", "a"), states, ("model.safetensors", "")]);
        assert!(beside > Score::NO && beside < Score::MAYBE);
    }
}
