//! Decodes the instructions of a pickle and their arguments. Checks that all arguments are inside
//! the input.

use super::literal::{self, Integer};
use std::borrow::Cow;
use tensorferry_sdk::{Error, Result};

/// An instruction. The comment on a variant lists the bytes that encode it in the pickle.
#[derive(Debug, PartialEq)]
pub(super) enum Op<'a> {
    /// `80`.
    Protocol(u8),
    /// `95`: the total length in bytes of the following instructions.
    Frame(u64),
    /// `.`.
    Stop,
    /// `(`.
    Mark,
    /// `0`.
    Pop,
    /// `1`.
    PopMark,
    /// `2`.
    Dup,
    /// `N`.
    None,
    /// `88`, `89`, and `I` with `00` or `01`.
    Bool(bool),
    /// `I`, `J`, `K`, `L`, `M`, `8a`, `8b`.
    Int(i64),
    /// An integer that does not fit into 64 bits, in the same encoding as `Int`.
    Long(Box<[u8]>),
    /// `F`, `G`.
    Float(f64),
    /// `V`, `X`, `8c`, `8d`: UTF-8 with `surrogatepass`.
    Text(Cow<'a, [u8]>),
    /// `S`, `T`, `U`: a Python 2 string in an unknown encoding.
    OldText(Cow<'a, [u8]>),
    /// `B`, `C`, `8e`.
    Bytes(&'a [u8]),
    /// `96`.
    ByteArray(&'a [u8]),
    /// `]`.
    EmptyList,
    /// `}`.
    EmptyDict,
    /// `8f`.
    EmptySet,
    /// `l`.
    List,
    /// `d`.
    Dict,
    /// `t`.
    Tuple,
    /// `)`, `85`, `86`, `87`: a tuple with this number of items.
    TupleOf(usize),
    /// `91`.
    FrozenSet,
    /// `a`.
    Append,
    /// `e`.
    Appends,
    /// `s`.
    SetItem,
    /// `u`.
    SetItems,
    /// `90`.
    AddItems,
    /// `g`, `h`, `j`.
    Get(u64),
    /// `p`, `q`, `r`.
    Put(u64),
    /// `94`.
    Memoize,
    /// `c`: module and name.
    Global(&'a str, &'a str),
    /// `93`.
    StackGlobal,
    /// `i`: module and name.
    Instance(&'a str, &'a str),
    /// `o`.
    Object,
    /// `81`.
    New,
    /// `92`.
    NewWithKeywords,
    /// `R`.
    Reduce,
    /// `b`.
    Build,
    /// `P`.
    PersistentText(&'a str),
    /// `Q`.
    Persistent,
}

/// Decodes instructions from the start of a pickle.
pub(super) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    /// Number of missing bytes, if the input was too short for the last instruction.
    missing: u64,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(bytes: &'a [u8], base: u64) -> Self {
        Self::resume(bytes, 0, base)
    }

    /// Creates a decoder that starts at position `at`. Another decoder must have reached this
    /// position.
    pub(super) fn resume(bytes: &'a [u8], at: usize, base: u64) -> Self {
        Self { bytes, at, base, missing: 0 }
    }

    /// Returns the minimum number of bytes by which the input was too short for the last
    /// instruction. Returns 0 if the instruction failed for a different reason.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the position of the next instruction.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Returns the number of bytes that have not been decoded.
    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Adds the offset of an instruction to an error.
    pub(super) fn place(&self, error: Error, position: usize) -> Error {
        error.offset(self.base.saturating_add(position as u64))
    }

    /// Decodes the next instruction.
    pub(super) fn next(&mut self) -> Result<Op<'a>> {
        let start = self.at;
        self.op().map_err(|error| self.place(error, start))
    }

    #[expect(clippy::too_many_lines, reason = "one row for each of the 68 instructions")]
    fn op(&mut self) -> Result<Op<'a>> {
        let [code] = self.array()?;
        Ok(match code {
            0x80 => Op::Protocol(self.byte()?),
            0x95 => Op::Frame(u64::from_le_bytes(self.array()?)),
            b'.' => Op::Stop,
            b'(' => Op::Mark,
            b'0' => Op::Pop,
            b'1' => Op::PopMark,
            b'2' => Op::Dup,
            b'N' => Op::None,
            0x88 => Op::Bool(true),
            0x89 => Op::Bool(false),
            b'I' => match self.line()? {
                "00" => Op::Bool(false),
                "01" => Op::Bool(true),
                text => integer(literal::decimal(text).ok_or_else(|| not_a_number(text))?),
            },
            b'J' => Op::Int(i32::from_le_bytes(self.array()?).into()),
            b'K' => Op::Int(self.byte()?.into()),
            b'M' => Op::Int(u16::from_le_bytes(self.array()?).into()),
            b'L' => {
                let text = self.line()?;
                let digits = text.strip_suffix('L').unwrap_or(text);
                integer(literal::decimal(digits).ok_or_else(|| not_a_number(text))?)
            }
            0x8a => integer(literal::integer(self.counted::<1>()?)),
            0x8b => integer(literal::integer(self.signed_counted()?)),
            b'F' => {
                let text = self.line()?;
                Op::Float(text.parse().map_err(|_| not_a_number(text))?)
            }
            b'G' => Op::Float(f64::from_be_bytes(self.array()?)),
            b'V' => {
                let line = self.line_bytes()?;
                Op::Text(
                    literal::raw_unicode(line)
                        .ok_or_else(|| {
                            Error::malformed("an escape in a string is truncated or beyond Unicode")
                        })?
                        .into(),
                )
            }
            b'X' => Op::Text(self.utf8::<4>()?),
            0x8c => Op::Text(self.utf8::<1>()?),
            0x8d => Op::Text(self.utf8::<8>()?),
            b'S' => {
                let line = self.line_bytes()?;
                Op::OldText(
                    literal::quoted(line)
                        .ok_or_else(|| {
                            Error::malformed("invalid quotes or escapes in a string of protocol 0")
                        })?
                        .into(),
                )
            }
            b'T' => Op::OldText(self.signed_counted()?.into()),
            b'U' => Op::OldText(self.counted::<1>()?.into()),
            b'B' => Op::Bytes(self.counted::<4>()?),
            b'C' => Op::Bytes(self.counted::<1>()?),
            0x8e => Op::Bytes(self.counted::<8>()?),
            0x96 => Op::ByteArray(self.counted::<8>()?),
            b']' => Op::EmptyList,
            b'}' => Op::EmptyDict,
            0x8f => Op::EmptySet,
            b'l' => Op::List,
            b'd' => Op::Dict,
            b't' => Op::Tuple,
            b')' => Op::TupleOf(0),
            0x85 => Op::TupleOf(1),
            0x86 => Op::TupleOf(2),
            0x87 => Op::TupleOf(3),
            0x91 => Op::FrozenSet,
            b'a' => Op::Append,
            b'e' => Op::Appends,
            b's' => Op::SetItem,
            b'u' => Op::SetItems,
            0x90 => Op::AddItems,
            b'g' => Op::Get(self.memo_number()?),
            b'h' => Op::Get(self.byte()?.into()),
            b'j' => Op::Get(u32::from_le_bytes(self.array()?).into()),
            b'p' => Op::Put(self.memo_number()?),
            b'q' => Op::Put(self.byte()?.into()),
            b'r' => Op::Put(u32::from_le_bytes(self.array()?).into()),
            0x94 => Op::Memoize,
            b'c' => Op::Global(self.line()?, self.line()?),
            0x93 => Op::StackGlobal,
            b'i' => Op::Instance(self.line()?, self.line()?),
            b'o' => Op::Object,
            0x81 => Op::New,
            0x92 => Op::NewWithKeywords,
            b'R' => Op::Reduce,
            b'b' => Op::Build,
            b'P' => Op::PersistentText(self.line()?),
            b'Q' => Op::Persistent,
            0x82..=0x84 => {
                return Err(Error::unsupported("the pickle uses Python's extension registry"));
            }
            0x97 | 0x98 => {
                return Err(Error::unsupported("the pickle requires a buffer from outside the file"));
            }
            _ => {
                return Err(Error::malformed("unknown pickle instruction; protocols 0 to 5 are supported")
                    .found(format!("byte 0x{code:02x}")));
            }
        })
    }

    /// Consumes the next `len` bytes and returns them.
    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let Some(taken) = taken else {
            self.missing = len.saturating_sub(self.remaining() as u64).max(1);
            return Err(Error::malformed("the pickle ends inside an instruction")
                .expected(format!("{len} bytes more"))
                .found(self.remaining()));
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Consumes a length that is stored in `N` bytes, and then that number of bytes. Returns those
    /// bytes.
    fn counted<const N: usize>(&mut self) -> Result<&'a [u8]> {
        let mut len = [0; 8];
        len[..N].copy_from_slice(&self.array::<N>()?);
        self.take(u64::from_le_bytes(len))
    }

    /// Consumes a signed length, and then that number of bytes. Returns those bytes.
    fn signed_counted(&mut self) -> Result<&'a [u8]> {
        let len = i32::from_le_bytes(self.array()?);
        self.take(u64::try_from(len).map_err(|_| Error::malformed("a length is negative").found(len))?)
    }

    fn utf8<const N: usize>(&mut self) -> Result<Cow<'a, [u8]>> {
        let bytes = self.counted::<N>()?;
        if literal::check_text(bytes) {
            Ok(bytes.into())
        } else {
            Err(Error::malformed("a string is not UTF-8"))
        }
    }

    fn line_bytes(&mut self) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|&byte| byte == b'\n');
        let Some(len) = len else {
            self.missing = 1;
            return Err(Error::malformed("the pickle ends inside a line"));
        };
        self.at += len + 1;
        Ok(&rest[..len])
    }

    fn line(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.line_bytes()?).map_err(|_| Error::malformed("a line is not UTF-8"))
    }

    fn memo_number(&mut self) -> Result<u64> {
        let line = self.line()?;
        line.parse().map_err(|_| Error::malformed("invalid memo number").found(format!("{line:.40?}")))
    }
}

fn integer<'a>(value: Integer) -> Op<'a> {
    match value {
        Integer::Short(value) => Op::Int(value),
        Integer::Long(bytes) => Op::Long(bytes),
    }
}

fn not_a_number(text: &str) -> Error {
    Error::malformed("invalid decimal number, or too many digits")
        .expected(format!("at most {} digits", literal::MAX_DIGITS))
        .found(format!("{text:.40?}"))
}
