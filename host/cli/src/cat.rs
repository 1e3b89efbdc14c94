//! `ferry cat` prints records as JSON Lines.

use super::args::Cat;
use super::show::records::range;
use super::{losses, pipes, terminal};
use std::io::{BufWriter, IsTerminal, Write};
use tensorferry::formats::holds_records;
use tensorferry::inspect::{FoundInput, InputChoice};
use tensorferry::rows::{self, Origin, Rows, steps_on_records, write_flow, write_lines};
use tensorferry::{Registry, Session, places};
use tensorferry_sdk::{Error, Purpose, Result};

pub(super) fn run(command: &Cat, registry: &Registry, session: &Session) -> Result<()> {
    let input = pipes::input(&command.input)?;
    let policy = command.losses.policy();
    let choice = InputChoice { losses: Some(&policy), ..command.reader.look(Purpose::LINES).choice() };
    let found = registry.find(&input.path, choice)?;
    let FoundInput { source, format, options, .. } = &found;
    if !holds_records(&format.description) {
        let input = places::shown(&command.input);
        let error = Error::usage("the input contains tensors, and `ferry cat` prints records").file(input);
        return Err(error.hint("run `ferry inspect` or `ferry show` to look at tensors"));
    }
    let rows = rows::open(source, format, options, &found.reading(session, Purpose::LINES))?;
    policy.check(&rows.losses()?)?;
    let stdout = std::io::stdout();
    let to: Box<dyn Write> = if stdout.is_terminal() {
        Box::new(terminal::TerminalLines::default())
    } else {
        Box::new(stdout.lock())
    };
    let mut output = BufWriter::with_capacity(1 << 16, to);
    let written = write_range(command.rows.as_deref(), &rows, &mut output, session);
    // Prints the records that were read before an error.
    let flushed = output.flush().map_err(Error::from);
    let lost = rows.losses()?;
    losses::report(&lost, &session.take_notes(), false);
    match written.and(flushed) {
        // The reader of the pipe has exited, as in `ferry cat ... | head`.
        Err(error) if error.message().contains("Broken pipe") => Ok(()),
        Err(error) => Err(error),
        Ok(()) => policy.check(&lost).and_then(|()| rows.close()),
    }
}

fn write_range(text: Option<&str>, rows: &Rows<'_>, output: &mut dyn Write, session: &Session) -> Result<()> {
    let range = text.map_or(Ok(0..u64::MAX), |text| range(text, rows.known_records()))?;
    if range.start == 0 {
        return write_lines(rows, Some(range.end), output, session).map(|_| ());
    }
    let count = range.end.saturating_sub(range.start);
    let steps = steps_on_records(&[format!("skip:{}", range.start), format!("take:{count}")])?;
    std::thread::scope(|scope| {
        let mut flow = rows::make(scope, Origin::Rows(rows), &steps, session)?;
        write_flow(&mut *flow, output, session).map(|_| ())
    })
}
