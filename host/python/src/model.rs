//! Opened inputs and their tensors as bytes. `_tensor.py` converts them to the arrays of
//! frameworks.

use crate::arguments::InputArguments;
use crate::dlpack::{self, Aligned};
use crate::engine::Engine;
use crate::errors::OrRaise;
use crate::mapping::Mapping;
use crate::memory::{Writable, new_bytes};
use crate::{objects, work};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList};
use std::sync::{Arc, PoisonError, RwLock};
use tensorferry::values::AxisSlice;
use tensorferry::{Error, LossRecord, Result};

/// An opened input, until it is closed.
#[pyclass(frozen, module = "tensorferry._native")]
pub(crate) struct Model(Arc<Opened>);

struct Opened(RwLock<Option<tensorferry::Model>>);

impl Opened {
    fn get(&self) -> Result<tensorferry::Model> {
        let model = self.0.read().unwrap_or_else(PoisonError::into_inner);
        model.clone().ok_or_else(|| {
            Error::usage("the model is closed").hint("read tensors before closing it, or open it again")
        })
    }
}

#[pymethods]
impl Engine {
    /// Opens an input. If `checksums` is true, whole tensors are checked against their checksums.
    fn open(&self, py: Python<'_>, input: InputArguments, checksums: bool) -> PyResult<Model> {
        let registry = self.for_input(input.follow_links);
        let options = input.open_options();
        let options = if checksums { options } else { options.unchecked() };
        let model = work::run(py, registry.session(), None, || registry.open_with(&input.path, &options))?;
        Ok(Model(Arc::new(Opened(RwLock::new(Some(model))))))
    }
}

impl Model {
    /// Returns the opened input, or an error if it is closed.
    pub(crate) fn opened(&self) -> Result<tensorferry::Model> {
        self.0.get()
    }
}

#[pymethods]
impl Model {
    /// Closes the files. Tensors of the model cannot be read afterwards.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.0.write().unwrap_or_else(PoisonError::into_inner).take()));
    }

    fn is_closed(&self) -> bool {
        self.0.get().is_err()
    }

    /// Returns the id of the format.
    fn format(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.0.get().or_raise(py)?.format().description.id.clone())
    }

    /// Returns all tensors, in the order of the input.
    fn tensors(&self, py: Python<'_>) -> PyResult<Vec<Tensor>> {
        let model = self.0.get().or_raise(py)?;
        Ok(model.tensors().map(|tensor| Tensor::of(&self.0, tensor.name(), &tensor)).collect())
    }

    /// Returns the tensor with this name. The error for an unknown name suggests a similar one.
    fn tensor(&self, py: Python<'_>, name: &str) -> PyResult<Tensor> {
        let tensor = self.0.get().and_then(|model| model.tensor(name)).or_raise(py)?;
        Ok(Tensor::of(&self.0, name, &tensor))
    }

    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in self.0.get().or_raise(py)?.metadata() {
            dict.set_item(key, objects::of_value(py, value)?)?;
        }
        Ok(dict)
    }

    /// Returns the input's tree, with `tensor(name)` in place of each tensor, or `None` if the
    /// input has no tree.
    fn state<'py>(&self, py: Python<'py>, tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let model = self.0.get().or_raise(py)?;
        let (catalog, tree) = (model.catalog(), model.catalog().tree());
        let Some(root) = tree.root() else { return Ok(py.None().into_bound(py)) };
        let nodes = tree.nodes().get(..=root.0 as usize).unwrap_or_default();
        objects::of_nodes(py, nodes, &|node| {
            let found = node.as_tensor().and_then(|id| catalog.tensors().get(id.0 as usize));
            found.map_or_else(|| Ok(py.None().into_bound(py)), |found| tensor.call1((&*found.name,)))
        })
    }

    /// Returns the content of the input that the model does not represent.
    fn losses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let model = self.0.get().or_raise(py)?;
        let records: Vec<_> = model.losses().iter().map(LossRecord::of).collect();
        objects::of_json(py, &serde_json::json!(records))
    }

    /// Returns the functions and classes that loading the pickle would have called.
    fn globals(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.0.get().or_raise(py)?.catalog().globals().to_vec())
    }

    /// Returns, for each tied tensor, its name and the name of the tensor that it repeats.
    fn ties(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let model = self.0.get().or_raise(py)?;
        let catalog = model.catalog();
        let names = |index: usize| catalog.tensors().get(index).map(|tensor| tensor.name.clone());
        let ties = catalog.ties().into_iter().enumerate().filter(|(index, first)| *index != first.0 as usize);
        Ok(ties.filter_map(|(index, first)| Some((names(index)?, names(first.0 as usize)?))).collect())
    }

    fn check_unchanged(&self, py: Python<'_>) -> PyResult<()> {
        let model = self.0.get().or_raise(py)?;
        py.detach(|| model.check_unchanged()).or_raise(py)
    }

    /// Returns the statistics of all tensors, or of those that a glob matches, by name.
    #[pyo3(signature = (glob, histogram))]
    fn stats<'py>(
        &self,
        py: Python<'py>,
        glob: Option<String>,
        histogram: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.0.get().or_raise(py)?;
        let session = Arc::new(model.session().with_own_progress());
        let model = model.with_session(session.clone());
        let found = work::run(py, &session, None, || {
            let found = model.statistics(glob.as_slice(), histogram)?;
            let tensors: Vec<_> = found.tensors.iter().map(|tensor| (&tensor.name, tensor.json())).collect();
            Ok(serde_json::json!(tensors))
        })?;
        objects::of_json(py, &found)
    }

    /// Reads whole tensors into memory on all threads. `parts` contains the name of each tensor and
    /// the memory for it.
    fn read_many(&self, py: Python<'_>, parts: &Bound<'_, PyList>) -> PyResult<()> {
        let model = self.0.get().or_raise(py)?;
        let mut targets = Vec::with_capacity(parts.len());
        let mut len = 0;
        for part in parts {
            let (name, memory): (String, Bound<'_, PyAny>) = part.extract()?;
            let (tensor, memory) = (model.tensor(&name).or_raise(py)?, Writable::of(&memory)?);
            len += tensor.byte_len();
            targets.push((tensor, memory));
        }
        reading(py, &model, len, |model| {
            model.read_many(targets.iter_mut().map(|(tensor, memory)| (&*tensor, memory.bytes())))
        })
    }
}

