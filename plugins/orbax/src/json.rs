//! JSON with its keys in order, each there once. serde_json bounds how deep it nests.

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt;
use tensorferry_sdk::{Error, Result};

/// A value.
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
    /// Parses a document.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|error| {
            let message: String = error.to_string().chars().take(500).collect();
            Error::malformed(format!("not the JSON that belongs here: {message}"))
        })
    }

    /// The value of a key; null, where there is none.
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

    pub(crate) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    pub(crate) fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// A list of numbers from 0 on.
    pub(crate) fn dims(&self, what: &str) -> Result<Vec<u64>> {
        let dim = |item: &Self| match item {
            Self::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        let dims = self.list().and_then(|items| items.iter().map(dim).collect());
        dims.ok_or_else(|| Error::malformed(format!("{what} is no list of numbers from 0 on")))
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
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
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let (mut map, mut seen) = (Vec::new(), HashSet::new());
        while let Some((key, value)) = entries.next_entry::<String, Json>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format!("key {key:?} is there twice")));
            }
            map.push((key, value));
        }
        Ok(Json::Map(map))
    }
}
