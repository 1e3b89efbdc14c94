//! The value of a metadata entry or tensor attribute. A value is a string, a number of an exact
//! type, a list, or a mapping. A value is made of the same nodes as a [tree](crate::Tree).
//!
//! A value owns its nodes and does not refer to tensors, so steps that change tensors and the tree
//! do not affect the value. The nodes of a value are not shared. As a result, two values with the
//! same content are equal, and a small value never expands to a large output.

use crate::text::hex;
use crate::{Dtype, Error, Limits, Node, NodeId, NodeKind, Result};
use std::fmt;
use std::sync::Arc;

/// The value of a metadata entry or tensor attribute. Clones share the nodes of the value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Value {
    /// The nodes. Children precede their parents, and each child has exactly one parent. The last
    /// node is the value.
    nodes: Arc<[Node]>,
}

impl Value {
    /// Creates a string value.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::leaf(Node::text(text))
    }

    /// Creates a boolean value.
    #[must_use]
    pub fn bool(value: bool) -> Self {
        Self::leaf(Node::bool(value))
    }

    /// Creates an integer value without a specific dtype.
    #[must_use]
    pub fn int(value: i64) -> Self {
        Self::leaf(Node::int(value))
    }

    /// Creates a floating-point value without a specific dtype.
    #[must_use]
    pub fn float(value: f64) -> Self {
        Self::leaf(Node::float(value))
    }

    /// Creates a number of this dtype from its little-endian bytes. The dtype must be an integer
    /// dtype, F32 or F64. The node of the value is an [`INT`](NodeKind::INT) or a
    /// [`FLOAT`](NodeKind::FLOAT) whose class is the name of the dtype. For `BOOL`, use
    /// [`bool`](Self::bool).
    ///
    /// # Errors
    /// Returns an unsupported error for any other dtype, or a plugin error if the length of `bytes`
    /// is not the size of one element.
    pub fn number(dtype: Dtype, bytes: &[u8]) -> Result<Self> {
        let info =
            dtype.info().ok_or_else(|| Error::unsupported("a number has a dtype that is not built in"))?;
        if info.element_bytes().map(|width| width as usize) != Some(bytes.len()) {
            let error = Error::plugin("the bytes of a number are not one element of its dtype");
            return Err(error.expected(info.name()).found(format!("{} bytes", bytes.len())));
        }
        let node = match integer(dtype, bytes) {
            Some(value) => Node::wide_int(value),
            None => match (dtype, bytes) {
                (Dtype::BOOL, &[byte @ (0 | 1)]) => return Ok(Self::bool(byte == 1)),
                (Dtype::F32, &[a, b, c, d]) => Node::float(f64::from(f32::from_le_bytes([a, b, c, d]))),
                (Dtype::F64, bytes) => Node::scalar(NodeKind::FLOAT, bytes),
                _ => return Err(Error::unsupported(format!("a number of dtype {}", info.name()))),
            },
        };
        Ok(Self::leaf(Node { class: info.name().into(), ..node }))
    }

    /// Creates a sequence of numbers of one dtype from their little-endian bytes.
    ///
    /// # Errors
    /// Returns an unsupported error for a dtype whose elements are not whole bytes, or a plugin
    /// error if `bytes` does not consist of whole elements.
    pub fn numbers(dtype: Dtype, bytes: impl Into<Box<[u8]>>) -> Result<Self> {
        let name = dtype.info().map_or("", |info| info.name());
        Self::of(Node { class: name.into(), ..Node::scalar(NodeKind::NUMBERS, &[]) }.with_bytes(bytes), [])
    }

    /// Creates a list value.
    ///
    /// # Errors
    /// Returns a limit error if the number of nodes exceeds the number of ids.
    pub fn list(items: impl IntoIterator<Item = Self>) -> Result<Self> {
        Self::of(Node::container(NodeKind::LIST, "", []), items)
    }

    /// Creates a mapping value from keys and values.
    ///
    /// # Errors
    /// Returns a limit error if the number of nodes exceeds the number of ids.
    pub fn map(entries: impl IntoIterator<Item = (Self, Self)>) -> Result<Self> {
        let entries = entries.into_iter().flat_map(|(key, value)| [key, value]);
        Self::of(Node::container(NodeKind::MAP, "", []), entries)
    }

    /// Creates a value of any kind from its root node. `children` replaces the children of this
    /// node.
    ///
    /// # Errors
    /// Returns a plugin error if the bytes or children of the node do not match its kind, or if it
    /// refers to a tensor. Returns an unsupported error for an object, for
    /// [`ATTRIBUTED`](NodeKind::ATTRIBUTED), and for an unknown kind. Returns a limit error if the
    /// number of nodes exceeds the number of ids.
    pub fn of(mut node: Node, children: impl IntoIterator<Item = Self>) -> Result<Self> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut ids = Vec::new();
        for child in children {
            let first = u32::try_from(nodes.len()).map_err(|_| too_many())?;
            for node in child.nodes.iter() {
                let mut node = node.clone();
                for child in &mut node.children {
                    child.0 = child.0.checked_add(first).ok_or_else(too_many)?;
                }
                nodes.push(node);
            }
            ids.push(NodeId(u32::try_from(nodes.len()).map_err(|_| too_many())? - 1));
        }
        node.children = ids.into();
        check(&node)?;
        nodes.push(node);
        Ok(Self { nodes: nodes.into() })
    }

    fn leaf(node: Node) -> Self {
        Self { nodes: [node].into() }
    }

    /// Returns the nodes. Children precede their parents, and the last node is the value itself.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the root node of the value.
    #[must_use]
    pub fn root(&self) -> &Node {
        // Every value has at least one node.
        &self.nodes[self.nodes.len() - 1]
    }

    /// Returns the string, or `None` if the value is not a string.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        self.root().as_text()
    }

    /// Returns the number of bytes that count toward memory limits.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.iter().map(|node| node.bytes.len() + node.class.len()).sum()
    }

    /// Returns the nesting depth, which is 0 for a scalar.
    pub(crate) fn depth(&self) -> u64 {
        let mut depths: Vec<u64> = Vec::with_capacity(self.nodes.len());
        for node in self.nodes.iter() {
            let below = node.children.iter().map(|child| depths[child.0 as usize] + 1);
            depths.push(below.max().unwrap_or(0));
        }
        depths.last().copied().unwrap_or(0)
    }

    /// Returns the value as compact JSON, for people and for formats that store only text. Types
    /// are not kept. A mapping becomes an object if all of its keys are strings, and a list of
    /// pairs otherwise. Tuples and sets become lists. Infinities and NaN become strings with their
    /// names, and bytes become hexadecimal strings.
    #[must_use]
    pub fn json(&self) -> String {
        let mut json = String::new();
        let mut open = vec![TextPiece::Node(self.nodes.len() - 1)];
        while let Some(piece) = open.pop() {
            match piece {
                TextPiece::Text(text) => json.push_str(text),
                TextPiece::Node(index) => self.write_json(index, &mut json, &mut open),
            }
        }
        json
    }

    /// Writes a leaf, or pushes the pieces of a container onto a stack. The function does not
    /// recurse, because a file controls the nesting depth.
    fn write_json(&self, index: usize, json: &mut String, open: &mut Vec<TextPiece>) {
        let node = &self.nodes[index];
        let child = |id: &NodeId| TextPiece::Node(id.0 as usize);
        let mut pieces: Vec<TextPiece> = Vec::new();
        let list = |children: &[NodeId], pieces: &mut Vec<TextPiece>| {
            pieces.push(TextPiece::Text("["));
            for (index, id) in children.iter().enumerate() {
                pieces.extend((index > 0).then_some(TextPiece::Text(",")));
                pieces.push(child(id));
            }
            pieces.push(TextPiece::Text("]"));
        };
        match node.kind {
            NodeKind::LIST | NodeKind::TUPLE | NodeKind::SET => list(&node.children, &mut pieces),
            NodeKind::MAP => {
                let is_object =
                    node.entries().all(|(key, _)| self.nodes[key.0 as usize].kind == NodeKind::TEXT);
                pieces.push(TextPiece::Text(if is_object { "{" } else { "[" }));
                for (index, pair) in node.children.chunks_exact(2).enumerate() {
                    pieces.extend((index > 0).then_some(TextPiece::Text(",")));
                    if is_object {
                        pieces.extend([child(&pair[0]), TextPiece::Text(":"), child(&pair[1])]);
                    } else {
                        list(pair, &mut pieces);
                    }
                }
                pieces.push(TextPiece::Text(if is_object { "}" } else { "]" }));
            }
            _ => write_leaf(node, json),
        }
        open.extend(pieces.into_iter().rev());
    }
}

