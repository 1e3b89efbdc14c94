//! A scan visits every record of all files on many threads, and hands on what it found in each part of a
//! file, in order.
//!
//! A file that is not compressed is cut into units. Where the first record of a unit starts is only
//! known once all before it have been walked, so it is guessed: the first place with a length whose
//! checksum is right, and another behind it. The walk over the unit before ends where this one must
//! have begun; if it did not (a record may hold a whole TFRecord file), the unit is walked again from
//! the right place. So the outcome is that of one walk from the start, whatever was guessed.

mod ahead;
mod guess;

pub(crate) use guess::first_record;

use crate::bytes::PlainWindow;
use crate::codec::Codec;
use crate::files::InputFile;
use crate::frame::{Checks, Fault, FaultKind, Walk};
use crate::policy::Policy;
use ahead::Ahead;
use tensorferry_proto::wire::Broken;
use tensorferry_sdk::{Context, Error, Result, Source};

/// The bytes of a unit: enough that starting one costs nothing, few enough that threads end together.
pub(crate) const UNIT: u64 = 4 << 20;
/// How many units a thread may be ahead of what has been handed on.
const AHEAD: usize = 4;

/// What is kept of each record.
pub(crate) trait Tally: Send {
    /// Whether it looks at the data.
    const DATA: bool;

    /// A record at `offset`, `number` records after the first of its unit; its data are empty unless
    /// they were asked for. `whole` is the length of its frame.
    fn record(&mut self, number: u64, offset: u64, data: &[u8], whole: u64) -> Result<(), Refusal>;
}

/// Why a tally refuses a record.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It is damaged.
    Broken(Broken),
    /// It goes beyond what this run may do.
    Error(Error),
}

impl From<Broken> for Refusal {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// Keeps nothing but where records start.
impl Tally for () {
    const DATA: bool = false;

    fn record(&mut self, _number: u64, _offset: u64, _data: &[u8], _whole: u64) -> Result<(), Refusal> {
        Ok(())
    }
}

/// What the walk over a stretch of a file gave.
#[derive(Debug)]
pub(crate) struct Walked<T> {
    /// Which file.
    pub(crate) file: usize,
    /// Where its first record starts, in decompressed bytes.
    pub(crate) start: u64,
    /// Where the record after its last one starts.
    pub(crate) end: u64,
    /// The number of its first record in the file.
    pub(crate) first: u64,
    /// How many records there are, those included that were left out.
    pub(crate) records: u64,
    /// How many were left out.
    pub(crate) skipped: u64,
    /// What was kept.
    pub(crate) tally: T,
}

/// How a scan goes about it.
pub(crate) struct Scan<'a> {
    /// Where the bytes come from.
    pub(crate) source: &'a dyn Source,
    /// The files, in order.
    pub(crate) files: &'a [InputFile],
    /// What is checked.
    pub(crate) checks: Checks,
    /// What is done about faults.
    pub(crate) policy: &'a Policy,
    /// Threads, limits, and whether the user has cancelled.
    pub(crate) context: &'a dyn Context,
    /// How many threads.
    pub(crate) threads: usize,
    /// The one file to visit, if not all.
    pub(crate) only: Option<usize>,
}

/// A stretch of a file, of which one thread takes what records start in it.
#[derive(Debug, Clone, Copy)]
struct Unit {
    file: usize,
    start: u64,
    end: u64,
}

/// What a thread made of a unit.
struct Attempt<T> {
    start: u64,
    end: u64,
    records: u64,
    tally: T,
    faults: Vec<(u64, Fault)>,
    fatal: Option<Fault>,
}

