//! `ferry work`: does pieces of a plan.

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
    // Whoever gives pieces reads what becomes of them.
    if command.json || source == WorkSource::Given {
        return done(&Pieces);
    }
    let people = People { progress: Progress::new(false, command.quiet, false), totals: Mutex::default() };
    let code = done(&people);
    people.progress.finish();
    let sums = people.totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    terminal::print(&format!("{} in {:.1} s\n", totals(&sums), begun.elapsed().as_secs_f64()))?;
    code
}

/// Shows how the pieces go that this worker takes, and sums up what became of their jobs.
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

/// Tells of pieces, in JSON lines; of their jobs nothing, since a scheduler carries about what it is told.
struct Pieces;

impl EventListener for Pieces {
    fn on_event(&self, event: &Event<'_>) {
        let is_of_piece = matches!(
            event,
            Event::PieceBegan { .. }
                | Event::PieceMoved { .. }
                | Event::PieceDone { .. }
                | Event::PieceFailed { .. }
        );
        if is_of_piece && let Ok(line) = serde_json::to_string(event) {
            // Who does not read any more has ended this process, or will.
            let _ = terminal::print(&format!("{line}\n"));
        }
    }
}
