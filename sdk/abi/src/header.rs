//! Generates `ferry_plugin.h`, the C declarations of the boundary.

use crate::boundary::*;
use crate::facts::{Described, ObjectFacts};
use std::fmt::Write;

pub(crate) const REQUESTS: &[ObjectFacts] = &[
    Loss::FACTS,
    FormatOption::FACTS,
    Identity::FACTS,
    Magic::FACTS,
    Storage::FACTS,
    Dtype::FACTS,
    Tensor::FACTS,
    Node::FACTS,
    TensorRegion::FACTS,
    OutputFile::FACTS,
    TensorPart::FACTS,
    StoragePart::FACTS,
    SourceCopy::FACTS,
    EncodedSegment::FACTS,
    DigestRequest::FACTS,
    Split::FACTS,
    Skipped::FACTS,
    Scan::FACTS,
    RecordOutput::FACTS,
];

pub(crate) const OBJECTS: &[ObjectFacts] = &[
    HostTable::FACTS,
    ObjectTable::FACTS,
    RegistrarTable::FACTS,
    ContextTable::FACTS,
    SourceTable::FACTS,
    NameSinkTable::FACTS,
    NumberSinkTable::FACTS,
    ByteSinkTable::FACTS,
    LossSinkTable::FACTS,
    DescriptionTable::FACTS,
    CatalogSinkTable::FACTS,
    ValueSinkTable::FACTS,
    NodeSinkTable::FACTS,
    CatalogViewTable::FACTS,
    LayoutSinkTable::FACTS,
    DigestsTable::FACTS,
    SealSinkTable::FACTS,
    FormatTable::FACTS,
    TensorReaderTable::FACTS,
    TensorDecoderTable::FACTS,
    TensorWriterTable::FACTS,
    TensorPlanTable::FACTS,
    RecordReaderTable::FACTS,
    SplitSinkTable::FACTS,
    SkippedSinkTable::FACTS,
    PredicateTable::FACTS,
    RecordSetTable::FACTS,
    RecordWriterTable::FACTS,
    PiecesTable::FACTS,
    WrittenFilesTable::FACTS,
    RecordPlanTable::FACTS,
];

/// Returns the contents of `include/ferry_plugin.h`.
#[must_use]
pub fn header() -> String {
    let mut text = include_str!("header_start.h").to_owned();
    for object in OBJECTS {
        let name = object.name;
        let _ = writeln!(
            text,
            "typedef struct {name}Table {name}Table;\ntypedef struct {{ const {name}Table *table; void *self; }} {name};"
        );
    }
    for request in REQUESTS {
        let _ = write!(text, "\n{}typedef struct {{\n  size_t size;\n", comment(request.docs, ""));
        for fact in request.slots {
            let (_, kind) = fact.answers[0];
            let _ = writeln!(text, "{}  {kind} {};", comment(fact.docs, "  "), fact.name);
        }
        let _ = writeln!(text, "}} {};", request.name);
    }
    for object in OBJECTS {
        let _ = write!(
            text,
            "\n{}struct {}Table {{\n  size_t size;\n  FERRY_COMMON_SLOTS\n",
            comment(object.docs, ""),
            object.name
        );
        for slot in object.slots {
            let arguments = slot.arguments.iter().map(|(name, kind)| format!("{}, ", joined(kind, name)));
            let answers = slot.answers.iter().map(|(name, kind)| format!("{kind} *{name}, "));
            let all = arguments.chain(answers).chain(["FerryErrorSink err);".to_owned()]);
            let start = format!("  int32_t (*{})(void *self, ", slot.name);
            text.push_str(&comment(slot.docs, "  "));
            text.push_str(&wrapped(start, all));
        }
        text.push_str("};\n");
    }
    text.push_str(include_str!("header_end.h"));
    text
}

/// Wraps the parameters of a function at 100 columns.
fn wrapped(start: String, parameters: impl Iterator<Item = String>) -> String {
    let (mut text, mut line) = (String::new(), start);
    for parameter in parameters {
        if line.len() + parameter.len() > 100 {
            text += line.trim_end();
            text.push('\n');
            line = " ".repeat(6);
        }
        line += &parameter;
    }
    text + &line + "\n"
}

/// Lists the sizes of all structures and the offsets of their fields, one per line.
#[must_use]
pub fn layout() -> String {
    let mut text = String::new();
    for (objects, ending) in [(REQUESTS, ""), (OBJECTS, "Table")] {
        for ObjectFacts { name, slots, size, .. } in objects {
            let _ = writeln!(text, "{name}{ending} {size}");
            for slot in *slots {
                let _ = writeln!(text, "{name}{ending}.{} {}", slot.name, slot.offset);
            }
        }
    }
    text
}

/// Returns a C declaration such as `const FerryLoss *loss` or `uint32_t file`.
fn joined(kind: &str, name: &str) -> String {
    if kind.ends_with('*') { format!("{kind}{name}") } else { format!("{kind} {name}") }
}

fn comment(docs: &[&str], indent: &str) -> String {
    let text: Vec<&str> = docs.iter().map(|line| line.trim()).collect();
    format!("{indent}/* {} */\n", text.join(&format!("\n{indent} * ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_every_declaration() {
        let source = include_str!("boundary.rs");
        assert_eq!(source.matches("\nobject! {").count(), OBJECTS.len());
        assert_eq!(source.matches("\nrequest! {").count(), REQUESTS.len());
    }

    #[test]
    fn the_header_in_the_package_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/include/ferry_plugin.h");
        if std::env::var_os("FERRY_UPDATE_HEADER").is_some() {
            std::fs::write(path, header()).expect("the package directory is writable");
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == header(), "{path}: run this test with FERRY_UPDATE_HEADER=1");
    }
}
