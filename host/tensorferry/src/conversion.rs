//! Conversions that are built step by step and then run.

use crate::RECORDS;
use crate::registry::Registry;
use std::path::Path;
use tensorferry_convert::report::Report;
use tensorferry_convert::{InputRequest, OutputRequest, Request, convert};
use tensorferry_core::read::part::Part;
use tensorferry_sdk::{LossKind, Result};
use tensorferry_tensors::content::Algorithm;

impl Registry {
    /// Prepares a conversion of `input` to `output`; call [`Conversion::run`] to run it.
    #[must_use = "the conversion does not start until `run` is called"]
    pub fn convert(&self, input: impl AsRef<Path>, output: impl AsRef<Path>) -> Conversion<'_> {
        let input = InputRequest { path: input.as_ref().to_owned(), ..InputRequest::default() };
        let output = OutputRequest { path: output.as_ref().to_owned(), ..OutputRequest::default() };
        Conversion { registry: self, request: Request { input, output, ..Request::default() } }
    }
}

/// A conversion that has not run yet. The methods correspond to the options of `ferry convert`.
///
/// ```no_run
/// # fn main() -> tensorferry::Result<()> {
/// # let registry = tensorferry::Registry::new();
/// let report = registry
///     .convert("checkpoint.pt", "model.safetensors")
///     .step("cast:bf16")
///     .verify(true)
///     .run()?;
/// println!("{} tensors, {} bytes", report.tensors, report.bytes);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "the conversion does not start until `run` is called"]
pub struct Conversion<'a> {
    registry: &'a Registry,
    request: Request,
}

impl Conversion<'_> {
    /// Reads the input as the format with this ID instead of detecting it.
    pub fn from(mut self, format: impl Into<String>) -> Self {
        self.request.input.format = Some(format.into());
        self
    }

    /// Writes the format with this ID instead of the format implied by the output's name.
    pub fn to(mut self, format: impl Into<String>) -> Self {
        self.request.output.format = Some(format.into());
        self
    }

    /// Adds an option of the input's format; `ferry formats` lists the options.
    pub fn input_option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.input.options.push((key.into(), value.into()));
        self
    }

    /// Adds an option of the output's format; `ferry formats` lists the options.
    pub fn output_option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.output.options.push((key.into(), value.into()));
        self
    }

    /// Converts only this branch of the input: a path such as `model.encoder`, or `.` for the whole
    /// input. By default, if the output format cannot store a tree, ferry converts only the model
    /// from a checkpoint with optimizer state.
    pub fn part(mut self, part: &str) -> Self {
        self.request.input.part = Part::parse(part);
        self
    }

    /// Adds a step in the syntax of `--step`, such as `cast:bf16` or `rename:^a,to=b`. Steps run in
    /// order, in one pass over the data.
    pub fn step(mut self, step: impl Into<String>) -> Self {
        self.request.steps.push(step.into());
        self
    }

    /// Sets whether to read the output back and compare every value before the output becomes
    /// visible.
    pub fn verify(mut self, verify: bool) -> Self {
        self.request.output.verify = verify;
        self
    }

    /// Sets whether to write a receipt next to the output, with digests of all tensors and SHA-256
    /// digests of all files.
    pub fn receipt(mut self, receipt: bool) -> Self {
        self.request.output.receipt = receipt.then_some(Algorithm::Sha256);
        self
    }

    /// Sets whether the conversion fails on the first data loss or unrequested change of
    /// representation. Losses of an [allowed](Self::allow) kind are ignored.
    pub fn strict(mut self, strict: bool) -> Self {
        self.request.losses.strict = strict;
        self
    }

    /// Copies only those files next to the weights that match one of these globs. By default, all
    /// files in an input folder are copied, and no files next to an input file are copied. If the
    /// list is empty, no files are copied.
    pub fn companions(mut self, globs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.request.input.companions = Some(globs.into_iter().map(Into::into).collect());
        self
    }

    /// Sets whether to convert an input without tensors or records. By default, such an input is an
    /// error.
    pub fn allow_empty(mut self, allow_empty: bool) -> Self {
        self.request.input.allow_empty = allow_empty;
        self
    }

    /// Allows a kind of loss even if [`strict`](Self::strict) is set.
    pub fn allow(mut self, kind: LossKind) -> Self {
        self.request.losses.allowed.push(kind);
        self
    }

    /// Sets whether to replace an existing output.
    pub fn force(mut self, force: bool) -> Self {
        self.request.output.commit.force = force;
        self
    }

    /// Sets whether to sync the output files and their folder to disk, so that the output survives
    /// a power failure.
    pub fn sync(mut self, sync: bool) -> Self {
        self.request.output.commit.sync = sync;
        self
    }

    /// Sets whether to plan the conversion without writing anything.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.request.dry_run = dry_run;
        self
    }

    /// Runs the conversion. The output is complete or absent.
    ///
    /// # Errors
    /// Returns an error if the conversion fails; no partial output is left behind.
    pub fn run(self) -> Result<Report> {
        let session = self.registry.session();
        let begun = |bytes| session.expect(bytes);
        session.install(|| convert(&self.request, self.registry.as_ref(), session, &begun, RECORDS))
    }
}
