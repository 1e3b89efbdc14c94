//! `ferry cat`: prints records, one JSON object a line.

use super::args::Cat;
use super::{losses, pipes, terminal};
use std::io::{BufWriter, IsTerminal, Write};
use tensorferry::formats::holds_records;
use tensorferry::inspect::{FoundInput, InputChoice};
use tensorferry::rows::{self, write_lines};
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
        return Err(Error::usage("cat is for records: `ferry inspect` shows tensors").file(input));
    }
    let rows = rows::open(source, format, options, &found.reading(session, Purpose::LINES))?;
    policy.check(&rows.losses()?)?;
    // A file or another program gets the bytes that `convert` writes.
    let stdout = std::io::stdout();
    let to: Box<dyn Write> = if stdout.is_terminal() {
        Box::new(terminal::TerminalLines::default())
    } else {
        Box::new(stdout.lock())
    };
    let mut output = BufWriter::with_capacity(1 << 16, to);
    let written = write_lines(&rows, command.limit, &mut output, session);
    // What was read before an error is shown.
    let flushed = output.flush().map_err(Error::from);
    let lost = rows.losses()?;
    losses::report(&lost, &session.take_notes(), false);
    match written.map(|_| ()).and(flushed) {
        // Whoever reads the lines has seen enough: `ferry cat ... | head`.
        Err(error) if error.message().contains("Broken pipe") => Ok(()),
        Err(error) => Err(error),
        Ok(()) => policy.check(&lost).and_then(|()| rows.close()),
    }
}
