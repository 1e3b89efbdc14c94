//! To flatten a graph is to walk it from its root: each tensor gets the name of where it lies, and
//! everything becomes the catalog's tree.
//!
//! | Value | Node |
//! |---|---|
//! | a call, an object | OBJECT of its class: the arguments (a tuple), the state, the items (a map), what was appended (a list), the keywords (a map); as many as there are, NONE for a gap. The node's own bytes are [`NEW`] where the class's `__new__` is called, not the class |
//! | a function or class alone | OBJECT of its class, without children |
//! | `OrderedDict` | MAP of class `collections.OrderedDict` |
//! | an `OrderedDict` with attributes | ATTRIBUTED: the map, the attributes |
//! | `set`, `complex`, `bytes` | SET, COMPLEX, BYTES, however the protocol spells them |
//! | `frozenset` | OBJECT `builtins.frozenset` of its members, a list |
//! | a tensor that requires a gradient | ATTRIBUTED: the TENSOR, `{"requires_grad": true}` |
//! | a parameter | OBJECT `torch._utils._rebuild_parameter`, whose first argument is the TENSOR |
//!
//! The walk keeps its own stack. A value without tensors in it becomes one node, however often it is
//! reached; one with tensors is walked again each time, since its tensors have other names there. How
//! often is bounded by the size of the graph, so that a few nested lists cannot become millions.

use crate::known;
use crate::names::{Mark, Path};
use crate::pickle::{Call, CallKind, Graph, Value, ValueId};
use crate::rebuild::{self, Rebuilt};
use crate::{Located, Names, ObjectFile, Storages};
use tensorferry_sdk::{CatalogSink, Context, Error, Loss, LossKind, Node, NodeId, NodeKind, Result};

/// The bytes of an OBJECT that `cls.__new__(cls, ...)` makes.
pub const NEW: &[u8] = b"new";

/// How often a value may be reached on average. Checkpoints share a container a few times at most:
/// `model` and `ema`, or the halves of a tied module.
const MOST_REPEATS: u64 = 64;

/// Where flattened graphs go: one catalog, and the names in it, however many graphs there are.
pub struct Destination<'c, 'l> {
    /// Takes the tensors, the tree and the losses.
    pub catalog: &'c mut dyn CatalogSink,
    /// Its storages.
    pub storages: &'c mut Storages<'l>,
    /// The names that were given so far.
    pub names: &'c mut Names,
    /// The run.
    pub context: &'c dyn Context,
}

/// What a graph became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flattened {
    /// The node of its root.
    pub node: NodeId,
    /// The keys and values in turn, if the root is a mapping and nothing else.
    pub entries: Option<Vec<NodeId>>,
    /// Each tensor's name and node, in the order of the walk.
    pub tensors: Vec<(String, NodeId)>,
}

/// Walks the object of a file from `value`; fills the catalog's tensors, nodes and losses. `under` is
/// the name of the place where the object lies itself: empty for a whole checkpoint. The catalog's
/// root is for the caller to set.
///
/// # Errors
/// What the views give, with the tensor's name; a limit on nesting or repetition.
pub fn flatten(
    object: &ObjectFile,
    value: ValueId,
    under: &str,
    to: &mut Destination<'_, '_>,
) -> Result<Flattened> {
    let graph = object.graph();
    let mut walk = Walk {
        object,
        graph,
        to,
        nodes: vec![None; graph.len()],
        open: vec![false; graph.len()],
        path: Path::at(under),
        path_bytes: 0,
        steps: 0,
        frames: Vec::new(),
        root_entries: None,
        tensors: Vec::new(),
    };
    let node = walk.run(value)?;
    Ok(Flattened { node, entries: walk.root_entries, tensors: walk.tensors })
}

struct Walk<'g, 'd, 'c, 'l> {
    object: &'g ObjectFile,
    graph: &'g Graph,
    to: &'d mut Destination<'c, 'l>,
    /// The node of each value that needs no second walk.
    nodes: Vec<Option<NodeId>>,
    /// The values that the walk is inside of.
    open: Vec<bool>,
    /// The name of the place where the walk is.
    path: Path,
    path_bytes: u64,
    steps: u64,
    frames: Vec<Frame<'g>>,
    /// What the root was made of, once it is, if it is a mapping.
    root_entries: Option<Vec<NodeId>>,
    /// The tensors so far.
    tensors: Vec<(String, NodeId)>,
}

/// A container that the walk is inside of.
struct Frame<'g> {
    /// The value, where the frame is all of one.
    value: Option<ValueId>,
    form: Form,
    children: Children<'g>,
    next: usize,
    nodes: Vec<NodeId>,
    /// Where the path ended outside.
    outside: Mark,
    has_tensors: bool,
}

