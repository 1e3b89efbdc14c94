//! `ferry work`: does pieces of a plan.

use super::args::{Arguments, Work as Command};
use super::run::{Progress, options_of_worker};
use super::terminal;
use tensorferry::engine::context::session::Session;
use tensorferry::engine::formats::registry::Registry;
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
    let progress = Progress::new(false, command.quiet, false);
    let (pieces, people): (Pieces, &dyn EventListener) = (Pieces, &progress);
    // Whoever gives pieces reads what becomes of them.
    let listener = if command.json || source == WorkSource::Given { &pieces } else { people };
    let cancelled = session.cancel_flag();
    let done = work(&plan, source, command.runner, registry, &options, listener, &cancelled);
    progress.finish();
    done
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
