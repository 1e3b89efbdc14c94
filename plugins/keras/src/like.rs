//! Another file (`-o like=`) written again with these tensors in the place of its own. All of its other bytes stay as they
//! are: the structure of HDF5 around the weights, the configuration, the assets.

use crate::config;
use crate::hdf5::{Dataset, Element, File, Header, Place};
use crate::input::{Input, Weights};
use crate::model::Model;
use crate::{ARCHIVE_SUFFIX, CONFIG, METADATA, WEIGHTS};
use std::collections::HashMap;
use std::sync::Arc;
use tensorferry_sdk::{
    ByteOrder, CatalogView, Context, Digests, Dtype, Error, LayoutSink, NothingToSeal, OutputId, Result,
    Role, SealSink, Source, SourceRange, Target, TensorId, TensorPart, TensorPlan,
};
use tensorferry_zip::{Extent, ZipLayout, ZipPlan};

/// The file that is written again.
pub(crate) struct Template {
    like: String,
    source: Arc<dyn Source>,
    input: Input,
    /// The HDF5 file.
    weights: Extent,
    /// By their paths.
    slots: HashMap<String, Slot>,
    /// Of each dataset the path, by the own names of its layer and variable: TensorFlow's checkpoints and files that were
    /// read with `-i names=name` have these.
    paths: HashMap<String, String>,
}

/// A dataset of it.
struct Slot {
    /// Its dtype, if there is one for it.
    number: Option<(Dtype, ByteOrder)>,
    shape: Vec<u64>,
    /// Its elements, where they lie side by side.
    extent: Option<Extent>,
}

/// A tensor and where it goes.
struct Chosen {
    tensor: TensorId,
    order: ByteOrder,
    extent: Extent,
}

impl Template {
    /// Reads what is in the other file.
    ///
    /// # Errors
    /// As of reading it.
    pub(crate) fn open(like: &str, context: &dyn Context) -> Result<Self> {
        let source = context.open(like)?;
        let input = Input::find(&*source, context)?;
        let [Weights::At(weights)] = &*input.weights else {
            let why = "-o like= takes one file of weights, or an archive in which they are stored: shards and compressed \
                       ones are not written again";
            return Err(Error::unsupported(why));
        };
        let weights = *weights;
        let file = File::open(&*source, weights, context.limits())?;
        let mut model = Model::default();
        if let Some(bytes) = &input.config {
            model.parts.push(("config", config::parse(bytes, "the configuration")?));
        }
        model.look(&file, 0, context)?;
        let own_names = model.names(true);
        let mut slots = HashMap::with_capacity(model.datasets.len());
        let mut paths = HashMap::with_capacity(model.datasets.len());
        for (found, own) in model.datasets.into_iter().zip(own_names) {
            let header = Header::read(&file, found.address)?;
            slots.insert(found.path.clone(), Slot::of(&file, &header, context)?);
            paths.insert(own, found.path);
        }
        drop(file);
        Ok(Self { like: like.to_owned(), source, input, weights, slots, paths })
    }

    /// Lays the file out again.
    ///
    /// # Errors
    /// Usage, if the target's name is of a form that it has not; what the layout says.
    pub(crate) fn write(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let chosen = self.choose(catalog, layout)?;
        if let (true, Some(first)) = (chosen.is_empty(), catalog.tensor_ids().next()) {
            let problem = "no tensor has the path or name of a variable of the file of -o like=, or its dtype and shape";
            let expected =
                self.slots.keys().min().map_or("variables".to_owned(), |path| format!("{path:?} or others"));
            let found = format!("{:?}", catalog.tensor(first).name);
            return Err(Error::usage(problem).file(&self.like).expected(expected).found(found));
        }
        let kept = self.slots.len().saturating_sub(chosen.len());
        if kept > 0 {
            context.note(&format!("{kept} variables of {:?} stay as they are", self.like));
        }
        match target {
            Target::File(path) if path.ends_with(ARCHIVE_SUFFIX) => {
                let archive = self.archive(path, &chosen, layout, context)?;
                Ok(Box::new(archive))
            }
            Target::File(path) => {
                let file = layout.file(path, Role::Data)?;
                self.weights(file, &chosen, layout)?;
                Ok(Box::new(NothingToSeal))
            }
            Target::Folder => {
                let file = layout.file(WEIGHTS, Role::Data)?;
                self.weights(file, &chosen, layout)?;
                for (name, bytes) in [(CONFIG, &self.input.config), (METADATA, &self.input.metadata)] {
                    if let Some(bytes) = bytes {
                        let file = layout.file(name, Role::Index)?;
                        layout.bytes(file, bytes)?;
                    }
                }
                Ok(Box::new(NothingToSeal))
            }
        }
    }

