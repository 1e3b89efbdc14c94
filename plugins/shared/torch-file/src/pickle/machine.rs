//! Executes the instructions of a pickle. The instructions add values to the graph, and the stack
//! contains the indices of these values.

use super::graph::{Call, CallKind, Global, Graph, Text, Value, ValueId};
use super::memo::Memo;
use super::opcode::{Decoder, Op};
use super::{EvaluatedPickle, literal, renames};
use std::borrow::Cow;
use tensorferry_sdk::{Error, Limits, Result};

/// Maximum length in bytes of a module name or a class name. Each use of a class may copy its name,
/// so a long name would use a lot of memory.
const MAX_NAME_BYTES: usize = 1024;

/// Maximum number of references in containers, as a multiple of the limit on values. A reference
/// uses a sixteenth of a value's memory until the reference becomes a child of a node.
const REFERENCES: u64 = 16;

const NEWEST_PROTOCOL: u8 = 5;

pub(super) fn run(bytes: &[u8], base: u64, limits: &Limits) -> Result<EvaluatedPickle> {
    let mut decoder = Decoder::new(bytes, base);
    let mut machine = Machine::new(limits);
    let mut frame: Option<usize> = None;
    loop {
        let start = decoder.position();
        let op = decoder.next()?;
        let at = |error| decoder.place(error, start);
        if let Op::Frame(len) = op {
            if frame.is_some() {
                return Err(at(Error::malformed("a frame starts inside another frame")));
            }
            let len = usize::try_from(len).ok().filter(|&len| len <= decoder.remaining());
            let len =
                len.ok_or_else(|| at(Error::malformed("a frame is longer than the rest of the pickle")))?;
            frame = Some(decoder.position() + len).filter(|_| len > 0);
            continue;
        }
        if let Some(end) = frame {
            if decoder.position() > end {
                return Err(at(Error::malformed("a frame ends inside an instruction")));
            }
            frame = (decoder.position() < end).then_some(end);
        }
        if let Op::Stop = op {
            if frame.is_some() {
                return Err(at(Error::malformed("the pickle stops inside a frame")));
            }
            let root = machine.stop().map_err(at)?;
            return Ok(EvaluatedPickle { graph: machine.graph, root, len: decoder.position() });
        }
        if let Op::Protocol(version) = op {
            if start != 0 {
                return Err(at(Error::malformed(
                    "a protocol instruction is duplicated, or not at the start of the pickle",
                )));
            }
            if version > NEWEST_PROTOCOL {
                return Err(at(Error::unsupported("the pickle protocol is newer than supported")
                    .expected(format!("at most {NEWEST_PROTOCOL}"))
                    .found(version)));
            }
            machine.protocol = version;
            continue;
        }
        machine.step(op).map_err(at)?;
    }
}

struct Machine<'l> {
    limits: &'l Limits,
    graph: Graph,
    protocol: u8,
    stack: Vec<ValueId>,
    /// Length of the stack at each open mark. Instructions must not remove values below the last
    /// mark.
    marks: Vec<usize>,
    memo: Memo,
    /// Total number of references in containers.
    references: u64,
    /// Frequent values whose identity does not matter: `None`, the booleans and small integers.
    /// Each of them is created only once.
    none: ValueId,
    truth: [ValueId; 2],
    small: [ValueId; 256],
}

impl<'l> Machine<'l> {
    fn new(limits: &'l Limits) -> Self {
        let mut graph = Graph::default();
        let none = graph.push(Value::None);
        let truth = [false, true].map(|value| graph.push(Value::Bool(value)));
        let small = std::array::from_fn(|value| graph.push(Value::Int(value as i64)));
        Self {
            limits,
            graph,
            protocol: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::default(),
            references: 0,
            none,
            truth,
            small,
        }
    }

