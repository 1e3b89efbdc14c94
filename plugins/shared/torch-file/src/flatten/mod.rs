//! Flattens a graph. A walk that starts at the root of the graph names each tensor after its path,
//! and converts all values to nodes of the catalog's tree.
//!
//! | Value | Node |
//! |---|---|
//! | a call, an object | OBJECT of its class: the arguments (a tuple), the state, the items (a map), appended values (a list), the keywords (a map). Trailing parts are omitted, and NONE fills gaps. The node's bytes are [`NEW`] if `__new__` is called instead of the class |
//! | a function or class that is not called | OBJECT of that class, without children |
//! | `OrderedDict`, `Counter`, `Namespace`, a subclass of `dict` | MAP of its class |
//! | `deque`, a subclass of `list` | LIST of its class |
//! | one of these containers with attributes, a factory or a maximum length | ATTRIBUTED: the container, the attributes |
//! | `set`, `complex`, `bytes`, as any protocol encodes them | SET, COMPLEX, BYTES |
//! | `frozenset` | OBJECT `builtins.frozenset` with a list of the members |
//! | a path, a numpy scalar | TEXT or a number, with its class |
//! | a tensor, a numpy array | TENSOR |
//! | a tensor that requires a gradient | ATTRIBUTED: the TENSOR, `{"requires_grad": true}` |
//! | a quantized tensor | ATTRIBUTED: the TENSOR of integers, `{"qscheme", "scale", "zero_point"}` |
//! | a sparse tensor | ATTRIBUTED: the TENSOR of values, `{"layout", "indices", "size", "shape"}` |
//! | a nested tensor | ATTRIBUTED: the TENSOR of the buffer, `{"layout", "sizes", "strides", "offsets"}` |
//! | a tensor of a subclass | ATTRIBUTED of its class: the TENSOR, its attributes |
//! | a parameter | OBJECT `torch._utils._rebuild_parameter`, whose first argument is the TENSOR |
//! | a tensor of a class that wraps other tensors | a TENSOR if the elements are known; otherwise OBJECT of its class, with its attributes |
//! | a module | MAP `collections.OrderedDict`: its `state_dict()` |
//!
//! | File | Contents |
//! |---|---|
//! | `tensors.rs` | nodes of tensors and their parts |
//! | `objects.rs` | nodes of calls |
//! | `scalars.rs` | nodes of values that contain no other values |
//! | `modules.rs` | the state dict of a module |
//! | `module_classes.rs` | entries that classes of modules add to the state dict |
//!
//! The walk uses an explicit stack instead of recursion. A value without tensors becomes a single
//! node, even if the walk reaches the value several times. A value with tensors is walked again
//! each time, because its tensors get different names. The number of repetitions is limited by the
//! size of the graph, so that a few nested lists cannot expand to millions of nodes.

mod module_classes;
mod modules;
mod objects;
mod scalars;
mod tensors;

use crate::names::{Names, Path, PathMark};
use crate::object_file::ObjectFile;
use crate::pickle::{CallKind, Graph, Value, ValueId};
use crate::storages::Storages;
use modules::ClassLosses;
use tensorferry_sdk::{
    CatalogSink, Context, Dtype, Error, Loss, LossKind, Node, NodeId, NodeKind, Result, Severity, Source,
};
use tensors::AddedTensors;

/// The bytes of an OBJECT node for an object that `cls.__new__(cls, ...)` creates.
pub const NEW: &[u8] = b"new";

/// Maximum average number of times that the walk reaches a value. Checkpoints contain the same
/// container only a few times, such as in `model` and `ema`, or in the halves of a tied module.
const MAX_REPEATS: u64 = 64;

/// Maximum average number of name bytes per value. A tensor consists of about a dozen values.
const NAME_BYTES_OF_EACH: u64 = 64;

/// Number of name bytes that are always allowed, even for small graphs.
const MIN_NAME_BYTE_LIMIT: u64 = 4 << 20;

/// The catalog that receives flattened graphs, with the state that several graphs in the same
/// catalog share.
pub struct Destination<'c, 'l> {
    /// Receives the tensors, the tree and the losses.
    pub catalog: &'c mut dyn CatalogSink,
    pub storages: &'c mut Storages<'l>,
    /// The names in the catalog that are in use.
    pub names: &'c mut Names,
    /// The source of the file. The walk reads tensors from it, because some names and strings
    /// depend on the values of tensors.
    pub source: &'c dyn Source,
    pub context: &'c dyn Context,
}

/// The result of flattening a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlattenedObject {
    /// Node of the root.
    pub node: NodeId,
    /// If the root is a plain mapping, alternating nodes of its keys and values.
    pub entries: Option<Vec<NodeId>>,
    /// Name and node of each tensor, in walk order.
    pub tensors: Vec<(String, NodeId)>,
}