    /// Which tensors take the place of the file's own, in the order of the file.
    fn choose(&self, catalog: &dyn CatalogView, layout: &mut dyn LayoutSink) -> Result<Vec<Chosen>> {
        let mut chosen: Vec<Chosen> = Vec::new();
        let mut taken: HashMap<u64, TensorId> = HashMap::new();
        for tensor in catalog.tensor_ids() {
            let view = catalog.tensor(tensor);
            let by_own_name = || self.slots.get_key_value(self.paths.get(view.name)?);
            let Some((path, slot)) = self.slots.get_key_value(view.name).or_else(by_own_name) else {
                layout
                    .omit(tensor, "the file of -o like= has no variable of this path or name: rename it")?;
                continue;
            };
            let dtype = slot.number.map(|(dtype, _)| dtype);
            if dtype != Some(view.dtype) || slot.shape != view.shape {
                let dtype = dtype.and_then(Dtype::info).map_or("another dtype", |info| info.name());
                layout.omit(tensor, &format!("the file of -o like= has {dtype} {:?} there", slot.shape))?;
                continue;
            }
            let (Some((_, order)), Some(extent)) = (slot.number, slot.extent) else {
                layout.omit(
                    tensor,
                    "the file of -o like= has it in chunks or in a header, or never wrote it: h5repack -l CONTI makes it one \
                     that can be written again",
                )?;
                continue;
            };
            match taken.get(&extent.offset).filter(|_| extent.len > 0) {
                Some(&first) if catalog.tied_to(tensor) == catalog.tied_to(first) => {
                    layout.alias(tensor, first)?;
                    if path != view.name {
                        layout.written_as(tensor, path)?;
                    }
                }
                Some(_) => layout.omit(tensor, "two links of the file of -o like= lead to these bytes")?,
                None => {
                    if path != view.name {
                        layout.written_as(tensor, path)?;
                    }
                    taken.insert(extent.offset, tensor);
                    chosen.push(Chosen { tensor, order, extent });
                }
            }
        }
        chosen.sort_by_key(|chosen| (chosen.extent.offset, chosen.extent.len));
        for pair in chosen.windows(2) {
            if let [first, second] = pair
                && first.extent.end() > second.extent.offset
            {
                return Err(Error::malformed("two datasets of the file of -o like= overlap")
                    .file(&self.like)
                    .offset(second.extent.offset));
            }
        }
        Ok(chosen)
    }

    /// Appends the HDF5 file; gives where it begins.
    fn weights(&self, file: OutputId, chosen: &[Chosen], layout: &mut dyn LayoutSink) -> Result<u64> {
        let name = self.source.name(self.weights.file);
        let mut at = self.weights.offset;
        let mut start = None;
        let copy = |layout: &mut dyn LayoutSink, range: std::ops::Range<u64>| -> Result<Option<u64>> {
            if range.is_empty() {
                return Ok(None);
            }
            let from = SourceRange { source: self.like.clone(), file: name.to_owned(), range };
            layout.copy(file, from).map(Some)
        };
        for Chosen { tensor, order, extent } in chosen {
            let copied = copy(layout, at..extent.offset.max(at))?;
            let part = TensorPart { byte_order: *order, ..TensorPart::whole(*tensor) };
            let placed = layout.tensor(file, part)?;
            start = start.or(copied).or(Some(placed));
            at = at.max(extent.end());
        }
        let copied = copy(layout, at..self.weights.end())?;
        Ok(start.or(copied).unwrap_or(0))
    }

    fn archive(
        &self,
        path: &str,
        chosen: &[Chosen],
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<ArchivePlan> {
        let Some(config) = &self.input.config else {
            return Err(Error::usage(
                "a .keras file has a configuration, which the file of -o like= has not",
            )
            .file(path));
        };
        let file = layout.file(path, Role::Data)?;
        let mut zip = ZipLayout::new(layout, file, None);
        let len = self.weights.len;
        let Some(archive) = &self.input.archive else {
            if let Some(metadata) = &self.input.metadata {
                zip.bytes(METADATA, metadata)?;
            }
            zip.bytes(CONFIG, config)?;
            zip.data(WEIGHTS, len, |layout, file| self.weights(file, chosen, layout))?;
            return zip.finish().map(ArchivePlan);
        };
        for (index, entry) in archive.entries().iter().enumerate() {
            if &*entry.name == WEIGHTS {
                zip.data(WEIGHTS, len, |layout, file| self.weights(file, chosen, layout))?;
                continue;
            }
            let most = context.limits().header_bytes;
            if entry.len > most {
                return Err(Error::limit(format!(
                    "zip entry {:?} is too long to hold in memory",
                    entry.name
                ))
                .expected(format!("at most {most} bytes"))
                .found(entry.len));
            }
            let mut bytes = Vec::new();
            archive.member(index)?.write(&*self.source, &mut bytes, context)?;
            zip.bytes(&entry.name, &bytes)?;
        }
        zip.finish().map(ArchivePlan)
    }
}

impl Slot {
    fn of(file: &File<'_>, header: &Header, context: &dyn Context) -> Result<Self> {
        let nothing = Self { number: None, shape: Vec::new(), extent: None };
        let dataset = match Dataset::read(file, header, context.limits()) {
            Ok(dataset) => dataset,
            Err(fault) if fault.is_datatype => return Ok(nothing),
            Err(fault) => return Err(fault.error),
        };
        let number = match dataset.datatype.element {
            Element::Number(dtype, order) => Some((dtype, order)),
            Element::Opaque if dataset.datatype.width == 2 => {
                let mark = dataset.attributes.text(file, "dtype")?;
                (mark.as_deref() == Some("bfloat16")).then_some((Dtype::BF16, ByteOrder::Little))
            }
            _ => None,
        };
        let extent = match dataset.place {
            Place::File(extent) => Some(extent),
            // No bytes: they go anywhere.
            Place::Nowhere => Some(file.extent(0, 0)?),
            _ => None,
        };
        Ok(Self { number, shape: dataset.shape, extent })
    }
}

/// An archive whose checksums are still to be said.
struct ArchivePlan(ZipPlan);

impl TensorPlan for ArchivePlan {
    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        self.0.seal(digests, output)
    }
}
