//! A graph is an arena that contains the values of a pickle. Containers store indices into the
//! arena. Therefore, a value that is used twice is stored only once, and dropping a graph does not
//! recurse.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(u32);

impl ValueId {
    /// Returns the value's index in the arena, which is below [`Graph::len`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GlobalId(u32);

/// The name of a function or class. The function or class itself is never looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Global {
    /// Name of the module, as in Python 3.
    pub module: Box<str>,
    /// Name in the module. It contains dots only for attributes of a class, in protocol 4 and
    /// later.
    pub name: Box<str>,
}

impl Global {
    /// Returns whether this is the function or class with this module and name. The module is
    /// compared separately from the name: protocol 4 can write `a.b.c` as `a.b` `c` or as `a`
    /// `b.c`, which are different objects.
    #[must_use]
    pub fn is(&self, module: &str, name: &str) -> bool {
        &*self.module == module && &*self.name == name
    }

    /// Returns `module.name`, or `module:Outer.Inner` if the name contains dots. Each global
    /// therefore has a unique path.
    #[must_use]
    pub fn path(&self) -> String {
        let separator = if self.name.contains('.') { ':' } else { '.' };
        format!("{}{separator}{}", self.module, self.name)
    }
}

/// A Python string. It is UTF-8, except that it may contain lone surrogates, each of which is
/// encoded as three bytes (`surrogatepass` in Python).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Text(pub(super) Box<[u8]>);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl Text {
    /// Returns the string, if it is valid Unicode.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Returns the string with each lone surrogate written as `\udcff`, as Python's
    /// `backslashreplace` does.
    #[must_use]
    pub fn escaped(&self) -> Cow<'_, str> {
        if let Ok(text) = std::str::from_utf8(&self.0) {
            return Cow::Borrowed(text);
        }
        let mut escaped = String::with_capacity(self.0.len() + 16);
        let mut rest = &*self.0;
        while !rest.is_empty() {
            let valid = match std::str::from_utf8(rest) {
                Ok(text) => text.len(),
                Err(error) => error.valid_up_to(),
            };
            escaped.push_str(&String::from_utf8_lossy(&rest[..valid]));
            rest = &rest[valid..];
            if let [0xed, second, third, ..] = *rest {
                let unit = 0xd000 | u32::from(second & 0x3f) << 6 | u32::from(third & 0x3f);
                escaped.push_str(&format!("\\u{unit:04x}"));
                rest = &rest[3..];
            } else {
                // This branch is never reached, because `literal::check_text` accepts only UTF-8
                // and lone surrogates.
                rest = &[];
            }
        }
        Cow::Owned(escaped)
    }
}

/// How a call creates an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// REDUCE, INST or OBJ: `function(*arguments)`.
    Function,
    /// NEWOBJ or `NEWOBJ_EX`: `cls.__new__(cls, *arguments, **keywords)`.
    New,
}

/// A call in the pickle, which is recorded but never executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub kind: CallKind,
    /// The target of the call: a [`Value::Global`], or the result of another call.
    pub function: ValueId,
    pub arguments: ValueId,
    /// The dict of keyword arguments, if there are any.
    pub keywords: Option<ValueId>,
    /// The state of the object, which is the argument of BUILD.
    pub state: Option<ValueId>,
    /// Items added by SETITEMS.
    pub items: Vec<(ValueId, ValueId)>,
    /// Items added by APPENDS and ADDITEMS.
    pub appended: Vec<ValueId>,
}

/// A reference to the items of a tuple. [`Graph::tuple`] returns these items. All tuples of a graph
/// share one array, because tuples never change and are the largest part of a checkpoint's pickle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Items {
    start: u32,
    len: u32,
}

