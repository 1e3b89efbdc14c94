//! Metadata values, which are typed numbers, strings and arrays. All elements of an array have the
//! same type, which may be an array type.
//!
//! In a catalog, the class of a number is its dtype, and an array of numbers is a single node. An
//! array of strings or of arrays is a list. The class of an empty list is the element type. A
//! string that is not UTF-8 becomes bytes of class `STR`.

use crate::cursor::Cursor;
use tensorferry_sdk::{
    ByteOrder, Dtype, DtypeInfo, Error, Limits, MemorySource, Node, NodeKind, Result, Source, Value,
};

/// Codes of the number types, and their dtypes. A boolean is one byte, 0 or 1.
const NUMBERS: [(u32, Dtype); 11] = [
    (0, Dtype::U8),
    (1, Dtype::I8),
    (2, Dtype::U16),
    (3, Dtype::I16),
    (4, Dtype::U32),
    (5, Dtype::I32),
    (6, Dtype::F32),
    (7, Dtype::BOOL),
    (10, Dtype::U64),
    (11, Dtype::I64),
    (12, Dtype::F64),
];
const TEXT: u32 = 8;
const ARRAY: u32 = 9;
/// Class of strings that are not UTF-8, and of empty lists of strings.
const TEXT_CLASS: &str = "STR";
/// Class of empty lists of arrays.
const ARRAY_CLASS: &str = "ARRAY";
/// Number of bytes before the elements of an array.
const ARRAY_HEAD: u64 = 12;
/// Maximum number of bytes in a string, and of elements in an array, in ggml.
const MAX_DEPTH: usize = 1 << 30;

/// Memory budget for all metadata values of a file.
pub(crate) struct Budget {
    nodes: u64,
    bytes: u64,
    limits: Limits,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { nodes: limits.nodes, bytes: limits.header_bytes, limits: limits.clone() }
    }

    /// Subtracts the `bytes` of a value, which is nested in `levels` arrays, from the budget. The
    /// bytes are counted once for the value and once for each array, because building a list copies
    /// its items.
    fn take(&mut self, levels: usize, bytes: u64) -> Result<()> {
        let levels = levels as u64 + 1;
        let nodes = self.nodes.checked_sub(levels).ok_or_else(|| {
            let max = self.limits.nodes;
            Error::limit("too many values in metadata")
                .expected(format!("at most {max}"))
                .hint("raise the limit with --limit nodes=N")
        })?;
        let bytes = self.bytes.checked_sub(bytes.saturating_mul(levels)).ok_or_else(|| {
            let max = self.limits.header_bytes;
            Error::limit("the metadata values take too many bytes")
                .expected(format!("at most {max}"))
                .hint("raise the limit with --limit header_bytes=N")
        })?;
        (self.nodes, self.bytes) = (nodes, bytes);
        Ok(())
    }
}

/// An array that is being read.
struct OpenArray {
    element: u32,
    left: u64,
    items: Vec<Value>,
}

/// Reads the type and the content of a value. The file controls the nesting depth, so the arrays
/// around the current value are kept in a list instead of on the call stack.
pub(crate) fn read(cursor: &mut Cursor<'_>, budget: &mut Budget) -> Result<Value> {
    let mut open: Vec<OpenArray> = Vec::new();
    let mut kind = kind(cursor)?;
    loop {
        let mut value = if kind == ARRAY {
            let element = self::kind(cursor)?;
            let at = cursor.at();
            let count = cursor.count("array", width(element))?;
            if let Some(dtype) = number(element) {
                budget.take(open.len(), count * width(element))?;
                numbers(cursor, dtype, count).map_err(|error| error.offset(at))?
            } else if count > 0 {
                let max = budget.limits.nesting;
                if open.len() as u64 >= max {
                    return Err(Error::limit("an array is nested too deeply")
                        .offset(at)
                        .expected(format!("at most {max} levels"))
                        .hint("raise the limit with --limit nesting=N"));
                }
                budget.take(open.len(), 0)?;
                open.push(OpenArray { element, left: count, items: Vec::new() });
                kind = element;
                continue;
            } else {
                budget.take(open.len(), 0)?;
                let class = if element == TEXT { TEXT_CLASS } else { ARRAY_CLASS };
                Value::of(Node::container(NodeKind::LIST, class, []), [])?
            }
        } else {
            scalar(cursor, kind, open.len(), budget)?
        };
        // Append the value to the innermost open array. If this completes the array, append the
        // array to the array around it.
        loop {
            let Some(array) = open.last_mut() else { return Ok(value) };
            array.items.push(value);
            array.left -= 1;
            if array.left > 0 {
                kind = array.element;
                break;
            }
            value = Value::list(open.pop().map(|array| array.items).unwrap_or_default())?;
        }
    }
}

