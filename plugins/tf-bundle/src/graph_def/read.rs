//! Reads the constants of a graph as tensors. If the bytes of a constant already have the layout of
//! a tensor, the catalog refers to them directly. A constant with a single value becomes a block
//! that repeats the value. Other lists of values are decoded on request.

use super::constants::{Constant, each_constant};
use crate::document::Document;
use crate::dtype;
use crate::message_kind::{self, MessageKind};
use crate::tensor_proto::{Header, Values};
use tensorferry_proto_file::{Names, Wire};
use tensorferry_sdk::{
    Block, ByteSink, CatalogSink, Context, Dtype, Entry, Error, Limits, Loss, LossKind, Region, Result,
    Source, Storage, TensorDecoder, TensorReader, element_count,
};

pub(crate) struct GraphReader;

/// Decodes constants. The handle of a constant is its index in `values`.
struct Constants {
    graph: Document,
    values: Vec<Values>,
}

impl TensorReader for GraphReader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let Entry::File(name) = source.entry() else {
            let error = Error::usage("a graph is a single file, not a folder or prefix");
            return Err(error.hint("pass a .pb or .pbtxt file").file(source.entry().name()));
        };
        let graph = open(source, name, context.limits()).map_err(|error| error.file(name))?;
        let mut placing = ConstantAdder {
            catalog,
            graph: &graph,
            names: Names::default(),
            values: Vec::new(),
            repeated_len: 0,
            limits: context.limits(),
        };
        let mut wire = graph.wire(source);
        let counts = each_constant(&mut wire, context, &mut |wire, constant| placing.add(wire, &constant))?;
        let values = placing.values;
        drop(wire);
        if counts.functions > 0 || counts.nodes > counts.constants {
            let why = format!(
                "the graph ({} nodes, {} functions) is dropped; its {} constants become tensors",
                counts.nodes, counts.functions, counts.constants
            );
            catalog.loss(Loss::new(LossKind::Graph, name, why))?;
        }
        Ok(Box::new(Constants { graph, values }))
    }
}

impl TensorDecoder for Constants {
    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let values = usize::try_from(handle).ok().and_then(|index| self.values.get(index));
        let values = values.ok_or_else(|| Error::plugin(format!("unknown encoded storage {handle}")))?;
        values.write(&mut self.graph.wire(source), output, context.limits())
    }
}

/// Opens the graph in a file. If the file contains a different message, the error names that
/// message.
fn open(source: &dyn Source, name: &str, limits: &Limits) -> Result<Document> {
    match message_kind::detect(source, source.open(name)?)? {
        Some((MessageKind::Graph, form)) => Document::open(source, name, "tensorflow.GraphDef", form, limits),
        Some((MessageKind::SavedModel, _)) => {
            Err(Error::unsupported("the file is a SavedModel, whose variables are stored next to it")
                .hint("pass --from saved-model to read it"))
        }
        Some((MessageKind::MetaGraph, _)) => {
            Err(Error::unsupported("the file is a MetaGraphDef (.meta), which has no weights")
                .hint("pass the checkpoint of the same name, without .meta"))
        }
        None => {
            let expected = "a GraphDef, in wire form (.pb) or in text form (.pbtxt)";
            Err(Error::malformed("the file is not a graph").offset(0).expected(expected))
        }
    }
}

/// Adds constants to a catalog.
struct ConstantAdder<'a> {
    catalog: &'a mut dyn CatalogSink,
    graph: &'a Document,
    names: Names,
    values: Vec<Values>,
    /// Number of bytes in encoded storages that repeat other bytes.
    repeated_len: u64,
    limits: &'a Limits,
}

impl ConstantAdder<'_> {
    fn add(&mut self, wire: &mut Wire<'_>, constant: &Constant) -> Result<()> {
        let name = self.names.unique(&constant.name);
        if name != constant.name {
            let why = format!("another constant has the same name, so this one is renamed to {name:?}");
            self.catalog.loss(Loss::new(LossKind::Name, &constant.name, why))?;
        }
        self.place(wire, constant, &name)
            .map_err(|error| wire.located(error.tensor(&name), constant.tensor.start))
    }

    fn place(&mut self, wire: &mut Wire<'_>, constant: &Constant, name: &str) -> Result<()> {
        let header = Header::read(wire, &constant.tensor)?;
        let Some(dtype) = dtype::of_number(header.dtype) else {
            let why = format!("ferry cannot represent values of its dtype {}", dtype::name(header.dtype));
            return self.catalog.loss(Loss::new(LossKind::Tensor, name, why));
        };
        let shape = &header.shape;
        let elements = element_count(shape)?;
        if elements == 0 {
            return self.catalog.tensor_of_blocks(name, dtype, shape, Vec::new()).map(drop);
        }
        let values = Values::find(wire, &constant.tensor, dtype, elements)?;
        if let (Some(file), Some(range)) = (self.graph.file(), values.stored_range()) {
            let storage = self.catalog.storage(Storage::file(file, range.start, range.end - range.start))?;
            return self.catalog.tensor(name, dtype, shape, storage, 0).map(drop);
        }
        if let Some(element) = values.constant(wire, self.limits)? {
            return self.repeat(name, dtype, shape, element);
        }
        self.encode(name, dtype, shape, values)
    }

    fn repeat(&mut self, name: &str, dtype: Dtype, shape: &[u64], element: Vec<u8>) -> Result<()> {
        let storage = self.catalog.storage(Storage::inline(element))?;
        let strides = vec![0; shape.len()];
        let block = Block { region: Region::whole(shape), storage, offset: 0, strides };
        self.catalog.tensor_of_blocks(name, dtype, shape, vec![block]).map(drop)
    }

    fn encode(&mut self, name: &str, dtype: Dtype, shape: &[u64], values: Values) -> Result<()> {
        self.repeated_len = self.repeated_len.saturating_add(values.repeated_len());
        if self.repeated_len > self.limits.expanded_bytes {
            return Err(Error::limit("constants repeat their last value too often")
                .hint("raise the limit with --limit expanded_bytes=N")
                .expected(format!("at most {} bytes more than are stored", self.limits.expanded_bytes))
                .found(self.repeated_len));
        }
        let storage = self.catalog.storage(Storage::encoded(self.values.len() as u64, values.len()))?;
        self.values.push(values);
        self.catalog.tensor(name, dtype, shape, storage, 0).map(drop)
    }
}
