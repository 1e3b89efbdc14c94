//! What values lose that their type does not tell: floats that are no numbers, and keys of a map that repeat.

use indexmap::IndexMap;
use std::collections::HashSet;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, GenericListArray, MapArray, OffsetSizeTrait, RecordBatch, downcast_run_array,
};
use tensorferry_sdk::arrow_schema::DataType;
use tensorferry_sdk::{Loss, LossKind, Severity};

/// By column, what its values lost.
#[derive(Default)]
pub(super) struct ValueLosses(IndexMap<String, Seen>);

/// What there is among the values of a column, however deep.
#[derive(Default)]
struct Seen {
    /// Floats that JSON writes as strings, and others.
    strings: bool,
    numbers: bool,
    has_repeated_key: bool,
}

impl ValueLosses {
    pub(super) fn look(&mut self, batch: &RecordBatch) {
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if !may_lose(field.data_type()) {
                continue;
            }
            if !self.0.contains_key(field.name()) {
                self.0.insert(field.name().clone(), Seen::default());
            }
            if let Some(seen) = self.0.get_mut(field.name()) {
                seen.look(column);
            }
        }
    }

    pub(super) fn losses(self) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (name, seen) in self.0 {
            if seen.has_repeated_key {
                let why = "maps with a key twice: both are written, and whoever reads them keeps the last";
                losses.push(Loss::new(LossKind::Record, &name, why));
            }
            if seen.strings {
                // Where a column has no other numbers, nothing shows that the strings are some.
                let (how, severity) = if seen.numbers {
                    ("beside numbers, which ferry reads as floats", Severity::Note)
                } else {
                    ("and are read so unless the schema says otherwise", Severity::Changed)
                };
                let why = format!("JSON has no NaN and no infinity: they are written as strings, {how}");
                losses.push(changed(name, why).severity(severity));
            }
        }
        losses
    }
}

/// The values are there, and no longer say what they are.
pub(super) fn changed(column: impl Into<String>, why: impl Into<String>) -> Loss {
    Loss::new(LossKind::Metadata, column, why).severity(Severity::Changed)
}

/// Whether there may be floats or maps among the values of a type.
fn may_lose(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(..) => true,
        DataType::Dictionary(_, values) => may_lose(values),
        nested if nested.is_nested() => true,
        other => other.is_floating(),
    }
}

impl Seen {
    fn look(&mut self, array: &ArrayRef) {
        let array: &dyn Array = array;
        match array.data_type() {
            DataType::Float16 => self.floats::<Float16Type>(array, |value| value.is_finite()),
            DataType::Float32 => self.floats::<Float32Type>(array, f32::is_finite),
            DataType::Float64 => self.floats::<Float64Type>(array, f64::is_finite),
            DataType::List(_) => self.list(array.as_list::<i32>()),
            DataType::LargeList(_) => self.list(array.as_list::<i64>()),
            DataType::ListView(_) => self.look(array.as_list_view::<i32>().values()),
            DataType::LargeListView(_) => self.look(array.as_list_view::<i64>().values()),
            DataType::FixedSizeList(..) => self.look(array.as_fixed_size_list().values()),
            DataType::Struct(_) => array.as_struct().columns().iter().for_each(|column| self.look(column)),
            DataType::Union(fields, _) => {
                fields.iter().for_each(|(id, _)| self.look(array.as_union().child(id)));
            }
            DataType::Map(..) => {
                self.has_repeated_key |= has_repeated_key(array.as_map());
                self.look(array.as_map().values());
            }
            DataType::Dictionary(..) => self.look(array.as_any_dictionary().values()),
            DataType::RunEndEncoded(..) => downcast_run_array!(
                array => self.look(array.values()),
                _ => {}
            ),
            _ => {}
        }
    }

    fn floats<T: ArrowPrimitiveType>(&mut self, array: &dyn Array, is_finite: fn(T::Native) -> bool) {
        let values = array.as_primitive::<T>();
        let finite = values.iter().flatten().filter(|&value| is_finite(value)).count();
        self.strings |= finite < values.len() - values.null_count();
        self.numbers |= finite > 0;
    }

    fn list<O: OffsetSizeTrait>(&mut self, lists: &GenericListArray<O>) {
        let (first, last) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
        self.look(&lists.values().slice(first.as_usize(), (last - first).as_usize()));
    }
}

/// Whether a map of these has a key more than once. Keys of JSON are texts.
fn has_repeated_key(maps: &MapArray) -> bool {
    let keys = maps.keys();
    let key = |place: usize| match keys.data_type() {
        DataType::Utf8 => keys.as_string::<i32>().value(place),
        DataType::LargeUtf8 => keys.as_string::<i64>().value(place),
        DataType::Utf8View => keys.as_string_view().value(place),
        _ => "",
    };
    let is_text = matches!(keys.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let mut seen = HashSet::new();
    is_text
        && maps.value_offsets().windows(2).any(|bounds| {
            seen.clear();
            let (Ok(start), Ok(end)) = (usize::try_from(bounds[0]), usize::try_from(bounds[1])) else {
                return false;
            };
            end - start > 1 && (start..end).any(|place| !seen.insert(key(place)))
        })
}
