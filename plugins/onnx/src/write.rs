//! Writes a copy of an existing model (`-o like=`) in which the catalog's tensors replace the
//! model's tensors. All other bytes remain the same, except for the lengths of messages that
//! enclose a tensor.
//!
//! External elements are stored in one file, `NAME.onnx.data`, as in `onnx.save_model`. Elements of
//! at least 1 MiB start at multiples of 4096, so that programs can memory-map them.

use crate::SUFFIX;
use crate::message::Message;
use crate::options::{External, MissingValues, WriteOptions};
use crate::sparse::Sparse;
use crate::splice::{Edit, Piece, Pieces, splice};
use crate::tensor_proto::{DATA_LOCATION, ELEMENT_FIELDS, EXTERNAL_DATA, Elements, RAW_DATA, TensorProto};
use crate::walk::{FoundTensor, WalkItem, each_tensor};
use std::collections::HashMap;
use std::sync::Arc;
use tensorferry_hub::{list, only_file};
use tensorferry_proto::wire::put_varint;
use tensorferry_proto_file::{Names, Wire};
use tensorferry_sdk::file_name::strip_suffix;
use tensorferry_sdk::{
    CatalogView, Context, Dtype, Error, FileId, LayoutSink, NothingToSeal, OutputId, Result, Role, Source,
    Target, TensorId, TensorPart, TensorPlan, TensorWriter,
};

/// File name of the model if the output is a folder.
const FOLDER_FILE_NAME: &str = "model.onnx";
/// Maximum length of a protobuf message in bytes.
const MAX_MODEL_BYTES: u64 = i32::MAX as u64;
/// Minimum size in bytes of elements that are stored externally, as in `onnx.save_model`.
const MIN_EXTERNAL_BYTES: u64 = 1024;
/// Minimum size in bytes of elements that are aligned to a page. Shorter elements are aligned to a
/// cache line.
const MIN_PAGE_ALIGNED_LEN: u64 = 1 << 20;
const PAGE: u64 = 4096;
const CACHE_LINE: u64 = 64;

pub(crate) struct Writer {
    pub(crate) options: WriteOptions,
}

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let Some(like) = &self.options.like else {
            return Err(Error::usage(
                "writing an ONNX model requires an existing model that supplies the graph",
            )
            .hint("pass the model to which the tensors belong with -o like=MODEL.onnx"));
        };
        let template = Template::open(context.open(like)?, context).map_err(|error| error.file(like))?;
        let chosen = template.choose(catalog, layout)?;
        if let Some((count, names)) = template.kept(&chosen) {
            if self.options.missing == MissingValues::Refused {
                return Err(Error::usage(format!("the input has no values for {names}"))
                    .file(like)
                    .hint("pass -o missing=keep to keep the values of the -o like= model"));
            }
            context.note(&format!("{count} tensors keep their values from {like:?}: {names}"));
        }
        let path = target.file_or(FOLDER_FILE_NAME);
        let written = template.rewrite(catalog, &chosen, self.options.external, path)?;
        template.lay_out(written, path, layout, context)?;
        Ok(Box::new(NothingToSeal))
    }
}

/// The model that the user passed as `-o like=`.
struct Template {
    source: Arc<dyn Source>,
    name: String,
    file: FileId,
    slots: Vec<Slot>,
    /// The name and the bytes of each sparse tensor's shape. The bytes form an I64 tensor.
    shapes: HashMap<String, Vec<u8>>,
}

/// A tensor of the template, which can be replaced.
struct Slot {
    name: String,
    message: Message,
    tensor: TensorProto,
    /// File and offset of the elements, if they are external.
    outside: Option<(FileId, u64)>,
}

/// The contents of the two output files.
struct OutputFiles {
    model: Pieces,
    /// The alignment and the elements of each external tensor, in order.
    data: Vec<(u64, Piece)>,
}

