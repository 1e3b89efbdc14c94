//! A scan visits every record of all files on several threads. For each file, the scan returns the
//! results of its parts in order.
//!
//! An uncompressed file is divided into units. The exact start of a unit's first record is known
//! only after all earlier records have been walked, so each thread guesses the start of its unit.
//! The guess is the first position that contains a length with a valid checksum, if another such
//! length follows the record. The walk over the previous unit ends at the true start. If the guess
//! was wrong (a record may contain a whole TFRecord file), the scan walks the unit again from the
//! true start. The result therefore always equals the result of a single walk over the whole file.

mod attempts;
mod guess;

pub(crate) use guess::first_record;

use crate::bytes::PlainWindow;
use crate::codec::Codec;
use crate::files::InputFile;
use crate::frame::{Checks, Fault, FaultKind, Frames};
use crate::policy::FaultPolicy;
use attempts::Attempts;
use tensorferry_proto::wire::WireError;
use tensorferry_sdk::{Context, Error, Result, Source};

/// Length of a unit in bytes. Units are long enough to make the cost of starting a unit negligible,
/// and short enough for all threads to finish at about the same time.
pub(crate) const UNIT: u64 = 4 << 20;
/// Maximum number of results per thread that are kept for the exact walk.
const MAX_RESULTS_PER_THREAD: usize = 4;

/// Collects results from records.
pub(crate) trait Tally: Send {
    /// Whether the tally needs the data of records.
    const DATA: bool;

    /// Visits the record at `offset`. `number` is counted from the first record of the unit. `data`
    /// is empty unless `DATA` is set. `whole` is the length of the whole frame.
    fn record(&mut self, number: u64, offset: u64, data: &[u8], whole: u64) -> Result<(), RecordError>;
}

/// The reason why a tally rejects a record.
#[derive(Debug)]
pub(crate) enum RecordError {
    /// The record is damaged.
    Wire(WireError),
    /// The record exceeds a limit of this run.
    Error(Error),
}

impl From<WireError> for RecordError {
    fn from(broken: WireError) -> Self {
        Self::Wire(broken)
    }
}

/// A tally that collects nothing. The scan returns the offsets of records in any case.
impl Tally for () {
    const DATA: bool = false;

    fn record(&mut self, _number: u64, _offset: u64, _data: &[u8], _whole: u64) -> Result<(), RecordError> {
        Ok(())
    }
}

/// The result of walking a part of a file.
#[derive(Debug)]
pub(crate) struct ScannedPart<T> {
    /// The index of the file.
    pub(crate) file: usize,
    /// The offset of the part's first record, in decompressed bytes.
    pub(crate) start: u64,
    /// The offset of the first byte after the part's last record.
    pub(crate) end: u64,
    /// The number of the part's first record in the file.
    pub(crate) first: u64,
    /// Number of records, including skipped ones.
    pub(crate) records: u64,
    /// Number of skipped records.
    pub(crate) skipped: u64,
    pub(crate) tally: T,
}

/// The settings of a scan.
pub(crate) struct Scan<'a> {
    pub(crate) source: &'a dyn Source,
    /// The files, in order.
    pub(crate) files: &'a [InputFile],
    pub(crate) checks: Checks,
    /// The treatment of faults.
    pub(crate) policy: &'a FaultPolicy,
    pub(crate) context: &'a dyn Context,
    pub(crate) threads: usize,
    /// The index of the only file to visit, or `None` for all files.
    pub(crate) only: Option<usize>,
}

/// A part of a file. One thread visits all records that start in the unit.
#[derive(Debug, Clone, Copy)]
struct Unit {
    file: usize,
    start: u64,
    end: u64,
}

/// The result of walking a unit from a guessed start.
struct Attempt<T> {
    start: u64,
    end: u64,
    records: u64,
    tally: T,
    faults: Vec<(u64, Fault)>,
    fatal: Option<Fault>,
}

