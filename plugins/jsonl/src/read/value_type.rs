//! The type of a column's JSON values, which is inferred from the lines that have been read.

use super::numbers::Numbers;
use indexmap::IndexMap;
use indexmap::map::Entry;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{DataType, Field, FieldRef};
use tensorferry_sdk::{Loss, LossKind};

/// Type of the values that have been read so far from a column. [`TypeSeed`] limits the depth of
/// the type.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum ValueType {
    /// Only nulls, or no values.
    #[default]
    Null,
    Bool,
    Number(Numbers),
    /// Strings. `are_words` is set if every string is a word for NaN or an infinity.
    Text {
        are_words: bool,
    },
    List(Box<ValueType>),
    Object(Objects),
}

/// The objects that have been read so far from a column.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Objects {
    /// Number of objects.
    count: u64,
    /// The keys of the objects, in the order in which they first occurred.
    pub(super) keys: IndexMap<String, KeyType>,
}

/// Type of a key's values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct KeyType {
    pub(super) kind: ValueType,
    /// Number of objects that contain the key.
    objects: u64,
}

impl Objects {
    /// Returns a loss if some objects lack keys that other objects have.
    fn loss(&self, path: &str) -> Option<Loss> {
        let (key, found) = self.keys.iter().find(|(_, found)| found.objects < self.count)?;
        let key: String = key.chars().take(60).collect();
        let why = format!(
            "{}, such as {key:?} in {} of {} objects",
            super::ABSENT_KEYS,
            self.count - found.objects,
            self.count
        );
        Some(Loss::new(LossKind::Record, path, why))
    }
}

/// Observations about a line other than the types of its values.
#[derive(Debug, Default)]
pub(super) struct LineNotes {
    /// The type conflict at which reading the line stopped.
    pub(super) conflict: Option<Conflict>,
    /// Whether the type of a number depends on its text.
    pub(super) has_long_number: bool,
    /// Number of columns, including nested columns, that can still be added.
    pub(super) columns_left: u64,
    /// Whether reading the line stopped because the line has too many columns.
    pub(super) has_too_many: bool,
    /// Number of levels of objects and lists that can still be nested.
    pub(super) levels_left: u64,
    /// Whether reading the line stopped because the line is nested too deeply.
    pub(super) is_too_deep: bool,
    /// Keys that are repeated within an object of the line.
    pub(super) repeated: Vec<String>,
}

impl LineNotes {
    fn deeper<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.levels_left = self.levels_left.checked_sub(1).ok_or_else(|| {
            self.is_too_deep = true;
            E::custom("nests too deep")
        })?;
        Ok(())
    }
}

/// A conflict between two kinds of values in one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conflict {
    /// Path of the column, starting with the innermost key.
    path: Vec<String>,
    /// Kind of the earlier values.
    pub(super) had: &'static str,
    /// Kind of the new value.
    pub(super) came: &'static str,
}

impl Conflict {
    /// Returns the path of the column as keys joined by dots.
    pub(super) fn column(&self) -> String {
        self.path.iter().rev().map(String::as_str).collect::<Vec<_>>().join(".")
    }
}

/// Maximum length of a column's path that is used as a prefix for nested columns. A longer path is
/// replaced with an ellipsis. Otherwise, a short line with one long key and thousands of columns
/// below it would produce very long names.
const MAX_PATH_PREFIX: usize = 1024;

/// Returns whether a string is a word for NaN or an infinity.
fn is_word(text: &str) -> bool {
    matches!(text, "NaN" | "Infinity" | "-Infinity")
}

