//! Converts tensors of a graph to tensors of the catalog. A composed tensor becomes several
//! tensors, one for each of its parts. The name of each part starts with the name of the composed
//! tensor (`name.scale`, `name.indices`). The parts are attributes of the composed tensor's node.

use super::{Children, Form, NamedEntry, ObjectPart, Visit, Walk};
use crate::names::PathMark;
use crate::numpy;
use crate::pickle::{CallKind, Value, ValueId};
use crate::rebuild::{
    self, ChannelNumbers, Content, Quantized, RebuiltTensor, Scheme, Sparse, Subclass, Wrapper,
};
use crate::storages::{Location, ViewLocation};
use std::collections::{HashMap, HashSet};
use tensorferry_sdk::{
    Block, Dtype, Error, Loss, LossKind, Node, NodeId, NodeKind, Region, Result, Severity, Storage,
    StorageId, TensorId,
};

/// The tensors that the walk has added to the catalog.
#[derive(Default)]
pub(super) struct AddedTensors {
    /// Name and node of each tensor, in walk order.
    pub(super) tensors: Vec<(String, NodeId)>,
    /// Storages that tensors view directly.
    viewed: HashSet<StorageId>,
    /// Names of tensors whose bytes are computed, and the storages of these bytes.
    made: Vec<(String, StorageId)>,
    /// Numpy arrays, by their IDs in the graph. The bytes of each array are decoded only once.
    arrays: HashMap<ValueId, AddedArray>,
}

/// A numpy array whose bytes have been added to the catalog.
#[derive(Clone)]
struct AddedArray {
    dtype: Dtype,
    shape: Vec<u64>,
    is_fortran: bool,
    /// The storage with the bytes of the array; `None` if the array is empty.
    storage: Option<StorageId>,
}

/// The node of a tensor, and the alternating nodes of its attributes' keys and values.
struct AddedTensor {
    node: NodeId,
    attributes: Vec<NodeId>,
}

