//! `ferry work`: does pieces of a plan for as long as there are any, given to it or claimed by itself.
//!
//! Whoever drives it (an engine of actors, a scheduler) writes `{"piece":17}` lines to its standard input and reads what becomes of them as
//! events: [`Event::PieceBegan`], [`Event::PieceMoved`] once a second, [`Event::PieceDone`] or [`Event::PieceFailed`].

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

/// How often it looks whether it was cancelled.
const TICK: Duration = Duration::from_millis(100);
/// How often it says how far a piece is.
const EVERY: Duration = Duration::from_secs(1);
/// How long it waits for others who do what is left.
const PAUSE: Duration = Duration::from_secs(5);

/// Where pieces come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkSource {
    /// The standard input.
    Given,
    /// The plan, by leases.
    Claimed,
}

/// A line of the standard input.
#[derive(Deserialize)]
struct Request {
    piece: u64,
}

/// Does pieces until there are no more; returns the exit code of all. `runner`: the process that it shall end with.
///
/// # Errors
/// I/o: the standard input, the leases. What is wrong with a given piece is an event; with a claimed one, an error.
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
                std::thread::park_timeout(EVERY);
                progress.tell();
            }
        });
        let done = match source {
            WorkSource::Given => given(&runner, listener, cancelled),
            WorkSource::Claimed => claimed(plan, &runner, options, cancelled),
        };
        is_over.store(true, Ordering::Relaxed);
        ticker.thread().unpark();
        done.map(|code| if cancelled.load(Ordering::Relaxed) { INTERRUPTED } else { code })
    })
}

fn given(runner: &PieceRunner<'_>, listener: &dyn EventListener, cancelled: &AtomicBool) -> Result<u8> {
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

/// A piece whose journal could be written.
fn whole(outcome: PieceOutcome) -> Result<PieceOutcome> {
    outcome.error.clone().map_or(Ok(outcome), Err)
}

/// What comes over the standard input, until it ends.
fn requests() -> Receiver<Result<Request>> {
    let (sender, requests) = sync_channel(0);
    std::thread::spawn(move || {
        for line in BufReader::new(stdin()).lines() {
            let request = line.map_err(Error::from).and_then(|line| {
                serde_json::from_str(&line).map_err(|e| {
                    Error::usage(format!("the standard input: {e}")).expected(r#"{"piece":17}"#).found(line)
                })
            });
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    requests
}

fn claimed(
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
                // What failed for a passing reason was tried again already: the next run of the plan does it.
                leases.finish(piece)?;
                if options.fail_fast && outcome.totals.failed > 0 {
                    break;
                }
            }
        }
    }
    Ok(code)
}

/// Tells how far a piece is, now and then.
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
    told: (usize, u64),
}

impl PieceProgress<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        let mut state = self.state();
        let now = (state.ended, state.bytes + state.running.values().sum::<u64>());
        if let Some(piece) = state.piece.filter(|_| state.told != now) {
            state.told = now;
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
