//! The names of types in schema files. All formats use the same names.

use arrow_schema::{DataType, FieldRef, TimeUnit};

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

/// Type names that are common in TensorFlow and other libraries.
static OTHERS: [(&str, &str); 4] =
    [("float", "float32"), ("double", "float64"), ("bytes", "binary"), ("string", "utf8")];

/// Maximum number of opening brackets in a type name. Arrow's parser recurses once per bracket.
const MAX_BRACKETS: usize = 256;

/// Returns the type with this name, such as `int64`, `utf8`, `timestamp[us]`, `timestamp[us, UTC]`
/// or `decimal128(10, 2)`. Also accepts names with at most 256 brackets in the syntax of Arrow's
/// Rust library.
#[must_use]
pub fn type_named(word: &str) -> Option<DataType> {
    if word.matches(['(', '[', '{']).count() > MAX_BRACKETS {
        return None;
    }
    let plain = OTHERS.iter().find(|(other, _)| *other == word).map_or(word, |(_, plain)| plain);
    if let Some((_, data_type)) = WORDS.iter().find(|(known, _)| *known == plain) {
        return Some(data_type.clone());
    }
    if let Some((unit, zone)) = word.strip_suffix(']').and_then(|word| word.split_once(", "))
        && let Some(DataType::Timestamp(unit, None)) = type_named(&format!("{unit}]"))
    {
        return Some(DataType::Timestamp(unit, Some(zone.into())));
    }
    let argument = |name| word.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']');
    if let Some(bytes) = argument("fixed_size_binary") {
        return bytes.parse().ok().filter(|bytes| *bytes >= 0).map(DataType::FixedSizeBinary);
    }
    let library = match word.split_at_checked(4) {
        Some(("deci", _)) => word.replacen('d', "D", 1),
        Some(("time", _)) => word.replacen('t', "T", 1).replace('[', "(").replace(']', ")"),
        Some(("dura", _)) => word.replacen('d', "D", 1).replace('[', "(").replace(']', ")"),
        _ => return word.parse().ok(),
    };
    library.replace("(us)", "(µs)").parse().ok()
}

/// Returns the name of a type. Types that differ only in their memory layout have the same name as
/// the plain type.
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
        DataType::FixedSizeBinary(bytes) => format!("fixed_size_binary[{bytes}]"),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => plain.to_string().to_lowercase(),
        DataType::Time32(unit) => format!("time32[{}]", unit_word(*unit)),
        DataType::Time64(unit) => format!("time64[{}]", unit_word(*unit)),
        DataType::Duration(unit) => format!("duration[{}]", unit_word(*unit)),
        other => other.to_string(),
    }
}

fn unit_word(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// Returns a type in readable form. The result is the type's name or, for a nested type, a form
/// such as `list<int64>` or `struct<a: int64, b: utf8>`.
#[must_use]
pub fn type_text(data_type: &DataType) -> String {
    let of = |field: &FieldRef| type_text(field.data_type());
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            format!("list<{}>", of(item))
        }
        DataType::FixedSizeList(item, len) => format!("list<{}>[{len}]", of(item)),
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{}: {}", field.name(), of(field))).collect();
            format!("struct<{}>", fields.join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => {
                format!("map<{}>", pair.iter().map(of).collect::<Vec<_>>().join(", "))
            }
            other => format!("map<{}>", type_text(other)),
        },
        DataType::Dictionary(_, values) => format!("dictionary<{}>", type_text(values)),
        DataType::RunEndEncoded(_, values) => format!("run_end_encoded<{}>", of(values)),
        DataType::Union(fields, _) => {
            let fields: Vec<String> =
                fields.iter().map(|(_, field)| format!("{}: {}", field.name(), of(field))).collect();
            format!("union<{}>", fields.join(", "))
        }
        DataType::Interval(_) => "interval".to_owned(),
        plain => type_word(plain),
    }
}

/// Returns whether a type satisfies the predicate, or contains such a type at any depth.
pub fn has_type(data_type: &DataType, is_such: &dyn Fn(&DataType) -> bool) -> bool {
    let of = |field: &FieldRef| has_type(field.data_type(), is_such);
    is_such(data_type)
        || match data_type {
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::FixedSizeList(field, _)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::RunEndEncoded(_, field)
            | DataType::Map(field, _) => of(field),
            DataType::Struct(fields) => fields.iter().any(of),
            DataType::Union(fields, _) => fields.iter().any(|(_, field)| of(field)),
            DataType::Dictionary(_, values) => has_type(values, is_such),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;
    use std::sync::Arc;

    #[test]
    fn a_word_is_read_as_the_type_that_it_was_written_for() {
        let others = [
            DataType::Timestamp(TimeUnit::Millisecond, Some("+02:00".into())),
            DataType::Decimal128(10, 2),
            DataType::Time32(TimeUnit::Second),
            DataType::FixedSizeBinary(3),
            DataType::Duration(TimeUnit::Nanosecond),
            DataType::Time64(TimeUnit::Microsecond),
            DataType::Decimal256(76, -3),
        ];
        for data_type in WORDS.iter().map(|(_, data_type)| data_type).chain(&others) {
            let word = type_word(data_type);
            assert_eq!(type_named(&word).as_ref(), Some(data_type), "{word}");
        }
        assert_eq!(type_word(&others[0]), "timestamp[ms, +02:00]");
        assert_eq!(type_word(&others[1]), "decimal128(10, 2)");
        assert_eq!([type_word(&others[2]), type_word(&others[3])], ["time32[s]", "fixed_size_binary[3]"]);
        assert_eq!(type_named("string"), Some(DataType::Utf8));
        assert_eq!(type_word(&DataType::LargeUtf8), "utf8");
        assert_eq!([type_named("int65"), type_named(""), type_named("timestamp[us, ")], [None, None, None]);
        let nested = |depth| "List(".repeat(depth) + "Int64" + &")".repeat(depth);
        assert!(type_named(&nested(MAX_BRACKETS)).is_some());
        assert_eq!(type_named(&nested(100_000)), None);
    }

    #[test]
    fn types_with_parts_are_spelled_as_others() {
        let list = |of| DataType::List(Arc::new(Field::new_list_field(of, true)));
        let parts =
            vec![Field::new("a", list(DataType::Int64), true), Field::new("b", DataType::LargeUtf8, true)];
        let nested =
            DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Struct(parts.into()), true)), 3);
        assert_eq!(type_text(&nested), "list<struct<a: list<int64>, b: utf8>>[3]");
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        assert_eq!(type_text(&list(dictionary.clone())), "list<dictionary<utf8>>");
        let is_text = |found: &DataType| *found == DataType::Utf8;
        assert!(has_type(&list(dictionary), &is_text) && !has_type(&nested, &is_text));
    }
}
