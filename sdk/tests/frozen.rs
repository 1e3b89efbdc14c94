//! Tests that revision 1.0 of the boundary does not change. Lines may be appended to its committed
//! dump, but existing lines must not change. The dump also includes additions to the boundary,
//! which `FERRY_FREEZE=1 cargo test -p tensorferry-sdk --test frozen` appends.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fmt::Write;
use tensorferry_sdk::mirror::c_header;
use tensorferry_sdk::{DigestAlgorithm, Dtype, Limits, LossKind, NodeKind};

/// The line in the dump that precedes everything added since the golden libraries were built.
const SINCE: &str = "# since the golden libraries were built";

const NODES: [(&str, NodeKind); 15] = [
    ("none", NodeKind::NONE),
    ("bool", NodeKind::BOOL),
    ("int", NodeKind::INT),
    ("float", NodeKind::FLOAT),
    ("complex", NodeKind::COMPLEX),
    ("text", NodeKind::TEXT),
    ("bytes", NodeKind::BYTES),
    ("list", NodeKind::LIST),
    ("tuple", NodeKind::TUPLE),
    ("set", NodeKind::SET),
    ("map", NodeKind::MAP),
    ("tensor", NodeKind::TENSOR),
    ("object", NodeKind::OBJECT),
    ("attributed", NodeKind::ATTRIBUTED),
    ("numbers", NodeKind::NUMBERS),
];

/// Returns the dump of the current source, with one declaration per line.
fn dump() -> String {
    let mut text = String::new();
    for line in tensorferry_abi::layout().lines() {
        let (what, number) = line.split_once(' ').unwrap();
        // The length of a table may change, but not the offsets of its slots.
        if what.contains('.') {
            writeln!(text, "offset {what} {number}").unwrap();
        }
    }
    declarations(&c_header(), &mut text);
    for name in Limits::NAMES {
        writeln!(text, "limit {name}").unwrap();
    }
    for dtype in Dtype::built_in() {
        let info = dtype.info().unwrap();
        let facts = [info.block_elements(), info.block_bytes(), info.swap_unit()];
        writeln!(text, "dtype {} {facts:?}", info.name()).unwrap();
    }
    for kind in LossKind::ALL {
        writeln!(text, "loss {}", kind.word()).unwrap();
    }
    for algorithm in [DigestAlgorithm::CRC32, DigestAlgorithm::CRC32C] {
        writeln!(text, "digest {} {}", algorithm.name(), algorithm.0).unwrap();
    }
    for (name, kind) in NODES {
        writeln!(text, "node {name} {}", kind.0).unwrap();
    }
    text
}

/// Appends the constants and types of the header. Each field and function is preceded by the name
/// of its structure.
fn declarations(header: &str, text: &mut String) {
    let mut structure = String::new();
    let mut fields = Vec::new();
    // A declaration may span several lines, with comments in between.
    let mut rest = header.to_owned();
    while let Some((before, comment)) = rest.split_once("/*") {
        rest = format!("{before}{}", comment.split_once("*/").unwrap().1);
    }
    for line in rest.replace("\n      ", " ").lines() {
        let line = line.trim();
        if let Some(constant) =
            line.strip_prefix("#define FERRY_").filter(|c| !c.ends_with('\\') && c.contains(' '))
        {
            writeln!(text, "constant FERRY_{constant}").unwrap();
        } else if let Some(name) = line.strip_prefix("struct ").and_then(|line| line.strip_suffix(" {")) {
            structure = name.to_owned();
        } else if let Some(name) = line.strip_prefix("} ").and_then(|line| line.strip_suffix(';')) {
            fields.drain(..).for_each(|field: String| writeln!(text, "type {name}: {field}").unwrap());
        } else if line == "};" {
            fields.drain(..).for_each(|field: String| writeln!(text, "type {structure}: {field}").unwrap());
        } else if line.ends_with(';') && !line.starts_with("typedef") && !line.starts_with("struct") {
            fields.push(line.to_owned());
        } else if let Some(plain) = line.strip_prefix("typedef struct { ") {
            writeln!(text, "type {plain}").unwrap();
        }
    }
}

fn committed() -> (std::path::PathBuf, String) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/revision-1.0.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    (path, text)
}

#[test]
fn what_was_frozen_is_as_it_was() {
    let now = dump();
    let (path, mut before) = committed();
    let lines: BTreeSet<&str> = now.lines().collect();
    let frozen: BTreeSet<String> = before.lines().map(str::to_owned).collect();
    let added: Vec<&str> = now.lines().filter(|line| !frozen.contains(*line)).collect();
    if std::env::var_os("FERRY_FREEZE").is_some() && !added.is_empty() {
        if !frozen.contains(SINCE) {
            writeln!(before, "{SINCE}").unwrap();
        }
        before.extend(added.iter().map(|line| format!("{line}\n")));
        std::fs::write(path, before).unwrap();
        return;
    }
    assert!(
        added.is_empty(),
        "additions are missing from the dump; run with FERRY_FREEZE=1 to append them:\n{}",
        added.join("\n")
    );
    let changed: Vec<&str> = before.lines().filter(|line| *line != SINCE && !lines.contains(line)).collect();
    assert!(
        changed.is_empty(),
        "revision 1.0 of the boundary is frozen, but these lines were removed or changed:\n{}",
        changed.join("\n")
    );
    assert!(before.lines().count() > 500, "the dump is incomplete: {} lines", before.lines().count());
}

#[test]
fn every_sort_of_fact_is_in_the_dump() {
    let now = dump();
    for line in [
        "type FerrySourceTable: int32_t (*open)(void *self, FerryText name, uint32_t *file, FerryErrorSink err);",
        "type FerryLoss: FerryText what;",
        "type FerryManifest: uint32_t minor_needed;",
        "type const uint8_t *ptr; size_t len; } FerryText;",
        "constant FERRY_MAJOR 1",
        "constant FERRY_WRITE 2",
        "limit header_bytes",
        "dtype F32 [1, 4, 4]",
        "digest crc32c 2",
        "loss tensor",
    ] {
        assert!(now.lines().any(|found| found == line), "no {line:?} in:\n{now}");
    }
    assert!(now.contains("offset FerrySourceTable.open "), "{now}");
}
