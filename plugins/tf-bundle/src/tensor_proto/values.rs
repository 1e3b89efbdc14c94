//! Finds the elements of a tensor in a `TensorProto`. The elements are found and counted before any
//! of them is returned.

use super::emit::Emitter;
use super::list::{Item, List};
use super::strings;
use std::ops::Range;
use tensorferry_proto_file::{Value, Wire};
use tensorferry_sdk::{ByteSink, Dtype, Error, Limits, Result};

/// The values of a tensor. If there are fewer values than elements, the last value is repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Values {
    elements: u64,
    /// Number of bytes in an element. For strings, this is the size of the length before each
    /// string.
    width: u64,
    /// Total number of logical bytes in all elements.
    len: u64,
    form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// `tensor_content` with the unchanged logical bytes.
    Content(Range<u64>),
    /// `tensor_content` of strings: first the lengths of the strings, then their bytes.
    Strings { lengths: Range<u64>, bytes: Range<u64> },
    /// A list in the message.
    Listed { message: Range<u64>, list: List, found: FoundItems },
}

/// The items of a list that were found in a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FoundItems {
    /// For `Fixed` items, the number of bytes; otherwise, the number of items.
    items: u64,
    /// Total number of bytes in all strings.
    text: u64,
    /// The content of the last field. If `fields` is 1, this is the only field.
    last: Range<u64>,
    fields: u64,
}

impl Values {
    /// Finds the values of a tensor in a message. The tensor must have at least one element.
    pub(crate) fn find(
        wire: &mut Wire<'_>,
        message: &Range<u64>,
        dtype: Dtype,
        elements: u64,
    ) -> Result<Self> {
        let list = List::of(dtype).zip(dtype.info());
        let (list, info) = list.ok_or_else(|| Error::plugin("TensorFlow has no tensors of this dtype"))?;
        let mut content = 0..0;
        let mut found = FoundItems::default();
        let mut rest = message.clone();
        while let Some(field) = wire.next(&mut rest)? {
            match (field.number, field.value) {
                (4, Value::Bytes(range)) => content = range,
                (number, value) if number == list.field => found.add(wire, list.item, field.at, value)?,
                _ => {}
            }
        }
        let width = info.element_bytes().map_or(8, u64::from);
        let too_long = || Error::malformed("the length of the tensor does not fit in 64 bits");
        let fixed = elements.checked_mul(width).ok_or_else(too_long)?;
        let (form, len) = if content.is_empty() {
            let count = found.count(wire, message, list.item, width)?;
            if count > elements {
                return Err(wire
                    .malformed(message.start, "a tensor has more values than elements")
                    .expected(format!("at most {elements}"))
                    .found(count));
            }
            let mut len = fixed.checked_add(found.text).ok_or_else(too_long)?;
            if list.item == Item::Text {
                let again = (elements - count).checked_mul(found.last.end - found.last.start);
                len = again.and_then(|again| again.checked_add(len)).ok_or_else(too_long)?;
            }
            found.items = count;
            (Form::Listed { message: message.clone(), list, found }, len)
        } else if list.item == Item::Text {
            let (lengths, bytes) = strings::split(wire, &content, elements)?;
            let len = fixed.checked_add(bytes.end - bytes.start).ok_or_else(too_long)?;
            (Form::Strings { lengths, bytes }, len)
        } else {
            let stored = content.end - content.start;
            if stored != fixed {
                return Err(wire
                    .malformed(
                        content.start,
                        "the content of a tensor does not have the length that its elements require",
                    )
                    .expected(format!("{fixed} bytes"))
                    .found(stored));
            }
            (Form::Content(content), fixed)
        };
        Ok(Self { elements, width, len, form })
    }

    /// Returns the number of logical bytes of the tensor.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the number of logical bytes that repeat the last value.
    pub(crate) fn repeated_len(&self) -> u64 {
        match &self.form {
            Form::Listed { list, found, .. } => {
                let text = if list.item == Item::Text { found.last.end - found.last.start } else { 0 };
                (self.elements - found.items).saturating_mul(self.width.saturating_add(text))
            }
            Form::Content(_) | Form::Strings { .. } => 0,
        }
    }

    /// Returns the range that contains the logical bytes, if they are stored unchanged.
    pub(crate) fn stored_range(&self) -> Option<&Range<u64>> {
        match &self.form {
            Form::Content(range) => Some(range),
            Form::Listed { list, found, .. } => {
                let plain = matches!(list.item, Item::Fixed4 | Item::Fixed8 | Item::Byte);
                let one = plain && found.fields == 1 && found.items == self.elements;
                one.then_some(&found.last).filter(|range| range.end - range.start == self.len)
            }
            Form::Strings { .. } => None,
        }
    }

