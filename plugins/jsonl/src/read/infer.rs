//! Finding the schema: every line is looked at, each stretch on its own thread's account.

use super::blocks::Block;
use super::fault;
use super::kind::{Conflict, Kind, Notes, Seen};
use super::numbers;
use super::stretch::Stretch;
use indexmap::IndexMap;
use serde::de::DeserializeSeed;
use serde_json::Deserializer;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tensorferry_sdk::arrow_schema::{Schema, SchemaRef};
use tensorferry_sdk::{Context, Error, Loss, Result};

/// Lines that are looked at before the user is asked whether to go on.
const ROWS: usize = 4096;
const BYTES: u64 = 4 << 20;
/// Each column costs buffers in every batch.
const TENSORS_OF_A_COLUMN: u64 = 64;

/// What the lines have in common.
pub(super) struct Found {
    pub(super) schema: SchemaRef,
    pub(super) losses: Vec<Loss>,
}

/// Looks at the lines: at `most` of each file, or at all, and then each stretch knows its rows.
///
/// # Errors
/// Malformed, naming the file, the line, the offset, and the column.
pub(super) fn infer(stretches: &mut [Stretch], most: Option<u64>, context: &dyn Context) -> Result<Found> {
    let mut all = object();
    match most {
        None => {
            let looked = look_at_all(stretches, context);
            let mut before = 0;
            for (index, looked) in looked.into_iter().enumerate() {
                let is_first = stretches[index].first_line == Some(0);
                before = if is_first { 0 } else { before };
                stretches[index].first_line = Some(before);
                let looked = looked?;
                let stretch = &mut stretches[index];
                stretch.rows = Some(looked.rows);
                before += looked.lines;
                if all.clone().merge(looked.kind.clone()).is_err() {
                    // Which line it was is found by looking again, with what is known from before.
                    look_at(stretch, all, None, context)?;
                    return Err(Error::plugin("lines that differ only together").file(stretch.file()));
                }
                all.merge(looked.kind).map_err(|conflict| contradiction(&conflict))?;
            }
        }
        Some(most) => {
            let mut left = most;
            for stretch in stretches.iter() {
                left = if stretch.first_line == Some(0) { most } else { left };
                if left > 0 {
                    let looked = look_at(stretch, all, Some(left), context)?;
                    left = left.saturating_sub(looked.rows);
                    all = looked.kind;
                }
            }
        }
    }
    let mut losses = Vec::new();
    let fields = all.fields("", &mut losses);
    if let Some(field) = fields.iter().find(|field| is_too_wide(&all, field.name())) {
        return Err(Error::unsupported("integers of more than 76 digits").column(field.name()));
    }
    Ok(Found { schema: Arc::new(Schema::new(fields)), losses })
}

fn object() -> Kind {
    Kind::Object(IndexMap::new())
}

fn is_too_wide(all: &Kind, column: &str) -> bool {
    fn wide(kind: &Kind) -> bool {
        match kind {
            Kind::Number(numbers) => numbers.is_too_wide(),
            Kind::List(item) => wide(item),
            Kind::Object(keys) => keys.values().any(wide),
            _ => false,
        }
    }
    matches!(all, Kind::Object(keys) if keys.get(column).is_some_and(wide))
}

/// What was seen of a stretch.
struct Looked {
    kind: Kind,
    rows: u64,
    lines: u64,
    /// How many more keys there may be.
    keys_left: u64,
}

fn look_at_all(stretches: &[Stretch], context: &dyn Context) -> Vec<Result<Looked>> {
    let next = AtomicUsize::new(0);
    let threads = context.threads().clamp(1, stretches.len().max(1));
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(stretch) = stretches.get(index) else { return done };
            let looked = look_at(stretch, object(), None, context);
            let is_bad = looked.is_err();
            done.push((index, looked));
            if is_bad {
                // Those before it are being looked at, and the first error is the one that is said.
                next.fetch_max(stretches.len(), Ordering::Relaxed);
            }
        }
    };
    let mut done: Vec<(usize, Result<Looked>)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, looked)| looked).collect()
}

/// Looks at the lines of a stretch, `most` at most, with what is known of others.
fn look_at(stretch: &Stretch, known: Kind, most: Option<u64>, context: &dyn Context) -> Result<Looked> {
    let mut looked =
        Looked { kind: known, rows: 0, lines: 0, keys_left: context.limits().tensors / TENSORS_OF_A_COLUMN };
    let mut left = most.unwrap_or(u64::MAX);
    let mut blocks = stretch.blocks(context.limits())?;
    loop {
        context.check_cancelled()?;
        let rows = usize::try_from(left).unwrap_or(usize::MAX).min(ROWS);
        if rows == 0 {
            return Ok(looked);
        }
        let Some(block) = blocks.next(rows, BYTES)? else { return Ok(looked) };
        look_at_block(stretch, block, &mut looked)?;
        left -= block.rows as u64;
    }
}

fn look_at_block(stretch: &Stretch, block: Block<'_>, looked: &mut Looked) -> Result<()> {
    let mut offset = block.offset;
    for (index, line) in block.text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        looked.lines += 1;
        if !line.trim_ascii().is_empty() {
            looked.rows += 1;
            let place = fault::Place { stretch, offset, line: block.line + index as u64 };
            look_at_line(line, looked).map_err(|error| place.of(error))?;
        }
        offset += line.len() as u64;
    }
    Ok(())
}

fn look_at_line(line: &[u8], looked: &mut Looked) -> Result<(), fault::LineError> {
    let trimmed = line.trim_ascii_start();
    if trimmed.first() != Some(&b'{') {
        return Err(fault::not_an_object(line));
    }
    let mut notes = Notes { keys_left: looked.keys_left, ..Notes::default() };
    let mut deserializer = Deserializer::from_slice(line);
    let seen = Seen { kind: &mut looked.kind, notes: &mut notes };
    let read = seen.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    looked.keys_left = notes.keys_left;
    if let Err(error) = read {
        return Err(match notes.conflict {
            Some(conflict) => fault::LineError { at: Some(error.column()), error: contradiction(&conflict) },
            None => fault::of_json(&error),
        });
    }
    if notes.has_long_number {
        let text: &RawValue = serde_json::from_slice(line).map_err(|error| fault::of_json(&error))?;
        numbers::take_texts(&mut looked.kind, text).map_err(|error| fault::of_json(&error))?;
    }
    Ok(())
}

fn contradiction(conflict: &Conflict) -> Error {
    Error::malformed("a column has more than one kind of value")
        .column(conflict.column())
        .expected(conflict.had)
        .found(conflict.came)
}
