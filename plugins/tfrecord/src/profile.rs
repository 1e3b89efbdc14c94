//! A profile summarizes the features of many records: their names, kinds and numbers of values. The
//! schema is derived from the profile.

use crate::columns::{Column, Missing, Shape};
use crate::keys::Keys;
use crate::message::{Kind, MessageKind, Part, Pieces, count, entries, lists};
use crate::scan::{RecordError, Tally};
use arrow_schema::DataType;
use std::collections::HashSet;
use tensorferry_proto::wire::WireError;
use tensorferry_sdk::{Error, Limits, Loss, LossKind, Result};

/// A summary of the features of some records.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    message: MessageKind,
    /// Whether to validate each record before adding it, so that a damaged record has no effect on
    /// the profile.
    is_validating: bool,
    max_columns: u64,
    max_name_len: u64,
    keys: Keys,
    features: Vec<FeatureProfile>,
}

/// The position of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecordPosition {
    file: usize,
    record: u64,
    offset: u64,
}

/// The summary of a feature. If a map has several entries with the same key, the last entry counts.
/// If a record contains the feature twice, the summary is therefore reset to its state before the
/// record.
#[derive(Debug, Clone)]
struct FeatureProfile {
    known: FeatureSummary,
    /// The state before the record `changed_in`.
    before: FeatureSummary,
    changed_in: u64,
    /// The last record in which this feature was found.
    seen_in: u64,
}

/// A summary of one feature.
#[derive(Debug, Clone, Copy)]
struct FeatureSummary {
    /// For each kind, the first record in which the feature has that kind.
    kinds: [Option<RecordPosition>; 3],
    /// The minimum and maximum number of values. For a feature list, these values are counted per
    /// step.
    min: u64,
    max: u64,
    /// Number of records in which the feature has no kind. For a feature list, the number of steps
    /// without a kind.
    unset: u64,
    /// Number of records in which the feature list has no steps.
    no_steps: u64,
}

impl Profile {
    pub(crate) fn new(message: MessageKind, is_validating: bool, limits: &Limits) -> Self {
        Self {
            message,
            is_validating,
            max_columns: limits.columns,
            max_name_len: limits.name_bytes,
            keys: Keys::default(),
            features: Vec::new(),
        }
    }

    /// Appends the profile of the records that follow. The first of these records has the number
    /// `first` in the file with the index `file`.
    pub(crate) fn append(&mut self, other: &Self, file: usize, first: u64) -> Result<()> {
        for ((part, key), added) in other.keys.names().iter().zip(&other.features) {
            self.keys.begin();
            let number = match self.keys.find(*part, key) {
                Some(number) => number,
                None => self.add_checked(*part, key)?,
            };
            let (known, added) = (&mut self.features[number].known, added.known);
            for (known, added) in known.kinds.iter_mut().zip(added.kinds) {
                *known = known.or(added.map(|place| RecordPosition {
                    file,
                    record: first + place.record,
                    ..place
                }));
            }
            known.min = known.min.min(added.min);
            known.max = known.max.max(added.max);
            known.unset += added.unset;
            known.no_steps += added.no_steps;
        }
        Ok(())
    }

    /// Returns columns that can represent all records, sorted by name. If a feature and a feature
    /// list have the same name, the feature comes first.
    pub(crate) fn columns(&self, utf8: bool, name: impl Fn(usize) -> String) -> Result<Vec<Column>> {
        let mut named: Vec<(&(Part, Box<[u8]>), &FeatureProfile)> =
            self.keys.names().iter().zip(&self.features).collect();
        named.sort_by_key(|(a, _)| *a);
        let mut columns: Vec<Column> = Vec::with_capacity(named.len());
        let mut taken = HashSet::with_capacity(named.len());
        for ((part, key), feature) in named {
            // `add` has already checked that the names are valid UTF-8.
            let key_text = String::from_utf8_lossy(key).into_owned();
            let feature = &feature.known;
            let kind = feature.kind().map_err(|error| error(&key_text, &name))?;
            let shape = if *part == Part::Features && (feature.min, feature.max) == (1, 1) {
                Shape::Fixed(Vec::new())
            } else {
                Shape::Ragged(Vec::new())
            };
            let leaf = match kind {
                Some(Kind::Bytes) if utf8 => DataType::Utf8,
                Some(Kind::Bytes) => DataType::Binary,
                Some(Kind::Float) => DataType::Float32,
                Some(Kind::Int64) => DataType::Int64,
                None => DataType::Null,
            };
            let is_taken = *part == Part::Lists && taken.contains(&key_text);
            let name = if is_taken { format!("feature_lists/{key_text}") } else { key_text };
            taken.insert(name.clone());
            let key = key.clone();
            columns.push(Column { name, part: *part, key, kind, shape, leaf, missing: Missing::Null });
        }
        Ok(columns)
    }

