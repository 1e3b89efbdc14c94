//! Infers the schema by scanning every line, or guesses it from the first lines of each range.
//! Ranges are scanned in parallel.

use super::blocks::{Block, Blocks};
use super::line_range::LineRange;
use super::value_type::{Conflict, LineNotes, Objects, TypeSeed, ValueType};
use super::{fault, number_text};
use crate::MAX_LEVELS;
use serde::de::DeserializeSeed;
use serde_json::Deserializer;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::sync::Arc;
use tensorferry_row_text::scan_all;
use tensorferry_sdk::arrow_schema::{Schema, SchemaRef};
use tensorferry_sdk::{Context, Error, Loss, LossKind, Result};

/// Number of lines, and of bytes, between checks for cancellation.
const ROWS: usize = 4096;
const BYTES: u64 = 4 << 20;
/// Number of bytes at the beginning of a range that are scanned for a guess.
const SAMPLE: u64 = 512 << 10;

/// A schema that fits all scanned lines, and the losses of the scan.
pub(super) struct Inferred {
    pub(super) schema: SchemaRef,
    pub(super) losses: Vec<Loss>,
}

/// Scans at most `max` lines of each file, or all lines if `max` is `None`. If `max` is `None`,
/// also sets the row count of each range.
pub(super) fn infer(ranges: &mut [LineRange], max: Option<u64>, context: &dyn Context) -> Result<Inferred> {
    let mut all = object();
    let mut repeated = BTreeSet::new();
    match max {
        None => {
            let scanned = scan_all(ranges, context, |range| scan(range, object(), None, context));
            let mut before = 0;
            for (index, scanned) in scanned.into_iter().enumerate() {
                let is_first = ranges[index].first_line == Some(0);
                before = if is_first { 0 } else { before };
                ranges[index].first_line = Some(before);
                let scanned = scanned?;
                let range = &mut ranges[index];
                range.rows = Some(scanned.rows);
                before += scanned.lines;
                repeated.extend(scanned.repeated);
                if all.clone().merge(scanned.kind.clone()).is_err() {
                    // Scan the range again with the types from earlier ranges, to find the line
                    // that conflicts with these types.
                    scan(range, all, None, context)?;
                    return Err(Error::plugin("no line explains the type conflict").file(range.file()));
                }
                all.merge(scanned.kind).map_err(|conflict| contradiction(&conflict))?;
                if all.columns() > context.limits().columns {
                    return Err(too_many_columns(context.limits().columns).file(range.file()));
                }
            }
        }
        Some(max) => {
            let mut left = max;
            for range in ranges.iter() {
                left = if range.first_line == Some(0) { max } else { left };
                if left > 0 {
                    let scanned = scan(range, all, Some(left), context)?;
                    left = left.saturating_sub(scanned.rows);
                    repeated.extend(scanned.repeated);
                    all = scanned.kind;
                }
            }
        }
    }
    let mut losses: Vec<Loss> =
        repeated.into_iter().map(|key| Loss::new(LossKind::Record, key, super::REPEATED_KEY)).collect();
    let fields = all.fields("", &mut losses);
    if let Some(field) = fields.iter().find(|field| is_too_wide(&all, field.name())) {
        return Err(Error::unsupported("an integer has more than 76 digits").column(field.name()));
    }
    Ok(Inferred { schema: Arc::new(Schema::new(fields)), losses })
}

/// Guesses the schema from the first lines of each range. Returns `None` if these lines have an
/// error or a loss, or if the other lines are likely to change the schema.
pub(super) fn guess(ranges: &[LineRange], context: &dyn Context) -> Option<SchemaRef> {
    if ranges.iter().all(|range| range.len() <= SAMPLE) {
        return None;
    }
    let mut all = object();
    let sampled = scan_all(ranges, context, |range| sample(range, context));
    for (index, sampled) in sampled.into_iter().enumerate() {
        let sampled = sampled.ok().filter(|sampled| sampled.repeated.is_empty())?;
        let columns = all.columns();
        all.merge(sampled.kind).ok()?;
        // Keys are in the order in which they first occur. Lines of earlier ranges that are not in
        // the sample may contain a new key.
        if index > 0 && all.columns() > columns {
            return None;
        }
    }
    if !all.is_certain() || all.columns() > context.limits().columns {
        return None;
    }
    let mut losses = Vec::new();
    let fields = all.fields("", &mut losses);
    losses.is_empty().then(|| Arc::new(Schema::new(fields)))
}

fn object() -> ValueType {
    ValueType::Object(Objects::default())
}

