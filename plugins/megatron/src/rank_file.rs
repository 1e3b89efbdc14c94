//! Reads a rank's file, which contains the parameters, their names, the arguments and other values.

use crate::args::Args;
use std::collections::BTreeSet;
use tensorferry_sdk::{Catalog, CatalogBuilder, Context, Error, Result, Source, element_count};
use tensorferry_torch_file::pickle::{Graph, Value, ValueId};
use tensorferry_torch_file::{Budget, Calls, Extent, Location, ObjectFile, Storages, ViewLocation, rebuild};

/// Maximum number of dimensions of a tensor, as in torch. The limit avoids slow processing of
/// shapes with a million dimensions.
const MAX_DIMENSIONS: usize = 64;
/// Maximum depth of nested modules. Megatron's models have at most ten levels.
const MAX_NESTING: usize = 64;
/// Maximum number of virtual stages. Each stage needs at least one layer, so real models have fewer
/// stages.
const MAX_CHUNKS: usize = 4096;
/// Keys that are read in addition to the model.
const READ: [&str; 3] = ["args", "checkpoint_version", "iteration"];

/// A rank's part of the model.
#[derive(Debug, Default)]
pub(crate) struct RankFile {
    pub(crate) args: Args,
    pub(crate) version: Option<f64>,
    pub(crate) iteration: Option<i64>,
    /// For each virtual stage, the names and locations of its parameters.
    pub(crate) chunks: Vec<Vec<(String, Location)>>,
}

impl RankFile {
    /// Returns the names of the parameters.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.chunks.iter().flatten().map(|(name, _)| &**name).collect()
    }
}

/// Reader for the files of all ranks, which drops a file's pickle as soon as the file is read.
pub(crate) struct RankReader<'s> {
    source: &'s dyn Source,
    context: &'s dyn Context,
    budget: Budget,
    storages: Storages<'s>,
    /// A temporary catalog of the storages in all files. Only storages that are needed are copied
    /// to the output catalog.
    catalog: CatalogBuilder<'s>,
    pub(crate) found: OtherContent,
}

/// Content of the files other than parameters.
#[derive(Debug, Default)]
pub(crate) struct OtherContent {
    pub(crate) globals: BTreeSet<String>,
    pub(crate) calls: Calls,
    /// Keys of values that are training state.
    pub(crate) training: BTreeSet<String>,
    /// Names of values in the model that are neither tensors nor `None`.
    pub(crate) no_tensors: BTreeSet<String>,
    /// Number of extra states of modules that are not `None`.
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
            found: OtherContent::default(),
        }
    }

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
        let not_megatron = || Error::malformed("not a Megatron rank file").expected("a dict with model");
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
        if chunks.is_empty() || chunks.len() > MAX_CHUNKS || chunks.iter().zip(0..).any(|((a, _), b)| *a != b)
        {
            return Err(not_megatron().expected("a dict with model, or model0, model1 and so on"));
        }
        for (_, value) in chunks {
            rank.chunks.push(self.parameters(&object, value)?);
        }
        Ok(rank)
    }

    /// Returns the names and locations of the tensors in a model's nested dicts.
    fn parameters(&mut self, object: &ObjectFile, model: ValueId) -> Result<Vec<(String, Location)>> {
        let graph = object.graph();
        let entries = |value| graph.entries(value).map(Vec::into_iter);
        let root = entries(model).ok_or_else(|| Error::malformed("the model is not a dict"))?;
        let mut open = vec![(String::new(), root)];
        let mut tensors = Vec::new();
        while let Some((prefix, rest)) = open.last_mut() {
            let Some((key, value)) = rest.next() else {
                open.pop();
                continue;
            };
            let key =
                graph.text(key).ok_or_else(|| Error::malformed("a name in the model is not a string"))?;
            let name = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
            let name = self.budget.name(&name)?;
            let located = self.tensor(object, value).map_err(|error| error.tensor(&name))?;
            match (located, entries(value)) {
                _ if key.ends_with("_extra_state") => {
                    self.found.extra_states += u64::from(*graph.value(value) != Value::None);
                }
                (Some(location), _) => tensors.push((name, location)),
                (None, Some(_)) if open.len() >= MAX_NESTING => {
                    return Err(Error::limit("modules are nested too deeply")
                        .tensor(name)
                        .expected(format!("at most {MAX_NESTING} levels")));
                }
                (None, Some(inner)) => open.push((name, inner)),
                (None, None) if *graph.value(value) == Value::None => {}
                (None, None) => drop(self.found.no_tensors.insert(name)),
            }
        }
        Ok(tensors)
    }

    /// Returns the location of a tensor, or `None` if the value is not a tensor.
    fn tensor(&mut self, object: &ObjectFile, value: ValueId) -> Result<Option<Location>> {
        let graph: &Graph = object.graph();
        let lost = |why| Error::unsupported(format!("cannot read a tensor: {why}"));
        let data = rebuild::data_of_parameter(graph, value).unwrap_or(value);
        let Some(rebuilt) = rebuild::tensor(graph, data)? else { return Ok(None) };
        let location =
            match self.storages.locate(&mut self.catalog, object, &rebuilt.into_view().map_err(lost)?)? {
                ViewLocation::Lost(why) => return Err(lost(why)),
                ViewLocation::Found(location) => location,
            };
        element_count(&location.shape)?;
        if location.shape.len() > MAX_DIMENSIONS {
            return Err(Error::malformed("a shape has more dimensions than torch supports")
                .expected(format!("at most {MAX_DIMENSIONS}"))
                .found(location.shape.len()));
        }
        let shape = self.budget.numbers(location.shape)?;
        Ok(Some(Location { shape, ..location }))
    }

    /// Returns the catalog of storages, and the other content. Tensor locations refer to storages
    /// by ID.
    pub(crate) fn finish(self) -> Result<(Catalog, OtherContent)> {
        Ok((self.catalog.finish()?, self.found))
    }
}
