//! A format's [`Description`] saved as JSON, so that the description is available without opening
//! the format's library.

use serde::{Deserialize, Serialize};
use tensorferry_sdk::{Capabilities, Description, Magic, OptionKind, OptionSpec, Side};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedDescription {
    id: String,
    title: String,
    suffixes: Vec<String>,
    magic: Vec<SavedMagic>,
    members: Vec<String>,
    capabilities: u64,
    output_revision: u32,
    options: Vec<SavedOption>,
    attributes: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedMagic {
    offset: u64,
    bytes: Vec<u8>,
    mask: Vec<u8>,
    from_end: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedOption {
    reader: bool,
    key: String,
    kind: SavedKind,
    default: Option<String>,
    help: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum SavedKind {
    Text,
    Bool,
    Integer,
    Size,
    Choice(Vec<String>),
    Source,
    List,
}

impl SavedDescription {
    /// Returns `None` if the description contains something that this type cannot save. In that
    /// case, the library must be opened to get the description, which takes longer.
    pub(super) fn of(description: &Description) -> Option<Self> {
        let d = description;
        let saved = Self {
            id: d.id.clone(),
            title: d.title.clone(),
            suffixes: d.suffixes.clone(),
            magic: d.magic.iter().map(SavedMagic::of).collect(),
            members: d.members.clone(),
            capabilities: d.capabilities.0,
            output_revision: d.output_revision,
            options: d.options.iter().map(SavedOption::of).collect::<Option<_>>()?,
            attributes: d.attributes.clone(),
        };
        (saved.restore() == *d).then_some(saved)
    }

    pub(super) fn restore(&self) -> Description {
        let options: Vec<OptionSpec> = self.options.iter().map(SavedOption::restore).collect();
        let description = Description::new(self.id.as_str(), self.title.as_str())
            .suffixes(self.suffixes.iter().map(String::as_str))
            .members(self.members.iter().map(String::as_str))
            .capabilities(Capabilities(self.capabilities))
            .options(options)
            .output_revision(self.output_revision);
        let description =
            self.attributes.iter().fold(description, |d, (name, value)| d.attribute(name, value));
        self.magic.iter().fold(description, |d, magic| d.magic_at(magic.restore()))
    }
}

impl SavedMagic {
    fn of(magic: &Magic) -> Self {
        let Magic { offset, bytes, mask, from_end, .. } = magic;
        Self { offset: *offset, bytes: bytes.clone(), mask: mask.clone(), from_end: *from_end }
    }

    fn restore(&self) -> Magic {
        let magic = Magic::new(self.offset, self.bytes.as_slice()).masked(self.mask.as_slice());
        if self.from_end { magic.from_end() } else { magic }
    }
}

impl SavedOption {
    fn of(option: &OptionSpec) -> Option<Self> {
        let kind = match &option.kind {
            OptionKind::Text => SavedKind::Text,
            OptionKind::Bool => SavedKind::Bool,
            OptionKind::Integer => SavedKind::Integer,
            OptionKind::Size => SavedKind::Size,
            OptionKind::Choice(words) => SavedKind::Choice(words.clone()),
            OptionKind::Source => SavedKind::Source,
            OptionKind::List => SavedKind::List,
            _ => return None,
        };
        Some(Self {
            reader: option.side == Side::Reader,
            key: option.key.clone(),
            kind,
            default: option.default.clone(),
            help: option.help.clone(),
        })
    }

    fn restore(&self) -> OptionSpec {
        let kind = match &self.kind {
            SavedKind::Text => OptionKind::Text,
            SavedKind::Bool => OptionKind::Bool,
            SavedKind::Integer => OptionKind::Integer,
            SavedKind::Size => OptionKind::Size,
            SavedKind::Choice(words) => OptionKind::Choice(words.clone()),
            SavedKind::Source => OptionKind::Source,
            SavedKind::List => OptionKind::List,
        };
        let make = if self.reader { OptionSpec::reader } else { OptionSpec::writer };
        make(&self.key, kind, self.default.as_deref(), &self.help)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_part_of_a_description_comes_back() {
        let kinds = [
            OptionKind::Text,
            OptionKind::Bool,
            OptionKind::Integer,
            OptionKind::Size,
            OptionKind::Choice(vec!["a".to_owned(), "b".to_owned()]),
            OptionKind::Source,
            OptionKind::List,
        ];
        let options = kinds.into_iter().enumerate().map(|(number, kind)| {
            let make = if number % 2 == 0 { OptionSpec::reader } else { OptionSpec::writer };
            make(&format!("key{number}"), kind, (number < 3).then_some("x"), "what it does")
        });
        let description = Description::new("id", "a title \u{202e}\0\"")
            .suffixes([".a", ".b"])
            .magic(0, [0, 255])
            .magic(7, [1])
            .magic_at(Magic::new(18, *b"end").from_end().masked([255, 0xdf, 1]))
            .attribute("specification", "https://example.org")
            .members(["*.a"])
            .capabilities(Capabilities(u64::MAX))
            .options(options.collect::<Vec<_>>())
            .output_revision(3);
        let text = serde_json::to_string(&SavedDescription::of(&description).unwrap()).unwrap();
        let saved: SavedDescription = serde_json::from_str(&text).unwrap();
        assert_eq!(saved.restore(), description);
    }
}
