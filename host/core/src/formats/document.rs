//! Describes formats in JSON for other programs.

use super::options;
use super::registry::{Formats, RegisteredFormat};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tensorferry_sdk::{Capabilities, OptionKind, OptionSpec, Side};

/// Returns the allowed values of an option as text: `true|false`, `N`, `PATH`.
#[must_use]
pub fn kind(option: &OptionSpec) -> String {
    match &option.kind {
        OptionKind::Bool => "true|false".to_owned(),
        OptionKind::Integer => "N".to_owned(),
        OptionKind::Size => "SIZE".to_owned(),
        OptionKind::Source => "PATH".to_owned(),
        OptionKind::Choice(words) => words.join("|"),
        _ => "TEXT".to_owned(),
    }
}

/// Returns the JSON that `ferry formats --json` prints for a format.
#[must_use]
pub fn document(registry: &Formats, format: &RegisteredFormat) -> Value {
    let d = &format.description;
    let option = |option: &OptionSpec| {
        json!({
            "side": if option.side == Side::Reader { "reader" } else { "writer" },
            "key": option.key,
            "kind": kind(option),
            "repeats": option.kind == OptionKind::List,
            "default": option.default,
            "help": option.help,
        })
    };
    let has = |capability| d.capabilities.has(capability);
    json!({
        "id": d.id,
        "title": d.title,
        "reads": has(Capabilities::READ),
        "writes": has(Capabilities::WRITE),
        "reads_records": has(Capabilities::READ_RECORDS),
        "writes_records": has(Capabilities::WRITE_RECORDS),
        "indexes": has(Capabilities::INDEX),
        "keeps": {
            "tree": has(Capabilities::TREE),
            "metadata": has(Capabilities::METADATA),
            "ties": has(Capabilities::TIES),
        },
        "suffixes": d.suffixes,
        "members": d.members,
        "output_revision": d.output_revision,
        "attributes": d.attributes.iter().cloned().collect::<BTreeMap<_, _>>(),
        "options": options::all(d).iter().map(option).collect::<Vec<_>>(),
        "plugin": registry.plugin_of(format).map(|i| json!({ "name": i.name, "version": i.version })),
        "library": format.library().map(|index| &registry.libraries()[index].path),
    })
}
