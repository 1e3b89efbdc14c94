//! Groups losses. The same loss may occur in a thousand tensors of a model, and in a thousand
//! models of a zoo.

use std::collections::HashMap;
use tensorferry::LossRecord;
use tensorferry_sdk::Severity;

/// Groups items by the severity, kind and cause of their losses. The groups are sorted by severity,
/// starting with the most severe, and then by their first item.
pub fn grouped<'a, T>(
    items: impl IntoIterator<Item = T>,
    loss: impl Fn(&T) -> &'a LossRecord<'a>,
) -> Vec<Vec<T>> {
    let mut groups: Vec<(Severity, Vec<T>)> = Vec::new();
    let mut places = HashMap::new();
    for item in items {
        let of = loss(&item);
        let place = *places.entry((&*of.severity, &*of.kind, cause(&of.why))).or_insert(groups.len());
        if place == groups.len() {
            groups.push((Severity::named(&of.severity), Vec::new()));
        }
        groups[place].1.push(item);
    }
    groups.sort_by_key(|(severity, _)| *severity);
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Returns a cause without its details. Details are words that contain digits (numbers and most
/// dtypes), quoted names, and the text after a colon. As a result, casts from several dtypes in a
/// model count as one cause.
fn cause(why: &str) -> String {
    let words = why.split('"').step_by(2).collect::<String>();
    let said = words.split(':').next().unwrap_or_default();
    let is_general = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
    said.split_whitespace().filter(is_general).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorferry_sdk::{Loss, LossKind};

    #[test]
    fn a_cause_is_what_is_said_without_numbers_dtypes_and_names() {
        let state = |why| Loss::new(LossKind::State, "s", why);
        let losses = [
            state("3 nulls").severity(Severity::Note),
            state("\"x\" is gone"),
            Loss::new(LossKind::Precision, "w", "cast from F32 to BF16: of 7 values 3 were rounded"),
            state("\"y\" is gone"),
            state("5 nulls").severity(Severity::Note),
            state("5 nulls"),
            Loss::new(LossKind::Precision, "v", "cast from F32 to BF16: of 9 values 1 were rounded"),
            Loss::new(LossKind::Precision, "u", "cast from F8_E4M3 to BF16: of 9 values 1 were rounded"),
        ];
        let records: Vec<LossRecord<'_>> = losses.iter().map(LossRecord::of).collect();
        let groups = grouped(0..records.len(), |&place| &records[place]);
        assert_eq!(groups, [vec![1, 3], vec![5], vec![2, 6, 7], vec![0, 4]]);
    }
}