impl Template {
    fn open(source: Arc<dyn Source>, context: &dyn Context) -> Result<Self> {
        let name = only_file(&*source, &[SUFFIX])?;
        let file = source.open(&name)?;
        let (mut slots, mut shapes) = (Vec::new(), HashMap::new());
        let mut names = Names::default();
        let mut add = |wire: &mut Wire<'_>, found: FoundTensor| -> Result<()> {
            let named = |error: Error| error.tensor(&found.name);
            let tensor = TensorProto::read(wire, &found.message, context.limits()).map_err(named)?;
            let outside = match &tensor.elements {
                Elements::External(location) => {
                    Some(location.find(&*source, &name, tensor.len).map_err(named)?)
                }
                _ => None,
            };
            let name = names.unique(&found.name);
            slots.push(Slot { name, message: found.message, tensor, outside });
            Ok(())
        };
        each_tensor(&mut Wire::of_file(&*source, file), context, &mut |wire, item| match item {
            WalkItem::Dense(found) => add(wire, found),
            WalkItem::Sparse { name, message } => {
                let sparse = Sparse::read(wire, &name, &message)?;
                shapes.insert(sparse.shape_name.clone(), sparse.shape_bytes());
                add(wire, sparse.values)?;
                add(wire, sparse.indices)
            }
            WalkItem::Plain { .. } | WalkItem::Codes { .. } => Ok(()),
        })?;
        Ok(Self { source, name, file, slots, shapes })
    }

    /// Returns the catalog tensor that replaces each tensor of the model. Catalog tensors that do
    /// not replace any tensor are omitted.
    fn choose(
        &self,
        catalog: &dyn CatalogView,
        layout: &mut dyn LayoutSink,
    ) -> Result<Vec<Option<TensorId>>> {
        let by_name: HashMap<&str, usize> =
            self.slots.iter().enumerate().map(|(at, slot)| (&*slot.name, at)).collect();
        let mut chosen = vec![None; self.slots.len()];
        for tensor in catalog.tensor_ids() {
            let view = catalog.tensor(tensor);
            if let Some(shape) = self.shapes.get(view.name) {
                self.check_sparse_shape(catalog, tensor, shape, layout)?;
                continue;
            }
            let Some(&at) = by_name.get(view.name) else {
                layout.omit(tensor, "the -o like= model has no tensor with this name")?;
                continue;
            };
            let own = &self.slots[at];
            let fits = own.tensor.row.dtype == view.dtype && own.tensor.dims == view.shape;
            if fits && view.dtype != Dtype::STR && own.message.only_part().is_some() {
                chosen[at] = Some(tensor);
                continue;
            }
            let why = if fits {
                "ferry replaces neither strings nor tensors stored in several parts in the -o like= model"
                    .to_owned()
            } else {
                let dtype = own.tensor.row.dtype.info().map_or("", |info| info.name());
                format!("the tensor in the -o like= model is {dtype} {:?}", own.tensor.dims)
            };
            layout.omit(tensor, &why)?;
        }
        Ok(chosen)
    }

    /// Returns the number and names of the tensors that keep their values, or `None` if all tensors
    /// are replaced. Tensors without elements and string tensors are not counted. Tensors without
    /// elements are part of the graph, and strings cannot be replaced.
    fn kept(&self, chosen: &[Option<TensorId>]) -> Option<(usize, String)> {
        let kept = || {
            let slots = self.slots.iter().zip(chosen);
            slots.filter(|(slot, tensor)| tensor.is_none() && slot.tensor.len > 0)
        };
        list(kept().map(|(slot, _)| format!("{:?}", slot.name))).map(|names| (kept().count(), names))
    }

    /// Checks the shape of a sparse tensor. ferry cannot change this shape, so the model must
    /// already have it. If the shapes differ, the tensor is omitted.
    fn check_sparse_shape(
        &self,
        catalog: &dyn CatalogView,
        tensor: TensorId,
        shape: &[u8],
        layout: &mut dyn LayoutSink,
    ) -> Result<()> {
        let view = catalog.tensor(tensor);
        let mut bytes = vec![0; shape.len()];
        if view.dtype == Dtype::I64 && view.bytes == shape.len() as u64 {
            catalog.read(tensor, 0, &mut bytes)?;
            if bytes == shape {
                return layout.written_in_bytes(tensor);
            }
        }
        layout.omit(tensor, "the sparse tensor in the -o like= model has a different shape")
    }

    /// Returns the model with its tensors replaced, and the external elements.
    fn rewrite(
        &self,
        catalog: &dyn CatalogView,
        chosen: &[Option<TensorId>],
        external: External,
        path: &str,
    ) -> Result<OutputFiles> {
        let goes_out = |slot: &Slot| match external {
            External::Auto => slot.outside.is_some(),
            External::All => slot.tensor.len >= MIN_EXTERNAL_BYTES,
            External::None => false,
        };
        let written = self.rewrite_with(catalog, chosen, &goes_out, path)?;
        if written.model.len <= MAX_MODEL_BYTES {
            return Ok(written);
        }
        if external == External::Auto {
            let written =
                self.rewrite_with(catalog, chosen, &|slot| slot.tensor.len >= MIN_EXTERNAL_BYTES, path)?;
            if written.model.len <= MAX_MODEL_BYTES {
                return Ok(written);
            }
        }
        Err(Error::unsupported("the model exceeds the maximum length of a protobuf message")
            .expected(format!("at most {MAX_MODEL_BYTES} bytes"))
            .found(written.model.len)
            .hint("pass -o external=all to store elements in a separate file"))
    }

    fn rewrite_with(
        &self,
        catalog: &dyn CatalogView,
        chosen: &[Option<TensorId>],
        goes_out: &dyn Fn(&Slot) -> bool,
        path: &str,
    ) -> Result<OutputFiles> {
        let location = data_name(path);
        let location = location.rsplit('/').next().unwrap_or_default();
        let mut wire = Wire::of_file(&*self.source, self.file);
        let (mut edits, mut data, mut end) = (Vec::new(), Vec::new(), 0_u64);
        for (slot, tensor) in self.slots.iter().zip(chosen) {
            if slot.outside.is_some() && slot.message.only_part().is_none() {
                let why = "a tensor stored in several parts of the model has external data, which ferry cannot move \
                           to the output";
                return Err(Error::unsupported(why).tensor(&slot.name));
            }
            let (Some(place), Some(elements)) =
                (slot.message.only_part(), self.elements(catalog, slot, *tensor))
            else {
                continue;
            };
            let content = if goes_out(slot) {
                let alignment = if slot.tensor.len >= MIN_PAGE_ALIGNED_LEN { PAGE } else { CACHE_LINE };
                let offset = end.next_multiple_of(alignment);
                end = offset.saturating_add(slot.tensor.len);
                data.push((alignment, elements));
                self.message(&mut wire, &place, &|pieces| {
                    push_location(pieces, location, offset, slot.tensor.len);
                })?
            } else if tensor.is_none() && slot.outside.is_none() {
                continue;
            } else {
                self.message(&mut wire, &place, &|pieces| {
                    if slot.tensor.len > 0 {
                        pieces.push_head(RAW_DATA, slot.tensor.len);
                        pieces.push(elements.clone());
                    }
                })?
            };
            edits.push(Edit { place, content });
        }
        edits.sort_by_key(|edit| edit.place.start);
        let whole = wire.whole();
        Ok(OutputFiles { model: splice(&mut wire, self.file, &whole, &edits)?, data })
    }

    /// Returns the elements to write for a slot, which come from the new tensor or from the
    /// template. Returns `None` if the template's elements are not stored in tensor layout.
    fn elements(&self, catalog: &dyn CatalogView, slot: &Slot, tensor: Option<TensorId>) -> Option<Piece> {
        if let Some(tensor) = tensor {
            return Some(Piece::Tensor(tensor, catalog.tensor(tensor).bytes));
        }
        match (&slot.tensor.elements, slot.outside) {
            (Elements::Raw(range), _) => Some(Piece::Kept(self.file, range.clone())),
            (Elements::External(_), Some((file, offset))) => {
                Some(Piece::Kept(file, offset..offset.saturating_add(slot.tensor.len)))
            }
            _ => None,
        }
    }

    /// Returns a `TensorProto` with new elements. The new elements are at the position of the first
    /// old element field.
    fn message(
        &self,
        wire: &mut Wire<'_>,
        place: &std::ops::Range<u64>,
        push: &dyn Fn(&mut Pieces),
    ) -> Result<Pieces> {
        let mut pieces = Pieces::default();
        let mut rest = place.clone();
        let mut is_pushed = false;
        while let Some(field) = wire.next(&mut rest)? {
            if !ELEMENT_FIELDS.contains(&field.number) {
                pieces.push(Piece::Kept(self.file, field.at..rest.start));
            } else if !is_pushed {
                push(&mut pieces);
                is_pushed = true;
            }
        }
        if !is_pushed {
            push(&mut pieces);
        }
        Ok(pieces)
    }

    /// Lays out the external elements first, and then the model, which refers to these elements.
    fn lay_out(
        &self,
        written: OutputFiles,
        path: &str,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<()> {
        let mut held = TemplateBytes { template: self, context, bytes: 0 };
        if written.data.is_empty() {
            // If an older model with this name had a data file, the new output supersedes that
            // file. A name with glob characters would match other files, so such a name is skipped.
            if !path.contains(['*', '?', '[']) {
                layout.supersedes(&data_name(path), Role::Data)?;
            }
        } else {
            let file = layout.file(&data_name(path), Role::Data)?;
            let mut end = 0_u64;
            for (alignment, piece) in written.data {
                let pad = end.next_multiple_of(alignment) - end;
                if pad > 0 {
                    layout.pad(file, pad)?;
                }
                end += pad + held.lay_out(file, piece, layout)?;
            }
        }
        let file = layout.file(path, Role::Index)?;
        for piece in written.model.pieces {
            context.check_cancelled()?;
            held.lay_out(file, piece, layout)?;
        }
        Ok(())
    }
}

