//! A protobuf message is represented as one or more ranges of a file. If a message field occurs
//! several times, protobuf merges the occurrences, so a message may consist of several parts.

use std::ops::Range;
use tensorferry_proto_file::{Field, Value, Wire};
use tensorferry_sdk::{Error, Result};

/// A message. `next` advances through the fields of the message, in file order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Message {
    parts: Vec<Range<u64>>,
    /// Index of the next part to read.
    next: usize,
}

impl Message {
    /// Creates a message that consists of one part.
    pub(crate) fn of_range(part: Range<u64>) -> Self {
        Self { parts: vec![part], next: 0 }
    }

    /// Returns the range of the message if it consists of exactly one part. Otherwise, returns
    /// `None`.
    pub(crate) fn only_part(&self) -> Option<Range<u64>> {
        match &*self.parts {
            [part] => Some(part.clone()),
            _ => None,
        }
    }

    /// Returns the offset of the first part, for error messages.
    pub(crate) fn start(&self) -> u64 {
        self.parts.first().map_or(0, |part| part.start)
    }

    /// Returns whether the message has at least one part.
    pub(crate) fn exists(&self) -> bool {
        !self.parts.is_empty()
    }

    pub(crate) fn next(&mut self, wire: &mut Wire<'_>) -> Result<Option<Field>> {
        while let Some(part) = self.parts.get_mut(self.next) {
            if let Some(field) = wire.next(part)? {
                return Ok(Some(field));
            }
            self.next += 1;
        }
        Ok(None)
    }

    /// Passes the content of each field with this number to `visit`. Each of these fields must be a
    /// message or a string.
    pub(crate) fn each(
        &self,
        wire: &mut Wire<'_>,
        number: u32,
        visit: &mut dyn FnMut(&mut Wire<'_>, Range<u64>) -> Result<()>,
    ) -> Result<()> {
        let mut rest = self.clone();
        while let Some(field) = rest.next(wire)? {
            if field.number == number {
                let content = content(wire, &field)?;
                visit(wire, content)?;
            }
        }
        Ok(())
    }

    /// Returns the message in the field with this number. If the field occurs several times, each
    /// occurrence is a part of the message.
    pub(crate) fn message(&self, wire: &mut Wire<'_>, number: u32) -> Result<Self> {
        let mut parts = Vec::new();
        self.each(wire, number, &mut |_, part| {
            parts.push(part);
            Ok(())
        })?;
        Ok(Self { parts, next: 0 })
    }

    /// Returns the string in the last field with this number, or an empty string if there is no
    /// such field.
    pub(crate) fn text(&self, wire: &mut Wire<'_>, number: u32, max: u64) -> Result<String> {
        let mut last = None;
        self.each(wire, number, &mut |_, range| {
            last = Some(range);
            Ok(())
        })?;
        last.map_or(Ok(String::new()), |range| wire.text(&range, max))
    }
}

/// Returns the content of a length-delimited field.
pub(crate) fn content(wire: &Wire<'_>, field: &Field) -> Result<Range<u64>> {
    match &field.value {
        Value::Bytes(range) => Ok(range.clone()),
        _ => Err(wire.wrong_type(field.at)),
    }
}

/// Returns the value of a varint field.
pub(crate) fn varint(wire: &Wire<'_>, field: &Field) -> Result<u64, Error> {
    match field.value {
        Value::Varint(value) => Ok(value),
        _ => Err(wire.wrong_type(field.at)),
    }
}