/// Walks an object, starting at `value`, and adds its tensors, nodes and losses to the catalog.
/// `under` is the path of the object, which is empty for a whole checkpoint. The caller must set
/// the root of the catalog. Fails if values are nested too deeply or reached too often.
pub fn flatten(
    object: &ObjectFile,
    value: ValueId,
    under: &str,
    to: &mut Destination<'_, '_>,
) -> Result<FlattenedObject> {
    let graph = object.graph();
    let mut walk = Walk {
        object,
        graph,
        to,
        nodes: vec![None; graph.len()],
        open: vec![false; graph.len()],
        reported: vec![false; graph.len()],
        path: Path::at(under),
        path_bytes: 0,
        steps: 0,
        frames: Vec::new(),
        placed: AddedTensors::default(),
        modules: ClassLosses::default(),
        wrappers: Vec::new(),
        root_entries: None,
    };
    let node = walk.run(value)?;
    walk.report_aliases()?;
    walk.report_wrappers()?;
    walk.report_modules()?;
    walk.report_hidden()?;
    Ok(FlattenedObject { node, entries: walk.root_entries, tensors: walk.placed.tensors })
}

struct Walk<'g, 'd, 'c, 'l> {
    object: &'g ObjectFile,
    graph: &'g Graph,
    to: &'d mut Destination<'c, 'l>,
    /// The node of each value that the walk has finished and does not have to walk again.
    nodes: Vec<Option<NodeId>>,
    /// For each value, whether the walk is currently inside it.
    open: Vec<bool>,
    /// Whether each call has been handled, which includes reporting the call if necessary.
    reported: Vec<bool>,
    /// Path of the current value.
    path: Path,
    path_bytes: u64,
    steps: u64,
    frames: Vec<Frame<'g>>,
    placed: AddedTensors,
    modules: ClassLosses,
    /// Classes whose tensors are read as plain tensors: the class, the name of the first tensor,
    /// and the number of tensors.
    wrappers: Vec<(String, String, usize)>,
    /// Alternating nodes of the root's keys and values. They are set at the end of the walk if the
    /// root is a mapping.
    root_entries: Option<Vec<NodeId>>,
}

/// A container that the walk has entered but not left.
struct Frame<'g> {
    /// The value that the frame represents; `None` if the frame represents only a part of a value.
    value: Option<ValueId>,
    form: Form,
    children: Children<'g>,
    next: usize,
    nodes: Vec<NodeId>,
    /// The position in the path to which the walk returns when it leaves the frame.
    outside: PathMark,
    has_tensors: bool,
}

/// The kind of node that the walk creates when it leaves a frame.
enum Form {
    Node(NodeKind, String),
    Object(String, CallKind),
}

impl Form {
    fn plain(kind: NodeKind) -> Self {
        Self::Node(kind, String::new())
    }
}

