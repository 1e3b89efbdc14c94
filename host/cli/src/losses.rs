//! Prints losses. Losses with the same severity, kind and cause share one line.

use crate::terminal;
use std::sync::atomic::{AtomicBool, Ordering};
use tensorferry::LossRecord;
use tensorferry_run::losses::grouped;
use tensorferry_sdk::{Loss, Severity};

/// Maximum number of names in a line.
const MAX_NAMES: usize = 8;
/// Maximum number of lines to print, which is about one screen.
const MAX_LINES: usize = 40;

static SHOWS_ALL: AtomicBool = AtomicBool::new(false);

/// Enables the mode of `--losses`, which prints every loss on a separate line.
pub(super) fn show_all() {
    SHOWS_ALL.store(true, Ordering::Relaxed);
}

/// Prints the losses in groups, and then the notes, one per line.
pub(super) fn report(losses: &[Loss], notes: &[String], quiet: bool) {
    let losses: Vec<LossRecord<'_>> = losses.iter().map(LossRecord::of).collect();
    lines(&losses, quiet).iter().for_each(|(word, line)| terminal::message(word, line));
    if !quiet {
        notes.iter().for_each(|note| terminal::message("note", &terminal::printable(note)));
    }
}

/// A line that describes losses, split into its leading word and the rest of the line.
pub(super) type LossLine = (String, String);

/// Returns the lines for these losses. If `quiet` is true, includes only losses with the severity
/// `lost`.
pub(super) fn lines<'a>(losses: impl IntoIterator<Item = &'a LossRecord<'a>>, quiet: bool) -> Vec<LossLine> {
    let losses =
        losses.into_iter().filter(|loss| !quiet || Severity::named(&loss.severity) == Severity::Lost);
    if SHOWS_ALL.load(Ordering::Relaxed) {
        return losses.map(|loss| line(&[loss])).collect();
    }
    let groups = grouped(losses, |loss| loss);
    let mut lines: Vec<LossLine> = groups.iter().take(MAX_LINES).map(|group| line(group)).collect();
    if groups.len() > MAX_LINES {
        let others = terminal::counted((groups.len() - MAX_LINES) as u64, "other cause");
        lines.push(("note".to_owned(), format!("and {others}; pass --losses to list every loss")));
    }
    lines
}

fn line(group: &[&LossRecord<'_>]) -> LossLine {
    let first = group[0];
    let mut names: Vec<String> =
        group.iter().take(MAX_NAMES).map(|loss| format!("{:?}", loss.what)).collect();
    if group.len() > MAX_NAMES {
        names.push("...".to_owned());
    }
    let total = if group.len() > 1 { format!(" ({})", group.len()) } else { String::new() };
    let others = if group.iter().all(|loss| loss.why == first.why) {
        ""
    } else {
        " (first of these; --losses lists all)"
    };
    let text = format!("{}{total} {}: {}{others}", first.kind, names.join(", "), first.why);
    (terminal::printable(&first.severity), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorferry_sdk::LossKind;

    #[test]
    fn a_thousand_of_a_kind_are_one_line() {
        let casts = (0..1000).map(|number| {
            let why = format!("cast from F32 to BF16: {number} rounded");
            Loss::new(LossKind::Precision, format!("w{number}"), why)
        });
        let losses: Vec<Loss> = casts.chain([Loss::new(LossKind::Metadata, "a\nb", "no place")]).collect();
        let losses: Vec<LossRecord<'_>> = losses.iter().map(LossRecord::of).collect();
        let lost = ("lost".to_owned(), r#"metadata "a\nb": no place"#.to_owned());
        assert_eq!(lines(&losses, true), std::slice::from_ref(&lost));
        let names = r#""w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", ..."#;
        let casts = format!(
            "precision (1000) {names}: cast from F32 to BF16: 0 rounded (first of these; --losses lists all)"
        );
        assert_eq!(lines(&losses, false), [lost, ("changed".to_owned(), casts)]);
    }
}
