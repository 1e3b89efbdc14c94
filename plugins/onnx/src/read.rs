//! Reads all tensors of a model. The host copies elements that are stored in tensor layout. Lists
//! of values are decoded on demand.

use crate::SUFFIX;
use crate::external::Location;
use crate::message::Message;
use crate::sparse::Sparse;
use crate::tensor_proto::{Elements, TensorProto};
use crate::values::{Values, count_texts};
use crate::walk::{FoundTensor, WalkItem, each_tensor};
use std::collections::HashMap;
use tensorferry_hub::only_file;
use tensorferry_proto_file::{Names, Wire};
use tensorferry_sdk::{
    CODES_OF, CatalogSink, Context, Dtype, FileId, Loss, LossKind, Result, Source, Storage, StorageId,
    TensorDecoder, TensorId, TensorReader, Value, element_count,
};

/// Dtypes that are never used for quantized codes.
const NON_CODE_DTYPES: [Dtype; 7] =
    [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::I64, Dtype::BOOL, Dtype::STR];

pub(crate) struct Reader;

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let name = &only_file(source, &[SUFFIX])?;
        let file = source.open(name)?;
        let mut reading = ModelReader {
            source,
            catalog,
            context,
            name,
            file,
            names: Names::default(),
            values: Vec::new(),
            narrow: HashMap::new(),
            storages: HashMap::new(),
        };
        reading.model().map_err(|error| error.file(name))?;
        Ok(Box::new(reading.values))
    }
}

/// The state of reading a model into a catalog.
struct ModelReader<'a> {
    source: &'a dyn Source,
    catalog: &'a mut dyn CatalogSink,
    context: &'a dyn Context,
    name: &'a str,
    file: FileId,
    names: Names,
    /// Lists of values to decode. The index of a list is the handle of its encoded storage.
    values: Vec<Values>,
    /// Tensors that may contain quantized codes, by name in the model.
    narrow: HashMap<String, TensorId>,
    /// Storages by range. Tensors with the same range share a storage, so that they remain tied.
    storages: HashMap<(FileId, u64, u64), StorageId>,
}

