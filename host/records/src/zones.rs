//! Time zones that have names: what their clocks show takes a list of all zones, which is not here.

use arrow_array::timezone::Tz;
use arrow_schema::{DataType, FieldRef};
use std::sync::Arc;
use tensorferry_sdk::{arrow_array, arrow_schema};

/// A type whose times are told in UTC where their zone has a name: what its clocks show takes a list of all zones.
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
