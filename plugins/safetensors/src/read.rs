//! Builds a catalog from the headers of safetensors files, and checks them against the index if the
//! model has one. The data of each file is a single storage, so the host can detect which tensors
//! are tied.

use crate::header::Header;
use crate::{NAMING, tied};
use std::collections::{BTreeMap, HashMap, HashSet};
use tensorferry_hub::{Choice, Index, choose};
use tensorferry_sdk::{
    CatalogSink, Context, Error, FileId, FileRange, Loss, LossKind, NothingEncoded, Result, Source, Storage,
    TensorDecoder, TensorReader,
};

/// A reader of single files and sets of shards.
pub(crate) struct Reader {
    /// Whether to read a shard without the other shards of its set.
    pub(crate) shard_is_alone: bool,
}

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let (set, index) = match choose(&NAMING, self.shard_is_alone, source, context)? {
            Choice::Files(names) => (Set::open(source, names, context)?, None),
            Choice::Index(name) => {
                let index = Index::read(source, &name, context.limits())?;
                (Set::open(source, index.files(source)?, context)?, Some(index))
            }
        };
        set.describe(index.as_ref(), catalog, context)?;
        Ok(Box::new(NothingEncoded))
    }
}

/// Number of bytes to prefetch from the start of each of a model's files, because the files may be
/// remote. Most headers are shorter than this.
const PREFETCH_BYTES: u64 = 64 << 10;

struct Set {
    shards: Vec<Shard>,
}

struct Shard {
    name: String,
    file: FileId,
    header: Header,
}

impl Set {
    fn open(
        source: &dyn Source,
        names: impl IntoIterator<Item = impl Into<String>>,
        context: &dyn Context,
    ) -> Result<Self> {
        let open = |name: String| source.open(&name).map(|file| (name, file));
        let files = names.into_iter().map(|name| open(name.into())).collect::<Result<Vec<_>>>()?;
        let beginning =
            |(_, file): &(String, FileId)| FileRange { file: *file, offset: 0, len: PREFETCH_BYTES };
        source.advise(&files.iter().map(beginning).collect::<Vec<_>>());
        let shards = files.into_iter().map(|(name, file)| {
            context.check_cancelled()?;
            Ok(Shard { file, header: Header::read(source, file, context.limits())?, name })
        });
        Ok(Self { shards: shards.collect::<Result<_>>()? })
    }

    /// Returns the name of each tensor and the name of the file that contains it.
    fn tensors_with_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.shards
            .iter()
            .flat_map(|shard| shard.header.tensors.iter().map(move |tensor| (&*tensor.name, &*shard.name)))
    }

    /// Returns the file that contains each tensor. Fails if two files contain a tensor with the
    /// same name.
    fn unique(&self) -> Result<HashMap<&str, &str>> {
        let mut files = HashMap::new();
        for (tensor, file) in self.tensors_with_files() {
            if let Some(other) = files.insert(tensor, file) {
                return Err(Error::malformed("two files have a tensor with this name")
                    .file(file)
                    .tensor(tensor)
                    .found(format!("{other:?}")));
            }
        }
        Ok(files)
    }

    fn describe(
        &self,
        index: Option<&Index>,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<()> {
        let mut metadata = self.metadata(index, catalog)?;
        let ties = if let Some(index) = index {
            let read = self.tensors_with_files().filter(|(tensor, file)| index.reads(tensor, file));
            let read: HashSet<&str> = read.map(|(tensor, _)| tensor).collect();
            let ties = tied::restore(&mut metadata, |name| read.contains(name));
            let tied = ties.values().flatten().map(String::as_str).collect();
            index.check(&self.tensors_with_files().collect(), &tied, catalog, context)?;
            ties
        } else {
            let unique = self.unique()?;
            tied::restore(&mut metadata, |name| unique.contains_key(name))
        };
        for (key, value) in &metadata {
            catalog.metadata_text(key, value)?;
        }
        for shard in &self.shards {
            context.check_cancelled()?;
            shard.describe(index, &ties, catalog).map_err(|error| error.file(&*shard.name))?;
        }
        Ok(())
    }

    /// Merges the metadata of all files and of the index. If the values for a key differ, the first
    /// value is kept and a loss is reported.
    fn metadata(
        &self,
        index: Option<&Index>,
        catalog: &mut dyn CatalogSink,
    ) -> Result<BTreeMap<String, String>> {
        let shards = self.shards.iter().map(|shard| (&*shard.name, &shard.header.metadata));
        let mut merged = BTreeMap::new();
        for (name, metadata) in shards.chain(index.map(|index| (index.name(), &index.metadata))) {
            for (key, value) in metadata {
                let first = merged.entry(key.clone()).or_insert_with(|| value.clone());
                if first != value {
                    let why =
                        format!("{name:?} has {value:?}, but an earlier file has {first:?}, which is kept");
                    catalog.loss(Loss::new(LossKind::Metadata, key, why))?;
                }
            }
        }
        for key in index.iter().flat_map(|index| &index.structured) {
            let why = "the value in the index is a list or an object, but only strings are kept";
            catalog.loss(Loss::new(LossKind::Metadata, key, why))?;
        }
        Ok(merged)
    }
}

impl Shard {
    fn describe(
        &self,
        index: Option<&Index>,
        ties: &BTreeMap<String, Vec<String>>,
        catalog: &mut dyn CatalogSink,
    ) -> Result<()> {
        let header = &self.header;
        let data = catalog.storage(Storage::file(self.file, header.data_offset, header.data_len))?;
        let is_read = |name: &str| index.is_none_or(|index| index.reads(name, &self.name));
        for tensor in header.tensors.iter().filter(|tensor| is_read(&tensor.name)) {
            let dropped = ties.get(&tensor.name).into_iter().flatten();
            for name in std::iter::once(&tensor.name).chain(dropped) {
                catalog.tensor(name, tensor.dtype, &tensor.shape, data, tensor.begin)?;
            }
        }
        Ok(())
    }
}
