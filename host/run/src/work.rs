//! `ferry work`: runs pieces of a plan until none are left. The worker reads the numbers of pieces
//! from the standard input, or claims pieces with leases.
//!
//! A driver (an actor framework or a scheduler) writes lines such as `{"piece":17}` to the standard
//! input. It reads the results as events: [`Event::PieceBegan`], [`Event::PieceMoved`] once per
//! second, [`Event::PieceDone`] or [`Event::PieceFailed`].

use crate::events::{Event, EventListener};
use crate::exit::{INTERRUPTED, exit_code};
use crate::plan::{Claim, Plan};
use crate::run::{PieceOutcome, PieceRunner, RunOptions, worse};
use crate::worker::end_with;
use serde::Deserialize;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, stdin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tensorferry::Registry;
use tensorferry_sdk::{Error, Result};

/// Interval at which cancellation is checked.
const TICK: Duration = Duration::from_millis(100);
/// Interval of progress events.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Time to wait before the next claim if other workers are running the remaining pieces.
const PAUSE: Duration = Duration::from_secs(5);

/// The source from which a worker receives pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkSource {
    /// The standard input lists the pieces.
    Given,
    /// The worker claims pieces of the plan with leases.
    Claimed,
}

/// A request, which is one line of the standard input.
#[derive(Deserialize)]
struct Request {
    piece: u64,
}

/// Runs pieces until there are no more, and returns the combined exit code. The worker ends when
/// the process `runner` ends. If a piece from the standard input fails, the failure is reported as
/// an event. If a claimed piece fails, the failure is returned as an error.
pub fn work(
    plan: &Plan,
    source: WorkSource,
    runner: Option<u32>,
    registry: &Registry,
    options: &RunOptions,
    listener: &dyn EventListener,
    cancelled: &AtomicBool,
) -> Result<u8> {
    runner.map_or(Ok(()), end_with)?;
    let progress = PieceProgress { listener, state: Mutex::default() };
    let runner = PieceRunner::new(plan, registry, options, &progress, cancelled);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ticker = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::park_timeout(PROGRESS_INTERVAL);
                progress.report();
            }
        });
        let done = match source {
            WorkSource::Given => run_given(&runner, listener, cancelled),
            WorkSource::Claimed => run_claimed(plan, &runner, options, cancelled),
        };
        is_over.store(true, Ordering::Relaxed);
        ticker.thread().unpark();
        done.map(|code| if cancelled.load(Ordering::Relaxed) { INTERRUPTED } else { code })
    })
}

fn run_given(runner: &PieceRunner<'_>, listener: &dyn EventListener, cancelled: &AtomicBool) -> Result<u8> {
    let requests = requests();
    while !cancelled.load(Ordering::Relaxed) {
        let piece = match requests.recv_timeout(TICK) {
            Ok(request) => request?.piece,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if let Err(error) = runner.run(piece).and_then(whole) {
            let (message, exit_code) = (&*error.to_string(), exit_code(error.kind()));
            listener.on_event(&Event::PieceFailed { piece, message, exit_code });
        }
    }
    Ok(0)
}

/// Returns an error if the piece's journal could not be written.
fn whole(outcome: PieceOutcome) -> Result<PieceOutcome> {
    outcome.error.clone().map_or(Ok(outcome), Err)
}

/// Reads requests from the standard input until it ends.
fn requests() -> Receiver<Result<Request>> {
    let (sender, requests) = sync_channel(0);
    std::thread::spawn(move || {
        for line in BufReader::new(stdin()).lines() {
            let request = line.map_err(Error::from).and_then(|line| {
                serde_json::from_str(&line).map_err(|e| {
                    Error::usage(format!("invalid line on the standard input: {e}"))
                        .expected(r#"{"piece":17}"#)
                        .found(line)
                })
            });
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    requests
}

fn run_claimed(
    plan: &Plan,
    runner: &PieceRunner<'_>,
    options: &RunOptions,
    cancelled: &AtomicBool,
) -> Result<u8> {
    let mut leases = plan.leases(runner.worker())?;
    let mut code = 0;
    while !cancelled.load(Ordering::Relaxed) {
        match leases.claim()? {
            Claim::Over => break,
            Claim::Wait => {
                let mut waited = Duration::ZERO;
                while waited < PAUSE && !cancelled.load(Ordering::Relaxed) {
                    std::thread::sleep(TICK);
                    waited += TICK;
                }
            }
            Claim::Piece(piece, _lease) => {
                let outcome = runner.run(piece).and_then(whole)?;
                code = worse(code, outcome.exit_code);
                if outcome.totals.cancelled > 0 {
                    continue;
                }
                // Temporary failures have already been retried in this run. The next run of the
                // plan retries the jobs again.
                leases.finish(piece)?;
                if options.fail_fast && outcome.totals.failed > 0 {
                    break;
                }
            }
        }
    }
    Ok(code)
}

/// Reports the progress of a piece at intervals.
struct PieceProgress<'a> {
    listener: &'a dyn EventListener,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    piece: Option<u64>,
    ended: usize,
    bytes: u64,
    running: HashMap<String, u64>,
    reported: (usize, u64),
}

impl PieceProgress<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self) {
        let mut state = self.state();
        let now = (state.ended, state.bytes + state.running.values().sum::<u64>());
        if let Some(piece) = state.piece.filter(|_| state.reported != now) {
            state.reported = now;
            self.listener.on_event(&Event::PieceMoved { piece, jobs: now.0, bytes: now.1 });
        }
    }

    fn ended(&self, name: &str, bytes: u64) {
        let mut state = self.state();
        state.running.remove(name);
        state.ended += 1;
        state.bytes += bytes;
    }
}

impl EventListener for PieceProgress<'_> {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::PieceBegan { piece, .. } => {
                *self.state() = State { piece: Some(*piece), ..State::default() };
            }
            Event::PieceDone { .. } => *self.state() = State::default(),
            Event::JobMoved { name, bytes } => {
                self.state().running.insert((*name).to_owned(), *bytes);
            }
            Event::JobDone(job) | Event::JobFailed(job) => self.ended(&job.name, job.bytes_out),
            Event::JobCancelled { name } => self.ended(name, 0),
            _ => {}
        }
        self.listener.on_event(event);
    }
}
