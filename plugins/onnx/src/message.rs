//! A message is its fields, wherever they lie: of a field that holds one message and is given twice, protobuf
//! joins the two, so that a message may lie in several parts.

use std::ops::Range;
use tensorferry_proto_file::{Field, Value, Wire};
use tensorferry_sdk::{Error, Result};

/// What is left of a message, in the file's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Message {
    parts: Vec<Range<u64>>,
    /// The part that comes next.
    next: usize,
}

impl Message {
    /// A message that lies in one part.
    pub(crate) fn at(part: Range<u64>) -> Self {
        Self { parts: vec![part], next: 0 }
    }

    /// Where it lies, if it lies in one part.
    pub(crate) fn only_part(&self) -> Option<Range<u64>> {
        match &*self.parts {
            [part] => Some(part.clone()),
            _ => None,
        }
    }

    /// Where it begins, for errors.
    pub(crate) fn start(&self) -> u64 {
        self.parts.first().map_or(0, |part| part.start)
    }

    /// Whether a field for it was there.
    pub(crate) fn is_there(&self) -> bool {
        !self.parts.is_empty()
    }

    /// The next field.
    pub(crate) fn next(&mut self, wire: &mut Wire<'_>) -> Result<Option<Field>> {
        while let Some(part) = self.parts.get_mut(self.next) {
            if let Some(field) = wire.next(part)? {
                return Ok(Some(field));
            }
            self.next += 1;
        }
        Ok(None)
    }

    /// Gives the content of each field of this number, which is a message or a text.
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

    /// The message in the fields of this number, all parts of it.
    pub(crate) fn message(&self, wire: &mut Wire<'_>, number: u32) -> Result<Self> {
        let mut parts = Vec::new();
        self.each(wire, number, &mut |_, part| {
            parts.push(part);
            Ok(())
        })?;
        Ok(Self { parts, next: 0 })
    }

    /// The text in the last field of this number; empty, if there is none.
    pub(crate) fn text(&self, wire: &mut Wire<'_>, number: u32, most: u64) -> Result<String> {
        let mut last = None;
        self.each(wire, number, &mut |_, range| {
            last = Some(range);
            Ok(())
        })?;
        last.map_or(Ok(String::new()), |range| wire.text(&range, most))
    }
}

/// The content of a field that has a length.
pub(crate) fn content(wire: &Wire<'_>, field: &Field) -> Result<Range<u64>> {
    match &field.value {
        Value::Bytes(range) => Ok(range.clone()),
        _ => Err(wire.wrong_type(field.at)),
    }
}

/// The number in a field that is one.
pub(crate) fn varint(wire: &Wire<'_>, field: &Field) -> Result<u64, Error> {
    match field.value {
        Value::Varint(value) => Ok(value),
        _ => Err(wire.wrong_type(field.at)),
    }
}