/// The children of a frame.
enum Children<'g> {
    /// Children whose names are their indices.
    Indexed(&'g [ValueId]),
    /// Children without names.
    Bare(&'g [ValueId]),
    /// Children whose names are their keys.
    Entries(Vec<(ValueId, ValueId)>),
    /// Children whose names are strings instead of values in the graph.
    Named(Vec<(String, NamedEntry)>),
    /// The parts of an object.
    Parts(Vec<ObjectPart<'g>>),
}

/// The value of a named child.
enum NamedEntry {
    Value(ValueId),
    /// A tensor whose bytes are computed here, because the file does not contain it in this form.
    Computed {
        dtype: Dtype,
        shape: Vec<u64>,
        bytes: Vec<u8>,
    },
    /// A tensor that contains a serialized JSON object. One value in the JSON object is a number
    /// that is read from another tensor.
    JsonOfNumber {
        before: String,
        number: ValueId,
    },
}

impl NamedEntry {
    fn computed(dtype: Dtype, shape: &[u64], bytes: &[u8]) -> Self {
        Self::Computed { dtype, shape: shape.to_vec(), bytes: bytes.to_vec() }
    }
}

enum ObjectPart<'g> {
    Nothing,
    /// A node that already exists.
    Node(NodeId),
    Value(ValueId),
    Arguments(&'g [ValueId]),
    BareArguments(&'g [ValueId]),
    /// A mapping: its class name, existing nodes of keys and values, and additional entries.
    Mapping(String, Vec<NodeId>, Vec<(ValueId, ValueId)>),
    /// A list with its class name and its items.
    Listing(String, &'g [ValueId]),
}

/// The result of visiting a value.
enum Visit {
    Node(NodeId),
    Entered,
}

impl<'g> Walk<'g, '_, '_, '_> {
    fn run(&mut self, root: ValueId) -> Result<NodeId> {
        let mut done = match self.visit(root, self.path.mark())? {
            Visit::Node(node) => return Ok(node),
            Visit::Entered => None,
        };
        while let Some(frame) = self.frames.last_mut() {
            frame.nodes.extend(done.take());
            let outside = self.path.mark();
            done = match self.step(outside)? {
                Some(Visit::Node(node)) => {
                    self.path.truncate(outside);
                    Some(node)
                }
                Some(Visit::Entered) => None,
                None => Some(self.leave()?),
            };
        }
        done.ok_or_else(|| Error::plugin("the walk did not end"))
    }

    /// Visits the next child of the innermost frame. Returns `None` if there are no more children.
    fn step(&mut self, outside: PathMark) -> Result<Option<Visit>> {
        let Some(frame) = self.frames.last_mut() else { return Ok(None) };
        let place = frame.next;
        frame.next += 1;
        let (value, key) = match &mut frame.children {
            Children::Indexed(items) => match items.get(place) {
                Some(&item) => (item, Some(Segment::Index(place))),
                None => return Ok(None),
            },
            Children::Bare(items) => match items.get(place) {
                Some(&item) => (item, None),
                None => return Ok(None),
            },
            Children::Entries(entries) => match entries.get(place / 2) {
                Some(&(key, _)) if place % 2 == 0 => (key, Some(Segment::Key(key))),
                Some(&(key, value)) => (value, Some(Segment::Key(key))),
                None => return Ok(None),
            },
            Children::Named(entries) => match entries.get_mut(place / 2) {
                Some((name, _)) if place % 2 == 0 => {
                    return self.to.catalog.node(Node::text(name)).map(|node| Some(Visit::Node(node)));
                }
                Some((name, NamedEntry::Value(value))) => (*value, Some(Segment::Name(std::mem::take(name)))),
                Some((name, entry)) => {
                    let name = std::mem::take(name);
                    let entry = std::mem::replace(entry, NamedEntry::computed(Dtype::U8, &[0], &[]));
                    self.descend(Some(Segment::Name(name)))?;
                    return self.computed_tensor(entry).map(|node| Some(Visit::Node(node)));
                }
                None => return Ok(None),
            },
            Children::Parts(parts) => {
                let part = parts.get_mut(place).map(|part| std::mem::replace(part, ObjectPart::Nothing));
                return part.map(|part| self.part(part, outside)).transpose();
            }
        };
        // Most values are scalars, which do not need a path.
        if let Some(node) = self.nodes[value.index()] {
            return Ok(Some(Visit::Node(node)));
        }
        if let Some(node) = self.scalar(value)? {
            return Ok(Some(Visit::Node(node)));
        }
        self.descend(key)?;
        self.visit(value, outside).map(Some)
    }

    fn part(&mut self, part: ObjectPart<'g>, outside: PathMark) -> Result<Visit> {
        let (form, children) = match part {
            ObjectPart::Nothing => return self.to.catalog.node(Node::none()).map(Visit::Node),
            ObjectPart::Node(node) => return Ok(Visit::Node(node)),
            ObjectPart::Value(value) => return self.visit(value, outside),
            ObjectPart::Arguments(items) => (Form::plain(NodeKind::TUPLE), Children::Indexed(items)),
            ObjectPart::BareArguments(items) => (Form::plain(NodeKind::TUPLE), Children::Bare(items)),
            ObjectPart::Listing(class, items) => {
                (Form::Node(NodeKind::LIST, class), Children::Indexed(items))
            }
            ObjectPart::Mapping(class, nodes, entries) => {
                let visit =
                    self.enter(None, Form::Node(NodeKind::MAP, class), Children::Entries(entries), outside)?;
                if let Some(frame) = self.frames.last_mut() {
                    frame.nodes = nodes;
                }
                return Ok(visit);
            }
        };
        self.enter(None, form, children, outside)
    }

    /// Appends a name to the path.
    fn descend(&mut self, segment: Option<Segment>) -> Result<()> {
        let Some(segment) = segment else { return Ok(()) };
        let before = self.path.text().len();
        match segment {
            Segment::Index(index) => self.path.push_index(index),
            Segment::Key(key) => self.path.push_key(self.graph, key, self.to.context.limits().name_bytes),
            Segment::Name(name) => self.path.push_text(&name),
        }
        let len = self.path.text().len();
        self.count_path_bytes(len - before, len)
    }

    /// Counts bytes of names against the limits. The file contains each part of a path only once,
    /// but the name of each tensor contains its full path.
    pub(super) fn count_path_bytes(&mut self, added: usize, len: usize) -> Result<()> {
        let limits = self.to.context.limits();
        self.path_bytes += added as u64;
        let max = limits.header_bytes.min(MIN_NAME_BYTE_LIMIT + NAME_BYTES_OF_EACH * self.graph.len() as u64);
        if len as u64 > limits.name_bytes || self.path_bytes > max {
            return Err(Error::limit("the names of nested values are too long")
                .expected(format!("at most {} bytes each, {max} in all", limits.name_bytes)));
        }
        Ok(())
    }

    fn count_steps(&mut self, steps: usize) -> Result<()> {
        self.steps += 1 + steps as u64;
        let max = MAX_REPEATS * (self.graph.len() as u64 + 1024);
        if self.steps > max {
            return Err(Error::limit("shared values expand to too many values")
                .expected(format!("at most {max}, for {} values", self.graph.len())));
        }
        Ok(())
    }

    fn visit(&mut self, id: ValueId, outside: PathMark) -> Result<Visit> {
        if let Some(node) = self.nodes[id.index()] {
            return Ok(Visit::Node(node));
        }
        if let Some(node) = self.scalar(id)? {
            return Ok(Visit::Node(node));
        }
        if self.open[id.index()] {
            self.lose(LossKind::State, "it contains itself")?;
            return self.to.catalog.node(Node::none()).map(Visit::Node);
        }
        let graph = self.graph;
        let (form, children) = match graph.value(id) {
            Value::List(items) => (Form::plain(NodeKind::LIST), Children::Indexed(items)),
            Value::Tuple(_) => {
                (Form::plain(NodeKind::TUPLE), Children::Indexed(graph.tuple(id).unwrap_or_default()))
            }
            Value::Set(items) => (Form::plain(NodeKind::SET), Children::Indexed(items)),
            Value::Dict(entries) => {
                (Form::plain(NodeKind::MAP), Children::Entries(graph.last_of_each(entries)))
            }
            Value::Call(call) => return self.call(id, call, outside),
            _ => {
                self.lose(LossKind::Tensor, "it is a storage without a tensor")?;
                self.mark_tensor();
                return self.to.catalog.node(Node::none()).map(Visit::Node);
            }
        };
        self.enter(Some(id), form, children, outside)
    }

    fn enter(
        &mut self,
        value: Option<ValueId>,
        form: Form,
        children: Children<'g>,
        outside: PathMark,
    ) -> Result<Visit> {
        let limits = self.to.context.limits();
        if self.frames.len() as u64 >= limits.nesting {
            return Err(Error::limit("values are nested too deeply")
                .hint("raise the limit with --limit nesting=N")
                .expected(format!("at most {} levels", limits.nesting))
                .found(format!("at {:.200?}", self.path.text())));
        }
        let count = match &children {
            Children::Indexed(items) | Children::Bare(items) => items.len(),
            Children::Entries(entries) => 2 * entries.len(),
            Children::Named(entries) => 2 * entries.len(),
            Children::Parts(parts) => parts.len(),
        };
        self.count_steps(count)?;
        if let Some(id) = value {
            self.open[id.index()] = true;
        }
        let nodes = Vec::with_capacity(count);
        self.frames.push(Frame { value, form, children, next: 0, nodes, outside, has_tensors: false });
        Ok(Visit::Entered)
    }

    /// Leaves the innermost frame and returns its node.
    fn leave(&mut self) -> Result<NodeId> {
        let frame =
            self.frames.pop().ok_or_else(|| Error::plugin("the walk leaves more values than it entered"))?;
        self.path.truncate(frame.outside);
        if self.frames.is_empty() && matches!(frame.form, Form::Node(NodeKind::MAP, _)) {
            self.root_entries = Some(frame.nodes.clone());
        }
        let node = match frame.form {
            Form::Node(kind, class) => Node::container(kind, &class, frame.nodes),
            Form::Object(class, kind) => {
                let bytes: &[u8] = if kind == CallKind::New { NEW } else { &[] };
                Node { bytes: bytes.into(), ..Node::container(NodeKind::OBJECT, &class, frame.nodes) }
            }
        };
        let node = self.to.catalog.node(node)?;
        if let Some(id) = frame.value {
            self.open[id.index()] = false;
            if !frame.has_tensors {
                self.nodes[id.index()] = Some(node);
            }
        }
        if frame.has_tensors {
            self.mark_tensor();
        }
        Ok(node)
    }

    fn mark_tensor(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.has_tensors = true;
        }
    }

    fn lose(&mut self, kind: LossKind, why: &str) -> Result<()> {
        self.to.catalog.loss(Loss::new(kind, self.path.text(), why))
    }

    /// Reports that a value is read in a different form.
    fn change(&mut self, why: &str) -> Result<()> {
        let loss = Loss::new(LossKind::State, self.path.text(), why);
        self.to.catalog.loss(loss.severity(Severity::Changed))
    }
}

enum Segment {
    Index(usize),
    Key(ValueId),
    Name(String),
}
