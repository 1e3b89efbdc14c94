//! Steps on records carry tf.data's names and mean what they mean there
//! (<https://www.tensorflow.org/api_docs/python/tf/data/Dataset>). Each makes a flow of a flow and has a
//! file of its own; a chain is pulled once, batch by batch, whatever the number of threads.
//!
//! What comes out depends on the input, the steps and their seeds alone.

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
pub use narrowing::Narrows;
use std::fmt;
use tensorferry_core::context::session::Session;
use tensorferry_sdk::{Error, Result, arrow_schema};
use tensorferry_tensors::steps::{Step, StepKind};

/// Every kind of step on records.
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

/// What a step on records does.
pub trait RecordStep: fmt::Debug + Send + Sync {
    /// The flow that it makes of the one before it.
    ///
    /// # Errors
    /// Usage, where what the user asked for cannot be done with these columns.
    fn apply<'a>(&'a self, upstream: Upstream<'a>) -> Result<Box<dyn Flow + 'a>>;

    /// The columns that come out where these go in.
    ///
    /// # Errors
    /// Usage, where what the user asked for cannot be done with these columns.
    fn schema(&self, upstream: &SchemaRef) -> Result<SchemaRef> {
        Ok(upstream.clone())
    }

    /// Whether it reads the files of an input itself, so that nothing is before it.
    fn is_first(&self) -> bool {
        false
    }

    /// How many rows come out where `rows` go in, as many unless the step says otherwise; `None`: not known
    /// before.
    fn count(&self, rows: Option<u64>) -> Option<u64> {
        rows
    }

    /// Whether what becomes of a row depends on that row alone: then it is the same for the rows of one file
    /// as for those of all.
    fn is_row_wise(&self) -> bool {
        false
    }

    /// What a reader may leave out before this step.
    fn narrows(&self) -> Narrows<'_> {
        Narrows::All
    }

    /// Whether rows come out without end.
    fn is_endless(&self, upstream: bool) -> bool {
        upstream
    }
}

/// Any of them.
pub type RecordAction = Box<dyn RecordStep>;

/// What a step is made on: how to make the flow before it, once or again.
#[derive(Clone, Copy)]
pub struct Upstream<'a> {
    threads: &'a dyn Threads<'a>,
    origin: Origin<'a>,
    before: &'a [Step<RecordAction>],
    /// All steps on the origin: those before, this one, and those behind it.
    all: &'a [Step<RecordAction>],
    /// How often a repeat after the step has gone through all records before.
    epoch: u64,
    session: &'a Session,
}

/// Where rows come from, before any step.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    /// An input of records.
    Rows(&'a Rows<'a>),
    /// Something else.
    Other(&'a dyn FlowSource),
}

/// What makes a flow without being an input of records.
pub trait FlowSource: Sync {
    /// Its columns.
    fn schema(&self) -> SchemaRef;

    /// Its flow, from the beginning.
    fn flow<'a>(&'a self) -> Result<Box<dyn Flow + 'a>>;
}

impl Origin<'_> {
    /// The columns of its rows.
    #[must_use]
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Rows(rows) => rows.set.schema(),
            Self::Other(source) => source.schema(),
        }
    }

    /// Checks that these steps can be made on it.
    ///
    /// # Errors
    /// Usage, naming the step.
    pub fn check(self, steps: &[Step<RecordAction>]) -> Result<()> {
        let Some((place, step)) = steps.iter().enumerate().rfind(|(_, step)| step.action.is_first()) else {
            return Ok(());
        };
        let why = match self {
            _ if place > 0 => "it takes files in turns, so that it has to be the first step",
            Self::Other(_) => "it takes files in turns, and these records come of tensors",
            Self::Rows(_) => return Ok(()),
        };
        Err(Error::usage(why).context(step))
    }
}

impl<'a> Upstream<'a> {
    /// The flow before the step.
    fn flow(self) -> Result<Box<dyn Flow + 'a>> {
        match (self.before, self.origin) {
            ([], Origin::Rows(rows)) => Ok(self.narrowing(rows).flow(&self, rows)),
            ([], Origin::Other(source)) => source.flow(),
            ([before @ .., last], origin) => {
                if let Origin::Rows(rows) = origin
                    && self.narrowing(rows).has_done(before.len(), last)
                {
                    return Self { before, ..self }.flow();
                }
                last.action.apply(Self { before, ..self }).map_err(|error: Error| error.context(last))
            }
        }
    }

    /// What the reader of the origin may leave out.
    fn narrowing(&self, rows: &Rows<'_>) -> Narrowing {
        Narrowing::of(&rows.set.schema(), self.all)
    }
}

/// The flow of rows through steps.
///
/// # Errors
/// Usage, naming the step.
pub fn make<'a>(
    threads: &'a dyn Threads<'a>,
    origin: Origin<'a>,
    steps: &'a [Step<RecordAction>],
    session: &'a Session,
) -> Result<Box<dyn Flow + 'a>> {
    origin.check(steps)?;
    Upstream { threads, origin, before: steps, all: steps, epoch: 0, session }.flow()
}

/// The columns of rows after steps, from those before.
///
/// # Errors
/// Usage, naming the step.
pub fn schema(before: SchemaRef, steps: &[Step<RecordAction>]) -> Result<SchemaRef> {
    steps
        .iter()
        .try_fold(before, |schema, step| step.action.schema(&schema).map_err(|error| error.context(step)))
}

/// Checks that what steps give has an end.
///
/// # Errors
/// Usage, naming the step.
pub(crate) fn check_end(steps: &[Step<RecordAction>]) -> Result<()> {
    let mut endless = None;
    for step in steps {
        let is_endless = step.action.is_endless(endless.is_some());
        endless = if is_endless { endless.or(Some(step)) } else { None };
    }
    match endless {
        Some(step) => Err(Error::usage("records without end: put a take after it").context(step)),
        None => Ok(()),
    }
}

/// How many rows come out of steps where `rows` go in; `None`: not known before.
#[must_use]
pub fn count(steps: &[Step<RecordAction>], rows: Option<u64>) -> Option<u64> {
    steps.iter().fold(rows, |rows, step| step.action.count(rows))
}
