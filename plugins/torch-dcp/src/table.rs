//! Reads a table: one pickled `Metadata` object that contains names, chunks, and the location of
//! each chunk.

use std::collections::HashMap;
use tensorferry_sdk::{Context, Error, Result, Source};
use tensorferry_torch_file::pickle::{self, Graph, Value, ValueId};
use tensorferry_torch_file::rebuild::counts;
use tensorferry_torch_file::{Budget, Calls, Extent, TorchDtype};

/// Members of torch's layout enum. Pickles store them as calls. The path of the enum class differs
/// between torch versions.
const KNOWN_CALLS: [&str; 3] = [
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    "torch.distributed._shard.checkpoint.metadata._MEM_FORMAT_ENCODING",
];

/// Maximum number of attributes of an object in the table. The objects that torch writes have seven
/// attributes.
const MAX_ATTRIBUTES: usize = 64;

/// Maximum average number of chunks per value in the pickle. torch writes a separate object for
/// each chunk. A hostile table can contain a single chunk and a million tensors that each use that
/// chunk a million times.
const MAX_CHUNKS_PER_VALUE: usize = 4;

/// The content of a table, in its stored order.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) items: Vec<TableEntry>,
    /// Names for which the table records a location but no description.
    pub(crate) unlisted: Vec<String>,
    /// All functions and classes named in the pickle.
    pub(crate) globals: Vec<String>,
}

/// The entry for one name in the flattened state.
#[derive(Debug)]
pub(crate) struct TableEntry {
    pub(crate) name: String,
    /// The path of the name in the nested state.
    pub(crate) path: Vec<Step>,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Step {
    Index(u64),
    Key(String),
}

#[derive(Debug)]
pub(crate) enum Content {
    Tensor(Tensor),
    /// An object that is not a tensor, saved with `torch.save`.
    Object(ArchiveLocation),
}

/// A tensor in the table. The sizes count torch's elements, so the last dimension of a packed dtype
/// is half as long as in the catalog.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) dtype: &'static TorchDtype,
    pub(crate) size: Vec<u64>,
    pub(crate) chunks: Vec<Chunk>,
}

/// A part of a tensor in the table.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) offsets: Vec<u64>,
    pub(crate) sizes: Vec<u64>,
    pub(crate) stored: ArchiveLocation,
}

/// The location of a complete archive inside a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArchiveLocation {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Table {
    pub(crate) fn read(
        source: &dyn Source,
        name: &str,
        context: &dyn Context,
        calls: &mut Calls,
    ) -> Result<Self> {
        let limits = context.limits();
        let extent = Extent::whole(source, source.open(name)?);
        let bytes = extent.read(source, limits)?;
        let pickle::EvaluatedPickle { graph, root, len } = pickle::evaluate(&bytes, 0, limits)?;
        if len < bytes.len() {
            return Err(Error::malformed("there are bytes after the pickle").offset(len as u64));
        }
        drop(bytes);
        calls.add_graph(name, &graph);
        KNOWN_CALLS.into_iter().for_each(|path| calls.forget(path));
        TableReader { graph: &graph, budget: Budget::new(limits), chunks: 0 }.table(root, context)
    }
}

/// Converts the object graph of a pickle to a table.
struct TableReader<'g> {
    graph: &'g Graph,
    budget: Budget,
    /// Number of chunks read so far.
    chunks: usize,
}

/// A parsed `MetadataIndex`: a name, and the offsets of a chunk. An index without offsets refers to
/// an object.
type Index<'g> = (&'g str, Option<Vec<u64>>);

