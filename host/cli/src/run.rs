//! `ferry run`: runs the conversions in a manifest. With `--dry-run`, only plans them.

pub(super) mod cluster;
mod dry_run;
mod progress;

use super::args::{Arguments, Run as Command};
use super::terminal::{self, printable};
pub(super) use progress::Progress;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use tensorferry::{Registry, Session};
use tensorferry_run::manifest::{self, Mistake, RunTable, Variables};
use tensorferry_run::report::{self, JobSummary, Totals};
use tensorferry_run::{self, Budget, Only, Plan, RunOptions, RunOutcome, Shard, WorkerCommand, exit};
use tensorferry_sdk::{Error, Result};

/// Maximum number of failures that are repeated at the end, which is about one screen.
const MAX_FAILURES: usize = 10;

/// Runs the command and returns the exit code.
pub(super) fn run(
    command: &Command,
    arguments: &Arguments,
    load: &dyn Fn() -> Result<Registry>,
    session: &Session,
) -> Result<u8> {
    if command.schema {
        return terminal::print(&manifest::schema()).map(|()| 0);
    }
    if let Some(cluster) = &command.on {
        return cluster::run(cluster, command, arguments);
    }
    let path = command.manifest.as_deref().unwrap_or(Path::new(""));
    let registry = load()?;
    registry.check_any()?;
    if Plan::is_at(path) {
        return run_plan(command, arguments, &Plan::open(path, session)?, &registry, session);
    }
    refuse_plan_file(path, session)?;
    let variables = Variables::new(command.var.clone());
    let loaded = match manifest::load(path, &variables, &registry) {
        Ok(loaded) => loaded,
        Err(mistakes) => return print_mistakes(path, &mistakes, command.json).map(|()| exit::USAGE),
    };
    let options = options(command, arguments, path, &loaded.run, session)?;
    if let Some(only) = &options.only {
        only.check(loaded.jobs.iter().map(|job| job.name.as_str()))?;
    }
    let cancelled = session.cancel_flag();
    if !command.quiet {
        print_notes(&loaded.notes);
    }
    let progress = Progress::new(command.json, command.quiet, command.explain);
    if command.dry_run {
        let plan = tensorferry_run::dry_run(&loaded.jobs, &registry, &options, &progress, &cancelled);
        progress.finish();
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::cancelled("the dry run was interrupted"));
        }
        dry_run::print(&plan, &loaded.notes, command.json)?;
        return Ok(plan.exit_code());
    }
    let folder = command.report.clone().or(loaded.run.report.map(PathBuf::from));
    let folder = folder.map_or_else(|| options.report_folder(), Ok)?;
    if command.json {
        let line = |note: &String| format!("{}\n", serde_json::json!({"event": "note", "note": note}));
        terminal::print(&loaded.notes.iter().map(line).collect::<String>())?;
    }
    let ended = tensorferry_run::run(&loaded.jobs, &registry, &options, &progress, &cancelled)?;
    progress.finish();
    tell(command, &folder, &ended)
}

/// Rejects the path of a file inside a plan. The user must pass the plan's folder.
fn refuse_plan_file(path: &Path, session: &Session) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.file_name().is_none_or(|name| name != "plan.json") || Plan::open(folder, session).is_err() {
        return Ok(());
    }
    let error = Error::usage("this file belongs to a plan; pass the plan's folder");
    Err(error.file(path.display().to_string()).hint(format!("run `ferry run {}`", terminal::shown(folder))))
}

pub(super) fn print_notes(notes: &[String]) {
    notes.iter().for_each(|note| terminal::message("note", &printable(note)));
}

/// Runs the pieces of a plan.
fn run_plan(
    command: &Command,
    arguments: &Arguments,
    plan: &Plan,
    registry: &Registry,
    session: &Session,
) -> Result<u8> {
    let refused = [
        (command.dry_run, "--dry-run"),
        (!command.var.is_empty(), "--var"),
        (command.journal.is_some(), "--journal"),
    ];
    if let Some((_, flag)) = refused.iter().find(|(is_given, _)| *is_given) {
        let error = Error::usage(format!("{flag} is for a manifest, but this is a plan"));
        return Err(error.hint("run `ferry plan` again to change the jobs of a plan"));
    }
    let mut options = options_of_worker(arguments, plan, command.jobs, session)?;
    options.only = Only::parse(&command.only)?;
    options.shard = command.shard.as_deref().map(Shard::parse).transpose()?;
    options.explain = command.explain;
    options.fail_fast = command.fail_fast;
    let folder = command.report.clone().map_or_else(|| options.report_folder(), Ok)?;
    let progress = Progress::new(command.json, command.quiet, command.explain);
    let shard = options.shard.take();
    let ended =
        tensorferry_run::run_plan(plan, shard, registry, &options, &progress, &session.cancel_flag())?;
    progress.finish();
    tell(command, &folder, &ended)
}

/// Returns the run options for a worker of a plan.
pub(super) fn options_of_worker(
    arguments: &Arguments,
    plan: &Plan,
    jobs: Option<usize>,
    session: &Session,
) -> Result<RunOptions> {
    Ok(RunOptions {
        manifest: plan.path().to_owned(),
        // Each piece has its own journals, so this path only determines the location of the report.
        // The report is written to the plan's folder, or to the current directory if the plan is in
        // an object store.
        journal: match plan.path().is_dir() {
            true => plan.path().join("plan.journal.jsonl"),
            false => plan.path().file_name().map_or_else(PathBuf::new, PathBuf::from),
        },
        only: None,
        shard: None,
        explain: false,
        fail_fast: false,
        budget: Budget::of_worker(jobs, session.threads, arguments.memory, plan.header().memory),
        worker: worker_command(arguments, arguments.memory)?,
    })
}

