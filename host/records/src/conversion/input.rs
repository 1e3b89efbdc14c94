//! Records on their way to an output: read from an input or made of tensors, and changed by steps.

use crate::flow::Flow;
use crate::rows::Rows;
use crate::steps::{self, Origin, RecordAction};
use arrow_schema::SchemaRef;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Loss, Result, arrow_schema};
use tensorferry_tensors::steps::Step;

/// Records that can be read, and read again if need be.
pub(crate) struct RecordInput<'a> {
    /// Where they come from.
    pub origin: Origin<'a>,
    /// How many there are before the steps, where that is known.
    pub records: Option<u64>,
    /// What changes them.
    pub steps: &'a [Step<RecordAction>],
    /// The format that they are read as.
    pub format: &'a RegisteredFormat,
    /// The files that they come from.
    pub source: &'a FileSource,
    /// What is lost before the first of them is read.
    pub losses: Vec<Loss>,
    /// What reading them may take.
    pub session: &'a Session,
}

impl<'a> RecordInput<'a> {
    /// All records of an opened input.
    pub(crate) fn of_rows(rows: &'a Rows<'a>, steps: &'a [Step<RecordAction>], session: &'a Session) -> Self {
        Self {
            origin: Origin::Rows(rows),
            records: rows.known_records(),
            steps,
            format: rows.format,
            source: &rows.source,
            losses: Vec::new(),
            session,
        }
    }

    /// Has `read` pull the records, from the first one.
    pub(crate) fn flow<T>(&self, read: impl FnOnce(&mut dyn Flow) -> Result<T>) -> Result<T> {
        std::thread::scope(|scope| read(&mut *steps::make(scope, self.origin, self.steps, self.session)?))
    }

    /// The columns after the steps; no record is read for them.
    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        self.origin.check(self.steps)?;
        steps::schema(self.origin.schema(), self.steps)
    }

    /// How many records there are after the steps, where that is known.
    pub(crate) fn count(&self) -> Option<u64> {
        steps::count(self.steps, self.records)
    }

    /// What is lost on the way; it grows while records are read.
    pub(crate) fn losses(&self) -> Result<Vec<Loss>> {
        match self.origin {
            Origin::Rows(rows) => rows.losses(),
            Origin::Other(_) => Ok(self.losses.clone()),
        }
    }
}