impl<'g> TableReader<'g> {
    fn table(mut self, root: ValueId, context: &dyn Context) -> Result<Table> {
        let graph = self.graph;
        let no_table =
            || Error::malformed("the pickle does not contain the table of a checkpoint").expected("Metadata");
        let table = self.state(root, "Metadata").ok_or_else(no_table)?;
        let entries = |key| graph.entries(graph.entry(table, key)?);
        let described = entries("state_dict_metadata").ok_or_else(|| missing_key("state_dict_metadata"))?;
        let mut stored =
            self.storage(&entries("storage_data").ok_or_else(|| missing_key("storage_data"))?)?;
        // A planner can store any value here. The default planner stores a dict that maps names to
        // paths.
        let mut paths: HashMap<&str, ValueId> = HashMap::new();
        for (key, path) in entries("planner_data").unwrap_or_default() {
            paths.extend(graph.text(key).map(|name| (name, path)));
        }
        let mut items = Vec::with_capacity(described.len());
        for (key, value) in described {
            context.check_cancelled()?;
            let name = graph.text(key).ok_or_else(|| unexpected_value("a name", "a string"))?;
            let content = self.content(name, value, &mut stored).map_err(|error| error.tensor(name))?;
            let path = match paths.get(name) {
                Some(&path) => self.path(path).map_err(|error| error.tensor(name))?,
                None => vec![Step::Key(self.budget.name(name)?)],
            };
            items.push(TableEntry { name: self.budget.name(name)?, path, content });
        }
        let mut unlisted = Vec::with_capacity(stored.len());
        for (name, _) in stored.into_keys() {
            unlisted.push(self.budget.name(name)?);
        }
        unlisted.sort_unstable();
        unlisted.dedup();
        let globals = graph.globals().iter().map(pickle::Global::path).collect();
        Ok(Table { items, unlisted, globals })
    }

    fn content(
        &mut self,
        name: &'g str,
        value: ValueId,
        stored: &mut HashMap<Index<'g>, ArchiveLocation>,
    ) -> Result<Content> {
        if self.graph.called(value).is_some_and(|(global, _)| &*global.name == "BytesStorageMetadata") {
            let stored = stored.remove(&(name, None));
            return stored
                .map(Content::Object)
                .ok_or_else(|| Error::malformed("the table does not record its location"));
        }
        let graph = self.graph;
        let tensor = self.state(value, "TensorStorageMetadata").ok_or_else(|| {
            unexpected_value("its description", "TensorStorageMetadata or BytesStorageMetadata")
        })?;
        let attribute = |key| graph.entry(tensor, key);
        let dtype = attribute("properties").and_then(|properties| self.dtype(properties));
        let dtype =
            dtype.ok_or_else(|| unexpected_value("its properties", "a torch dtype as the first value"))??;
        let size = self.size(attribute("size"), "size")?;
        let listed = attribute("chunks").and_then(|chunks| graph.sequence(chunks));
        let listed = listed.ok_or_else(|| unexpected_value("its chunks", "a list"))?;
        self.chunks += listed.len();
        if self.chunks > MAX_CHUNKS_PER_VALUE * (graph.len() + 1024) {
            return Err(Error::limit("the table repeats its chunks too many times"));
        }
        let mut chunks = Vec::with_capacity(listed.len());
        for &chunk in listed {
            let chunk = self
                .state(chunk, "ChunkStorageMetadata")
                .ok_or_else(|| unexpected_value("a chunk", "ChunkStorageMetadata"))?;
            let offsets = self.size(graph.entry(chunk, "offsets"), "offsets")?;
            let sizes = self.size(graph.entry(chunk, "sizes"), "sizes")?;
            if offsets.len() != size.len() || sizes.len() != size.len() {
                return Err(Error::malformed("a chunk and its tensor have different ranks")
                    .expected(format!("{} dimensions", size.len()))
                    .found(format!("offsets {offsets:?}, sizes {sizes:?}")));
            }
            let index = (name, Some(offsets));
            let found = stored.remove(&index);
            // An empty chunk means that the rank has no part of this tensor. Several empty chunks
            // may start at the end of the tensor.
            if sizes.contains(&0) {
                continue;
            }
            let offsets = index.1.unwrap_or_default();
            let stored = found.ok_or_else(|| {
                // The lookup also fails if an earlier chunk had the same offsets.
                Error::malformed("the table does not record the location of a chunk")
                    .found(format!("the chunk at {offsets:?}"))
            })?;
            chunks.push(Chunk { offsets, sizes, stored });
        }
        Ok(Content::Tensor(Tensor { dtype, size, chunks }))
    }

