//! `ferry plan`: splits the jobs of a manifest into pieces.

use super::args::{Arguments, Plan as Command};
use super::run::{Progress, print_mistakes, print_notes, worker_command};
use super::terminal;
use serde_json::json;
use tensorferry::places::absolute;
use tensorferry::{Registry, Session};
use tensorferry_run::manifest::Variables;
use tensorferry_run::{Budget, MadePlan, Only, PlanOptions, RunOptions, exit, make_plan};
use tensorferry_sdk::{Error, Result};

/// Runs the command and returns the exit code.
pub(super) fn run(
    command: &Command,
    arguments: &Arguments,
    registry: &Registry,
    session: &Session,
) -> Result<u8> {
    registry.check_any()?;
    let manifest = &command.manifest;
    let options = PlanOptions {
        folder: command.plan.clone(),
        piece_jobs: command.piece_jobs,
        piece_bytes: command.piece_bytes,
        memory: arguments.memory,
        run: RunOptions {
            manifest: manifest.clone(),
            journal: RunOptions::journal_of(manifest),
            only: Only::parse(&command.only)?,
            shard: None,
            explain: false,
            fail_fast: false,
            budget: Budget::new(None, session.threads, session.memory, None),
            worker: worker_command(arguments, arguments.memory)?,
        },
    };
    let progress = Progress::new(false, command.json, false);
    let variables = Variables::new(command.var.clone());
    let made = make_plan(options, &variables, registry, &progress, &session.cancel_flag());
    progress.finish();
    let MadePlan { header, notes } = match made? {
        Ok(made) => made,
        Err(mistakes) => return print_mistakes(manifest, &mistakes, command.json).map(|()| exit::USAGE),
    };
    print_notes(&notes);
    let folder =
        absolute(&command.plan).map_err(|e| Error::from(e).file(command.plan.display().to_string()))?;
    if command.json {
        let (pieces, jobs, bytes) = (header.pieces, header.jobs, header.bytes);
        let document =
            json!({"plan": folder, "pieces": pieces, "jobs": jobs, "bytes": bytes, "notes": notes});
        return terminal::print(&format!("{document}\n")).map(|()| 0);
    }
    let text = format!(
        "planned {}: {} in {}, of {} to read\n",
        terminal::shown(&command.plan),
        terminal::counted(header.jobs, "job"),
        terminal::counted(header.pieces, "piece"),
        terminal::bytes(header.bytes),
    );
    terminal::print(&text).map(|()| 0)
}
