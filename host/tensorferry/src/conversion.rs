//! A conversion, built step by step and then run.

use crate::RECORDS;
use crate::registry::Registry;
use std::path::Path;
use tensorferry_convert::report::Report;
use tensorferry_convert::{InputRequest, OutputRequest, Request, convert};
use tensorferry_core::read::part::Part;
use tensorferry_sdk::{LossKind, Result};
use tensorferry_tensors::content::Algorithm;

impl Registry {
    /// A conversion of `input` into `output`; [`Conversion::run`] does it.
    #[must_use = "nothing happens before it is run"]
    pub fn convert(&self, input: impl AsRef<Path>, output: impl AsRef<Path>) -> Conversion<'_> {
        let input = InputRequest { path: input.as_ref().to_owned(), ..InputRequest::default() };
        let output = OutputRequest { path: output.as_ref().to_owned(), ..OutputRequest::default() };
        Conversion { registry: self, request: Request { input, output, ..Request::default() } }
    }
}

/// A conversion that has not run yet: what `ferry convert` can be told, as methods.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before it is run"]
pub struct Conversion<'a> {
    registry: &'a Registry,
    request: Request,
}

impl Conversion<'_> {
    /// Reads the input as this format, by its id, instead of finding out which it is.
    pub fn from(mut self, format: impl Into<String>) -> Self {
        self.request.input.format = Some(format.into());
        self
    }

    /// Writes this format, by its id, instead of the one that the output's name says.
    pub fn to(mut self, format: impl Into<String>) -> Self {
        self.request.output.format = Some(format.into());
        self
    }

    /// An option of the input's format, as `ferry formats` lists them.
    pub fn input_option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.input.options.push((key.into(), value.into()));
        self
    }

    /// An option of the output's format, as `ferry formats` lists them.
    pub fn output_option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.output.options.push((key.into(), value.into()));
        self
    }

    /// Converts this branch of the input: a path such as `model.encoder`, or `.` for all of it. Otherwise,
    /// where the target holds no tree, the model is taken out of a checkpoint with optimizer state.
    pub fn part(mut self, part: &str) -> Self {
        self.request.input.part = Part::parse(part);
        self
    }

    /// Adds a step, as `--step` has it: `cast:bf16`, `rename:^a,to=b`. Steps are done in order, in one pass
    /// over the data.
    pub fn step(mut self, step: impl Into<String>) -> Self {
        self.request.steps.push(step.into());
        self
    }

    /// Reads the output back before it becomes visible, and compares every value.
    pub fn verify(mut self, verify: bool) -> Self {
        self.request.output.verify = verify;
        self
    }

    /// Writes a receipt beside the output, with the digests of everything; those of files by SHA-256.
    pub fn receipt(mut self, receipt: bool) -> Self {
        self.request.output.receipt = receipt.then_some(Algorithm::Sha256);
        self
    }

    /// Ends with an error at the first loss of what is there, or of its form if nobody asked for that, unless it is of
    /// an allowed kind.
    pub fn strict(mut self, strict: bool) -> Self {
        self.request.losses.strict = strict;
        self
    }

    /// Converts an input without a tensor or a record too, which is an error otherwise.
    pub fn allow_empty(mut self, allow_empty: bool) -> Self {
        self.request.input.allow_empty = allow_empty;
        self
    }

    /// A kind of loss that [`strict`](Self::strict) lets pass.
    pub fn allow(mut self, kind: LossKind) -> Self {
        self.request.losses.allowed.push(kind);
        self
    }

    /// Replaces an output that is there already.
    pub fn force(mut self, force: bool) -> Self {
        self.request.output.commit.force = force;
        self
    }

    /// Syncs the files and their folder, so that the output outlasts a power cut.
    pub fn sync(mut self, sync: bool) -> Self {
        self.request.output.commit.sync = sync;
        self
    }

    /// Plans everything and writes nothing.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.request.dry_run = dry_run;
        self
    }

    /// Does it. The output is whole or absent.
    ///
    /// # Errors
    /// Whatever is wrong; nothing of the output is left then.
    pub fn run(self) -> Result<Report> {
        let session = self.registry.session();
        let begun = |bytes| session.expect(bytes);
        session.install(|| convert(&self.request, self.registry.as_ref(), session, &begun, RECORDS))
    }
}