    pub(crate) fn message(&self) -> MessageKind {
        self.message
    }

    /// Returns whether the kinds of all features are known. If they are, the columns can also
    /// represent the features of later records.
    pub(crate) fn all_kinds_known(&self) -> bool {
        !self.features.is_empty() && self.features.iter().all(|feature| feature.known.kinds != [None; 3])
    }

    /// Returns the losses that the columns cause.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let mut losses = Vec::new();
        for ((_, key), feature) in self.keys.names().iter().zip(&self.features) {
            let feature = &feature.known;
            let mut lose = |count: u64, what: &str| {
                if count > 0 {
                    losses.push(null(&String::from_utf8_lossy(key), count, what));
                }
            };
            lose(feature.unset, WITHOUT_KIND);
            if feature.kinds == [None; 3] {
                lose(feature.no_steps, "an empty feature list whose type is unknown");
            }
        }
        losses
    }

    fn feature(&mut self, part: Part, key: &[u8]) -> Result<&mut FeatureProfile, RecordError> {
        let number = match self.keys.find(part, key) {
            Some(number) => number,
            None => self.add(part, key)?,
        };
        Ok(&mut self.features[number])
    }

    #[cold]
    fn add(&mut self, part: Part, key: &[u8]) -> Result<usize, RecordError> {
        if key.len() as u64 > self.max_name_len {
            let error = Error::limit("a feature's name is too long")
                .hint("raise the limit with --limit name_bytes=N");
            return Err(RecordError::Error(
                error.expected(format!("at most {}", self.max_name_len)).found(key.len()),
            ));
        }
        if std::str::from_utf8(key).is_err() {
            return Err(WireError::Text.into());
        }
        self.add_checked(part, key).map_err(RecordError::Error)
    }

    /// Adds a feature whose name has been checked.
    fn add_checked(&mut self, part: Part, key: &[u8]) -> Result<usize> {
        if self.features.len() as u64 >= self.max_columns {
            return Err(Error::limit("too many columns")
                .hint("raise the limit with --limit columns=N")
                .expected(format!("at most {}", self.max_columns)));
        }
        self.features.push(FeatureProfile::NEW);
        Ok(self.keys.add(part, key))
    }
}

/// The description of a feature that has no list in a record.
pub(crate) const WITHOUT_KIND: &str = "a feature without a kind";

/// Returns the loss for values that become nulls although their features are present.
pub(crate) fn null(column: &str, count: u64, what: &str) -> Loss {
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    Loss::new(LossKind::Record, column, format!("{times}, {what} is read as null, like a missing feature"))
}

impl Tally for Profile {
    const DATA: bool = true;

    fn record(&mut self, number: u64, offset: u64, data: &[u8], _whole: u64) -> Result<(), RecordError> {
        if self.is_validating {
            validate(data, self.message)?;
        }
        let place = RecordPosition { file: 0, record: number, offset };
        let message = self.message;
        self.keys.begin();
        entries(data, message, |part, entry| {
            let feature = self.feature(part, entry.key)?;
            feature.begin(number);
            if part == Part::Features {
                return Ok(feature.add(entry.value, place)?);
            }
            let mut steps = 0_u64;
            entry.value.each::<RecordError>(|list| {
                Pieces::fields(1, list).each(|step| {
                    steps += 1;
                    Ok(feature.add(Pieces::one(step), place)?)
                })
            })?;
            if steps == 0 {
                feature.change(number, |known| known.no_steps += 1);
            }
            Ok(())
        })
    }
}

