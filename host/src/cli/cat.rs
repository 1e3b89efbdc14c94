//! `ferry cat`.

use super::args::Cat;
use super::terminal;
use std::io::{BufWriter, Write};
use tensorferry_host::errand::Errand;
use tensorferry_host::plugins::Plugins;
use tensorferry_host::probe::probe;
use tensorferry_host::records::lines::write_lines;
use tensorferry_host::records::rows::{self, holds_records};
use tensorferry_host::run::Run;
use tensorferry_host::source::FileSource;
use tensorferry_sdk::{Error, Purpose, Result};

pub(super) fn run(command: &Cat, plugins: &Plugins, run: &Run) -> Result<()> {
    let source = FileSource::open(&command.input)?;
    let format = probe(plugins, &source, command.from.as_deref(), run)?;
    if !holds_records(&format.description) {
        let input = command.input.display().to_string();
        return Err(Error::usage("cat is for records: `ferry inspect` shows tensors").file(input));
    }
    let rows = rows::open(&source, format, &command.reader.options, &Errand::new(run, Purpose::LINES))?;
    let mut output = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let written = write_lines(&rows, command.limit, &mut output, run);
    // What was read before an error is shown.
    let flushed = output.flush().map_err(Error::from);
    terminal::report(&rows.losses()?, &run.take_notes(), false);
    match written.map(|_| ()).and(flushed) {
        // Whoever reads the lines has seen enough: `ferry cat ... | head`.
        Err(error) if error.message().contains("Broken pipe") => Ok(()),
        Err(error) => Err(error),
        Ok(()) => rows.close(),
    }
}
