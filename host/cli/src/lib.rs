//! The command-line program `ferry`. The program is a library crate so that the Python wheel can
//! contain it in the same file as the extension module.

#![deny(unsafe_code)]

mod allow_list;
mod args;
mod cat;
mod check;
mod clean;
mod cluster;
mod convert;
mod diff;
mod doctor;
mod failure;
mod formats;
mod habits;
mod index;
mod inspect;
mod losses;
mod man;
mod page;
mod pipes;
mod plan;
mod platform;
mod plugin;
mod plugin_folders;
mod process;
mod recover;
mod run;
mod show;
mod steps;
mod terminal;
mod user_folders;
mod verify;
mod view;
mod work;

use args::{Arguments, Command};
use clap::CommandFactory;
use std::sync::Arc;
use tensorferry::Session;
use tensorferry_core::context::fault;
use tensorferry_run::exit::exit_code;
use tensorferry_sdk::{Error, Result};

/// Exit code of `diff` and `check` if they find differences.
const DIFFERENT: u8 = 1;

/// Runs the program with the arguments of this process and returns its exit code. Exits the process
/// on argument errors and requests for help.
#[must_use]
pub fn run_program() -> u8 {
    // clap prints help to stdout, and errors to stderr with exit code 2.
    let arguments = Arguments::parse_grouped().unwrap_or_else(|mistake| failure::refuse_arguments(mistake));
    if let Command::ScanPlugins { libraries } = &arguments.command {
        return match tensorferry::scan_plugins(libraries) {
            Ok(()) => 0,
            Err(error) => exit_code(error.kind()),
        };
    }
    if let Command::ExaminePlugin { test, stop_at } = &arguments.command {
        return plugin::examine(test, stop_at.as_deref());
    }
    let mut session = Session::new(
        arguments.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get())),
        arguments.memory(),
    );
    platform::keep_freed_memory(session.memory);
    session.limits = arguments.limits();
    session.links.follow = arguments.command.follows_links();
    terminal::choose_colors(arguments.color);
    if arguments.losses {
        losses::show_all();
    }
    let remote = tensorferry::remote::connect(&arguments.store, &session);
    let prepared = match arguments.command {
        // `ferry doctor` reports invalid settings in its output.
        Command::Doctor { .. } => Ok(()),
        _ => remote.map(|remote| session.remote = Some(remote)).and_then(|()| set_fault()),
    };
    let session = Arc::new(session);
    let answered = prepared.and_then(|()| process::prepare(&session)).and_then(|()| {
        if let Command::Job { runner } = &arguments.command {
            // The worker runs outside the session's thread pool, because it starts threads for each
            // job.
            let registry = plugin_folders::load(&arguments)?;
            return tensorferry_run::serve(&registry, &session, *runner).map(|()| 0);
        }
        if let Command::View(command) = &arguments.command {
            // The server runs outside the session's thread pool. It waits for requests, while the
            // readers that it calls need the threads of the pool.
            let registry = plugin_folders::load(&arguments)?.with_session(session.clone());
            return view::run(command, &registry, &session).map(|()| 0);
        }
        session.install(|| answer(&arguments, &session))
    });
    match answered {
        Ok(code) => code,
        Err(error) => {
            failure::report(&error, failure::is_json(&arguments.command));
            exit_code(error.kind())
        }
    }
}

/// Sets the fault that a test requests in `FERRY_FAULT`. Only test builds can simulate faults.
fn set_fault() -> Result<()> {
    match std::env::var("FERRY_FAULT") {
        Ok(wanted) if fault::ARE_KNOWN => fault::set(&wanted),
        _ => Ok(()),
    }
}

fn answer(arguments: &Arguments, session: &Arc<Session>) -> Result<u8> {
    let load = || Ok::<_, Error>(plugin_folders::load(arguments)?.with_session(session.clone()));
    // If the user cancels a run, the run first stops its jobs.
    let load_for_jobs =
        || Ok::<_, Error>(plugin_folders::load(arguments)?.with_session(session.with_own_progress()));
    match &arguments.command {
        Command::Convert(command) => convert::run(command, &load()?, session),
        Command::Inspect(command) => inspect::run(command, &load()?, session).map(|()| 0),
        Command::Show(command) => show::run(command, &load()?, session).map(|()| 0),
        Command::Cat(command) => cat::run(command, &load()?, session).map(|()| 0),
        Command::Index(command) => index::run(command, &load()?, session).map(|()| 0),
        Command::Diff(command) => diff::run(command, &load()?, session).map(verdict),
        Command::Check(command) => check::run(command, &load()?, session).map(verdict),
        Command::Run(command) => run::run(command, arguments, &load_for_jobs, session),
        Command::Plan(command) => plan::run(command, arguments, &load_for_jobs()?, session),
        Command::Work(command) => work::run(command, arguments, &load_for_jobs()?, session),
        Command::Job { .. }
        | Command::ScanPlugins { .. }
        | Command::ExaminePlugin { .. }
        | Command::View(_) => Ok(0),
        Command::Verify(command) => verify::run(command, &load()?, session).map(|()| 0),
        Command::Clean(command) => clean::run(command, session).map(|()| 0),
        Command::Recover { stage } => recover::run(stage).map(|()| 0),
        Command::Formats { id, json } => {
            formats::run(&load()?, &session.limits, id.as_deref(), *json).map(|()| 0)
        }
        Command::Steps(command) => steps::run(command).map(|()| 0),
        Command::Doctor { json } => doctor::run(*json, arguments, session).map(|()| 0),
        Command::Plugin(command) => plugin::run(command, arguments),
        Command::Man => man::run().map(|()| 0),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "ferry", &mut script);
            terminal::print(&String::from_utf8_lossy(&script)).map(|()| 0)
        }
    }
}

fn verdict(same: bool) -> u8 {
    if same { 0 } else { DIFFERENT }
}