/// Checks that the values of every list in a record can be counted.
fn validate(record: &[u8], message: MessageKind) -> Result<(), WireError> {
    let feature = |piece| lists(piece, |kind, list| count(kind, list).map(drop));
    entries(record, message, |part, entry| {
        if std::str::from_utf8(entry.key).is_err() {
            return Err(WireError::Text);
        }
        entry.value.each(|piece| match part {
            Part::Features => feature(piece),
            Part::Lists => Pieces::fields(1, piece).each(feature),
        })
    })
}

impl FeatureProfile {
    const NEW: Self = Self {
        known: FeatureSummary::NEW,
        before: FeatureSummary::NEW,
        changed_in: u64::MAX,
        seen_in: u64::MAX,
    };

    /// Prepares the profile for an entry of the record with this number.
    #[inline]
    fn begin(&mut self, record: u64) {
        if self.seen_in == record && self.changed_in == record {
            self.known = self.before;
        }
        self.seen_in = record;
    }

    /// Changes the summary. Such changes are rare after the first few records.
    #[cold]
    fn change(&mut self, record: u64, change: impl FnOnce(&mut FeatureSummary)) {
        if self.changed_in != record {
            (self.before, self.changed_in) = (self.known, record);
        }
        change(&mut self.known);
    }

    /// Adds a feature of a record to the summary.
    #[inline]
    fn add(&mut self, feature: Pieces<'_>, place: RecordPosition) -> Result<(), WireError> {
        let mut seen: Option<Kind> = None;
        let mut values = 0;
        feature.each(|piece| {
            lists(piece, |kind, list| {
                if seen.is_some_and(|seen| seen != kind) {
                    values = 0;
                }
                seen = Some(kind);
                values += count(kind, list)?;
                Ok::<(), WireError>(())
            })
        })?;
        let known = &self.known;
        match seen {
            None => self.change(place.record, |known| known.unset += 1),
            Some(kind)
                if known.kinds[kind as usize].is_some() && (known.min..=known.max).contains(&values) => {}
            Some(kind) => self.change(place.record, |known| {
                known.kinds[kind as usize].get_or_insert(place);
                known.min = known.min.min(values);
                known.max = known.max.max(values);
            }),
        }
        Ok(())
    }
}

impl FeatureSummary {
    const NEW: Self = Self { kinds: [None; 3], min: u64::MAX, max: 0, unset: 0, no_steps: 0 };

    /// Returns the kind of the feature's lists. If there are several kinds, returns a function that
    /// builds the error.
    fn kind(&self) -> Result<Option<Kind>, impl FnOnce(&str, &dyn Fn(usize) -> String) -> Error> {
        let mut found: Vec<(RecordPosition, Kind)> =
            Kind::ALL.into_iter().filter_map(|kind| Some((self.kinds[kind as usize]?, kind))).collect();
        found.sort_by_key(|(place, _)| (place.file, place.record));
        match found[..] {
            [] => Ok(None),
            [(_, kind)] => Ok(Some(kind)),
            [(first_place, first), (place, other), ..] => {
                Err(move |key: &str, name: &dyn Fn(usize) -> String| {
                    let first_in = if first_place.file == place.file {
                        format!("record {}", first_place.record)
                    } else {
                        format!("record {} of {:?}", first_place.record, name(first_place.file))
                    };
                    Error::malformed(format!(
                    "the feature has a different kind than in {first_in}, but all records need the same schema"
                ))
                .column(key)
                .record(place.record)
                .file(name(place.file))
                .offset(place.offset)
                .expected(first.list_name())
                .found(other.list_name())
                .hint("use `ferry cat` to view the records, or pass -i decode=raw to read them as bytes")
                })
            }
        }
    }
}
