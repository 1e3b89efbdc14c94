//! Determines a common schema for several files, which is the schema of the first file.

use super::int96::{self, Int96Units};
use super::memory::ReadMemory;
use super::pages::RowGroupPages;
use super::{OpenFile, arrow_hint, parts};
use crate::fault::catch_panic;
use crate::logical;
use crate::nested::{parts, with_parts};
use crate::options::Int96Unit;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema, parquet_to_arrow_schema};
use parquet::basic::Type as Physical;
use parquet::column::page::PageReader;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, SchemaDescriptor};
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{DataType, Field, Fields, Metadata, Schema, SchemaRef, TimeUnit};
use tensorferry_sdk::records::difference;
use tensorferry_sdk::{Error, Limits, Loss, LossKind, LossSink, Result, Severity};

/// Returns the schema of the first file. A column is nullable if it is nullable in any file. The
/// function also sets the types that are requested for the columns of each file.
pub(super) fn of_all(
    files: &mut [OpenFile],
    int96: Int96Unit,
    limits: &Limits,
    losses: &mut dyn LossSink,
) -> Result<SchemaRef> {
    report_unsupported_types(files, losses)?;
    let Some((first, others)) = files.split_first_mut() else { return Ok(Arc::new(Schema::empty())) };
    let schema = of_file(first, None, int96, limits)?;
    let mut fields = schema.fields().to_vec();
    for file in others {
        let own = of_file(file, None, int96, limits)?;
        let own = own.fields();
        // The columns may match although their Arrow types differ. For example, a writer may have
        // stored strings as large strings.
        let equal = |a: &DataType, b: &DataType| a == b;
        let names = (first.file.name(), file.file.name().to_owned());
        let own = match difference((names.0, &fields), (&names.1, own), &equal) {
            None => own.clone(),
            Some(_) => with_types_of_first(file, &schema, own, int96, limits, losses)?,
        };
        if let Some(error) = difference((names.0, &fields), (&names.1, &own), &equal) {
            return Err(error);
        }
        for (field, own) in fields.iter_mut().zip(&own) {
            if own.is_nullable() && !field.is_nullable() {
                *field = Arc::new(field.as_ref().clone().with_nullable(true));
            }
        }
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// Reports the columns whose logical type does not exist in Arrow or in ferry.
fn report_unsupported_types(files: &[OpenFile], losses: &mut dyn LossSink) -> Result<()> {
    let mut seen = std::collections::BTreeMap::new();
    for file in files {
        let root = file.metadata.file_metadata().schema_descr().root_schema();
        seen.extend(logical::unsupported_types(root));
    }
    seen.into_iter().try_for_each(|(column, name)| {
        let why = match name {
            "VARIANT" => "VARIANT is read as a struct of its stored bytes".to_owned(),
            "unknown" => "the logical type is unknown, so the column is read as bytes".to_owned(),
            name => format!("{name} is read as its bytes (WKB), without its coordinate system"),
        };
        losses.loss(Loss::new(LossKind::Metadata, column, why).severity(Severity::Changed))
    })
}

/// Determines the Arrow schema of a file. If `like` is set, the columns use its types where
/// possible.
fn of_file(
    file: &mut OpenFile,
    like: Option<&Schema>,
    int96: Int96Unit,
    limits: &Limits,
) -> Result<SchemaRef> {
    let name = file.file.name().to_owned();
    let named = |error: Error| error.context("the schema").file(&name);
    let entries = file.metadata.file_metadata().key_value_metadata();
    let hint = arrow_hint::read(entries).map_err(named)?;
    let plain = catch_panic(|| parquet_to_arrow_schema(&file.schema, None)).map_err(named)?;
    let known = like.or(hint.as_ref());
    let wanted = known.unwrap_or(&plain).fields().clone();
    let original = file.metadata.file_metadata().schema_descr_ptr();
    if file.int96.units.is_empty() && original.columns().iter().any(is_int96) {
        file.int96 = Arc::new(int96_units(file, known, &original, int96, limits)?);
    }
    let mut leaves = Leaves { schema: &original, units: &file.int96.units, next: 0 };
    let refined: Fields = if wanted.len() == plain.fields().len() {
        let pairs = wanted.iter().zip(plain.fields());
        pairs.map(|(wanted, plain)| Arc::new(leaves.refined(wanted, plain))).collect()
    } else {
        wanted.clone()
    };
    let read = if hint.is_none() && &refined == plain.fields() {
        refined
    } else {
        let text = encode_arrow_schema(&Schema::new(refined));
        let entries = vec![KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), text)];
        let read = catch_panic(|| parquet_to_arrow_schema(&file.schema, Some(&entries))).map_err(named)?;
        read.fields().clone()
    };
    let mut leaves = original.columns().iter().map(|leaf| leaf.self_type_ptr());
    let fields = logical::with_intervals(&read, &wanted, &mut leaves);
    file.fields = read;
    Ok(Arc::new(Schema::new_with_metadata(fields, metadata(entries, hint.as_ref()))))
}

