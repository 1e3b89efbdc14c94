//! Named time zones. To show local times in such a zone, ferry would need the time zone database,
//! which it does not include.

use arrow_array::timezone::Tz;
use arrow_schema::{DataType, FieldRef};
use std::sync::Arc;
use tensorferry_sdk::{arrow_array, arrow_schema};

/// Returns the type with named time zones replaced by UTC.
pub(super) fn in_known_zones(data_type: &DataType) -> DataType {
    let of = |field: &FieldRef| {
        let known = in_known_zones(field.data_type());
        Arc::new(field.as_ref().clone().with_data_type(known))
    };
    match data_type {
        DataType::Timestamp(unit, Some(zone)) if zone.parse::<Tz>().is_err() => {
            DataType::Timestamp(*unit, Some("+00:00".into()))
        }
        DataType::List(item) => DataType::List(of(item)),
        DataType::LargeList(item) => DataType::LargeList(of(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(of(item), *len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect()),
        DataType::Map(entries, sorted) => DataType::Map(of(entries), *sorted),
        other => other.clone(),
    }
}
