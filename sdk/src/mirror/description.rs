//! Passes a [`Description`] across the boundary.

use super::numbers::unknown;
use crate::{Capabilities, Description, Magic, OptionKind, OptionSpec, Result, Side};
use tensorferry_abi::{
    Borrowed, DescriptionCalls, DescriptionTable, Failure, IdentityFacts, MagicFacts, OptionFacts, Word,
};

/// A sink that fills in a description.
pub(super) struct LentDescription(pub(super) Description);

impl DescriptionCalls for LentDescription {
    fn identity(&mut self, identity: IdentityFacts<'_>) -> Result<(), Failure> {
        self.0.id = identity.id.to_owned();
        self.0.title = identity.title.to_owned();
        self.0.capabilities = Capabilities(identity.capabilities);
        self.0.output_revision = identity.output_revision;
        Ok(())
    }

    fn suffix(&mut self, suffix: &str) -> Result<(), Failure> {
        self.0.suffixes.push(suffix.to_owned());
        Ok(())
    }

    fn magic(&mut self, magic: MagicFacts<'_>) -> Result<(), Failure> {
        let (bytes, mask) = (magic.bytes.to_vec(), magic.mask.to_vec());
        if !mask.is_empty() && mask.len() != bytes.len() {
            return Err(Failure::contract("the mask of a magic has the wrong length"));
        }
        self.0.magic.push(Magic { offset: magic.offset, bytes, mask, from_end: magic.from_end });
        Ok(())
    }

    fn member(&mut self, pattern: &str) -> Result<(), Failure> {
        self.0.members.push(pattern.to_owned());
        Ok(())
    }

    fn option(&mut self, option: OptionFacts<'_>) -> Result<(), Failure> {
        let side = match option.side {
            0 => Side::Reader,
            1 => Side::Writer,
            other => return Err(unknown("side of an option", other).into()),
        };
        let kind = match option.kind {
            1 => OptionKind::Bool,
            2 => OptionKind::Integer,
            3 => OptionKind::Size,
            4 => OptionKind::Choice(option.choices.iter().map(|word| word.text().to_owned()).collect()),
            5 => OptionKind::Source,
            6 => OptionKind::List,
            // Option kinds of a later SDK are treated as text, since all options cross the boundary
            // as text.
            _ => OptionKind::Text,
        };
        let default = option.defaults.first().map(|word| word.text().to_owned());
        let (key, help) = (option.key.to_owned(), option.help.to_owned());
        self.0.options.push(OptionSpec { side, key, kind, default, help });
        Ok(())
    }

    fn attribute(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        self.0.attributes.push((name.to_owned(), value.to_owned()));
        Ok(())
    }
}

/// Sends a description to the other side.
pub(super) fn send(description: &Description, sink: &Borrowed<'_, DescriptionTable>) -> Result<(), Failure> {
    let d = description;
    sink.identity(IdentityFacts {
        id: &d.id,
        title: &d.title,
        capabilities: d.capabilities.0,
        output_revision: d.output_revision,
    })?;
    d.suffixes.iter().try_for_each(|suffix| sink.suffix(suffix))?;
    for magic in &d.magic {
        let Magic { offset, bytes, mask, from_end } = magic;
        sink.magic(MagicFacts { offset: *offset, bytes, mask, from_end: *from_end })?;
    }
    d.members.iter().try_for_each(|member| sink.member(member))?;
    for option in &d.options {
        let (kind, words): (u32, &[String]) = match &option.kind {
            OptionKind::Text => (0, &[]),
            OptionKind::Bool => (1, &[]),
            OptionKind::Integer => (2, &[]),
            OptionKind::Size => (3, &[]),
            OptionKind::Choice(words) => (4, words),
            OptionKind::Source => (5, &[]),
            OptionKind::List => (6, &[]),
        };
        let choices: Vec<Word<'_>> = words.iter().map(|word| Word::new(word)).collect();
        let defaults: Vec<Word<'_>> = option.default.iter().map(|text| Word::new(text)).collect();
        sink.option(OptionFacts {
            side: if option.side == Side::Reader { 0 } else { 1 },
            key: &option.key,
            kind,
            choices: &choices,
            defaults: &defaults,
            help: &option.help,
        })?;
    }
    d.attributes.iter().try_for_each(|(name, value)| sink.attribute(name, value))
}
