//! Records for an output. The records are read from an input or created from tensors, and steps are
//! applied to the records.

use crate::flow::Flow;
use crate::rows::Rows;
use crate::steps::{self, Origin, RecordAction};
use arrow_schema::SchemaRef;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Loss, Result, arrow_schema};
use tensorferry_tensors::steps::Step;

/// Records that can be read several times.
pub(crate) struct RecordInput<'a> {
    pub origin: Origin<'a>,
    /// Number of records before the steps, if the number is known.
    pub records: Option<u64>,
    pub steps: &'a [Step<RecordAction>],
    /// The format of the input.
    pub format: &'a RegisteredFormat,
    /// The files of the input.
    pub source: &'a FileSource,
    /// Losses that are known before the first record is read.
    pub losses: Vec<Loss>,
    pub session: &'a Session,
}

impl<'a> RecordInput<'a> {
    /// Returns all records of an opened input.
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

    /// Calls `read` with a flow of all records, beginning with the first record.
    pub(crate) fn flow<T>(&self, read: impl FnOnce(&mut dyn Flow) -> Result<T>) -> Result<T> {
        std::thread::scope(|scope| read(&mut *steps::make(scope, self.origin, self.steps, self.session)?))
    }

    /// Returns the columns after the steps, without reading any record.
    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        self.origin.check(self.steps)?;
        steps::schema(self.origin.schema(), self.steps)
    }

    /// Returns the number of records after the steps, if the number is known.
    pub(crate) fn count(&self) -> Option<u64> {
        steps::count(self.steps, self.records)
    }

    /// Returns the losses that have been found so far. Reading records may add more losses.
    pub(crate) fn losses(&self) -> Result<Vec<Loss>> {
        match self.origin {
            Origin::Rows(rows) => rows.losses(),
            Origin::Other(_) => Ok(self.losses.clone()),
        }
    }
}
