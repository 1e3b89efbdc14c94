//! The probe: the names of files in a folder.

use crate::aggregate::{self, AGGREGATE};
use crate::locate::{Found, has_arrays, has_uncommitted, locate, names_a_tree};
use tensorferry_sdk::{Entry, Result, Score, Source};

/// After a SavedModel, before a TensorFlow checkpoint.
const A_TREE: Score = Score(24);
/// Arrays of zarr alone may be anybody's.
const ARRAYS: Score = Score(17);
/// Whatever else is in the folder comes first.
const UNFINISHED: Score = Score(1);

/// How sure it is that the source is of this format.
pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    if names_a_tree(source.entry()) {
        return Ok(Score::LIKELY);
    }
    // Without arrays next to it, it is a file of Flax's.
    if matches!(source.entry(), Entry::File(name) if name == AGGREGATE) {
        let is_tree = aggregate::is_in(source, "")? && has_arrays(source)?;
        return Ok(if is_tree { Score::CERTAIN } else { Score::NO });
    }
    if *source.entry() != Entry::Folder {
        return Ok(Score::NO);
    }
    Ok(match locate(source, None)? {
        Found::Trees(_) => A_TREE,
        Found::Arrays(_) => ARRAYS,
        // The reader says that nothing is finished.
        Found::Nothing { is_unfinished: true } if has_uncommitted(source)? => UNFINISHED,
        Found::Nothing { .. } => Score::NO,
    })
}
