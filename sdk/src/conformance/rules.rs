//! A rule is what holds for every format, in a sentence. A part of the suite ends at the first one that is broken.

use super::Sample;
use crate::memory::MemoryView;
use crate::{Context, Description, Error, ErrorKind, Format, Result, Source};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

const NEVER_PANICS: &str = "a format never panics";
const KEEPS_THE_BOUNDARY: &str = "the boundary's rules are kept";
const DROPS_WELL: &str = "a destructor never fails";

/// A rule's number and its sentence, as the table of [`crate::conformance`] has them.
pub(super) fn numbered() -> impl Iterator<Item = (&'static str, &'static str)> {
    let cells = |line: &'static str| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ");
    include_str!("rules.md").lines().skip(2).filter_map(cells)
}

/// Follows the suite: a program that runs it in a process of its own knows then what was done last. Some of it is done
/// on several threads.
pub trait Observer: Sync {
    /// Something is done with this input next, which these files are, if it is files.
    fn before(&self, input: &str, files: Option<&Sample>) {
        let _ = (input, files);
    }

    /// It is done.
    fn after(&self) -> Result<()> {
        Ok(())
    }
}

/// A rule that was broken.
pub(super) struct Broken {
    pub(super) rule: &'static str,
    pub(super) found: String,
    /// The files that it was broken with, where there were some.
    pub(super) input: Option<Sample>,
}

/// The format under test, and what was found so far.
pub(super) struct Rules<'a> {
    pub(super) format: &'a dyn Format,
    pub(super) description: Description,
    observer: Option<&'a dyn Observer>,
    /// How often each rule was asked for.
    asked: Mutex<BTreeMap<&'static str, u64>>,
    input: Mutex<Option<Sample>>,
}

impl<'a> Rules<'a> {
    pub(super) fn new(format: &'a dyn Format, observer: Option<&'a dyn Observer>) -> Self {
        let (asked, input) = (Mutex::default(), Mutex::default());
        Self { format, description: format.describe(), observer, asked, input }
    }

    /// How often each rule was asked for.
    pub(super) fn asked(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.asked).clone()
    }

    /// Says which files are looked at from now on.
    pub(super) fn look_at(&self, sample: &Sample) {
        if self.observer.is_some() {
            *locked(&self.input) = Some(sample.clone());
        }
    }

    /// Runs a part of the suite; the rule that it broke.
    pub(super) fn part(&self, part: impl FnOnce()) -> Result<(), Box<Broken>> {
        *locked(&self.input) = None;
        let Err(payload) = catch_unwind(AssertUnwindSafe(part)) else { return Ok(()) };
        Err(payload.downcast::<Broken>().unwrap_or_else(|other| resume_unwind(other)))
    }

    /// Ends the part, if the rule does not hold.
    pub(super) fn require(&self, holds: bool, rule: &'static str, found: impl FnOnce() -> String) {
        *locked(&self.asked).entry(rule).or_default() += 1;
        if !holds {
            self.broken(rule, &found());
        }
    }

    pub(super) fn broken(&self, rule: &'static str, found: &str) -> ! {
        *locked(&self.asked).entry(rule).or_default() += 1;
        let input = locked(&self.input).take();
        // No panic's message: who runs the suite says what was found.
        resume_unwind(Box::new(Broken { rule, found: found.to_owned(), input }))
    }

    /// The value, or the end of the part.
    pub(super) fn holds<T>(&self, result: Result<T>, rule: &'static str, input: &str) -> T {
        match result {
            Ok(value) => {
                self.require(true, rule, String::new);
                value
            }
            Err(error) => self.broken(self.rule_of(&error, rule), &format!("{input}: {error}")),
        }
    }

    /// Runs a call of the format; a panic in it ends the part under the rule's name.
    pub(super) fn calm<T>(&self, input: impl Fn() -> String, call: impl FnOnce() -> T) -> T {
        if let Some(observer) = self.observer {
            observer.before(&input(), locked(&self.input).as_ref());
        }
        self.require(true, NEVER_PANICS, String::new);
        let value = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(value) => value,
            Err(payload) if payload.is::<Broken>() => resume_unwind(payload),
            Err(payload) => self.broken(NEVER_PANICS, &format!("{}: {}", input(), text(&*payload))),
        };
        if let Some(observer) = self.observer {
            let after = observer.after();
            self.require(true, KEEPS_THE_BOUNDARY, String::new);
            self.require(after.is_ok(), DROPS_WELL, || format!("{}: {:?}", input(), after.err()));
        }
        value
    }

    /// Reads a source under default options.
    pub(super) fn read<'s>(
        &self,
        source: &'s dyn Source,
        context: &'s dyn Context,
    ) -> Result<MemoryView<'s>> {
        MemoryView::read(self.format, &[], source, context)
    }

    /// An error that says whose fault it is: a plugin error means that the format broke a contract.
    pub(super) fn blames_input(&self, error: &Error, input: &str) {
        let own = matches!(error.kind(), ErrorKind::Plugin | ErrorKind::Io);
        let rule = self.rule_of(error, "an input's faults are not the plugin's or the system's");
        self.require(!own, rule, || format!("{input}: {error}"));
    }

    /// The rule that an error shows to be broken, where another one would be said to be: what a library does wrong arrives
    /// as an error from across the boundary.
    pub(super) fn rule_of(&self, error: &Error, otherwise: &'static str) -> &'static str {
        let says = |text: &str| error.kind() == ErrorKind::Plugin && error.message().contains(text);
        if says("panicked in ") {
            NEVER_PANICS
        } else if says("the boundary's rules are broken") {
            KEEPS_THE_BOUNDARY
        } else {
            otherwise
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
