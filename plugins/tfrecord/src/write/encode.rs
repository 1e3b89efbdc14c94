//! Encodes rows as messages. In a message, the length of each part precedes its bytes. The encoder
//! therefore first measures each row.

use super::layout::{Feature, Layout};
use super::leaf::Leaf;
use super::losses::Losses;
use super::shapes::Shapes;
use super::view::View;
use crate::columns::Shape;
use crate::message::{MessageKind, Part};
use arrow_array::RecordBatch;
use std::ops::Range;
use tensorferry_proto::wire::{put_varint, varint_len};
use tensorferry_sdk::{Error, Result};

/// The tags of fields 1 and 2 for length-delimited values: messages, strings and packed numbers.
const FIELD_1: u8 = 0x0a;
const FIELD_2: u8 = 0x12;

pub(super) struct Encoder<'a> {
    layout: &'a Layout,
    views: Vec<View>,
    /// The lengths of the features in the current row. A missing feature is `None`.
    measured: Vec<Option<Measured>>,
}

/// The lengths of a feature's parts, innermost first.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    /// The packed numbers, or the strings with their tags.
    payload: usize,
    /// The list message.
    list: usize,
    /// The Feature message, or the FeatureList.
    value: usize,
    /// The entry of the map.
    entry: usize,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(layout: &'a Layout, batch: &RecordBatch, losses: &mut Losses) -> Result<Self> {
        let mut views = Vec::with_capacity(layout.features.len());
        for (number, feature) in layout.features.iter().enumerate() {
            let view = View::new(batch, &feature.path, feature.kind, number, losses).map_err(|error| {
                Error::unsupported(format!(
                    "a value cannot be stored in a {}: {error}",
                    feature.kind.list_name()
                ))
                .column(&feature.column)
            })?;
            views.push(view);
        }
        Ok(Self { layout, measured: vec![None; views.len()], views })
    }

    /// Appends the message of a row.
    pub(super) fn append(
        &mut self,
        row: usize,
        output: &mut Vec<u8>,
        losses: &mut Losses,
        shapes: &mut Shapes,
    ) -> Result<()> {
        let Some(message) = self.layout.message else {
            // The only column contains whole records and has no nulls.
            if let Some(Leaf::Bytes(records)) = self.views.first().map(|view| &view.leaf) {
                output.extend_from_slice(records.value(row));
            }
            return Ok(());
        };
        let mut maps = [0; 2];
        for (number, feature) in self.layout.features.iter().enumerate() {
            let measured = self.measure(number, feature, row, losses, shapes)?;
            if let Some(measured) = measured {
                maps[feature.part as usize] += 1 + prefixed(measured.entry);
            }
            self.measured[number] = measured;
        }
        let has_lists = message == MessageKind::Sequence;
        // Like TensorFlow, this code writes both maps even if they are empty.
        for (tag, part, len) in [(FIELD_1, Part::Features, maps[0]), (FIELD_2, Part::Lists, maps[1])]
            .into_iter()
            .take(1 + usize::from(has_lists))
        {
            output.push(tag);
            put_varint(output, len as u64);
            for ((feature, view), measured) in
                self.layout.features.iter().zip(&self.views).zip(&self.measured)
            {
                if let (Some(measured), true) = (measured, feature.part == part) {
                    append_entry(output, feature, view, row, measured);
                }
            }
        }
        Ok(())
    }

    /// Returns the lengths of a feature's parts in a row.
    fn measure(
        &self,
        number: usize,
        feature: &Feature,
        row: usize,
        losses: &mut Losses,
        shapes: &mut Shapes,
    ) -> Result<Option<Measured>> {
        let view = &self.views[number];
        if !view.has(row) {
            if feature.is_required {
                return Err(
                    Error::malformed("a row lacks a value that the schema requires").column(&feature.column)
                );
            }
            shapes.missing(number);
            return Ok(None);
        }
        let mut left_out = 0;
        let mut measured = if feature.part == Part::Features {
            let (measured, count, nulls) = measure_list(view, 0, row);
            left_out += nulls;
            fits(feature, count)?;
            shapes.values(number, count);
            measured
        } else {
            let mut value = 0;
            for (step, is_null) in view.steps(row) {
                let mut len = 0;
                if !is_null {
                    let (step, count, nulls) = measure_list(view, 1, step);
                    left_out += nulls;
                    fits(feature, count)?;
                    len = step.value;
                }
                value += 1 + prefixed(len);
            }
            Measured { value, ..Measured::default() }
        };
        if left_out > 0 {
            losses.nulls(number, left_out);
        }
        measured.entry = 1 + prefixed(feature.key.len()) + 1 + prefixed(measured.value);
        Ok(Some(measured))
    }
}

