//! Infers column types from the rows in all files, and divides the files into runs of rows.

use super::rows::{Rows, Run};
use crate::kind::Kind;
use crate::options::ReadOptions;
use tensorferry_row_text::scan_all;
use tensorferry_sdk::{Context, Result};

/// Minimum size of a run in bytes. The size keeps the overhead per run low, and still yields enough
/// runs for several threads.
pub(super) const RUN: u64 = 16 << 20;
/// Number of rows between checks for cancellation.
const ROWS_PER_CANCEL_CHECK: u64 = 4096;

/// Returns the kinds of all columns. If every row is read, also divides the files into shorter runs
/// with known row counts.
pub(super) fn infer(
    runs: &mut Vec<Run>,
    columns: usize,
    options: &ReadOptions,
    context: &dyn Context,
) -> Result<Vec<Kind>> {
    let mut all = vec![Kind::None; columns];
    let mut parts = Vec::new();
    for scanned in scan_all(runs, context, |run| scan(run, columns, options, context)) {
        let (kinds, runs) = scanned?;
        all = all.into_iter().zip(kinds).map(|(one, other)| one.and(other)).collect();
        parts.extend(runs);
    }
    *runs = parts;
    Ok(all)
}

fn scan(
    run: &Run,
    columns: usize,
    options: &ReadOptions,
    context: &dyn Context,
) -> Result<(Vec<Kind>, Vec<Run>)> {
    let mut kinds = vec![Kind::None; columns];
    let mut rows = Rows::new(run, Some(columns), context.limits())?;
    rows.skip_header()?;
    let max = options.infer.unwrap_or(u64::MAX);
    let is_plain = run.file().text.is_plain();
    let (mut parts, mut count, mut read) = (Vec::new(), 0_u64, 0_u64);
    let (mut start, mut line) = (0, 1);
    while read < max && rows.advance()? {
        if read.is_multiple_of(ROWS_PER_CANCEL_CHECK) {
            context.check_cancelled()?;
        }
        take_row(&mut kinds, &rows, &options.nulls);
        (count, read) = (count + 1, read + 1);
        let (offset, _, len) = rows.place();
        if is_plain && options.infer.is_none() && offset + len - start >= RUN {
            parts.push(run.part(start, offset + len, line, count));
            (start, line, count) = (offset + len, rows.next_line(), 0);
        }
    }
    if options.infer.is_some() {
        return Ok((kinds, vec![run.clone()]));
    }
    if count > 0 || parts.is_empty() {
        parts.push(run.part(start, run.file().text.len(), line, count));
    } else {
        // Add the bytes after the last row, such as empty lines, to the last run.
        let last = parts.len() - 1;
        parts[last] = parts[last].until(run.file().text.len());
    }
    Ok((kinds, parts))
}

/// Adds the kinds of the values in a row to the kinds of their columns.
pub(super) fn take_row(kinds: &mut [Kind], rows: &Rows, nulls: &[String]) {
    for (place, kind) in kinds.iter_mut().enumerate() {
        // Text is the most general kind, so further values cannot change it.
        if *kind != Kind::Text {
            let field = rows.field(place);
            if !field.is_null(nulls) {
                *kind = kind.and(Kind::of(field.raw()));
            }
        }
    }
}