impl Scan<'_> {
    /// Visits every record, and passes the results of all parts to `take`, in order.
    pub(crate) fn run<T: Tally>(
        &self,
        new: impl Fn() -> T + Sync,
        mut take: impl FnMut(ScannedPart<T>) -> Result<()>,
    ) -> Result<()> {
        let units = self.units();
        let total: u64 = units.iter().map(|unit| self.len_of(*unit)).sum();
        let mut done = 0;
        // If there is only one thread or one unit, only the exact walk runs.
        let threads = if self.threads < 2 || units.len() < 2 { 0 } else { self.threads.min(units.len()) };
        let ahead = Attempts::new(units.len(), MAX_RESULTS_PER_THREAD * threads);
        std::thread::scope(|scope| {
            let _stop = ahead.stop_guard();
            for _ in 0..threads {
                scope.spawn(|| self.attempt(&units, &ahead, &new));
            }
            let mut at = Position { file: usize::MAX, offset: 0, record: 0, ended: false };
            for (number, unit) in units.iter().enumerate() {
                self.context.check_cancelled()?;
                self.context.progress(done, total);
                done += self.len_of(*unit);
                let attempt = ahead.take(number);
                if unit.file != at.file {
                    at = Position { file: unit.file, offset: 0, record: 0, ended: false };
                }
                if at.ended || (at.offset >= unit.end && at.offset > 0) {
                    continue;
                }
                let attempt = match attempt {
                    Some(attempt) if attempt.start == at.offset => attempt,
                    _ => self.walk(*unit, at.offset, &new)?,
                };
                let walked = self.confirm(&mut at, attempt)?;
                take(walked)?;
            }
            self.context.progress(total, total);
            Ok(())
        })
    }

    /// Returns the length of a unit in stored (compressed) bytes.
    fn len_of(&self, unit: Unit) -> u64 {
        unit.end.min(self.files[unit.file].len) - unit.start
    }

    fn units(&self) -> Vec<Unit> {
        let mut units = Vec::new();
        for (file, input) in self.files.iter().enumerate() {
            if self.only.is_some_and(|only| only != file) {
                continue;
            }
            if input.codec != Codec::None {
                units.push(Unit { file, start: 0, end: u64::MAX });
                continue;
            }
            let mut start = 0;
            loop {
                let end = start + UNIT;
                if end >= input.len {
                    // The last unit is unbounded, so it includes a truncated record at the end of
                    // the file.
                    units.push(Unit { file, start, end: u64::MAX });
                    break;
                }
                units.push(Unit { file, start, end });
                start = end;
            }
        }
        units
    }

    /// Walks one unit after another, each from its guessed start.
    fn attempt<T: Tally>(&self, units: &[Unit], ahead: &Attempts<Attempt<T>>, new: &(impl Fn() -> T + Sync)) {
        while let Some(mut claim) = ahead.claim() {
            let unit = units[claim.unit];
            // Errors are ignored here, because the exact walk encounters any real error again.
            let Ok(Some(start)) = self.guess(unit) else { continue };
            claim.made = self.walk(unit, start, new).ok();
        }
    }

    fn guess(&self, unit: Unit) -> Result<Option<u64>> {
        if unit.start == 0 {
            return Ok(Some(0));
        }
        first_record(self.source, self.files[unit.file].id, unit.start, unit.end)
    }

    /// Walks the records of a unit, starting at `start`.
    fn walk<T: Tally>(&self, unit: Unit, start: u64, new: impl Fn() -> T) -> Result<Attempt<T>> {
        self.context.check_cancelled()?;
        let input = &self.files[unit.file];
        if input.codec == Codec::None {
            let window = PlainWindow::new(self.source, input.id, input.len);
            return Ok(self.walk_window(Frames::new(window, start, self.checks), unit.end, new()));
        }
        let window = input.codec.window(&self.source, input.id, self.context.limits());
        Ok(self.walk_window(Frames::new(window, start, self.checks), unit.end, new()))
    }

    fn walk_window<T: Tally, W: crate::bytes::Window>(
        &self,
        mut walk: Frames<W>,
        end: u64,
        tally: T,
    ) -> Attempt<T> {
        let start = walk.offset();
        let mut attempt = Attempt { start, end: start, records: 0, tally, faults: Vec::new(), fatal: None };
        while walk.offset() < end {
            match step(&mut walk, attempt.records, &mut attempt.tally) {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => match fault.next() {
                    Some(next) if self.policy.skips() && fault.is_damage() => {
                        walk.go_to(next);
                        attempt.faults.push((attempt.records, fault));
                    }
                    _ => {
                        attempt.fatal = Some(fault);
                        break;
                    }
                },
            }
            attempt.records += 1;
        }
        attempt.end = walk.offset();
        attempt
    }

    /// Reports the faults of an attempt to the policy. The caller must have confirmed the start of
    /// the attempt.
    fn confirm<T>(&self, at: &mut Position, attempt: Attempt<T>) -> Result<ScannedPart<T>> {
        let name = &self.files[at.file].name;
        let skipped = attempt.faults.len() as u64;
        for (number, fault) in attempt.faults {
            self.policy.handle(at.file, name, at.record + number, fault)?;
        }
        if let Some(fault) = attempt.fatal {
            self.policy.handle(at.file, name, at.record + attempt.records, fault)?;
            at.ended = true;
        }
        let walked = ScannedPart {
            file: at.file,
            start: attempt.start,
            end: attempt.end,
            first: at.record,
            records: attempt.records,
            skipped,
            tally: attempt.tally,
        };
        at.offset = attempt.end;
        at.record += attempt.records;
        Ok(walked)
    }
}

/// The end of the part of the input that has been confirmed.
struct Position {
    file: usize,
    offset: u64,
    record: u64,
    ended: bool,
}

/// Visits one record. Returns `false` after the last record.
#[inline]
fn step<T: Tally, W: crate::bytes::Window>(
    walk: &mut Frames<W>,
    number: u64,
    tally: &mut T,
) -> Result<bool, Fault> {
    let offset = walk.offset();
    if !T::DATA {
        if walk.skip()?.is_none() {
            return Ok(false);
        }
        let whole = walk.offset() - offset;
        return match tally.record(number, offset, &[], whole) {
            Ok(()) => Ok(true),
            Err(refusal) => Err(record_fault(refusal, offset, offset + whole)),
        };
    }
    let Some(data) = walk.next()? else { return Ok(false) };
    let whole = data.len() as u64 + crate::frame::OVERHEAD;
    match tally.record(number, offset, data, whole) {
        Ok(()) => Ok(true),
        Err(refusal) => {
            walk.go_to(offset);
            Err(record_fault(refusal, offset, offset + whole))
        }
    }
}

pub(crate) fn record_fault(refusal: RecordError, offset: u64, next: u64) -> Fault {
    let kind = match refusal {
        RecordError::Wire(broken) => FaultKind::Message { why: message_broken(broken), next },
        RecordError::Error(error) => FaultKind::Stream(error),
    };
    Fault { offset, kind }
}

/// Describes a record that is not the expected message.
pub(crate) fn message_broken(broken: WireError) -> String {
    format!("the record is not a valid Example or SequenceExample ({broken})")
}
