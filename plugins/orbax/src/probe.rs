//! Detection of Orbax checkpoints by the names in a folder of the input.

use crate::aggregate::{self, AGGREGATE};
use crate::locate::{CheckpointLayout, has_arrays, has_uncommitted, is_tree_name, locate};
use tensorferry_sdk::{Entry, Result, Score, Source};

/// Score of a tree. It is lower than the score of a SavedModel and higher than the score of a
/// TensorFlow checkpoint.
const TREE: Score = Score(24);
/// Score of zarr arrays without a tree, which many programs write.
const ARRAYS: Score = Score(17);
/// Score of an unfinished checkpoint. Any other format in the folder scores higher.
const UNFINISHED: Score = Score(1);

pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    if is_tree_name(source.entry()) {
        return Ok(Score::LIKELY);
    }
    // Without arrays next to the file, it is a Flax file instead of an Orbax checkpoint.
    if matches!(source.entry(), Entry::File(name) if name == AGGREGATE) {
        let is_tree = aggregate::is_in(source, "")? && has_arrays(source)?;
        return Ok(if is_tree { Score::CERTAIN } else { Score::NO });
    }
    if *source.entry() != Entry::Folder {
        return Ok(Score::NO);
    }
    Ok(match locate(source, None)? {
        CheckpointLayout::Trees(_) => TREE,
        CheckpointLayout::Arrays(_) => ARRAYS,
        // The reader reports that the checkpoint is unfinished.
        CheckpointLayout::Nothing { is_unfinished: true } if has_uncommitted(source)? => UNFINISHED,
        CheckpointLayout::Nothing { .. } => Score::NO,
    })
}
