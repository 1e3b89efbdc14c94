//! Writes the pickle of an output, which contains everything except the tensors' bytes. The pickle
//! contains the catalog's tree, or a flat state dict if the catalog has no tree.
//!
//! For each value that torch refuses to load with `weights_only`, the writer writes `None` and
//! reports a loss. If the tree would lose a tensor in this way, or does not contain all tensors,
//! the writer replaces it with a flat state dict.

use super::composite::CompositeTensor;
use super::losses::Losses;
use super::object::{Object, latin1_bytes};
use super::storages::StoragePlan;
use super::tree::{Form, StateTree, Step};
use super::unpacked::{self, MemberKey};
use super::{forms, rebuild};
use tensorferry_sdk::{
    CatalogView, Context, Error, LayoutSink, Limits, Loss, LossKind, Node, NodeId, NodeKind, Result, TensorId,
};
use tensorferry_torch_file::{PickleWriter, TorchDtype};

/// Returns the pickle of a catalog's state. `storages` contains the locations of the tensors.
pub(super) fn pickle(
    catalog: &dyn CatalogView,
    storages: &StoragePlan,
    layout: &mut dyn LayoutSink,
    context: &dyn Context,
) -> Result<Vec<u8>> {
    let Some(root) = catalog.root() else {
        return rebuild::state_dict(catalog, storages);
    };
    let mut writer = StateWriter {
        catalog,
        tree: forms::read(catalog, root, storages, context)?,
        storages,
        pickle: PickleWriter::new(),
        waiting: vec![Task::Value(root, None)],
        written: vec![false; storages.places.len()],
        losses: Losses::default(),
    };
    writer.run(context.limits())?;
    let missing = catalog.tensor_ids().find(|&id| storages.place(id).is_some() && !writer.has_written(id));
    if let Some(missing) = missing {
        let why = format!(
            "the tensors are written as a flat state dict, without the other state: \
             torch.load(weights_only=True) accepts no part of the tree that contains tensor {:?}",
            catalog.tensor(missing).name
        );
        layout.loss(Loss::new(LossKind::State, ".", why))?;
        let is_quantized = |id: &TensorId| storages.place(*id).is_some_and(|place| place.dtype.quantized);
        for id in catalog.tensor_ids().filter(is_quantized) {
            let why = "torch cannot load the tensor without its scales, and a flat state dict has none";
            layout.loss(Loss::new(LossKind::Tensor, catalog.tensor(id).name, why))?;
        }
        return rebuild::state_dict(catalog, storages);
    }
    writer.losses.report(layout)?;
    Ok(writer.pickle.finish())
}

const REFUSED_KEY: &str = "an entry whose key torch.load(weights_only=True) refuses is left out";

/// A writer that pickles a tree with a stack of tasks instead of recursion.
struct StateWriter<'a> {
    catalog: &'a dyn CatalogView,
    tree: StateTree<'a>,
    storages: &'a StoragePlan,
    pickle: PickleWriter,
    waiting: Vec<Task>,
    written: Vec<bool>,
    losses: Losses,
}

/// A task in writing the pickle.
enum Task {
    /// Writes the value of a node. The step leads from its parent to the node.
    Value(NodeId, Option<Step>),
    /// Writes an index as the key of a dict.
    Index(usize),
    /// Memoizes the last object that was written, which is the value of this node and is used again
    /// later.
    Memoize(NodeId),
    Append,
    SetItems,
    Tuple,
    /// Turns the preceding list into a set.
    Set,
    /// Sets the attributes of an object from the mapping that was written after it.
    Build,
    /// Turns the preceding tensor into a parameter.
    Parameter {
        requires_grad: bool,
    },
    /// Writes the end of a tensor that is quantized per channel.
    PerChannel {
        axis: i64,
    },
    /// Writes a mark before the parts of a composite tensor.
    Mark,
    /// Writes the end of a sparse tensor, after the tensor's size.
    Sparse {
        is_coalesced: Option<bool>,
    },
}