    /// Returns the value of all elements if they are known to be equal. Strings are not supported.
    pub(crate) fn constant(&self, wire: &mut Wire<'_>, limits: &Limits) -> Result<Option<Vec<u8>>> {
        match &self.form {
            Form::Listed { list, found, .. } if found.items <= 1 && list.item != Item::Text => {
                let mut element = Vec::new();
                Self { elements: 1, len: self.width, ..self.clone() }.write(wire, &mut element, limits)?;
                Ok(Some(element))
            }
            _ => Ok(None),
        }
    }

    /// Writes the logical bytes in row-major order. Numbers are little-endian, and each string
    /// follows its length.
    pub(crate) fn write(
        &self,
        wire: &mut Wire<'_>,
        output: &mut dyn ByteSink,
        limits: &Limits,
    ) -> Result<()> {
        match &self.form {
            Form::Content(range) => wire.each_chunk(range, &mut |chunk| output.write(chunk)),
            Form::Strings { lengths, bytes } => strings::write(wire, lengths, bytes, output),
            Form::Listed { message, list, found } => {
                let mut emitter = Emitter::new(usize::try_from(self.width).unwrap_or(0), output);
                let mut rest = message.clone();
                while let Some(field) = wire.next(&mut rest)? {
                    // If a field is not a list, only its last occurrence counts.
                    let counts = list.item != Item::Byte || field.value == Value::Bytes(found.last.clone());
                    if field.number == list.field && counts {
                        push(wire, list.item, field.value, &mut emitter)?;
                    }
                }
                let missing = self.elements - found.items;
                if missing > 0 && list.item == Item::Text {
                    let text = wire.bytes(&found.last, limits.header_bytes)?;
                    let element = [&(text.len() as u64).to_le_bytes()[..], &text].concat();
                    emitter.fill(&element, missing)?;
                } else {
                    emitter.repeat(missing)?;
                }
                emitter.finish()
            }
        }
    }
}

impl FoundItems {
    fn add(&mut self, wire: &mut Wire<'_>, item: Item, at: u64, value: Value) -> Result<()> {
        self.fields += 1;
        match (item, value) {
            (Item::Fixed4, Value::Fixed32(_)) => self.items += 4,
            (Item::Fixed8, Value::Fixed64(_)) => self.items += 8,
            (Item::Varint { .. } | Item::Bool, Value::Varint(_)) => self.items += 1,
            (item, Value::Bytes(range)) => {
                let len = range.end - range.start;
                match item {
                    Item::Fixed4 | Item::Fixed8 => self.items += len,
                    Item::Varint { .. } | Item::Bool => self.items += count_varints(wire, &range)?,
                    Item::Byte => self.items = len,
                    Item::Text => {
                        self.items += 1;
                        self.text += len;
                    }
                }
                self.last = range;
            }
            _ => return Err(wire.wrong_type(at)),
        }
        Ok(())
    }

    /// Returns the number of elements that the items represent.
    fn count(&self, wire: &Wire<'_>, message: &Range<u64>, item: Item, width: u64) -> Result<u64> {
        if !matches!(item, Item::Fixed4 | Item::Fixed8) {
            return Ok(self.items);
        }
        if !self.items.is_multiple_of(width) {
            return Err(wire
                .malformed(message.start, "the values of a tensor end inside an element")
                .expected(format!("a multiple of {width} bytes"))
                .found(self.items));
        }
        Ok(self.items / width)
    }
}

fn count_varints(wire: &mut Wire<'_>, range: &Range<u64>) -> Result<u64> {
    let mut count = 0;
    wire.each_varint(range, &mut |_| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

/// Writes the items in one field of a list.
fn push(wire: &mut Wire<'_>, item: Item, value: Value, emitter: &mut Emitter<'_>) -> Result<()> {
    match value {
        Value::Fixed32(bits) => emitter.push(&bits.to_le_bytes()),
        Value::Fixed64(bits) => emitter.push(&bits.to_le_bytes()),
        Value::Varint(value) => emitter.push_low(item.element(value)),
        // Groups cannot occur here, because they were rejected when the values were counted.
        Value::Group => Ok(()),
        Value::Bytes(range) => match item {
            Item::Varint { .. } | Item::Bool => {
                wire.each_varint(&range, &mut |value| emitter.push_low(item.element(value)))
            }
            Item::Text => {
                emitter.push(&(range.end - range.start).to_le_bytes())?;
                wire.each_chunk(&range, &mut |chunk| emitter.push(chunk))
            }
            Item::Fixed4 | Item::Fixed8 | Item::Byte => {
                wire.each_chunk(&range, &mut |chunk| emitter.push(chunk))
            }
        },
    }
}