fn is_too_wide(all: &ValueType, column: &str) -> bool {
    fn wide(kind: &ValueType) -> bool {
        match kind {
            ValueType::Number(numbers) => numbers.is_too_wide(),
            ValueType::List(item) => wide(item),
            ValueType::Object(objects) => objects.keys.values().any(|key| wide(&key.kind)),
            _ => false,
        }
    }
    matches!(all, ValueType::Object(objects) if objects.keys.get(column).is_some_and(|key| wide(&key.kind)))
}

/// Result of scanning a range.
struct Scanned {
    kind: ValueType,
    rows: u64,
    lines: u64,
    /// Maximum number of columns, and number of columns that can still be added.
    most_columns: u64,
    columns_left: u64,
    most_levels: u64,
    /// Keys that are repeated within an object.
    repeated: BTreeSet<String>,
}

impl Scanned {
    fn new(known: ValueType, context: &dyn Context) -> Self {
        let most_columns = context.limits().columns;
        Self {
            columns_left: most_columns.saturating_sub(known.columns()),
            kind: known,
            rows: 0,
            lines: 0,
            most_columns,
            most_levels: context.limits().nesting.min(MAX_LEVELS),
            repeated: BTreeSet::new(),
        }
    }
}

/// Scans at most `max` lines of a range. The types from earlier ranges are in `known`.
fn scan(range: &LineRange, known: ValueType, max: Option<u64>, context: &dyn Context) -> Result<Scanned> {
    let mut scanned = Scanned::new(known, context);
    let mut left = max.unwrap_or(u64::MAX);
    let mut blocks = Blocks::new(range, context.limits())?;
    while left > 0 {
        context.check_cancelled()?;
        let rows = usize::try_from(left).unwrap_or(usize::MAX).min(ROWS);
        let Some(block) = blocks.next(rows, BYTES)? else { break };
        scan_block(range, &block, &mut scanned)?;
        left -= block.rows as u64;
    }
    scanned.lines = blocks.lines();
    Ok(scanned)
}

/// Scans the first lines of a range.
fn sample(range: &LineRange, context: &dyn Context) -> Result<Scanned> {
    let mut scanned = Scanned::new(object(), context);
    if let Some(block) = Blocks::new(range, context.limits())?.next(ROWS, SAMPLE)? {
        scan_block(range, &block, &mut scanned)?;
    }
    Ok(scanned)
}

fn scan_block(range: &LineRange, block: &Block<'_>, scanned: &mut Scanned) -> Result<()> {
    for row in block.row_lines() {
        let place = fault::LinePosition { range, offset: row.offset, line: row.line };
        scan_line(row.text, scanned).map_err(|error| place.of(error))?;
    }
    scanned.rows += block.rows as u64;
    Ok(())
}

fn scan_line(line: &[u8], scanned: &mut Scanned) -> Result<(), fault::LineError> {
    let trimmed = line.trim_ascii_start();
    if trimmed.first() != Some(&b'{') {
        return Err(fault::not_an_object(line));
    }
    let (columns_left, levels_left) = (scanned.columns_left, scanned.most_levels);
    let mut notes = LineNotes { columns_left, levels_left, ..LineNotes::default() };
    let mut deserializer = Deserializer::from_slice(line);
    let seen = TypeSeed { kind: &mut scanned.kind, notes: &mut notes };
    let read = seen.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    scanned.columns_left = notes.columns_left;
    scanned.repeated.extend(notes.repeated);
    if let Err(error) = read {
        let own = match notes.conflict {
            Some(conflict) => contradiction(&conflict),
            None if notes.has_too_many => too_many_columns(scanned.most_columns),
            None if notes.is_too_deep => too_deep(scanned.most_levels),
            None => return Err(fault::of_json(&error, line)),
        };
        return Err(fault::LineError { at: Some(error.column()), error: own });
    }
    if notes.has_long_number {
        let text: &RawValue = serde_json::from_slice(line).map_err(|error| fault::of_json(&error, line))?;
        number_text::take(&mut scanned.kind, text).map_err(|error| fault::of_json(&error, line))?;
    }
    Ok(())
}

fn contradiction(conflict: &Conflict) -> Error {
    Error::unsupported("a column has more than one kind of value")
        .hint("pass -i schema=FILE to read only the columns that the file lists")
        .column(conflict.column())
        .expected(conflict.had)
        .found(conflict.came)
}

fn too_deep(max: u64) -> Error {
    Error::limit("objects and lists nest too deeply")
        .expected(format!("at most {max} levels, including the line's object"))
}

fn too_many_columns(max: u64) -> Error {
    Error::limit("too many columns")
        .hint("pass --limit columns=N to allow more")
        .expected(format!("at most {max}"))
}