impl ModelReader<'_> {
    fn model(&mut self) -> Result<()> {
        let mut wire = Wire::of_file(self.source, self.file);
        let context = self.context;
        let (mut tensors, mut plain, mut plains) = (0_u64, None, 0_u64);
        let mut codes = HashMap::new();
        let counts = each_tensor(&mut wire, context, &mut |wire, item| {
            match item {
                WalkItem::Dense(found) => self.add(wire, &found).map(drop)?,
                WalkItem::Sparse { name, message } => self.add_sparse(wire, &name, &message)?,
                WalkItem::Plain { name, attribute } => {
                    plain.get_or_insert((name, attribute));
                    plains += 1;
                    return Ok(());
                }
                WalkItem::Codes { name, operation } => {
                    codes.insert(name, operation);
                    return Ok(());
                }
            }
            tensors += 1;
            Ok(())
        })?;
        for (name, operation) in codes {
            if let Some(tensor) = self.narrow.get(&name) {
                self.catalog.attribute(*tensor, CODES_OF, Value::text(operation))?;
            }
        }
        self.metadata(&mut wire)?;
        if let Some((name, attribute)) = plain {
            let why = format!(
                "the {attribute} of a Constant node is not read as a tensor ({plains} such attributes)"
            );
            self.catalog.loss(Loss::new(LossKind::Graph, name, why))?;
        }
        let why = format!(
            "the graph (nodes: {}, functions: {}); its constants are read as tensors ({tensors})",
            counts.nodes, counts.functions
        );
        self.catalog.loss(Loss::new(LossKind::Graph, self.name, why))
    }

    /// Adds the entries of `metadata_props` to the metadata.
    fn metadata(&mut self, wire: &mut Wire<'_>) -> Result<()> {
        let limits = self.context.limits();
        let mut keys = HashMap::new();
        Message::of_range(wire.whole()).each(wire, 14, &mut |wire, entry| {
            let entry = Message::of_range(entry);
            let key = entry.text(wire, 1, limits.name_bytes)?;
            let value = entry.text(wire, 2, limits.header_bytes)?;
            if let Some(first) = keys.get(&key) {
                let why = format!("duplicate key: {first:?} is kept, {value:?} is dropped");
                return self.catalog.loss(Loss::new(LossKind::Metadata, key, why));
            }
            self.catalog.metadata_text(&key, &value)?;
            keys.insert(key, value);
            Ok(())
        })
    }

    /// Adds a tensor and returns its description.
    fn add(&mut self, wire: &mut Wire<'_>, found: &FoundTensor) -> Result<TensorProto> {
        let name = self.own_name(&found.name)?;
        let placed = TensorProto::read(wire, &found.message, self.context.limits())
            .and_then(|tensor| Ok((self.place(wire, &name, &found.message, &tensor)?, tensor)));
        let (id, tensor) = placed.map_err(|error| error.tensor(&name))?;
        if !NON_CODE_DTYPES.contains(&tensor.row.dtype) {
            self.narrow.insert(found.name.clone(), id);
        }
        Ok(tensor)
    }

    fn place(
        &mut self,
        wire: &mut Wire<'_>,
        name: &str,
        message: &Message,
        tensor: &TensorProto,
    ) -> Result<TensorId> {
        let TensorProto { row, dims, len, elements } = tensor;
        let len = *len;
        let storage = match elements {
            Elements::Empty => None,
            Elements::Raw(range) => self.extent(self.file, range.start, len)?,
            Elements::External(location) => self.external(location, len)?,
            Elements::Listed => Some(self.listed(wire, message, tensor)?),
        };
        match storage {
            Some(storage) => self.catalog.tensor(name, row.dtype, dims, storage, 0),
            None => self.catalog.tensor_of_blocks(name, row.dtype, dims, Vec::new()),
        }
    }

    fn extent(&mut self, file: FileId, offset: u64, len: u64) -> Result<Option<StorageId>> {
        if len == 0 {
            return Ok(None);
        }
        if let Some(&known) = self.storages.get(&(file, offset, len)) {
            return Ok(Some(known));
        }
        let storage = self.catalog.storage(Storage::file(file, offset, len))?;
        self.storages.insert((file, offset, len), storage);
        Ok(Some(storage))
    }

    fn external(&mut self, location: &Location, len: u64) -> Result<Option<StorageId>> {
        let (file, offset) = location.find(self.source, self.name, len)?;
        self.extent(file, offset, len)
    }

    fn listed(&mut self, wire: &mut Wire<'_>, message: &Message, tensor: &TensorProto) -> Result<StorageId> {
        let values = Values::find(wire, self.file, message, tensor.row)?;
        let len = values.len();
        let (found, expected) = if tensor.row.dtype == Dtype::STR {
            (count_texts(wire, message, tensor.row)?, element_count(&tensor.dims)?)
        } else {
            (len / tensor.row.item.width(), tensor.len / tensor.row.item.width())
        };
        if found != expected || (tensor.row.dtype != Dtype::STR && len != tensor.len) {
            return Err(wire
                .malformed(message.start(), "the number of values does not match the tensor's shape")
                .expected(expected)
                .found(found));
        }
        let storage = match values.plain() {
            Some(range) => Storage::file(self.file, range.start, range.end - range.start),
            None => {
                self.values.push(values);
                Storage::encoded(self.values.len() as u64 - 1, len)
            }
        };
        self.catalog.storage(storage)
    }

    /// Adds the three parts of a sparse tensor.
    fn add_sparse(&mut self, wire: &mut Wire<'_>, name: &str, message: &Message) -> Result<()> {
        let sparse = Sparse::read(wire, name, message)?;
        let (values, indices) = (self.add(wire, &sparse.values)?, self.add(wire, &sparse.indices)?);
        if !sparse.fits(&values.dims, &indices.dims, indices.row.dtype) {
            return Err(wire
                .malformed(message.start(), "the values and indices of a sparse tensor do not match")
                .expected(format!("[n] values, I64 indices [n] or [n, {}]", sparse.shape.len()))
                .found(format!("{:?} and {:?}", values.dims, indices.dims))
                .tensor(name));
        }
        let name = self.own_name(&sparse.shape_name)?;
        let storage = self.catalog.storage(Storage::inline(sparse.shape_bytes()))?;
        self.catalog.tensor(&name, Dtype::I64, &[sparse.shape.len() as u64], storage, 0).map(drop)
    }

    /// Returns a unique name for a tensor. If a different tensor has the same name, the function
    /// appends a number and reports a loss.
    fn own_name(&mut self, found: &str) -> Result<String> {
        let name = self.names.unique(found);
        if name != found {
            let why = format!("a different tensor has this name; this one is read as {name:?}");
            self.catalog.loss(Loss::new(LossKind::Name, found, why))?;
        }
        Ok(name)
    }
}
