//! Detects features that always have the same number of values, but are empty or missing in some
//! records. A program that parses such a feature with a fixed shape fails at these records.

use super::layout::Layout;
use crate::message::Part;

/// The number of values of each feature, by feature number.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    features: Vec<FeatureLengths>,
}

#[derive(Debug, Clone, Copy, Default)]
struct FeatureLengths {
    missing: u64,
    empty: u64,
    /// Number of records in which the feature has values. Unless `differ` is set, `count` is the
    /// number of values in each of these records.
    others: u64,
    count: Option<usize>,
    differ: bool,
}

impl Shapes {
    #[inline]
    fn of(&mut self, feature: usize) -> &mut FeatureLengths {
        if self.features.len() <= feature {
            self.features.resize(feature + 1, FeatureLengths::default());
        }
        &mut self.features[feature]
    }

    /// Counts a record without the feature.
    #[inline]
    pub(super) fn missing(&mut self, feature: usize) {
        self.of(feature).missing += 1;
    }

    /// Counts a record with `count` values of a feature.
    #[inline]
    pub(super) fn values(&mut self, feature: usize, count: usize) {
        let lengths = self.of(feature);
        if count == 0 {
            lengths.empty += 1;
        } else {
            lengths.others += 1;
            lengths.differ |= *lengths.count.get_or_insert(count) != count;
        }
    }

    /// Adds the counts of other records.
    pub(super) fn add(&mut self, other: &Self) {
        for (number, added) in other.features.iter().enumerate() {
            let lengths = self.of(number);
            lengths.missing += added.missing;
            lengths.empty += added.empty;
            lengths.others += added.others;
            lengths.differ |= added.differ
                || (lengths.count.is_some() && added.count.is_some() && lengths.count != added.count);
            lengths.count = lengths.count.or(added.count);
        }
    }

    /// Returns notes for the user.
    pub(super) fn notes(&self, layout: &Layout) -> Vec<String> {
        let features = self.features.iter().zip(&layout.features);
        features
            .filter(|(_, feature)| feature.part == Part::Features)
            .filter_map(|(lengths, feature)| lengths.note(&feature.column))
            .collect()
    }
}

impl FeatureLengths {
    fn note(self, column: &str) -> Option<String> {
        let count = self.count.filter(|_| !self.differ && self.empty + self.missing > 0)?;
        let all = self.others + self.empty + self.missing;
        let mut found = Vec::new();
        if self.empty > 0 {
            found.push(format!("{} have an empty list", self.empty));
        }
        if self.missing > 0 {
            found.push(format!("{} lack the feature", self.missing));
        }
        let shape = if count == 1 { String::new() } else { count.to_string() };
        let (values, instead) = (
            if count == 1 { "one value".to_owned() } else { format!("{count} values") },
            if self.empty > 0 { "VarLenFeature" } else { "VarLenFeature or a default_value" },
        );
        Some(format!(
            "column {column:?}: {} of {all} records have {values}, but {}; FixedLenFeature([{shape}]) fails to parse those, {instead} does not",
            self.others,
            found.join(", "),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[Option<usize>]) -> Shapes {
        let mut shapes = Shapes::default();
        for count in counts {
            match count {
                Some(count) => shapes.values(0, *count),
                None => shapes.missing(0),
            }
        }
        shapes
    }

    fn note(shapes: &Shapes) -> Option<String> {
        shapes.features[0].note("x")
    }

    #[test]
    fn what_a_fixed_shape_would_not_parse_is_noted() {
        assert_eq!(note(&of(&[Some(2), Some(2)])), None);
        assert_eq!(note(&of(&[Some(0), None])), None);
        assert_eq!(note(&of(&[Some(2), Some(3), Some(0)])), None);
        let one = note(&of(&[Some(1), None])).unwrap_or_default();
        assert!(one.contains("FixedLenFeature([])") && one.contains("default_value"), "{one}");
        let two = note(&of(&[Some(2), Some(0), None])).unwrap_or_default();
        let words = [
            "1 of 3 records have 2 values",
            "1 have an empty list, 1 lack the feature",
            "FixedLenFeature([2])",
        ];
        assert!(words.iter().all(|word| two.contains(word)), "{two}");
    }

    #[test]
    fn pieces_are_added_in_any_order() {
        let pieces = [of(&[Some(2)]), of(&[Some(0), None]), of(&[Some(2)])];
        let mut all = Shapes::default();
        pieces.iter().for_each(|piece| all.add(piece));
        assert_eq!(note(&all), note(&of(&[Some(2), Some(0), None, Some(2)])));
        all.add(&of(&[Some(3)]));
        assert_eq!(note(&all), None);
    }
}
