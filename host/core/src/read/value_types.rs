//! Typed metadata for a target that stores metadata only as strings. Each value is written as
//! compact JSON, which people and other programs can read. An additional entry, `ferry.types`,
//! records the types. The JSON and the types together restore the values bit for bit.
//!
//! ```text
//! llama.block_count     = "32"
//! tokenizer.ggml.tokens = "[\"<s>\",\"</s>\"]"
//! ferry.types           = {"llama.block_count":"U32","tokenizer.ggml.tokens":["TEXT"]}
//! ```
//!
//! | Type | The JSON represents |
//! |---|---|
//! | `"U32"`, `"F32"`, `"BOOL"`, ... | a number of this dtype |
//! | `"INT"`, `"FLOAT"`, `"NONE"`, `"TEXT"` | a number without a dtype, no value, a string in a list |
//! | `"U32[]"` | a sequence of numbers of this dtype |
//! | `"BYTES"`, `"BYTES CLASS"` | bytes, in hexadecimal |
//! | `[TYPE]` | a list whose items are all of this type |
//! | `{"items":[TYPE,...],"class":CLASS}` | a list with items of different types, or with a class, which may name the item type of an empty list |
//! | `{"type":TYPE,"hex":BYTES}` | one or more numbers that JSON does not represent exactly (the bits of a NaN) |

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use tensorferry_sdk::{Catalog, Dtype, Loss, LossKind, Node, NodeKind, Severity, Value, hex};

const KEY: &str = "ferry.types";
/// Maximum depth of nested lists whose types are recorded. The limit is needed because each level
/// parses the JSON again.
const MAX_LEVELS: u32 = 8;
/// The suffix that follows the dtype in the type of a sequence of numbers.
const RUN: &str = "[]";
/// The type word for bytes. The class of the bytes may follow it.
const BYTES: &str = "BYTES";

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Type {
    Word(String),
    /// A list of at least one item. All items have this type.
    Alike(Box<Type>),
    List {
        items: Vec<Type>,
        class: String,
    },
    /// Numbers that JSON does not represent exactly, with their bytes.
    Exact {
        word: String,
        bytes: Vec<u8>,
    },
}

/// Converts metadata values to JSON strings, and adds their types. Values that could not be
/// restored from the string and the type remain unchanged. Returns a note about the conversion.
pub fn fold(catalog: &mut Catalog) -> Option<Loss> {
    if catalog.metadata().contains_key(KEY) {
        return None;
    }
    let values = catalog.metadata().iter().filter(|(_, value)| value.as_text().is_none());
    let typed: Vec<(String, Value, Type)> = values
        .filter_map(|(key, value)| {
            let (text, declared) = (value.json(), declared_type(value)?);
            (restored(&text, &declared).as_ref() == Some(value))
                .then(|| (key.clone(), Value::text(&text), declared))
        })
        .collect();
    let (first, count) = (typed.first()?.0.clone(), typed.len());
    let mut metadata = catalog.metadata().clone();
    let mut types = serde_json::Map::new();
    for (key, text, declared) in typed {
        metadata.insert(key.clone(), text);
        types.insert(key, declared.json());
    }
    metadata.insert(KEY.to_owned(), Value::text(&Json::Object(types).to_string()));
    *catalog = std::mem::take(catalog).with_metadata(metadata);
    let what = if count == 1 { first } else { format!("{count} entries") };
    let why =
        format!("the target holds metadata as text: values become compact JSON, and {KEY} lists their types");
    Some(Loss::new(LossKind::Metadata, what, why).severity(Severity::Note))
}

/// Restores the values whose types the metadata lists. Also returns whether any value was restored.
/// A string that is not a valid value of its type remains a string.
#[must_use]
pub fn unfold(catalog: Catalog) -> (Catalog, bool) {
    let types = catalog.metadata().get(KEY).and_then(|value| serde_json::from_str(value.as_text()?).ok());
    let Some(Json::Object(types)) = types else { return (catalog, false) };
    let mut metadata = catalog.metadata().clone();
    let mut left = serde_json::Map::new();
    let mut any = false;
    for (key, json) in types {
        let value = metadata.get(&key).and_then(|text| restored(text.as_text()?, &Type::of(&json, 0)?));
        match value {
            Some(value) => {
                metadata.insert(key, value);
                any = true;
            }
            None => drop(left.insert(key, json)),
        }
    }
    if left.is_empty() {
        metadata.remove(KEY);
    } else {
        metadata.insert(KEY.to_owned(), Value::text(&Json::Object(left).to_string()));
    }
    (catalog.with_metadata(metadata), any)
}

