//! Converts the text form to wire form, field by field.
//!
//! The encoder keeps a stack of open messages instead of recursing, so that deeply nested messages
//! cannot overflow the call stack.

use super::lexer::{Kind, Lexer, Token};
use super::literal;
use super::schema::{Schema, field_of};
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto};
use tensorferry_proto::wire::put_varint;
use tensorferry_sdk::{Error, Limits, Result};

pub(crate) struct Encoder<'a> {
    schema: &'a Schema,
    lexer: Lexer<'a>,
    limits: &'a Limits,
    file: &'a str,
    open: Vec<OpenMessage<'a>>,
    wire: Vec<u8>,
}

/// A message whose end has not been reached.
struct OpenMessage<'a> {
    /// The field that contains the message, or `None` if the field is unknown and skipped.
    field: Option<&'a FieldDescriptorProto>,
    /// The descriptor of the message, or `None` if the message is skipped.
    message: Option<&'a DescriptorProto>,
    /// The character that ends the message.
    close: u8,
    /// Whether the message is an element of a list.
    in_list: bool,
    /// The offset of the message's content in the wire form. One byte before this offset is
    /// reserved for the length.
    start: usize,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(schema: &'a Schema, text: &'a [u8], file: &'a str, limits: &'a Limits) -> Result<Self> {
        let lexer = Lexer::new(text, file)?;
        Ok(Self { schema, lexer, limits, file, open: Vec::new(), wire: Vec::new() })
    }

    /// Returns the wire form of the text, which is parsed as a message with the descriptor
    /// `message`.
    pub(crate) fn encode(mut self, message: &'a DescriptorProto) -> Result<Vec<u8>> {
        loop {
            match (self.lexer.peek(), self.open.last()) {
                (Kind::End, None) => return Ok(self.wire),
                (Kind::Sign(sign), Some(open)) if sign == open.close => self.close()?,
                (_, open) => {
                    let message = open.map_or(Some(message), |open| open.message);
                    self.field(message)?;
                }
            }
        }
    }

    /// Reads a field: its name, followed by a value, a list of values, or the start of a message.
    fn field(&mut self, message: Option<&'a DescriptorProto>) -> Result<()> {
        let field = self.field_name(message)?;
        let colon = self.lexer.take_sign(b':')?;
        if !self.lexer.take_sign(b'[')? {
            return self.values(field, false, colon);
        }
        if self.lexer.take_sign(b']')? {
            return self.separator();
        }
        self.values(field, true, true)
    }

    /// Reads the name of a field and returns its descriptor, if the field is known. Names in
    /// brackets denote extensions and packed `Any` messages. Numbers denote fields that were
    /// unknown to the writer. The schema contains none of these fields.
    fn field_name(
        &mut self,
        message: Option<&'a DescriptorProto>,
    ) -> Result<Option<&'a FieldDescriptorProto>> {
        match self.lexer.peek() {
            Kind::Name => {
                let name = self.lexer.take()?;
                Ok(message.and_then(|message| field_of(message, self.lexer.text(&name))))
            }
            Kind::Number => self.lexer.take().map(|_| None),
            Kind::Sign(b'[') => {
                while !self.lexer.take_sign(b']')? {
                    match self.lexer.peek() {
                        Kind::Text | Kind::End => {
                            return Err(self.lexer.expected("the name of a type and ]"));
                        }
                        _ => self.lexer.take()?,
                    };
                }
                Ok(None)
            }
            _ => Err(self.lexer.expected("a field's name")),
        }
    }

    /// Reads values up to the end of the field, or up to the start of a message. Opens the message
    /// if one starts.
    fn values(&mut self, field: Option<&'a FieldDescriptorProto>, in_list: bool, colon: bool) -> Result<()> {
        loop {
            let close = match self.lexer.peek() {
                Kind::Sign(b'{') => Some(b'}'),
                Kind::Sign(b'<') => Some(b'>'),
                _ => None,
            };
            if let Some(close) = close {
                return self.open(field, close, in_list);
            }
            if !colon {
                return Err(self.lexer.expected("a colon or a message"));
            }
            self.scalar(field)?;
            if !in_list {
                return self.separator();
            }
            if !self.lexer.take_sign(b',')? {
                return self.end_list();
            }
        }
    }

    fn end_list(&mut self) -> Result<()> {
        if !self.lexer.take_sign(b']')? {
            return Err(self.lexer.expected("a comma or ]"));
        }
        self.separator()
    }

    fn separator(&mut self) -> Result<()> {
        if !self.lexer.take_sign(b',')? {
            self.lexer.take_sign(b';')?;
        }
        Ok(())
    }

    fn open(&mut self, field: Option<&'a FieldDescriptorProto>, close: u8, in_list: bool) -> Result<()> {
        let sign = self.lexer.take()?;
        if self.open.len() as u64 >= self.limits.nesting {
            return Err(Error::limit("messages are nested too deeply")
                .file(self.file)
                .offset(sign.range.start as u64)
                .expected(format!("at most {} levels", self.limits.nesting)));
        }
        let message = field.and_then(|field| self.schema.message_of(field));
        if let Some(field) = field {
            if field.r#type() != Type::Message {
                return Err(self.lexer.error(&sign, "this field is not a message").expected("a value"));
            }
            self.tag(field, 2);
            self.wire.push(0);
        }
        self.open.push(OpenMessage { field, message, close, in_list, start: self.wire.len() });
        Ok(())
    }

    /// Ends the innermost message, and inserts its length.
    fn close(&mut self) -> Result<()> {
        self.lexer.take()?;
        let Some(open) = self.open.pop() else { return Ok(()) };
        if open.field.is_some() {
            let mut len = Vec::with_capacity(5);
            put_varint(&mut len, (self.wire.len() - open.start) as u64);
            self.wire.splice(open.start - 1..open.start, len);
        }
        if !open.in_list {
            return self.separator();
        }
        if self.lexer.take_sign(b',')? { self.values(open.field, true, true) } else { self.end_list() }
    }

    /// Reads a value that is not a message.
    fn scalar(&mut self, field: Option<&'a FieldDescriptorProto>) -> Result<()> {
        let Some(field) = field else { return self.skip_scalar() };
        match field.r#type() {
            Type::Message => Err(self.lexer.expected("a message")),
            Type::String | Type::Bytes => self.text(field),
            _ => self.number(field),
        }?;
        // The length of the text is limited, but the wire form of a list of numbers may be several
        // times as long.
        if self.wire.len() as u64 > self.limits.header_bytes {
            return Err(Error::limit("the message in text form is too long to hold in memory")
                .hint("raise the limit with --limit header_bytes=N")
                .file(self.file)
                .expected(format!("at most {} bytes", self.limits.header_bytes)));
        }
        Ok(())
    }

    fn skip_scalar(&mut self) -> Result<()> {
        match self.lexer.peek() {
            Kind::Text => {
                while self.lexer.peek() == Kind::Text {
                    self.lexer.take()?;
                }
                Ok(())
            }
            _ => self.signed().map(drop),
        }
    }

    /// Reads a string. Adjacent literals are concatenated.
    fn text(&mut self, field: &FieldDescriptorProto) -> Result<()> {
        if self.lexer.peek() != Kind::Text {
            return Err(self.lexer.expected("a string"));
        }
        let mut text = Vec::new();
        while self.lexer.peek() == Kind::Text {
            let token = self.lexer.take()?;
            literal::unescape(self.lexer.text(&token), &mut text)
                .map_err(|what| self.lexer.error(&token, what))?;
        }
        self.tag(field, 2);
        put_varint(&mut self.wire, text.len() as u64);
        self.wire.append(&mut text);
        Ok(())
    }

    fn number(&mut self, field: &FieldDescriptorProto) -> Result<()> {
        let (negative, token) = self.signed()?;
        let text = self.lexer.text(&token);
        let number = match (field.r#type(), token.kind) {
            (Type::Enum, Kind::Name) if !negative => self
                .schema
                .enum_value(field, text)
                .map(|value| Number::Varint(i64::from(value).cast_unsigned())),
            (kind, _) => number(kind, negative, text),
        };
        let number = number
            .ok_or_else(|| self.lexer.error(&token, "the value does not match the type of the field"))?;
        match number {
            Number::Varint(value) => {
                self.tag(field, 0);
                put_varint(&mut self.wire, value);
            }
            Number::Fixed64(bytes) => {
                self.tag(field, 1);
                self.wire.extend(bytes);
            }
            Number::Fixed32(bytes) => {
                self.tag(field, 5);
                self.wire.extend(bytes);
            }
        }
        Ok(())
    }

    /// Reads a name or a number, and returns whether a minus sign precedes it.
    fn signed(&mut self) -> Result<(bool, Token)> {
        let negative = self.lexer.take_sign(b'-')?;
        match self.lexer.peek() {
            Kind::Name | Kind::Number => Ok((negative, self.lexer.take()?)),
            _ => Err(self.lexer.expected("a value")),
        }
    }

    fn tag(&mut self, field: &FieldDescriptorProto, wire_type: u32) {
        put_varint(&mut self.wire, u64::from(field.number().unsigned_abs() << 3 | wire_type));
    }
}