    fn step(&mut self, op: Op<'_>) -> Result<()> {
        match op {
            Op::Protocol(_) | Op::Frame(_) | Op::Stop => Ok(()),
            Op::Mark => {
                check_count(self.marks.len(), self.limits)?;
                self.marks.push(self.stack.len());
                Ok(())
            }
            Op::Pop => self.pop_or_unmark(),
            Op::PopMark => self.above_mark().map(drop),
            Op::Dup => self.top().and_then(|id| self.push(id)),
            Op::None => self.push(self.none),
            Op::Bool(value) => self.push(self.truth[usize::from(value)]),
            Op::Int(value) => match usize::try_from(value).ok().and_then(|value| self.small.get(value)) {
                Some(&id) => self.push(id),
                None => self.add(Value::Int(value)),
            },
            Op::Long(bytes) => self.add(Value::Long(bytes)),
            Op::Float(value) => self.add(Value::Float(value)),
            Op::Text(bytes) => self.add(text(bytes)),
            // `torch.load` decodes Python 2 strings as UTF-8. A string that is not valid UTF-8
            // becomes bytes.
            Op::OldText(bytes) if literal::check_text(&bytes) => self.add(text(bytes)),
            Op::OldText(bytes) => self.add(Value::Bytes(bytes.into_owned().into())),
            Op::Bytes(bytes) => self.add(Value::Bytes(bytes.into())),
            Op::ByteArray(bytes) => {
                let bytes = self.store(Value::Bytes(bytes.into()))?;
                let function = self.named("builtins", "bytearray")?;
                self.call(function, &[bytes])
            }
            Op::EmptyList => self.add(Value::List(Vec::new())),
            Op::EmptyDict => self.add(Value::Dict(Vec::new())),
            Op::EmptySet => self.add(Value::Set(Vec::new())),
            Op::List => {
                let items = self.above_mark()?;
                self.count_references(items.len())?;
                self.add(Value::List(items))
            }
            Op::Dict => {
                let items = self.above_mark()?;
                self.count_references(items.len())?;
                self.add(Value::Dict(pairs(&items)?))
            }
            Op::Tuple => self.mark().and_then(|from| self.add_tuple(from)),
            Op::TupleOf(len) => self.below(len).and_then(|from| self.add_tuple(from)),
            Op::FrozenSet => {
                let items = self.above_mark()?;
                let items = self.store(Value::List(items))?;
                let function = self.named("builtins", "frozenset")?;
                self.call(function, &[items])
            }
            Op::Append => self.take(1).and_then(|items| self.append(&items)),
            Op::Appends => self.above_mark().and_then(|items| self.append(&items)),
            Op::SetItem => self.take(2).and_then(|items| self.set_items(&items)),
            Op::SetItems => self.above_mark().and_then(|items| self.set_items(&items)),
            Op::AddItems => self.above_mark().and_then(|items| self.add_items(&items)),
            Op::Get(number) => {
                let value = self.memo.get(number);
                self.push(value.ok_or_else(|| Error::malformed("unknown number in the memo").found(number))?)
            }
            Op::Put(number) => self.memoize(number),
            Op::Memoize => self.memoize(self.memo.len()),
            Op::Global(module, name) => self.named(module, name).and_then(|id| self.push(id)),
            Op::StackGlobal => self.stack_global(),
            Op::Instance(module, name) => {
                let arguments = self.above_mark()?;
                let function = self.named(module, name)?;
                self.call(function, &arguments)
            }
            Op::Object => {
                let items = self.above_mark()?;
                let (&function, arguments) =
                    items.split_first().ok_or_else(|| Error::malformed("an object has no class"))?;
                self.call(function, arguments)
            }
            Op::Reduce => self.apply(CallKind::Function, false),
            Op::New => self.apply(CallKind::New, false),
            Op::NewWithKeywords => self.apply(CallKind::New, true),
            Op::Build => self.build(),
            Op::PersistentText(id) => {
                let id = self.store(text(id.as_bytes().into()))?;
                self.add(Value::Persistent(id))
            }
            Op::Persistent => {
                let id = self.pop()?;
                match self.class_of_module(id) {
                    Some(class) => self.push(class),
                    None => self.add(Value::Persistent(id)),
                }
            }
        }
    }