fn kind(cursor: &mut Cursor<'_>) -> Result<u32> {
    let at = cursor.at();
    let kind = cursor.u32()?;
    if number(kind).is_some() || kind == TEXT || kind == ARRAY {
        return Ok(kind);
    }
    Err(Error::malformed("unknown value type").offset(at).expected("0 to 12").found(kind))
}

fn number(kind: u32) -> Option<Dtype> {
    NUMBERS.iter().find(|(code, _)| *code == kind).map(|&(_, dtype)| dtype)
}

fn code(dtype: Dtype) -> Option<u32> {
    NUMBERS.iter().find(|(_, known)| *known == dtype).map(|&(code, _)| code)
}

/// Returns the minimum length in bytes of a value of this type.
fn width(kind: u32) -> u64 {
    match kind {
        ARRAY => ARRAY_HEAD,
        kind => number(kind).map_or(size_of::<u64>() as u64, bytes_of),
    }
}

fn bytes_of(dtype: Dtype) -> u64 {
    dtype.info().and_then(DtypeInfo::element_bytes).unwrap_or(1).into()
}

fn scalar(cursor: &mut Cursor<'_>, kind: u32, levels: usize, budget: &mut Budget) -> Result<Value> {
    let at = cursor.at();
    let Some(dtype) = number(kind) else {
        let text = cursor.text()?;
        budget.take(levels, text.len() as u64)?;
        return match std::str::from_utf8(text) {
            Ok(text) => Ok(Value::text(text)),
            Err(_) => Value::of(Node { class: TEXT_CLASS.into(), ..Node::scalar(NodeKind::BYTES, text) }, []),
        };
    };
    budget.take(levels, bytes_of(dtype))?;
    let bytes = little(cursor, dtype, 1)?;
    check_bools(dtype, &bytes).map_err(|error| error.offset(at))?;
    Value::number(dtype, &bytes)
}

fn numbers(cursor: &mut Cursor<'_>, dtype: Dtype, count: u64) -> Result<Value> {
    let bytes = little(cursor, dtype, count)?;
    check_bools(dtype, &bytes)?;
    Value::numbers(dtype, bytes)
}

/// Reads `count` numbers and returns their bytes in little-endian order.
fn little(cursor: &mut Cursor<'_>, dtype: Dtype, count: u64) -> Result<Vec<u8>> {
    let (order, width) = (cursor.order, bytes_of(dtype));
    let mut bytes = cursor.take(count * width)?.to_vec();
    if order == ByteOrder::Big {
        bytes.chunks_mut(usize::try_from(width).unwrap_or(1)).for_each(<[u8]>::reverse);
    }
    Ok(bytes)
}

fn check_bools(dtype: Dtype, bytes: &[u8]) -> Result<()> {
    match bytes.iter().find(|&&byte| dtype == Dtype::BOOL && byte > 1) {
        Some(byte) => Err(Error::malformed("a boolean is neither 0 nor 1").found(byte)),
        None => Ok(()),
    }
}

/// A value, encoded as in a little-endian file.
#[derive(Debug)]
pub(crate) struct Encoded {
    kind: u32,
    bytes: Vec<u8>,
    /// Whether the value contains an array of arrays, which ggml cannot read.
    pub(crate) nests: bool,
}

impl Encoded {
    /// Writes the type and the bytes of the value.
    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        output.extend(self.kind.to_le_bytes());
        output.extend(&self.bytes);
    }

    pub(crate) fn u32(number: u32) -> Self {
        Self { kind: 4, bytes: number.to_le_bytes().into(), nests: false }
    }

    fn of_text(text: &[u8]) -> Self {
        let bytes = [&(text.len() as u64).to_le_bytes(), text].concat();
        Self { kind: TEXT, bytes, nests: false }
    }

    fn array(element: u32, count: usize, nests: bool, bytes: impl IntoIterator<Item = u8>) -> Self {
        let mut array = [&element.to_le_bytes()[..], &(count as u64).to_le_bytes()].concat();
        array.extend(bytes);
        Self { kind: ARRAY, bytes: array, nests }
    }

    /// Returns whether decoding the encoded bytes yields `value` with the same types.
    pub(crate) fn is_exactly(&self, value: &Value) -> bool {
        let mut bytes = Vec::with_capacity(self.bytes.len() + 4);
        self.write(&mut bytes);
        let (source, limits) = (MemorySource::file("value", bytes), Limits::default());
        let found = source
            .open("value")
            .and_then(|file| read(&mut Cursor::new(&source, file, &limits), &mut Budget::new(&limits)));
        found.is_ok_and(|found| found == *value)
    }
}

