//! Writes tensors from memory or from open inputs.

#[cfg(feature = "arrow-60")]
mod records;

use crate::model::{Model, Tensor};
use crate::registry::Registry;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use tensorferry_convert::report::Report;
use tensorferry_convert::{OutputRequest, Request};
use tensorferry_core::context::session::Session;
use tensorferry_core::read::part::Part;
use tensorferry_publish::commit::CommitOptions;
use tensorferry_sdk::{
    ByteSink, CatalogBuilder, CatalogSink, Context, Dtype, EncodedStorage, Entry, Error, Loss, LossKind,
    MemorySource, Node, Result, SharedBytes, Source, Storage, StorageId, StorageRange, TensorId,
    element_count,
};
use tensorferry_tensors::stored::MAX_PIECE;

/// A tensor to be written by [`Registry::save`].
#[derive(Debug, Clone)]
pub struct NewTensor {
    name: String,
    dtype: Dtype,
    shape: Vec<u64>,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Bytes(SharedBytes),
    /// The content of the earlier tensor with this name.
    Of(String),
    /// A tensor of an open input, which is read while the output is written.
    Opened(Tensor),
}

impl NewTensor {
    /// Creates a tensor from bytes in row-major, little-endian order. The number of bytes must
    /// match the dtype and shape. Vectors are moved, and slices are copied.
    pub fn new(
        name: impl Into<String>,
        dtype: Dtype,
        shape: impl Into<Vec<u64>>,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        Self::shared(name, dtype, shape, bytes.into().into())
    }

    /// Creates a tensor from shared bytes, without a copy.
    pub fn shared(
        name: impl Into<String>,
        dtype: Dtype,
        shape: impl Into<Vec<u64>>,
        bytes: SharedBytes,
    ) -> Self {
        Self { name: name.into(), dtype, shape: shape.into(), content: Content::Bytes(bytes) }
    }

    /// Creates a tensor that shares its bytes with the tensor `first`, which must come earlier and
    /// have the same dtype and shape. The bytes are written only once if the format supports shared
    /// bytes.
    pub fn tied(
        name: impl Into<String>,
        dtype: Dtype,
        shape: impl Into<Vec<u64>>,
        first: impl Into<String>,
    ) -> Self {
        Self { name: name.into(), dtype, shape: shape.into(), content: Content::Of(first.into()) }
    }

    /// Creates a tensor from a tensor of an open input. The bytes are read window by window while
    /// the output is written. Tensors that are tied in the input remain tied if the format supports
    /// ties.
    pub fn opened(name: impl Into<String>, tensor: &Tensor) -> Self {
        let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
        Self { name: name.into(), dtype, shape, content: Content::Opened(tensor.clone()) }
    }
}

/// Options for writing tensors. [`Registry::save`] uses the defaults.
///
/// ```no_run
/// use tensorferry::{Dtype, NewTensor, Registry, SaveOptions};
///
/// # fn main() -> tensorferry::Result<()> {
/// # let registry = Registry::new();
/// let bytes = [1_f32, 2.0].map(f32::to_le_bytes).concat();
/// let options = SaveOptions::new().to("safetensors").metadata("epoch", "3").force(true);
/// registry.save_with("model.safetensors", [NewTensor::new("w", Dtype::F32, [2], bytes)], &options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SaveOptions {
    to: Option<String>,
    options: Vec<(String, String)>,
    metadata: Vec<(String, String)>,
    state_of: Option<Model>,
    commit: CommitOptions,
}

impl SaveOptions {
    /// Creates default options. The output's name determines the format, and an existing output is
    /// not replaced.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes the format with this ID.
    #[must_use]
    pub fn to(self, format: impl Into<String>) -> Self {
        Self { to: Some(format.into()), ..self }
    }