/// A Python value. The form of a value does not depend on the protocol. For example, a frozenset or
/// a bytearray is always a call of its class, even if the protocol has an instruction for the
/// value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    None,
    Bool(bool),
    /// An integer that fits in 64 bits.
    Int(i64),
    /// A longer integer as two's complement, little-endian, without redundant bytes.
    Long(Box<[u8]>),
    Float(f64),
    Text(Text),
    /// Bytes, or a Python 2 string that is not UTF-8.
    Bytes(Box<[u8]>),
    List(Vec<ValueId>),
    Tuple(Items),
    Set(Vec<ValueId>),
    /// Entries in pickle order. If a key occurs several times, the last entry takes effect.
    Dict(Vec<(ValueId, ValueId)>),
    /// A function or class.
    Global(GlobalId),
    /// The result of a call. The call was not executed.
    Call(Box<Call>),
    /// A persistent ID, which the reader of the file resolves. In torch's files, it refers to a
    /// storage.
    Persistent(ValueId),
}

/// The values of a pickle.
#[derive(Debug, Default)]
pub struct Graph {
    values: Vec<Value>,
    items: Vec<ValueId>,
    globals: Vec<Global>,
    interned: HashMap<Global, GlobalId>,
}

impl Graph {
    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns a value.
    ///
    /// # Panics
    /// Panics if the ID belongs to a different graph.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Returns all functions and classes to which the pickle refers, in pickle order.
    #[must_use]
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// Iterates over all persistent IDs in pickle order.
    pub(crate) fn persistent_ids(&self) -> impl Iterator<Item = ValueId> {
        self.values.iter().filter_map(|value| match *value {
            Value::Persistent(id) => Some(id),
            _ => None,
        })
    }

    /// Iterates over all values that are persistent IDs. Returns each persistent ID with the value
    /// that is its argument.
    pub(crate) fn persistent_places(&self) -> impl Iterator<Item = (ValueId, ValueId)> {
        self.values.iter().zip(0..).filter_map(|(value, place)| match *value {
            Value::Persistent(id) => Some((ValueId(place), id)),
            _ => None,
        })
    }

    /// Replaces the value `id` with a copy of the value `by`.
    pub(crate) fn replace(&mut self, id: ValueId, by: ValueId) {
        self.values[id.index()] = self.values[by.index()].clone();
    }

    /// If the value is a function or class, returns it.
    #[must_use]
    pub fn global(&self, id: ValueId) -> Option<&Global> {
        match self.value(id) {
            Value::Global(global) => self.named(*global),
            _ => None,
        }
    }

    /// Returns the function or class with this ID.
    #[must_use]
    pub fn named(&self, id: GlobalId) -> Option<&Global> {
        self.globals.get(id.0 as usize)
    }

    /// Iterates over all calls in pickle order. Returns each call with the value that represents
    /// its result.
    pub fn calls(&self) -> impl Iterator<Item = (ValueId, &Call)> {
        self.values.iter().zip(0..).filter_map(|(value, place)| match value {
            Value::Call(call) => Some((ValueId(place), &**call)),
            _ => None,
        })
    }

    /// If the value is the result of a call, returns the call.
    #[must_use]
    pub fn call(&self, id: ValueId) -> Option<&Call> {
        match self.value(id) {
            Value::Call(call) => Some(call),
            _ => None,
        }
    }

    /// If the value is the result of calling a global, returns the global and the call.
    #[must_use]
    pub fn called(&self, id: ValueId) -> Option<(&Global, &Call)> {
        let call = self.call(id)?;
        Some((self.global(call.function)?, call))
    }

    /// If the value is the result of calling this global, and nothing was added to it, returns the
    /// arguments.
    #[must_use]
    pub(crate) fn plain_call(&self, id: ValueId, module: &str, name: &str) -> Option<&[ValueId]> {
        let (global, call) = self.called(id)?;
        let plain = call.keywords.is_none()
            && call.state.is_none()
            && call.items.is_empty()
            && call.appended.is_empty();
        (plain && global.is(module, name)).then(|| self.tuple(call.arguments))?
    }

