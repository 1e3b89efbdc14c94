//! An Example is a map from names to features. A SequenceExample contains two maps. The first map
//! is its context, which maps names to features. The second map maps names to lists of features.
//!
//! ```text
//! Example          1 features: Features
//! SequenceExample  1 context: Features, 2 feature_lists: FeatureLists
//! Features         1 feature: map<string, Feature>
//! FeatureLists     1 feature_list: map<string, FeatureList>
//! FeatureList      1 feature: repeated Feature
//! Feature          oneof 1 bytes_list, 2 float_list, 3 int64_list
//! *List            1 value: repeated bytes, float or int64; numbers packed or one by one
//! map<K, V>        repeated entry { 1 key, 2 value }
//! ```
//!
//! Source: tensorflow/core/example/example.proto and feature.proto. If a message is stored in
//! several pieces, protobuf concatenates the pieces. If several entries have the same key, the last
//! entry counts.

use tensorferry_proto::wire::{Fields, Value, WireError, take_len, take_varints};

/// The type of a feature's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Bytes,
    Float,
    Int64,
}

impl Kind {
    /// All kinds, in the order of their field numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Bytes, Self::Float, Self::Int64];

    /// Returns the field number of the kind in a Feature.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Bytes => 1,
            Self::Float => 2,
            Self::Int64 => 3,
        }
    }

    /// Returns the name of the list in the .proto file.
    pub(crate) fn list_name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes_list",
            Self::Float => "float_list",
            Self::Int64 => "int64_list",
        }
    }
}

/// The map of a message that contains a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    /// The features of an Example, or the context of a SequenceExample.
    Features,
    /// The feature lists of a SequenceExample.
    Lists,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// A message with a single map of features.
    Example,
    /// A message with a context and feature lists.
    Sequence,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct MapEntry<'a> {
    pub(crate) key: &'a [u8],
    /// The feature, or the list of features.
    pub(crate) value: Pieces<'a>,
}

/// A message that may be stored in several pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pieces<'a> {
    bytes: &'a [u8],
    /// The field number of the pieces. The value 0 means that `bytes` is the only piece. An enum
    /// would be slower because it would be passed through memory.
    number: u32,
}

impl<'a> Pieces<'a> {
    /// Creates a message from one piece. All known programs write messages in this form.
    #[inline]
    pub(crate) fn one(bytes: &'a [u8]) -> Self {
        Self { bytes, number: 0 }
    }

    /// Creates a message whose pieces are the fields with this field number.
    #[inline]
    pub(crate) fn fields(number: u32, message: &'a [u8]) -> Self {
        Self { bytes: message, number }
    }

    /// Returns whether the message consists of one piece.
    fn is_single(self) -> bool {
        self.number == 0
    }

    /// Returns the kind and the list if the feature consists of exactly one list. All known
    /// programs write features in this form.
    #[inline]
    pub(crate) fn list(self) -> Option<(Kind, &'a [u8])> {
        let (tag, mut rest) = self.bytes.split_first()?;
        let kind = match tag {
            0x0a => Kind::Bytes,
            0x12 => Kind::Float,
            0x1a => Kind::Int64,
            _ => return None,
        };
        let list = take_len(&mut rest).ok()?;
        (rest.is_empty() && self.is_single()).then_some((kind, list))
    }

    /// Visits every piece, in order.
    #[inline]
    pub(crate) fn each<E: From<WireError>>(
        self,
        mut visit: impl FnMut(&'a [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // Here and in the functions below, there is only one call to `visit`, so that the compiler
        // inlines it.
        let mut fields = Fields(self.bytes);
        loop {
            let piece = if self.is_single() {
                std::mem::take(&mut fields.0)
            } else {
                match fields.next()? {
                    None => return Ok(()),
                    Some((number, Value::Len(piece))) if number == self.number => piece,
                    Some(_) => continue,
                }
            };
            visit(piece)?;
            if self.is_single() {
                return Ok(());
            }
        }
    }
}

/// Visits every entry of a record's maps, in order.
#[inline]
pub(crate) fn entries<'a, E: From<WireError>>(
    record: &'a [u8],
    message: MessageKind,
    mut visit: impl FnMut(Part, MapEntry<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let mut fields = Fields(record);
    while let Some((number, value)) = fields.next()? {
        let (part, map) = match (number, value) {
            (1, Value::Len(map)) => (Part::Features, map),
            (2, Value::Len(map)) if message == MessageKind::Sequence => (Part::Lists, map),
            _ => continue,
        };
        let mut entries = Fields(map);
        while let Some((number, value)) = entries.next()? {
            if let (1, Value::Len(bytes)) = (number, value) {
                visit(part, entry(bytes)?)?;
            }
        }
    }
    Ok(())
}

/// Returns the key and the value of a map entry.
#[expect(clippy::inline_always, reason = "as in `Fields::next`")]
#[inline(always)]
fn entry(bytes: &[u8]) -> Result<MapEntry<'_>, WireError> {
    // All known programs write an entry in this form, with only the key and the value.
    if let [0x0a, rest @ ..] = bytes {
        let mut rest = rest;
        let key = take_len(&mut rest)?;
        if let [0x12, value @ ..] = rest {
            let mut value = value;
            let piece = take_len(&mut value)?;
            if value.is_empty() {
                return Ok(MapEntry { key, value: Pieces::one(piece) });
            }
        }
    }
    Ok(MapEntry { key: last_key(bytes)?, value: Pieces::fields(2, bytes) })
}

