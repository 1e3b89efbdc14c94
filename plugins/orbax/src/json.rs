//! JSON values. Keys keep their order, and duplicate keys are rejected. serde_json limits the
//! nesting depth.

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use tensorferry_sdk::{Error, Limits, Result};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Json {
    /// Parses a document. The number of values is limited, because a two-byte value uses many more
    /// bytes in memory.
    pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let left = Cell::new(limits.nodes);
        let mut document = serde_json::Deserializer::from_slice(bytes);
        let parsed = AnyValue { left: &left }.deserialize(&mut document);
        let parsed = parsed.and_then(|value| document.end().map(|()| value));
        parsed.map_err(|error| {
            if left.get() == 0 {
                let error =
                    Error::limit("too many JSON values").expected(format!("at most {}", limits.nodes));
                return error.hint("raise the limit with --limit nodes=N");
            }
            let message: String = error.to_string().chars().take(500).collect();
            Error::malformed(format!("invalid JSON: {message}"))
        })
    }

    /// Returns the value of a key, or null if the key is missing.
    pub(crate) fn get(&self, key: &str) -> &Self {
        match self {
            Self::Map(entries) => {
                entries.iter().find(|(name, _)| name == key).map_or(&Self::Null, |(_, value)| value)
            }
            _ => &Self::Null,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the entries of a map whose values are strings.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries: &[(String, Self)] = if let Self::Map(entries) = self { entries } else { &[] };
        entries.iter().filter_map(|(key, value)| Some((&**key, value.text()?)))
    }

    pub(crate) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    pub(crate) fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// Parses a list of non-negative integers.
    pub(crate) fn dims(&self, what: &str) -> Result<Vec<u64>> {
        let dim = |item: &Self| match item {
            Self::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        let dims = self.list().and_then(|items| items.iter().map(dim).collect());
        dims.ok_or_else(|| Error::malformed(format!("{what} is not a list of non-negative integers")))
    }
}

/// Deserializer seed for any value. Deserialization fails if the maximum number of values is
/// exceeded.
#[derive(Clone, Copy)]
struct AnyValue<'a> {
    left: &'a Cell<u64>,
}

impl<'de> DeserializeSeed<'de> for AnyValue<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| D::Error::custom("too many values"))?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let (mut map, mut seen) = (Vec::new(), HashSet::new());
        while let Some(key) = entries.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format!("duplicate key {key:?}")));
            }
            map.push((key, entries.next_value_seed(self)?));
        }
        Ok(Json::Map(map))
    }
}
