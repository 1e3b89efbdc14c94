//! `ferry convert`: converts one input.

use super::args::{Convert, DigestName};
use super::terminal;
use tensorferry::engine::context::session::Session;
use tensorferry::engine::convert::report::Report;
use tensorferry::engine::convert::{InputRequest, OutputRequest, Request, convert};
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::publish::commit::CommitOptions;
use tensorferry::engine::read::losses::LossPolicy;
use tensorferry_sdk::Result;

pub(super) fn run(command: &Convert, registry: &Registry, session: &Session) -> Result<()> {
    let request = Request {
        input: InputRequest {
            path: command.input.clone(),
            format: command.reader.from.clone(),
            options: command.reader.options.clone(),
            part: command.part.clone(),
            allow_empty: command.allow_empty,
            ..InputRequest::default()
        },
        steps: command.step.clone(),
        output: OutputRequest {
            path: command.output.clone(),
            format: command.to.clone(),
            options: command.writer_options.clone(),
            verify: command.verify,
            receipt: command.receipt.map(DigestName::algorithm),
            commit: CommitOptions { force: command.force, sync: command.sync },
        },
        losses: LossPolicy { strict: command.strict, allowed: command.allow_loss.clone() },
        dry_run: command.dry_run,
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
        "{verb} {}: {}, {}, {} from {} in {:.2} s{verified}\n",
        terminal::shown(&report.output),
        report.format,
        match report.records {
            Some(records) => terminal::counted(records, "record"),
            None if report.holds_records => "records".to_owned(),
            None => terminal::counted(report.tensors, "tensor"),
        },
        terminal::bytes(report.bytes),
        terminal::counted(report.files_read as u64, "file"),
        report.seconds,
    );
    if report.dry_run {
        for (path, len) in &report.files {
            text += &format!("  {} ({})\n", terminal::shown(path), terminal::bytes(*len));
        }
    }
    text
}