/// A number in wire form.
pub(super) enum Number {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
}

/// Parses a number for a field of type `kind`. Returns `None` if the text is not valid for the
/// type. Types that TensorFlow's messages do not use are also rejected.
pub(super) fn number(kind: Type, negative: bool, text: &[u8]) -> Option<Number> {
    let sign = if negative { -1 } else { 1 };
    let integer = || Some(i128::from(literal::integer(text)?) * sign);
    Some(match kind {
        Type::Float => {
            let value: f32 = literal::number(text)?.parse().ok()?;
            Number::Fixed32(if negative { -value } else { value }.to_le_bytes())
        }
        Type::Double => {
            let value: f64 = literal::number(text)?.parse().ok()?;
            Number::Fixed64(if negative { -value } else { value }.to_le_bytes())
        }
        Type::Fixed32 => Number::Fixed32(u32::try_from(integer()?).ok()?.to_le_bytes()),
        Type::Int32 | Type::Enum => {
            Number::Varint(i64::from(i32::try_from(integer()?).ok()?).cast_unsigned())
        }
        Type::Int64 => Number::Varint(i64::try_from(integer()?).ok()?.cast_unsigned()),
        Type::Uint32 => Number::Varint(u32::try_from(integer()?).ok()?.into()),
        Type::Uint64 => Number::Varint(integer()?.try_into().ok()?),
        Type::Bool if negative => return None,
        Type::Bool => Number::Varint(match text {
            b"true" | b"True" | b"t" => 1,
            b"false" | b"False" | b"f" => 0,
            _ => literal::integer(text).filter(|&value| value <= 1)?,
        }),
        _ => return None,
    })
}
