//! `ferry recover`: resumes or discards an interrupted conversion in a folder that was copied or
//! moved.

use super::{losses, terminal};
use std::fmt::Write;
use std::path::Path;
use tensorferry::places::recover_by_hand;
use tensorferry_sdk::Result;

pub(super) fn run(stage: &Path) -> Result<()> {
    let recovered = recover_by_hand(stage)?;
    losses::report(&[], &recovered.notes, false);
    let mut text = String::new();
    for folder in &recovered.finished {
        let _ = writeln!(text, "finished the output in {}", terminal::shown(folder));
    }
    if recovered.removed > 0 {
        let _ = writeln!(text, "removed {}; none of it had been published", terminal::shown(stage));
    }
    terminal::print(&text)
}
