//! Shows the progress of a run: bars on a terminal, or an occasional line if stderr is not a
//! terminal. With `--json`, prints JSON lines.

use crate::losses;
use crate::terminal::{self, printable};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tensorferry_run::human::rate;
use tensorferry_run::{Event, EventListener};

/// Interval between progress lines if stderr is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of jobs that have a bar at the same time.
const MAX_BARS: usize = 16;
/// Minimum size, in bytes, of a job that gets a progress bar. Smaller jobs end too soon to need a
/// bar.
const MIN_BAR_BYTES: u64 = 4 << 20;

/// Shows the progress of a run.
pub(crate) struct Progress {
    json: bool,
    quiet: bool,
    explain: bool,
    bars: Option<MultiProgress>,
    state: Mutex<State>,
}

struct State {
    begun: Instant,
    last_line: Instant,
    overall: Option<ProgressBar>,
    running: HashMap<String, RunningJob>,
    jobs: usize,
    ended: usize,
    failed: usize,
    /// Number of bytes that completed jobs copied.
    bytes: u64,
}

#[derive(Default)]
struct RunningJob {
    bar: Option<ProgressBar>,
    moved: u64,
}

impl Progress {
    pub(crate) fn new(json: bool, quiet: bool, explain: bool) -> Self {
        let on_terminal = !json && !quiet && std::io::stderr().is_terminal();
        let state = State {
            begun: Instant::now(),
            last_line: Instant::now(),
            overall: None,
            running: HashMap::new(),
            jobs: 0,
            ended: 0,
            failed: 0,
            bytes: 0,
        };
        Self {
            json,
            quiet,
            explain,
            bars: on_terminal.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr())),
            state: Mutex::new(state),
        }
    }

    /// Removes the bars.
    pub(crate) fn finish(&self) {
        if let Some(bars) = &self.bars {
            // A write error is ignored, because the terminal may be closed.
            let _ = bars.clear();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints a line to stderr. If there are bars, the line appears above them.
    fn say(&self, word: &str, text: &str) {
        let text = printable(text);
        match &self.bars {
            Some(bars) => bars.suspend(|| terminal::message(word, &text)),
            None => terminal::message(word, &text),
        }
    }

    fn begin(&self, to_run: usize) {
        let mut state = self.state();
        state.jobs = to_run;
        state.begun = Instant::now();
        state.overall = self.bars.as_ref().filter(|_| to_run > 0).map(|bars| {
            let bar = bars.add(ProgressBar::new(to_run as u64));
            bar.set_style(style("{bar:30} {pos}/{len} jobs  {elapsed}  {eta} left  {msg}"));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
    }

    /// Adds the jobs of the next piece of a plan.
    fn grow(&self, to_run: usize) {
        let mut state = self.state();
        if state.jobs == 0 {
            drop(state);
            return self.begin(to_run);
        }
        state.jobs += to_run;
        if let Some(bar) = &state.overall {
            bar.inc_length(to_run as u64);
        }
    }

    /// Prints how many file groups have been scanned, at intervals and at the end.
    fn scanned(&self, scanned: usize, of: usize) {
        let mut state = self.state();
        if self.json || self.quiet || (scanned < of && state.last_line.elapsed() < LINE_INTERVAL) {
            return;
        }
        state.last_line = Instant::now();
        drop(state);
        self.say("progress", &format!("scanned {scanned} of {of} file groups for their schemas"));
    }

    fn job_begins(&self, job: &str) {
        self.state().running.insert(job.to_owned(), RunningJob::default());
    }

    fn job_bytes(&self, job: &str, bytes: u64) {
        let mut state = self.state();
        let shown = state.running.values().filter(|running| running.bar.is_some()).count();
        let Some(running) = state.running.get_mut(job) else { return };
        if let Some(bars) = self.bars.as_ref().filter(|_| shown < MAX_BARS && bytes >= MIN_BAR_BYTES) {
            let bar = bars.add(ProgressBar::new(bytes));
            bar.set_style(style("  {bar:20} {bytes}/{total_bytes}  {bytes_per_sec}  {wide_msg}"));
            bar.set_message(printable(job));
            running.bar = Some(bar);
        }
    }

    fn job_moved(&self, job: &str, bytes: u64) {
        let mut state = self.state();
        if let Some(running) = state.running.get_mut(job) {
            running.moved = bytes;
            if let Some(bar) = &running.bar {
                bar.set_position(bytes);
            }
        }
        self.print_line(&mut state);
    }

    fn job_ends(&self, job: &str, bytes: u64, failed: bool) {
        let mut state = self.state();
        if let Some(RunningJob { bar: Some(bar), .. }) = state.running.remove(job) {
            bar.finish_and_clear();
        }
        state.ended += 1;
        state.failed += usize::from(failed);
        state.bytes += bytes;
        if let Some(bar) = &state.overall {
            bar.set_position(state.ended as u64);
            if state.failed > 0 {
                bar.set_message(format!("{} failed", state.failed));
            }
        }
        self.print_line(&mut state);
    }

    /// Prints a progress line at intervals if stderr is not a terminal.
    fn print_line(&self, state: &mut State) {
        if self.json || self.quiet || self.bars.is_some() || state.last_line.elapsed() < LINE_INTERVAL {
            return;
        }
        state.last_line = Instant::now();
        let elapsed = state.begun.elapsed().as_secs_f64();
        let moved = state.bytes + state.running.values().map(|running| running.moved).sum::<u64>();
        let left = elapsed / state.ended.max(1) as f64 * (state.jobs.saturating_sub(state.ended)) as f64;
        let text = format!(
            "{}/{} jobs, {} failed, {} running, {} at {}/s, about {left:.0} s left",
            state.ended,
            state.jobs,
            state.failed,
            state.running.len(),
            terminal::bytes(moved),
            terminal::bytes(rate(moved, elapsed.max(0.001))),
        );
        terminal::message("progress", &text);
    }
}

impl EventListener for Progress {
    fn on_event(&self, event: &Event<'_>) {
        if self.json {
            // If stdout is closed, the run continues.
            let _ = serde_json::to_string(event).map(|line| terminal::print(&format!("{line}\n")));
        }
        match event {
            Event::RunBegan { to_run, .. } => self.begin(*to_run),
            Event::PieceBegan { to_run, .. } => self.grow(*to_run),
            Event::PieceFailed { piece, message, .. } => {
                self.say("failed", &format!("piece {piece}: {message}"));
            }
            Event::Decided { name, runs, reason } => {
                if self.explain && !self.json {
                    self.say(if *runs { "runs" } else { "stays" }, &format!("{name}: {reason}"));
                }
            }
            Event::JobBegan { name, .. } => self.job_begins(name),
            Event::JobBytes { name, bytes } => self.job_bytes(name, *bytes),
            Event::JobMoved { name, bytes } => self.job_moved(name, *bytes),
            Event::JobDone(job) => {
                for (word, line) in losses::lines(&job.losses, self.quiet) {
                    self.say(&word, &format!("{}: {line}", job.name));
                }
                let account = job.account.as_ref().filter(|account| account.is_notable() && !self.quiet);
                if let Some(account) = account {
                    self.say("input", &format!("{}: {}", job.name, account.line()));
                }
                for note in job.notes.iter().filter(|_| !self.quiet) {
                    self.say("note", &format!("{}: {note}", job.name));
                }
                self.job_ends(&job.name, job.bytes_out, false);
            }
            Event::JobWaits { name, seconds, failure } => {
                if !self.quiet {
                    self.say("note", &format!("{name}: retrying in {seconds} s: {failure}"));
                }
            }
            Event::JobFailed(job) => {
                let why = job.failure.as_ref().map(ToString::to_string).unwrap_or_default();
                self.say("failed", &format!("{}: {why}", job.name));
                self.job_ends(&job.name, 0, true);
            }
            Event::JobCancelled { name } => self.job_ends(name, 0, false),
            Event::Scanned { scanned, of, .. } => self.scanned(*scanned, *of),
            Event::JobReads { .. }
            | Event::PieceMoved { .. }
            | Event::PieceDone { .. }
            | Event::RunEnded { .. } => {}
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