    /// Parses `storage_data`, which records the location of each chunk and object.
    fn storage(&mut self, entries: &[(ValueId, ValueId)]) -> Result<HashMap<Index<'g>, ArchiveLocation>> {
        let graph = self.graph;
        let mut stored = HashMap::with_capacity(entries.len());
        for &(key, value) in entries {
            let index = self
                .state(key, "MetadataIndex")
                .ok_or_else(|| unexpected_value("a key of storage_data", "MetadataIndex"))?;
            let name = graph.entry(index, "fqn").and_then(|name| graph.text(name));
            let name = name.ok_or_else(|| unexpected_value("a key of storage_data", "a name"))?;
            let offsets = match graph.entry(index, "offset").filter(|&id| *graph.value(id) != Value::None) {
                Some(offsets) => {
                    Some(self.size(Some(offsets), "offset").map_err(|error| error.tensor(name))?)
                }
                None => None,
            };
            let place = self.place(value).map_err(|error| error.tensor(name))?;
            stored.insert((name, offsets), place);
        }
        Ok(stored)
    }

    /// Parses a `_StorageInfo` object.
    fn place(&mut self, value: ValueId) -> Result<ArchiveLocation> {
        let graph = self.graph;
        let place = self
            .state(value, "_StorageInfo")
            .ok_or_else(|| unexpected_value("its location", "_StorageInfo"))?;
        let transforms = graph.entry(place, "transform_descriptors");
        let transforms = transforms.filter(|&id| *graph.value(id) != Value::None);
        if transforms.is_some_and(|id| graph.sequence(id).is_none_or(|list| !list.is_empty())) {
            return Err(Error::unsupported("an extension transformed its data when it was saved")
                .hint("save the checkpoint again without extensions"));
        }
        let file = graph.entry(place, "relative_path").and_then(|path| graph.text(path));
        let number = |key| graph.entry(place, key).and_then(|number| graph.count(number));
        match (file, number("offset"), number("length")) {
            (Some(file), Some(offset), Some(len)) => {
                Ok(ArchiveLocation { file: self.budget.name(file)?, offset, len })
            }
            _ => Err(unexpected_value("its location", "a relative path, an offset and a length")),
        }
    }

    /// Parses `TensorProperties`, whose state is a tuple that starts with the dtype. Returns `None`
    /// if the value is not a `TensorProperties` object, and an error if the dtype is unknown.
    fn dtype(&self, properties: ValueId) -> Option<Result<&'static TorchDtype>> {
        let graph = self.graph;
        let (_, call) = graph.called(properties).filter(|(global, _)| &*global.name == "TensorProperties")?;
        let dtype =
            graph.global(*graph.tuple(call.state?)?.first()?).filter(|global| &*global.module == "torch")?;
        let known = TorchDtype::named(&dtype.name);
        Some(known.ok_or_else(|| Error::unsupported("unknown dtype").found(dtype.path())))
    }

    fn size(&mut self, value: Option<ValueId>, what: &str) -> Result<Vec<u64>> {
        let size = value.and_then(|value| counts(self.graph, value));
        self.budget.numbers(size.ok_or_else(|| unexpected_value(what, "a tuple of non-negative numbers"))?)
    }

    fn path(&mut self, value: ValueId) -> Result<Vec<Step>> {
        let graph = self.graph;
        let steps = graph.sequence(value).filter(|steps| !steps.is_empty());
        let steps = steps.ok_or_else(|| unexpected_value("its path", "a tuple of keys and indices"))?;
        let step = |&step: &ValueId| match (graph.text(step), graph.count(step)) {
            (Some(key), _) => self.budget.name(key).map(Step::Key),
            (None, Some(index)) => Ok(Step::Index(index)),
            (None, None) => Err(unexpected_value("its path", "keys and indices")),
        };
        steps.iter().map(step).collect()
    }

    /// Returns the attributes of an object if it is an instance of `class`. Only the start of the
    /// module name is checked, because the name differs between torch versions.
    fn state(&self, value: ValueId, class: &str) -> Option<ValueId> {
        let (global, call) = self.graph.called(value)?;
        let is_such = &*global.name == class && global.module.starts_with("torch.distributed");
        // Limit the number of attributes, because each lookup searches all of them, and many
        // objects may share them.
        call.state.filter(|&state| is_such && self.graph.entry_count(state) <= MAX_ATTRIBUTES)
    }
}

fn missing_key(key: &str) -> Error {
    Error::malformed(format!("the table has no {key}"))
}

fn unexpected_value(what: &str, expected: &str) -> Error {
    Error::malformed(format!("{what}: unexpected value")).expected(expected)
}