/// Encodes a value with the type that its class specifies, or with the widest type that fits.
/// Returns `None` if GGUF cannot represent the value.
pub(crate) fn encode(value: &Value) -> Option<Encoded> {
    // Encoded nodes that have not been added to their parent. Children precede their parent, and
    // encoding the parent removes them from this list.
    let mut encoded: Vec<Option<Encoded>> = Vec::with_capacity(value.nodes().len());
    for node in value.nodes() {
        let next = match node.kind {
            NodeKind::LIST => list(node, &mut encoded),
            _ => leaf(node),
        };
        encoded.push(next);
    }
    encoded.pop()?
}

fn list(node: &Node, encoded: &mut [Option<Encoded>]) -> Option<Encoded> {
    let items: Option<Vec<Encoded>> =
        node.children.iter().map(|child| encoded.get_mut(child.0 as usize)?.take()).collect();
    let items = items.filter(|items| items.len() <= MAX_DEPTH)?;
    let empty = if &*node.class == ARRAY_CLASS { ARRAY } else { TEXT };
    let element = items.first().map_or(empty, |item| item.kind);
    let is_one_type = items.iter().all(|item| item.kind == element);
    let bytes = items.iter().flat_map(|item| item.bytes.iter().copied());
    is_one_type.then(|| Encoded::array(element, items.len(), element == ARRAY, bytes))
}

fn leaf(node: &Node) -> Option<Encoded> {
    if node.bytes.len() > MAX_DEPTH {
        return None;
    }
    let number = |dtype: Dtype, bytes: &[u8]| {
        Some(Encoded { kind: code(dtype)?, bytes: bytes.to_vec(), nests: false })
    };
    match node.kind {
        NodeKind::TEXT => Some(Encoded::of_text(&node.bytes)),
        NodeKind::BYTES if &*node.class == TEXT_CLASS => Some(Encoded::of_text(&node.bytes)),
        NodeKind::BYTES => Some(Encoded::array(0, node.bytes.len(), false, node.bytes.iter().copied())),
        NodeKind::BOOL => number(Dtype::BOOL, &node.bytes),
        NodeKind::INT => integer(node),
        NodeKind::FLOAT => match (node.as_float()?, &*node.class) {
            #[expect(clippy::cast_possible_truncation, reason = "the value was widened from an F32")]
            (value, "F32") => number(Dtype::F32, &(value as f32).to_le_bytes()),
            (value, _) => number(Dtype::F64, &value.to_le_bytes()),
        },
        NodeKind::NUMBERS => {
            let dtype = Dtype::named(&node.class)?;
            let count = node.bytes.len() / usize::try_from(bytes_of(dtype)).ok()?;
            Some(Encoded::array(code(dtype)?, count, false, node.bytes.iter().copied()))
        }
        _ => None,
    }
}

/// Encodes an integer with the type that its class specifies, or returns `None` if the integer does
/// not fit. If the class does not specify a type, uses I64, or U64 if I64 is too small.
fn integer(node: &Node) -> Option<Encoded> {
    let named = Dtype::named(&node.class).filter(|&dtype| code(dtype).is_some());
    let dtypes = named.map_or(vec![Dtype::I64, Dtype::U64], |dtype| vec![dtype]);
    dtypes.into_iter().find_map(|dtype| {
        let is_negative = node.bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut bytes = node.bytes.to_vec();
        bytes.resize(bytes.len().max(8), if is_negative { 0xff } else { 0 });
        bytes.truncate(usize::try_from(bytes_of(dtype)).ok()?);
        // Read the number back to detect truncation.
        let again = Value::number(dtype, &bytes).ok()?;
        (again.root().bytes == node.bytes).then_some(Encoded { kind: code(dtype)?, bytes, nests: false })
    })
}

