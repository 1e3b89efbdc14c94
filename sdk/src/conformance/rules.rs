//! A rule is what holds for every format, in a sentence; a test ends at the first one that is broken.

use crate::memory::MemoryView;
use crate::{Context, Description, Error, Format, Result, Source};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The format under test.
pub(super) struct Rules<'a> {
    pub(super) format: &'a dyn Format,
    pub(super) description: Description,
}

impl<'a> Rules<'a> {
    pub(super) fn new(format: &'a dyn Format) -> Self {
        Self { format, description: format.describe() }
    }

    /// Ends the test, if the rule does not hold.
    #[track_caller]
    pub(super) fn require(&self, holds: bool, rule: &str, found: impl FnOnce() -> String) {
        if !holds {
            self.broken(rule, &found());
        }
    }

    #[track_caller]
    pub(super) fn broken(&self, rule: &str, found: &str) -> ! {
        panic!("format {:?} breaks the rule \"{rule}\": {found}", self.description.id)
    }

    /// The value, or the end of the test.
    #[track_caller]
    pub(super) fn holds<T>(&self, result: Result<T>, rule: &str, input: &str) -> T {
        match result {
            Ok(value) => value,
            Err(error) => self.broken(rule, &format!("{input}: {error}")),
        }
    }

    /// Runs a call of the format; a panic in it ends the test under the rule's name.
    #[track_caller]
    pub(super) fn calm<T>(&self, input: impl Fn() -> String, call: impl FnOnce() -> T) -> T {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(value) => value,
            Err(payload) => {
                self.broken("a format never panics", &format!("{}: {}", input(), text(&*payload)))
            }
        }
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
    #[track_caller]
    pub(super) fn blames_input(&self, error: &Error, input: &str) {
        let own = matches!(error.kind(), crate::ErrorKind::Plugin | crate::ErrorKind::Io);
        self.require(!own, "an input's faults are not the plugin's or the system's", || {
            format!("{input}: {error}")
        });
    }
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