enum TextPiece {
    Text(&'static str),
    Node(usize),
}

fn too_many() -> Error {
    Error::limit("too many nodes in a value")
}

fn check(node: &Node) -> Result<()> {
    let is_number = matches!(node.kind, NodeKind::INT | NodeKind::FLOAT | NodeKind::NUMBERS);
    if is_number && !node.class.is_empty() && Dtype::named(&node.class).is_none() {
        return Err(Error::unsupported("a number has an unknown dtype").found(&node.class));
    }
    match node.kind {
        NodeKind::TENSOR => Err(Error::plugin("metadata and attributes cannot refer to tensors")),
        NodeKind(1..=11) | NodeKind::NUMBERS if fits_class(node) => node.check(),
        NodeKind(1..=11) | NodeKind::NUMBERS => {
            Err(Error::plugin("a number does not fit in the dtype given by its class").found(&node.class))
        }
        // Only the format that created an object understands it, and kinds from a later revision
        // are unknown here.
        NodeKind(other) => {
            Err(Error::unsupported("metadata and attributes cannot have a value of this kind").found(other))
        }
    }
}

/// Returns whether a number fits the dtype that its class specifies. Returns true if there is no
/// class.
fn fits_class(node: &Node) -> bool {
    let is_float = || matches!(&*node.class, "F16" | "BF16" | "F32" | "F64");
    match node.kind {
        NodeKind::INT if !node.class.is_empty() => {
            let dtype = Dtype::named(&node.class);
            let width =
                dtype.and_then(Dtype::info).and_then(|info| info.element_bytes()).unwrap_or(0) as usize;
            // The value fits the dtype if converting it to the bytes of an element and back does
            // not change it.
            let value = node.as_wide_int();
            let bytes = value.map(i128::to_le_bytes).unwrap_or_default();
            let element = bytes.get(..width).unwrap_or_default();
            value.is_some() && dtype.and_then(|dtype| integer(dtype, element)) == value
        }
        NodeKind::FLOAT => node.class.is_empty() || is_float(),
        _ => true,
    }
}

/// Decodes an integer from the little-endian bytes of an element of `dtype`.
fn integer(dtype: Dtype, bytes: &[u8]) -> Option<i128> {
    let is_signed = match dtype {
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => false,
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => true,
        _ => return None,
    };
    let is_negative = is_signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = [if is_negative { 0xff } else { 0 }; 16];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i128::from_le_bytes(wide))
}

