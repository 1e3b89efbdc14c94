//! Copies an existing file (`-o like=`) and replaces its tensors with new tensors. All other bytes
//! are kept, such as the HDF5 structure around the weights, the configuration and the assets.

use crate::hdf5::{DataLocation, Dataset, Element, File, Header, TextBudget};
use crate::input::{Input, Weights};
use crate::model::{Model, part};
use crate::options::MissingValues;
use crate::{ARCHIVE_SUFFIX, CONFIG, METADATA, WEIGHTS, config};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tensorferry_hub::list;
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::{
    ByteOrder, CatalogView, Context, Digests, Dtype, Entry, Error, LayoutSink, Loss, LossKind, NothingToSeal,
    OutputId, Result, Role, SealSink, Severity, Source, SourceRange, Target, TensorId, TensorPart,
    TensorPlan,
};
use tensorferry_zip::{Archive, Extent, ZipLayout, ZipPlan};

/// Folder of the files that layers load themselves.
const ASSETS: &str = "assets";

/// The file that the user passed as `-o like=`.
pub(crate) struct Template {
    like: String,
    source: Arc<dyn Source>,
    input: Input,
    /// Location of the HDF5 file in the source.
    weights: Extent,
    /// The datasets of the HDF5 file, by path.
    slots: HashMap<String, Slot>,
    /// Maps a name that consists of a layer and a variable to the path of that variable's dataset.
    /// TensorFlow checkpoints and files read with `-i names=name` use such names.
    paths: HashMap<String, String>,
}

/// A dataset in the copied file. A tensor can replace the elements of the dataset.
struct Slot {
    /// Dtype and byte order of the elements, if ferry has a dtype for them.
    number: Option<(Dtype, ByteOrder)>,
    shape: Vec<u64>,
    /// Location of the elements, if they are contiguous.
    extent: Option<Extent>,
}

/// A tensor, and the location of the elements that it replaces.
struct Replacement<'a> {
    tensor: TensorId,
    path: &'a str,
    order: ByteOrder,
    extent: Extent,
}