/// Merges the file's metadata with that of its Arrow schema. The result does not include the entry
/// that contains the Arrow schema.
fn metadata(entries: Option<&Vec<KeyValue>>, hint: Option<&Schema>) -> Metadata {
    let entries = entries.into_iter().flatten().filter(|entry| entry.key != ARROW_SCHEMA_META_KEY);
    let own = entries.filter_map(|entry| Some((entry.key.clone(), entry.value.clone()?)));
    let hint = hint.into_iter().flat_map(|hint| hint.metadata());
    hint.map(|(key, value)| (key.clone(), value.clone())).chain(own).collect()
}

/// Iterator over the leaf columns of a file.
struct Leaves<'a> {
    schema: &'a SchemaDescriptor,
    units: &'a [Option<TimeUnit>],
    next: usize,
}

impl Leaves<'_> {
    /// Returns the field to request from the `parquet` crate. This field is `wanted`, unless this
    /// would make the library read wrong values or lose part of the file's Parquet schema. `plain`
    /// is the field that the library derives from the Parquet schema.
    fn refined(&mut self, wanted: &Field, plain: &Field) -> Field {
        let (own, below) = (parts(wanted.data_type()), parts(plain.data_type()));
        if below.is_empty() {
            let leaf = self.schema.columns().get(self.next);
            let unit = self.units.get(self.next).copied().flatten();
            self.next += 1;
            let Some(leaf) = leaf else { return wanted.clone() };
            let data_type = leaf_type(wanted.data_type(), plain.data_type(), leaf, unit);
            return logical::annotated(wanted.clone().with_data_type(data_type), leaf.self_type());
        }
        if own.len() != below.len() {
            // The `parquet` crate reports the mismatch, so this code only skips the leaves.
            for part in below {
                self.refined(part, part);
            }
            return wanted.clone();
        }
        let refined = own.iter().zip(below).map(|(own, plain)| Arc::new(self.refined(own, plain)));
        let refined = refined.collect();
        wanted.clone().with_data_type(with_parts(wanted.data_type(), refined))
    }
}