/// Parses a typed value from the command line, such as `u32:64` or `string:llama`.
pub(crate) fn parse(typed: &str) -> Result<Value> {
    let words = "u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, bool or string";
    let refuse = || {
        Error::usage(format!("invalid value {typed:?} for option `set`"))
            .hint(format!("pass KEY=TYPE:VALUE, where TYPE is {words}"))
    };
    let (word, text) = typed.split_once(':').ok_or_else(refuse)?;
    macro_rules! number {
        ($dtype:ident, $type:ty) => {
            text.parse::<$type>().ok().map(|number| Value::number(Dtype::$dtype, &number.to_le_bytes()))
        };
    }
    let value = match word {
        "u8" => number!(U8, u8),
        "i8" => number!(I8, i8),
        "u16" => number!(U16, u16),
        "i16" => number!(I16, i16),
        "u32" => number!(U32, u32),
        "i32" => number!(I32, i32),
        "u64" => number!(U64, u64),
        "i64" => number!(I64, i64),
        "f32" => number!(F32, f32),
        "f64" => number!(F64, f64),
        "bool" => text.parse().ok().map(|value| Ok(Value::bool(value))),
        "string" => Some(Ok(Value::text(text))),
        _ => None,
    };
    value.ok_or_else(refuse)?
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn read_bytes(bytes: &[u8], limits: &Limits) -> Result<Value> {
        let source = MemorySource::file("value", bytes);
        read(&mut Cursor::new(&source, source.open("value")?, limits), &mut Budget::new(limits))
    }

    #[test]
    fn what_has_a_type_comes_back_with_it() {
        let texts = Value::list([Value::text("a"), Value::text("")]).unwrap();
        let deep = Value::list([Value::list([texts.clone()]).unwrap(), Value::list([]).unwrap()]);
        for typed in [
            "u8:255",
            "i8:-128",
            "u64:18446744073709551615",
            "i64:-1",
            "f32:0.1",
            "f64:-1e300",
            "bool:true",
            "string:x",
        ] {
            let value = parse(typed).unwrap();
            assert!(encode(&value).unwrap().is_exactly(&value), "{typed}");
        }
        let empty = Value::of(Node::container(NodeKind::LIST, TEXT_CLASS, []), []).unwrap();
        let bytes =
            Value::of(Node { class: TEXT_CLASS.into(), ..Node::scalar(NodeKind::BYTES, b"\xff") }, [])
                .unwrap();
        for value in [texts, empty, bytes, Value::numbers(Dtype::F64, []).unwrap()] {
            assert!(encode(&value).unwrap().is_exactly(&value), "{value:?}");
        }
        assert!(encode(&deep.unwrap()).unwrap().nests);
    }

    #[test]
    fn what_has_none_gets_one_and_shows_it() {
        for value in [Value::int(-40), Value::float(0.5), Value::list([Value::bool(true)]).unwrap()] {
            assert!(!encode(&value).unwrap().is_exactly(&value), "{value:?}");
        }
        let mixed = Value::list([Value::int(1), Value::text("a")]).unwrap();
        let map = Value::map([(Value::text("a"), Value::int(1))]).unwrap();
        for value in [mixed, map, Value::of(Node::none(), []).unwrap()] {
            assert!(encode(&value).is_none(), "{value:?}");
        }
    }

    #[test]
    fn what_a_file_claims_is_held_against_it() {
        let limits = Limits::default();
        let claim = |element: u32, count: u64| {
            let bytes =
                [&ARRAY.to_le_bytes()[..], &element.to_le_bytes(), &count.to_le_bytes(), &[0; 40]].concat();
            read_bytes(&bytes, &limits)
        };
        assert!(claim(12, 5).is_ok() && claim(TEXT, 5).is_ok());
        assert!(claim(12, 6).is_err() && claim(12, 1 << 61).is_err() && claim(TEXT, 6).is_err());
        assert!(claim(ARRAY, 4).is_err() && claim(13, 0).is_err());
        assert!(read_bytes(&[7, 0, 0, 0, 2], &limits).is_err());
    }

    #[test]
    fn what_is_nested_again_and_again_is_bounded() {
        let deep = |levels: usize| {
            let one = [ARRAY.to_le_bytes(), [1, 0, 0, 0], [0; 4]].concat();
            [&ARRAY.to_le_bytes()[..], &one.repeat(levels), &[0; 12]].concat()
        };
        assert!(read_bytes(&deep(200), &Limits::default()).is_ok());
        let error = read_bytes(&deep(300), &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("nested too deeply"), "{error}");
        let mut few = Limits::default();
        few.nodes = 1000;
        assert!(read_bytes(&deep(40), &few).is_ok());
        assert!(read_bytes(&deep(60), &few).unwrap_err().to_string().contains("too many values"));
    }
}
