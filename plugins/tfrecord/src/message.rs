//! An Example is a map from names to features; a SequenceExample has such a map, its context, and
//! another from names to lists of features.
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
//! Source: tensorflow/core/example/example.proto and feature.proto. A message that comes in several
//! pieces is their concatenation, which is what protobuf means by merging; of several entries with the
//! same key the last counts.

use tensorferry_proto::wire::{Broken, Fields, Value, take_len, take_varints};

/// What the values of a feature are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Strings of bytes.
    Bytes,
    /// Numbers of 32 bits.
    Float,
    /// Whole numbers of 64 bits.
    Int64,
}

impl Kind {
    /// Every kind, in the order of their field numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Bytes, Self::Float, Self::Int64];

    /// The kind's number in a Feature.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Bytes => 1,
            Self::Float => 2,
            Self::Int64 => 3,
        }
    }

    /// The name of its list, as in the .proto file.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes_list",
            Self::Float => "float_list",
            Self::Int64 => "int64_list",
        }
    }
}

/// Which of a message's two maps a feature stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    /// An Example's features, a SequenceExample's context.
    Features,
    /// A SequenceExample's lists.
    Lists,
}

/// Which message a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// Features alone.
    Example,
    /// A context and lists of features.
    Sequence,
}

/// An entry of a map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MapEntry<'a> {
    /// The name.
    pub(crate) key: &'a [u8],
    /// The feature, or the list of them.
    pub(crate) value: Pieces<'a>,
}

/// A message that may come in pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pieces<'a> {
    bytes: &'a [u8],
    /// Of the fields that are its pieces; 0: the bytes are the one piece. An enum of the two would go through
    /// memory wherever it is made, and be waited for there.
    number: u32,
}

impl<'a> Pieces<'a> {
    /// One, as everybody writes it.
    #[inline]
    pub(crate) fn one(bytes: &'a [u8]) -> Self {
        Self { bytes, number: 0 }
    }

    /// The fields of that number in a message.
    #[inline]
    pub(crate) fn fields(number: u32, message: &'a [u8]) -> Self {
        Self { bytes: message, number }
    }

    /// Whether it is one.
    fn is_one(self) -> bool {
        self.number == 0
    }

    /// The kind and the list of a feature that is one list and nothing else, as every program writes it.
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
        (rest.is_empty() && self.is_one()).then_some((kind, list))
    }

    /// Every piece, in order.
    #[inline]
    pub(crate) fn each<E: From<Broken>>(
        self,
        mut visit: impl FnMut(&'a [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // One place that visits, here and below: what it does is compiled into it then.
        let mut fields = Fields(self.bytes);
        loop {
            let piece = if self.is_one() {
                std::mem::take(&mut fields.0)
            } else {
                match fields.next()? {
                    None => return Ok(()),
                    Some((number, Value::Len(piece))) if number == self.number => piece,
                    Some(_) => continue,
                }
            };
            visit(piece)?;
            if self.is_one() {
                return Ok(());
            }
        }
    }
}

/// Every entry of the maps of a record, in order.
#[inline]
pub(crate) fn entries<'a, E: From<Broken>>(
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

/// The key and the value of a map's entry.
#[expect(clippy::inline_always, reason = "as of `Fields::next`")]
#[inline(always)]
fn entry(bytes: &[u8]) -> Result<MapEntry<'_>, Broken> {
    // As everybody writes it: the key, the value, nothing else.
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
fn last_key(bytes: &[u8]) -> Result<&[u8], Broken> {
    let mut fields = Fields(bytes);
    let mut key: &[u8] = &[];
    while let Some((number, value)) = fields.next()? {
        if let (1, Value::Len(bytes)) = (number, value) {
            key = bytes;
        }
    }
    Ok(key)
}

/// Every list in a piece of a feature, with its kind: one, if it was written by a program.
#[inline]
pub(crate) fn lists<'a, E: From<Broken>>(
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

/// Every string of a list of bytes.
#[inline]
pub(crate) fn bytes_values<'a>(list: &'a [u8], mut visit: impl FnMut(&'a [u8])) -> Result<(), Broken> {
    let mut fields = Fields(list);
    while let Some((number, value)) = fields.next()? {
        if let (1, Value::Len(bytes)) = (number, value) {
            visit(bytes);
        }
    }
    Ok(())
}

/// The floats of a list, as runs of four bytes each, little-endian: one run, if they are packed.
#[inline]
pub(crate) fn float_runs(list: &[u8], mut visit: impl FnMut(&[[u8; 4]])) -> Result<(), Broken> {
    let mut fields = Fields(list);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Len(packed)) => {
                let (run, rest) = packed.as_chunks();
                if !rest.is_empty() {
                    return Err(Broken::Cut);
                }
                visit(run);
            }
            (1, Value::Fixed32(bytes)) => visit(&[bytes]),
            _ => {}
        }
    }
    Ok(())
}

/// Appends the whole numbers of a list.
#[inline]
pub(crate) fn int_values(list: &[u8], values: &mut Vec<i64>) -> Result<(), Broken> {
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

/// How many values a list has.
#[inline]
pub(crate) fn count(kind: Kind, list: &[u8]) -> Result<u64, Broken> {
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
                            return Err(Broken::Cut);
                        }
                        // Each varint has one byte without the high bit.
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

/// How well a record fits a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// It is something else.
    No,
    /// It has features, and fields beside them that the message does not have.
    WithOthers,
    /// It has no other fields.
    Exact,
}

/// How well a record fits a message of that kind, down to the lists. TensorFlow skips fields that it does not know, and
/// takes those of a map's entry in any order; other messages mostly differ in a field that this one has.
pub(crate) fn fit(record: &[u8], message: MessageKind) -> Result<Fit, Broken> {
    let most = if message == MessageKind::Sequence { 2 } else { 1 };
    let mut fit = only_messages(record, most)?;
    let (mut features, mut has_lists) = (0_u64, false);
    entries::<Broken>(record, message, |part, entry| {
        if std::str::from_utf8(entry.key).is_err() {
            fit = Fit::No;
        }
        if !entry.value.is_one() {
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
    // Without a feature, nothing but the fields tells; without a list of them, a SequenceExample is an Example.
    let is_told = features > 0 && (message == MessageKind::Example || has_lists);
    Ok(if fit == Fit::WithOthers && !is_told { Fit::No } else { fit })
}

/// How well a message fits one whose fields have numbers up to `most` and hold messages.
fn only_messages(message: &[u8], most: u32) -> Result<Fit, Broken> {
    let mut fields = Fields(message);
    let mut fit = Fit::Exact;
    while let Some((number, value)) = fields.next()? {
        fit = fit.min(match value {
            Value::Len(_) if number <= most => Fit::Exact,
            _ if number <= most => Fit::No,
            _ => Fit::WithOthers,
        });
    }
    Ok(fit)
}