/// What a finished frame becomes.
enum Form {
    Node(NodeKind, &'static str),
    Object(String, CallKind),
}

/// What a frame walks through.
enum Children<'g> {
    /// Named by their place.
    Indexed(&'g [ValueId]),
    /// Without a name of their own.
    Bare(&'g [ValueId]),
    /// Named by their keys.
    Entries(Vec<(ValueId, ValueId)>),
    /// The pieces of an object.
    Parts(Vec<Part<'g>>),
}

enum Part<'g> {
    Nothing,
    Value(ValueId),
    Arguments(&'g [ValueId]),
    BareArguments(&'g [ValueId]),
    Entries(Vec<(ValueId, ValueId)>),
    Appended(&'g [ValueId]),
    /// The mapping inside an object that is a mapping with attributes.
    Mapping(Vec<(ValueId, ValueId)>),
}

/// What visiting a value came to.
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
        done.ok_or_else(|| Error::plugin("a walk without an end"))
    }

    /// Visits the next child of the innermost frame; `None` if there is none left.
    fn step(&mut self, outside: Mark) -> Result<Option<Visit>> {
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
            Children::Parts(parts) => {
                let part = parts.get_mut(place).map(|part| std::mem::replace(part, Part::Nothing));
                return part.map(|part| self.part(part, outside)).transpose();
            }
        };
        // Scalars are most of what there is, and their names are not needed.
        if let Some(node) = self.nodes[value.index()] {
            return Ok(Some(Visit::Node(node)));
        }
        if let Some(node) = self.scalar(value)? {
            return Ok(Some(Visit::Node(node)));
        }
        self.descend(key)?;
        self.visit(value, outside).map(Some)
    }

    fn part(&mut self, part: Part<'g>, outside: Mark) -> Result<Visit> {
        let (form, children) = match part {
            Part::Nothing => return self.to.catalog.node(Node::none()).map(Visit::Node),
            Part::Value(value) => return self.visit(value, outside),
            Part::Arguments(items) => (Form::Node(NodeKind::TUPLE, ""), Children::Indexed(items)),
            Part::BareArguments(items) => (Form::Node(NodeKind::TUPLE, ""), Children::Bare(items)),
            Part::Entries(entries) => (Form::Node(NodeKind::MAP, ""), Children::Entries(entries)),
            Part::Appended(items) => (Form::Node(NodeKind::LIST, ""), Children::Indexed(items)),
            Part::Mapping(entries) => (Form::Node(NodeKind::MAP, ORDERED_DICT), Children::Entries(entries)),
        };
        self.enter(None, form, children, outside)
    }

    /// Goes one name deeper.
    fn descend(&mut self, segment: Option<Segment>) -> Result<()> {
        let Some(segment) = segment else { return Ok(()) };
        let before = self.path.text().len();
        match segment {
            Segment::Index(index) => self.path.push_index(index),
            Segment::Key(key) => self.path.push_key(self.graph, key),
        }
        let limits = self.to.context.limits();
        let len = self.path.text().len();
        self.path_bytes += (len - before) as u64;
        if len as u64 > limits.name_bytes || self.path_bytes > limits.header_bytes {
            return Err(Error::limit("the names of nested values are too long").expected(format!(
                "at most {} bytes each, {} in all",
                limits.name_bytes, limits.header_bytes
            )));
        }
        Ok(())
    }

    fn visit(&mut self, id: ValueId, outside: Mark) -> Result<Visit> {
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
            Value::List(items) => (Form::Node(NodeKind::LIST, ""), Children::Indexed(items)),
            Value::Tuple(_) => {
                (Form::Node(NodeKind::TUPLE, ""), Children::Indexed(graph.tuple(id).unwrap_or_default()))
            }
            Value::Set(items) => (Form::Node(NodeKind::SET, ""), Children::Indexed(items)),
            Value::Dict(entries) => {
                (Form::Node(NodeKind::MAP, ""), Children::Entries(graph.last_of_each(entries)))
            }
            Value::Call(call) => return self.call(id, call, outside),
            _ => {
                self.lose(LossKind::Tensor, "a storage on its own, without a tensor")?;
                self.mark_tensor();
                return self.to.catalog.node(Node::none()).map(Visit::Node);
            }
        };
        self.enter(Some(id), form, children, outside)
    }

    fn call(&mut self, id: ValueId, call: &'g Call, outside: Mark) -> Result<Visit> {
        let graph = self.graph;
        if let Some(rebuilt) = rebuild::tensor(graph, id).map_err(|e| e.tensor(self.path.text()))? {
            self.mark_tensor();
            return self.tensor(rebuilt).map(Visit::Node);
        }
        let global = graph.global(call.function);
        let arguments = graph.tuple(call.arguments).unwrap_or_default();
        for (class, is_set) in [("set", true), ("frozenset", false)] {
            let items = match graph.plain_call(id, "builtins", class) {
                Some(&[items]) => graph.sequence(items),
                _ => None,
            };
            let Some(items) = items else { continue };
            let (form, children) = if is_set {
                (Form::Node(NodeKind::SET, ""), Children::Indexed(items))
            } else {
                let form = Form::Object("builtins.frozenset".to_owned(), CallKind::Function);
                (form, Children::Parts(vec![Part::Appended(items)]))
            };
            return self.enter(Some(id), form, children, outside);
        }
        if global.is_some_and(|global| global.is("collections", "OrderedDict"))
            && call.appended.is_empty()
            && let Some(entries) = graph.entries(id)
        {
            let Some(state) = call.state else {
                return self.enter(
                    Some(id),
                    Form::Node(NodeKind::MAP, ORDERED_DICT),
                    Children::Entries(entries),
                    outside,
                );
            };
            let parts = vec![Part::Mapping(entries), self.state(state)];
            return self.enter(
                Some(id),
                Form::Node(NodeKind::ATTRIBUTED, ""),
                Children::Parts(parts),
                outside,
            );
        }
        self.report(call)?;
        let class = match global {
            Some(global) => global.path(),
            // The result of a call is called: the class that it names is not known.
            None => graph
                .called(call.function)
                .map_or_else(String::new, |(global, _)| format!("{}()", global.path())),
        };
        let bare = global.is_some_and(rebuild::is_parameter);
        let mut parts = vec![if bare { Part::BareArguments(arguments) } else { Part::Arguments(arguments) }];
        let rest = [
            call.state.map(|state| self.state(state)),
            (!call.items.is_empty()).then(|| Part::Entries(graph.last_of_each(&call.items))),
            (!call.appended.is_empty()).then_some(Part::Appended(&call.appended)),
            call.keywords.map(Part::Value),
        ];
        let used = rest.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        parts.extend(rest.into_iter().take(used).map(|part| part.unwrap_or(Part::Nothing)));
        self.enter(Some(id), Form::Object(class, call.kind), Children::Parts(parts), outside)
    }

    /// An object's state: its attributes, which are named like the entries of a dict; with slots it is
    /// a pair of such dicts.
    fn state(&self, state: ValueId) -> Part<'g> {
        let attributes = |&id: &ValueId| matches!(self.graph.value(id), Value::None | Value::Dict(_));
        match self.graph.tuple(state) {
            Some(pair) if pair.len() == 2 && pair.iter().all(attributes) => Part::BareArguments(pair),
            _ => Part::Value(state),
        }
    }

