//! Collects the locations of all tensors in the rank files, before the reader selects the tensors
//! that it needs. Drops a file's pickle as soon as the file is read. Memory use therefore remains
//! low for checkpoints with many ranks.

use std::collections::BTreeSet;
use tensorferry_sdk::{Catalog, CatalogBuilder, Context, Error, Limits, Result, Source};
use tensorferry_torch_file::pickle::{Graph, Value, ValueId};
use tensorferry_torch_file::{Budget, Calls, Extent, Location, ObjectFile, Storages, ViewLocation, rebuild};

/// Maximum number of dimensions of a tensor, as in torch. The limit avoids slow processing of
/// shapes with a million dimensions.
const MAX_DIMENSIONS: usize = 64;

/// Python enum of the ZeRO stages. A pickle stores an enum member as a call of the enum class.
const STAGE: &str = "deepspeed.runtime.zero.config.ZeroStageEnum";

/// The tensors, globals and calls found in the files of a checkpoint.
pub(crate) struct Collector<'s> {
    pub(crate) source: &'s dyn Source,
    pub(crate) context: &'s dyn Context,
    pub(crate) budget: Budget,
    /// All functions and classes to which the pickles refer.
    pub(crate) globals: BTreeSet<String>,
    /// Calls in the pickles.
    calls: Calls,
    storages: Storages<'s>,
    /// A temporary catalog of the storages in all files. Only storages that are needed are copied
    /// to the output catalog.
    catalog: CatalogBuilder<'s>,
}

impl<'s> Collector<'s> {
    pub(crate) fn new(source: &'s dyn Source, context: &'s dyn Context) -> Self {
        let limits: &'s Limits = context.limits();
        Self {
            source,
            context,
            budget: Budget::new(limits),
            globals: BTreeSet::new(),
            calls: Calls::default(),
            storages: Storages::new(limits),
            catalog: CatalogBuilder::new("deepspeed", source, limits),
        }
    }

    /// Opens a file, calls `read` with the content of the file, and closes the file. Adds the
    /// file's name to errors.
    pub(crate) fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Self, &ObjectFile) -> Result<T>,
    ) -> Result<T> {
        self.context.check_cancelled()?;
        let opened = self.source.open(name);
        let object = opened
            .and_then(|file| ObjectFile::open(self.source, Extent::whole(self.source, file), self.context));
        object
            .and_then(|object| {
                self.globals.extend(object.globals().map(str::to_owned));
                self.calls.add(name, &object);
                read(self, &object)
            })
            .map_err(|error| error.file(name))
    }

    /// Returns the location of a tensor, or `None` if the value is not a tensor.
    pub(crate) fn tensor(&mut self, object: &ObjectFile, value: ValueId) -> Result<Option<Location>> {
        let graph = object.graph();
        let lost = |why| Error::unsupported(format!("cannot read a tensor: {why}"));
        let Some(rebuilt) = rebuild::tensor(graph, parameter(graph, value))? else { return Ok(None) };
        let view = rebuilt.into_view().map_err(lost)?;
        let location = match self.storages.locate(&mut self.catalog, object, &view)? {
            ViewLocation::Lost(why) => return Err(lost(why)),
            ViewLocation::Found(location) => location,
        };
        Ok(Some(Location { shape: self.shape(location.shape)?, ..location }))
    }

    /// Checks that torch supports a shape.
    pub(crate) fn shape(&mut self, shape: Vec<u64>) -> Result<Vec<u64>> {
        tensorferry_sdk::element_count(&shape)?;
        if shape.len() > MAX_DIMENSIONS {
            return Err(Error::malformed("a shape has more dimensions than torch supports")
                .expected(format!("at most {MAX_DIMENSIONS}"))
                .found(shape.len()));
        }
        self.budget.numbers(shape)
    }

    /// Returns the catalog of storages, the globals, and the calls. Tensor locations refer to
    /// storages by ID.
    pub(crate) fn finish(mut self) -> Result<(Catalog, BTreeSet<String>, Calls)> {
        self.calls.forget(STAGE);
        Ok((self.catalog.finish()?, self.globals, self.calls))
    }
}

/// Returns the tensor in a torch `Parameter`. Returns any other value unchanged.
fn parameter(graph: &Graph, value: ValueId) -> ValueId {
    let wrapped = graph.called(value).filter(|(global, _)| rebuild::is_parameter(global));
    wrapped.and_then(|(_, call)| graph.tuple(call.arguments)?.first().copied()).unwrap_or(value)
}

/// Returns the value of a key, unless the value is missing or `None`.
pub(crate) fn entry(graph: &Graph, mapping: ValueId, key: &str) -> Option<ValueId> {
    graph.entry(mapping, key).filter(|&value| *graph.value(value) != Value::None)
}

/// Returns the value of a key, or an error if the value is missing or `None`.
pub(crate) fn require(graph: &Graph, mapping: ValueId, key: &str) -> Result<ValueId> {
    entry(graph, mapping, key).ok_or_else(|| Error::malformed(format!("the file has no {key}")))
}

/// Creates the error for a value that DeepSpeed never writes.
pub(crate) fn unexpected_value(what: &str, expected: &str) -> Error {
    Error::malformed(format!("{what}: unexpected value")).expected(expected)
}