fn write_leaf(node: &Node, json: &mut String) {
    match node.kind {
        NodeKind::NONE => json.push_str("null"),
        NodeKind::BOOL => json.push_str(if node.bytes[..] == [1] { "true" } else { "false" }),
        NodeKind::INT => match node.as_wide_int() {
            Some(value) => json.push_str(&value.to_string()),
            None => write_string(&hex(&node.bytes), json),
        },
        NodeKind::FLOAT => match (node.as_float(), &*node.class) {
            #[expect(clippy::cast_possible_truncation, reason = "the value came from an F32")]
            (Some(value), "F32") => write_float(f64::from(value as f32).is_finite(), value as f32, json),
            (Some(value), _) => write_float(value.is_finite(), value, json),
            (None, _) => write_string(&hex(&node.bytes), json),
        },
        NodeKind::TEXT => write_string(node.as_text().unwrap_or_default(), json),
        NodeKind::NUMBERS => write_numbers(node, json),
        NodeKind::COMPLEX => write_elements(Dtype::F64, &node.bytes, json),
        _ => write_string(&hex(&node.bytes), json),
    }
}

/// Writes the shortest string that parses to the same number. Rust's output is valid JSON, except
/// for infinities and NaN, which become strings.
fn write_float(is_finite: bool, value: impl fmt::Debug, json: &mut String) {
    let text = format!("{value:?}");
    if is_finite { json.push_str(&text) } else { write_string(&text, json) }
}

fn write_numbers(node: &Node, json: &mut String) {
    match Dtype::named(&node.class) {
        Some(dtype) => write_elements(dtype, &node.bytes, json),
        None => write_string(&hex(&node.bytes), json),
    }
}

