//! `ferry index`: checks the framing of every record, and writes an index of them.

use super::args::Index;
use super::terminal;
use serde_json::json;
use std::time::Instant;
use tensorferry::engine::context::session::Session;
use tensorferry::engine::formats::probe::probe;
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::publish::commit::CommitOptions;
use tensorferry::engine::read::source::FileSource;
use tensorferry::engine::records::index::{beside, index};
use tensorferry_sdk::Result;

pub(super) fn run(command: &Index, registry: &Registry, session: &Session) -> Result<()> {
    let started = Instant::now();
    let source = FileSource::open(&command.input)?;
    let format = probe(registry, &source, command.reader.from.as_deref(), session)?;
    let output = command.output.clone().unwrap_or_else(|| beside(&command.input));
    let options = CommitOptions { force: command.force, sync: false };
    let indexed = index(&source, format, &command.reader.options, &output, options, session)?;
    let seconds = started.elapsed().as_secs_f64();
    let notes = session.take_notes();
    terminal::report(&[], &notes, false);
    let document = || {
        json!({
            "input": command.input,
            "output": output,
            "format": format.description.id,
            "records": indexed.records,
            "bytes": indexed.bytes,
            "seconds": seconds,
            "notes": notes,
        })
    };
    let text = || {
        let (records, bytes) = (terminal::counted(indexed.records, "record"), terminal::bytes(indexed.bytes));
        format!("indexed {}: {records}, {bytes} in {seconds:.2} s\n", terminal::shown(&output))
    };
    terminal::answer(command.json, document, text)
}