impl Scan<'_> {
    /// Visits every record; `take` gets what each stretch gave, in order.
    pub(crate) fn run<T: Tally>(
        &self,
        new: impl Fn() -> T + Sync,
        mut take: impl FnMut(Walked<T>) -> Result<()>,
    ) -> Result<()> {
        let units = self.units();
        let total: u64 = units.iter().map(|unit| self.len_of(*unit)).sum();
        let mut done = 0;
        // The walk that is certain does it alone where there is nothing to do beside it.
        let threads = if self.threads < 2 || units.len() < 2 { 0 } else { self.threads.min(units.len()) };
        let ahead = Ahead::new(units.len(), AHEAD * threads);
        std::thread::scope(|scope| {
            let _stop = ahead.until_dropped();
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
                let walked = self.settle(&mut at, attempt)?;
                take(walked)?;
            }
            self.context.progress(total, total);
            Ok(())
        })
    }

    /// Bytes of a unit, as they lie in its file.
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
                    // To the end: what is cut off there belongs to the last unit.
                    units.push(Unit { file, start, end: u64::MAX });
                    break;
                }
                units.push(Unit { file, start, end });
                start = end;
            }
        }
        units
    }

    /// Walks unit after unit, each from where it seems to begin.
    fn attempt<T: Tally>(&self, units: &[Unit], ahead: &Ahead<Attempt<T>>, new: &(impl Fn() -> T + Sync)) {
        while let Some(mut claim) = ahead.claim() {
            let unit = units[claim.unit];
            // What fails here fails again, or not, once it is certain where the unit begins.
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

    /// Walks the records of a unit from `start` on.
    fn walk<T: Tally>(&self, unit: Unit, start: u64, new: impl Fn() -> T) -> Result<Attempt<T>> {
        self.context.check_cancelled()?;
        let input = &self.files[unit.file];
        if input.codec == Codec::None {
            let window = PlainWindow::new(self.source, input.id, input.len);
            return Ok(self.walk_window(Walk::new(window, start, self.checks), unit.end, new()));
        }
        let window = input.codec.window(&self.source, input.id, self.context.limits());
        Ok(self.walk_window(Walk::new(window, start, self.checks), unit.end, new()))
    }

    fn walk_window<T: Tally, W: crate::bytes::Window>(
        &self,
        mut walk: Walk<W>,
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

    /// Tells the policy of an attempt's faults, now that it is certain and its place is known.
    fn settle<T>(&self, at: &mut Position, attempt: Attempt<T>) -> Result<Walked<T>> {
        let name = &self.files[at.file].name;
        let skipped = attempt.faults.len() as u64;
        for (number, fault) in attempt.faults {
            self.policy.meet(at.file, name, at.record + number, fault)?;
        }
        if let Some(fault) = attempt.fatal {
            self.policy.meet(at.file, name, at.record + attempt.records, fault)?;
            at.ended = true;
        }
        let walked = Walked {
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

/// Up to where it is certain.
struct Position {
    file: usize,
    offset: u64,
    record: u64,
    ended: bool,
}

/// Takes one record; whether there was one.
#[inline]
fn step<T: Tally, W: crate::bytes::Window>(
    walk: &mut Walk<W>,
    number: u64,
    tally: &mut T,
) -> Result<bool, Fault> {
    let offset = walk.offset();
    if !T::DATA {
        if walk.skim()?.is_none() {
            return Ok(false);
        }
        let whole = walk.offset() - offset;
        return match tally.record(number, offset, &[], whole) {
            Ok(()) => Ok(true),
            Err(refusal) => Err(refused(refusal, offset, offset + whole)),
        };
    }
    let Some(data) = walk.next()? else { return Ok(false) };
    let whole = data.len() as u64 + crate::frame::OVERHEAD;
    match tally.record(number, offset, data, whole) {
        Ok(()) => Ok(true),
        Err(refusal) => {
            walk.go_to(offset);
            Err(refused(refusal, offset, offset + whole))
        }
    }
}

pub(crate) fn refused(refusal: Refusal, offset: u64, next: u64) -> Fault {
    let kind = match refusal {
        Refusal::Broken(broken) => FaultKind::Message { why: message_broken(broken), next },
        Refusal::Error(error) => FaultKind::Stream(error),
    };
    Fault { offset, kind }
}

/// What is said of a record that is not the message that it should be.
pub(crate) fn message_broken(broken: Broken) -> String {
    format!("the data are not a message of Examples ({broken})")
}
