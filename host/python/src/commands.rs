//! The engine's commands. Each command returns a JSON document.

use crate::arguments::{InputArguments, LossArguments, Options, OutputArguments};
use crate::engine::Engine;
use crate::errors::OrRaise;
use crate::{objects, work};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use tensorferry::LossRecord;
use tensorferry::compare::{self, CompareRequest};
use tensorferry::formats::{document, holds_records};
use tensorferry::inspect::InspectOptions;
use tensorferry::receipts::VerifyOptions;
use tensorferry::request::Part;

use tensorferry::compare::{Tolerance, expected};
use tensorferry::receipts::{VerifyResult, find};
use tensorferry::rows::{self, column};
use tensorferry::{Registry, Result};
use tensorferry_sdk::{Catalog, Loss, Purpose};

/// Arguments of a conversion other than its input and output.
struct ConversionArguments {
    steps: Vec<String>,
    verify: bool,
    losses: LossArguments,
    receipt: bool,
    dry_run: bool,
    allow_empty: bool,
    companions: Option<Vec<String>>,
}

impl<'py> FromPyObject<'_, 'py> for ConversionArguments {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (steps, verify, losses, receipt, dry_run, allow_empty, companions) = object.extract()?;
        Ok(Self { steps, verify, losses, receipt, dry_run, allow_empty, companions })
    }
}

#[pymethods]
impl Engine {
    /// Converts an input, and returns the report.
    #[pyo3(signature = (input, output, how, progress))]
    fn convert<'py>(
        &self,
        py: Python<'py>,
        input: InputArguments,
        output: OutputArguments,
        how: ConversionArguments,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let registry = self.for_input(input.follow_links);
        let report =
            work::run(py, registry.session(), progress.as_ref(), || convert(&registry, input, output, how))?;
        objects::of_json(py, &report)
    }

    /// Describes an input without reading its data.
    fn inspect<'py>(&self, py: Python<'py>, input: InputArguments) -> PyResult<Bound<'py, PyAny>> {
        let registry = self.for_input(input.follow_links);
        let seen = work::run(py, registry.session(), None, || {
            registry.session().install(|| inspection(&registry, &input))
        })?;
        objects::of_json(py, &seen)
    }

    /// Compares two inputs.
    #[pyo3(signature = (a, b, part, options, steps, tolerance, losses, follow_links, progress))]
    fn diff<'py>(
        &self,
        py: Python<'py>,
        a: PathBuf,
        b: PathBuf,
        part: Option<String>,
        options: Options,
        steps: Vec<String>,
        tolerance: Option<(f64, f64)>,
        losses: LossArguments,
        follow_links: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let registry = self.for_input(follow_links);
        let request = CompareRequest {
            a: &a,
            b: &b,
            part: &part.as_deref().map_or(Part::Whole, Part::parse),
            options: &options,
            steps: &steps,
            tolerance: tolerance.map(|(atol, rtol)| Tolerance { atol, rtol }),
            max_diff: None,
            losses: &losses.0,
        };
        let session = registry.session();
        let found =
            work::run(py, session, progress.as_ref(), || session.install(|| registry.compare(&request)))?;
        objects::of_json(py, &found.json())
    }

    /// Compares an input with the names, dtypes and shapes in a file.
    fn check<'py>(
        &self,
        py: Python<'py>,
        input: InputArguments,
        against: PathBuf,
    ) -> PyResult<Bound<'py, PyAny>> {
        let registry = self.for_input(input.follow_links);
        let session = registry.session();
        let found = work::run(py, session, None, || {
            session.install(|| {
                let expected = expected::read(&against)?;
                let part = input.part();
                let seen = registry.inspect(&input.path, look(&input, &part, Purpose::SHOW))?;
                let differences = expected::compare(&expected, &seen.catalog);
                let document = compare::tensors_json(&differences, seen.catalog.tensors().len());
                seen.input.close()?;
                Ok(document)
            })
        })?;
        objects::of_json(py, &found)
    }

    /// Checks outputs against their receipts.
    #[pyo3(signature = (outputs, quick, source, progress))]
    fn verify<'py>(
        &self,
        py: Python<'py>,
        outputs: Vec<PathBuf>,
        quick: bool,
        source: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let registry = self.for_a_call();
        let session = registry.session();
        let verdicts = work::run(py, session, progress.as_ref(), || {
            session.install(|| {
                let found = find(&outputs, session)?;
                let without = found.without.iter();
                let mut verdicts: Vec<Value> =
                    without.map(|path| json!({ "verdict": "no receipt", "output": path })).collect();
                registry.verify(&found.receipts, VerifyOptions { quick, source }, |checked| {
                    verdicts.push(verdict(&checked));
                    Ok(())
                })?;
                Ok(Value::from(verdicts))
            })
        })?;
        objects::of_json(py, &verdicts)
    }

    /// Lists the usable formats.
    fn formats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let registry = self.for_a_call();
        registry.check_any().or_raise(py)?;
        let mut formats: Vec<_> = registry.formats().iter().collect();
        formats.sort_by(|a, b| a.description.id.cmp(&b.description.id));
        objects::of_json(py, &formats.into_iter().map(|format| document(&registry, format)).collect())
    }
}

