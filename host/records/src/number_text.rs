//! Formats a column's numbers in readable form, for example as a time or a decimal.

use super::lists::leaf_type;
use super::zones::in_known_zones;
use arrow_array::make_array;
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use tensorferry_sdk::records::value_text::ValueTexts;
use tensorferry_sdk::{arrow_array, arrow_schema};

/// Returns the value that a number in a column represents, as text. Returns `None` for a plain
/// number, and for a time that has no text form.
#[must_use]
pub fn number_text(data_type: &DataType, number: i128) -> Option<String> {
    let data_type = in_known_zones(leaf_type(data_type));
    if !(data_type.is_temporal() || data_type.is_decimal()) {
        return None;
    }
    let bytes = number.to_le_bytes();
    let bytes = bytes.get(..data_type.primitive_width()?)?;
    let value = ArrayData::builder(data_type).len(1).add_buffer(Buffer::from(bytes)).build().ok()?;
    let (value, mut text) = (make_array(value), String::new());
    ValueTexts::new(value.as_ref()).and_then(|texts| texts.write(0, &mut text)).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::TimeUnit;

    #[test]
    fn times_and_decimals_are_shown_as_such() {
        let number_text = |data_type, number| number_text(&data_type, number).unwrap_or_default();
        let utc = DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()));
        assert_eq!(number_text(utc, 1_700_000_000_500), "2023-11-14T22:13:20.500Z");
        let named = DataType::Timestamp(TimeUnit::Second, Some("Europe/Zurich".into()));
        assert_eq!(number_text(named, 3600), "1970-01-01T01:00:00Z");
        assert_eq!(number_text(DataType::Timestamp(TimeUnit::Second, None), 0), "1970-01-01T00:00:00");
        assert_eq!(number_text(DataType::Date32, -1), "1969-12-31");
        assert_eq!(number_text(DataType::Decimal128(10, 2), -12345), "-123.45");
        assert_eq!(number_text(DataType::Decimal32(5, 0), 7), "7");
        assert_eq!(number_text(DataType::Int64, 7), "");
        assert_eq!(number_text(DataType::Date32, i32::MAX.into()), "+5881580-07-11");
        assert_eq!(number_text(DataType::Time64(TimeUnit::Microsecond), 86_400_000_000), "");
    }
}
