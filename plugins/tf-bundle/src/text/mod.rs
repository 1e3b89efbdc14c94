//! Reads the text form of a protobuf message, which contains readable field names and values.
//! Examples are `.pbtxt` graphs and SavedModels, and the file `checkpoint`. This module converts
//! the text form to the wire form, which the rest of the crate reads.
//!
//! ```text
//! message   field*
//! field     name ":" value | name [":"] "{" message "}" | name [":"] "<" message ">"
//!           | name [":"] "[" a list of values or messages, with commas "]"
//!           each may end in "," or ";"
//! name      a field name; a number, or a type name in "[" and "]", for a field that is skipped
//! value     a string: literals in "" or '', concatenated if adjacent, with C's escapes and \u, \U
//!           an integer (decimal, 0x, 0), a number (also inf, nan, 1.5f), true, false, the name of
//!           an enumeration's value; "-" before any number
//! map       one message for each entry, with the fields `key` and `value`
//! comment   "#" to the end of the line
//! ```
//!
//! ferry's message descriptors contain only some of the fields of TensorFlow's messages. A field
//! without a descriptor is skipped with all of its content.
//!
//! Source: the specification at protobuf.dev/reference/protobuf/textformat-spec, and protobuf's
//! `src/google/protobuf/text_format.cc` for extensions that parsers accept.

mod encode;
mod lexer;
mod literal;
mod schema;

use encode::Encoder;
use schema::SCHEMA;
use tensorferry_proto::Message;
use tensorferry_sdk::{Error, Limits, Result};

/// Parses `text` as a message of type `M`, whose full name is `message`, such as
/// `tensorflow.CheckpointState`. Errors contain the name `file`.
pub(crate) fn parse<M: Message + Default>(
    text: &[u8],
    message: &str,
    file: &str,
    limits: &Limits,
) -> Result<M> {
    let wire = to_wire(text, message, file, limits)?;
    M::decode(&*wire)
        .map_err(|error| Error::malformed("invalid message").file(file).expected(message).found(error))
}