/// A tensor of an opened input.
#[pyclass(frozen, module = "tensorferry._native")]
pub(crate) struct Tensor {
    model: Arc<Opened>,
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    dtype: String,
    #[pyo3(get)]
    shape: Vec<u64>,
    #[pyo3(get)]
    nbytes: u64,
}

impl Tensor {
    fn of(model: &Arc<Opened>, name: &str, tensor: &tensorferry::Tensor) -> Self {
        Self {
            model: model.clone(),
            name: name.to_owned(),
            dtype: tensor.dtype_name().to_owned(),
            shape: tensor.shape().to_vec(),
            nbytes: tensor.byte_len(),
        }
    }

    /// Returns the corresponding tensor of the `tensorferry` crate.
    pub(crate) fn tensor(&self) -> Result<tensorferry::Tensor> {
        self.model.get()?.tensor(&self.name)
    }

    fn fill(&self, py: Python<'_>, part: &Part, buffer: &mut [u8]) -> PyResult<()> {
        let model = self.model.get().or_raise(py)?;
        reading(py, &model, buffer.len() as u64, |model| {
            let tensor = model.tensor(&self.name)?;
            match part {
                Some((origin, shape, steps)) if steps.iter().all(|step| *step == 1) => {
                    tensor.read_region_into(origin, shape, buffer)
                }
                Some((origin, shape, steps)) => {
                    let axes = origin.iter().zip(steps).zip(shape);
                    let axes = axes.map(|((&start, &step), &len)| AxisSlice { start, step, len });
                    tensor.read_slice_into(&axes.collect::<Vec<_>>(), buffer)
                }
                None => tensor.read_into(buffer),
            }
        })
    }
}

/// The start, length and step of a slice in each dimension; `None` for the whole tensor.
type Part = Option<(Vec<u64>, Vec<u64>, Vec<i64>)>;

/// The maximum number of bytes in a read that is too short to be interrupted with Ctrl-C.
const SHORT: u64 = 16 << 20;

/// Reads `len` bytes of a model. A long read has its own session, so that it can be cancelled.
fn reading<T: Send>(
    py: Python<'_>,
    model: &tensorferry::Model,
    len: u64,
    read: impl FnOnce(&tensorferry::Model) -> Result<T> + Send,
) -> PyResult<T> {
    if len <= SHORT {
        return py.detach(|| read(model)).or_raise(py);
    }
    let session = Arc::new(model.session().with_own_progress());
    let model = model.with_session(session.clone());
    work::run(py, &session, None, || read(&model))
}

fn part_len(tensor: &tensorferry::Tensor, part: &Part) -> Result<usize> {
    let len = match part {
        // A slice has as many bytes as a contiguous region of the same shape.
        Some((_, shape, _)) => tensor.region_len(&vec![0; shape.len()], shape)?,
        None => tensor.byte_len(),
    };
    usize::try_from(len)
        .map_err(|_| Error::limit("the tensor is too large for memory").tensor(tensor.name()).found(len))
}

#[pymethods]
impl Tensor {
    /// Returns the tensor's attributes from the input.
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in self.tensor().or_raise(py)?.attributes() {
            dict.set_item(key, objects::of_value(py, value)?)?;
        }
        Ok(dict)
    }

    /// Returns the number of bytes of a part, in row-major order.
    fn part_len(&self, py: Python<'_>, part: Part) -> PyResult<usize> {
        self.tensor().and_then(|tensor| part_len(&tensor, &part)).or_raise(py)
    }

    /// Reads a part into memory of the same length.
    fn read_into(&self, py: Python<'_>, memory: &Bound<'_, PyAny>, part: Part) -> PyResult<()> {
        let mut memory = Writable::of(memory)?;
        self.fill(py, &part, memory.bytes())
    }

    fn read<'py>(&self, py: Python<'py>, part: Part) -> PyResult<Bound<'py, PyBytes>> {
        let tensor = self.tensor().or_raise(py)?;
        let len = part_len(&tensor, &part).or_raise(py)?;
        new_bytes(py, len, |buffer| self.fill(py, &part, buffer))
    }

    /// Returns a copy of a part as a `DLPack` capsule.
    fn dlpack<'py>(
        &self,
        py: Python<'py>,
        part: Part,
        shape: Vec<u64>,
        versioned: bool,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let tensor = self.tensor().or_raise(py)?;
        let len = part_len(&tensor, &part).or_raise(py)?;
        let mut memory = Aligned::new(len).ok_or_else(|| PyMemoryError::new_err(format!("{len} bytes")))?;
        self.fill(py, &part, memory.bytes(len))?;
        dlpack::capsule(py, memory, tensor.dtype(), &shape, versioned)
    }

    /// Maps the bytes of the tensor in its file.
    fn map(&self, py: Python<'_>) -> PyResult<Mapping> {
        let tensor = self.tensor().or_raise(py)?;
        py.detach(|| Mapping::new(&tensor)).or_raise(py)
    }
}
