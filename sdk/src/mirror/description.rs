//! [`Description`] across the boundary.

use super::guard::guard_or;
use crate::{Capabilities, Description, Magic, OptionKind, OptionSpec, Side};
use tensorferry_abi::abi_stable::std_types::{RSlice, RStr};
use tensorferry_abi::{self as abi, DescriptionSinkMut};

/// Fills in a description, call by call.
pub(super) struct LentDescription(pub(super) Description);

impl abi::DescriptionSink for LentDescription {
    fn identity(&mut self, id: RStr<'_>, title: RStr<'_>, capabilities: u64, output_revision: u32) {
        self.0.id = id.as_str().to_owned();
        self.0.title = title.as_str().to_owned();
        self.0.capabilities = Capabilities(capabilities);
        self.0.output_revision = output_revision;
    }

    fn suffix(&mut self, suffix: RStr<'_>) {
        self.0.suffixes.push(suffix.as_str().to_owned());
    }

    fn magic(&mut self, offset: u64, bytes: RSlice<'_, u8>) {
        self.0.magic.push(Magic { offset, bytes: bytes.as_slice().to_vec() });
    }

    fn member(&mut self, pattern: RStr<'_>) {
        self.0.members.push(pattern.as_str().to_owned());
    }

    fn option(
        &mut self,
        side: u32,
        key: RStr<'_>,
        kind: u32,
        choices: RSlice<'_, RStr<'_>>,
        default: RSlice<'_, RStr<'_>>,
        help: RStr<'_>,
    ) {
        guard_or((), || {
            self.0.options.push(OptionSpec {
                side: if side == 0 { Side::Reader } else { Side::Writer },
                key: key.as_str().to_owned(),
                kind: match kind {
                    1 => OptionKind::Bool,
                    2 => OptionKind::Integer,
                    3 => OptionKind::Size,
                    4 => OptionKind::Choice(choices.iter().map(|word| word.as_str().to_owned()).collect()),
                    5 => OptionKind::Source,
                    _ => OptionKind::Text,
                },
                default: default.first().map(|text| text.as_str().to_owned()),
                help: help.as_str().to_owned(),
            });
        });
    }
}

/// Says a description to the other side.
pub(super) fn send(description: &Description, mut sink: DescriptionSinkMut<'_>) {
    let d = description;
    sink.identity(d.id.as_str().into(), d.title.as_str().into(), d.capabilities.0, d.output_revision);
    for suffix in &d.suffixes {
        sink.suffix(suffix.as_str().into());
    }
    for magic in &d.magic {
        sink.magic(magic.offset, magic.bytes.as_slice().into());
    }
    for member in &d.members {
        sink.member(member.as_str().into());
    }
    for option in &d.options {
        let (kind, words): (u32, &[String]) = match &option.kind {
            OptionKind::Text => (0, &[]),
            OptionKind::Bool => (1, &[]),
            OptionKind::Integer => (2, &[]),
            OptionKind::Size => (3, &[]),
            OptionKind::Choice(words) => (4, words),
            OptionKind::Source => (5, &[]),
        };
        let choices: Vec<RStr<'_>> = words.iter().map(|word| word.as_str().into()).collect();
        let default: Vec<RStr<'_>> = option.default.iter().map(|text| text.as_str().into()).collect();
        sink.option(
            if option.side == Side::Reader { 0 } else { 1 },
            option.key.as_str().into(),
            kind,
            choices.as_slice().into(),
            default.as_slice().into(),
            option.help.as_str().into(),
        );
    }
}