    /// Says what a call would have done, unless it is known to hold data only.
    fn report(&mut self, call: &Call) -> Result<()> {
        let graph = self.graph;
        let Some(global) = graph.global(call.function) else {
            let by = graph
                .called(call.function)
                .map_or_else(|| "another call".to_owned(), |(global, _)| global.path());
            return self.lose(LossKind::State, &format!("calls what {by} returns: it was not called"));
        };
        if known::is_numpy_array(global) {
            return self.lose(LossKind::Tensor, "a numpy array is kept as state, not as a tensor");
        }
        if call.kind == CallKind::Function && !known::holds_data(global) {
            return self.lose(
                LossKind::State,
                &format!("calls {}: it was not called, its result is not known", global.path()),
            );
        }
        Ok(())
    }

    fn tensor(&mut self, rebuilt: Rebuilt) -> Result<NodeId> {
        let view = match rebuilt {
            Rebuilt::View(view) => view,
            Rebuilt::Lost(why) => {
                self.lose(LossKind::Tensor, &why)?;
                return self.to.catalog.node(Node::none());
            }
        };
        self.to.context.check_cancelled()?;
        let name = self.to.names.take(self.path.text());
        let to = &mut *self.to;
        let located =
            to.storages.locate(to.catalog, self.object, &view).map_err(|error| error.tensor(&name))?;
        let id = match located {
            Located::At(location) => location.add(to.catalog, &name)?,
            Located::Lost(why) => {
                self.lose(LossKind::Tensor, &why)?;
                return self.to.catalog.node(Node::none());
            }
        };
        if name != self.path.text() {
            self.lose(LossKind::Name, &format!("another tensor has this name; it is {name:?} now"))?;
        }
        if let Some(class) = &view.class {
            self.lose(
                LossKind::State,
                &format!("it is a {class}; it is read as a plain tensor, without its attributes"),
            )?;
        }
        let mut node = self.to.catalog.node(Node::tensor(id))?;
        if view.requires_grad {
            node = self.requiring_grad(node)?;
        }
        self.tensors.push((name, node));
        Ok(node)
    }