impl ValueType {
    /// Returns the name of the type in error messages.
    fn name(&self) -> &'static str {
        match self {
            Self::Null => "nulls",
            Self::Bool => "true or false",
            Self::Number(_) => "numbers",
            Self::Text { .. } => "strings",
            Self::List(_) => "lists",
            Self::Object(_) => "objects",
        }
    }

    /// Adds the type of a value that is not nested. Use [`merge`](Self::merge) for other values.
    fn take(&mut self, other: Self) -> Result<(), Conflict> {
        match (&mut *self, other) {
            (_, Self::Null) | (Self::Bool, Self::Bool) => {}
            (Self::Number(own), Self::Number(other)) => *own = own.and(other),
            (Self::Text { are_words }, Self::Text { are_words: other }) => *are_words &= other,
            (Self::Number(own), Self::Text { are_words: true }) => *own = own.and(Numbers::FLOAT),
            (own @ Self::Text { are_words: true }, Self::Number(other)) => {
                *own = Self::Number(other.and(Numbers::FLOAT));
            }
            (own @ Self::Null, other) => *own = other,
            (own, other) => {
                return Err(Conflict { path: Vec::new(), had: own.name(), came: other.name() });
            }
        }
        Ok(())
    }

    /// Returns whether more values are unlikely to change the type: there is a value for each key
    /// and list, and integers have at most 64 bits.
    pub(super) fn is_certain(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool | Self::Text { .. } => true,
            Self::Number(numbers) => !numbers.data_type().is_decimal(),
            Self::List(item) => item.is_certain(),
            Self::Object(objects) => objects.keys.values().all(|key| key.kind.is_certain()),
        }
    }

    /// Returns the number of keys, including those of nested objects.
    pub(super) fn columns(&self) -> u64 {
        match self {
            Self::List(item) => item.columns(),
            Self::Object(objects) => objects.keys.values().map(|key| 1 + key.kind.columns()).sum(),
            _ => 0,
        }
    }

    /// Adds the types of values in other lines.
    pub(super) fn merge(&mut self, other: Self) -> Result<(), Conflict> {
        match (self, other) {
            (Self::List(own), Self::List(other)) => own.merge(*other),
            (Self::Object(own), Self::Object(other)) => {
                own.count += other.count;
                for (key, found) in other.keys {
                    let merged = match own.keys.entry(key) {
                        Entry::Occupied(mut place) => {
                            place.get_mut().objects += found.objects;
                            let merged = place.get_mut().kind.merge(found.kind);
                            merged.map_err(|conflict| (place.key().clone(), conflict))
                        }
                        Entry::Vacant(place) => {
                            place.insert(found);
                            Ok(())
                        }
                    };
                    if let Err((key, mut conflict)) = merged {
                        conflict.path.push(key);
                        return Err(conflict);
                    }
                }
                Ok(())
            }
            (own, other) => own.take(other),
        }
    }

    /// Returns the Arrow type. For each property of the values that the type cannot represent, adds
    /// a loss.
    pub(super) fn data_type(&self, path: &str, losses: &mut Vec<Loss>) -> DataType {
        match self {
            Self::Null => DataType::Null,
            Self::Bool => DataType::Boolean,
            Self::Number(numbers) => {
                losses.extend(numbers.loss(path));
                numbers.data_type()
            }
            Self::Text { .. } => DataType::Utf8,
            Self::List(kind) => {
                DataType::List(Arc::new(Field::new("item", kind.data_type(path, losses), true)))
            }
            Self::Object(objects) => {
                losses.extend(objects.loss(path));
                DataType::Struct(self.fields(path, losses).into())
            }
        }
    }

    /// Returns the fields for the keys of an object.
    pub(super) fn fields(&self, path: &str, losses: &mut Vec<Loss>) -> Vec<FieldRef> {
        let Self::Object(objects) = self else { return Vec::new() };
        let field = |(key, found): (&String, &KeyType)| {
            let path = match path.len() {
                0 => key.clone(),
                1..=MAX_PATH_PREFIX => format!("{path}.{key}"),
                _ => format!("….{key}"),
            };
            Arc::new(Field::new(key, found.kind.data_type(&path, losses), true))
        };
        objects.keys.iter().map(field).collect()
    }
}

/// A deserializer seed that adds the type of a value to `kind`.
pub(super) struct TypeSeed<'a> {
    pub(super) kind: &'a mut ValueType,
    pub(super) notes: &'a mut LineNotes,
}

