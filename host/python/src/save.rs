//! Writes arrays and Arrow streams.

use crate::arguments::OutputArguments;
use crate::engine::Engine;
use crate::errors::OrRaise;
use crate::memory::Readable;
use crate::model::{Model, Tensor};
use crate::{arrow, objects, work};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::collections::{BTreeMap, HashMap};
use tensorferry::{Dtype, Error, NewTensor, Result};

/// An array: a tensor of an opened input, bytes with their dtype and shape, or an object that
/// exports its memory with `DLPack`.
#[derive(FromPyObject)]
enum Array<'py> {
    Opened(Bound<'py, Tensor>),
    Bytes(Bound<'py, PyAny>, String, Vec<u64>),
    Lent(Bound<'py, PyAny>),
}

/// The content to write.
enum Content {
    Opened(tensorferry::Tensor),
    Memory(Readable),
}

impl Content {
    fn of(name: &str, array: &Array<'_>) -> PyResult<Self> {
        Ok(match array {
            Array::Opened(tensor) => {
                let (py, tensor) = (tensor.py(), tensor.get().tensor());
                let tensor = tensor.and_then(|tensor| known(name, tensor.dtype_name()).map(|_| tensor));
                Self::Opened(tensor.or_raise(py)?)
            }
            Array::Bytes(bytes, dtype, shape) => {
                let dtype = known(name, dtype).or_raise(bytes.py())?;
                Self::Memory(Readable::bytes(bytes, dtype, shape.clone())?)
            }
            Array::Lent(array) => Self::Memory(Readable::lent(array)?),
        })
    }
}

/// Returns the dtype for a name, if all formats share that dtype.
fn known(name: &str, dtype: &str) -> Result<Dtype> {
    Dtype::named(dtype).ok_or_else(|| {
        let problem = Error::unsupported(format!("only the tensor's own format has the dtype {dtype}"));
        problem.tensor(name).hint("use tensorferry.convert")
    })
}

#[pymethods]
impl Engine {
    /// Writes arrays under their names. Arrays that share memory become tied tensors. Tied tensors
    /// of an opened input stay tied, and the input is read while the output is written. If `model`
    /// is set, its metadata and state are written too.
    #[pyo3(signature = (arrays, output, metadata, model, progress))]
    fn save<'py>(
        &self,
        py: Python<'py>,
        arrays: &Bound<'py, PyList>,
        output: OutputArguments,
        metadata: BTreeMap<String, String>,
        model: Option<&Bound<'py, Model>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = model.map(|model| model.get().opened().or_raise(py)).transpose()?;
        let mut given: Vec<(String, Content)> = Vec::with_capacity(arrays.len());
        for item in arrays {
            let (name, array): (String, Array<'_>) = item.extract()?;
            let content = Content::of(&name, &array)?;
            given.push((name, content));
        }
        let registry = self.for_a_call();
        let report = work::run(py, registry.session(), progress.as_ref(), || {
            let mut first: HashMap<_, String> = HashMap::new();
            let tensors = given.into_iter().map(|(name, content)| {
                let array = match content {
                    Content::Opened(tensor) => return NewTensor::opened(name, &tensor),
                    Content::Memory(array) => array,
                };
                let (dtype, shape) = (array.dtype, array.shape.clone());
                if let Some(first) = first.get(&array.identity()) {
                    return NewTensor::tied(name, dtype, shape, first.clone());
                }
                // Memory of zero bytes may have any address, so it does not identify a tied tensor.
                if !shape.contains(&0) {
                    first.insert(array.identity(), name.clone());
                }
                NewTensor::shared(name, dtype, shape, array.into_bytes())
            });
            let options = output.save_options(metadata);
            let options = match &model {
                Some(model) => options.state_of(model),
                None => options,
            };
            registry.save_with(&output.path, tensors, &options)
        })?;
        objects::of_json(py, &report.json())
    }

    /// Writes the records of an object that has `__arrow_c_stream__`.
    #[pyo3(signature = (stream, output, progress))]
    fn write<'py>(
        &self,
        py: Python<'py>,
        stream: &Bound<'py, PyAny>,
        output: OutputArguments,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batches = arrow::stream_of(stream)?;
        let registry = self.for_a_call();
        let report = work::run(py, registry.session(), progress.as_ref(), || {
            registry.save_records(&output.path, batches, &output.save_options(BTreeMap::new()))
        })?;
        objects::of_json(py, &report.json())
    }
}
