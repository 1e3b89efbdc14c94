//! Losses on the terminal: one line for each kind and cause, since a model may lose the same of a thousand tensors.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names that a line has before it counts the rest.
const MOST_NAMES: usize = 8;
/// Causes that are told: about a screen.
const MOST_LINES: usize = 40;

static ARE_ALL_SHOWN: AtomicBool = AtomicBool::new(false);

/// Has every loss shown on a line of its own: `--losses`.
pub(super) fn show_all() {
    ARE_ALL_SHOWN.store(true, Ordering::Relaxed);
}

/// A loss as it is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) kind: &'a str,
    pub(super) what: &'a str,
    pub(super) why: &'a str,
}

/// The lines of these losses.
pub(super) fn lines<'a>(losses: impl IntoIterator<Item = Shown<'a>>) -> Vec<String> {
    if ARE_ALL_SHOWN.load(Ordering::Relaxed) {
        return losses.into_iter().map(|loss| line(&[loss])).collect();
    }
    let mut groups: Vec<Vec<Shown<'a>>> = Vec::new();
    let mut places = HashMap::new();
    for loss in losses {
        let place = *places.entry((loss.kind, cause(loss.why))).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(loss);
    }
    let mut lines: Vec<String> = groups.iter().take(MOST_LINES).map(|group| line(group)).collect();
    if groups.len() > MOST_LINES {
        lines.push(format!("and {} other causes; --losses for each", groups.len() - MOST_LINES));
    }
    lines
}

/// What is said of a cause without its particulars: numbers, names in quotes, and what comes after a colon.
fn cause(why: &str) -> String {
    let words = why.split('"').step_by(2).collect::<String>();
    let said = words.split(':').next().unwrap_or_default();
    said.chars().filter(|c| !c.is_ascii_digit()).collect()
}

fn line(group: &[Shown<'_>]) -> String {
    let first = group[0];
    let names: Vec<String> = group.iter().take(MOST_NAMES).map(|loss| format!("{:?}", loss.what)).collect();
    let more = match group.len().saturating_sub(MOST_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let others = if group.iter().all(|loss| loss.why == first.why) { "" } else { "; --losses for each" };
    format!("{} {}{more}: {}{others}", first.kind, names.join(", "), first.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_of_a_kind_are_one_line() {
        let names: Vec<String> = (0..1000).map(|number| format!("w{number}")).collect();
        let whys: Vec<String> =
            (0..1000).map(|number| format!("cast from F32 to BF16: {number} rounded")).collect();
        let casts = names.iter().zip(&whys).map(|(what, why)| Shown { kind: "precision", what, why });
        let other = Shown { kind: "metadata", what: "a\nb", why: "no place" };
        // Causes that begin with a number or a name are told apart too.
        let counted =
            ["3 nulls", "\"x\" is gone", "5 nulls"].map(|why| Shown { kind: "record", what: "c", why });
        assert_eq!(lines(counted).len(), 2);
        assert_eq!(
            lines(casts.chain([other])),
            [
                r#"precision "w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7" and 992 more: cast from F32 to BF16: 0 rounded; --losses for each"#,
                r#"metadata "a\nb": no place"#,
            ]
        );
    }
}
