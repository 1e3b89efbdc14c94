//! `ferry index`.

use super::args::Index;
use super::terminal;
use serde_json::json;
use std::time::Instant;
use tensorferry::engine::context::session::Run;
use tensorferry::engine::formats::probe::probe;
use tensorferry::engine::formats::registry::Plugins;
use tensorferry::engine::publish::commit::CommitOptions;
use tensorferry::engine::read::source::FileSource;
use tensorferry::engine::records::index::{beside, index};
use tensorferry_sdk::Result;

pub(super) fn run(command: &Index, plugins: &Plugins, run: &Run) -> Result<()> {
    let started = Instant::now();
    let source = FileSource::open(&command.input)?;
    let format = probe(plugins, &source, command.from.as_deref(), run)?;
    let output = command.output.clone().unwrap_or_else(|| beside(&command.input));
    let options = CommitOptions { force: command.force, sync: false };
    let indexed = index(&source, format, &command.reader.options, &output, options, run)?;
    let seconds = started.elapsed().as_secs_f64();
    let notes = run.take_notes();
    terminal::report(&[], &notes, false);
    if command.json {
        return terminal::print_json(&json!({
            "input": command.input,
            "output": output,
            "format": format.description.id,
            "records": indexed.records,
            "bytes": indexed.bytes,
            "seconds": seconds,
            "notes": notes,
        }));
    }
    terminal::print(&format!(
        "indexed {}: {}, {} in {seconds:.2} s\n",
        terminal::printable(&output.display().to_string()),
        terminal::counted(indexed.records, "record"),
        terminal::bytes(indexed.bytes),
    ))
}