    /// torch stores the class of a module as a persistent ID. If the value is such an ID, returns
    /// the class in it. In torch's streams, the ID is `("module", class, file, source)`; in its tar
    /// archives, it is `(class, file, source)`. torch uses the source code only to warn if it has
    /// changed.
    fn class_of_module(&self, id: ValueId) -> Option<ValueId> {
        let class = match *self.graph.tuple(id)? {
            [kind, class, _, _] if self.graph.text(kind) == Some("module") => class,
            [class, _, _] => class,
            _ => return None,
        };
        self.graph.global(class).map(|_| class)
    }

    fn stop(&mut self) -> Result<ValueId> {
        match (&*self.stack, &*self.marks) {
            (&[root], []) => Ok(root),
            ([], _) => Err(Error::malformed("the pickle stops before it has created a value")),
            (stack, _) => Err(Error::malformed("the pickle stops with values left over")
                .expected("one value on the stack")
                .found(format!("{} values, {} marks", stack.len(), self.marks.len()))),
        }
    }

    fn store(&mut self, value: Value) -> Result<ValueId> {
        check_count(self.graph.len(), self.limits)?;
        Ok(self.graph.push(value))
    }

    fn add(&mut self, value: Value) -> Result<()> {
        let id = self.store(value)?;
        self.push(id)
    }

    /// Creates a tuple of the values on the stack, starting at position `from`.
    fn add_tuple(&mut self, from: usize) -> Result<()> {
        self.count_references(self.stack.len() - from)?;
        let tuple = self.graph.tuple_of(&self.stack[from..]);
        self.stack.truncate(from);
        self.add(tuple.ok_or_else(too_many_items)?)
    }

    fn store_tuple(&mut self, items: &[ValueId]) -> Result<ValueId> {
        self.count_references(items.len())?;
        let tuple = self.graph.tuple_of(items);
        self.store(tuple.ok_or_else(too_many_items)?)
    }

    fn push(&mut self, id: ValueId) -> Result<()> {
        check_count(self.stack.len(), self.limits)?;
        self.stack.push(id);
        Ok(())
    }

    fn memoize(&mut self, number: u64) -> Result<()> {
        check_count(usize::try_from(self.memo.len()).unwrap_or(usize::MAX), self.limits)?;
        let value = self.top()?;
        self.memo.put(number, value);
        Ok(())
    }

    /// Counts references that are added to containers against the limit.
    fn count_references(&mut self, count: usize) -> Result<()> {
        self.references = self.references.saturating_add(count as u64);
        let max = self.limits.nodes.saturating_mul(REFERENCES);
        if self.references <= max {
            return Ok(());
        }
        Err(Error::limit("the pickle refers to its values too often").expected(format!(
            "at most {max} times, {REFERENCES} for each of the limit nodes; --limit nodes=N raises it"
        )))
    }

    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<ValueId> {
        let top = self.stack.get(self.floor()..).and_then(<[ValueId]>::last);
        top.copied().ok_or_else(underflow)
    }

    fn pop(&mut self) -> Result<ValueId> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Executes POP, which removes the last mark if the mark is on top of the stack.
    fn pop_or_unmark(&mut self) -> Result<()> {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(drop)
    }

    /// Returns the stack position below the last `len` values.
    fn below(&self, len: usize) -> Result<usize> {
        let from = self.stack.len().checked_sub(len).filter(|&from| from >= self.floor());
        from.ok_or_else(underflow)
    }

    /// Removes and returns the last `len` values.
    fn take(&mut self, len: usize) -> Result<Vec<ValueId>> {
        let from = self.below(len)?;
        Ok(self.stack.split_off(from))
    }

