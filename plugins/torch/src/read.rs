//! Reads a checkpoint: parses its pickle into a graph, and fills a catalog with the graph's tensors
//! and other values. Functions that the pickle names are never called.

mod catalog_joiner;
mod exported;
mod parts;
mod script;
mod shards;

use crate::choose::choose;
use crate::{SIDE_RECORD, SIDE_RECORD_TITLE};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tensorferry_hub::{self as hub, Choice, Index, SHARD_OPTION, SideRecord};
use tensorferry_sdk::{
    CatalogSink, Context, Loss, LossKind, NodeId, Options, Result, Source, TensorDecoder, TensorReader,
};
use tensorferry_torch_file::archive::{self, Archive};
use tensorferry_torch_file::{
    Container, Decoding, Destination, Extent, FlattenedObject, Names, ObjectFile, Storages, flatten,
};

const STATE_DICT: &str = "collections.OrderedDict";

#[derive(Debug, Default)]
pub(crate) struct TorchReader {
    decoding: Decoding,
    shard_is_alone: bool,
}

impl TorchReader {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self { decoding: Decoding::of(options)?, shard_is_alone: SHARD_OPTION.get(options)? })
    }
}

impl TensorReader for TorchReader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let mut storages = Storages::new(context.limits()).decoding(self.decoding);
        let mut names = Names::default();
        let to = Destination { catalog, storages: &mut storages, names: &mut names, source, context };
        let mut reading = CatalogReader {
            source,
            to,
            globals: BTreeSet::new(),
            origin: None,
            metadata: BTreeMap::new(),
            part_is_alone: self.shard_is_alone,
        };
        let root = reading.model(&choose(self.shard_is_alone, source, context)?)?;
        reading.finish(root)?;
        storages.dequantized_loss().into_iter().try_for_each(|loss| catalog.loss(loss))?;
        Ok(Box::new(storages.into_lazy_views()))
    }
}

/// The state of the reader: the source, the catalog that it fills, and the values found in the
/// files that it has read so far.
struct CatalogReader<'c, 'l> {
    source: &'c dyn Source,
    to: Destination<'c, 'l>,
    /// Names of the functions and classes that the pickles refer to.
    globals: BTreeSet<String>,
    /// Format from which the tensors were converted, according to the first side record.
    origin: Option<String>,
    metadata: BTreeMap<String, String>,
    /// Whether to read a file even if it declares that it is only a part of a model.
    part_is_alone: bool,
}

impl CatalogReader<'_, '_> {
    /// Reads the selected files and returns the root node of their content.
    fn model(&mut self, choice: &Choice) -> Result<NodeId> {
        match choice {
            Choice::Index(name) => {
                let index = Index::read(self.source, name, self.to.context.limits())?;
                shards::read_indexed(self, &index)
            }
            Choice::Files(names) => match &**names {
                [name] => self.file(name).map_err(|error| error.file(name)),
                names => {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    shards::read(self, &names, None)
                }
            },
        }
    }

    /// Reads a file in any container.
    fn file(&mut self, name: &str) -> Result<NodeId> {
        let extent = self.extent(name)?;
        if Container::detect(self.source, extent)? != Container::Zip {
            return Ok(self.saved_object(name)?.node);
        }
        let limits = self.to.context.limits();
        let archive = Arc::new(archive::open(self.source, extent, limits)?);
        if exported::is_exported(&archive) {
            return exported::read(self, &archive);
        }
        if script::is_script(&archive) {
            return script::read(self, &archive);
        }
        let object = ObjectFile::of_archive(self.source, &archive, "data.pkl", "data/", limits)?;
        self.list_globals(&object);
        Ok(self.whole(name, &object)?.node)
    }

    /// Reads a file that `torch.save` wrote.
    fn saved_object(&mut self, name: &str) -> Result<FlattenedObject> {
        let object = self.open(self.extent(name)?)?;
        self.whole(name, &object)
    }

    /// Reads an object with all of its tensors, and also reads the side record of the file.
    fn whole(&mut self, name: &str, object: &ObjectFile) -> Result<FlattenedObject> {
        if let Some(part) = parts::part_of(object).filter(|_| !self.part_is_alone) {
            hub::refuse(name, &part, self.to.context)?;
        }
        if let Some(archive) = object.archive() {
            self.side_record(name, archive)?;
        }
        flatten(object, object.root(), "", &mut self.to)
    }

    fn extent(&self, name: &str) -> Result<Extent> {
        Ok(Extent::whole(self.source, self.source.open(name)?))
    }

    /// Opens a file that `torch.save` wrote, and records the functions and classes that its pickles
    /// refer to.
    fn open(&mut self, extent: Extent) -> Result<ObjectFile> {
        let object = ObjectFile::open(self.source, extent, self.to.context)?;
        self.list_globals(&object);
        Ok(object)
    }

    fn list_globals(&mut self, object: &ObjectFile) {
        self.globals.extend(object.globals().map(str::to_owned));
    }

    fn side_record(&mut self, file: &str, archive: &Archive) -> Result<()> {
        let Some(record) = archive.record(SIDE_RECORD)? else { return Ok(()) };
        let bytes = archive.bytes(self.source, record, self.to.context.limits())?;
        let side = SideRecord::parse(&bytes, SIDE_RECORD_TITLE)
            .map_err(|error| archive.at(error, record.extent.offset))?;
        self.origin.get_or_insert(side.origin);
        self.add_metadata(file, &side.metadata)
    }

    /// Adds the metadata of a file. If files have different values for a key, the first value is
    /// kept and the others are reported as losses.
    fn add_metadata(&mut self, file: &str, metadata: &BTreeMap<String, String>) -> Result<()> {
        for (key, value) in metadata {
            let first = self.metadata.entry(key.clone()).or_insert_with(|| value.clone());
            if first != value {
                let why = format!("{file:?} has {value:?}, but an earlier file has {first:?}, which is kept");
                self.to.catalog.loss(Loss::new(LossKind::Metadata, key, why))?;
            }
        }
        Ok(())
    }

    /// Adds the globals, the metadata, the origin and the root to the catalog after all files have
    /// been read.
    fn finish(self, root: NodeId) -> Result<()> {
        let catalog = self.to.catalog;
        self.globals.iter().try_for_each(|global| catalog.global(global))?;
        self.metadata.iter().try_for_each(|(key, value)| catalog.metadata_text(key, value))?;
        self.origin.iter().try_for_each(|origin| catalog.origin(origin))?;
        catalog.root(root)
    }
}
