//! Steps on records have the same names and meanings as the operations of tf.data
//! (<https://www.tensorflow.org/api_docs/python/tf/data/Dataset>). Each step converts a flow to a
//! new flow, and is implemented in a separate file. A chain of steps is pulled batch by batch,
//! regardless of the number of threads.
//!
//! The output depends only on the input, the steps and their seeds.

mod batch;
mod by_number;
mod expression;
mod filter;
mod gather;
mod interleave;
mod map;
mod narrowing;
mod prefetch;
mod repeat;
mod shuffle;

use super::flow::{Flow, Threads};
use super::rows::Rows;
use arrow_schema::SchemaRef;
use narrowing::Narrowing;
pub use narrowing::Pushdown;
use std::fmt;
use tensorferry_core::context::session::Session;
use tensorferry_sdk::{Error, Result, arrow_schema};
use tensorferry_tensors::steps::{Step, StepKind};

pub(crate) static RECORD_KINDS: &[StepKind<RecordAction>] = &[
    StepKind { signature: &by_number::SHARD, make: by_number::shard },
    StepKind { signature: &interleave::INTERLEAVE, make: interleave::interleave },
    StepKind { signature: &shuffle::SHUFFLE, make: shuffle::shuffle },
    StepKind { signature: &repeat::REPEAT, make: repeat::repeat },
    StepKind { signature: &by_number::TAKE, make: |spec| by_number::window(spec, true) },
    StepKind { signature: &by_number::SKIP, make: |spec| by_number::window(spec, false) },
    StepKind { signature: &filter::FILTER, make: filter::filter },
    StepKind { signature: &map::MAP, make: map::map },
    StepKind { signature: &batch::BATCH, make: batch::batch },
    StepKind { signature: &prefetch::PREFETCH, make: prefetch::prefetch },
];

/// The action of a step on records.
pub trait RecordStep: fmt::Debug + Send + Sync {
    /// Applies the step, and returns the resulting flow.
    fn apply<'a>(&'a self, upstream: Upstream<'a>) -> Result<Box<dyn Flow + 'a>>;

    /// Returns the schema of the step's output for an input with the schema `upstream`.
    fn schema(&self, upstream: &SchemaRef) -> Result<SchemaRef> {
        Ok(upstream.clone())
    }

    /// Returns whether the step itself reads an input's files, so that no step can precede it.
    fn is_first(&self) -> bool {
        false
    }

    /// Returns the number of output rows for `rows` input rows, or `None` if the number is not
    /// known in advance. By default, a step does not change the number of rows.
    fn count(&self, rows: Option<u64>) -> Option<u64> {
        rows
    }

    /// Returns whether each output row depends on only one input row. If so, converting files one
    /// by one results in the same rows as converting them together.
    fn is_row_wise(&self) -> bool {
        false
    }

    /// Returns the rows and columns that a reader may leave out before this step.
    fn pushdown(&self) -> Pushdown<'_> {
        Pushdown::All
    }

    /// Returns whether the step's output is endless. `upstream` is true if the step's input is
    /// endless.
    fn is_endless(&self, upstream: bool) -> bool {
        upstream
    }
}

pub type RecordAction = Box<dyn RecordStep>;

/// The part of a chain of steps that precedes a step. The step can create the flow of this part
/// once or several times.
#[derive(Clone, Copy)]
pub struct Upstream<'a> {
    threads: &'a dyn Threads<'a>,
    origin: Origin<'a>,
    before: &'a [Step<RecordAction>],
    /// All steps of the chain, including the current step and the steps after it.
    all: &'a [Step<RecordAction>],
    /// Number of times that a later `repeat` step has already read all records.
    epoch: u64,
    session: &'a Session,
}

/// The source of rows, before any steps.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    /// An input of records.
    Rows(&'a Rows<'a>),
    Other(&'a dyn FlowSource),
}

/// A source of rows that is not an input of records.
pub trait FlowSource: Sync {
    fn schema(&self) -> SchemaRef;

    /// Returns a new flow that starts at the first row.
    fn flow<'a>(&'a self) -> Result<Box<dyn Flow + 'a>>;
}

impl Origin<'_> {
    #[must_use]
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Rows(rows) => rows.set.schema(),
            Self::Other(source) => source.schema(),
        }
    }

    /// Checks that steps can be applied to the rows of this origin.
    pub fn check(self, steps: &[Step<RecordAction>]) -> Result<()> {
        let Some((place, step)) = steps.iter().enumerate().rfind(|(_, step)| step.action.is_first()) else {
            return Ok(());
        };
        let why = match self {
            _ if place > 0 => "reads several files in turn, so it must be the first step",
            Self::Other(_) => "reads several files in turn, but these records are created from tensors",
            Self::Rows(_) => return Ok(()),
        };
        Err(Error::usage(why).context(step))
    }
}

impl<'a> Upstream<'a> {
    /// Creates the flow that is the step's input.
    fn flow(self) -> Result<Box<dyn Flow + 'a>> {
        match (self.before, self.origin) {
            ([], Origin::Rows(rows)) => Ok(self.narrowing(rows).flow(&self, rows)),
            ([], Origin::Other(source)) => source.flow(),
            ([before @ .., last], origin) => {
                if let Origin::Rows(rows) = origin
                    && self.narrowing(rows).is_applied(before.len(), last)
                {
                    return Self { before, ..self }.flow();
                }
                last.action.apply(Self { before, ..self }).map_err(|error: Error| error.context(last))
            }
        }
    }

    /// Returns the rows and columns that the origin's reader may leave out.
    fn narrowing(&self, rows: &Rows<'_>) -> Narrowing {
        Narrowing::of(&rows.set.schema(), self.all)
    }
}

/// Applies steps to rows and returns the resulting flow.
pub fn make<'a>(
    threads: &'a dyn Threads<'a>,
    origin: Origin<'a>,
    steps: &'a [Step<RecordAction>],
    session: &'a Session,
) -> Result<Box<dyn Flow + 'a>> {
    origin.check(steps)?;
    Upstream { threads, origin, before: steps, all: steps, epoch: 0, session }.flow()
}

/// Returns the columns after the steps.
pub fn schema(before: SchemaRef, steps: &[Step<RecordAction>]) -> Result<SchemaRef> {
    steps
        .iter()
        .try_fold(before, |schema, step| step.action.schema(&schema).map_err(|error| error.context(step)))
}

/// Checks that the output of the steps is finite.
pub(crate) fn check_end(steps: &[Step<RecordAction>]) -> Result<()> {
    let mut endless = None;
    for step in steps {
        let is_endless = step.action.is_endless(endless.is_some());
        endless = if is_endless { endless.or(Some(step)) } else { None };
    }
    match endless {
        Some(step) => {
            Err(Error::usage("the records have no end").hint("add --step take:N after it").context(step))
        }
        None => Ok(()),
    }
}

/// Returns the number of rows after the steps if their input has `rows` rows, or `None` if the
/// number is not known in advance.
#[must_use]
pub fn count(steps: &[Step<RecordAction>], rows: Option<u64>) -> Option<u64> {
    steps.iter().fold(rows, |rows, step| step.action.count(rows))
}