impl Type {
    fn json(&self) -> Json {
        match self {
            Self::Word(word) => word.clone().into(),
            Self::Alike(item) => vec![item.json()].into(),
            Self::List { items, class } => {
                let items: Vec<Json> = items.iter().map(Self::json).collect();
                if class.is_empty() {
                    json!({ "items": items })
                } else {
                    json!({ "items": items, "class": class })
                }
            }
            Self::Exact { word, bytes } => json!({ "type": word, "hex": hex(bytes) }),
        }
    }

    fn of(json: &Json, level: u32) -> Option<Self> {
        let below = |item: &Json| Self::of(item, level + 1);
        match json {
            _ if level > MAX_LEVELS => None,
            Json::String(word) => Some(Self::Word(word.clone())),
            Json::Array(items) => match &**items {
                [item] => Some(Self::Alike(Box::new(below(item)?))),
                _ => None,
            },
            Json::Object(_) => {
                let text = |key: &str| json.get(key).map(|text| text.as_str().map(str::to_owned));
                match json.get("items").and_then(Json::as_array) {
                    Some(items) => Some(Self::List {
                        items: items.iter().map(below).collect::<Option<_>>()?,
                        class: text("class").unwrap_or_else(|| Some(String::new()))?,
                    }),
                    None => Some(Self::Exact { word: text("type")??, bytes: bytes(&text("hex")??)? }),
                }
            }
            _ => None,
        }
    }
}

/// Returns the type of a value, if [`Type`] can represent it.
fn declared_type(value: &Value) -> Option<Type> {
    // In the list of nodes, children come before their parents.
    let mut types: Vec<(u32, Option<Type>)> = Vec::with_capacity(value.nodes().len());
    for node in value.nodes() {
        let next = if node.kind == NodeKind::LIST {
            let items = node.children.iter().map(|id| types.get_mut(id.0 as usize).map(std::mem::take));
            let items: Vec<(u32, Option<Type>)> = items.collect::<Option<_>>()?;
            let level = items.iter().map(|(level, _)| level + 1).max().unwrap_or(0);
            let items = items.into_iter().map(|(_, declared)| declared).collect::<Option<Vec<Type>>>();
            (level, items.filter(|_| level <= MAX_LEVELS).map(|items| list(node, items)))
        } else {
            (0, leaf(node))
        };
        types.push(next);
    }
    types.pop()?.1
}

fn list(node: &Node, items: Vec<Type>) -> Type {
    match items.first() {
        Some(first) if node.class.is_empty() && items.iter().all(|item| item == first) => {
            Type::Alike(Box::new(first.clone()))
        }
        _ => Type::List { items, class: node.class.to_string() },
    }
}

fn leaf(node: &Node) -> Option<Type> {
    let class = &*node.class;
    let word = match (node.kind, class) {
        (NodeKind::NONE, "") => "NONE".to_owned(),
        (NodeKind::BOOL, "") => "BOOL".to_owned(),
        (NodeKind::TEXT, "") => "TEXT".to_owned(),
        (NodeKind::INT, "") => "INT".to_owned(),
        (NodeKind::FLOAT, "") => "FLOAT".to_owned(),
        (NodeKind::INT | NodeKind::FLOAT, dtype) => dtype.to_owned(),
        (NodeKind::NUMBERS, dtype) => format!("{dtype}{RUN}"),
        (NodeKind::BYTES, "") => BYTES.to_owned(),
        (NodeKind::BYTES, class) => format!("{BYTES} {class}"),
        _ => return None,
    };
    let declared = Type::Word(word.clone());
    let value = Value::of(node.clone(), []).ok()?;
    if restored(&value.json(), &declared).as_ref() == Some(&value) {
        return Some(declared);
    }
    let exact = Type::Exact { word, bytes: node.bytes.to_vec() };
    (restored(&value.json(), &exact).as_ref() == Some(&value)).then_some(exact)
}

/// Parses a JSON string as a value of this type.
fn restored(json: &str, declared: &Type) -> Option<Value> {
    match declared {
        Type::Word(word) => of_word(json, word),
        Type::Exact { word, bytes } => {
            let value = of_bytes(word, bytes)?;
            // If a user has edited the JSON, the edited value is used instead of the original
            // value.
            (value.json() == json).then_some(value)
        }
        Type::Alike(item) => {
            let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            let items: Option<Vec<Value>> = items.iter().map(|text| restored(text.get(), item)).collect();
            Value::list(items?).ok()
        }
        Type::List { items, class } => {
            let texts: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            if texts.len() != items.len() {
                return None;
            }
            let items = texts.iter().zip(items).map(|(text, item)| restored(text.get(), item));
            let items: Vec<Value> = items.collect::<Option<_>>()?;
            Value::of(Node::container(NodeKind::LIST, class, []), items).ok()
        }
    }
}

