//! A model folder's `config.json` as an editable document. Entries can be changed in the main
//! object and in configurations for parts of the model (`text_config`). The text of all other
//! values remains unchanged, including the exact digits of numbers. The document is written with
//! the input's indentation and separators.

use serde_json::value::RawValue;
use std::borrow::Cow;
use tensorferry_core::read::entries::Entries;

/// Maximum nesting depth of configurations.
const MAX_NESTED: usize = 8;

#[derive(Debug)]
pub(super) struct ConfigDocument<'a> {
    root: Vec<Entry<'a>>,
    style: Style<'a>,
    /// The text after the object, usually a line break.
    end: &'a str,
}

#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: String,
    pub(super) value: Field<'a>,
}

#[derive(Debug)]
pub(super) enum Field<'a> {
    /// A nested configuration for a part of the model.
    Config(Vec<Entry<'a>>),
    /// The JSON text of any other value.
    Text(Cow<'a, str>),
}

/// The indentation and separators of a document.
#[derive(Debug)]
struct Style<'a> {
    /// The line break and one level of indentation; `None` if the document is on one line.
    lines: Option<(&'static str, &'a str)>,
    comma: &'a str,
    colon: &'a str,
}

impl<'a> ConfigDocument<'a> {
    /// Parses a document. Returns `None` if the text is not a JSON object.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let root = entries(text, 0).ok()?;
        let end = text.rfind('}').map_or("", |end| &text[end + 1..]);
        Some(Self { root, style: Style::of(text)?, end })
    }

    /// Calls `change` on the entries of each configuration, starting with the outermost.
    pub(super) fn each(&mut self, mut change: impl FnMut(&mut Vec<Entry<'a>>)) {
        each(&mut self.root, &mut change);
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.style.write(&self.root, 0, &mut text);
        text + self.end
    }
}

impl Entry<'_> {
    /// Returns the entry's value, if it is a string without escapes.
    pub(super) fn plain_text(&self) -> Option<&str> {
        let Field::Text(text) = &self.value else { return None };
        let inner = text.strip_prefix('"')?.strip_suffix('"')?;
        (!inner.contains('\\')).then_some(inner)
    }
}

fn entries<'a>(object: &'a str, depth: usize) -> serde_json::Result<Vec<Entry<'a>>> {
    let Entries(entries_of_object): Entries<&'a RawValue> = serde_json::from_str(object)?;
    let entry = |(key, value): (String, &'a RawValue)| -> serde_json::Result<Entry<'a>> {
        let text = value.get();
        let is_config = key.ends_with("_config") && key != "quantization_config";
        let value = if is_config && text.starts_with('{') && depth < MAX_NESTED {
            Field::Config(entries(text, depth + 1)?)
        } else {
            Field::Text(text.into())
        };
        Ok(Entry { key, value })
    };
    entries_of_object.into_iter().map(entry).collect()
}

fn each<'a>(entries: &mut Vec<Entry<'a>>, change: &mut impl FnMut(&mut Vec<Entry<'a>>)) {
    change(entries);
    for entry in entries {
        if let Field::Config(inner) = &mut entry.value {
            each(inner, change);
        }
    }
}

impl<'a> Style<'a> {
    /// Derives the style of an object from its first entries.
    fn of(text: &'a str) -> Option<Self> {
        let is_blank = |text: &str| text.bytes().all(|byte| matches!(byte, b' ' | b'\t'));
        let inner = text.trim_start().strip_prefix('{')?;
        let before = &inner[..inner.len() - inner.trim_start().len()];
        let lines = before
            .rsplit_once('\n')
            .map(|(first, indent)| (if first.ends_with('\r') { "\r\n" } else { "\n" }, indent));
        let Entries(values): Entries<&'a RawValue> = serde_json::from_str(text).ok()?;
        let place = |value: &str| value.as_ptr() as usize - text.as_ptr() as usize;
        let first = values.first().map(|(_, value)| value.get());
        let colon = first.and_then(|value| {
            let head = &text[..place(value)];
            Some(&head[head.rfind(':')?..])
        });
        let comma = first.and_then(|value| {
            let rest = text[place(value) + value.len()..].trim_start();
            let after = rest.strip_prefix(',')?.trim_start();
            Some(&rest[..rest.len() - after.len()])
        });
        Some(Self {
            lines,
            comma: comma.filter(|comma| is_blank(&comma[1..])).unwrap_or(", "),
            colon: colon.filter(|colon| is_blank(&colon[1..])).unwrap_or(": "),
        })
    }

    fn write(&self, entries: &[Entry<'_>], depth: usize, text: &mut String) {
        let line = |depth: usize, text: &mut String| {
            if let (Some((line_break, indent)), false) = (self.lines, entries.is_empty()) {
                text.push_str(line_break);
                text.extend(std::iter::repeat_n(indent, depth));
            }
        };
        text.push('{');
        for (number, entry) in entries.iter().enumerate() {
            if number > 0 {
                text.push_str(if self.lines.is_some() { "," } else { self.comma });
            }
            line(depth + 1, text);
            text.push_str(&serde_json::Value::from(entry.key.as_str()).to_string());
            text.push_str(self.colon);
            match &entry.value {
                Field::Config(inner) => self.write(inner, depth + 1, text),
                Field::Text(value) => text.push_str(value),
            }
        }
        line(depth, text);
        text.push('}');
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_document_that_nobody_changes_stays_as_it_is() {
        for text in [
            "{\n  \"a\": 1.0e5,\n  \"text_config\": {\n    \"b\": [\n      1\n    ],\n    \"c_config\": {}\n  }\n}\n",
            "{\r\n\t\"a\": \"\\u00e9\",\r\n\t\"b\": 12345678901234567890123\r\n}",
            "{\"a\":1,\"text_config\":{\"b\":{\"x\" : 2},\"c\":[1, 2]}}",
            "{\"a\": 1, \"a\": 2}",
            "{}\n",
        ] {
            assert_eq!(ConfigDocument::parse(text).unwrap().text(), text);
        }
        for wrong in ["", "[]", "{", "{\"a\": 1", "{\"a\": 1} x", "{\"text_config\": {\"a\"}}"] {
            assert!(ConfigDocument::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn configurations_that_nest_without_end_are_not_followed() {
        let text = "{\"a_config\":".repeat(100) + "1" + &"}".repeat(100);
        let mut document = ConfigDocument::parse(&text).unwrap();
        let mut seen = 0;
        document.each(|_| seen += 1);
        assert_eq!(seen, MAX_NESTED + 1);
        assert_eq!(document.text(), text);
    }
}
