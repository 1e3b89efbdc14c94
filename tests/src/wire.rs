//! A hand-written encoder for the binary form of protocol buffers. A message is a sequence of
//! fields, each with a tag (`number << 3 | type`) and a value
//! (<https://protobuf.dev/programming-guides/encoding/>).

/// Appends a varint. Each byte contains seven bits, lowest bits first, and the high bit is set in
/// all bytes except the last.
pub fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// A message under construction.
#[derive(Debug, Clone, Default)]
pub struct Wire(pub Vec<u8>);

impl Wire {
    /// Creates a message without fields.
    pub fn new() -> Self {
        Self::default()
    }

    fn tag(&mut self, number: u32, kind: u64) {
        varint(&mut self.0, u64::from(number) << 3 | kind);
    }

    /// Adds a number. Negative numbers take ten bytes. Unlike in a standard encoder, 0 is written.
    pub fn int(mut self, number: u32, value: i64) -> Self {
        self.tag(number, 0);
        varint(&mut self.0, value.cast_unsigned());
        self
    }

    /// Adds four bytes.
    pub fn fixed32(mut self, number: u32, value: u32) -> Self {
        self.tag(number, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds a byte string.
    pub fn bytes(mut self, number: u32, value: &[u8]) -> Self {
        self.tag(number, 2);
        varint(&mut self.0, value.len() as u64);
        self.0.extend(value);
        self
    }

    /// Adds a message.
    pub fn message(self, number: u32, value: &Self) -> Self {
        self.bytes(number, &value.0)
    }
}