fn of_word(json: &str, word: &str) -> Option<Value> {
    if let Some(dtype) = word.strip_suffix(RUN) {
        let dtype = Dtype::named(dtype)?;
        let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
        let mut bytes = Vec::new();
        for item in items {
            bytes.extend(element(dtype, item.get())?);
        }
        return Value::numbers(dtype, bytes).ok();
    }
    match word {
        "NONE" => (json == "null").then(|| Value::of(Node::none(), []).ok())?,
        "TEXT" => Some(Value::text(&parsed::<String>(json)?)),
        "INT" => Value::of(Node::wide_int(json.parse().ok()?), []).ok(),
        "FLOAT" => Some(Value::float(float(json)?)),
        _ => match word.strip_prefix(BYTES) {
            Some(class) if class.is_empty() || class.starts_with(' ') => {
                let node = Node::scalar(NodeKind::BYTES, &bytes(&parsed::<String>(json)?)?);
                Value::of(Node { class: class.trim_start().into(), ..node }, []).ok()
            }
            _ => {
                let dtype = Dtype::named(word)?;
                Value::number(dtype, &element(dtype, json)?).ok()
            }
        },
    }
}

/// Returns the value for a type word and the bytes of its numbers.
fn of_bytes(word: &str, bytes: &[u8]) -> Option<Value> {
    match (word, word.strip_suffix(RUN)) {
        (_, Some(dtype)) => Value::numbers(Dtype::named(dtype)?, bytes).ok(),
        ("FLOAT", _) => Value::of(Node::scalar(NodeKind::FLOAT, bytes), []).ok(),
        // A float node always stores its number as F64, and names the original dtype in its class.
        _ => Value::of(Node { class: word.into(), ..Node::scalar(NodeKind::FLOAT, bytes) }, []).ok(),
    }
}

/// Returns the little-endian bytes of a number of this dtype.
fn element(dtype: Dtype, json: &str) -> Option<Vec<u8>> {
    macro_rules! number {
        ($type:ty) => {
            json.parse::<$type>().ok()?.to_le_bytes().to_vec()
        };
    }
    Some(match dtype {
        Dtype::BOOL => vec![parsed::<bool>(json)?.into()],
        Dtype::U8 => number!(u8),
        Dtype::I8 => number!(i8),
        Dtype::U16 => number!(u16),
        Dtype::I16 => number!(i16),
        Dtype::U32 => number!(u32),
        Dtype::I32 => number!(i32),
        Dtype::U64 => number!(u64),
        Dtype::I64 => number!(i64),
        Dtype::F32 => float::<f32>(json)?.to_le_bytes().to_vec(),
        Dtype::F64 => float::<f64>(json)?.to_le_bytes().to_vec(),
        _ => return None,
    })
}

/// Parses a number, or the name of a number that JSON cannot represent. The string is parsed
/// directly to the target type, because parsing through f64 would round an f32 twice.
fn float<F: std::str::FromStr>(json: &str) -> Option<F> {
    match json {
        r#""NaN""# | r#""inf""# | r#""-inf""# => json.trim_matches('"').parse().ok(),
        _ => json.parse().ok(),
    }
}