/// Returns the type to request from the `parquet` crate for a leaf.
fn leaf_type(
    wanted: &DataType,
    plain: &DataType,
    leaf: &ColumnDescriptor,
    unit: Option<TimeUnit>,
) -> DataType {
    match (wanted, plain) {
        _ if logical::is_interval(leaf.self_type()) => plain.clone(),
        // The `parquet` crate would panic when it casts nulls to the value type of a dictionary.
        (_, DataType::Null) => plain.clone(),
        (DataType::Dictionary(..), _) if unit.is_some() => leaf_type(plain, plain, leaf, unit),
        (DataType::Dictionary(keys, values), _) => {
            let values = leaf_type(values, plain, leaf, unit);
            // The `parquet` crate does not read dictionaries of these types, so they are read as
            // plain values.
            let is_unread = matches!(values, DataType::Boolean | DataType::Float16) || values.is_decimal();
            if is_unread { values } else { DataType::Dictionary(keys.clone(), Box::new(values)) }
        }
        (DataType::Timestamp(_, zone), _) if let Some(unit) = unit => DataType::Timestamp(unit, zone.clone()),
        (_, DataType::Timestamp(_, zone)) if let Some(unit) = unit => DataType::Timestamp(unit, zone.clone()),
        // Parquet stores whether a time has a zone, and the Arrow schema stores the name of the
        // zone. The unit comes from Parquet.
        (DataType::Timestamp(_, zone @ Some(_)), DataType::Timestamp(unit, Some(_))) => {
            DataType::Timestamp(*unit, zone.clone())
        }
        (DataType::Timestamp(..), DataType::Timestamp(..)) => plain.clone(),
        (DataType::Binary, _) if logical::is_enum(leaf.self_type()) => DataType::Utf8,
        (DataType::LargeBinary, _) if logical::is_enum(leaf.self_type()) => DataType::LargeUtf8,
        (DataType::BinaryView, _) if logical::is_enum(leaf.self_type()) => DataType::Utf8View,
        _ => wanted.clone(),
    }
}

fn is_int96(leaf: &ColumnDescPtr) -> bool {
    leaf.physical_type() == Physical::INT96
}

/// Determines the unit of each INT96 leaf. The unit is the user's choice or the unit in the Arrow
/// schema. If neither is set, the unit is nanoseconds if the first values require that precision.
/// Otherwise, it is microseconds, as written by Spark.
fn int96_units(
    file: &OpenFile,
    known: Option<&Schema>,
    schema: &SchemaDescriptor,
    chosen: Int96Unit,
    limits: &Limits,
) -> Result<Int96Units> {
    let mut hints = Vec::new();
    known.iter().flat_map(|known| known.fields()).for_each(|field| leaf_types(field, &mut hints));
    let from_hint = |leaf: usize| match hints.get(leaf) {
        Some(DataType::Timestamp(unit, _)) if hints.len() == schema.num_columns() => Some(*unit),
        _ => None,
    };
    let mut units = vec![None; schema.num_columns()];
    for (index, leaf) in schema.columns().iter().enumerate().filter(|(_, leaf)| is_int96(leaf)) {
        units[index] = Some(match (chosen, from_hint(index)) {
            (Int96Unit::Nanoseconds, _) => TimeUnit::Nanosecond,
            (Int96Unit::Microseconds, _) => TimeUnit::Microsecond,
            (Int96Unit::Auto, Some(unit)) => unit,
            (Int96Unit::Auto, None) => {
                let first = first_has_nanoseconds(file, index, limits);
                let fine =
                    first.map_err(|error| error.column(leaf.path().string()).file(file.file.name()))?;
                if fine { TimeUnit::Nanosecond } else { TimeUnit::Microsecond }
            }
        });
    }
    Ok(Int96Units { units, is_chosen: chosen != Int96Unit::Auto })
}

/// Collects the types of the leaves below a field.
fn leaf_types<'a>(field: &'a Field, types: &mut Vec<&'a DataType>) {
    let below = parts(field.data_type());
    if below.is_empty() {
        types.push(field.data_type());
    }
    below.iter().for_each(|part| leaf_types(part, types));
}

/// Returns whether the first nonempty row group contains values of the leaf that are more precise
/// than a microsecond.
fn first_has_nanoseconds(file: &OpenFile, leaf: usize, limits: &Limits) -> Result<bool> {
    let Some(index) = file.metadata.row_groups().iter().position(|group| group.num_rows() > 0) else {
        return Ok(false);
    };
    let memory = Arc::new(ReadMemory::new(limits, 1, 1));
    let group = RowGroupPages::new(file, index, limits.header_bytes, memory);
    group.memory.check(parts::max_memory(&group.chunk(leaf))?)?;
    let looked = catch_panic(|| {
        let mut pages = group.pages(leaf)?;
        while let Some(page) = pages.get_next_page()? {
            if int96::has_nanoseconds(&pages.plain_values(&page)) {
                return Ok(true);
            }
        }
        Ok(false)
    });
    looked.map_err(|error| group.first_error.take().unwrap_or(error))
}

