//! `ferry show` for a dataset: prints some rows as a table. If the format allows it, only these
//! rows are read.

use super::table;
use crate::args::Show;
use crate::{losses, terminal};
use std::io::{BufWriter, Seek, SeekFrom};
use std::ops::Range;
use tensorferry::inspect::FoundInput;
use tensorferry::request::Part;
use tensorferry::rows::{self, CellColumn, Origin, Rows, cells, steps_on_records, write_flow};
use tensorferry::{Session, places};
use tensorferry_sdk::{Error, Purpose, Result};

/// Number of rows shown without `--rows`.
const FIRST_ROWS: u64 = 10;
/// Maximum number of characters of a cell. Without `--all`, the limit is lower for a table with
/// several columns.
const MAX_CELL_WIDTH: usize = 10_000;

/// The rows to show.
enum ShownRows {
    Table(Vec<CellColumn>, u64, Option<u64>),
    /// Rows as JSON Lines, in an unnamed temporary file.
    Lines(std::fs::File),
}

pub(super) fn run(command: &Show, found: &FoundInput<'_>, session: &Session) -> Result<()> {
    let usage = |problem: &str| Err(Error::usage(problem).file(places::shown(&command.input)));
    if let Some(name) = command.names.first() {
        return usage(&format!(
            "the input contains records, not a tensor {name:?}: select rows and columns with --rows and --columns"
        ));
    }
    if command.reader.part != Part::Whole && !found.is_split {
        return usage("--part selects tensors or a split of a folder, but this input is a record file");
    }
    let width = command.width.unwrap_or_else(terminal::columns);
    let (rows, shown) = rows::read_once(Purpose::SHOW, session, |purpose| {
        let context = found.reading(session, purpose);
        let rows = rows::open(&found.source, found.format, &found.options, &context)?;
        let shown = terminal::with_progress(session, false, |_| read(command, &rows, width, session));
        Ok((rows, shown.map_err(|error| rows::refusal(error, purpose))?))
    })?;
    losses::report(&rows.losses()?, &session.take_notes(), false);
    match shown {
        ShownRows::Table(columns, first, known) => {
            let at = found.source.entry_path();
            let title = format!("{} ({})", terminal::shown(&at), found.format.description.title);
            terminal::print(&table::text(&title, &columns, first, known, width, command.all))?;
        }
        ShownRows::Lines(mut lines) => {
            lines.seek(SeekFrom::Start(0))?;
            match std::io::copy(&mut lines, &mut std::io::stdout().lock()) {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(error.into()),
                _ => {}
            }
        }
    }
    rows.close()
}

fn read(command: &Show, rows: &Rows<'_>, width: usize, session: &Session) -> Result<ShownRows> {
    let known = rows.known_records();
    let range = match &command.rows {
        Some(text) => range(text, known)?,
        None if command.all => 0..u64::MAX,
        None => 0..FIRST_ROWS,
    };
    let mut specs: Vec<String> = command.step.clone();
    let count = range.end.saturating_sub(range.start);
    specs.extend([format!("skip:{}", range.start), format!("take:{count}")]);
    if !command.columns.is_empty() {
        // Each name is quoted twice, because the step contains a list of quoted names.
        let names: Vec<String> =
            command.columns.iter().map(|name| format!("\"\"{}\"\"", name.trim())).collect();
        specs.push(format!("map:select,\"columns={}\"", names.join(" ")));
    }
    let steps = steps_on_records(&specs)?;
    std::thread::scope(|scope| {
        let mut flow = rows::make(scope, Origin::Rows(rows), &steps, session)?;
        if command.json {
            let lines = tempfile::tempfile()?;
            let mut output = BufWriter::new(lines);
            write_flow(&mut *flow, &mut output, session)?;
            return Ok(ShownRows::Lines(
                output.into_inner().map_err(|error| Error::from(error.into_error()))?,
            ));
        }
        let most = if command.all { MAX_CELL_WIDTH } else { width };
        let known = known.filter(|_| command.step.is_empty());
        Ok(ShownRows::Table(cells(&mut *flow, most, session)?, range.start, known))
    })
}

/// Parses a row range such as `10:20`, `-5:` or `7`, with the same meaning as a slice in Python.
/// `known` is the total number of rows, if that number is known.
pub(crate) fn range(text: &str, known: Option<u64>) -> Result<Range<u64>> {
    let no_rows = || {
        Error::usage(format!("invalid row range {text:?}"))
            .hint("pass --rows START:STOP, as in 10:20, :5 or -5:")
    };
    let number = |part: &str| match part.trim() {
        "" => Ok(None),
        part => part.parse::<i64>().map(Some).map_err(|_| no_rows()),
    };
    let from_end = |place: i64| match known {
        Some(count) => Ok(count.saturating_sub(place.unsigned_abs())),
        None => {
            let problem =
                format!("cannot count rows from the end in {text:?}: the number of rows is unknown");
            Err(Error::usage(problem).hint("count rows from the beginning"))
        }
    };
    let place = |given: Option<i64>, otherwise: u64| match given {
        None => Ok(otherwise),
        Some(place) if place < 0 => from_end(place),
        Some(place) => Ok(place.unsigned_abs()),
    };
    match text.split_once(':') {
        None => {
            let given = number(text)?.ok_or_else(no_rows)?;
            let row = place(Some(given), 0)?;
            let is_there = known.is_none_or(|count| row < count && given.unsigned_abs() <= count);
            let count = known.unwrap_or(0);
            let rows = terminal::counted(count, "row");
            let problem = || Error::usage(format!("row {given} does not exist: the input has {rows}"));
            if is_there { Ok(row..row + 1) } else { Err(problem()) }
        }
        Some((start, stop)) => Ok(place(number(start)?, 0)?..place(number(stop)?, u64::MAX)?),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn rows_are_those_of_a_slice() {
        let of = |text: &str| range(text, Some(100)).unwrap();
        assert_eq!(
            [of("10:20"), of(":5"), of("-5:"), of("7"), of("-1")],
            [10..20, 0..5, 95..u64::MAX, 7..8, 99..100]
        );
        assert_eq!(of("-200:-90"), 0..10);
        assert!(of("5:2").is_empty());
        for wrong in ["", "a", "1:2:3", "1:b", "100", "-101", "1.5"] {
            assert!(range(wrong, Some(100)).is_err(), "{wrong}");
        }
        assert!(range("-1:", None).is_err() && range("3:-1", None).is_err());
        assert_eq!(range("500:", None).unwrap(), 500..u64::MAX);
    }
}
