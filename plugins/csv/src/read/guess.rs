//! Guesses the column types and the runs from the first rows of each run, for an input that is read
//! only once.
//!
//! The streams check each value against the guess. If the full scan in [`infer`](super::infer) would
//! find a different type or a loss, or an error, the stream returns
//! [`Error::wrong_guess`](tensorferry_sdk::Error::wrong_guess), and the host reads the input again
//! without guessing.
//!
//! A run ends after a line end. If this line end is in a quoted field, the run ends with an
//! unterminated field, which is an error.

use super::infer::{RUN, take_row};
use super::rows::{Rows, Run};
use crate::kind::Kind;
use crate::options::ReadOptions;
use tensorferry_sdk::{Context, Purpose, Result};

/// Number of bytes to sample from each run, and maximum number of bytes to search for a line end.
const SAMPLE: usize = 128 << 10;

/// Guessed kinds of the columns, and guessed runs.
pub(super) struct Guess {
    pub(super) kinds: Vec<Kind>,
    pub(super) runs: Vec<Run>,
}

/// Returns a guess, or `None` if guessing is not allowed or if the samples are insufficient.
pub(super) fn guess(
    files: &[Run],
    columns: usize,
    options: &ReadOptions,
    context: &dyn Context,
) -> Result<Option<Guess>> {
    if !context.purpose().has(Purpose::ONCE) || options.infer.is_some() {
        return Ok(None);
    }
    let (mut kinds, mut runs) = (vec![Kind::None; columns], Vec::new());
    for file in files {
        let mut run = file.clone();
        // If a sample has an error, the full scan reports the first error of the input.
        if sample(&run, &mut kinds, options, context).ok().flatten().is_none() {
            return Ok(None);
        }
        let len = file.file().text.len();
        let mut aim = RUN;
        while file.file().text.is_plain() && aim < len {
            context.check_cancelled()?;
            let Some(start) = after_line_end(&run, aim - 1)? else { return Ok(None) };
            let rest = run.from(start);
            match sample(&rest, &mut kinds, options, context).ok().flatten() {
                None => return Ok(None),
                // The run also contains the empty lines at the end of the file.
                Some(0) => break,
                Some(_) => {}
            }
            runs.push(run.until(start));
            (run, aim) = (rest, start + RUN);
        }
        runs.push(run);
    }
    let is_known = |kind: &Kind| !matches!(kind, Kind::None | Kind::Empty);
    Ok(kinds.iter().all(is_known).then_some(Guess { kinds, runs }))
}

/// Adds the kinds of the first values of a run to `kinds`. Returns the number of rows, or `None` if
/// a row spans several lines. In such a file, a line end is often not the end of a row.
fn sample(
    run: &Run,
    kinds: &mut [Kind],
    options: &ReadOptions,
    context: &dyn Context,
) -> Result<Option<u64>> {
    let mut rows = Rows::new(run, Some(kinds.len()), context.limits())?;
    rows.skip_header()?;
    let (start, mut count) = (rows.place().0, 0);
    while rows.advance()? {
        let (offset, _, len) = rows.place();
        if rows.has_line_ends() {
            return Ok(None);
        }
        take_row(kinds, &rows, &options.nulls);
        count += 1;
        if offset + len - start >= SAMPLE as u64 {
            break;
        }
    }
    Ok(Some(count))
}

/// Returns the offset after the first line end at or after `from`, or `None` if the line end is too
/// far away.
fn after_line_end(run: &Run, from: u64) -> Result<Option<u64>> {
    let text = &run.file().text;
    let len = usize::try_from(text.len() - from).unwrap_or(SAMPLE).min(SAMPLE);
    let mut buffer = vec![0; len];
    text.read_at(from, &mut buffer)?;
    Ok(memchr::memchr(b'\n', &buffer).map(|place| from + place as u64 + 1))
}
