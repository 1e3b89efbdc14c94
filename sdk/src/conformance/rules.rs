//! A rule is a requirement for every format, written as a sentence. The first violation ends a part
//! of the suite.

use super::Sample;
use crate::memory::MemoryView;
use crate::{Context, Description, Error, ErrorKind, Format, Result, Source};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

const NEVER_PANICS: &str = "a format never panics";
const BOUNDARY_RULES_KEPT: &str = "the boundary's rules are kept";
const DESTRUCTOR_NEVER_FAILS: &str = "a destructor never fails";

/// Iterates over the rules in the table of [`crate::conformance`]. Each item contains the number
/// and the sentence of a rule.
pub(super) fn numbered_rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    let cells = |line: &'static str| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ");
    include_str!("rules.md").lines().skip(2).filter_map(cells)
}

/// Observes the suite. If a program runs the suite in a separate process, an observer can record
/// the last action. The methods may be called on several threads.
pub trait Observer: Sync {
    /// Called before the suite uses this input. `files` contains the input's files if the input
    /// consists of files.
    fn before(&self, input: &str, files: Option<&Sample>) {
        let _ = (input, files);
    }

    /// Called after the suite has used the input.
    fn after(&self) -> Result<()> {
        Ok(())
    }
}

pub(super) struct ViolationPanic {
    pub(super) rule: &'static str,
    pub(super) found: String,
    /// The files that broke the rule, if any.
    pub(super) input: Option<Sample>,
}

/// The format under test, and the results so far.
pub(super) struct Rules<'a> {
    pub(super) format: &'a dyn Format,
    pub(super) description: Description,
    observer: Option<&'a dyn Observer>,
    /// The number of times that each rule was checked.
    requested: Mutex<BTreeMap<&'static str, u64>>,
    input: Mutex<Option<Sample>>,
}

impl<'a> Rules<'a> {
    pub(super) fn new(format: &'a dyn Format, observer: Option<&'a dyn Observer>) -> Self {
        let (requested, input) = (Mutex::default(), Mutex::default());
        Self { format, description: format.describe(), observer, requested, input }
    }

    pub(super) fn requested(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.requested).clone()
    }

    /// Sets the sample that the following checks use.
    pub(super) fn set_input(&self, sample: &Sample) {
        if self.observer.is_some() {
            *locked(&self.input) = Some(sample.clone());
        }
    }

    /// Runs a part of the suite. If a rule is broken, returns an error that contains the rule.
    pub(super) fn part(&self, part: impl FnOnce()) -> Result<(), Box<ViolationPanic>> {
        *locked(&self.input) = None;
        let Err(payload) = catch_unwind(AssertUnwindSafe(part)) else { return Ok(()) };
        Err(payload.downcast::<ViolationPanic>().unwrap_or_else(|other| resume_unwind(other)))
    }

    /// Ends the part of the suite if the rule is broken.
    pub(super) fn require(&self, holds: bool, rule: &'static str, found: impl FnOnce() -> String) {
        *locked(&self.requested).entry(rule).or_default() += 1;
        if !holds {
            self.broken(rule, &found());
        }
    }

    pub(super) fn broken(&self, rule: &'static str, found: &str) -> ! {
        *locked(&self.requested).entry(rule).or_default() += 1;
        let input = locked(&self.input).take();
        // `resume_unwind` prints no message, which is intended because the caller of the suite
        // reports the violation.
        resume_unwind(Box::new(ViolationPanic { rule, found: found.to_owned(), input }))
    }

    /// Returns the value, or ends the part of the suite if `result` is an error.
    pub(super) fn holds<T>(&self, result: Result<T>, rule: &'static str, input: &str) -> T {
        match result {
            Ok(value) => {
                self.require(true, rule, String::new);
                value
            }
            Err(error) => self.broken(self.rule_of(&error, rule), &format!("{input}: {error}")),
        }
    }

    /// Calls a function of the format. A panic breaks the rule that a format never panics, and ends
    /// this part of the suite.
    pub(super) fn catch_panic<T>(&self, input: impl Fn() -> String, call: impl FnOnce() -> T) -> T {
        if let Some(observer) = self.observer {
            observer.before(&input(), locked(&self.input).as_ref());
        }
        self.require(true, NEVER_PANICS, String::new);
        let value = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(value) => value,
            Err(payload) if payload.is::<ViolationPanic>() => resume_unwind(payload),
            Err(payload) => self.broken(NEVER_PANICS, &format!("{}: {}", input(), text(&*payload))),
        };
        if let Some(observer) = self.observer {
            let after = observer.after();
            self.require(true, BOUNDARY_RULES_KEPT, String::new);
            self.require(after.is_ok(), DESTRUCTOR_NEVER_FAILS, || format!("{}: {:?}", input(), after.err()));
        }
        value
    }

    /// Reads a source with the default options.
    pub(super) fn read<'s>(
        &self,
        source: &'s dyn Source,
        context: &'s dyn Context,
    ) -> Result<MemoryView<'s>> {
        MemoryView::read(self.format, &[], source, context)
    }

    /// Checks the kind of an error. A plugin error or an I/O error means that the format is at
    /// fault, and breaks a rule.
    pub(super) fn check_fault(&self, error: &Error, input: &str) {
        let own = matches!(error.kind(), ErrorKind::Plugin | ErrorKind::Io);
        let rule = self.rule_of(error, "a damaged input never causes a plugin or system error");
        self.require(!own, rule, || format!("{input}: {error}"));
    }

    /// Returns the rule that an error breaks, or `otherwise`. If a library breaks a rule, the
    /// violation arrives as an error from the other side of the boundary.
    pub(super) fn rule_of(&self, error: &Error, otherwise: &'static str) -> &'static str {
        let says = |text: &str| error.kind() == ErrorKind::Plugin && error.message().contains(text);
        if says("panicked in ") {
            NEVER_PANICS
        } else if says("the boundary's rules are broken") {
            BOUNDARY_RULES_KEPT
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
