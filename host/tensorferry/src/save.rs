//! Writing tensors that a program has: in memory, or in inputs that it has opened.

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
use tensorferry_tensors::stored::LONGEST_PIECE;

/// A tensor to be written.
#[derive(Debug, Clone)]
pub struct NewTensor {
    name: String,
    dtype: Dtype,
    shape: Vec<u64>,
    content: Content,
}

/// What a new tensor holds.
#[derive(Debug, Clone)]
enum Content {
    Bytes(SharedBytes),
    /// What another one holds, by its name.
    Of(String),
    /// Read as it is written.
    Opened(Tensor),
}

impl NewTensor {
    /// A tensor of these bytes: row-major, little-endian, as many as dtype and shape need. A vector is taken
    /// over, a slice copied.
    pub fn new(
        name: impl Into<String>,
        dtype: Dtype,
        shape: impl Into<Vec<u64>>,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        Self::shared(name, dtype, shape, bytes.into().into())
    }

    /// A tensor of bytes that somebody keeps in memory: none is copied.
    pub fn shared(
        name: impl Into<String>,
        dtype: Dtype,
        shape: impl Into<Vec<u64>>,
        bytes: SharedBytes,
    ) -> Self {
        Self { name: name.into(), dtype, shape: shape.into(), content: Content::Bytes(bytes) }
    }

    /// The tensor `first` under another name: it comes before this one, has the same dtype and shape, and its bytes are
    /// written once where the format can say so.
    pub fn tied(
        name: impl Into<String>,
        dtype: Dtype,
        shape: impl Into<Vec<u64>>,
        first: impl Into<String>,
    ) -> Self {
        Self { name: name.into(), dtype, shape: shape.into(), content: Content::Of(first.into()) }
    }

    /// A tensor of an opened input under this name. It is read as it is written, a window at a time; those that are one
    /// in the input are one again, where the format can say so.
    pub fn opened(name: impl Into<String>, tensor: &Tensor) -> Self {
        let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
        Self { name: name.into(), dtype, shape, content: Content::Opened(tensor.clone()) }
    }
}

/// How tensors are to be written; [`Registry::save`] writes them without any of these.
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
    /// In the format that the name says, and over nothing that is there already.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes this format, by its id.
    #[must_use]
    pub fn to(self, format: impl Into<String>) -> Self {
        Self { to: Some(format.into()), ..self }
    }

    /// An option of the format's writer, as `ferry formats` lists them.
    #[must_use]
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.push((key.into(), value.into()));
        self
    }

    /// An entry of the key-value metadata.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((key.into(), value.into()));
        self
    }

    /// Writes the metadata of a model too, and its state: what it holds besides tensors, among tensors of
    /// these names. What the format has no place for is a loss in the report, as in a conversion.
    #[must_use]
    pub fn state_of(self, model: &Model) -> Self {
        Self { state_of: Some(model.clone()), ..self }
    }

    /// Replaces an output that is there already.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.commit.force = force;
        self
    }

    /// Syncs the files and their folder, so that the output outlasts a power cut.
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
    /// Writes tensors into a file or folder, in the format that its name says. The output is whole or absent.
    ///
    /// # Errors
    /// Usage, for a name that says no format, names given twice, bytes of another length than dtype and shape
    /// have, or an output that is there already; whatever writing gives.
    pub fn save(
        &self,
        path: impl AsRef<Path>,
        tensors: impl IntoIterator<Item = NewTensor>,
    ) -> Result<Report> {
        self.save_with(path, tensors, &SaveOptions::new())
    }

    /// Writes tensors as `options` say.
    ///
    /// # Errors
    /// As of [`save`](Self::save); usage, for a format or option that is not there.
    pub fn save_with(
        &self,
        path: impl AsRef<Path>,
        tensors: impl IntoIterator<Item = NewTensor>,
        options: &SaveOptions,
    ) -> Result<Report> {
        // The bytes are in memory already: what bounds a hostile file does not bound them.
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
                    let none = || Error::usage("no tensor of this name comes before it").found(&first);
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
                return Err(Error::usage("two tensors have this name").tensor(name));
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
        // What was given is what is meant.
        request.input.part = Part::Whole;
        let catalog = catalog.finish()?;
        let session = self.session();
        session.install(|| tensorferry_convert::save(&request, catalog, opened, self.as_ref(), session))
    }
}

/// Adds the metadata of a model that is not given already, its tree, and what its reader could not read.
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
                let why = "one of its tensors is not saved under its name: the tensors are a flat list now";
                return catalog.loss(Loss::new(LossKind::State, "the tree of non-tensor state", why));
            };
            node = Node { class: node.class, ..Node::tensor(id) };
        }
        // Children are older than what holds them.
        node.children =
            node.children.iter().filter_map(|child| nodes.get(child.0 as usize).copied()).collect();
        nodes.push(catalog.node(node)?);
    }
    nodes.get(root.0 as usize).map_or(Ok(()), |&root| catalog.root(root))
}

/// A tensor of an opened input, as a storage that is decoded: its handle is its place in the list of all.
struct OpenedTensor(Tensor);

impl OpenedTensor {
    /// Those that are short are decoded whenever they are read, and not held.
    fn add(
        tensor: &Tensor,
        session: &Arc<Session>,
        catalog: &mut dyn CatalogSink,
        all: &mut Vec<Self>,
    ) -> Result<StorageId> {
        let len = tensor.byte_len();
        let storage = catalog.storage(Storage::encoded(all.len() as u64, len))?;
        all.push(Self(tensor.with_session(session)));
        if len == 0 || len > LONGEST_PIECE {
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

/// Strings have the lengths that they say, and are checked as they are read.
fn check_len(dtype: Dtype, shape: &[u64], len: u64) -> Result<()> {
    let info = dtype.info().ok_or_else(|| Error::usage("not a dtype that every format knows"))?;
    let expected = if info.is_variable() { len } else { info.bytes_of(element_count(shape)?)? };
    if len == expected {
        return Ok(());
    }
    let problem = Error::usage("the bytes are not as many as dtype and shape have");
    Err(problem.expected(format!("{expected} bytes")).found(format!("{len} bytes")))
}
