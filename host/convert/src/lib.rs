//! A layer of the crate `tensorferry`. Its API is not stable.
//!
//! Conversions, from the request to the report.
//!
//! [`convert`] runs these stages, with one call for each stage:
//!
//! ```text
//! request --open--> source, target --probe--> format --read--> models --select--> catalogs
//!         --plan--> layouts --stage--> written, verified, with a receipt --commit--> report
//! ```
//!
//! Most inputs consist of one model. If a folder contains several models, all of them pass through
//! the same stages and are committed together.

#![forbid(unsafe_code)]

pub mod compare;
pub mod comparison;
pub mod context;
pub mod earlier;
pub mod inspect;
pub mod models;
pub mod observer;
mod platform;
pub mod publication;
pub mod receipt;
pub mod receipts;
pub mod record_support;
pub mod report;
pub mod request;
pub mod sidecars;
pub mod sides;
pub mod statistics;
pub mod steps;
pub mod tensor_output;
pub mod tensors;
pub mod write;

pub use request::{InputRequest, OutputRequest, Request};

use context::ConversionContext;
use observer::ConversionObserver;
use record_support::RecordSupport;
use report::Report;
use std::time::Instant;
use tensor_output::TensorOutput;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::registry::{Formats, holds_records};
use tensorferry_core::read::input::TensorInput;
use tensorferry_core::read::model::InputModel;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Catalog, Error, Result, TensorDecoder};
use tensorferry_tensors::steps::dequantize::requested_dtype;
use tensorferry_tensors::steps::{Step, TensorAction};

/// Converts an input. `observer` is called with the number of bytes to copy before the copy starts,
/// and again before the output becomes visible. `records` handles inputs and outputs of records. If
/// the conversion fails, no partial output is left behind.
pub fn convert(
    request: &Request,
    registry: &Formats,
    session: &Session,
    observer: &dyn ConversionObserver,
    records: &dyn RecordSupport,
) -> Result<Report> {
    let started = Instant::now();
    let steps = steps::parse(&request.steps, records)?;
    let dequantize = requested_dtype(steps.iter().map(|step| &step.spec))?;
    let mut context = ConversionContext::open(request, registry, session, observer, started)?;
    context.dequantize = dequantize;
    let format = context.find_format();
    let writes_records = holds_records(&context.target.format.description);
    match format {
        Ok(format) if holds_records(&format.description) && writes_records => {
            records.convert(&context, format, steps)
        }
        Ok(format) if holds_records(&format.description) => {
            let (model, steps) = records.as_model(&context, format, steps)?;
            write_tensors(&context, vec![model], &steps)
        }
        probed if writes_records => records.of_tensors(&context, probed, steps),
        probed => {
            let models = models::read(&context, probed)?;
            write_tensors(&context, models, &steps::on_tensors(steps)?)
        }
    }
}

/// Writes tensors that are in memory. `catalog` describes them in the same way as a reader would.
/// `decoder` supplies the tensors whose bytes are not in memory.
pub fn save(
    request: &Request,
    catalog: Catalog,
    decoder: impl TensorDecoder + 'static,
    registry: &Formats,
    session: &Session,
) -> Result<Report> {
    let started = Instant::now();
    let observer = |_| ();
    // The tensors are in memory, so no input file is opened or copied to the output.
    let source = FileSource::of_files(request.output.path.clone(), vec![String::new()]);
    let context = ConversionContext::of(request, source.reopen(), registry, session, &observer, started)?;
    let target = &context.target.format.description;
    if holds_records(target) {
        let problem = Error::usage(format!("the format {} holds records, not tensors", target.id));
        return Err(problem.file(request.output.path.display().to_string()));
    }
    let input = TensorInput::in_memory(source, catalog).decoded_by(decoder);
    let reading = context.reading(context.purpose(&input.format));
    write_tensors(&context, vec![InputModel { folder: String::new(), input, context: reading }], &[])
}

fn write_tensors(
    context: &ConversionContext<'_>,
    models: Vec<InputModel<'_>>,
    steps: &[Step<TensorAction>],
) -> Result<Report> {
    let sources: Vec<_> = models.iter().map(|model| model.input.source.clone()).collect();
    let written = write_models(context, models, steps);
    // If an input file changed while it was being read, report this change. Any other error may be a
    // consequence of the change.
    written.map_err(|error| sources.iter().fold(error, |error, source| source.attribute_error(error)))
}

fn write_models(
    context: &ConversionContext<'_>,
    models: Vec<InputModel<'_>>,
    steps: &[Step<TensorAction>],
) -> Result<Report> {
    let selected = tensors::select(context, &models, steps)?;
    let planned = tensors::plan(context, &selected)?;
    let mut output = TensorOutput::new(context, planned)?;
    let report = output.report()?;
    if context.request.dry_run {
        return output.foresee(report);
    }
    let staged = publication::stage(context, &mut output, report)?;
    let inputs = output.close()?;
    models.into_iter().try_for_each(InputModel::close)?;
    staged.commit(inputs)
}
