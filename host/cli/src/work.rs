//! `ferry work`: runs the pieces of a plan.

use super::args::{Arguments, Work as Command};
use super::run::{Progress, options_of_worker, totals};
use super::terminal;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tensorferry::{Registry, Session};
use tensorferry_run::report::Totals;
use tensorferry_run::{Event, EventListener, Plan, WorkSource, work};
use tensorferry_sdk::Result;

/// Runs the command and returns the exit code.
pub(super) fn run(
    command: &Command,
    arguments: &Arguments,
    registry: &Registry,
    session: &Session,
) -> Result<u8> {
    registry.check_any()?;
    let plan = Plan::open(&command.plan, session)?;
    let mut options = options_of_worker(arguments, &plan, command.jobs, session)?;
    options.fail_fast = command.fail_fast;
    let source = if command.pull { WorkSource::Claimed } else { WorkSource::Given };
    let (begun, cancelled) = (Instant::now(), session.cancel_flag());
    let done = |listener: &dyn EventListener| {
        work(&plan, source, command.runner, registry, &options, listener, &cancelled)
    };
    // The process that assigns pieces to this worker reads the pieces' results as events.
    if command.json || source == WorkSource::Given {
        return done(&PieceEvents);
    }
    let people =
        TerminalListener { progress: Progress::new(false, command.quiet, false), totals: Mutex::default() };
    let code = done(&people);
    people.progress.finish();
    let sums = people.totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    terminal::print(&format!("{} in {:.1} s\n", totals(&sums), begun.elapsed().as_secs_f64()))?;
    code
}

/// Shows the progress of this worker's pieces to the user, and adds up the results of their jobs.
struct TerminalListener {
    progress: Progress,
    totals: Mutex<Totals>,
}

impl EventListener for TerminalListener {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::PieceDone { totals, .. } = event {
            self.totals.lock().unwrap_or_else(PoisonError::into_inner).add(totals);
        }
        self.progress.on_event(event);
    }
}

/// Prints events about pieces as JSON lines. Events about jobs are left out, because a scheduler
/// stores every message.
struct PieceEvents;

impl EventListener for PieceEvents {
    fn on_event(&self, event: &Event<'_>) {
        let is_of_piece = matches!(
            event,
            Event::PieceBegan { .. }
                | Event::PieceMoved { .. }
                | Event::PieceDone { .. }
                | Event::PieceFailed { .. }
        );
        if is_of_piece && let Ok(line) = serde_json::to_string(event) {
            // A write error is ignored. A scheduler that no longer reads the events is about to end
            // this process.
            let _ = terminal::print(&format!("{line}\n"));
        }
    }
}