    /// Adds an output option of the format; `ferry formats` lists the options.
    #[must_use]
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.push((key.into(), value.into()));
        self
    }

    /// Adds an entry to the key-value metadata.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((key.into(), value.into()));
        self
    }

    /// Also writes a model's metadata and its non-tensor state. References to tensors in the state
    /// become references to the output's tensors with the same names. The report lists content that
    /// the format cannot store as losses.
    #[must_use]
    pub fn state_of(self, model: &Model) -> Self {
        Self { state_of: Some(model.clone()), ..self }
    }

    /// Sets whether to replace an existing output.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.commit.force = force;
        self
    }

    /// Sets whether to sync the output files and their folder to disk, so that the output survives
    /// a power failure.
    #[must_use]
    pub fn sync(mut self, sync: bool) -> Self {
        self.commit.sync = sync;
        self
    }

    fn output(&self, path: &Path) -> OutputRequest {
        OutputRequest {
            path: path.to_owned(),
            format: self.to.clone(),
            options: self.options.clone(),
            commit: self.commit,
            ..OutputRequest::default()
        }
    }
}

impl Registry {
    /// Writes tensors to a file or folder, in the format implied by the output's name. The output
    /// is complete or absent.
    ///
    /// # Errors
    /// Returns an error if the output's name does not imply a format, if the output exists, or if
    /// writing fails. Also returns an error if two tensors have the same name, or if the number of
    /// a tensor's bytes does not match its dtype and shape.
    pub fn save(
        &self,
        path: impl AsRef<Path>,
        tensors: impl IntoIterator<Item = NewTensor>,
    ) -> Result<Report> {
        self.save_with(path, tensors, &SaveOptions::new())
    }

    /// Writes tensors with `options`.
    ///
    /// # Errors
    /// Returns an error if the format or an option does not exist, or for any reason that
    /// [`save`](Self::save) lists.
    pub fn save_with(
        &self,
        path: impl AsRef<Path>,
        tensors: impl IntoIterator<Item = NewTensor>,
        options: &SaveOptions,
    ) -> Result<Report> {
        // The tensors' bytes are already in memory, so the limits for hostile files do not apply.
        let mut limits = self.session().limits.clone();
        limits.header_bytes = u64::MAX;
        limits.shared_bytes = u64::MAX;
        let none = MemorySource::new(Entry::Folder, Default::default());
        let mut catalog = CatalogBuilder::new("memory", &none, &limits);
        let mut known: HashMap<String, (StorageId, u64)> = HashMap::new();
        let (mut opened, mut first, mut ids) = (Vec::new(), HashMap::new(), HashMap::new());
        for NewTensor { name, dtype, shape, content } in tensors {
            let attributes = match &content {
                Content::Opened(tensor) => tensor.attributes().clone(),
                _ => BTreeMap::new(),
            };
            let (storage, len) = match content {
                Content::Bytes(bytes) => {
                    let len = bytes.len() as u64;
                    (catalog.storage(Storage::shared(bytes))?, len)
                }
                Content::Of(first) => {
                    let none = || {
                        Error::usage("no earlier tensor has the name that the tied tensor refers to")
                            .found(&first)
                    };
                    *known.get(&first).ok_or_else(|| none().tensor(&name))?
                }
                Content::Opened(tensor) => {
                    let storage = match first.get(&tensor.identity()) {
                        Some(&storage) => storage,
                        None => OpenedTensor::add(&tensor, self.session(), &mut catalog, &mut opened)?,
                    };
                    first.insert(tensor.identity(), storage);
                    (storage, tensor.byte_len())
                }
            };
            check_len(dtype, &shape, len).map_err(|error| error.tensor(&name))?;
            if known.insert(name.clone(), (storage, len)).is_some() {
                return Err(Error::usage("two tensors have the same name").tensor(name));
            }
            let id = catalog.tensor(&name, dtype, &shape, storage, 0)?;
            for (key, value) in attributes {
                catalog.attribute(id, &key, value)?;
            }
            ids.insert(name, id);
        }
        for (key, value) in &options.metadata {
            catalog.metadata_text(key, value)?;
        }
        if let Some(model) = &options.state_of {
            let is_given = |key: &str| options.metadata.iter().any(|(given, _)| given == key);
            add_state(model, &ids, &is_given, &mut catalog)?;
        }
        let mut request = Request { output: options.output(path.as_ref()), ..Request::default() };
        // Writes the whole catalog, because the caller has already selected the tensors.
        request.input.part = Part::Whole;
        let catalog = catalog.finish()?;
        let session = self.session();
        session.install(|| tensorferry_convert::save(&request, catalog, opened, self.as_ref(), session))
    }
}