/// Writes the report, prints a summary, and returns the exit code.
fn tell(command: &Command, folder: &Path, ended: &RunOutcome) -> Result<u8> {
    let page = report::write(folder, &ended.summary, tensorferry_check::SCRIPT);
    if !command.quiet {
        print_notes(&ended.notes);
    }
    if !command.json {
        tell_failures(&ended.summary.jobs);
        let report = page.as_ref().map(|page| format!("; report: {}", terminal::shown(page)));
        terminal::print(&format!(
            "{} in {:.1} s{}\n",
            totals(&ended.summary.totals),
            ended.summary.seconds,
            report.unwrap_or_default()
        ))?;
    }
    // If the journal could not be written, the report is often affected too. The error of the
    // journal takes precedence.
    ended.error.clone().map_or(page.map(|_| ended.exit_code), Err)
}

/// Prints the failures again, because the first messages have scrolled off the screen.
fn tell_failures(jobs: &[JobSummary]) {
    let failed: Vec<_> = jobs.iter().filter_map(|job| Some((job, job.failure.as_ref()?))).collect();
    // With few jobs, the messages are still visible just above.
    if jobs.len() <= MAX_FAILURES {
        let hints: BTreeSet<&str> =
            failed.iter().filter_map(|(_, failure)| failure.hint.as_deref()).collect();
        hints.iter().for_each(|hint| terminal::message("hint", hint));
        return;
    }
    for (job, failure) in failed.iter().take(MAX_FAILURES) {
        terminal::message(
            "failed",
            &format!("{}: {}", printable(&job.name), printable(&failure.to_string())),
        );
        if let Some(hint) = &failure.hint {
            terminal::message("  hint", hint);
        }
    }
    if failed.len() > MAX_FAILURES {
        let more = terminal::counted((failed.len() - MAX_FAILURES) as u64, "other job");
        terminal::message("failed", &format!("{more}; the report lists them"));
    }
}

pub(super) fn print_mistakes(path: &Path, mistakes: &[Mistake], json: bool) -> Result<()> {
    let path = path.display().to_string();
    for mistake in mistakes {
        terminal::message("error", &format!("{}:{}", printable(&path), printable(&mistake.to_string())));
        if json {
            let mut line = serde_json::to_value(mistake).unwrap_or_default();
            line["event"] = "mistake".into();
            line["manifest"] = path.as_str().into();
            terminal::print(&format!("{line}\n"))?;
        }
    }
    Ok(())
}

fn options(
    command: &Command,
    arguments: &Arguments,
    path: &Path,
    table: &RunTable,
    session: &Session,
) -> Result<RunOptions> {
    let number = |number: Option<u32>| number.and_then(|number| usize::try_from(number).ok());
    let threads = arguments.threads.or(number(table.threads)).unwrap_or(session.threads);
    let given = arguments.memory.or(table.memory.map(|size| size.0));
    let memory = given.unwrap_or(session.memory);
    let jobs = command.jobs.or(number(table.jobs));
    let journal = command.journal.clone().or(table.journal.as_ref().map(PathBuf::from));
    Ok(RunOptions {
        manifest: path.to_owned(),
        journal: journal.unwrap_or_else(|| RunOptions::journal_of(path)),
        only: Only::parse(&command.only)?,
        shard: command.shard.as_deref().map(Shard::parse).transpose()?,
        explain: command.explain,
        fail_fast: (command.fail_fast || table.fail_fast.unwrap_or(false)) && !command.keep_going,
        budget: Budget::new(jobs, threads, memory, table.rate.map(|size| size.0)),
        worker: worker_command(arguments, given)?,
    })
}

/// Returns the command that starts a worker process. The command runs this program with the same
/// plugins and limits.
pub(super) fn worker_command(arguments: &Arguments, memory: Option<u64>) -> Result<WorkerCommand> {
    let program = std::env::current_exe().map_err(|e| Error::from(e).context("cannot find this program"))?;
    let folders = arguments.plugin_dir.iter().flat_map(|folder| {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        ["--plugin-dir".into(), folder.into_os_string()]
    });
    let bounds = arguments.changed_limits(memory);
    let bounds = bounds.flat_map(|(name, value)| ["--limit".into(), format!("{name}={value}").into()]);
    let shadows = arguments.allow_shadow.iter().flat_map(|id| ["--allow-shadow".into(), id.into()]);
    let stores = arguments.store.clone();
    Ok(WorkerCommand { program, arguments: folders.chain(bounds).chain(shadows).collect(), stores })
}

/// Formats the totals of a run, as in `12 jobs: 3 done, 9 unchanged`.
pub(super) fn totals(totals: &Totals) -> String {
    let parts = [
        (totals.failed, "failed"),
        (totals.cancelled, "not done"),
        (totals.done, "done"),
        (totals.unchanged, "unchanged"),
    ];
    let all: u64 = parts.iter().map(|(count, _)| count).sum();
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    let losses = match totals.losses {
        0 => String::new(),
        1 => ", 1 loss".to_owned(),
        count => format!(", {count} losses"),
    };
    let jobs = if all == 1 { "job" } else { "jobs" };
    if parts.is_empty() {
        "no jobs".to_owned()
    } else {
        format!("{all} {jobs}: {}{losses}", parts.join(", "))
    }
}
