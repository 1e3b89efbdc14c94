//! Formats arrays as NumPy prints them. Rows are in brackets below each other, long lines are
//! wrapped, and `...` stands for omitted items.

/// Number of items shown at each end of an axis if other items are omitted.
pub(super) const EDGE: u64 = 3;

/// The elements of an array that are shown, in row-major order.
pub(super) struct Grid {
    /// For each axis, the number of items that are shown, and whether `...` appears between them.
    pub(super) axes: Vec<(usize, bool)>,
    /// The text of each element.
    pub(super) words: Vec<String>,
}

/// Formats the array in lines of at most `width` characters.
pub(super) fn text(grid: &Grid, width: usize) -> String {
    if grid.axes.is_empty() {
        return grid.words.concat();
    }
    if grid.words.is_empty() {
        return "[]".to_owned();
    }
    let mut words = grid.words.iter();
    rows(&grid.axes, &mut words, " ", width)
}

fn rows(
    axes: &[(usize, bool)],
    words: &mut std::slice::Iter<'_, String>,
    indent: &str,
    width: usize,
) -> String {
    let Some((&(count, has_gap), inner)) = axes.split_first() else { return String::new() };
    let gap_at = has_gap.then_some(count / 2);
    let mut text = String::new();
    if inner.is_empty() {
        // Reserves space for the bracket after the last word of a line.
        let width = width.saturating_sub(1);
        let mut line = Line { text: &mut text, line: indent.to_owned(), indent, width };
        for place in 0..count {
            if gap_at == Some(place) {
                line.add("...");
                line.line.push(' ');
            }
            line.add(words.next().map_or("", String::as_str));
            if place + 1 < count {
                line.line.push(' ');
            }
        }
        let Line { line, .. } = line;
        text.push_str(&line);
    } else {
        let below = format!("{indent} ");
        let between = "\n".repeat(inner.len());
        for place in 0..count {
            if gap_at == Some(place) {
                text += indent;
                text += "...";
                text += &between;
            }
            text += indent;
            text += &rows(inner, words, &below, width.saturating_sub(1));
            if place + 1 < count {
                text += &between;
            }
        }
    }
    format!("[{}]", &text[indent.len()..])
}

/// The row to which words are being added.
struct Line<'a> {
    text: &'a mut String,
    line: String,
    indent: &'a str,
    width: usize,
}

impl Line<'_> {
    fn add(&mut self, word: &str) {
        let len = self.line.chars().count();
        if len + word.chars().count() > self.width && len > self.indent.len() {
            self.text.push_str(self.line.trim_end());
            self.text.push('\n');
            self.line = self.indent.to_owned();
        }
        self.line.push_str(word);
    }
}