fn convert(
    registry: &Registry,
    input: InputArguments,
    output: OutputArguments,
    how: ConversionArguments,
) -> Result<Value> {
    let mut conversion = registry
        .convert(&input.path, &output.path)
        .verify(how.verify)
        .strict(how.losses.0.strict)
        .receipt(how.receipt)
        .dry_run(how.dry_run)
        .allow_empty(how.allow_empty)
        .force(output.force)
        .sync(output.sync);
    if let Some(format) = input.format {
        conversion = conversion.from(format);
    }
    if let Some(format) = output.format {
        conversion = conversion.to(format);
    }
    if let Some(part) = input.part {
        conversion = conversion.part(&part);
    }
    if let Some(globs) = how.companions {
        conversion = conversion.companions(globs);
    }
    for (key, value) in input.options {
        conversion = conversion.input_option(key, value);
    }
    for (key, value) in output.options {
        conversion = conversion.output_option(key, value);
    }
    conversion = how.steps.into_iter().fold(conversion, |conversion, step| conversion.step(step));
    conversion = how.losses.0.allowed.into_iter().fold(conversion, |conversion, kind| conversion.allow(kind));
    Ok(conversion.run()?.json())
}

fn look<'a>(input: &'a InputArguments, part: &'a Part, purpose: Purpose) -> InspectOptions<'a> {
    InspectOptions { from: input.format.as_deref(), options: &input.options, part, purpose }
}

fn inspection(registry: &Registry, input: &InputArguments) -> Result<Value> {
    let session = registry.session();
    let part = input.part.as_deref().map_or(Part::Whole, Part::parse);
    let look = look(input, &part, Purpose::SHOW);
    let found = registry.find(&input.path, look.choice())?;
    if holds_records(&found.format.description) {
        let context = found.reading(session, Purpose::SHOW);
        let rows = rows::open(&found.source, found.format, &found.options, &context)?;
        let columns = rows.set.schema().fields().iter().map(|field| column(field)).collect::<Vec<_>>();
        let document = json!({
            "format": found.format.description.id,
            "tensors": [],
            "metadata": {},
            "globals": [],
            "columns": columns,
            "records": rows.known_records(),
            "losses": losses(&rows.losses()?),
        });
        rows.close()?;
        return Ok(document);
    }
    let seen = registry.inspect(&input.path, look)?;
    let document = json!({
        "format": seen.input.format.description.id,
        "tensors": tensors(&seen.catalog),
        "metadata": seen.catalog.metadata().iter().map(|(key, value)| (key.clone(), parsed(&value.json())))
            .collect::<serde_json::Map<_, _>>(),
        "globals": seen.catalog.globals(),
        "columns": [],
        "records": null,
        "losses": losses(&seen.losses),
    });
    seen.input.close()?;
    Ok(document)
}

/// Parses JSON. If a value is nested too deeply for the parser, returns its text.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

fn losses(losses: &[Loss]) -> Value {
    json!(losses.iter().map(LossRecord::of).collect::<Vec<_>>())
}

fn tensors(catalog: &Catalog) -> Vec<Value> {
    let all = catalog.tensors().iter().zip(catalog.ties()).enumerate();
    let record = |(index, (tensor, tie)): (usize, (&tensorferry_sdk::Tensor, tensorferry_sdk::TensorId))| {
        let first = catalog.tensor(tie).filter(|_| tie.0 as usize != index).map(|first| &first.name);
        let dtype = catalog.dtype_info(tensor.dtype).map_or("?", |info| info.name());
        json!({
            "name": tensor.name,
            "dtype": dtype,
            "shape": tensor.shape,
            "nbytes": tensor.bytes,
            "tied_to": first,
        })
    };
    all.map(record).collect()
}

/// Returns a verdict as in `ferry verify --json`, without the columns that were not compared.
fn verdict(checked: &VerifyResult) -> Value {
    let mut document = checked.json();
    document.as_object_mut().map(|document| document.remove("not_compared"));
    document
}
