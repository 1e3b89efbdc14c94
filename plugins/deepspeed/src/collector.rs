//! Collects each tensor's place from the rank files, before it is known which of them are asked for. The files'
//! pickles are dropped as soon as they are read, so that the ranks may be many.

use std::collections::BTreeSet;
use tensorferry_sdk::{Catalog, CatalogBuilder, Context, Error, Limits, Result, Source};
use tensorferry_torch_file::pickle::{Graph, Value, ValueId};
use tensorferry_torch_file::{Budget, Calls, Extent, Located, Location, ObjectFile, Storages, rebuild};

/// torch's own bound; a shape of a million dimensions is made to be slow.
const MOST_DIMENSIONS: usize = 64;

/// The enum of stages, whose members are calls in a pickle.
const STAGE: &str = "deepspeed.runtime.zero.config.ZeroStageEnum";

/// Collects from all files of a checkpoint.
pub(crate) struct Collector<'s> {
    pub(crate) source: &'s dyn Source,
    pub(crate) context: &'s dyn Context,
    pub(crate) budget: Budget,
    /// Every function and class that the pickles would have looked up.
    pub(crate) globals: BTreeSet<String>,
    /// What they would have called.
    calls: Calls,
    storages: Storages<'s>,
    /// Takes the storages. Those that are needed go from here to the real catalog.
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

    /// Opens a file, reads something from it, and lets it go; errors name the file.
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

    /// Where a tensor lies; `None`, if the value is none.
    pub(crate) fn tensor(&mut self, object: &ObjectFile, value: ValueId) -> Result<Option<Location>> {
        let graph = object.graph();
        let lost = |why| Error::unsupported(format!("a tensor that cannot be read: {why}"));
        let Some(rebuilt) = rebuild::tensor(graph, parameter(graph, value))? else { return Ok(None) };
        let view = rebuilt.into_view().map_err(lost)?;
        let location = match self.storages.locate(&mut self.catalog, object, &view)? {
            Located::Lost(why) => return Err(lost(why)),
            Located::At(location) => location,
        };
        Ok(Some(Location { shape: self.shape(location.shape)?, ..location }))
    }

    /// A shape, held against what torch can have.
    pub(crate) fn shape(&mut self, shape: Vec<u64>) -> Result<Vec<u64>> {
        tensorferry_sdk::element_count(&shape)?;
        if shape.len() > MOST_DIMENSIONS {
            return Err(Error::malformed("a shape with more dimensions than torch has")
                .expected(format!("at most {MOST_DIMENSIONS}"))
                .found(shape.len()));
        }
        self.budget.numbers(shape)
    }

    /// The storages, by the ids that locations have; the globals; the calls.
    pub(crate) fn finish(mut self) -> Result<(Catalog, BTreeSet<String>, Calls)> {
        self.calls.forget(STAGE);
        Ok((self.catalog.finish()?, self.globals, self.calls))
    }
}

/// The tensor inside a parameter, or the value itself.
fn parameter(graph: &Graph, value: ValueId) -> ValueId {
    let wrapped = graph.called(value).filter(|(global, _)| rebuild::is_parameter(global));
    wrapped.and_then(|(_, call)| graph.tuple(call.arguments)?.first().copied()).unwrap_or(value)
}

/// The value of a key, if it is there and not `None`.
pub(crate) fn entry(graph: &Graph, mapping: ValueId, key: &str) -> Option<ValueId> {
    graph.entry(mapping, key).filter(|&value| *graph.value(value) != Value::None)
}

/// The value of a key.
pub(crate) fn need(graph: &Graph, mapping: ValueId, key: &str) -> Result<ValueId> {
    entry(graph, mapping, key).ok_or_else(|| Error::malformed(format!("the file has no {key}")))
}

/// A value is not what DeepSpeed writes.
pub(crate) fn wrong(what: &str, expected: &str) -> Error {
    Error::malformed(format!("{what} is not what DeepSpeed writes")).expected(expected)
}
