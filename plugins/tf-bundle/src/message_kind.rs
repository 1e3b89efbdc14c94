//! Detects which TensorFlow message a `.pb` or `.pbtxt` file contains. The file does not name the
//! type of its message, but each type starts with different fields.
//!
//! ```text
//! GraphDef       node = 1 { name = 1, op = 2, ... }, library = 2, version = 3 (varint), versions = 4
//! SavedModel     saved_model_schema_version = 1 (varint), meta_graphs = 2
//! MetaGraphDef   meta_info_def = 1 { ..., stripped_op_list = 2, ... }, graph_def = 2, saver_def = 3
//! ```
//!
//! Sources: `tensorflow/core/framework/graph.proto`, `tensorflow/core/protobuf/saved_model.proto`
//! and `meta_graph.proto`.

use std::ops::Range;
use tensorferry_proto_file::{Field, Value, Wire};
use tensorferry_sdk::{ErrorKind, FileId, Result, Source};

/// Number of bytes at the start of a text file to search for the first field.
const TEXT_HEAD: u64 = 4096;
/// Maximum number of fields that a probe examines.
const MAX_FIELDS: usize = 256;
/// The only schema version of SavedModels (`tensorflow/cc/saved_model/constants.h`).
const SCHEMA_VERSION: u64 = 1;
/// Maximum length of an operation name in bytes. TensorFlow's longest name has about 60 characters.
const MAX_OP_BYTES: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Graph,
    SavedModel,
    MetaGraph,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageForm {
    Wire,
    Text,
}

/// Detects the message in a file from the first bytes of the file.
pub(crate) fn detect(source: &dyn Source, file: FileId) -> Result<Option<(MessageKind, MessageForm)>> {
    if let Some(kind) = of_text(source, file)? {
        return Ok(Some((kind, MessageForm::Text)));
    }
    match of_wire(&mut Wire::of_file(source, file)) {
        Ok(kind) => Ok(kind.map(|kind| (kind, MessageForm::Wire))),
        Err(error) if error.kind() == ErrorKind::Malformed => Ok(None),
        Err(error) => Err(error),
    }
}

fn of_wire(wire: &mut Wire<'_>) -> Result<Option<MessageKind>> {
    let mut rest = wire.whole();
    let Some(first) = wire.next(&mut rest)? else { return Ok(None) };
    match first {
        // ONNX files start with the same field, but their version is 3 or higher.
        Field { number: 1, value: Value::Varint(SCHEMA_VERSION), .. } => {
            let second = wire.next(&mut rest)?;
            let is_graph = matches!(second, Some(Field { number: 2, value: Value::Bytes(_), .. }));
            Ok(is_graph.then_some(MessageKind::SavedModel))
        }
        Field { number: 1, value: Value::Bytes(range), .. } if is_node(wire, range.clone())? => {
            Ok(Some(MessageKind::Graph))
        }
        Field { number: 1, value: Value::Bytes(_), .. } => {
            let second = wire.next(&mut rest)?;
            let is_meta = matches!(second, Some(Field { number: 2, value: Value::Bytes(_), .. }));
            Ok(is_meta.then_some(MessageKind::MetaGraph))
        }
        // A graph that starts with this field contains only functions.
        Field { number: 2, value: Value::Bytes(_), .. } => {
            for _ in 0..MAX_FIELDS {
                match wire.next(&mut rest)? {
                    None => break,
                    Some(Field { number: 2..=5, .. }) => {}
                    Some(_) => return Ok(None),
                }
            }
            Ok(Some(MessageKind::Graph))
        }
        _ => Ok(None),
    }
}

/// Returns whether a message is a node. All fields of a node are strings or messages, and the name
/// of its operation is a word.
fn is_node(wire: &mut Wire<'_>, mut rest: Range<u64>) -> Result<bool> {
    let mut has_op = false;
    for _ in 0..MAX_FIELDS {
        let Some(field) = wire.next(&mut rest)? else { break };
        match (field.number, field.value) {
            (2, Value::Bytes(range)) if range.end - range.start <= MAX_OP_BYTES => {
                let op = wire.bytes(&range, MAX_OP_BYTES)?;
                has_op = !op.is_empty() && op.iter().all(u8::is_ascii_graphic);
            }
            (1 | 3..=7, Value::Bytes(_)) => {}
            _ => return Ok(false),
        }
    }
    Ok(has_op)
}

/// Detects the message in a text file by the name of the first field, which may follow white space
/// and comments.
fn of_text(source: &dyn Source, file: FileId) -> Result<Option<MessageKind>> {
    let head = source.beginning(file, TEXT_HEAD)?;
    let mut rest = head.trim_ascii_start();
    while rest.first() == Some(&b'#') {
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        rest = rest[end..].trim_ascii_start();
    }
    let end = rest.iter().position(|&byte| !byte.is_ascii_alphanumeric() && byte != b'_');
    let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
    let after = after.trim_ascii_start();
    let value = after.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
    let is_message = matches!(value.unwrap_or(after), [b'{' | b'<' | b'[', ..]);
    Ok(match name {
        b"saved_model_schema_version" if value.is_some() => Some(MessageKind::SavedModel),
        _ if !is_message => None,
        b"node" | b"library" => Some(MessageKind::Graph),
        b"meta_graphs" => Some(MessageKind::SavedModel),
        b"meta_info_def" | b"graph_def" => Some(MessageKind::MetaGraph),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::MemorySource;

    fn of(bytes: &[u8]) -> Option<(MessageKind, MessageForm)> {
        detect(&MemorySource::file("x", bytes), FileId(0)).unwrap()
    }

    #[test]
    fn the_first_fields_tell_messages_apart() {
        let node = [0x0a, 10, 0x0a, 1, b'x', 0x12, 5, b'C', b'o', b'n', b's', b't'];
        let meta = [0x0a, 4, 0x12, 2, 0x0a, 0, 0x12, 0];
        let cases = [
            (&node[..], Some(MessageKind::Graph)),
            (&[0x12, 2, 0x0a, 0, 0x22, 2, 0x08, 1], Some(MessageKind::Graph)),
            (&[0x08, 1, 0x12, 0], Some(MessageKind::SavedModel)),
            (&meta, Some(MessageKind::MetaGraph)),
            (&[0x08, 1, 0x10, 0], None),
            (&[0x08, 7, 0x12, 0], None),
            (&node[..8], None),
            (&[0x0a, 3, 0x0a, 1, b'x'], None),
            (&[0x12, 2, 0x0a, 0, 0xff], None),
            (b"", None),
            (b"PK\x03\x04", None),
        ];
        for (bytes, kind) in cases {
            assert_eq!(of(bytes), kind.map(|kind| (kind, MessageForm::Wire)), "{bytes:?}");
        }
    }

    #[test]
    fn the_first_name_tells_texts_apart() {
        for (text, kind) in [
            ("# a graph\n\n# of mine\nnode {", Some(MessageKind::Graph)),
            (" library: <", Some(MessageKind::Graph)),
            ("saved_model_schema_version: 1", Some(MessageKind::SavedModel)),
            ("meta_info_def {", Some(MessageKind::MetaGraph)),
            ("node", None),
            ("node: 3", None),
            ("nodes {", None),
            ("model_checkpoint_path: 'a'", None),
        ] {
            assert_eq!(of(text.as_bytes()), kind.map(|kind| (kind, MessageForm::Text)), "{text}");
        }
    }
}