    /// If the value is a string of valid Unicode, returns the string.
    #[must_use]
    pub fn text(&self, id: ValueId) -> Option<&str> {
        match self.value(id) {
            Value::Text(text) => text.as_str(),
            _ => None,
        }
    }

    /// If the value is an integer of at most 64 bits, returns the integer.
    #[must_use]
    pub fn int(&self, id: ValueId) -> Option<i64> {
        match *self.value(id) {
            Value::Int(value) => Some(value),
            _ => None,
        }
    }

    /// If the value is a non-negative integer, returns the integer.
    #[must_use]
    pub fn count(&self, id: ValueId) -> Option<u64> {
        u64::try_from(self.int(id)?).ok()
    }

    /// If the value is a boolean, returns the boolean.
    #[must_use]
    pub fn bool(&self, id: ValueId) -> Option<bool> {
        match *self.value(id) {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// If the value is a float, or an integer of at most 32 bits, returns it as a float.
    #[must_use]
    pub fn float(&self, id: ValueId) -> Option<f64> {
        match *self.value(id) {
            Value::Float(value) => Some(value),
            Value::Int(value) => i32::try_from(value).ok().map(f64::from),
            _ => None,
        }
    }

    /// If the value is a tuple, returns the items.
    #[must_use]
    pub fn tuple(&self, id: ValueId) -> Option<&[ValueId]> {
        match self.value(id) {
            Value::Tuple(items) => {
                let start = items.start as usize;
                self.items.get(start..start + items.len as usize)
            }
            _ => None,
        }
    }

    /// If the value is a tuple or a list, returns the items.
    #[must_use]
    pub fn sequence(&self, id: ValueId) -> Option<&[ValueId]> {
        match self.value(id) {
            Value::List(items) => Some(items),
            _ => self.tuple(id),
        }
    }

    /// If the value is bytes, returns the bytes. Protocols below 3 have no instruction for bytes.
    /// Their pickles contain a call `_codecs.encode(text, "latin1")` instead, or `bytes()` for
    /// empty bytes.
    #[must_use]
    pub fn bytes(&self, id: ValueId) -> Option<Cow<'_, [u8]>> {
        if let Value::Bytes(bytes) = self.value(id) {
            return Some(Cow::Borrowed(bytes));
        }
        if let Some([]) = self.plain_call(id, "builtins", "bytes") {
            return Some(Cow::Borrowed(&[]));
        }
        let &[text, encoding] = self.plain_call(id, "_codecs", "encode")? else { return None };
        matches!(self.text(encoding)?, "latin1" | "latin-1").then_some(())?;
        let bytes: Option<Vec<u8>> =
            self.text(text)?.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        bytes.map(Cow::Owned)
    }

    /// If the value is a mapping, returns the entries. A mapping is a dict, or a call of
    /// `OrderedDict`, `defaultdict` or `Counter`. As in Python, a key that occurs several times
    /// keeps its first position and gets its last value.
    #[must_use]
    pub fn entries(&self, id: ValueId) -> Option<Vec<(ValueId, ValueId)>> {
        match self.value(id) {
            Value::Dict(entries) => Some(self.last_of_each(entries)),
            Value::Call(call) => {
                let global = self.global(call.function)?;
                let arguments = self.tuple(call.arguments)?;
                let mut entries = match (&*global.module, &*global.name) {
                    // Python 2 passes the entries as a list of pairs.
                    ("collections", "OrderedDict") => match *arguments {
                        [] => Vec::new(),
                        [pairs] => self.pairs(pairs)?,
                        _ => return None,
                    },
                    ("collections", "Counter") => match *arguments {
                        [] => Vec::new(),
                        [counts] => match self.value(counts) {
                            Value::Dict(entries) => entries.clone(),
                            _ => return None,
                        },
                        _ => return None,
                    },
                    ("collections", "defaultdict") => Vec::new(),
                    _ => return None,
                };
                entries.extend_from_slice(&call.items);
                Some(self.last_of_each(&entries))
            }
            _ => None,
        }
    }

    /// Returns the value for a string key in a mapping.
    #[must_use]
    pub fn entry(&self, mapping: ValueId, key: &str) -> Option<ValueId> {
        let last = |entries: &[(ValueId, ValueId)]| {
            entries.iter().rev().find(|&&(k, _)| self.text(k) == Some(key)).map(|&(_, value)| value)
        };
        match self.value(mapping) {
            Value::Dict(entries) => last(entries),
            _ => last(&self.entries(mapping)?),
        }
    }

    /// Returns the number of entries that were added to a mapping or an object. Listing the entries
    /// takes time proportional to this number.
    #[must_use]
    pub fn entry_count(&self, mapping: ValueId) -> usize {
        match self.value(mapping) {
            Value::Dict(entries) => entries.len(),
            Value::Call(call) => {
                let arguments = self.tuple(call.arguments).unwrap_or_default();
                let inside = arguments.iter().map(|&argument| match self.value(argument) {
                    Value::Dict(entries) => entries.len(),
                    _ => self.sequence(argument).map_or(0, <[ValueId]>::len),
                });
                call.items.len() + inside.sum::<usize>()
            }
            _ => 0,
        }
    }

    fn pairs(&self, list: ValueId) -> Option<Vec<(ValueId, ValueId)>> {
        let pair = |&item: &ValueId| match *self.sequence(item)? {
            [key, value] => Some((key, value)),
            _ => None,
        };
        self.sequence(list)?.iter().map(pair).collect()
    }

    pub(crate) fn last_of_each(&self, entries: &[(ValueId, ValueId)]) -> Vec<(ValueId, ValueId)> {
        let mut seen = HashSet::with_capacity(entries.len());
        if entries.iter().all(|&(key, _)| seen.insert(self.key(key))) {
            return entries.to_vec();
        }
        let mut places: HashMap<Key<'_>, usize> = HashMap::with_capacity(entries.len());
        let mut kept: Vec<(ValueId, ValueId)> = Vec::with_capacity(entries.len());
        for &(key, value) in entries {
            let place = *places.entry(self.key(key)).or_insert(kept.len());
            match kept.get_mut(place) {
                Some(entry) => entry.1 = value,
                None => kept.push((key, value)),
            }
        }
        kept
    }

    /// Returns a representation of a dict key for comparison with other keys. Two containers are
    /// always considered different keys.
    fn key(&self, id: ValueId) -> Key<'_> {
        match self.value(id) {
            Value::Text(text) => Key::Text(&text.0),
            Value::Int(value) => Key::Int(*value),
            Value::Bool(value) => Key::Int((*value).into()),
            Value::None => Key::None,
            _ => Key::Other(id),
        }
    }

    pub(crate) fn push(&mut self, value: Value) -> ValueId {
        // The number fits in 32 bits, because `machine::Machine::add` enforces a much lower limit
        // on the number of values.
        let id = ValueId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(value);
        id
    }

    /// Creates a tuple of these items. Returns `None` if the total number of items exceeds 32 bits.
    pub(crate) fn tuple_of(&mut self, items: &[ValueId]) -> Option<Value> {
        let start = u32::try_from(self.items.len()).ok()?;
        let len = u32::try_from(items.len()).ok()?;
        start.checked_add(len)?;
        self.items.extend_from_slice(items);
        Some(Value::Tuple(Items { start, len }))
    }

    pub(crate) fn value_mut(&mut self, id: ValueId) -> &mut Value {
        &mut self.values[id.index()]
    }

    pub(crate) fn intern(&mut self, global: Global) -> GlobalId {
        let next = GlobalId(u32::try_from(self.globals.len()).unwrap_or(u32::MAX));
        let id = *self.interned.entry(global.clone()).or_insert(next);
        if id == next {
            self.globals.push(global);
        }
        id
    }
}

#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Text(&'a [u8]),
    Int(i64),
    None,
    Other(ValueId),
}
