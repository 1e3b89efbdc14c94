//! Parses the tensors and metadata in a header's JSON. Another module checks them against the file.

use crate::{METADATA_KEY, dtype};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use tensorferry_hub::json::{ParseState, Scalar, UniqueMap};
use tensorferry_sdk::Dtype;

/// A tensor as a header describes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    /// Offset of the tensor's first byte, relative to the start of the data section.
    pub(crate) begin: u64,
    /// Offset of the end of the tensor's bytes, relative to the start of the data section.
    pub(crate) end: u64,
}

/// Deserializes a header into its tensors and metadata.
pub(crate) struct Entries<'a>(pub(crate) &'a ParseState<'a>);

/// The tensors in the order of the header, and the metadata.
pub(crate) type Contents = (Vec<Entry>, BTreeMap<String, String>);

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = Contents;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Contents, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = Contents;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Contents, A::Error> {
        let mut tensors = Vec::new();
        let mut metadata = None;
        while let Some(name) = map.next_key::<String>()? {
            self.0.count(&name)?;
            if name != METADATA_KEY {
                self.0.enter(Some(&name));
                let TensorInfo { dtype, shape, data_offsets: (begin, end) } = map.next_value()?;
                tensors.push(Entry { name, dtype, shape, begin, end });
                self.0.enter(None);
            } else if metadata.replace(map.next_value_seed(OptionalMap(self.0))?).is_some() {
                return Err(A::Error::custom("the key \"__metadata__\" is duplicated"));
            }
        }
        Ok((tensors, metadata.unwrap_or_default()))
    }
}

/// Deserializes the metadata. Like the `safetensors` library, this accepts `null`.
struct OptionalMap<'a>(&'a ParseState<'a>);

impl<'de> DeserializeSeed<'de> for OptionalMap<'_> {
    type Value = BTreeMap<String, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for OptionalMap<'_> {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings, or null")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        UniqueMap::new(self.0).deserialize(deserializer)
    }
}

/// The JSON object that describes a tensor in the header. Like the `safetensors` library, the
/// parser ignores unknown fields.
struct TensorInfo {
    dtype: Dtype,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl<'de> Deserialize<'de> for TensorInfo {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TensorInfoVisitor)
    }
}

struct TensorInfoVisitor;

impl<'de> Visitor<'de> for TensorInfoVisitor {
    type Value = TensorInfo;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TensorInfo, A::Error> {
        let (mut dtype, mut shape, mut data_offsets) = (None, None, None);
        while let Some(key) = map.next_key::<Key>()? {
            let twice = match key {
                Key::Dtype => dtype.replace(map.next_value::<NamedDtype>()?.0).is_some(),
                Key::Shape => shape.replace(map.next_value()?).is_some(),
                Key::DataOffsets => data_offsets.replace(map.next_value()?).is_some(),
                Key::Other => {
                    map.next_value::<Scalar>()?;
                    false
                }
            };
            if twice {
                return Err(A::Error::custom("a key of the tensor is duplicated"));
            }
        }
        let missing = A::Error::missing_field;
        Ok(TensorInfo {
            dtype: dtype.ok_or_else(|| missing("dtype"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
            data_offsets: data_offsets.ok_or_else(|| missing("data_offsets"))?,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Key {
    Dtype,
    Shape,
    DataOffsets,
    #[serde(other)]
    Other,
}

struct NamedDtype(Dtype);

impl<'de> Deserialize<'de> for NamedDtype {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DtypeVisitor)
    }
}

struct DtypeVisitor;

impl Visitor<'_> for DtypeVisitor {
    type Value = NamedDtype;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a dtype")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<NamedDtype, E> {
        let unknown = || E::custom(format!("unknown dtype {name:?}, expected one of {}", dtype::names()));
        dtype::named(name).map(NamedDtype).ok_or_else(unknown)
    }
}
