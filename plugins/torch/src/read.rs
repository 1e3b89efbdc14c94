//! Reads a checkpoint: its pickle becomes a graph, the graph's tensors and its other values become a
//! catalog. Nothing that the pickle names is called.

use crate::choose;
use crate::side_record::{SIDE_RECORD, SideRecord};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{ByteSink, CatalogSink, Context, Error, Result, Source, TensorReader};
use tensorferry_torch_file::archive::Archive;
use tensorferry_torch_file::{
    Container, Destination, Extent, LazyView, Names, ObjectFile, Storages, flatten,
};

/// Reads PyTorch's files.
#[derive(Debug, Default)]
pub(crate) struct TorchReader {
    /// What the encoded storages' handles stand for.
    lazy: Mutex<Arc<[LazyView]>>,
}

impl TensorReader for TorchReader {
    fn read(&self, source: &dyn Source, catalog: &mut dyn CatalogSink, context: &dyn Context) -> Result<()> {
        let name = &choose::file_of(source)?;
        let extent = Extent::whole(source, source.open(name)?);
        let lazy = read_file(source, extent, catalog, context).map_err(|error| error.file(name))?;
        *self.lazy.lock().unwrap_or_else(PoisonError::into_inner) = lazy.into();
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

fn read_file(
    source: &dyn Source,
    extent: Extent,
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<Vec<LazyView>> {
    let object = match Container::detect(source, extent)? {
        Container::Zip => open_archive(source, extent, catalog, context)?,
        _ => ObjectFile::open(source, extent, context)?,
    };
    object.globals().iter().try_for_each(|global| catalog.global(global))?;
    let (mut storages, mut names) = (Storages::new(context.limits()), Names::default());
    let mut to = Destination { catalog, storages: &mut storages, names: &mut names, context };
    let flat = flatten(&object, object.root(), "", &mut to)?;
    catalog.root(flat.node)?;
    Ok(storages.into_lazy_views())
}

fn open_archive(
    source: &dyn Source,
    extent: Extent,
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<ObjectFile> {
    let archive = Arc::new(Archive::open(source, extent, context.limits())?);
    if archive.contains("constants.pkl") {
        return Err(Error::unsupported("a TorchScript archive; save the module's state_dict() instead"));
    }
    if archive.contains("archive_format") {
        return Err(Error::unsupported("a torch.export archive; save the program's state_dict instead"));
    }
    let object = ObjectFile::of_archive(source, &archive, "data.pkl", "data/", context.limits())?;
    read_side_record(source, &archive, catalog, context)?;
    Ok(object)
}

fn read_side_record(
    source: &dyn Source,
    archive: &Archive,
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<()> {
    let Some(record) = archive.record(SIDE_RECORD)? else { return Ok(()) };
    let bytes = archive.bytes(source, record, context.limits())?;
    let side = SideRecord::parse(&bytes).map_err(|error| archive.at(error, record.extent.offset))?;
    catalog.origin(&side.origin)?;
    side.metadata.iter().try_for_each(|(key, value)| catalog.metadata(key, value))
}
