//! A rank's file: the parameters that it has of the model, by their names, and what it says beside them.

use crate::args::Args;
use std::collections::BTreeSet;
use tensorferry_sdk::{Catalog, CatalogBuilder, Context, Error, Result, Source, element_count};
use tensorferry_torch_file::pickle::{Graph, Value, ValueId};
use tensorferry_torch_file::{Budget, Calls, Extent, Located, Location, ObjectFile, Storages, rebuild};

/// torch's own bound; a shape of a million dimensions is made to be slow.
const MOST_DIMENSIONS: usize = 64;
/// Modules in modules; Megatron's go to ten.
const MOST_NESTING: usize = 64;
/// More virtual stages than layers would be empty ones.
const MOST_CHUNKS: usize = 4096;
/// What a file says of itself, which is read.
const READ: [&str; 3] = ["args", "checkpoint_version", "iteration"];

/// A rank's part of the model.
#[derive(Debug, Default)]
pub(crate) struct RankFile {
    pub(crate) args: Args,
    pub(crate) version: Option<f64>,
    pub(crate) iteration: Option<i64>,
    /// One for each virtual stage.
    pub(crate) chunks: Vec<Vec<(String, Location)>>,
}

impl RankFile {
    /// The names of its parameters.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.chunks.iter().flatten().map(|(name, _)| &**name).collect()
    }
}

/// Reads the files of all ranks; their pickles are dropped as soon as they are read.
pub(crate) struct RankReader<'s> {
    source: &'s dyn Source,
    context: &'s dyn Context,
    budget: Budget,
    storages: Storages<'s>,
    /// Takes the storages. Those that are needed go from here to the real catalog.
    catalog: CatalogBuilder<'s>,
    pub(crate) found: Found,
}

/// What the files hold beside parameters.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) globals: BTreeSet<String>,
    pub(crate) calls: Calls,
    /// The state of training, by its keys.
    pub(crate) training: BTreeSet<String>,
    /// Names in the model that are no tensors, and have something to say.
    pub(crate) no_tensors: BTreeSet<String>,
    /// How many states of modules that are none of theirs.
    pub(crate) extra_states: u64,
}

impl<'s> RankReader<'s> {
    pub(crate) fn new(source: &'s dyn Source, context: &'s dyn Context) -> Self {
        let limits = context.limits();
        Self {
            source,
            context,
            budget: Budget::new(limits),
            storages: Storages::new(limits),
            catalog: CatalogBuilder::new("megatron", source, limits),
            found: Found::default(),
        }
    }

    /// Reads a rank's file.
    pub(crate) fn read(&mut self, name: &str) -> Result<RankFile> {
        self.context.check_cancelled()?;
        self.file(name).map_err(|error| error.file(name))
    }

    fn file(&mut self, name: &str) -> Result<RankFile> {
        let file = self.source.open(name)?;
        let object = ObjectFile::open(self.source, Extent::whole(self.source, file), self.context)?;
        self.found.globals.extend(object.globals().map(str::to_owned));
        self.found.calls.add(name, &object);
        let (graph, root) = (object.graph(), object.root());
        let not_megatron = || Error::malformed("not a rank's file of Megatron").expected("a dict with model");
        let mut rank = RankFile::default();
        let mut chunks: Vec<(u64, ValueId)> = Vec::new();
        for (key, value) in graph.entries(root).ok_or_else(not_megatron)? {
            let Some(key) = graph.text(key) else { continue };
            match (key, key.strip_prefix("model").map(|rest| (rest, rest.parse()))) {
                ("model", _) => chunks.push((0, value)),
                (_, Some((rest, Ok(chunk)))) if format!("{chunk}") == rest => chunks.push((chunk, value)),
                _ if !READ.contains(&key) => drop(self.found.training.insert(self.budget.name(key)?)),
                _ => {}
            }
        }
        if let Some(args) = graph.entry(root, "args") {
            rank.args = Args::read(graph, args, &mut self.budget)?;
        }
        rank.version = graph.entry(root, "checkpoint_version").and_then(|version| graph.float(version));
        rank.iteration = graph.entry(root, "iteration").and_then(|iteration| graph.int(iteration));
        chunks.sort_by_key(|(chunk, _)| *chunk);
        if chunks.is_empty()
            || chunks.len() > MOST_CHUNKS
            || chunks.iter().zip(0..).any(|((a, _), b)| *a != b)
        {
            return Err(not_megatron().expected("a dict with model, or model0, model1 and so on"));
        }
        for (_, value) in chunks {
            rank.chunks.push(self.parameters(&object, value)?);
        }
        Ok(rank)
    }

    /// The tensors in a model's nested dicts.
    fn parameters(&mut self, object: &ObjectFile, model: ValueId) -> Result<Vec<(String, Location)>> {
        let graph = object.graph();
        let entries = |value| graph.entries(value).map(Vec::into_iter);
        let root = entries(model).ok_or_else(|| Error::malformed("the model is no dict"))?;
        let mut open = vec![(String::new(), root)];
        let mut tensors = Vec::new();
        while let Some((prefix, rest)) = open.last_mut() {
            let Some((key, value)) = rest.next() else {
                open.pop();
                continue;
            };
            let key = graph.text(key).ok_or_else(|| Error::malformed("a name in the model is no text"))?;
            let name = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
            let name = self.budget.name(&name)?;
            let located = self.tensor(object, value).map_err(|error| error.tensor(&name))?;
            match (located, entries(value)) {
                _ if key.ends_with("_extra_state") => {
                    self.found.extra_states += u64::from(*graph.value(value) != Value::None);
                }
                (Some(location), _) => tensors.push((name, location)),
                (None, Some(_)) if open.len() >= MOST_NESTING => {
                    return Err(Error::limit("modules nest too deep").tensor(name).expected(MOST_NESTING));
                }
                (None, Some(inner)) => open.push((name, inner)),
                (None, None) if *graph.value(value) == Value::None => {}
                (None, None) => drop(self.found.no_tensors.insert(name)),
            }
        }
        Ok(tensors)
    }

    /// Where a tensor lies; `None`, if the value is none.
    fn tensor(&mut self, object: &ObjectFile, value: ValueId) -> Result<Option<Location>> {
        let graph: &Graph = object.graph();
        let lost = |why| Error::unsupported(format!("a tensor that cannot be read: {why}"));
        let data = rebuild::data_of_parameter(graph, value).unwrap_or(value);
        let Some(rebuilt) = rebuild::tensor(graph, data)? else { return Ok(None) };
        let location =
            match self.storages.locate(&mut self.catalog, object, &rebuilt.into_view().map_err(lost)?)? {
                Located::Lost(why) => return Err(lost(why)),
                Located::At(location) => location,
            };
        element_count(&location.shape)?;
        if location.shape.len() > MOST_DIMENSIONS {
            return Err(Error::malformed("a shape with more dimensions than torch has")
                .expected(format!("at most {MOST_DIMENSIONS}"))
                .found(location.shape.len()));
        }
        let shape = self.budget.numbers(location.shape)?;
        Ok(Some(Location { shape, ..location }))
    }

    /// The storages, by the ids that locations have; and what else was found.
    pub(crate) fn finish(self) -> Result<(Catalog, Found)> {
        Ok((self.catalog.finish()?, self.found))
    }
}