#[cold]
fn last_key(bytes: &[u8]) -> Result<&[u8], WireError> {
    let mut fields = Fields(bytes);
    let mut key: &[u8] = &[];
    while let Some((number, value)) = fields.next()? {
        if let (1, Value::Len(bytes)) = (number, value) {
            key = bytes;
        }
    }
    Ok(key)
}

/// Visits every list in a piece of a feature, with the kind of the list. Programs write exactly one
/// list.
#[inline]
pub(crate) fn lists<'a, E: From<WireError>>(
    feature: &'a [u8],
    mut visit: impl FnMut(Kind, &'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut fields = Fields(feature);
    while let Some((number, value)) = fields.next()? {
        let Value::Len(list) = value else { continue };
        let kind = match number {
            1 => Kind::Bytes,
            2 => Kind::Float,
            3 => Kind::Int64,
            _ => continue,
        };
        visit(kind, list)?;
    }
    Ok(())
}

/// Visits every string in a list of bytes.
#[inline]
pub(crate) fn bytes_values<'a>(list: &'a [u8], mut visit: impl FnMut(&'a [u8])) -> Result<(), WireError> {
    let mut fields = Fields(list);
    while let Some((number, value)) = fields.next()? {
        if let (1, Value::Len(bytes)) = (number, value) {
            visit(bytes);
        }
    }
    Ok(())
}

/// Visits the floats of a list in runs. Each float consists of four little-endian bytes. Packed
/// floats form a single run.
#[inline]
pub(crate) fn float_runs(list: &[u8], mut visit: impl FnMut(&[[u8; 4]])) -> Result<(), WireError> {
    let mut fields = Fields(list);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Len(packed)) => {
                let (run, rest) = packed.as_chunks();
                if !rest.is_empty() {
                    return Err(WireError::Truncated);
                }
                visit(run);
            }
            (1, Value::Fixed32(bytes)) => visit(&[bytes]),
            _ => {}
        }
    }
    Ok(())
}

/// Appends the integers of a list.
#[inline]
pub(crate) fn int_values(list: &[u8], values: &mut Vec<i64>) -> Result<(), WireError> {
    let mut fields = Fields(list);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Len(run)) => take_varints(run, values)?,
            (1, Value::Varint(value)) => values.push(value.cast_signed()),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the number of values in a list.
#[inline]
pub(crate) fn count(kind: Kind, list: &[u8]) -> Result<u64, WireError> {
    let mut count = 0;
    match kind {
        Kind::Bytes => bytes_values(list, |_| count += 1)?,
        Kind::Float => float_runs(list, |run| count += run.len() as u64)?,
        Kind::Int64 => {
            let mut fields = Fields(list);
            while let Some((number, value)) = fields.next()? {
                match (number, value) {
                    (1, Value::Len(run)) => {
                        if run.last().is_some_and(|&byte| byte >= 0x80) {
                            return Err(WireError::Truncated);
                        }
                        // The last byte of each varint is the only one without the high bit.
                        count += run.iter().map(|&byte| u64::from(byte < 0x80)).sum::<u64>();
                    }
                    (1, Value::Varint(_)) => count += 1,
                    _ => {}
                }
            }
        }
    }
    Ok(count)
}

/// The result of comparing a record with a message type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// The record does not match.
    No,
    /// The record has features, but also fields that are not part of the message type.
    UnknownFields,
    /// The record has no unknown fields.
    Exact,
}

/// Compares a record with a message type. The comparison includes the nested messages down to the
/// lists. TensorFlow skips unknown fields, and accepts the fields of a map entry in any order.
/// Messages of other types usually contain a field that is not part of this message type.
pub(crate) fn fit(record: &[u8], message: MessageKind) -> Result<Fit, WireError> {
    let max = if message == MessageKind::Sequence { 2 } else { 1 };
    let mut fit = only_messages(record, max)?;
    let (mut features, mut has_lists) = (0_u64, false);
    entries::<WireError>(record, message, |part, entry| {
        if std::str::from_utf8(entry.key).is_err() {
            fit = Fit::No;
        }
        if !entry.value.is_single() {
            fit = fit.min(only_messages(entry.value.bytes, 2)?);
        }
        entry.value.each(|piece| {
            let mut check = |feature: &[u8], fit: &mut Fit| {
                *fit = (*fit).min(only_messages(feature, 3)?);
                lists(feature, |kind, list| {
                    features += 1;
                    count(kind, list).map(drop)
                })
            };
            if part == Part::Features {
                return check(piece, &mut fit);
            }
            has_lists = true;
            fit = fit.min(only_messages(piece, 1)?);
            Pieces::fields(1, piece).each(|feature| check(feature, &mut fit))
        })
    })?;
    // A record without features does not indicate a type. A SequenceExample without feature lists
    // looks like an Example.
    let has_type = features > 0 && (message == MessageKind::Example || has_lists);
    Ok(if fit == Fit::UnknownFields && !has_type { Fit::No } else { fit })
}

/// Compares a message with a type whose fields have the numbers 1 to `max` and contain messages.
fn only_messages(message: &[u8], max: u32) -> Result<Fit, WireError> {
    let mut fields = Fields(message);
    let mut fit = Fit::Exact;
    while let Some((number, value)) = fields.next()? {
        fit = fit.min(match value {
            Value::Len(_) if number <= max => Fit::Exact,
            _ if number <= max => Fit::No,
            _ => Fit::UnknownFields,
        });
    }
    Ok(fit)
}
