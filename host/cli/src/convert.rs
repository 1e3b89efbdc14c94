//! `ferry convert`: converts one input, or each of several.

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
use tensorferry_sdk::{Error, ErrorKind, Result};

/// Returns the exit code.
pub(super) fn run(command: &Convert, registry: &Registry, session: &Session) -> Result<u8> {
    let (inputs, template) = ends(command)?;
    let outputs = match &template {
        Template::Plain(output) => {
            let report = one(command, &inputs[0], output, registry)?;
            terminal::answer_beside(
                is_pipe(output),
                command.json,
                || report.json(),
                || said(command, &report),
            )?;
            return Ok(0);
        }
        Template::Of(template) => outputs::of(&inputs, template, command.to.as_deref(), registry)?,
    };
    let mut documents = Vec::new();
    let mut code = 0;
    for (input, output) in &outputs {
        // Each has a progress of its own.
        let session = session.below(session.threads, session.memory, session.rate);
        match one(command, input, output, &registry.clone().with_session(session)) {
            Ok(report) if command.json => documents.push(report.json()),
            Ok(report) => terminal::print(&said(command, &report))?,
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(error) => {
                terminal::message("error", &format!("{}: {error}", places::shown(input)));
                let mut document = failure::document(&error, hint(&error).as_deref());
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

/// Where outputs go.
enum Template {
    /// The one output.
    Plain(PathBuf),
    /// An output for each input.
    Of(String),
}

/// The inputs, and where their outputs go.
fn ends(command: &Convert) -> Result<(Vec<PathBuf>, Template)> {
    let mut inputs = command.paths.clone();
    if let Some(template) = &command.output_template {
        if inputs.iter().any(|input| is_pipe(input)) {
            return Err(Error::usage("- has no name for -O: name the OUTPUT"));
        }
        return Ok((inputs, Template::Of(template.clone())));
    }
    let last = inputs.pop().filter(|_| !inputs.is_empty());
    let output = last.ok_or_else(|| {
        Error::usage("no OUTPUT").expected("ferry convert INPUT OUTPUT, or INPUT... -O TEMPLATE")
    })?;
    if inputs.len() == 1 {
        return Ok((inputs, Template::Plain(output)));
    }
    let count = inputs.len();
    Err(Error::usage(format!("{count} INPUTs need -O, which says where the output of each goes"))
        .expected("-O 'out/{stem}.safetensors', or -O out/ --to FORMAT"))
}

fn one(command: &Convert, input: &Path, output: &Path, registry: &Registry) -> Result<Report> {
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

/// What standard output cannot be, beside the output itself.
fn check_piped(command: &Convert) -> Result<()> {
    if command.json {
        return Err(Error::usage("--json prints to standard output, where the output goes: name a file"));
    }
    if command.receipt.is_some() {
        return Err(Error::usage("--receipt is written beside the output, and - has no place: name a file"));
    }
    if command.to.is_none() {
        return Err(Error::usage("- has no ending that says the format: --to FORMAT"));
    }
    Ok(())
}

/// What is printed of a conversion; a plan is what was asked for, however quiet it is to be.
fn said(command: &Convert, report: &Report) -> String {
    if command.quiet && !report.dry_run { String::new() } else { text(report) }
}

fn text(report: &Report) -> String {
    let verb = if report.dry_run { "would write" } else { "wrote" };
    let verified = if report.verified.is_some() { ", verified" } else { "" };
    let mut text = format!(
        "{verb} {}: {}, {}{} from {} in {:.2} s{verified}\n",
        terminal::shown(&report.output),
        report.format,
        match report.records {
            Some(records) => terminal::counted(records, "record"),
            None if report.holds_records => "records".to_owned(),
            None => terminal::counted(report.tensors, "tensor"),
        },
        // Nobody knows how long rows will be once they are encoded.
        if report.dry_run && report.holds_records {
            String::new()
        } else {
            format!(", {}", terminal::bytes(report.bytes))
        },
        terminal::counted(report.files_read as u64, "file"),
        report.seconds,
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
