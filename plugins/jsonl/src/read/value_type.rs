//! The type of a column's JSON values, as far as they were read.

use super::numbers::Numbers;
use indexmap::IndexMap;
use indexmap::map::Entry;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{DataType, Field, FieldRef};
use tensorferry_sdk::{Loss, LossKind};

/// The type that values had, of as many levels as a [`TypeSeed`] takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum ValueType {
    /// Nulls, or nothing.
    #[default]
    Null,
    /// True and false.
    Bool,
    /// Numbers.
    Number(Numbers),
    /// Strings; `are_words` if each was the word for a float that is no number.
    Text { are_words: bool },
    /// Lists of this.
    List(Box<ValueType>),
    /// Objects.
    Object(Objects),
}

/// What objects had.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Objects {
    /// How many there were.
    count: u64,
    /// Their keys, in the order in which they came.
    pub(super) keys: IndexMap<String, KeyType>,
}

/// What the values of a key were.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct KeyType {
    pub(super) kind: ValueType,
    /// How many objects had it.
    objects: u64,
}

impl Objects {
    /// What is lost where objects have different keys.
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

/// What the visitor notes beside the types of a line.
#[derive(Debug, Default)]
pub(super) struct LineNotes {
    /// Why the line does not fit, if that is why it was given up.
    pub(super) conflict: Option<Conflict>,
    /// Whether only the text of a number in it tells its type.
    pub(super) has_long_number: bool,
    /// How many more columns there may be, nested ones counted.
    pub(super) columns_left: u64,
    /// Whether the line has more, and was given up for it.
    pub(super) has_too_many: bool,
    /// How many more objects and lists may lie in one another.
    pub(super) levels_left: u64,
    /// Whether the line has more, and was given up for it.
    pub(super) is_too_deep: bool,
    /// Keys that an object of the line has more than once.
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

/// Two kinds of values in one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conflict {
    /// The column, from the inside outwards.
    path: Vec<String>,
    /// What it had.
    pub(super) had: &'static str,
    /// What came.
    pub(super) came: &'static str,
}

impl Conflict {
    /// The column with its parents, joined by dots.
    pub(super) fn column(&self) -> String {
        self.path.iter().rev().map(String::as_str).collect::<Vec<_>>().join(".")
    }
}

/// How long a column's path may be to stand before those of the columns in it: for a short line may hold a long
/// key that thousands of columns lie in.
const MOST_PARENTS: usize = 1024;

/// The word for a float that is no number.
fn is_word(text: &str) -> bool {
    matches!(text, "NaN" | "Infinity" | "-Infinity")
}

impl ValueType {
    /// In words.
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

    /// Takes a value that has no parts.
    fn take(&mut self, other: Self) -> Result<(), Conflict> {
        let words = |mut numbers: Numbers| {
            numbers.has_float = true;
            numbers
        };
        *self = match (std::mem::take(self), other) {
            (Self::Null, kind) | (kind, Self::Null) => kind,
            (Self::Bool, Self::Bool) => Self::Bool,
            (Self::Number(a), Self::Number(b)) => Self::Number(a.and(b)),
            (Self::Text { are_words: a }, Self::Text { are_words: b }) => Self::Text { are_words: a && b },
            (Self::Text { are_words: true }, Self::Number(numbers))
            | (Self::Number(numbers), Self::Text { are_words: true }) => Self::Number(words(numbers)),
            (own, other) => {
                let (had, came) = (own.name(), other.name());
                *self = own;
                return Err(Conflict { path: Vec::new(), had, came });
            }
        };
        Ok(())
    }

    /// How many keys there are, those of objects within objects counted.
    pub(super) fn columns(&self) -> u64 {
        match self {
            Self::List(item) => item.columns(),
            Self::Object(objects) => objects.keys.values().map(|key| 1 + key.kind.columns()).sum(),
            _ => 0,
        }
    }

    /// Takes what is known from other lines.
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

    /// The Arrow type, with what it cannot say.
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

    /// The columns of an object.
    pub(super) fn fields(&self, path: &str, losses: &mut Vec<Loss>) -> Vec<FieldRef> {
        let Self::Object(objects) = self else { return Vec::new() };
        let field = |(key, found): (&String, &KeyType)| {
            let path = match path.len() {
                0 => key.clone(),
                1..=MOST_PARENTS => format!("{path}.{key}"),
                _ => format!("….{key}"),
            };
            Arc::new(Field::new(key, found.kind.data_type(&path, losses), true))
        };
        objects.keys.iter().map(field).collect()
    }
}

/// Adds the type of the value that is read.
pub(super) struct TypeSeed<'a> {
    pub(super) kind: &'a mut ValueType,
    pub(super) notes: &'a mut LineNotes,
}

impl TypeSeed<'_> {
    fn take<E: serde::de::Error>(self, other: ValueType) -> Result<(), E> {
        self.kind.take(other).map_err(|conflict| {
            let error = E::custom("another kind of value than before");
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
            // A float, or an integer that u64 does not hold: only the text tells.
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

/// Which keys an object has had, by their places.
#[derive(Default)]
struct SeenKeys {
    /// All before this one, which are the ones that an object has whose keys are those of the objects before it.
    first: usize,
    /// A bit for each place of others.
    others: Vec<u64>,
}

impl SeenKeys {
    /// Whether it is new.
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

/// Finds a key's place among those of an object. Keys mostly come in the same order.
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
