//! Records as Arrow's C streams.

use crate::arguments::InputArguments;
use crate::arrow;
use crate::engine::Engine;
use crate::errors::{OrRaise, exception};
use crate::objects;
use crate::work;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry::Error;
use tensorferry::engine::context::loss::LossRecord;
use tensorferry_sdk::arrow_array::{RecordBatch, RecordBatchReader};
use tensorferry_sdk::arrow_schema::{ArrowError, SchemaRef};
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
    /// columns in this order.
    #[pyo3(signature = (input, steps, columns))]
    fn scan(
        &self,
        py: Python<'_>,
        input: InputArguments,
        steps: Vec<String>,
        columns: Option<Vec<String>>,
    ) -> PyResult<Scan> {
        let registry = self.for_a_call();
        let scan = work::run(py, registry.session(), None, || {
            registry.scan_with(&input.path, &input.open_options())?.steps(steps)
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
        arrow::stream(
            py,
            Box::new(Noting {
                batches,
                schema: self.schema.clone(),
                order: self.order.clone(),
                error: self.error.clone(),
            }),
        )
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

/// Batches in the order that was asked for, whose error is kept: whoever pulls them raises one of its own.
struct Noting {
    batches: Box<dyn RecordBatchReader + Send>,
    schema: SchemaRef,
    order: Option<Vec<usize>>,
    error: Arc<Mutex<Option<Error>>>,
}

impl Iterator for Noting {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?.and_then(|batch| match &self.order {
            Some(order) => batch.project(order),
            None => Ok(batch),
        });
        Some(batch.map_err(|error| {
            let error = from_stream(error);
            *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
            stream_error(error)
        }))
    }
}

impl RecordBatchReader for Noting {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
