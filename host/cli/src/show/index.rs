//! Parses indices in NumPy's syntax, such as `[3, -1]`, `[0:10:2]` or `[..., ::-1]`.

use tensorferry::values::AxisSlice;
use tensorferry_sdk::{Error, Result};

/// The part of a tensor that an index selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TensorSlice {
    /// The selected slice of each axis.
    pub(super) axes: Vec<AxisSlice>,
    /// The axes that remain in the result. An integer index removes its axis.
    pub(super) kept: Vec<usize>,
}

impl TensorSlice {
    pub(super) fn shape(&self) -> Vec<u64> {
        self.kept.iter().map(|axis| self.axes[*axis].len).collect()
    }
}

/// Splits `NAME[INDEX]` into the name and the text in the brackets.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    text.strip_suffix(']')?.rsplit_once('[')
}

/// Returns whether a string is a valid index for some tensor.
pub(super) fn is_index(text: &str) -> bool {
    let is_number = |text: &str| text.trim().is_empty() || text.trim().parse::<i128>().is_ok();
    entries(text).all(|entry| is_word(entry) || (!entry.trim().is_empty() && entry.split(':').all(is_number)))
}

fn is_word(entry: &str) -> bool {
    ["...", "None", "Ellipsis", "newaxis", "np.newaxis"].contains(&entry.trim())
}

fn entries(text: &str) -> impl Iterator<Item = &str> {
    // A trailing comma is allowed.
    let text = text.trim();
    text.strip_suffix(',').unwrap_or(text).split(',')
}

/// Applies an index to a shape. If there is no index, selects the whole tensor.
pub(super) fn apply_index(index: Option<&str>, shape: &[u64]) -> Result<TensorSlice> {
    let mut entries: Vec<&str> = index.map_or_else(Vec::new, |text| entries(text).map(str::trim).collect());
    let is_ellipsis = |entry: &&str| ["...", "Ellipsis"].contains(entry);
    let usage = |problem: String| {
        Error::usage(problem)
            .hint("use NumPy's syntax: numbers, start:stop:step and ..., separated by commas")
    };
    if let Some(word) = entries.iter().find(|entry| is_word(entry) && !is_ellipsis(entry)) {
        return Err(usage(format!("{word} would add a new axis, which cannot be shown")));
    }
    match entries.iter().filter(|entry| is_ellipsis(entry)).count() {
        0 => {}
        1 => {
            let at = entries.iter().position(|entry| ["...", "Ellipsis"].contains(entry)).unwrap_or(0);
            let missing = (shape.len() + 1).saturating_sub(entries.len());
            entries.splice(at..=at, std::iter::repeat_n(":", missing));
        }
        _ => return Err(usage("an index may have only one ...".to_owned())),
    }
    if entries.len() > shape.len() {
        let problem = format!(
            "{} for {}",
            counted(entries.len(), "index", "indices"),
            counted(shape.len(), "axis", "axes")
        );
        return Err(usage(format!("{problem} of shape {shape:?}")));
    }
    let mut taken = TensorSlice { axes: Vec::new(), kept: Vec::new() };
    for (axis, &len) in shape.iter().enumerate() {
        let entry = entries.get(axis).copied().unwrap_or(":");
        let number = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text
                .parse::<i128>()
                .map(Some)
                .map_err(|_| usage(format!("{text:?} is not an index of axis {axis}"))),
        };
        let parts: Vec<Option<i128>> = entry.split(':').map(number).collect::<Result<_>>()?;
        taken.axes.push(match *parts {
            [Some(place)] => at(place, axis, len)?,
            [start, stop] => between(start, stop, 1, len),
            [_, _, Some(0)] => return Err(usage(format!("axis {axis} has a step of 0"))),
            [start, stop, step] => between(start, stop, step.unwrap_or(1), len),
            _ => return Err(usage(format!("{entry:?} is not an index of axis {axis}"))),
        });
        if parts.len() > 1 {
            taken.kept.push(axis);
        }
    }
    Ok(taken)
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Selects a single index. A negative index counts from the end.
fn at(place: i128, axis: usize, len: u64) -> Result<AxisSlice> {
    let start = if place < 0 { place + i128::from(len) } else { place };
    match u64::try_from(start).ok().filter(|start| *start < len) {
        Some(start) => Ok(AxisSlice { start, step: 1, len: 1 }),
        None => {
            let problem = format!("index {place} is out of range for axis {axis}, whose length is {len}");
            let hint = match len {
                0 => "use a slice".to_owned(),
                len => format!("use an index from -{len} to {}", len - 1),
            };
            Err(Error::usage(problem).hint(hint))
        }
    }
}