/// Returns the columns with the types of the first file, but with their own nullability. If the
/// types do not match, returns the columns unchanged. If a column or a nested value has a different
/// time zone, the function reports a loss.
fn with_types_of_first(
    file: &mut OpenFile,
    first: &Schema,
    own: &Fields,
    int96: Int96Unit,
    limits: &Limits,
    losses: &mut dyn LossSink,
) -> Result<Fields> {
    let retyped = own.iter().map(|own| {
        let like = first.field_with_name(own.name()).ok();
        let like = like.filter(|like| !is_reinterpreted(own.data_type(), like.data_type()));
        like.map_or_else(
            || own.as_ref().clone(),
            |like| own.as_ref().clone().with_data_type(like.data_type().clone()),
        )
    });
    let like = Schema::new(retyped.collect::<Vec<Field>>());
    let (fields, units) = (file.fields.clone(), file.int96.clone());
    if units.units.iter().any(Option::is_some) {
        file.int96 = Arc::new(units_like(&units, &like));
    }
    let Ok(schema) = of_file(file, Some(&like), int96, limits) else {
        (file.fields, file.int96) = (fields, units);
        return Ok(own.clone());
    };
    for (own, as_first) in own.iter().zip(schema.fields()) {
        let (mut leaves, mut first) = (Vec::new(), Vec::new());
        leaf_types(own, &mut leaves);
        leaf_types(as_first, &mut first);
        let zones = leaves.iter().zip(&first).find_map(|pair| match pair {
            (DataType::Timestamp(_, zone), DataType::Timestamp(_, other)) if zone != other => {
                Some((zone, other))
            }
            _ => None,
        });
        if let Some((zone, other)) = zones {
            let zone = zone
                .as_deref()
                .map_or_else(|| "no time zone".to_owned(), |zone| format!("the time zone {zone}"));
            let (name, other) = (file.file.name(), other.as_deref().unwrap_or("none"));
            let why = format!("{name:?} has {zone}, but is read with the first file's time zone: {other}");
            losses.loss(Loss::new(LossKind::Metadata, own.name(), why).severity(Severity::Changed))?;
        }
    }
    Ok(schema.fields().clone())
}

/// Returns the units of INT96 leaves, changed to match `like`, the schema of another file.
fn units_like(own: &Int96Units, like: &Schema) -> Int96Units {
    let mut types = Vec::new();
    like.fields().iter().for_each(|field| leaf_types(field, &mut types));
    let unit = |(own, like): (&Option<TimeUnit>, &&DataType)| match (own, like) {
        (Some(_), DataType::Timestamp(unit, _)) => Some(*unit),
        _ => *own,
    };
    if types.len() != own.units.len() {
        return own.clone();
    }
    Int96Units { units: own.units.iter().zip(&types).map(unit).collect(), is_chosen: own.is_chosen }
}

/// Returns whether the `parquet` crate would read integers as times, times as integers, or
/// durations in the wrong unit. Parquet does not have a duration type and stores durations as
/// integers.
fn is_reinterpreted(own: &DataType, like: &DataType) -> bool {
    match (own, like) {
        (own, like) if own == like => false,
        (DataType::Dictionary(_, own), like) => is_reinterpreted(own, like),
        (own, DataType::Dictionary(_, like)) => is_reinterpreted(own, like),
        (DataType::Duration(_), DataType::Duration(_)) => true,
        (own, like) if own.is_integer() || like.is_integer() => own.is_temporal() || like.is_temporal(),
        (own, like) => {
            let (own, like) = (parts(own), parts(like));
            own.len() == like.len()
                && own.iter().zip(like).any(|(own, like)| is_reinterpreted(own.data_type(), like.data_type()))
        }
    }
}
