//! Parquet's logical types that do not exist in Arrow. The reader records them in a field's
//! metadata, so that the writer can restore them.
//!
//! ```text
//! UUID, JSON                 Arrow's extension types arrow.uuid and arrow.json
//! ENUM, BSON, INTERVAL       the entry PARQUET:logical_type, by these names
//! TIME, adjusted to UTC      the entry PARQUET:logical_type: TIME_UTC
//! ```

use crate::nested::{parts, with_parts};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{DataType, Field, Fields, IntervalUnit};

const EXTENSION: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";
const KEY: &str = "PARQUET:logical_type";
const ENUM: &str = "ENUM";
const BSON: &str = "BSON";
const INTERVAL: &str = "INTERVAL";
const TIME_UTC: &str = "TIME_UTC";
const UUID: &str = "arrow.uuid";
const JSON: &str = "arrow.json";
/// Length of an INTERVAL in bytes. An INTERVAL consists of months, days and milliseconds.
pub(crate) const INTERVAL_LEN: i32 = 12;

pub(crate) fn is_interval(leaf: &Type) -> bool {
    leaf.get_basic_info().converted_type() == ConvertedType::INTERVAL
}

pub(crate) fn is_enum(leaf: &Type) -> bool {
    let info = leaf.get_basic_info();
    match info.logical_type_ref() {
        Some(logical) => matches!(logical, LogicalType::Enum),
        None => info.converted_type() == ConvertedType::ENUM,
    }
}

/// Adds the logical type of `leaf` to the metadata of its field.
pub(crate) fn annotated(mut field: Field, leaf: &Type) -> Field {
    // This metadata entry may have been copied from another file's schema, so only the type of
    // `leaf` counts.
    if field.metadata().contains_key(KEY) {
        let mut metadata = field.metadata().clone();
        metadata.remove(KEY);
        field = field.with_metadata(metadata);
    }
    let info = leaf.get_basic_info();
    let entry = match (info.logical_type_ref(), info.converted_type()) {
        (Some(LogicalType::Uuid), _) => (EXTENSION, UUID),
        (Some(LogicalType::Json), _) | (None, ConvertedType::JSON) => (EXTENSION, JSON),
        (Some(LogicalType::Enum), _) | (None, ConvertedType::ENUM) => (KEY, ENUM),
        (Some(LogicalType::Bson), _) | (None, ConvertedType::BSON) => (KEY, BSON),
        (Some(LogicalType::Time(time)), _) if time.is_adjusted_to_u_t_c => (KEY, TIME_UTC),
        (None, ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS) => (KEY, TIME_UTC),
        _ => return field,
    };
    if field.metadata().contains_key(entry.0) {
        return field;
    }
    let mut metadata = field.metadata().clone();
    metadata.insert(entry.0.to_owned(), entry.1.to_owned());
    if entry.1 == JSON {
        metadata.insert(EXTENSION_METADATA.to_owned(), String::new());
    }
    field.with_metadata(metadata)
}

/// Marks a field for storage as an INTERVAL.
pub(crate) fn as_interval(field: Field) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(KEY.to_owned(), INTERVAL.to_owned());
    field.with_data_type(DataType::FixedSizeBinary(INTERVAL_LEN)).with_metadata(metadata)
}

/// Returns the path and the type name of each column or nested field whose Parquet type exists
/// neither in Arrow nor in ferry.
pub(crate) fn unsupported_types(root: &Type) -> Vec<(String, &'static str)> {
    fn walk(path: &str, of: &Type, found: &mut Vec<(String, &'static str)>) {
        let name = match of.get_basic_info().logical_type_ref() {
            Some(LogicalType::Variant { .. }) => Some("VARIANT"),
            Some(LogicalType::Geometry { .. }) => Some("GEOMETRY"),
            Some(LogicalType::Geography { .. }) => Some("GEOGRAPHY"),
            Some(LogicalType::_Unknown { .. }) => Some("unknown"),
            _ => None,
        };
        found.extend(name.map(|name| (path.to_owned(), name)));
        if of.is_group() {
            of.get_fields().iter().for_each(|part| walk(&format!("{path}.{}", part.name()), part, found));
        }
    }
    let mut found = Vec::new();
    if root.is_group() {
        root.get_fields().iter().for_each(|column| walk(column.name(), column, &mut found));
    }
    found
}

/// Removes the INTERVAL annotations from the schema, so that the `parquet` crate reads the 12 raw
/// bytes. If the annotations remained, the library would drop the months.
pub(crate) fn without_intervals(schema: &SchemaDescriptor) -> Result<SchemaDescriptor, ParquetError> {
    let root = rewritten(schema.root_schema_ptr(), &mut |leaf| {
        is_interval(leaf).then_some((None, ConvertedType::NONE))
    })?;
    Ok(SchemaDescriptor::new(root))
}

/// Adds the logical types from the fields' metadata to `schema`, which the `parquet` crate derived
/// from `fields`. A logical type is added only if the stored values have the physical type that it
/// requires.
pub(crate) fn with_logical_types(
    schema: &SchemaDescriptor,
    fields: &Fields,
) -> Result<SchemaDescriptor, ParquetError> {
    let mut names = Vec::new();
    fields.iter().for_each(|field| leaf_names(field, &mut names));
    let mut names = names.into_iter();
    let root = rewritten(schema.root_schema_ptr(), &mut |leaf| {
        names.next().flatten().and_then(|name| logical(leaf, name))
    })?;
    Ok(SchemaDescriptor::new(root))
}

/// Collects, for each leaf, the logical type in its field's metadata.
fn leaf_names<'a>(field: &'a Field, names: &mut Vec<Option<&'a str>>) {
    let below = parts(field.data_type());
    if below.is_empty() {
        let entry = |key| field.metadata().get(key).map(String::as_str);
        names.push(entry(KEY).or_else(|| entry(EXTENSION)));
    }
    below.iter().for_each(|part| leaf_names(part, names));
}

