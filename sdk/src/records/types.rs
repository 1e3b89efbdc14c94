//! The words by which schema files call types, the same for every format.

use arrow_schema::{DataType, TimeUnit};

static WORDS: [(&str, DataType); 21] = [
    ("null", DataType::Null),
    ("bool", DataType::Boolean),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("float16", DataType::Float16),
    ("float32", DataType::Float32),
    ("float64", DataType::Float64),
    ("binary", DataType::Binary),
    ("utf8", DataType::Utf8),
    ("date32", DataType::Date32),
    ("date64", DataType::Date64),
    ("timestamp[s]", DataType::Timestamp(TimeUnit::Second, None)),
    ("timestamp[ms]", DataType::Timestamp(TimeUnit::Millisecond, None)),
    ("timestamp[us]", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ("timestamp[ns]", DataType::Timestamp(TimeUnit::Nanosecond, None)),
];

/// The words that TensorFlow's and other users know them by.
static OTHERS: [(&str, &str); 4] =
    [("float", "float32"), ("double", "float64"), ("bytes", "binary"), ("string", "utf8")];

/// The type of a word: `int64`, `utf8`, `timestamp[us]`, `timestamp[us, UTC]`, or any as Arrow's Rust library
/// writes it.
#[must_use]
pub fn type_named(word: &str) -> Option<DataType> {
    let plain = OTHERS.iter().find(|(other, _)| *other == word).map_or(word, |(_, plain)| plain);
    if let Some((_, data_type)) = WORDS.iter().find(|(known, _)| *known == plain) {
        return Some(data_type.clone());
    }
    if let Some((unit, zone)) = word.strip_suffix(']').and_then(|word| word.split_once(", "))
        && let Some(DataType::Timestamp(unit, None)) = type_named(&format!("{unit}]"))
    {
        return Some(DataType::Timestamp(unit, Some(zone.into())));
    }
    word.parse().ok()
}

/// The word of a type; of those that are laid out otherwise in memory alone, that of the plain one.
#[must_use]
pub fn type_word(data_type: &DataType) -> String {
    let plain = match data_type {
        DataType::LargeBinary | DataType::BinaryView => &DataType::Binary,
        DataType::LargeUtf8 | DataType::Utf8View => &DataType::Utf8,
        other => other,
    };
    if let Some((word, _)) = WORDS.iter().find(|(_, known)| known == plain) {
        return (*word).to_owned();
    }
    match plain {
        DataType::Timestamp(unit, Some(zone)) => {
            let word = type_word(&DataType::Timestamp(*unit, None));
            format!("{}, {zone}]", word.trim_end_matches(']'))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_the_type_that_it_was_written_for() {
        let others = [
            DataType::Timestamp(TimeUnit::Millisecond, Some("+02:00".into())),
            DataType::Decimal128(10, 2),
            DataType::Time32(TimeUnit::Second),
            DataType::FixedSizeBinary(3),
            DataType::Duration(TimeUnit::Nanosecond),
        ];
        for data_type in WORDS.iter().map(|(_, data_type)| data_type).chain(&others) {
            let word = type_word(data_type);
            assert_eq!(type_named(&word).as_ref(), Some(data_type), "{word}");
        }
        assert_eq!(type_word(&others[0]), "timestamp[ms, +02:00]");
        assert_eq!(type_named("string"), Some(DataType::Utf8));
        assert_eq!(type_word(&DataType::LargeUtf8), "utf8");
        assert_eq!([type_named("int65"), type_named(""), type_named("timestamp[us, ")], [None, None, None]);
    }
}
