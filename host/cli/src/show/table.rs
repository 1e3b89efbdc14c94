//! Formats rows as a table that fits the terminal. Numbers are right-aligned, and long cells are
//! shortened. If there are too many columns, those in the middle are omitted.

use crate::terminal::{counted, printable};
use std::fmt::Write;
use tensorferry::rows::CellColumn;

/// Width to which a column may be narrowed before other columns are omitted.
const NARROW: usize = 12;
/// Number of spaces between columns.
const GAP: usize = 2;

/// Formats the table. `first` is the number of the first row. `known` is the total number of rows,
/// if that number is known.
pub(super) fn text(
    title: &str,
    columns: &[CellColumn],
    first: u64,
    known: Option<u64>,
    width: usize,
    all: bool,
) -> String {
    let count = columns.first().map_or(0, |column| column.cells.len());
    let rows = match (count as u64, known) {
        (0, Some(known)) => format!("no rows of {known}"),
        (0, None) => "no rows".to_owned(),
        (count, known) => {
            let of = known.map_or(String::new(), |known| format!(" of {known}"));
            format!("rows {first} to {}{of}", first + count - 1)
        }
    };
    let mut text = format!("{title}\n{rows}, {}\n\n", counted(columns.len() as u64, "column"));
    let number = Column::numbers(first, count);
    let mut shown: Vec<Column> = columns.iter().map(Column::of).collect();
    let left_out = if all { 0 } else { fit(&mut shown, width.saturating_sub(number.width)) };
    if left_out > 0 {
        let middle = shown.len().div_ceil(2);
        shown.insert(middle, Column::gap(count));
    }
    shown.insert(0, number);
    for row in 0..count + 2 {
        let mut line = String::new();
        for (place, column) in shown.iter().enumerate() {
            if place > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            let cell = shortened(&column.lines[row], column.width);
            let pad = " ".repeat(column.width.saturating_sub(cell.chars().count()));
            if column.is_number { line.extend([&*pad, &cell]) } else { line.extend([&*cell, &pad]) }
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if left_out > 0 {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let kept = names.len() - left_out;
        let start = kept.div_ceil(2);
        let hidden: Vec<String> = names[start..start + left_out].iter().map(|name| printable(name)).collect();
        let listed = shortened(&hidden.join(", "), width.saturating_sub(4));
        let _ = write!(
            text,
            "\n{} left out (select some with --columns, or pass --all):\n  {listed}\n",
            counted(left_out as u64, "column")
        );
    }
    text
}

/// A column to print, with its name, type and cells.
struct Column {
    lines: Vec<String>,
    is_number: bool,
    width: usize,
    /// Minimum width of the column. For numbers and times, the minimum is the full width, because
    /// such values are never shortened.
    least: usize,
}

impl Column {
    fn new(lines: Vec<String>, is_number: bool, is_whole: bool) -> Self {
        let widest = |lines: &[String]| lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        // The name of the type may be shortened, so its width does not count.
        let width = widest(&lines).min(widest(&lines[..1]).max(widest(&lines[2..])).max(NARROW));
        let least = if is_whole { width } else { width.min(NARROW) };
        Self { lines, is_number, width, least }
    }

    fn of(column: &CellColumn) -> Self {
        let head = [printable(&column.name), printable(&column.type_text)].into_iter();
        let cells =
            column.cells.iter().map(|cell| cell.as_ref().map_or("null".to_owned(), |cell| line(cell)));
        Self::new(head.chain(cells).collect(), column.is_number, column.is_whole)
    }

    fn at_most(&self, most: usize) -> usize {
        self.width.min(most).max(self.least)
    }

    /// Returns the column that contains the row numbers.
    fn numbers(first: u64, count: usize) -> Self {
        let numbers = (first..).take(count).map(|number| number.to_string());
        Self::new([String::new(), String::new()].into_iter().chain(numbers).collect(), true, true)
    }

    fn gap(count: usize) -> Self {
        Self::new(vec!["...".to_owned(); count + 2], false, true)
    }
}

/// Escapes line breaks and tabs.
fn line(cell: &str) -> String {
    printable(&cell.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r"))
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(3)).collect();
    kept + "..."
}

/// Narrows the widest columns until all columns fit. If the columns would become too narrow,
/// removes columns from the middle. Returns the number of removed columns.
fn fit(columns: &mut Vec<Column>, width: usize) -> usize {
    let before = columns.len();
    let least = |columns: &[Column]| columns.iter().map(|column| column.least + GAP).sum::<usize>();
    loop {
        let gap = if columns.len() < before { GAP + 3 } else { 0 };
        if least(columns) + gap <= width || columns.len() <= 1 {
            narrow(columns, width.saturating_sub(gap));
            return before - columns.len();
        }
        columns.remove(columns.len() / 2);
    }
}

/// Limits all columns to the largest width at which they fit.
fn narrow(columns: &mut [Column], width: usize) {
    let total = |most: usize, columns: &[Column]| {
        columns.iter().map(|column| column.at_most(most) + GAP).sum::<usize>()
    };
    let widest = columns.iter().map(|column| column.width).max().unwrap_or(0);
    let most = (NARROW..=widest).rev().find(|most| total(*most, columns) <= width).unwrap_or(NARROW);
    for column in columns {
        column.width = column.at_most(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, is_number: bool, cells: &[Option<&str>]) -> CellColumn {
        let cells = cells.iter().map(|cell| cell.map(str::to_owned)).collect();
        CellColumn {
            name: name.to_owned(),
            type_text: "utf8".to_owned(),
            is_number,
            is_whole: is_number,
            cells,
        }
    }

    #[test]
    fn numbers_stand_to_the_right_and_long_texts_are_shortened() {
        let long = "a long text ".repeat(20);
        let columns = [
            column("id", true, &[Some("1"), Some("12345"), None]),
            column("t", false, &[Some(&long), Some("x\ny"), None]),
        ];
        let text = text("a.parquet", &columns, 9, Some(12), 40, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["a.parquet", "rows 9 to 11 of 12, 2 columns"]);
        assert_eq!(lines[5], " 9      1  a long text a long text a ...");
        assert_eq!(lines[6..], ["10  12345  x\\ny", "11   null  null"]);
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn columns_in_the_middle_are_left_out_where_there_is_no_room() {
        let names: Vec<String> = (0..40).map(|number| format!("column{number}")).collect();
        let columns: Vec<CellColumn> =
            names.iter().map(|name| column(name, false, &[Some("value")])).collect();
        let text = text("wide", &columns, 0, None, 80, false);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let head = text.lines().nth(3).unwrap_or("");
        assert!(head.contains("column0 ") && head.contains("column39") && head.contains("..."), "{text}");
        let shown = head.matches("column").count();
        assert!(shown > 4 && text.contains(&format!("{} columns left out", 40 - shown)), "{text}");
    }
}
