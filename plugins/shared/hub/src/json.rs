//! Parses the JSON of headers and indexes. Keys must be unique, and the number of entries is
//! limited. Errors contain the name of the tensor and the byte offset.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use tensorferry_sdk::{Error, Limits, Result};

/// Maximum number of characters of the parser's message that an error contains. The message may
/// quote the file.
const MESSAGE_CHARS: usize = 1000;

/// The state of the parser: the number of entries parsed so far, the tensor of the current entry,
/// and the error for a limit that was exceeded.
pub struct ParseState<'a> {
    limits: &'a Limits,
    entries: Cell<u64>,
    tensor: RefCell<Option<String>>,
    refusal: RefCell<Option<Error>>,
}

impl<'a> ParseState<'a> {
    /// Creates a state that enforces the limits on the number of tensors and the length of names.
    #[must_use]
    pub fn new(limits: &'a Limits) -> Self {
        Self { limits, entries: Cell::new(0), tensor: RefCell::default(), refusal: RefCell::default() }
    }

    /// Counts an entry with this key against the limits. If a limit is exceeded, [`parse`] returns
    /// the error.
    pub fn count<E: serde::de::Error>(&self, key: &str) -> Result<(), E> {
        let entries = self.entries.get() + 1;
        self.entries.set(entries);
        let Limits { tensors, name_bytes, .. } = *self.limits;
        let refusal = if entries > tensors {
            Error::limit("too many entries")
                .hint("raise the limit with --limit tensors=N")
                .expected(format!("at most {tensors}"))
        } else if key.len() as u64 > name_bytes {
            Error::limit("a name is too long")
                .hint("raise the limit with --limit name_bytes=N")
                .expected(format!("at most {name_bytes} bytes"))
                .found(key.len())
        } else {
            return Ok(());
        };
        self.refusal.replace(Some(refusal));
        Err(E::custom("over a limit"))
    }

    /// Sets the tensor whose entry is parsed next. Errors contain the name of this tensor.
    pub fn enter(&self, tensor: Option<&str>) {
        self.tensor.replace(tensor.map(str::to_owned));
    }

    fn error(&self, text: &str, base: u64, error: &serde_json::Error) -> Error {
        // This removes the line and column from the message. Headers are a single line, and the
        // error contains the offset instead.
        let full = error.to_string();
        let message = full.rsplit_once(" at line ").map_or(&*full, |(message, _)| message);
        let message: String = message.chars().take(MESSAGE_CHARS).collect();
        let cause = self.refusal.take().unwrap_or_else(|| Error::malformed(message));
        let cause = cause.offset(base + byte_of(text, error));
        match self.tensor.take() {
            Some(tensor) => cause.tensor(tensor),
            None => cause,
        }
    }
}

/// Parses `bytes`, which contain a single JSON value and start at offset `base` of their file.
/// Errors contain the offset in the file, and the tensor that is set in `scope`.
pub fn parse<'a, S>(bytes: &'a [u8], base: u64, scope: &ParseState<'_>, seed: S) -> Result<S::Value>
where
    S: DeserializeSeed<'a>,
{
    let text = std::str::from_utf8(bytes)
        .map_err(|e| Error::malformed("not UTF-8").offset(base + e.valid_up_to() as u64))?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = seed.deserialize(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| scope.error(text, base, &error))
}

/// Converts the line and column of a serde_json error to a byte offset. Both numbers count from 1.
fn byte_of(text: &str, error: &serde_json::Error) -> u64 {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    (before + error.column().saturating_sub(1)) as u64
}

/// Parses a JSON object whose keys must be unique.
pub struct UniqueMap<'a, V> {
    scope: &'a ParseState<'a>,
    values: PhantomData<V>,
}

impl<'a, V> UniqueMap<'a, V> {
    /// Creates a parser for an object. `scope` counts its entries.
    #[must_use]
    pub fn new(scope: &'a ParseState<'a>) -> Self {
        Self { scope, values: PhantomData }
    }
}

impl<'de, V: Deserialize<'de>> DeserializeSeed<'de> for UniqueMap<'_, V> {
    type Value = BTreeMap<String, V>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, V: Deserialize<'de>> Visitor<'de> for UniqueMap<'_, V> {
    type Value = BTreeMap<String, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            self.scope.count(&key)?;
            let value = map.next_value()?;
            if entries.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} is duplicated")));
            }
            entries.insert(key, value);
        }
        Ok(entries)
    }
}

/// Any JSON value. A scalar is kept as a string. A nested value is parsed and discarded, and
/// serde_json limits its nesting depth. [`serde::de::IgnoredAny`] does not limit the depth.
pub struct Scalar(
    /// The string form of a string, number or boolean.
    pub Option<String>,
);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl ScalarVisitor {
    fn text<E>(value: impl fmt::Display) -> Result<Scalar, E> {
        Ok(Scalar(Some(value.to_string())))
    }
}

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
        Self::text(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Self::text(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
        Self::text(value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Self::text(value)
    }

    fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
        Self::text(value)
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Scalar, A::Error> {
        while sequence.next_element::<Scalar>()?.is_some() {}
        Ok(Scalar(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<Scalar, Scalar>()?.is_some() {}
        Ok(Scalar(None))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    fn map(text: &str, limits: &Limits) -> Result<BTreeMap<String, String>> {
        let scope = ParseState::new(limits);
        parse(text.as_bytes(), 8, &scope, UniqueMap::new(&scope))
    }

    #[test]
    fn a_key_is_there_once() {
        assert_eq!(map(r#" {"a":"1","b":"2"}  "#, &Limits::default()).unwrap().len(), 2);
        let error = map(r#"{"a":"1","a":"1"}"#, &Limits::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains(r#"the key "a" is duplicated"#), "{error}");
    }

    #[test]
    fn errors_name_the_byte_in_the_file() {
        let error = map("{\"a\":\"1\",\n\"b\":2}", &Limits::default()).unwrap_err();
        assert!(error.to_string().ends_with("(offset 22)"), "{error}");
        assert!(!error.to_string().contains("line"), "{error}");
        let error = map("{} x", &Limits::default()).unwrap_err();
        assert!(error.to_string().contains("offset 11"), "{error}");
    }

    #[test]
    fn entries_and_depth_are_bounded() {
        let mut limits = Limits::default();
        limits.tensors = 1;
        let error = map(r#"{"a":"1","b":"2"}"#, &limits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        limits.name_bytes = 2;
        assert_eq!(map(r#"{"abc":""}"#, &limits).unwrap_err().kind(), ErrorKind::Limit);
        let deep = "[".repeat(1 << 20);
        assert!(serde_json::from_str::<Scalar>(&deep).is_err_and(|e| e.to_string().contains("recursion")));
    }
}
