//! `ferry index`: verifies record checksums and writes an index.

use super::args::{Index, ReaderArgs};
use super::{losses, terminal};
use serde_json::json;
use std::time::Instant;
use tensorferry::inspect::{FoundInput, InputChoice};
use tensorferry::request::{CommitOptions, Part};
use tensorferry::rows::{beside, index};
use tensorferry::{Registry, Session};
use tensorferry_sdk::Result;

pub(super) fn run(command: &Index, registry: &Registry, session: &Session) -> Result<()> {
    let started = Instant::now();
    let ReaderArgs { from, options, .. } = &command.reader;
    let choice = InputChoice { from: from.as_deref(), options, part: &Part::Whole, losses: None };
    let FoundInput { source, format, options: given, .. } = registry.find(&command.input, choice)?;
    let output = command.output.clone().unwrap_or_else(|| beside(&command.input));
    let options = CommitOptions { force: command.force, sync: false };
    let indexed = terminal::with_progress(session, false, |_| {
        index(&source, format, &given, &output, options, session)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let notes = session.take_notes();
    losses::report(&[], &notes, false);
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