/// Selects a range of indices. As in Python, indices outside the axis are ignored.
fn between(start: Option<i128>, stop: Option<i128>, step: i128, len: u64) -> AxisSlice {
    let size = i128::from(len);
    let (lowest, highest) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let bound = |given: Option<i128>, otherwise: i128| match given {
        None => otherwise,
        Some(place) if place < 0 => place.saturating_add(size).max(lowest),
        Some(place) => place.min(highest),
    };
    let (first, last) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
    let (start, stop) = (bound(start, first), bound(stop, last));
    let span = if step > 0 { stop - start } else { start - stop };
    let count = if span <= 0 { 0 } else { (span - 1) / step.saturating_abs() + 1 };
    // If the step is larger than the axis, at most one index is selected.
    let step = i64::try_from(step).unwrap_or(if step > 0 { i64::MAX } else { i64::MIN + 1 });
    AxisSlice { start: u64::try_from(start).unwrap_or(0), step, len: u64::try_from(count).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_index_means_what_it_means_in_numpy() {
        let of = |text: &str, len: u64| {
            let taken = apply_index(Some(text), &[len]).unwrap();
            let axis = taken.axes[0];
            (0..axis.len).map(|place| axis.index(place)).collect::<Vec<u64>>()
        };
        for (text, expected) in [
            ("2", &[2][..]),
            ("-1", &[4]),
            ("1:3", &[1, 2]),
            ("::2", &[0, 2, 4]),
            ("::-1", &[4, 3, 2, 1, 0]),
            ("3:0:-2", &[3, 1]),
            ("-2:", &[3, 4]),
            (":-3", &[0, 1]),
            ("9:", &[]),
            ("-99:99", &[0, 1, 2, 3, 4]),
            ("99::-3", &[4, 1]),
            ("3:1", &[]),
            ("0:5:99999999999999999999", &[0]),
        ] {
            assert_eq!(of(text, 5), expected, "{text}");
        }
        assert_eq!(of("::-1", 0), [0_u64; 0]);
    }

    #[test]
    fn numbers_take_axes_away_and_dots_stand_for_the_rest() {
        let shape = |text: &str| apply_index(Some(text), &[2, 3, 4]).map(|taken| taken.shape());
        assert_eq!(shape("0").unwrap(), [3, 4]);
        assert_eq!(shape("..., 1").unwrap(), [2, 3]);
        assert_eq!(shape("1, ..., ::2,").unwrap(), [3, 2]);
        assert_eq!(shape("...").unwrap(), [2, 3, 4]);
        assert_eq!(shape("1,2,3").unwrap(), [0_u64; 0]);
        assert_eq!(shape("1,2,3,...").unwrap(), [0_u64; 0]);
        for wrong in ["2", "0,3", "0,0,0,0", "None", "...,...", "a", "", "::0", "1:2:3:4", "1.5", "[0]"] {
            let error = shape(wrong).unwrap_err();
            assert_eq!(error.kind(), tensorferry_sdk::ErrorKind::Usage, "{wrong}");
        }
        let error = shape("0, -4").unwrap_err().to_string();
        assert!(error.contains("axis 1") && error.contains("length is 3") && error.contains("-4"), "{error}");
    }

    #[test]
    fn an_index_stands_behind_the_last_bracket() {
        assert_eq!(split("a[0].w[1:2]"), Some(("a[0].w", "1:2")));
        assert_eq!(split("a[0].w"), None);
        assert!(is_index("0, ::2, ...") && is_index("None") && !is_index("a-z") && !is_index(""));
    }
}