impl StateWriter<'_> {
    fn run(&mut self, limits: &Limits) -> Result<()> {
        while let Some(task) = self.waiting.pop() {
            // Some values are written again for each object that shares them, so the pickle could
            // grow without limit.
            if self.pickle.byte_count() as u64 > limits.header_bytes {
                return Err(Error::limit("the pickle of the non-tensor state is too long")
                    .expected(format!("at most {} bytes", limits.header_bytes)));
            }
            match task {
                Task::Value(id, step) => {
                    self.tree.set_parent_step(id, step);
                    self.value(id)?;
                }
                Task::Index(index) => self.pickle.int(i64::try_from(index).unwrap_or(i64::MAX)),
                Task::Memoize(id) => {
                    let memo = self.pickle.put();
                    self.tree.set_memo(id, memo);
                }
                Task::Append => self.pickle.appends(),
                Task::SetItems => self.pickle.set_items(),
                Task::Tuple => self.pickle.tuple_since_mark(),
                Task::Set => {
                    self.pickle.appends();
                    self.pickle.call(1);
                }
                Task::Build => self.pickle.build(),
                Task::Parameter { requires_grad } => {
                    self.pickle.bool(requires_grad);
                    rebuild::backward_hooks(&mut self.pickle);
                    self.pickle.call(3);
                }
                Task::PerChannel { axis } => {
                    self.pickle.int(axis);
                    self.end_quantized();
                }
                Task::Mark => self.pickle.mark(),
                Task::Sparse { is_coalesced } => {
                    if let Some(flag) = is_coalesced {
                        self.pickle.bool(flag);
                    }
                    self.pickle.tuple_since_mark();
                    self.pickle.tuple_since_mark();
                    self.pickle.reduce();
                }
            }
        }
        Ok(())
    }

    fn has_written(&self, tensor: TensorId) -> bool {
        self.written.get(tensor.0 as usize).is_some_and(|&written| written)
    }

    fn value(&mut self, id: NodeId) -> Result<()> {
        self.tree.check_cancelled(id)?;
        if let Some(memo) = self.tree.memo(id) {
            self.pickle.get(memo);
            return Ok(());
        }
        let Some(node) = self.tree.node(id).cloned() else {
            self.pickle.none();
            return Ok(());
        };
        match self.tree.form(id) {
            Form::Written { .. } => {}
            Form::Omitted => {
                self.pickle.none();
                return Ok(());
            }
            Form::Refused => {
                self.pickle.none();
                self.losses.refuse(&self.tree, id, &node);
                return Ok(());
            }
        }
        if self.tree.is_shared(id) {
            self.waiting.push(Task::Memoize(id));
        }
        match node.kind {
            NodeKind::BOOL | NodeKind::INT | NodeKind::FLOAT | NodeKind::COMPLEX => {
                self.report_plain_class(id, &node.class, "number");
            }
            NodeKind::TEXT | NodeKind::BYTES => self.report_plain_class(id, &node.class, "string"),
            NodeKind::TENSOR => self.report_plain_class(id, &node.class, "tensor"),
            _ => {}
        }
        match node.kind {
            NodeKind::BOOL => self.pickle.bool(node.as_bool() == Some(true)),
            NodeKind::INT => match node.as_int() {
                Some(number) => self.pickle.int(number),
                None => self.pickle.long(&node.bytes),
            },
            NodeKind::FLOAT => self.pickle.float(node.as_float().unwrap_or(f64::NAN)),
            NodeKind::COMPLEX => self.complex(&node),
            NodeKind::TEXT => self.pickle.text(node.as_text().unwrap_or_default())?,
            NodeKind::BYTES => self.pickle.byte_string(&node.bytes)?,
            NodeKind::LIST => {
                self.report_plain_class(id, &node.class, "list");
                self.pickle.empty_list();
                self.members(id, &node, Task::Append);
            }
            NodeKind::TUPLE => {
                self.report_plain_class(id, &node.class, "tuple");
                self.members(id, &node, Task::Tuple);
            }
            NodeKind::SET => {
                self.report_plain_class(id, &node.class, "set");
                self.set(id, &node.children);
            }
            NodeKind::MAP => self.map(id, &node),
            NodeKind::TENSOR => self.tensor(id, &node, false)?,
            NodeKind::ATTRIBUTED => self.attributed(id, &node)?,
            NodeKind::OBJECT => self.object(id)?,
            _ => self.pickle.none(),
        }
        Ok(())
    }

    /// Writes a mark, and schedules tasks that write the members of a container and end the
    /// container.
    fn members(&mut self, id: NodeId, node: &Node, end: Task) {
        self.pickle.mark();
        self.waiting.push(end);
        let children = node.children.iter().enumerate().rev();
        self.waiting.extend(children.map(|(index, &child)| Task::Value(child, Some((id, index)))));
    }

    fn complex(&mut self, node: &Node) {
        let (real, imaginary) = node.bytes.split_at(node.bytes.len() / 2);
        let float = |bytes: &[u8]| bytes.try_into().map_or(f64::NAN, f64::from_le_bytes);
        self.pickle.global("__builtin__", "complex");
        self.pickle.float(float(real));
        self.pickle.float(float(imaginary));
        self.pickle.call(2);
    }

    fn set(&mut self, id: NodeId, members: &[NodeId]) {
        self.pickle.global("__builtin__", "set");
        self.pickle.empty_list();
        self.pickle.mark();
        self.waiting.push(Task::Set);
        for (index, &member) in members.iter().enumerate().rev() {
            if self.tree.is_hashable(member) {
                self.waiting.push(Task::Value(member, Some((id, index))));
            } else {
                self.losses.add(
                    &self.tree,
                    id,
                    "a member that torch.load(weights_only=True) could not hash is left out",
                );
            }
        }
    }

    fn map(&mut self, id: NodeId, node: &Node) {
        match &*node.class {
            "collections.OrderedDict" => self.pickle.call_without_arguments("collections", "OrderedDict"),
            "collections.Counter" => self.pickle.call_without_arguments("collections", "Counter"),
            _ => {
                self.report_plain_class(id, &node.class, "dict");
                self.pickle.empty_dict();
            }
        }
        self.entries(id, node);
    }

    /// Schedules tasks that write the entries of a mapping.
    fn entries(&mut self, id: NodeId, node: &Node) {
        self.pickle.mark();
        self.waiting.push(Task::SetItems);
        let entries: Vec<(NodeId, NodeId)> = node.entries().collect();
        for (index, (key, value)) in entries.into_iter().enumerate().rev() {
            if !self.tree.is_hashable(key) {
                self.losses.add(&self.tree, id, REFUSED_KEY);
            } else if self.tree.form(value) != Form::Omitted {
                self.waiting.push(Task::Value(value, Some((id, 2 * index + 1))));
                self.waiting.push(Task::Value(key, Some((id, 2 * index))));
            }
        }
    }

    fn tensor(&mut self, id: NodeId, node: &Node, requires_grad: bool) -> Result<()> {
        let place = node.as_tensor().and_then(|tensor| Some((tensor, self.storages.place(tensor)?)));
        let Some((tensor, place)) = place else {
            self.pickle.none();
            return Ok(());
        };
        self.written[tensor.0 as usize] = true;
        let requires_grad = requires_grad && self.can_require_grad(id, place.dtype, false);
        rebuild::tensor(&mut self.pickle, place, self.storages, requires_grad)
    }

    /// Returns whether torch can set `requires_grad` on a tensor of this dtype, or on a parameter
    /// that wraps the tensor. Records a loss if torch cannot.
    fn can_require_grad(&mut self, id: NodeId, dtype: &TorchDtype, wrapped: bool) -> bool {
        if !dtype.is_differentiable() {
            self.losses.add(
                &self.tree,
                id,
                "requires_grad is left out: torch sets it only on floating-point and complex tensors",
            );
            return false;
        }
        // `_rebuild_tensor_v3` sets the flag before the storage, and torch rejects this order.
        if dtype.storage_class.is_none() && !wrapped {
            let why =
                format!("requires_grad is left out: torch cannot load a tensor of {} with it", dtype.name);
            self.losses.add(&self.tree, id, why);
            return false;
        }
        true
    }

    fn attributed(&mut self, id: NodeId, node: &Node) -> Result<()> {
        let [value, attributes] = *node.children else { return Ok(()) };
        let (Some(inner), Some(set)) = (self.tree.node(value).cloned(), self.tree.node(attributes).cloned())
        else {
            self.pickle.none();
            return Ok(());
        };
        if inner.kind == NodeKind::MAP
            && &*inner.class == "collections.OrderedDict"
            && set.kind == NodeKind::MAP
        {
            self.waiting.push(Task::Build);
            self.waiting.push(Task::Value(attributes, Some((id, 1))));
            self.waiting.push(Task::Value(value, Some((id, 0))));
            return Ok(());
        }
        if inner.kind != NodeKind::TENSOR {
            self.losses.add(
                &self.tree,
                id,
                "its attributes are left out: torch does not set them on such objects",
            );
            self.waiting.push(Task::Value(value, Some((id, 0))));
            return Ok(());
        }
        if let Some(composite) = CompositeTensor::of(&self.tree, node) {
            return self.composite(id, value, &inner, composite);
        }
        let name_of = |key| self.tree.node(key).and_then(Node::as_text);
        let is_flag = |&(key, _): &(NodeId, NodeId)| name_of(key) == Some("requires_grad");
        let flag = set.entries().find(is_flag).and_then(|(_, flag)| self.tree.node(flag)?.as_bool());
        if set.kind != NodeKind::MAP || set.entries().any(|entry| !is_flag(&entry)) {
            self.losses.add(&self.tree, id, "a tensor's attributes other than requires_grad are left out");
        }
        self.tensor(id, &inner, flag == Some(true))
    }

    /// Writes a composite tensor.
    fn composite(
        &mut self,
        id: NodeId,
        elements: NodeId,
        node: &Node,
        composite: CompositeTensor,
    ) -> Result<()> {
        match composite {
            CompositeTensor::PerTensor { scale, zero_point } => {
                let (scale, zero_point) = (self.number(scale)?, self.number(zero_point)?);
                self.begin_quantized(node, "per_tensor_affine")?;
                self.pickle.float(f64::from_le_bytes(scale));
                self.pickle.int(i64::from_le_bytes(zero_point));
                self.end_quantized();
            }
            CompositeTensor::PerChannel { scales, zero_points, axis } => {
                let axis = i64::from_le_bytes(self.number(axis)?);
                self.begin_quantized(node, "per_channel_affine")?;
                self.waiting.push(Task::PerChannel { axis });
                self.waiting.push(Task::Value(zero_points, Some((id, 1))));
                self.waiting.push(Task::Value(scales, Some((id, 1))));
            }
            CompositeTensor::Sparse { layout, indices, size, shape, is_coalesced } => {
                // The tensor `shape` repeats the size, so it counts as written.
                if let Some(shape) = shape.and_then(|id| self.tree.node(id)?.as_tensor()) {
                    self.written[shape.0 as usize] = true;
                }
                self.pickle.global("torch._utils", "_rebuild_sparse_tensor");
                self.pickle.mark();
                self.waiting.push(Task::Sparse { is_coalesced });
                self.waiting.push(Task::Value(size, Some((id, 1))));
                self.waiting.push(Task::Value(elements, Some((id, 0))));
                self.waiting.extend(indices.iter().rev().map(|&part| Task::Value(part, Some((id, 1)))));
                self.waiting.push(Task::Mark);
                self.waiting.push(Task::Value(layout, Some((id, 1))));
            }
            CompositeTensor::Nested { attributes } => {
                let why =
                    "a nested tensor becomes a dict of its parts: torch.load(weights_only=True) refuses it";
                self.losses.change(&self.tree, id, why);
                self.pickle.empty_dict();
                self.pickle.mark();
                self.pickle.text("values")?;
                self.waiting.push(Task::SetItems);
                let parts = self.tree.node(attributes).map(|node| node.children.to_vec()).unwrap_or_default();
                self.waiting.extend(parts.iter().rev().map(|&part| Task::Value(part, Some((attributes, 0)))));
                self.waiting.push(Task::Value(elements, Some((id, 0))));
            }
        }
        Ok(())
    }

    /// Returns the eight bytes of a tensor that contains one number, and marks the tensor as
    /// written. The pickle contains the number instead of the tensor.
    fn number(&mut self, id: NodeId) -> Result<[u8; 8]> {
        let mut bytes = [0; 8];
        if let Some(tensor) = self.tree.node(id).and_then(Node::as_tensor) {
            self.catalog.read(tensor, 0, &mut bytes)?;
            self.written[tensor.0 as usize] = true;
        }
        Ok(bytes)
    }

    fn begin_quantized(&mut self, integers: &Node, scheme: &'static str) -> Result<()> {
        self.pickle.global("torch._utils", "_rebuild_qtensor");
        self.pickle.mark();
        if let Some((tensor, place)) =
            integers.as_tensor().and_then(|id| Some((id, self.storages.place(id)?)))
        {
            self.written[tensor.0 as usize] = true;
            rebuild::view(&mut self.pickle, place, self.storages)?;
        }
        self.pickle.mark();
        self.pickle.global("torch", scheme);
        Ok(())
    }

    fn end_quantized(&mut self) {
        self.pickle.tuple_since_mark();
        // torch sets `requires_grad` only on floating-point and complex tensors.
        self.pickle.bool(false);
        rebuild::backward_hooks(&mut self.pickle);
        self.pickle.tuple_since_mark();
        self.pickle.reduce();
    }

    fn object(&mut self, id: NodeId) -> Result<()> {
        match Object::of(&self.tree, id) {
            Some(Object::Dtype(name)) => self.pickle.global("torch", name),
            Some(Object::Size(dimensions)) => {
                self.pickle.global("torch", "Size");
                self.pickle.int_tuple(&dimensions);
                self.pickle.call(1);
            }
            Some(Object::Device { kind, index }) => {
                self.pickle.global("torch", "device");
                self.pickle.text(&kind)?;
                if let Some(index) = index {
                    self.pickle.int(index);
                }
                self.pickle.call(if index.is_some() { 2 } else { 1 });
            }
            Some(Object::Layout(name)) => {
                self.pickle.global("torch.serialization", "_get_layout");
                self.pickle.text(name)?;
                self.pickle.call(1);
            }
            Some(Object::ByteArray(content)) => {
                let bytes = content
                    .map_or(Some(Vec::new()), |content| self.tree.node(content).and_then(latin1_bytes));
                let Some(bytes) = bytes else {
                    self.losses.add(&self.tree, id, "a bytearray whose text is not Latin-1 becomes None");
                    self.pickle.none();
                    return Ok(());
                };
                self.pickle.global("__builtin__", "bytearray");
                self.pickle.byte_string(&bytes)?;
                self.pickle.call(1);
            }
            Some(Object::FrozenSet(members)) => {
                self.report_plain_class(id, "builtins.frozenset", "set");
                let members = self.tree.node(members).map(|node| node.children.to_vec()).unwrap_or_default();
                self.set(id, &members);
            }
            Some(Object::Parameter { tensor, requires_grad, attributes }) => {
                if let Some(what) = attributes {
                    self.losses.add(&self.tree, id, format!("a parameter's {what} are left out"));
                }
                let dtype = self.dtype_of(tensor);
                let requires_grad =
                    requires_grad && dtype.is_some_and(|dtype| self.can_require_grad(id, dtype, true));
                self.pickle.global("torch._utils", "_rebuild_parameter");
                self.waiting.push(Task::Parameter { requires_grad });
                self.waiting.push(Task::Value(tensor, Some((id, 0))));
            }
            None => self.unpack(id),
        }
        Ok(())
    }

    /// Writes a dict in place of an object whose class torch refuses. Schedules tasks that write
    /// the members of the object as entries of the dict.
    fn unpack(&mut self, id: NodeId) {
        let class = self.tree.node(id).map(|node| node.class.clone()).unwrap_or_default();
        let why =
            format!("{class:?} becomes a dict of its contents: torch.load(weights_only=True) refuses it");
        self.losses.change(&self.tree, id, why);
        self.pickle.empty_dict();
        self.pickle.mark();
        self.waiting.push(Task::SetItems);
        for (key, value, step) in unpacked::members(&self.tree, id).unwrap_or_default().into_iter().rev() {
            let key = match key {
                MemberKey::Index(index) => Task::Index(index),
                MemberKey::Node(key, step) if self.tree.is_hashable(key) => Task::Value(key, Some(step)),
                MemberKey::Node(..) => {
                    self.losses.add(&self.tree, id, REFUSED_KEY);
                    continue;
                }
            };
            if self.tree.form(value) != Form::Omitted {
                self.waiting.extend([Task::Value(value, Some(step)), key]);
            }
        }
    }

    /// Returns the dtype of a node that is a tensor, with or without attributes.
    fn dtype_of(&self, id: NodeId) -> Option<&'static TorchDtype> {
        let node = self.tree.node(id)?;
        let node =
            if node.kind == NodeKind::ATTRIBUTED { self.tree.node(*node.children.first()?)? } else { node };
        Some(self.storages.place(node.as_tensor()?)?.dtype)
    }

    /// Records a change if a value has a custom class, because the value is written with a plain
    /// class instead.
    fn report_plain_class(&mut self, id: NodeId, class: &str, plain: &str) {
        if !class.is_empty() {
            let why =
                format!("{class:?} becomes a plain {plain}: torch.load(weights_only=True) refuses the class");
            self.losses.change(&self.tree, id, why);
        }
    }
}