impl<'g> Walk<'g, '_, '_, '_> {
    /// Returns the node of a tensor.
    pub(super) fn tensor(&mut self, id: ValueId, rebuilt: RebuiltTensor, outside: PathMark) -> Result<Visit> {
        let name = self.path.text().to_owned();
        if self.to.names.excludes(&name) {
            self.mark_tensor();
            return self.to.catalog.node(Node::none()).map(Visit::Node);
        }
        let (rebuilt, subclass) = match rebuilt {
            RebuiltTensor::Wrapper(wrapper) => return self.wrapper(id, *wrapper, outside),
            RebuiltTensor::Subclass(subclass) => {
                let Subclass { class, tensor, state } = *subclass;
                (tensor, Some((class, state)))
            }
            plain => (plain, None),
        };
        let made = self.describe(rebuilt).map_err(|error| error.tensor(&name))?;
        let Some((class, state)) = subclass else {
            let Some(AddedTensor { node, attributes }) = made else {
                return self.to.catalog.node(Node::none()).map(Visit::Node);
            };
            let node = self.attributed(node, &attributes)?;
            self.placed.tensors.push((name, node));
            return Ok(Visit::Node(node));
        };
        if !class.is_empty() && made.is_some() {
            self.change(&format!("a {class} is read as a plain tensor"))?;
        }
        let entries = self.attributes_of(state)?;
        let visit = match made {
            Some(AddedTensor { node, attributes }) => {
                let attributes = ObjectPart::Mapping(String::new(), attributes, entries);
                let parts = Children::Parts(vec![ObjectPart::Node(node), attributes]);
                self.enter(Some(id), Form::Node(NodeKind::ATTRIBUTED, class), parts, outside)?
            }
            None => self.enter_object(id, class, entries, outside)?,
        };
        self.mark_tensor();
        Ok(visit)
    }

    /// Enters an object that has this class and consists only of these attributes.
    fn enter_object(
        &mut self,
        id: ValueId,
        class: String,
        entries: Vec<(ValueId, ValueId)>,
        outside: PathMark,
    ) -> Result<Visit> {
        let state = ObjectPart::Mapping(String::new(), Vec::new(), entries);
        let parts = Children::Parts(vec![ObjectPart::Nothing, state]);
        self.enter(Some(id), Form::Object(class, CallKind::Function), parts, outside)
    }

    /// Returns the node of a tensor whose class wraps other tensors.
    fn wrapper(&mut self, id: ValueId, wrapper: Wrapper, outside: PathMark) -> Result<Visit> {
        let Wrapper { class, content, state } = wrapper;
        let name = self.path.text().to_owned();
        let object = self.object;
        self.mark_tensor();
        let to = self.to.storages.chosen_decoding().dequantize;
        let (located, requires_grad) = match (content, to) {
            (Content::Whole(view), _) => {
                match self.wrappers.iter_mut().find(|(known, ..)| *known == class) {
                    Some((.., count)) => *count += 1,
                    None => self.wrappers.push((class, name.clone(), 1)),
                }
                (self.to.storages.locate(self.to.catalog, object, &view), view.requires_grad)
            }
            (Content::Blocked(blocked), Some(to)) => {
                (self.to.storages.dequantized_blocks(self.to.catalog, object, &blocked, to), false)
            }
            (Content::Piece(which), _) => {
                return Err(Error::unsupported(format!("the file contains only {which} of a {class}"))
                    .tensor(name)
                    .hint("save full_tensor(), or pass a folder of torch.distributed.checkpoint"));
            }
            // The user requested the values of the tensor instead of its parts. Optimizer state is
            // an exception, because it is not part of the model.
            (Content::Unknown, Some(_)) if !class.contains(".optim.") => {
                let why = format!("ferry does not know the values of a {class}");
                return Err(Error::unsupported(why)
                    .tensor(name)
                    .hint("call dequantize() before saving, or leave out -i dequantize to read the parts"));
            }
            (content, _) => {
                let entries = self.attributes_of(state)?;
                let parts = match entries.is_empty() {
                    true => "",
                    false => "; its attributes are read as separate values",
                };
                let hint = match content {
                    Content::Blocked(_) => "; -i dequantize=f32 reads its elements",
                    _ => "",
                };
                self.lose(LossKind::Tensor, &format!("ferry cannot read a {class}{parts}{hint}"))?;
                return self.enter_object(id, class, entries, outside);
            }
        };
        let located = located.map_err(|error| error.tensor(&name))?;
        let Some(AddedTensor { node, attributes }) = self.placed("", located, requires_grad)? else {
            return self.to.catalog.node(Node::none()).map(Visit::Node);
        };
        let node = self.attributed(node, &attributes)?;
        self.placed.tensors.push((name, node));
        Ok(Visit::Node(node))
    }

    /// Reports the classes whose tensors are read as plain tensors.
    pub(super) fn report_wrappers(&mut self) -> Result<()> {
        for (class, first, count) in std::mem::take(&mut self.wrappers) {
            let why = match count {
                1 => format!("a {class} is read as the plain tensor that it consists of"),
                _ => format!(
                    "{count} tensors of class {class} are read as the plain tensors that they consist of"
                ),
            };
            let loss = Loss::new(LossKind::State, first, why);
            self.to.catalog.loss(loss.severity(Severity::Changed))?;
        }
        Ok(())
    }

    /// Adds a tensor whose bytes are computed, because the file does not contain it in this form.
    pub(super) fn computed_tensor(&mut self, entry: NamedEntry) -> Result<NodeId> {
        let name = self.path.text().to_owned();
        let (dtype, shape, bytes) = match entry {
            NamedEntry::Computed { dtype, shape, bytes } => (dtype, shape, bytes),
            NamedEntry::JsonOfNumber { before, number } => {
                let Some(number) = self.to.storages.number(
                    self.to.catalog,
                    self.object,
                    number,
                    self.to.source,
                    self.to.context,
                )?
                else {
                    self.lose(LossKind::Tensor, "a number in it cannot be read")?;
                    return self.to.catalog.node(Node::none());
                };
                let text = format!("{before}{}}}", python_float(number));
                (Dtype::U8, vec![text.len() as u64], text.into_bytes())
            }
            NamedEntry::Value(_) => return Err(Error::plugin("a value in the graph is not computed")),
        };
        self.mark_tensor();
        let unique = self.take_name(name.clone())?;
        let storage = self.to.catalog.storage(Storage::inline(bytes))?;
        let id = self.to.catalog.tensor(&unique, dtype, &shape, storage, 0)?;
        let node = self.to.catalog.node(Node::tensor(id))?;
        self.placed.tensors.push((name, node));
        Ok(node)
    }

    /// Returns the attributes in the state of a tensor subclass. The state is a dict, a pair of
    /// dicts, or empty.
    fn attributes_of(&mut self, state: ValueId) -> Result<Vec<(ValueId, ValueId)>> {
        let graph = self.graph;
        let states = match graph.tuple(state) {
            Some(pair) if pair.len() == 2 => pair,
            _ => &[state],
        };
        let mut entries = Vec::new();
        for &state in states {
            match graph.entries(state) {
                Some(more) => entries.extend(more),
                None if *graph.value(state) == Value::None => {}
                None => self.lose(LossKind::State, "the state of its class is not a dict; it is left out")?,
            }
        }
        Ok(entries)
    }

    /// Adds attributes to a node, if there are any.
    fn attributed(&mut self, node: NodeId, attributes: &[NodeId]) -> Result<NodeId> {
        if attributes.is_empty() {
            return Ok(node);
        }
        let attributes = self.to.catalog.node(Node::container(NodeKind::MAP, "", attributes))?;
        self.to.catalog.node(Node::container(NodeKind::ATTRIBUTED, "", [node, attributes]))
    }

    /// Adds a tensor and its parts to the catalog. Returns `None` if the tensor is lost.
    fn describe(&mut self, rebuilt: RebuiltTensor) -> Result<Option<AddedTensor>> {
        self.to.context.check_cancelled()?;
        let object = self.object;
        let decoding = self.to.storages.chosen_decoding();
        match rebuilt {
            RebuiltTensor::View(view) => {
                let located = self.to.storages.locate(self.to.catalog, object, &view)?;
                self.placed("", located, view.requires_grad)
            }
            RebuiltTensor::Quantized(quantized) => match decoding.dequantize {
                Some(to) => {
                    let located = self.to.storages.dequantized(self.to.catalog, object, &quantized, to)?;
                    self.placed("", located, quantized.view.requires_grad)
                }
                None => self.quantized(&quantized),
            },
            RebuiltTensor::Sparse(sparse) => {
                if decoding.densify {
                    match self.to.storages.dense(self.to.catalog, object, &sparse)? {
                        ViewLocation::Lost(why) => {
                            self.lose(LossKind::Sparse, &format!("it remains sparse: {why}"))?;
                        }
                        located => return self.placed("", located, false),
                    }
                }
                self.sparse(&sparse)
            }
            RebuiltTensor::Nested([(values_name, values), parts @ ..]) => {
                let Some(node) = self.part_of(values_name, values)? else { return Ok(None) };
                let layout = self.layout_node("torch.jagged")?;
                let mut attributes = vec![self.text_node("layout")?, layout];
                for (name, id) in parts {
                    self.set_part(&mut attributes, name, id)?;
                }
                Ok(Some(AddedTensor { node, attributes }))
            }
            RebuiltTensor::Array(id) => match self.array_tensor(id)? {
                Some(tensor) => {
                    let node = self.to.catalog.node(Node::tensor(tensor))?;
                    Ok(Some(AddedTensor { node, attributes: Vec::new() }))
                }
                None => Ok(None),
            },
            RebuiltTensor::Wrapper(wrapper) => {
                self.lost(&format!("it is a {} inside another tensor", wrapper.class))
            }
            // Only a plain tensor can be inside a tensor of a subclass.
            RebuiltTensor::Subclass(_) => self.lost("it is a subclass of a subclass"),
            RebuiltTensor::Lost(why) => self.lost(&why),
        }
    }

    fn lost(&mut self, why: &str) -> Result<Option<AddedTensor>> {
        self.lose(LossKind::Tensor, why)?;
        Ok(None)
    }

    fn placed(
        &mut self,
        suffix: &str,
        located: ViewLocation,
        requires_grad: bool,
    ) -> Result<Option<AddedTensor>> {
        let Some(node) = self.place(suffix, located)? else { return Ok(None) };
        let mut attributes = Vec::new();
        if requires_grad {
            attributes = vec![self.text_node("requires_grad")?, self.to.catalog.node(Node::bool(true))?];
        }
        Ok(Some(AddedTensor { node, attributes }))
    }

    /// Adds a tensor whose name is the current path with a suffix. Returns `None` if the tensor is
    /// lost.
    fn place(&mut self, suffix: &str, located: ViewLocation) -> Result<Option<NodeId>> {
        let wanted = [self.path.text(), suffix].concat();
        let location = match located {
            ViewLocation::Found(location) => location,
            ViewLocation::Lost(why) => {
                self.to.catalog.loss(Loss::new(LossKind::Tensor, wanted, why))?;
                return Ok(None);
            }
        };
        let name = self.take_name(wanted)?;
        let id = location.add(self.to.catalog, &name).map_err(|error| error.tensor(&name))?;
        if let Location { start: Some((storage, _)), .. } = location {
            if self.to.storages.made_from(storage).is_empty() {
                self.placed.viewed.insert(storage);
            } else {
                self.placed.made.push((name, storage));
            }
        }
        self.to.catalog.node(Node::tensor(id)).map(Some)
    }

    fn take_name(&mut self, wanted: String) -> Result<String> {
        self.count_path_bytes(wanted.len(), wanted.len())?;
        self.to.names.take_for(self.to.catalog, wanted)
    }

    /// Adds a tensor that contains a single number.
    fn number(&mut self, suffix: &str, dtype: Dtype, bytes: [u8; 8]) -> Result<NodeId> {
        let name = self.take_name([self.path.text(), suffix].concat())?;
        let storage = self.to.catalog.storage(Storage::inline(bytes))?;
        let id = self.to.catalog.tensor(&name, dtype, &[], storage, 0)?;
        self.to.catalog.node(Node::tensor(id))
    }

    /// Adds a tensor that contains the shape of a composed tensor.
    fn shape_of(&mut self, size: &[u64]) -> Result<NodeId> {
        let name = self.take_name(format!("{}.shape", self.path.text()))?;
        let bytes: Vec<u8> = size.iter().flat_map(|dim| dim.to_le_bytes()).collect();
        let storage = self.to.catalog.storage(Storage::inline(bytes))?;
        let id = self.to.catalog.tensor(&name, Dtype::I64, &[size.len() as u64], storage, 0)?;
        self.to.catalog.node(Node::tensor(id))
    }

    fn quantized(&mut self, quantized: &Quantized) -> Result<Option<AddedTensor>> {
        let object = self.object;
        let view = &quantized.view;
        let located = self.to.storages.locate_integers(self.to.catalog, object, view)?;
        let located = match located {
            ViewLocation::Lost(why) => {
                ViewLocation::Lost(format!("{why}; -i dequantize=f32 reads its values"))
            }
            at @ ViewLocation::Found(_) => at,
        };
        let Some(AddedTensor { node, mut attributes }) = self.placed("", located, view.requires_grad)? else {
            return Ok(None);
        };
        let scheme = match &quantized.scheme {
            Scheme::PerTensor { .. } => "torch.per_tensor_affine",
            Scheme::PerChannel { .. } => "torch.per_channel_affine",
        };
        let scheme = self.to.catalog.node(Node::container(NodeKind::OBJECT, scheme, []))?;
        attributes.extend([self.text_node("qscheme")?, scheme]);
        match &quantized.scheme {
            Scheme::PerTensor { scale, zero_point } => {
                let scale = self.number(".scale", Dtype::F64, scale.to_le_bytes())?;
                let zero_point = self.number(".zero_point", Dtype::I64, zero_point.to_le_bytes())?;
                attributes.extend([self.text_node("scale")?, scale]);
                attributes.extend([self.text_node("zero_point")?, zero_point]);
            }
            Scheme::PerChannel { scales, zero_points, is_float, axis } => {
                let channels = view.size.get(*axis).copied().unwrap_or(0);
                self.set_numbers(&mut attributes, "scales", scales, channels, *is_float, Dtype::F64)?;
                self.set_numbers(
                    &mut attributes,
                    "zero_points",
                    zero_points,
                    channels,
                    *is_float,
                    Dtype::I64,
                )?;
                let axis = self.number(".axis", Dtype::I64, (*axis as u64).to_le_bytes())?;
                attributes.extend([self.text_node("axis")?, axis]);
            }
        }
        Ok(Some(AddedTensor { node, attributes }))
    }

    /// Adds the scales or zero points of a tensor's channels as an attribute. If they are a list,
    /// `is_float` and `dtype` determine the dtype of the tensor that is created for them.
    fn set_numbers(
        &mut self,
        attributes: &mut Vec<NodeId>,
        name: &str,
        numbers: &ChannelNumbers,
        channels: u64,
        is_float: bool,
        dtype: Dtype,
    ) -> Result<()> {
        let list = match numbers {
            ChannelNumbers::Tensor(id) => {
                if let Some(RebuiltTensor::View(view)) = rebuild::tensor(self.graph, *id)? {
                    let count = tensorferry_sdk::element_count(&view.size)?;
                    crate::decoded::check_channels(count, channels)?;
                }
                return self.set_part(attributes, name, *id);
            }
            ChannelNumbers::List(list) => list,
        };
        crate::decoded::check_channels(list.len() as u64, channels)?;
        let dtype = if is_float { Dtype::F32 } else { dtype };
        #[expect(clippy::cast_possible_truncation, reason = "torch creates a tensor of this dtype")]
        let bytes: Vec<u8> = match dtype {
            Dtype::F32 => list.iter().flat_map(|&number| (number as f32).to_le_bytes()).collect(),
            Dtype::I64 => list.iter().flat_map(|&number| (number as i64).to_le_bytes()).collect(),
            _ => list.iter().flat_map(|number| number.to_le_bytes()).collect(),
        };
        let storage = self.to.catalog.storage(Storage::inline(bytes))?;
        let name_of_all = self.take_name(format!("{}.{name}", self.path.text()))?;
        let tensor = self.to.catalog.tensor(&name_of_all, dtype, &[channels], storage, 0)?;
        let node = self.to.catalog.node(Node::tensor(tensor))?;
        attributes.extend([self.text_node(name)?, node]);
        Ok(())
    }

    fn sparse(&mut self, sparse: &Sparse) -> Result<Option<AddedTensor>> {
        let mut attributes = vec![self.text_node("layout")?, self.layout_node(sparse.layout.name())?];
        for &(name, id) in &sparse.indices {
            self.set_part(&mut attributes, name, id)?;
        }
        let Some(node) = self.part_of("values", sparse.values)? else { return Ok(None) };
        let mut dims = Vec::with_capacity(sparse.size.len());
        for &dim in &sparse.size {
            dims.push(self.to.catalog.node(Node::int(i64::try_from(dim).unwrap_or(i64::MAX)))?);
        }
        let dims = self.to.catalog.node(Node::container(NodeKind::TUPLE, "", dims))?;
        attributes.extend([self.text_node("size")?, self.called_node("torch.Size", dims)?]);
        // The indices of a sparse tensor do not determine its size. Formats that store only a flat
        // list of tensors require the shape as a separate tensor.
        let shape = self.shape_of(&sparse.size)?;
        attributes.extend([self.text_node("shape")?, shape]);
        if let Some(is_coalesced) = sparse.is_coalesced {
            let flag = self.to.catalog.node(Node::bool(is_coalesced))?;
            attributes.extend([self.text_node("is_coalesced")?, flag]);
        }
        Ok(Some(AddedTensor { node, attributes }))
    }

    fn layout_node(&mut self, name: &str) -> Result<NodeId> {
        let name = self.text_node(name)?;
        self.called_node("torch.serialization._get_layout", name)
    }

    /// Returns a node for a call of a class with one argument. The node has the same form as the
    /// nodes for calls in the file.
    fn called_node(&mut self, class: &str, argument: NodeId) -> Result<NodeId> {
        let arguments = self.to.catalog.node(Node::container(NodeKind::TUPLE, "", [argument]))?;
        self.to.catalog.node(Node::container(NodeKind::OBJECT, class, [arguments]))
    }

    fn set_part(&mut self, attributes: &mut Vec<NodeId>, name: &str, id: ValueId) -> Result<()> {
        if let Some(node) = self.part_of(name, id)? {
            attributes.extend([self.text_node(name)?, node]);
        }
        Ok(())
    }

    /// Adds a part of the current tensor. Returns `None` if the part is lost.
    fn part_of(&mut self, name: &str, id: ValueId) -> Result<Option<NodeId>> {
        let object = self.object;
        let located = match rebuild::tensor(self.graph, id)?.map(RebuiltTensor::into_view) {
            Some(Ok(view)) => self.to.storages.locate(self.to.catalog, object, &view)?,
            Some(Err(why)) => ViewLocation::Lost(why),
            None => ViewLocation::Lost("it is a part that is not a plain tensor".to_owned()),
        };
        self.place(&format!(".{name}"), located)
    }

    /// If the value is a numpy array that can be converted to a tensor, returns the node of that
    /// tensor.
    pub(super) fn array(&mut self, id: ValueId) -> Result<Option<Visit>> {
        let is_array = self.graph.called(id).is_some_and(|(global, _)| numpy::makes_array(global));
        if !is_array {
            return Ok(None);
        }
        let name = self.path.text().to_owned();
        let tensor = self.array_tensor(id).map_err(|error| error.tensor(&name))?;
        let Some(tensor) = tensor else { return Ok(None) };
        self.mark_tensor();
        let node = Node { class: "numpy.ndarray".into(), ..Node::tensor(tensor) };
        let node = self.to.catalog.node(node)?;
        self.placed.tensors.push((name, node));
        Ok(Some(Visit::Node(node)))
    }

    /// Adds the elements of an array as a tensor. Returns `None` if the array is lost.
    fn array_tensor(&mut self, id: ValueId) -> Result<Option<TensorId>> {
        let Some(array) = self.placed_array(id)? else { return Ok(None) };
        let AddedArray { dtype, shape, is_fortran, storage } = array;
        let name = self.take_name(self.path.text().to_owned())?;
        let catalog = &mut *self.to.catalog;
        let Some(storage) = storage else {
            return catalog.tensor_of_blocks(&name, dtype, &shape, Vec::new()).map(Some);
        };
        if !is_fortran {
            return catalog.tensor(&name, dtype, &shape, storage, 0).map(Some);
        }
        let mut strides = Vec::with_capacity(shape.len());
        let mut step = 1_i64;
        for &dim in &shape {
            strides.push(step);
            step = step.saturating_mul(i64::try_from(dim).unwrap_or(i64::MAX));
        }
        let block = Block { region: Region::whole(&shape), storage, offset: 0, strides };
        catalog.tensor_of_blocks(&name, dtype, &shape, vec![block]).map(Some)
    }

    fn placed_array(&mut self, id: ValueId) -> Result<Option<AddedArray>> {
        if let Some(known) = self.placed.arrays.get(&id) {
            return Ok(Some(known.clone()));
        }
        let array = match numpy::array(self.graph, id)? {
            Some(Ok(array)) => array,
            Some(Err(what)) => {
                self.lose(LossKind::Tensor, &format!("a numpy array of {what} cannot be read as a tensor"))?;
                return Ok(None);
            }
            None => return self.lost("not an array").map(|_| None),
        };
        let storage = match array.bytes.is_empty() {
            true => None,
            false => {
                let storage = Storage::inline(&*array.bytes).byte_order(array.byte_order);
                Some(self.to.catalog.storage(storage)?)
            }
        };
        let numpy::Array { dtype, shape, is_fortran, .. } = array;
        let placed = AddedArray { dtype, shape, is_fortran, storage };
        self.placed.arrays.insert(id, placed.clone());
        Ok(Some(placed))
    }

    /// Reports tensors that share bytes in the file. They become separate tensors, because the
    /// values of at least one of them are computed.
    pub(super) fn report_aliases(&mut self) -> Result<()> {
        let mut makers: HashMap<StorageId, HashSet<StorageId>> = HashMap::new();
        for &(_, made) in &self.placed.made {
            for &from in self.to.storages.made_from(made) {
                makers.entry(from).or_default().insert(made);
            }
        }
        for (name, made) in std::mem::take(&mut self.placed.made) {
            let shares = self.to.storages.made_from(made).iter().any(|from| {
                self.placed.viewed.contains(from) || makers.get(from).is_some_and(|makers| makers.len() > 1)
            });
            if shares {
                let why = "its values are computed from bytes that other tensors share, so it becomes a separate tensor";
                self.to.catalog.loss(Loss::new(LossKind::Alias, name, why))?;
            }
        }
        Ok(())
    }
}

/// Formats a float in the same way as Python's `json` module, whose exponents have at least two
/// digits.
fn python_float(number: f64) -> String {
    let text = format!("{number:?}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}