fn parsed<T: DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_str(json).ok()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = hex.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{CatalogBuilder, CatalogSink, Limits, MemorySource};

    fn catalog(entries: impl IntoIterator<Item = (String, Value)>) -> Catalog {
        let (source, limits) = (MemorySource::file("x", []), Limits::default());
        let mut builder = CatalogBuilder::new("test", &source, &limits);
        for (key, value) in entries {
            builder.metadata(&key, value).unwrap();
        }
        builder.finish().unwrap()
    }

    fn number(dtype: Dtype, bytes: impl AsRef<[u8]>) -> Value {
        Value::number(dtype, bytes.as_ref()).unwrap()
    }

    fn of_class(kind: NodeKind, class: &str, bytes: &[u8]) -> Value {
        Value::of(Node { class: class.into(), ..Node::scalar(kind, bytes) }, []).unwrap()
    }

    /// Returns values of every kind, with their expected types.
    fn values() -> Vec<(Value, &'static str)> {
        let texts = Value::list([Value::text("a\"\u{1}"), Value::text("")]).unwrap();
        let empty = Value::of(Node::container(NodeKind::LIST, "STR", []), []).unwrap();
        let nan = f32::from_bits(0xffc0_0001);
        vec![
            (number(Dtype::U8, [255]), r#""U8""#),
            (number(Dtype::I64, i64::MIN.to_le_bytes()), r#""I64""#),
            (number(Dtype::U64, u64::MAX.to_le_bytes()), r#""U64""#),
            (number(Dtype::F32, 0.1_f32.to_le_bytes()), r#""F32""#),
            (number(Dtype::F64, 5e-324_f64.to_le_bytes()), r#""F64""#),
            (number(Dtype::F32, (-0.0_f32).to_le_bytes()), r#""F32""#),
            (number(Dtype::F64, f64::NEG_INFINITY.to_le_bytes()), r#""F64""#),
            (Value::bool(true), r#""BOOL""#),
            (Value::int(-3), r#""INT""#),
            (Value::float(1e300), r#""FLOAT""#),
            (Value::of(Node::none(), []).unwrap(), r#""NONE""#),
            (of_class(NodeKind::BYTES, "STR", b"\xff\0"), r#""BYTES STR""#),
            (of_class(NodeKind::BYTES, "", b""), r#""BYTES""#),
            (Value::numbers(Dtype::BOOL, [1, 0]).unwrap(), r#""BOOL[]""#),
            (Value::numbers(Dtype::I16, []).unwrap(), r#""I16[]""#),
            (Value::numbers(Dtype::F32, nan.to_le_bytes()).unwrap(), r#"{"hex":"0100c0ff","type":"F32[]"}"#),
            (Value::numbers(Dtype::BF16, [1, 2]).unwrap(), r#"{"hex":"0102","type":"BF16[]"}"#),
            (texts.clone(), r#"["TEXT"]"#),
            (Value::list([]).unwrap(), r#"{"items":[]}"#),
            (empty.clone(), r#"{"class":"STR","items":[]}"#),
            (Value::list([texts, empty]).unwrap(), r#"{"items":[["TEXT"],{"class":"STR","items":[]}]}"#),
        ]
    }

    #[test]
    fn values_come_back_bit_for_bit() {
        let named = |(index, (value, _)): (usize, &(Value, &str))| (format!("k{index:02}"), value.clone());
        let values = values();
        let before = catalog(values.iter().enumerate().map(named).chain([("t".to_owned(), "text".into())]));
        let mut texts = before.clone();
        let loss = fold(&mut texts).unwrap();
        assert_eq!((loss.what, loss.severity), (format!("{} entries", values.len()), Severity::Note));
        assert!(texts.metadata().values().all(|value| value.as_text().is_some()));
        let expected: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(index, (_, declared))| format!("\"k{index:02}\":{declared}"))
            .collect();
        assert_eq!(texts.metadata()[KEY], *format!("{{{}}}", expected.join(",")));
        let (back, any) = unfold(texts);
        assert!(any && back.metadata() == before.metadata());
    }

    #[test]
    fn a_text_that_was_changed_counts() {
        let mut texts =
            catalog([("n", 7), ("m", 8)].map(|(key, n)| (key.to_owned(), number(Dtype::U8, [n]))));
        fold(&mut texts).unwrap();
        let with = |text: &str| {
            let mut metadata = texts.metadata().clone();
            metadata.insert("n".to_owned(), text.into());
            unfold(texts.clone().with_metadata(metadata)).0.metadata().clone()
        };
        assert_eq!(with("9")["n"], number(Dtype::U8, [9]));
        for none in ["256", "-1", "", "\"7\"", "7.0"] {
            let metadata = with(none);
            assert_eq!((&metadata["n"], &metadata["m"]), (&Value::text(none), &number(Dtype::U8, [8])));
            assert_eq!(metadata[KEY], r#"{"n":"U8"}"#, "{none:?}");
        }
    }

    #[test]
    fn what_has_no_word_stays() {
        let map = Value::map([(Value::text("a"), Value::int(1))]).unwrap();
        let deep = (0..70).fold(Value::int(1), |inner, _| Value::list([inner]).unwrap());
        let mut texts = catalog([("map".to_owned(), map), ("deep".to_owned(), deep)]);
        let before = texts.clone();
        assert_eq!(fold(&mut texts), None);
        assert_eq!(texts.metadata(), before.metadata());
        for other in ["", "[]", "7", r#"{"a":7}"#, r#"{"a":{"type":"F32[]"}}"#] {
            let made = catalog([(KEY.to_owned(), other.into()), ("a".to_owned(), "1".into())]);
            let (same, any) = unfold(made.clone());
            assert!(!any && same.metadata() == made.metadata(), "{other}");
        }
    }

    #[test]
    fn a_hostile_type_costs_what_it_is() {
        let deep = format!("{}\"U8\"{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        for declared in [deep.as_str(), r#""U8""#] {
            let types = format!(r#"{{"a":{declared}}}"#);
            let made =
                catalog([(KEY.to_owned(), types.as_str().into()), ("a".to_owned(), text.as_str().into())]);
            assert!(!unfold(made).1);
        }
    }
}
