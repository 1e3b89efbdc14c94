//! Records as Arrow C streams.

use crate::arguments::{InputArguments, LossArguments};
use crate::engine::Engine;
use crate::errors::{OrRaise, exception};
use crate::{arrow, objects, work};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry::request::FileGroup;
use tensorferry::{Error, LossRecord};
use tensorferry_sdk::arrow_array::{RecordBatchIterator, RecordBatchReader};
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{from_stream, stream_error, type_text};

/// An opened dataset with steps.
#[pyclass(frozen, module = "tensorferry._native")]
pub(crate) struct Scan {
    scan: tensorferry::Scan,
    /// The schema of the streams.
    schema: SchemaRef,
    /// The indices of the selected columns after the steps, or `None` if the columns are not
    /// reordered.
    order: Option<Vec<usize>>,
    error: Arc<Mutex<Option<Error>>>,
}

#[pymethods]
impl Engine {
    /// Opens a dataset, applies steps, and then puts the columns in the given order. `group`
    /// selects some files: it contains the folder, the file names in the folder, and the schema
    /// file to read them with. `losses` determines which losses are errors.
    #[pyo3(signature = (input, steps, columns, losses, group = None))]
    fn scan(
        &self,
        py: Python<'_>,
        input: InputArguments,
        steps: Vec<String>,
        columns: Option<Vec<String>>,
        losses: LossArguments,
        group: Option<(PathBuf, Vec<String>, Option<PathBuf>)>,
    ) -> PyResult<Scan> {
        let registry = self.for_input(input.follow_links);
        let group =
            group.map(|(folder, files, schema)| FileGroup { dataset: String::new(), folder, files, schema });
        let scan = work::run(py, registry.session(), None, || {
            let options = input.open_options().strict(losses.0.strict);
            let options = losses.0.allowed.into_iter().fold(options, |options, kind| options.allow(kind));
            let scan = match &group {
                None => registry.scan_with(&input.path, &options),
                Some(group) => registry.scan_group(group, &options),
            };
            scan?.steps(steps)
        })?;
        let mut schema = scan.batches().schema();
        let order = columns.map(|columns| order(&schema, &columns));
        if let Some(order) = &order {
            schema = Arc::new(schema.project(order).map_err(from_stream).or_raise(py)?);
        }
        Ok(Scan { scan, schema, order, error: Arc::default() })
    }
}

#[pymethods]
impl Scan {
    /// Returns the id of the format.
    fn format(&self) -> String {
        self.scan.format().description.id.clone()
    }

    /// Returns the names and types of the columns.
    fn columns(&self) -> Vec<(String, String)> {
        let fields = self.schema.fields().iter();
        fields.map(|field| (field.name().clone(), type_text(field.data_type()))).collect()
    }

    fn splits(&self) -> usize {
        self.scan.splits()
    }

    fn known_records(&self) -> Option<u64> {
        self.scan.known_records()
    }

    /// Returns the folder of the files, as a path or URL.
    fn folder(&self) -> PathBuf {
        self.scan.folder().to_owned()
    }

    /// Returns the stretches into which the reader divides the input, regardless of the steps. Each
    /// stretch has a file, an offset, a number of bytes, and the number of records if it is known.
    fn stretches(&self) -> Vec<(String, u64, u64, Option<u64>)> {
        let stretches = self.scan.stretches().iter();
        stretches.map(|split| (split.file.clone(), split.offset, split.bytes, split.records)).collect()
    }

    /// Reports whether the steps can be applied to each stretch independently.
    fn is_row_wise(&self) -> bool {
        self.scan.is_row_wise()
    }

    /// Returns the input's schema, before any steps, as a schema file, if the reader accepts a
    /// schema file.
    fn schema_file(&self) -> Option<String> {
        self.scan.schema_file().map(|file| file.to_string())
    }

    /// Returns a scan of the stretches from `start` to before `end`, with the same steps.
    fn narrowed(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<Self> {
        let scan = self.scan.narrowed(start..end).or_raise(py)?;
        Ok(Self { scan, schema: self.schema.clone(), order: self.order.clone(), error: self.error.clone() })
    }

    fn losses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let losses = self.scan.losses().or_raise(py)?;
        let records: Vec<_> = losses.iter().map(LossRecord::of).collect();
        objects::of_json(py, &serde_json::json!(records))
    }

    /// Returns the error of the latest stream that failed.
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.as_ref().map(|error| exception(py, error).into_value(py).into_any())
    }

    /// Returns a new stream of all records, or of one split.
    fn stream<'py>(&self, py: Python<'py>, split: Option<usize>) -> PyResult<Bound<'py, PyCapsule>> {
        let batches: Box<dyn RecordBatchReader + Send> = match split {
            None => Box::new(self.scan.batches()),
            Some(split) => Box::new(self.scan.batches_of(split..split.saturating_add(1))),
        };
        let (order, error) = (self.order.clone(), self.error.clone());
        // Stores the error, because the consumer of the batches raises its own exception.
        let noting = batches.map(move |batch| {
            let batch = batch
                .and_then(|batch| order.as_ref().map_or(Ok(batch.clone()), |order| batch.project(order)));
            batch.map_err(|of_stream| {
                let of_stream = from_stream(of_stream);
                *error.lock().unwrap_or_else(PoisonError::into_inner) = Some(of_stream.clone());
                stream_error(of_stream)
            })
        });
        arrow::stream(py, Box::new(RecordBatchIterator::new(noting, self.schema.clone())))
    }

    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema(py, &self.schema)
    }
}

/// Returns the indices of the selected columns, in the order of the names. A name selects a column
/// or a field in it.
fn order(schema: &SchemaRef, names: &[String]) -> Vec<usize> {
    let is_in = |name: &str, column: &str| {
        name.strip_prefix(column).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let fields = schema.fields();
    let place = |name: &String| {
        let exact = fields.iter().position(|field| field.name() == name);
        exact.or_else(|| fields.iter().position(|field| is_in(name, field.name())))
    };
    let mut order = Vec::with_capacity(fields.len());
    for place in names.iter().filter_map(place) {
        if !order.contains(&place) {
            order.push(place);
        }
    }
    order
}
