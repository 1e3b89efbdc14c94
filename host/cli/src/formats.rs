//! `ferry formats`: lists the formats with their plugins and options.

use super::terminal::{self, printable};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use tensorferry::formats::{document as record, kind, options};
use tensorferry::{RegisteredFormat, Registry};
use tensorferry_sdk::{Capabilities, Limits, OptionKind, OptionSpec, Result, Side};

/// Maximum number of file extensions in a row of the table.
const MAX_ENDINGS: usize = 3;
/// Indentation of an option's help text, in spaces.
const INDENT: usize = 6;

pub(super) fn run(registry: &Registry, limits: &Limits, id: Option<&str>, as_json: bool) -> Result<()> {
    registry.check_any()?;
    let is_wanted = |format: &&RegisteredFormat| id.is_none_or(|id| format.description.id == id);
    let mut formats: Vec<&RegisteredFormat> = registry.formats().iter().filter(is_wanted).collect();
    if let (Some(id), true) = (id, formats.is_empty()) {
        // An unknown ID is an error whose hint lists the known IDs and suggests a similar one.
        registry.format(id, Side::Reader)?;
    }
    formats.sort_by(|a, b| a.description.id.cmp(&b.description.id));
    let records = || formats.iter().map(|format| record(registry, format)).collect::<Vec<_>>();
    let document = || json!({ "formats": records(), "limits": named(limits).collect::<BTreeMap<_, _>>() });
    let text = || match id {
        Some(_) => formats.iter().map(|format| text(registry, format)).collect(),
        None => table(&formats) + "\nRun `ferry formats ID` for a format's options.\n\n" + &bounds(limits),
    };
    terminal::answer(as_json, document, text)
}

fn table(formats: &[&RegisteredFormat]) -> String {
    let line = |format: &&RegisteredFormat| {
        let d = &format.description;
        let holds = |tensors, records| match (d.capabilities.has(tensors), d.capabilities.has(records)) {
            (true, _) => "tensors",
            (_, true) => "records",
            _ => "-",
        };
        let more = if d.suffixes.len() > MAX_ENDINGS { " ..." } else { "" };
        [
            printable(&d.id),
            holds(Capabilities::READ, Capabilities::READ_RECORDS).to_owned(),
            holds(Capabilities::WRITE, Capabilities::WRITE_RECORDS).to_owned(),
            printable(&d.suffixes[..d.suffixes.len().min(MAX_ENDINGS)].join(" ")) + more,
            printable(&d.title),
        ]
    };
    let heads = ["format", "reads", "writes", "extensions", ""].map(str::to_owned);
    let lines: Vec<[String; 5]> = [heads].into_iter().chain(formats.iter().map(line)).collect();
    let column = |at: usize| terminal::width(&lines.iter().map(|line| line[at].clone()).collect::<Vec<_>>());
    let widths = [0, 1, 2, 3].map(column);
    let mut text = String::new();
    for [id, reads, writes, endings, title] in &lines {
        let [a, b, c, d] = widths;
        let line = format!("{id:a$}  {reads:b$}  {writes:c$}  {endings:d$}  {title}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

pub(super) fn named(limits: &Limits) -> impl Iterator<Item = (&'static str, u64)> {
    Limits::NAMES.iter().filter_map(|name| Some((*name, limits.get(name)?)))
}

pub(super) fn bounds(limits: &Limits) -> String {
    let mut text = "Limits (change one with --limit NAME=VALUE)\n".to_owned();
    for (name, value) in named(limits) {
        let _ = writeln!(text, "  {name}={value}");
    }
    text
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
    let plugin = registry.plugin_of(format).map(|i| format!("{} {}", i.name, i.version));
    let plugin = plugin.unwrap_or_else(|| "this program".to_owned());
    let mut text = format!("{}: {}\n  {}\n", d.id, printable(&d.title), abilities.join(", "));
    if !d.suffixes.is_empty() {
        let _ = writeln!(text, "  {}", printable(&d.suffixes.join(" ")));
    }
    let _ = writeln!(text, "  from {}", printable(&plugin));
    for (name, value) in &d.attributes {
        let _ = writeln!(text, "  {}: {}", printable(name), printable(value));
    }
    let all = options::all(d);
    for (side, flag, title) in [(Side::Reader, "-i", "input options"), (Side::Writer, "-o", "output options")]
    {
        let options: Vec<&OptionSpec> = all.iter().filter(|option| option.side == side).collect();
        if !options.is_empty() {
            let _ = writeln!(text, "\n{title}");
        }
        for option in options {
            let default = option.default.as_ref().map(|value| format!(" [default: {value}]"));
            let more = if option.kind == OptionKind::List { " (repeatable)" } else { "" };
            let _ = writeln!(text, "  {flag} {}={}{more}", option.key, kind(option));
            let help = printable(&format!("{}{}", option.help, default.unwrap_or_default()));
            for line in terminal::wrapped(&help, terminal::columns().saturating_sub(INDENT)) {
                let _ = writeln!(text, "{:INDENT$}{line}", "");
            }
        }
    }
    text
}