    fn requiring_grad(&mut self, tensor: NodeId) -> Result<NodeId> {
        let key = self.to.catalog.node(Node::text("requires_grad"))?;
        let value = self.to.catalog.node(Node::bool(true))?;
        let attributes = self.to.catalog.node(Node::map("", &[(key, value)]))?;
        self.to.catalog.node(Node::container(NodeKind::ATTRIBUTED, "", [tensor, attributes]))
    }

    /// The node of a value that contains nothing; it is made once.
    fn scalar(&mut self, id: ValueId) -> Result<Option<NodeId>> {
        let graph = self.graph;
        let node = match graph.value(id) {
            Value::None => Node::none(),
            Value::Bool(value) => Node::bool(*value),
            Value::Int(value) => Node::int(*value),
            Value::Long(bytes) => Node::scalar(NodeKind::INT, bytes),
            Value::Float(value) => Node::float(*value),
            Value::Text(text) => {
                if text.as_str().is_none() {
                    self.lose(
                        LossKind::State,
                        "a string with lone surrogates, which are written as \\udcff",
                    )?;
                }
                Node::text(&text.escaped())
            }
            Value::Bytes(bytes) => Node::scalar(NodeKind::BYTES, bytes),
            Value::Global(_) => {
                let class = graph.global(id).map_or_else(String::new, crate::pickle::Global::path);
                Node::container(NodeKind::OBJECT, &class, [])
            }
            Value::Call(_) => {
                let complex = graph.plain_call(id, "builtins", "complex");
                let complex = complex.and_then(|parts| match *parts {
                    [real, imaginary] => graph.float(real).zip(graph.float(imaginary)),
                    _ => None,
                });
                if let Some((real, imaginary)) = complex {
                    Node::scalar(NodeKind::COMPLEX, &[real.to_le_bytes(), imaginary.to_le_bytes()].concat())
                } else if let Some(bytes) = graph.bytes(id) {
                    Node::scalar(NodeKind::BYTES, &bytes)
                } else {
                    return Ok(None);
                }
            }
            Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::Dict(_) | Value::Persistent(_) => {
                return Ok(None);
            }
        };
        let node = self.to.catalog.node(node)?;
        self.nodes[id.index()] = Some(node);
        Ok(Some(node))
    }

    fn enter(
        &mut self,
        value: Option<ValueId>,
        form: Form,
        children: Children<'g>,
        outside: Mark,
    ) -> Result<Visit> {
        let limits = self.to.context.limits();
        if self.frames.len() as u64 >= limits.nesting {
            return Err(Error::limit("values are nested too deep")
                .expected(format!("at most {} levels", limits.nesting))
                .found(format!("at {:.200?}", self.path.text())));
        }
        let count = match &children {
            Children::Indexed(items) | Children::Bare(items) => items.len(),
            Children::Entries(entries) => 2 * entries.len(),
            Children::Parts(parts) => parts.len(),
        };
        self.steps += 1 + count as u64;
        let most = MOST_REPEATS * (self.graph.len() as u64 + 1024);
        if self.steps > most {
            return Err(Error::limit("shared values unfold into too many")
                .expected(format!("at most {most}, for {} values", self.graph.len())));
        }
        if let Some(id) = value {
            self.open[id.index()] = true;
        }
        let nodes = Vec::with_capacity(count);
        self.frames.push(Frame { value, form, children, next: 0, nodes, outside, has_tensors: false });
        Ok(Visit::Entered)
    }

    /// Turns the innermost frame into its node.
    fn leave(&mut self) -> Result<NodeId> {
        let frame =
            self.frames.pop().ok_or_else(|| Error::plugin("a walk that leaves more than it entered"))?;
        self.path.truncate(frame.outside);
        if self.frames.is_empty() && matches!(frame.form, Form::Node(NodeKind::MAP, _)) {
            self.root_entries = Some(frame.nodes.clone());
        }
        let node = match frame.form {
            Form::Node(kind, class) => Node::container(kind, class, frame.nodes),
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
}

const ORDERED_DICT: &str = "collections.OrderedDict";

/// One part of a name.
enum Segment {
    Index(usize),
    Key(ValueId),
}