impl Template {
    /// Opens the file to copy and reads its structure.
    pub(crate) fn open(like: &str, context: &dyn Context) -> Result<Self> {
        let source = context.open(like)?;
        // Sets of shards cannot be copied, so a shard is copied as a single file.
        let input = Input::find(&*source, true, context)?;
        let [Weights::Stored(weights)] = &*input.weights else {
            return Err(Error::unsupported("-o like= cannot use sharded or compressed weights")
                .hint("pass a single file of weights, or an archive with uncompressed weights (zip -0)"));
        };
        let weights = *weights;
        let held = TextBudget::new(context.limits());
        let file = File::open(&*source, weights, &held, context.limits())?;
        let mut model = Model::default();
        if let Some(bytes) = &input.config {
            model.parts.push(("config", config::parse(bytes, "the configuration", context.limits())?));
        }
        model.scan(&file, 0, context)?;
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

    /// Lays out a copy of the file, in which the tensors of `catalog` replace the existing tensors.
    pub(crate) fn write(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        missing: MissingValues,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let (chosen, unmatched) = self.choose(catalog, missing, layout)?;
        self.check_unmatched(&chosen, &unmatched, missing, layout, context)?;
        if let (true, Some(first)) = (chosen.is_empty(), catalog.tensor_ids().next()) {
            let problem = "no tensor matches a variable in the -o like= file";
            let variable = self.slots.iter().min_by_key(|(path, _)| *path);
            let expected = variable.map_or("variables".to_owned(), |(path, slot)| {
                format!("{path:?} or others, {}", slot.form())
            });
            let view = catalog.tensor(first);
            let found = format!("{:?}, {}", view.name, form(Some(view.dtype), view.shape));
            return Err(Error::usage(problem).file(&self.like).expected(expected).found(found));
        }
        match target {
            Target::File(path) if has_suffix(path, ARCHIVE_SUFFIX) => {
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
                self.other_files(layout, context)?;
                Ok(Box::new(NothingToSeal))
            }
        }
    }

    /// Matches the tensors with the datasets. Returns the replacements in file order, and the names
    /// of the tensors that do not match a dataset.
    fn choose<'a>(
        &'a self,
        catalog: &'a dyn CatalogView,
        missing: MissingValues,
        layout: &mut dyn LayoutSink,
    ) -> Result<(Vec<Replacement<'a>>, Vec<&'a str>)> {
        let (mut chosen, mut unmatched): (Vec<Replacement<'_>>, Vec<&str>) = (Vec::new(), Vec::new());
        let mut taken: HashMap<u64, TensorId> = HashMap::new();
        for tensor in catalog.tensor_ids() {
            let view = catalog.tensor(tensor);
            let by_own_name = || self.slots.get_key_value(self.paths.get(view.name)?);
            let Some((path, slot)) = self.slots.get_key_value(view.name).or_else(by_own_name) else {
                layout.omit(tensor, "the -o like= file has no variable with this path or name")?;
                unmatched.push(view.name);
                continue;
            };
            // If no variable may be missing, a variable whose tensor cannot be written is also an
            // error.
            let mut leave = |error: Error| match missing {
                MissingValues::Refused => {
                    let found = format!("{}, as {:?}", form(Some(view.dtype), view.shape), view.name);
                    let hint = "pass -o missing=keep to keep the values of the -o like= file";
                    Err(error.file(&self.like).tensor(path).found(found).hint(hint))
                }
                MissingValues::Kept => layout.omit(tensor, error.message()),
            };
            if slot.number.map(|(dtype, _)| dtype) != Some(view.dtype) || slot.shape != view.shape {
                leave(Error::usage(format!("the variable in the -o like= file is {}", slot.form())))?;
                continue;
            }
            let (Some((_, order)), Some(extent)) = (slot.number, slot.extent) else {
                leave(Error::unsupported(
                    "the -o like= file stores it in chunks or in a header, or never wrote it; rewrite that file with \
                     h5repack -l CONTI",
                ))?;
                continue;
            };
            match taken.get(&extent.offset).filter(|_| extent.len > 0) {
                Some(&first) if catalog.tied_to(tensor) == catalog.tied_to(first) => {
                    layout.alias(tensor, first)?;
                    if path != view.name {
                        layout.written_as(tensor, path)?;
                    }
                }
                Some(_) => layout.omit(tensor, "two links in the -o like= file refer to these bytes")?,
                None => {
                    if path != view.name {
                        layout.written_as(tensor, path)?;
                    }
                    taken.insert(extent.offset, tensor);
                    chosen.push(Replacement { tensor, path, order, extent });
                }
            }
        }
        chosen.sort_by_key(|chosen| (chosen.extent.offset, chosen.extent.len));
        for pair in chosen.windows(2) {
            if let [first, second] = pair
                && first.extent.end() > second.extent.offset
            {
                return Err(Error::malformed("two datasets in the -o like= file overlap")
                    .file(&self.like)
                    .offset(second.extent.offset));
            }
        }
        Ok((chosen, unmatched))
    }

    /// Reports the values that are copied from the existing file: the state of optimizers and
    /// metrics, and the variables without a tensor. Fails if there are such variables and `missing`
    /// is `Refused`.
    fn check_unmatched(
        &self,
        chosen: &[Replacement<'_>],
        unmatched: &[&str],
        missing: MissingValues,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<()> {
        let paths: HashSet<&str> = chosen.iter().map(|chosen| chosen.path).collect();
        // If two links refer to the same data, they are one variable.
        let offsets: HashSet<u64> =
            chosen.iter().filter(|c| c.extent.len > 0).map(|c| c.extent.offset).collect();
        let is_written = |path: &str, slot: &Slot| {
            paths.contains(path) || slot.extent.is_some_and(|e| e.len > 0 && offsets.contains(&e.offset))
        };
        let rest = self.slots.iter().filter(|(path, slot)| !is_written(path, slot));
        let mut rest: Vec<&str> = rest.map(|(path, _)| &**path).collect();
        rest.sort_unstable();
        let (variables, state): (Vec<&str>, Vec<&str>) =
            rest.into_iter().partition(|path| part(path) == "model");
        for what in ["optimizer", "metrics"] {
            let count = state.iter().filter(|path| part(path) == what).count();
            if count > 0 {
                let why = format!("its {count} tensors are copied from the -o like= file");
                layout.loss(Loss::new(LossKind::State, what, why).severity(Severity::Changed))?;
            }
        }
        let listed = |names: &[&str]| list(names.iter().map(|name| format!("{name:?}")));
        let Some(names) = listed(&variables) else { return Ok(()) };
        if missing == MissingValues::Refused {
            let error = Error::usage("some variables in the -o like= file have no tensor")
                .file(&self.like)
                .expected(format!("tensors for {names}"))
                .hint("pass -o missing=keep to keep the values of these variables");
            return Err(match listed(unmatched) {
                None => error,
                Some(names) => error.found(format!("tensors without a variable: {names}")),
            });
        }
        context.note(&format!("{} variables keep the values of the -o like= file: {names}", variables.len()));
        Ok(())
    }

    /// Appends the HDF5 file with its new tensors and returns its offset.
    fn weights(
        &self,
        file: OutputId,
        chosen: &[Replacement<'_>],
        layout: &mut dyn LayoutSink,
    ) -> Result<u64> {
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
        for Replacement { tensor, order, extent, .. } in chosen {
            let copied = copy(layout, at..extent.offset.max(at))?;
            let part = TensorPart { byte_order: *order, ..TensorPart::whole(*tensor) };
            let placed = layout.tensor(file, part)?;
            start = start.or(copied).or(Some(placed));
            at = at.max(extent.end());
        }
        let copied = copy(layout, at..self.weights.end())?;
        Ok(start.or(copied).unwrap_or(0))
    }

    /// Adds all files of the archive except the weights, the configuration and the metadata.
    fn other_files(&self, layout: &mut dyn LayoutSink, context: &dyn Context) -> Result<()> {
        let Some(archive) = &self.input.archive else { return self.report_lost_assets(layout) };
        for (index, entry) in archive.entries().iter().enumerate() {
            if ![WEIGHTS, CONFIG, METADATA].contains(&&*entry.name) && !entry.name.ends_with('/') {
                let file = layout.file(&entry.name, Role::Data)?;
                layout.bytes(file, &self.member(archive, index, context)?)?;
            }
        }
        Ok(())
    }

    fn report_lost_assets(&self, layout: &mut dyn LayoutSink) -> Result<()> {
        let is_folder = *self.source.entry() == Entry::Folder;
        if is_folder && self.source.folders("")?.iter().any(|name| name == ASSETS) {
            let why =
                "files of a folder passed as -o like= are not copied; zip it as a .keras file to keep them";
            layout.loss(Loss::new(LossKind::Sidecar, ASSETS, why))?;
        }
        Ok(())
    }

    fn member(&self, archive: &Archive, index: usize, context: &dyn Context) -> Result<Vec<u8>> {
        let (member, max) = (archive.member(index)?, context.limits().header_bytes);
        if member.len > max {
            let name = &archive.entries()[index].name;
            return Err(Error::limit(format!("zip entry {name:?} is too large to hold in memory"))
                .expected(format!("at most {max} bytes"))
                .found(member.len));
        }
        let mut bytes = Vec::new();
        member.write(&*self.source, &mut bytes, context)?;
        Ok(bytes)
    }

    fn archive(
        &self,
        path: &str,
        chosen: &[Replacement<'_>],
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<ArchivePlan> {
        let Some(config) = &self.input.config else {
            return Err(Error::usage(
                "a .keras file needs a configuration, which the -o like= file does not have",
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
            let plan = zip.finish()?;
            self.report_lost_assets(layout)?;
            return Ok(ArchivePlan(plan));
        };
        for (index, entry) in archive.entries().iter().enumerate() {
            if &*entry.name == WEIGHTS {
                zip.data(WEIGHTS, len, |layout, file| self.weights(file, chosen, layout))?;
                continue;
            }
            zip.bytes(&entry.name, &self.member(archive, index, context)?)?;
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
            DataLocation::File(extent) => Some(extent),
            // An empty dataset has no bytes to replace, so its location does not matter.
            DataLocation::Empty => Some(file.extent(0, 0)?),
            _ => None,
        };
        Ok(Self { number, shape: dataset.shape, extent })
    }

    fn form(&self) -> String {
        form(self.number.map(|(dtype, _)| dtype), &self.shape)
    }
}

/// Formats a dtype and a shape for error messages.
fn form(dtype: Option<Dtype>, shape: &[u64]) -> String {
    let dtype = dtype.and_then(Dtype::info).map_or("elements without a dtype", |info| info.name());
    format!("{dtype} of shape {shape:?}")
}

/// An archive under construction. `seal` fills in the checksums.
struct ArchivePlan(ZipPlan);

impl TensorPlan for ArchivePlan {
    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        self.0.seal(digests, output)
    }
}