/// Limits the number of template bytes that are kept in memory for the layout.
struct TemplateBytes<'a> {
    template: &'a Template,
    context: &'a dyn Context,
    bytes: u64,
}

impl TemplateBytes<'_> {
    /// Appends a piece to a file and returns its length.
    fn lay_out(&mut self, file: OutputId, piece: Piece, layout: &mut dyn LayoutSink) -> Result<u64> {
        match piece {
            Piece::Bytes(bytes) => {
                layout.bytes(file, &bytes)?;
                Ok(bytes.len() as u64)
            }
            Piece::Tensor(tensor, len) => {
                layout.tensor(file, TensorPart::whole(tensor))?;
                Ok(len)
            }
            Piece::Kept(from, range) => {
                let limits = self.context.limits();
                let len = range.end - range.start;
                self.bytes = self.bytes.saturating_add(len);
                if self.bytes > limits.header_bytes {
                    let error = Error::limit(
                        "the retained parts of the -o like= model are too long to hold in memory",
                    );
                    let max = format!("at most {} bytes", limits.header_bytes);
                    let error = error.hint("raise the limit with --limit header_bytes=N");
                    return Err(error.file(&self.template.name).expected(max));
                }
                let bytes = self.template.source.read_vec(from, range.start, len, limits)?;
                layout.bytes(file, &bytes)?;
                Ok(len)
            }
        }
    }
}

/// Returns the name of the file that contains external elements.
fn data_name(path: &str) -> String {
    let stem = strip_suffix(path, SUFFIX).unwrap_or(path);
    format!("{stem}{SUFFIX}.data")
}

/// Appends the fields that specify the location of external elements.
fn push_location(pieces: &mut Pieces, location: &str, offset: u64, len: u64) {
    for (key, value) in
        [("location", location), ("offset", &offset.to_string()), ("length", &len.to_string())]
    {
        let mut entry = Pieces::default();
        for (number, text) in [(1, key), (2, value)] {
            entry.push_head(number, text.len() as u64);
            entry.push(Piece::Bytes(text.as_bytes().to_vec()));
        }
        pieces.push_head(EXTERNAL_DATA, entry.len);
        pieces.append(entry);
    }
    let mut place = Vec::new();
    put_varint(&mut place, u64::from(DATA_LOCATION << 3));
    put_varint(&mut place, 1);
    pieces.push(Piece::Bytes(place));
}