fn logical(leaf: &Type, name: &str) -> Option<(Option<LogicalType>, ConvertedType)> {
    let info = leaf.get_basic_info();
    let (own, is_text) = (info.logical_type_ref(), info.converted_type() == ConvertedType::UTF8);
    let len = match leaf {
        Type::PrimitiveType { type_length, .. } => *type_length,
        Type::GroupType { .. } => return None,
    };
    match (name, leaf.get_physical_type()) {
        (UUID, Physical::FIXED_LEN_BYTE_ARRAY) if own.is_none() && len == 16 => {
            Some((Some(LogicalType::Uuid), ConvertedType::NONE))
        }
        (INTERVAL, Physical::FIXED_LEN_BYTE_ARRAY) if own.is_none() && len == INTERVAL_LEN => {
            Some((None, ConvertedType::INTERVAL))
        }
        (JSON, Physical::BYTE_ARRAY) if is_text => Some((Some(LogicalType::Json), ConvertedType::JSON)),
        (ENUM, Physical::BYTE_ARRAY) if is_text => Some((Some(LogicalType::Enum), ConvertedType::ENUM)),
        (BSON, Physical::BYTE_ARRAY) if own.is_none() => Some((Some(LogicalType::Bson), ConvertedType::BSON)),
        (TIME_UTC, _) => match own {
            Some(LogicalType::Time(time)) => {
                let converted = match time.unit {
                    TimeUnit::MILLIS => ConvertedType::TIME_MILLIS,
                    TimeUnit::MICROS => ConvertedType::TIME_MICROS,
                    TimeUnit::NANOS => ConvertedType::NONE,
                };
                Some((Some(LogicalType::time(true, time.unit)), converted))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Rebuilds the tree below `node`. Each leaf gets the logical type that `change` returns for it.
fn rewritten(
    of: TypePtr,
    change: &mut dyn FnMut(&Type) -> Option<(Option<LogicalType>, ConvertedType)>,
) -> Result<TypePtr, ParquetError> {
    let info = of.get_basic_info();
    let id = info.has_id().then(|| info.id());
    match of.as_ref() {
        Type::PrimitiveType { physical_type, type_length, .. } => {
            let Some((logical, converted)) = change(&of) else { return Ok(of) };
            let leaf = Type::primitive_type_builder(of.name(), *physical_type)
                .with_repetition(info.repetition())
                .with_logical_type(logical)
                .with_converted_type(converted)
                .with_length(*type_length)
                .with_id(id);
            Ok(Arc::new(leaf.build()?))
        }
        Type::GroupType { fields, .. } => {
            let below = fields.iter().map(|part| rewritten(part.clone(), change));
            let below = below.collect::<Result<Vec<_>, _>>()?;
            if below.iter().zip(fields).all(|(new, old)| Arc::ptr_eq(new, old)) {
                return Ok(of);
            }
            let mut group = Type::group_type_builder(of.name()).with_fields(below).with_id(id);
            if info.has_repetition() {
                group = group.with_repetition(info.repetition());
            }
            group = group
                .with_logical_type(info.logical_type_ref().cloned())
                .with_converted_type(info.converted_type());
            Ok(Arc::new(group.build()?))
        }
    }
}

/// Replaces the 12 bytes that the `parquet` crate reads for an INTERVAL with an Arrow interval
/// type. The type comes from `hint`. By default, it contains months, days and nanoseconds.
pub(crate) fn with_intervals(
    read: &Fields,
    hint: &Fields,
    leaves: &mut dyn Iterator<Item = TypePtr>,
) -> Fields {
    read.iter()
        .enumerate()
        .map(|(index, field)| {
            let hint = hint.get(index).filter(|hint| hint.name() == field.name());
            Arc::new(with_interval(field, hint.map(|hint| hint.data_type()), leaves))
        })
        .collect()
}

fn with_interval(field: &Field, hint: Option<&DataType>, leaves: &mut dyn Iterator<Item = TypePtr>) -> Field {
    let below = parts(field.data_type());
    if below.is_empty() {
        let leaf = leaves.next();
        if !leaf.is_some_and(|leaf| is_interval(&leaf)) {
            return field.clone();
        }
        let unit = match hint {
            Some(DataType::Interval(unit)) => *unit,
            _ => IntervalUnit::MonthDayNano,
        };
        return field.clone().with_data_type(DataType::Interval(unit));
    }
    let hints = hint.map(parts).filter(|hints| hints.len() == below.len()).unwrap_or_default();
    let below = below.iter().enumerate().map(|(index, part)| {
        Arc::new(with_interval(part, hints.get(index).map(|hint| hint.data_type()), leaves))
    });
    field.clone().with_data_type(with_parts(field.data_type(), below.collect()))
}
