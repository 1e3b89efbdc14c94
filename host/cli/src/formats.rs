//! `ferry formats`: lists the formats, the plugins they come from, and their options.

use super::terminal::{self, printable};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use tensorferry::engine::formats::registry::{RegisteredFormat, Registry};
use tensorferry_sdk::{Capabilities, Limits, OptionKind, OptionSpec, Result, Side};

pub(super) fn run(registry: &Registry, limits: &Limits, as_json: bool) -> Result<()> {
    registry.check_any()?;
    let mut formats: Vec<&RegisteredFormat> = registry.formats().iter().collect();
    formats.sort_by(|a, b| a.description.id.cmp(&b.description.id));
    let records = || formats.iter().map(|format| record(registry, format)).collect::<Vec<_>>();
    let texts = || formats.iter().map(|format| text(registry, format)).collect::<Vec<_>>();
    let document = || json!({ "formats": records(), "limits": named(limits).collect::<BTreeMap<_, _>>() });
    terminal::answer(as_json, document, || texts().join("\n") + "\n" + &bounds(limits))
}

fn named(limits: &Limits) -> impl Iterator<Item = (&'static str, u64)> {
    Limits::NAMES.iter().filter_map(|name| Some((*name, limits.get(name)?)))
}

fn bounds(limits: &Limits) -> String {
    let mut text = "limits of what an input may claim (--bound NAME=VALUE)\n".to_owned();
    for (name, value) in named(limits) {
        let _ = writeln!(text, "  {name}={value}");
    }
    text
}

fn kind(option: &OptionSpec) -> String {
    match &option.kind {
        OptionKind::Bool => "true|false".to_owned(),
        OptionKind::Integer => "N".to_owned(),
        OptionKind::Size => "SIZE".to_owned(),
        OptionKind::Source => "PATH".to_owned(),
        OptionKind::Choice(words) => words.join("|"),
        _ => "TEXT".to_owned(),
    }
}

fn record(registry: &Registry, format: &RegisteredFormat) -> Value {
    let d = &format.description;
    let option = |option: &OptionSpec| {
        json!({
            "side": if option.side == Side::Reader { "reader" } else { "writer" },
            "key": option.key,
            "kind": kind(option),
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
        "options": d.options.iter().map(option).collect::<Vec<_>>(),
        "plugin": registry.plugin_of(format).map(|i| json!({ "name": i.name, "version": i.version })),
        "library": format.library().map(|index| &registry.libraries()[index].path),
    })
}

fn text(registry: &Registry, format: &RegisteredFormat) -> String {
    let d = &format.description;
    let abilities = [
        ("reads", Capabilities::READ),
        ("writes", Capabilities::WRITE),
        ("reads records", Capabilities::READ_RECORDS),
        ("writes records", Capabilities::WRITE_RECORDS),
        ("indexes", Capabilities::INDEX),
    ];
    let abilities = abilities.into_iter().filter(|(_, capability)| d.capabilities.has(*capability));
    let abilities: Vec<&str> = abilities.map(|(word, _)| word).collect();
    let plugin = registry.plugin_of(format).map(|i| format!("{} {}", i.name, i.version)).unwrap_or_default();
    let mut text = String::new();
    let _ = writeln!(text, "{}  {}", d.id, printable(&d.title));
    let _ =
        writeln!(text, "  {}; {}; from {}", abilities.join(", "), d.suffixes.join(" "), printable(&plugin));
    for option in &d.options {
        let flag = if option.side == Side::Reader { "-i" } else { "-o" };
        let default = option.default.as_ref().map(|value| format!(" [default: {value}]")).unwrap_or_default();
        let spelled = format!("{flag} {}={}", option.key, kind(option));
        let _ = writeln!(text, "  {spelled:40} {}{}", printable(&option.help), printable(&default));
    }
    text
}
