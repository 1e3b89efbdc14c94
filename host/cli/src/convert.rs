//! `ferry convert`: converts one input.

use super::args::Convert;
use super::terminal;
use tensorferry::engine::context::session::Session;
use tensorferry::engine::convert::report::Report;
use tensorferry::engine::convert::{Request, convert};
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::publish::commit::CommitOptions;
use tensorferry_sdk::Result;

pub(super) fn run(command: &Convert, registry: &Registry, session: &Session) -> Result<()> {
    let request = Request {
        input: command.input.clone(),
        output: command.output.clone(),
        from: command.reader.from.clone(),
        to: command.to.clone(),
        reader_options: command.reader.options.clone(),
        writer_options: command.writer_options.clone(),
        part: command.part.clone(),
        steps: command.step.clone(),
        verify: command.verify,
        receipt: command.receipt,
        strict: command.strict,
        allowed: command.allow_loss.clone(),
        unit: None,
        carry: Vec::new(),
        dry_run: command.dry_run,
        commit: CommitOptions { force: command.force, sync: command.sync },
    };
    let report = terminal::with_progress(session, command.quiet, |begun| {
        convert(&request, registry, session, &begun)
    })?;
    terminal::report(&report.losses, &report.notes, command.quiet);
    terminal::answer(command.json, || report.json(), || text(&report))
}

fn text(report: &Report) -> String {
    let verb = if report.dry_run { "would write" } else { "wrote" };
    let verified = if report.verified.is_some() { ", verified" } else { "" };
    let mut text = format!(
        "{verb} {}: {}, {}, {} in {:.2} s{verified}\n",
        terminal::shown(&report.output),
        report.format,
        match report.records {
            Some(records) => format!("{records} records"),
            None if report.holds_records => "records".to_owned(),
            None => format!("{} tensors", report.tensors),
        },
        terminal::bytes(report.bytes),
        report.seconds,
    );
    if report.dry_run {
        for (path, len) in &report.files {
            text += &format!("  {} ({})\n", terminal::shown(path), terminal::bytes(*len));
        }
    }
    text
}
