//! Finds the output files that are read again before they are complete. These files have a digest
//! that covers bytes outside the copy's windows.

use std::collections::BTreeSet;
use tensorferry_sdk::{Content, Layout, OutputId, Result, Segment};
use tensorferry_tensors::copy_plan::{PlannedCopy, plan_copies};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::slabs::Slabs;

/// Returns the files of a layout that have a digest and contain gathered, encoded or streamed
/// bytes.
pub(crate) fn read_again(layout: &Layout, logical: &Logical<'_>) -> Result<BTreeSet<OutputId>> {
    let digested: BTreeSet<OutputId> = layout.digests().iter().map(|request| request.file).collect();
    let mut found = BTreeSet::new();
    for id in digested {
        let content = &layout.files()[id.0 as usize].content;
        let Content::Copied(segments) = content else {
            found.insert(id);
            continue;
        };
        for placed in segments {
            if is_apart(&placed.segment, logical)? {
                found.insert(id);
                break;
            }
        }
    }
    Ok(found)
}

/// Returns whether the bytes of a segment are not part of the copy's windows.
fn is_apart(segment: &Segment, logical: &Logical<'_>) -> Result<bool> {
    match segment {
        Segment::Encoded(_) => Ok(true),
        Segment::Tensor(part) => {
            let budget = logical.stored().session().slab_bytes();
            let is_tiled = Slabs::of(logical.catalog(), part, budget)?.is_some();
            let is_strided = |copy: &PlannedCopy| matches!(copy, PlannedCopy::Strided { .. });
            Ok(is_tiled || plan_copies(logical.catalog(), part)?.iter().any(is_strided))
        }
        _ => Ok(false),
    }
}