    /// Removes the last mark, and returns the stack position of the values above it.
    fn mark(&mut self) -> Result<usize> {
        self.marks.pop().ok_or_else(|| Error::malformed("the stack has no mark"))
    }

    /// Removes the last mark and the values above it, and returns these values.
    fn above_mark(&mut self) -> Result<Vec<ValueId>> {
        let mark = self.mark()?;
        Ok(self.stack.split_off(mark))
    }

    fn append(&mut self, items: &[ValueId]) -> Result<()> {
        self.count_references(items.len())?;
        let target = self.top()?;
        match self.graph.value_mut(target) {
            Value::List(list) => list.extend_from_slice(items),
            Value::Call(call) => call.appended.extend_from_slice(items),
            other => return Err(wrong_kind("APPENDS", other)),
        }
        Ok(())
    }

    fn add_items(&mut self, items: &[ValueId]) -> Result<()> {
        self.count_references(items.len())?;
        let target = self.top()?;
        match self.graph.value_mut(target) {
            Value::Set(set) => set.extend_from_slice(items),
            Value::Call(call) => call.appended.extend_from_slice(items),
            other => return Err(wrong_kind("ADDITEMS", other)),
        }
        Ok(())
    }

    fn set_items(&mut self, items: &[ValueId]) -> Result<()> {
        self.count_references(items.len())?;
        let pairs = pairs(items)?;
        let target = self.top()?;
        match self.graph.value_mut(target) {
            Value::Dict(entries) => entries.extend_from_slice(&pairs),
            Value::Call(call) => call.items.extend_from_slice(&pairs),
            other => return Err(wrong_kind("SETITEMS", other)),
        }
        Ok(())
    }

    fn build(&mut self) -> Result<()> {
        let state = self.pop()?;
        let target = self.top()?;
        match self.graph.value_mut(target) {
            Value::Call(call) if call.state.is_none() => call.state = Some(state),
            // A second BUILD may replace the object's content or add to it, depending on the code
            // of the class.
            Value::Call(_) => return Err(Error::unsupported("the state of an object is set twice")),
            other => return Err(wrong_kind("BUILD", other)),
        }
        Ok(())
    }

    /// Executes REDUCE, NEWOBJ or `NEWOBJ_EX`.
    fn apply(&mut self, kind: CallKind, with_keywords: bool) -> Result<()> {
        let keywords = if with_keywords { Some(self.pop()?) } else { None };
        let arguments = self.pop()?;
        let function = self.pop()?;
        if let Some(keywords) = keywords
            && !matches!(self.graph.value(keywords), Value::Dict(_))
        {
            return Err(wrong_kind("the keywords of NEWOBJ_EX", self.graph.value(keywords)));
        }
        if self.graph.tuple(arguments).is_none() {
            return Err(wrong_kind("the arguments of a call", self.graph.value(arguments)));
        }
        self.add_call(kind, function, arguments, keywords)
    }

    fn call(&mut self, function: ValueId, arguments: &[ValueId]) -> Result<()> {
        let arguments = self.store_tuple(arguments)?;
        self.add_call(CallKind::Function, function, arguments, None)
    }

    fn add_call(
        &mut self,
        kind: CallKind,
        function: ValueId,
        arguments: ValueId,
        keywords: Option<ValueId>,
    ) -> Result<()> {
        if !matches!(self.graph.value(function), Value::Global(_) | Value::Call(_)) {
            return Err(wrong_kind("the target of a call", self.graph.value(function)));
        }
        if kind == CallKind::Function
            && self.graph.global(function).is_some_and(returns_first_argument)
            && let Some(&[value, ..]) = self.graph.tuple(arguments)
        {
            return self.push(value);
        }
        let (items, appended) = (Vec::new(), Vec::new());
        self.add(Value::Call(Box::new(Call {
            kind,
            function,
            arguments,
            keywords,
            state: None,
            items,
            appended,
        })))
    }

