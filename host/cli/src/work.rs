//! `ferry work`: runs pieces of a plan.

use super::args::{Arguments, Work as Command};
use super::run::{Progress, options_of_worker, totals};
use super::terminal;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tensorferry::{Registry, Session};
use tensorferry_run::report::Totals;
use tensorferry_run::{Event, EventListener, Plan, WorkSource, work};
use tensorferry_sdk::Result;

/// Returns the exit code.
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
    // The process that assigns pieces also reads their results.
    if command.json || source == WorkSource::Given {
        return done(&PieceEvents);
    }
    let people = People { progress: Progress::new(false, command.quiet, false), totals: Mutex::default() };
    let code = done(&people);
    people.progress.finish();
    let sums = people.totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    terminal::print(&format!("{} in {:.1} s\n", totals(&sums), begun.elapsed().as_secs_f64()))?;
    code
}

/// Shows the progress of this worker's pieces, and sums up the results of their jobs.
struct People {
    progress: Progress,
    totals: Mutex<Totals>,
}

impl EventListener for People {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::PieceDone { totals, .. } = event {
            self.totals.lock().unwrap_or_else(PoisonError::into_inner).add(totals);
        }
        self.progress.on_event(event);
    }
}

/// Reports pieces as JSON lines. Jobs are not reported, since a scheduler stores every message.
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
            // A scheduler that no longer reads has ended this process or will end it.
            let _ = terminal::print(&format!("{line}\n"));
        }
    }
}