/// Returns the number of bytes that `len` bytes occupy together with their length prefix.
fn prefixed(len: usize) -> usize {
    varint_len(len as u64) + len
}

/// Checks that a list has the number of values that the schema requires.
fn fits(feature: &Feature, count: usize) -> Result<()> {
    let Some(shape) = &feature.shape else { return Ok(()) };
    let expected = match shape {
        Shape::Fixed(_) if count == shape.product() => return Ok(()),
        Shape::Ragged(_) if count.is_multiple_of(shape.product()) => return Ok(()),
        Shape::Fixed(_) => format!("{} values", shape.product()),
        Shape::Ragged(_) => format!("a multiple of {} values", shape.product()),
    };
    let error = Error::malformed("the shape of a row does not match the schema").column(&feature.column);
    Err(error.expected(expected).found(format!("{count} values")))
}

/// Measures the list in one element of a level. Returns the lengths, the number of values, and the
/// number of dropped nulls.
fn measure_list(view: &View, level: usize, element: usize) -> (Measured, usize, u64) {
    let (mut payload, mut count) = (0, 0);
    let nulls = view.values(level, element, &mut |range: Range<usize>| {
        count += range.len();
        payload += match &view.leaf {
            Leaf::Ints(values) => {
                values[range].iter().map(|value| varint_len(value.cast_unsigned())).sum::<usize>()
            }
            Leaf::Floats(_) => 4 * range.len(),
            Leaf::Bytes(values) => range.map(|index| 1 + prefixed(values.value(index).len())).sum::<usize>(),
        };
    });
    let list = match view.leaf {
        Leaf::Bytes(_) => payload,
        _ if count == 0 => 0,
        _ => 1 + prefixed(payload),
    };
    (Measured { payload, list, value: 1 + prefixed(list), entry: 0 }, count, nulls)
}

fn append_entry(output: &mut Vec<u8>, feature: &Feature, view: &View, row: usize, measured: &Measured) {
    output.push(FIELD_1);
    put_varint(output, measured.entry as u64);
    output.push(FIELD_1);
    put_varint(output, feature.key.len() as u64);
    output.extend_from_slice(feature.key.as_bytes());
    output.push(FIELD_2);
    put_varint(output, measured.value as u64);
    if feature.part == Part::Features {
        append_feature(output, feature, view, 0, row, measured);
        return;
    }
    for (step, is_null) in view.steps(row) {
        output.push(FIELD_1);
        if is_null {
            // The feature has no kind, so its message is empty.
            output.push(0);
            continue;
        }
        let (measured, _, _) = measure_list(view, 1, step);
        put_varint(output, measured.value as u64);
        append_feature(output, feature, view, 1, step, &measured);
    }
}

fn append_feature(
    output: &mut Vec<u8>,
    feature: &Feature,
    view: &View,
    level: usize,
    element: usize,
    measured: &Measured,
) {
    output.push(feature.kind.number() << 3 | 2);
    put_varint(output, measured.list as u64);
    if measured.list > 0 && !matches!(view.leaf, Leaf::Bytes(_)) {
        output.push(FIELD_1);
        put_varint(output, measured.payload as u64);
    }
    view.values(level, element, &mut |range| match &view.leaf {
        Leaf::Ints(values) => {
            values[range].iter().for_each(|value| put_varint(output, value.cast_unsigned()));
        }
        Leaf::Floats(values) => {
            output.extend(values[range].iter().flat_map(|value| value.to_le_bytes()));
        }
        Leaf::Bytes(values) => {
            for index in range {
                let value = values.value(index);
                output.push(FIELD_1);
                put_varint(output, value.len() as u64);
                output.extend_from_slice(value);
            }
        }
    });
}