/// Adds the model's tree, the losses that its reader reported, and its metadata entries whose keys
/// are not set yet.
fn add_state(
    model: &Model,
    ids: &HashMap<String, TensorId>,
    is_given: &dyn Fn(&str) -> bool,
    catalog: &mut dyn CatalogSink,
) -> Result<()> {
    let from = model.catalog();
    for (key, value) in from.metadata().iter().filter(|(key, _)| !is_given(key)) {
        catalog.metadata(key, value.clone())?;
    }
    model.losses().iter().try_for_each(|loss| catalog.loss(loss.clone()))?;
    catalog.origin(from.origin())?;
    let Some(root) = from.tree().root() else { return Ok(()) };
    let mut nodes = Vec::with_capacity(from.tree().len());
    for node in from.tree().nodes() {
        let mut node = node.clone();
        if let Some(old) = node.as_tensor() {
            let name = from.tensor(old).map(|tensor| &tensor.name);
            let Some(&id) = name.and_then(|name| ids.get(name)) else {
                let why = "a tensor of the tree is missing from the output, so the tensors are a flat list";
                return catalog.loss(Loss::new(LossKind::State, "the tree of non-tensor state", why));
            };
            node = Node { class: node.class, ..Node::tensor(id) };
        }
        // In the list of nodes, children come before their parents.
        node.children =
            node.children.iter().filter_map(|child| nodes.get(child.0 as usize).copied()).collect();
        nodes.push(catalog.node(node)?);
    }
    nodes.get(root.0 as usize).map_or(Ok(()), |&root| catalog.root(root))
}

/// Represents a tensor of an open input as an encoded storage. The storage's handle is the tensor's
/// index in the list of all tensors from open inputs.
struct OpenedTensor(Tensor);

impl OpenedTensor {
    /// Adds a storage for the tensor to `catalog`. Short tensors are decoded on each read instead
    /// of being cached.
    fn add(
        tensor: &Tensor,
        session: &Arc<Session>,
        catalog: &mut dyn CatalogSink,
        all: &mut Vec<Self>,
    ) -> Result<StorageId> {
        let len = tensor.byte_len();
        let storage = catalog.storage(Storage::encoded(all.len() as u64, len))?;
        all.push(Self(tensor.with_session(session)));
        if len == 0 || len > MAX_PIECE {
            return Ok(storage);
        }
        catalog.storage(Storage::joined([StorageRange { storage, offset: 0, len }]))
    }
}

impl EncodedStorage for OpenedTensor {
    fn decode(&self, _: &dyn Source, output: &mut dyn ByteSink, _: &dyn Context) -> Result<()> {
        self.0.each_window(|window| output.write(window))
    }
}

/// Checks the length of a tensor's bytes. Tensors of strings are checked when they are read,
/// because each string contains its length.
fn check_len(dtype: Dtype, shape: &[u64], len: u64) -> Result<()> {
    let info = dtype.info().ok_or_else(|| Error::usage("the dtype is specific to one format"))?;
    let expected = if info.is_variable() { len } else { info.bytes_of(element_count(shape)?)? };
    if len == expected {
        return Ok(());
    }
    let problem = Error::usage("the number of bytes does not match the dtype and shape");
    Err(problem.expected(format!("{expected} bytes")).found(format!("{len} bytes")))
}