fn write_elements(dtype: Dtype, bytes: &[u8], json: &mut String) {
    let width = dtype.info().and_then(|info| info.element_bytes()).unwrap_or(1) as usize;
    json.push('[');
    for (index, element) in bytes.chunks_exact(width).enumerate() {
        if index > 0 {
            json.push(',');
        }
        match Value::number(dtype, element) {
            Ok(number) => write_leaf(number.root(), json),
            Err(_) => write_string(&hex(element), json),
        }
    }
    json.push(']');
}

fn write_string(text: &str, json: &mut String) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            c if c < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.json())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// Compares the value with a string.
impl PartialEq<str> for Value {
    fn eq(&self, text: &str) -> bool {
        self.as_text() == Some(text)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, text: &&str) -> bool {
        self.as_text() == Some(text)
    }
}

/// Receives nodes one at a time from the boundary, and returns the values that they form.
#[derive(Debug, Default)]
pub(crate) struct ValueNodes {
    nodes: Vec<Node>,
    /// For each node, the number of nodes in its subtree. Shared nodes are counted once per parent.
    sizes: Vec<u64>,
    bytes: u64,
}

impl ValueNodes {
    /// Adds a node and returns its number. The children of the node must already exist.
    pub(crate) fn push(&mut self, node: Node, limits: &Limits) -> Result<u32> {
        check(&node)?;
        self.bytes = self.bytes.saturating_add((node.bytes.len() + node.class.len()) as u64);
        let mut size = 1_u64;
        for child in &node.children {
            let below = self.sizes.get(child.0 as usize);
            size = size.saturating_add(*below.ok_or_else(|| no_value(child.0))?);
        }
        if size > limits.nodes || self.nodes.len() as u64 >= limits.nodes {
            return Err(Error::limit("too many nodes in values")
                .expected(format!("at most {}", limits.nodes))
                .hint("if you trust the file, raise the limit with --limit nodes=N"));
        }
        if self.bytes > limits.header_bytes {
            return Err(Error::limit("values hold too many bytes")
                .expected(format!("at most {}", limits.header_bytes))
                .hint("if you trust the file, raise the limit with --limit header_bytes=N"));
        }
        let id = u32::try_from(self.nodes.len()).map_err(|_| too_many())?;
        self.nodes.push(node);
        self.sizes.push(size);
        Ok(id)
    }

    /// Returns the value that a node represents. Shared nodes are repeated for each parent.
    pub(crate) fn value(&self, id: u32) -> Result<Value> {
        let size = *self.sizes.get(id as usize).ok_or_else(|| no_value(id))?;
        if size == 1 {
            return Ok(Value::leaf(self.nodes[id as usize].clone()));
        }
        // Collects the nodes with parents before children and the last child first, and then
        // reverses the order.
        let mut order = Vec::new();
        let mut open = vec![(id, None)];
        while let Some((id, parent)) = open.pop() {
            let place = order.len();
            order.push((id, parent));
            open.extend(
                self.nodes[id as usize]
                    .children
                    .iter()
                    .enumerate()
                    .map(|(slot, child)| (child.0, Some((place, slot)))),
            );
        }
        let count = order.len();
        let mut nodes: Vec<Node> =
            order.iter().rev().map(|(id, _)| self.nodes[*id as usize].clone()).collect();
        for (place, (_, parent)) in order.iter().enumerate() {
            if let Some((parent, slot)) = parent {
                let at = u32::try_from(count - 1 - place).map_err(|_| too_many())?;
                nodes[count - 1 - parent].children[*slot] = NodeId(at);
            }
        }
        Ok(Value { nodes: nodes.into() })
    }
}

