//! Conversions, from what the user asked for to a report.
//!
//! [`convert`] is the way of the data, one call for each step:
//!
//! ```text
//! request --open--> source, target --probe--> format --read--> models --select--> catalogs
//!         --plan--> layouts --stage--> written, verified, with a receipt --commit--> report
//! ```
//!
//! Most inputs are one model; of a folder with several, each goes the same way, into one commit.

pub mod request;

pub mod report;
pub mod watch;

mod context;
pub mod sides;
pub mod steps;

mod models;
mod sidecars;

#[cfg(feature = "records")]
mod record_input;
mod tensors;

mod earlier;
mod publication;
pub mod receipts;

#[cfg(feature = "records")]
mod record_output;
mod tensor_output;

#[cfg(feature = "records")]
mod records;
#[cfg(feature = "arrow-60")]
mod saved_records;
#[cfg(feature = "records")]
mod tensors_to_records;

pub mod compare;
pub mod inspect;
pub mod statistics;

pub use request::{InputRequest, OutputRequest, Request};
#[cfg(feature = "arrow-60")]
pub(crate) use saved_records::save_records;

use crate::context::session::Session;
use crate::formats::registry::Registry;
use crate::formats::registry::holds_records;
use crate::read::input::Input;
use crate::read::model::InputModel;
use crate::read::source::FileSource;
use crate::steps::dequantize::asked;
use crate::steps::{Step, TensorAction};
use context::ConversionContext;
use report::Report;
use std::time::Instant;
use tensor_output::TensorOutput;
use tensorferry_sdk::{Catalog, Error, Result, TensorDecoder};
use watch::Watch;

/// Converts. `watch` is told how many bytes there will be, before the first one moves, and asked before the
/// output becomes visible.
///
/// # Errors
/// Whatever is wrong; nothing of the output is left then.
pub fn convert(
    request: &Request,
    registry: &Registry,
    session: &Session,
    watch: &dyn Watch,
) -> Result<Report> {
    let started = Instant::now();
    let steps = steps::parse(&request.steps)?;
    let dequantize = asked(steps.iter().map(|step| &step.spec))?;
    let mut context = ConversionContext::open(request, registry, session, watch, started)?;
    context.dequantize = dequantize;
    let format = context.find_format();
    let writes_records = holds_records(&context.target.format.description);
    match format {
        #[cfg(feature = "records")]
        Ok(format) if holds_records(&format.description) && writes_records => {
            records::convert(&context, format, steps)
        }
        #[cfg(feature = "records")]
        Ok(format) if holds_records(&format.description) => {
            let divided = steps::divide::to_tensors(steps)?;
            let model = models::of_records(&context, format, &divided)?;
            write_tensors(&context, vec![model], &divided.tensors)
        }
        #[cfg(feature = "records")]
        probed if writes_records => {
            let divided = steps::divide::to_records(steps)?;
            let models = models::read(&context, probed)?;
            tensors_to_records::convert(&context, models, &divided)
        }
        #[cfg(not(feature = "records"))]
        Ok(format) if writes_records || holds_records(&format.description) => Err(without_records()),
        probed => {
            let models = models::read(&context, probed)?;
            write_tensors(&context, models, &steps::on_tensors(steps)?)
        }
    }
}

/// Why a program that was built without the feature `records` takes none.
#[cfg(not(feature = "records"))]
pub(crate) fn without_records() -> Error {
    Error::unsupported("records: this program was built without the feature that carries them")
}

/// Writes tensors that a program has, described by `catalog` as the input's reader would; `decoder` gives those that are
/// not in memory.
pub(crate) fn save(
    request: &Request,
    catalog: Catalog,
    decoder: impl TensorDecoder + 'static,
    registry: &Registry,
    session: &Session,
) -> Result<Report> {
    let started = Instant::now();
    let watch = |_| ();
    // No file: nothing is opened, and nothing goes along.
    let source = FileSource::of_files(request.output.path.clone(), vec![String::new()]);
    let context = ConversionContext::of(request, source.afresh(), registry, session, &watch, started)?;
    let target = &context.target.format.description;
    if holds_records(target) {
        let problem = Error::usage(format!("{} holds records, and these are tensors", target.id));
        return Err(problem.file(request.output.path.display().to_string()));
    }
    let input = Input::in_memory(source, catalog).decoded_by(decoder);
    let reading = context.reading(context.purpose(&input.format));
    write_tensors(&context, vec![InputModel { folder: String::new(), input, context: reading }], &[])
}

/// The way of tensors, once they have been read.
fn write_tensors(
    context: &ConversionContext<'_>,
    models: Vec<InputModel<'_>>,
    steps: &[Step<TensorAction>],
) -> Result<Report> {
    let sources: Vec<_> = models.iter().map(|model| model.input.source.clone()).collect();
    let written = write_models(context, models, steps);
    // What was read of a file that changes meanwhile may be anything.
    written.map_err(|error| sources.iter().fold(error, |error, source| source.blame(error)))
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
