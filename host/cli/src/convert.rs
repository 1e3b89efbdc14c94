//! `ferry convert`: converts one or more inputs.

mod outputs;

use super::args::{Convert, DigestName};
use super::pipes::{self, is_pipe};
use super::{failure, losses, terminal};
use serde_json::json;
use std::path::{Path, PathBuf};
use tensorferry::inspect::{Account, AccountRecord};
use tensorferry::request::{CommitOptions, InputRequest, OutputRequest, Request};
use tensorferry::{Registry, Report, Session, places};
use tensorferry_run::exit::exit_code;
use tensorferry_run::hint::hint;
use tensorferry_run::human::rate;
use tensorferry_sdk::{Error, ErrorKind, Result};

/// Runs the command and returns the exit code.
pub(super) fn run(command: &Convert, registry: &Registry, session: &Session) -> Result<u8> {
    let (inputs, template) = split_paths(command)?;
    let outputs = match &template {
        Template::Plain(output) => {
            let report = convert_one(command, &inputs[0], output, registry)?;
            terminal::answer_outside_data(
                is_pipe(output),
                command.json,
                || report.json(),
                || summary(command, &report),
            )?;
            return Ok(0);
        }
        Template::Of(template) => outputs::of(&inputs, template, command.to.as_deref(), registry)?,
    };
    let mut documents = Vec::new();
    let mut code = 0;
    for (input, output) in &outputs {
        // Each conversion has its own session, so that progress is counted separately for each
        // conversion.
        let session = session.child(session.threads, session.memory, session.rate);
        match convert_one(command, input, output, &registry.clone().with_session(session)) {
            Ok(report) if command.json => documents.push(report.json()),
            Ok(report) => terminal::print(&summary(command, &report))?,
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(error) => {
                terminal::message("error", &format!("{}: {error}", places::shown(input)));
                let hint = hint(&error);
                if let Some(hint) = &hint {
                    terminal::message("  hint", hint);
                }
                let mut document = failure::document(&error, hint.as_deref());
                document["input"] = places::shown(input).into();
                documents.push(document);
                code = if code == 0 { exit_code(error.kind()) } else { code };
            }
        }
    }
    if command.json {
        terminal::print_json(&json!({ "conversions": documents }))?;
    }
    Ok(code)
}

enum Template {
    /// Path of the only output.
    Plain(PathBuf),
    /// Template or folder from which each input's output path is derived.
    Of(String),
}

/// Splits the path arguments into the inputs, and the output path or output template.
fn split_paths(command: &Convert) -> Result<(Vec<PathBuf>, Template)> {
    let mut inputs = command.paths.clone();
    if let Some(template) = &command.output_template {
        if inputs.iter().any(|input| is_pipe(input)) {
            let error = Error::usage("-O needs a file name for each input, and standard input has none");
            return Err(error.hint("pass OUTPUT instead of -O"));
        }
        return Ok((inputs, Template::Of(template.clone())));
    }
    let last = inputs.pop().filter(|_| !inputs.is_empty());
    let output = last.ok_or_else(|| {
        Error::usage("OUTPUT is missing").hint("run `ferry convert INPUT OUTPUT`, or pass -O TEMPLATE")
    })?;
    if inputs.len() == 1 {
        return Ok((inputs, Template::Plain(output)));
    }
    let count = inputs.len();
    Err(Error::usage(format!("{count} INPUTs need -O, an output path for each"))
        .hint("pass -O 'out/{stem}.safetensors', or -O out/ --to FORMAT"))
}

fn convert_one(command: &Convert, input: &Path, output: &Path, registry: &Registry) -> Result<Report> {
    if is_pipe(output) {
        check_piped(command)?;
    }
    let (from, to) = (pipes::input(input)?, pipes::output(output)?);
    let request = Request {
        input: InputRequest {
            path: from.path.clone(),
            format: command.reader.from.clone(),
            options: command.reader.options.clone(),
            part: command.part.clone(),
            companions: command.companions.as_ref().map(|companions| companions.0.clone()),
            allow_empty: command.allow_empty,
            ..InputRequest::default()
        },
        steps: command.step.clone(),
        output: OutputRequest {
            path: to.path.clone(),
            format: command.to.clone(),
            options: command.output_options.clone(),
            verify: command.verify,
            receipt: command.receipt.map(DigestName::algorithm),
            commit: CommitOptions { force: command.force, sync: command.sync },
            ..OutputRequest::default()
        },
        losses: command.losses.policy(),
        dry_run: command.dry_run,
    };
    let mut report = terminal::with_progress(registry.session(), command.quiet, |begun| {
        registry.convert_as(&request, &begun)
    })?;
    losses::report(&report.losses, &report.notes, command.quiet);
    if is_pipe(output) {
        if !command.dry_run {
            to.print()?;
        }
        report.output = output.to_owned();
    }
    Ok(report)
}

/// Rejects options that cannot be combined with OUTPUT `-`.
fn check_piped(command: &Convert) -> Result<()> {
    if command.json {
        return Err(
            Error::usage("--json and OUTPUT `-` both write to standard output").hint("name a file as OUTPUT")
        );
    }
    if command.receipt.is_some() {
        return Err(Error::usage("--receipt writes a file next to the output, and OUTPUT `-` is not a file")
            .hint("name a file as OUTPUT"));
    }
    if command.to.is_none() {
        return Err(
            Error::usage("OUTPUT `-` has no extension that selects a format").hint("pass --to FORMAT")
        );
    }
    Ok(())
}

/// Returns the summary of a conversion. `--quiet` does not suppress the summary of a dry run,
/// because the summary is the only result.
fn summary(command: &Convert, report: &Report) -> String {
    if command.quiet && !report.dry_run { String::new() } else { text(report) }
}

/// Returns the throughput of a conversion. Returns an empty string if there is nothing to measure,
/// or if the conversion took less than a second.
fn throughput(report: &Report) -> String {
    if report.dry_run || report.bytes == 0 || report.seconds < 1.0 {
        return String::new();
    }
    format!(" ({}/s)", terminal::bytes(rate(report.bytes, report.seconds)))
}

fn text(report: &Report) -> String {
    let verb = if report.dry_run { "would write" } else { "wrote" };
    let verified = if report.verified.is_some() { ", verified" } else { "" };
    let mut text = format!(
        "{verb} {}: {}, {}{} from {} in {:.2} s{}{verified}\n",
        terminal::shown(&report.output),
        report.format,
        match report.records {
            Some(records) => terminal::counted(records, "record"),
            None if report.holds_records => "records".to_owned(),
            None => terminal::counted(report.tensors, "tensor"),
        },
        // The encoded size of records is not known until they have been written.
        if report.dry_run && report.holds_records {
            String::new()
        } else {
            format!(", {}", terminal::bytes(report.bytes))
        },
        terminal::counted(report.files_read as u64, "file"),
        report.seconds,
        throughput(report),
    );
    let account = report.account.as_ref().map(Account::record);
    if let Some(account) = account.filter(AccountRecord::is_notable) {
        text += &format!("input: {}\n", terminal::printable(&account.line()));
    }
    if report.dry_run {
        for (path, len) in &report.files {
            let len = if *len == 0 { String::new() } else { format!(" ({})", terminal::bytes(*len)) };
            text += &format!("  {}{len}\n", terminal::shown(path));
        }
    }
    text
}
