//! Losses that depend on the values of a column instead of its type. Such losses are caused by NaN,
//! infinities, and repeated keys of a map.

use indexmap::IndexMap;
use tensorferry_row_text::json;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use tensorferry_sdk::arrow_array::{Array, ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::DataType;
use tensorferry_sdk::{Loss, LossKind, Severity};

/// Losses by column.
#[derive(Default)]
pub(super) struct ValueLosses(IndexMap<String, FloatKinds>);

/// Kinds of values in a column, at any nesting level.
#[derive(Default)]
struct FloatKinds {
    /// Whether the column contains floats that are written as strings (`strings`), or other floats
    /// (`numbers`).
    strings: bool,
    numbers: bool,
    has_repeated_key: bool,
}

impl ValueLosses {
    pub(super) fn examine(&mut self, batch: &RecordBatch) {
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if !may_lose(field.data_type()) {
                continue;
            }
            if !self.0.contains_key(field.name()) {
                self.0.insert(field.name().clone(), FloatKinds::default());
            }
            if let Some(seen) = self.0.get_mut(field.name()) {
                seen.examine(column);
            }
        }
    }

    pub(super) fn losses(self) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (name, seen) in self.0 {
            if seen.has_repeated_key {
                losses.push(json::repeated_keys(&name));
            }
            if seen.strings {
                // If the column has no other numbers, the reader cannot infer that the strings are
                // numbers.
                let (how, severity) = if seen.numbers {
                    ("but read as floats, since the column also has numbers", Severity::Note)
                } else {
                    ("and read as strings unless the schema sets another type", Severity::Changed)
                };
                let why = format!("JSON has no NaN or infinity: written as strings, {how}");
                losses.push(changed(name, why).severity(severity));
            }
        }
        losses
    }
}

/// Returns the loss for a column whose values are written with a different type.
pub(super) fn changed(column: impl Into<String>, why: impl Into<String>) -> Loss {
    Loss::new(LossKind::Metadata, column, why).severity(Severity::Changed)
}

/// Returns whether values of a type may contain floats or maps.
fn may_lose(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(..) => true,
        DataType::Dictionary(_, values) => may_lose(values),
        nested if nested.is_nested() => true,
        other => other.is_floating(),
    }
}

impl FloatKinds {
    fn examine(&mut self, array: &ArrayRef) {
        self.has_repeated_key |= json::repeats_keys(array);
        json::for_each_leaf(array, &mut |leaf| match leaf.data_type() {
            DataType::Float16 => self.floats::<Float16Type>(leaf, |value| value.is_finite()),
            DataType::Float32 => self.floats::<Float32Type>(leaf, f32::is_finite),
            DataType::Float64 => self.floats::<Float64Type>(leaf, f64::is_finite),
            _ => {}
        });
    }

    fn floats<T: ArrowPrimitiveType>(&mut self, array: &dyn Array, is_finite: impl Fn(T::Native) -> bool) {
        let values = array.as_primitive::<T>();
        let finite = match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(_) => values.iter().flatten().filter(|&value| is_finite(value)).count(),
            None => values.values().iter().filter(|&&value| is_finite(value)).count(),
        };
        self.strings |= finite < values.len() - values.null_count();
        self.numbers |= finite > 0;
    }
}
