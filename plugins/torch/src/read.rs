//! Reads a checkpoint: its pickle becomes a graph, the graph's tensors and its other values become a
//! catalog. Nothing that the pickle names is called.

mod exported;
mod script;

use crate::choose;
use crate::side_record::{SIDE_RECORD, SideRecord};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{ByteSink, CatalogSink, Context, Error, NodeId, Result, Source, TensorReader};
use tensorferry_torch_file::archive::Archive;
use tensorferry_torch_file::{
    Container, Decoding, Destination, Extent, LazyView, Names, ObjectFile, Storages, flatten,
};

/// Reads PyTorch's files.
#[derive(Debug, Default)]
pub(crate) struct TorchReader {
    decoding: Decoding,
    /// What the encoded storages' handles stand for.
    lazy: Mutex<Arc<[LazyView]>>,
}

impl TorchReader {
    /// A reader that makes this of tensors that are more than elements.
    pub(crate) fn new(decoding: Decoding) -> Self {
        Self { decoding, ..Self::default() }
    }
}

impl TensorReader for TorchReader {
    fn read(&self, source: &dyn Source, catalog: &mut dyn CatalogSink, context: &dyn Context) -> Result<()> {
        let name = &choose::file_of(source)?;
        let extent = Extent::whole(source, source.open(name)?);
        let mut storages = Storages::new(context.limits()).decoding(self.decoding);
        let mut names = Names::default();
        let to = Destination { catalog, storages: &mut storages, names: &mut names, context };
        let mut reading = Reading { source, to, globals: BTreeSet::new() };
        let root = reading.file(extent).map_err(|error| error.file(name))?;
        let Reading { globals, .. } = reading;
        globals.iter().try_for_each(|global| catalog.global(global))?;
        catalog.root(root)?;
        *self.lazy.lock().unwrap_or_else(PoisonError::into_inner) = storages.into_lazy_views().into();
        Ok(())
    }

    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let lazy = Arc::clone(&self.lazy.lock().unwrap_or_else(PoisonError::into_inner));
        let view = usize::try_from(handle).ok().and_then(|index| lazy.get(index));
        view.ok_or_else(|| Error::plugin(format!("no encoded storage {handle}")))?
            .decode(source, output, context)
    }
}

/// A catalog that is being filled.
struct Reading<'c, 'l> {
    source: &'c dyn Source,
    to: Destination<'c, 'l>,
    /// What the files' pickles would look up.
    globals: BTreeSet<String>,
}

impl Reading<'_, '_> {
    /// Reads a file; the node of what it holds.
    fn file(&mut self, extent: Extent) -> Result<NodeId> {
        if Container::detect(self.source, extent)? != Container::Zip {
            let object = self.open(extent)?;
            return Ok(flatten(&object, object.root(), "", &mut self.to)?.node);
        }
        let limits = self.to.context.limits();
        let archive = Arc::new(Archive::open(self.source, extent, limits)?);
        if exported::is_exported(&archive) {
            return exported::read(self, &archive);
        }
        if script::is_script(&archive) {
            return script::read(self, &archive);
        }
        let object = ObjectFile::of_archive(self.source, &archive, "data.pkl", "data/", limits)?;
        self.list_globals(&object);
        self.side_record(&archive)?;
        Ok(flatten(&object, object.root(), "", &mut self.to)?.node)
    }

    /// Opens a file of `torch.save`, and lists what it would call.
    fn open(&mut self, extent: Extent) -> Result<ObjectFile> {
        let object = ObjectFile::open(self.source, extent, self.to.context)?;
        self.list_globals(&object);
        Ok(object)
    }

    fn list_globals(&mut self, object: &ObjectFile) {
        self.globals.extend(object.globals().map(str::to_owned));
    }

    fn side_record(&mut self, archive: &Archive) -> Result<()> {
        let Some(record) = archive.record(SIDE_RECORD)? else { return Ok(()) };
        let bytes = archive.bytes(self.source, record, self.to.context.limits())?;
        let side = SideRecord::parse(&bytes).map_err(|error| archive.at(error, record.extent.offset))?;
        self.to.catalog.origin(&side.origin)?;
        side.metadata.iter().try_for_each(|(key, value)| self.to.catalog.metadata(key, value))
    }
}