fn no_value(id: u32) -> Error {
    Error::plugin(format!("no node {id} of a value"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn numbers_keep_their_type_and_value() {
        let cases: [(Dtype, &[u8], &str); 9] = [
            (Dtype::U8, &[255], "255"),
            (Dtype::I8, &[255], "-1"),
            (Dtype::U64, &[255; 8], "18446744073709551615"),
            (Dtype::I64, &[0, 0, 0, 0, 0, 0, 0, 0x80], "-9223372036854775808"),
            (Dtype::I32, &[1, 0, 0, 0], "1"),
            (Dtype::F32, &0.1_f32.to_le_bytes(), "0.1"),
            (Dtype::F64, &1e300_f64.to_le_bytes(), "1e300"),
            (Dtype::F64, &f64::INFINITY.to_le_bytes(), "\"inf\""),
            (Dtype::BOOL, &[1], "true"),
        ];
        for (dtype, bytes, json) in cases {
            let value = Value::number(dtype, bytes).unwrap();
            assert_eq!(value.json(), json);
            let class = if dtype == Dtype::BOOL { "" } else { dtype.info().unwrap().name() };
            assert_eq!(&*value.root().class, class);
            assert_eq!(Value::numbers(dtype, bytes).unwrap().json(), format!("[{json}]"));
        }
        assert_ne!(Value::number(Dtype::U8, &[1]).unwrap(), Value::number(Dtype::I8, &[1]).unwrap());
        assert!(Value::number(Dtype::U8, &[1, 2]).is_err());
        let of_class = |class: &str, node: Node| Value::of(Node { class: class.into(), ..node }, []);
        for (class, node, is_one) in [
            ("U8", Node::int(255), true),
            ("U8", Node::int(256), false),
            ("U8", Node::int(-1), false),
            ("I8", Node::int(-128), true),
            ("I8", Node::int(128), false),
            ("U64", Node::wide_int(u64::MAX.into()), true),
            ("F32", Node::int(1), false),
            ("length", Node::int(1), false),
            ("F32", Node::float(0.5), true),
            ("U8", Node::float(0.5), false),
        ] {
            assert_eq!(of_class(class, node.clone()).is_ok(), is_one, "{class} {node:?}");
        }
        assert!(Value::number(Dtype::BOOL, &[2]).is_err());
        assert!(Value::numbers(Dtype::U16, [1, 2, 3]).is_err());
        assert!(Value::numbers(Dtype::STR, []).is_err());
    }

    #[test]
    fn json_says_all_of_a_value() {
        let list =
            Value::list([Value::text("a\"\n\u{1}"), Value::int(-3), Value::list([]).unwrap()]).unwrap();
        let map =
            Value::map([(Value::text("k"), list.clone()), (Value::text(""), Value::float(0.5))]).unwrap();
        assert_eq!(map.json(), r#"{"k":["a\"\n\u0001",-3,[]],"":0.5}"#);
        let odd = Value::map([(Value::int(1), map)]).unwrap();
        assert_eq!(odd.json(), r#"[[1,{"k":["a\"\n\u0001",-3,[]],"":0.5}]]"#);
        assert_eq!(odd.depth(), 3);
        let bytes = Value::of(Node::scalar(NodeKind::BYTES, &[0, 255]), []).unwrap();
        assert_eq!(bytes.json(), "\"00ff\"");
        assert!(Value::of(Node::tensor(crate::TensorId(0)), []).is_err());
    }

    #[test]
    fn what_crosses_is_the_same_value() {
        let inner = Value::list([Value::text("a"), Value::int(7)]).unwrap();
        let value = Value::map([(Value::text("x"), inner.clone()), (Value::text("y"), inner)]).unwrap();
        let limits = Limits::default();
        let mut nodes = ValueNodes::default();
        // The list is sent only once, but used by two parents.
        let [x, y, a, seven] = [Node::text("x"), Node::text("y"), Node::text("a"), Node::int(7)]
            .map(|node| NodeId(nodes.push(node, &limits).unwrap()));
        let list = NodeId(nodes.push(Node::container(NodeKind::LIST, "", [a, seven]), &limits).unwrap());
        let map = nodes.push(Node::map("", &[(x, list), (y, list)]), &limits).unwrap();
        assert_eq!(nodes.value(map).unwrap(), value);
        assert_eq!(nodes.value(a.0).unwrap(), "a");
        assert!(nodes.value(99).is_err());
    }

    #[test]
    fn what_is_shared_again_and_again_is_bounded() {
        let limits = Limits::default();
        let mut nodes = ValueNodes::default();
        let mut id = nodes.push(Node::int(1), &limits).unwrap();
        let grown = (0..100).try_for_each(|_| {
            id = nodes.push(Node::container(NodeKind::LIST, "", [NodeId(id), NodeId(id)]), &limits)?;
            Ok::<_, Error>(())
        });
        assert_eq!(grown.unwrap_err().kind(), crate::ErrorKind::Limit);
        assert!(nodes.push(Node::container(NodeKind::LIST, "", [NodeId(5000)]), &limits).is_err());
    }
}