impl TypeSeed<'_> {
    fn take<E: serde::de::Error>(self, other: ValueType) -> Result<(), E> {
        self.kind.take(other).map_err(|conflict| {
            let error = E::custom("a value has a different kind than earlier values");
            self.notes.conflict = Some(conflict);
            error
        })
    }
}

impl<'de> DeserializeSeed<'de> for TypeSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TypeSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.take(ValueType::Bool)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.take(ValueType::Number(Numbers::of_u64(value)))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.take(ValueType::Number(Numbers::of_i64(value)))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        if value.abs() >= Numbers::LONG {
            // The number is either a float, or an integer that does not fit into a u64. Only its
            // text distinguishes the two.
            self.notes.has_long_number = true;
            return self.take(ValueType::Number(Numbers::default()));
        }
        self.take(ValueType::Number(Numbers::FLOAT))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.take(ValueType::Text { are_words: is_word(value) })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        let Self { kind, notes } = self;
        if *kind == ValueType::Null {
            *kind = ValueType::List(Box::default());
        }
        let ValueType::List(item) = kind else {
            let list = ValueType::List(Box::default());
            return TypeSeed { kind, notes }.take(list);
        };
        notes.deeper()?;
        while values.next_element_seed(TypeSeed { kind: item, notes })?.is_some() {}
        notes.levels_left += 1;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { kind, notes } = self;
        if *kind == ValueType::Null {
            *kind = ValueType::Object(Objects::default());
        }
        let ValueType::Object(Objects { count, keys }) = kind else {
            let object = ValueType::Object(Objects::default());
            return TypeSeed { kind, notes }.take(object);
        };
        notes.deeper()?;
        *count += 1;
        let (mut expected, mut seen) = (0, SeenKeys::default());
        while let Some(index) = entries.next_key_seed(KeySeed { keys, expected, notes })? {
            if seen.insert(index) {
                keys[index].objects += 1;
            } else {
                notes.repeated.extend(keys.get_index(index).map(|(key, _)| key.clone()));
            }
            let read = entries.next_value_seed(TypeSeed { kind: &mut keys[index].kind, notes });
            if read.is_err() {
                if let (Some(conflict), Some((key, _))) = (&mut notes.conflict, keys.get_index(index)) {
                    conflict.path.push(key.clone());
                }
                return read;
            }
            expected = index + 1;
        }
        notes.levels_left += 1;
        Ok(())
    }
}

/// Indices of the keys that have occurred in an object.
#[derive(Default)]
struct SeenKeys {
    /// All smaller indices have occurred. For objects with the same keys in the same order as
    /// earlier objects, no other information is needed.
    first: usize,
    /// Bit set of the indices that have occurred and are at least `first`.
    others: Vec<u64>,
}

impl SeenKeys {
    /// Adds an index, and returns whether it is new.
    fn insert(&mut self, place: usize) -> bool {
        if self.others.is_empty() && place == self.first {
            self.first += 1;
            return true;
        }
        let (word, bit) = (place / 64, 1 << (place % 64));
        if word >= self.others.len() {
            self.others.resize(word + 1, 0);
        }
        let is_new = place >= self.first && self.others[word] & bit == 0;
        self.others[word] |= bit;
        is_new
    }
}

/// A deserializer seed that finds the index of a key. It first checks the expected index, because
/// most objects have their keys in the same order.
struct KeySeed<'a> {
    keys: &'a mut IndexMap<String, KeyType>,
    expected: usize,
    notes: &'a mut LineNotes,
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<usize, E> {
        if self.keys.get_index(self.expected).is_some_and(|(expected, _)| expected == key) {
            return Ok(self.expected);
        }
        if let Some(index) = self.keys.get_index_of(key) {
            return Ok(index);
        }
        self.notes.columns_left = self.notes.columns_left.checked_sub(1).ok_or_else(|| {
            self.notes.has_too_many = true;
            E::custom("too many columns")
        })?;
        Ok(self.keys.insert_full(key.to_owned(), KeyType::default()).0)
    }
}
