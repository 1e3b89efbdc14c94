//! Steps on records carry tf.data's names and mean what they mean there
//! (<https://www.tensorflow.org/api_docs/python/tf/data/Dataset>). Each makes a flow of a flow and has a
//! file of its own; a chain is pulled once, batch by batch, whatever the number of threads.
//!
//! What comes out depends on the input, the steps and their seeds alone.

mod batch;
mod dealt;
mod expression;
mod filter;
mod interleave;
mod map;
mod prefetch;
mod repeat;
mod shuffle;

use super::flow::{self, Flow};
use super::rows::Rows;
use crate::context::session::Session;
use crate::steps::kind::Kind;
use crate::steps::{Action, Step};
use std::fmt;
use std::thread::Scope;
use tensorferry_sdk::{Error, Result};

/// Every kind of step on records.
pub(crate) static RECORD_KINDS: &[&Kind] = &[
    &dealt::SHARD,
    &interleave::INTERLEAVE,
    &shuffle::SHUFFLE,
    &repeat::REPEAT,
    &dealt::TAKE,
    &dealt::SKIP,
    &filter::FILTER,
    &map::MAP,
    &batch::BATCH,
    &prefetch::PREFETCH,
];

/// A step on records.
pub trait RecordStep: fmt::Debug + Send + Sync {
    /// The flow that it makes of the one before it.
    ///
    /// # Errors
    /// Usage, where what the user asked for cannot be done with these columns.
    fn apply<'scope, 'env: 'scope>(
        &'env self,
        upstream: Upstream<'scope, 'env>,
    ) -> Result<Box<dyn Flow + 'scope>>;

    /// How many rows come out where `rows` go in; `None`: not known before.
    fn count(&self, rows: Option<u64>) -> Option<u64>;

    /// Whether what becomes of a row depends on that row alone: then it is the same for the rows of one file
    /// as for those of all.
    fn is_row_wise(&self) -> bool {
        false
    }

    /// Whether rows come out without end.
    fn is_endless(&self, upstream: bool) -> bool {
        upstream
    }
}

/// What a step is made on: how to make the flow before it, once or again.
pub struct Upstream<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    origin: Origin<'env>,
    before: &'env [Step],
    session: &'env Session,
}

/// Where rows come from, before any step.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    /// An input of records.
    Rows(&'a Rows<'a>),
    /// Something else that can be made to flow, again if need be.
    Made(&'a dyn Beginning),
}

/// What flows without being an input of records.
pub trait Beginning: Sync {
    /// Its flow, from the beginning.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    fn begin<'a>(&'a self) -> Result<Box<dyn Flow + 'a>>;
}

impl<'scope, 'env: 'scope> Upstream<'scope, 'env> {
    /// The flow before the step.
    ///
    /// # Errors
    /// Whatever an earlier step says.
    pub fn flow(&self) -> Result<Box<dyn Flow + 'scope>> {
        make(self.scope, self.origin, self.before, self.session)
    }

    /// Where threads of a step live.
    #[must_use]
    pub fn scope(&self) -> &'scope Scope<'scope, 'env> {
        self.scope
    }

    /// The input of records, for a step that is the first; `None` where rows come from something else.
    #[must_use]
    pub fn rows(&self) -> Option<&'env Rows<'env>> {
        match self.origin {
            Origin::Rows(rows) => Some(rows),
            Origin::Made(_) => None,
        }
    }

    /// Whether no step comes before.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.before.is_empty()
    }

    /// What bounds the run.
    #[must_use]
    pub fn session(&self) -> &'env Session {
        self.session
    }
}

/// The flow of rows through steps.
///
/// # Errors
/// Usage, naming the step.
pub fn make<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    origin: Origin<'env>,
    steps: &'env [Step],
    session: &'env Session,
) -> Result<Box<dyn Flow + 'scope>> {
    match (steps, origin) {
        ([], Origin::Rows(rows)) => {
            let splits = (0..rows.set.splits().len()).collect();
            Ok(Box::new(flow::read(scope, rows, splits, session)))
        }
        ([], Origin::Made(made)) => made.begin(),
        ([before @ .., last], _) => {
            let upstream = Upstream { scope, origin, before, session };
            record_step(last)?.apply(upstream).map_err(|error| error.context(last))
        }
    }
}

/// Checks that steps are about records and that what they make has an end.
///
/// # Errors
/// Usage, naming the step.
pub fn check(steps: &[Step]) -> Result<()> {
    let mut endless = None;
    for step in steps {
        let action = record_step(step)?;
        let is = action.is_endless(endless.is_some());
        endless = if is { endless.or(Some(step)) } else { None };
    }
    match endless {
        Some(step) => Err(Error::usage("records without end: put a take after it").context(step)),
        None => Ok(()),
    }
}

/// Checks that a step means the same for each unit of a data set as for all of it.
///
/// # Errors
/// Usage.
pub fn check_row_wise(step: &Step) -> Result<()> {
    if record_step(step)?.is_row_wise() {
        return Ok(());
    }
    Err(Error::usage("needs all records in one flow, and a data set is converted unit by unit").context(step))
}

/// How many rows come out of steps that have been [`check`]ed, where `rows` go in; `None`: not known
/// before.
#[must_use]
pub fn count(steps: &[Step], rows: Option<u64>) -> Option<u64> {
    steps.iter().fold(rows, |rows, step| record_step(step).ok()?.count(rows))
}

fn record_step(step: &Step) -> Result<&dyn RecordStep> {
    match &step.action {
        Action::Record(action) => Ok(&**action),
        Action::Tensor(_) => {
            let error = Error::usage("a step on tensors, and the input holds records: see `ferry steps`");
            Err(error.context(step))
        }
        Action::Cross(_) => {
            Err(Error::usage("both sides are records: nothing becomes tensors").context(step))
        }
    }
}
