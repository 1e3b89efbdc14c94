//! Records as Arrow's C streams.

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

/// An opened input of records, with steps on them.
#[pyclass(frozen, module = "tensorferry._native")]
pub(crate) struct Scan {
    scan: tensorferry::Scan,
    /// Of what its streams give.
    schema: SchemaRef,
    /// Where the columns stand after the steps, if they are to stand in another order.
    order: Option<Vec<usize>>,
    error: Arc<Mutex<Option<Error>>>,
}

#[pymethods]
impl Engine {
    /// Opens an input of records: path, format, part (a split's name), options; with steps on it, and then these of the
    /// columns in this order. `group`: only some files of it, by their folder and their names in it, with the file of
    /// the schema that they are read with. `losses`: which of them are errors.
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
    /// The format's id.
    fn format(&self) -> String {
        self.scan.format().description.id.clone()
    }

    /// The columns' names and types.
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

    /// The folder of its files, as a path or URL.
    fn folder(&self) -> PathBuf {
        self.scan.folder().to_owned()
    }

    /// What it is read in, whatever the steps: the file, where in it, how many bytes, how many records where that is
    /// known.
    fn stretches(&self) -> Vec<(String, u64, u64, Option<u64>)> {
        let stretches = self.scan.stretches().iter();
        stretches.map(|split| (split.file.clone(), split.offset, split.bytes, split.records)).collect()
    }

    /// Whether stretches can go through the steps each by itself.
    fn is_row_wise(&self) -> bool {
        self.scan.is_row_wise()
    }

    /// The schema before the steps as the file that its reader takes, where it does.
    fn schema_file(&self) -> Option<String> {
        self.scan.schema_file().map(|file| file.to_string())
    }

    /// The stretches from number `start` on, before number `end`, through the same steps.
    fn narrowed(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<Self> {
        let scan = self.scan.narrowed(start..end).or_raise(py)?;
        Ok(Self { scan, schema: self.schema.clone(), order: self.order.clone(), error: self.error.clone() })
    }

    fn losses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let losses = self.scan.losses().or_raise(py)?;
        let records: Vec<_> = losses.iter().map(LossRecord::of).collect();
        objects::of_json(py, &serde_json::json!(records))
    }

    /// What the latest stream that failed met.
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.as_ref().map(|error| exception(py, error).into_value(py).into_any())
    }

    /// A new stream of all records, or of one split.
    fn stream<'py>(&self, py: Python<'py>, split: Option<usize>) -> PyResult<Bound<'py, PyCapsule>> {
        let batches: Box<dyn RecordBatchReader + Send> = match split {
            None => Box::new(self.scan.batches()),
            Some(split) => Box::new(self.scan.batches_of(split..split.saturating_add(1))),
        };
        let (order, error) = (self.order.clone(), self.error.clone());
        // The error is kept: whoever pulls the batches raises one of its own.
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

/// Where columns stand that were selected by these names, of columns or of fields in them, in the order of the names.
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