/// Converts `text` to the wire form of a message. Repeated scalars are written unpacked.
pub(crate) fn to_wire(text: &[u8], message: &str, file: &str, limits: &Limits) -> Result<Vec<u8>> {
    let described = SCHEMA.messages.get(&format!(".{message}"));
    let described = described.ok_or_else(|| Error::plugin(format!("no message {message}")))?;
    Encoder::new(&SCHEMA, text, file, limits)?.encode(described)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;
    use tensorferry_proto::{
        AttrValue, BundleEntryProto, CheckpointState, GraphDef, NodeDef, TensorProto, TensorShapeProto,
        attr_value, tensor_shape_proto::Dim,
    };

    fn read<M: Message + Default>(text: &str, message: &str) -> Result<M> {
        parse(text.as_bytes(), &format!("tensorflow.{message}"), "x.pbtxt", &Limits::default())
    }

    fn tensor(text: &str) -> Result<TensorProto> {
        read(text, "TensorProto")
    }

    #[test]
    fn a_checkpoint_file_is_read() {
        let text = "model_checkpoint_path: \"ckpt-\" '2'\nall_model_checkpoint_paths: \"a\"\n\
                    all_model_checkpoint_paths: \"ckpt-2\"\nlast_preserved_timestamp: 1.5\n";
        let state: CheckpointState = read(text, "CheckpointState").unwrap();
        assert_eq!(state.model_checkpoint_path, "ckpt-2");
        assert_eq!(state.all_model_checkpoint_paths, ["a", "ckpt-2"]);
        assert_eq!(state.last_preserved_timestamp.to_bits(), 1.5_f64.to_bits());
    }

    #[test]
    fn maps_and_nested_messages_are_entries() {
        let text = "node { name: 'a' op: \"Const\"
                      attr { key: 'T' value { type: DT_FLOAT } }
                      attr < key: 'value', value: { shape: { dim: [{size: 2}, <size: -1>]; }; }; > }";
        let graph: GraphDef = read(text, "GraphDef").unwrap();
        let dim = |size| Dim { size, name: String::new() };
        let shape = TensorShapeProto { dim: vec![dim(2), dim(-1)], unknown_rank: false };
        let attr = [
            ("T".to_owned(), attr_value::Value::Type(1)),
            ("value".to_owned(), attr_value::Value::Shape(shape)),
        ];
        let attr = attr.map(|(key, value)| (key, AttrValue { value: Some(value) }));
        let node = NodeDef { name: "a".into(), op: "Const".into(), attr: attr.into(), ..NodeDef::default() };
        assert_eq!(graph.node, [node]);
    }

    #[test]
    fn values_have_many_spellings() {
        let all = tensor(
            "dtype: 3, version_number: -0x10; # a comment { [ '
             float_val: [1, -1.5e1, .5f, inf, -Infinity, 1e39]
             double_val: 0.1 double_val: - 2 int_val: [017, -0]
             bool_val: [true, f, 1, False] uint64_val: 18446744073709551615 int64_val: [-9223372036854775808]
             string_val: ['a\\n', \"b\" \"c\"] half_val: []",
        )
        .unwrap();
        assert_eq!((all.dtype, all.version_number), (3, -16));
        assert_eq!(all.float_val, [1.0, -15.0, 0.5, f32::INFINITY, -f32::INFINITY, f32::INFINITY]);
        assert_eq!(all.double_val, [0.1, -2.0]);
        assert_eq!(all.int_val, [15, 0]);
        assert_eq!(all.bool_val, [true, false, true, false]);
        assert_eq!((all.uint64_val, all.int64_val), (vec![u64::MAX], vec![i64::MIN]));
        assert_eq!(all.string_val, [b"a\n", &b"bc"[..]]);
        assert!(tensor("float_val: nan").unwrap().float_val[0].is_nan());
        let entry: BundleEntryProto = read("crc32c: 0xffffffff", "BundleEntryProto").unwrap();
        assert_eq!(entry.crc32c, u32::MAX);
    }

    #[test]
    fn every_type_of_field_is_read() {
        use prost_types::field_descriptor_proto::Type;
        for field in SCHEMA.messages.values().flat_map(|message| &message.field) {
            let known = match field.r#type() {
                Type::Message => SCHEMA.message_of(field).is_some(),
                Type::String | Type::Bytes => true,
                kind => encode::number(kind, false, b"1").is_some(),
            };
            assert!(known, "{field:?}");
        }
    }

    #[test]
    fn unknown_fields_are_skipped_whatever_they_hold() {
        let text = "later: -1 later: 'a' 'b' later { a: 1 b < c: [1, 2] > dtype: nonsense }
                    later: [{ a { } }, 3, 'x', < >] [type.googleapis.com/a.B-c] { dtype: DT_INT8 }
                    7: 8, 9 { 1: 2 } later: [] dtype: DT_BOOL later: inf";
        assert_eq!(tensor(text).unwrap(), TensorProto { dtype: 10, ..TensorProto::default() });
    }

    #[test]
    fn wrong_text_has_a_place() {
        for (text, offset) in [
            ("dtype: DT_NONE", 7),
            ("dtype 1", 6),
            ("dtype: 'a'", 7),
            ("dtype: {", 7),
            ("tensor_shape: 1", 14),
            ("tensor_shape {", 14),
            ("tensor_shape { >", 15),
            ("}", 0),
            ("int_val: 2147483648", 9),
            ("uint32_val: -1", 13),
            ("int_val: 1.5", 9),
            ("bool_val: 2", 10),
            ("int_val: [1 2]", 12),
            ("later: [1, 'a'", 14),
            ("string_val: '\\q'", 12),
            (": 1", 0),
            ("[a 'b'] { }", 3),
            ("[a", 2),
        ] {
            let error = tensor(text).unwrap_err().to_string();
            assert!(
                error.starts_with("x.pbtxt: ") && error.contains(&format!("(offset {offset}")),
                "{text}: {error}"
            );
        }
        assert!(tensor("later { ".repeat(300).as_str()).unwrap_err().message().contains("too deep"));
    }

    #[test]
    fn long_messages_have_long_lengths() {
        let name = "n".repeat(20_000);
        let text = format!("node {{ name: '{name}' }} node {{ name: '{name}' }}");
        let graph: GraphDef = read(&text, "GraphDef").unwrap();
        assert_eq!(graph.node.iter().map(|node| node.name.len()).collect::<Vec<_>>(), [20_000; 2]);
        assert_eq!(
            to_wire(text.as_bytes(), "tensorflow.GraphDef", "x", &Limits::default()).unwrap(),
            graph.encode_to_vec()
        );
    }

    const SAMPLE: &str = "node { name: 'a\\x41\\u00e4' op: \"Const\" input: ['b', 'c'] later: [1, { x: y }]
        attr { key: 'value' value < tensor { dtype: DT_INT8 tensor_shape { dim { size: 0x2 } }
        int_val: -1 float_val: 1.5e-3f # end\n } > } } [a.b/c] { }";

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            edits in proptest::collection::vec((0..SAMPLE.len(), any::<u8>()), 1..4),
            cut in 0..SAMPLE.len(),
        ) {
            let mut text = SAMPLE.as_bytes().to_vec();
            for (place, byte) in edits {
                text[place] = byte;
            }
            drop(parse::<GraphDef>(&text, "tensorflow.GraphDef", "x", &Limits::default()));
            drop(parse::<GraphDef>(&text[..cut], "tensorflow.GraphDef", "x", &Limits::default()));
        }
    }
}