    fn stack_global(&mut self) -> Result<()> {
        let name = self.pop()?;
        let module = self.pop()?;
        let (Some(module), Some(name)) = (self.graph.text(module), self.graph.text(name)) else {
            return Err(Error::malformed("STACK_GLOBAL needs two strings"));
        };
        let (module, name) = (module.to_owned(), name.to_owned());
        let id = self.named(&module, &name)?;
        self.push(id)
    }

    /// Adds a function or class under the name that it has in Python 3.
    fn named(&mut self, module: &str, name: &str) -> Result<ValueId> {
        let sane =
            |part: &str| (1..=MAX_NAME_BYTES).contains(&part.len()) && !part.contains(char::is_control);
        let whole = name.split('.').all(|part| !part.is_empty());
        if !sane(module) || !sane(name) || !whole {
            return Err(Error::malformed("invalid name of a function or class")
                .found(format!("{module:.80?} {name:.80?}")));
        }
        // Below protocol 4, Python looks up a name with dots as a single attribute, which never
        // exists.
        if self.protocol < 4 && name.contains('.') {
            return Err(Error::malformed("a name with dots requires pickle protocol 4")
                .found(format!("{module:.80?} {name:.80?}")));
        }
        let (module, name) =
            if self.protocol < 3 { renames::python3_name(module, name) } else { (module, name) };
        let module = match module {
            "__builtin__" => "builtins",
            "copy_reg" => "copyreg",
            // torch has renamed the module `torch.tensor`, which defines the class of tensors.
            "torch.tensor" => "torch._tensor",
            other => other,
        };
        let global = self.graph.intern(Global { module: module.into(), name: name.into() });
        self.store(Value::Global(global))
    }
}

/// Returns whether calling a function only returns its first argument. TorchScript uses such
/// functions to annotate the types of lists and dicts (`torch/jit/_pickle.py`).
fn returns_first_argument(global: &Global) -> bool {
    let name = &*global.name;
    let tags =
        ["restore_type_tag", "build_intlist", "build_tensorlist", "build_doublelist", "build_boollist"];
    &*global.module == "torch.jit._pickle" && tags.contains(&name)
}

/// Checks the limit that applies to the number of values, stack entries and marks. Each of these
/// costs at least one byte of input and a few bytes of memory.
fn check_count(len: usize, limits: &Limits) -> Result<()> {
    if (len as u64) < limits.nodes.min(u32::MAX.into()) {
        return Ok(());
    }
    Err(Error::limit("the pickle creates too many values")
        .hint("raise the limit with --limit nodes=N")
        .expected(format!("at most {}", limits.nodes)))
}

fn text(bytes: Cow<'_, [u8]>) -> Value {
    Value::Text(Text(bytes.into_owned().into()))
}

fn pairs(items: &[ValueId]) -> Result<Vec<(ValueId, ValueId)>> {
    let (pairs, rest) = items.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Error::malformed("a key has no value"));
    }
    Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
}

fn too_many_items() -> Error {
    Error::limit("the tuples in the pickle have too many items").expected(format!("at most {}", u32::MAX))
}

fn underflow() -> Error {
    Error::malformed("an instruction consumes more values than the stack contains")
}

fn wrong_kind(what: &str, found: &Value) -> Error {
    let kind = match found {
        Value::None => "None",
        Value::Bool(_) => "a bool",
        Value::Int(_) | Value::Long(_) => "an int",
        Value::Float(_) => "a float",
        Value::Text(_) => "a string",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "a list",
        Value::Tuple(_) => "a tuple",
        Value::Set(_) => "a set",
        Value::Dict(_) => "a dict",
        Value::Global(_) => "a function or class",
        Value::Call(_) => "an object",
        Value::Persistent(_) => "a persistent ID",
    };
    Error::malformed(format!("{what}: value of the wrong type")).found(kind)
}
