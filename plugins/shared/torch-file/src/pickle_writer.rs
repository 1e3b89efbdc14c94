//! Writes pickles for torch's `weights_only` unpickler. They use protocol 2 and only the opcodes
//! that `torch/_weights_only_unpickler.py` supports. Integers beyond 32 bits are therefore written
//! as `LONG1` (at most 255 bytes), and strings as `BINUNICODE`.
//!
//! Repeated strings and globals are memoized, so that a pickle with 100,000 tensors remains small.

use std::collections::HashMap;
use tensorferry_sdk::{Error, Result};

/// The opcodes, with their names in `Lib/pickle.py`.
mod op {
    pub(super) const PROTO: u8 = 0x80;
    pub(super) const STOP: u8 = b'.';
    pub(super) const MARK: u8 = b'(';
    pub(super) const NONE: u8 = b'N';
    pub(super) const NEWTRUE: u8 = 0x88;
    pub(super) const NEWFALSE: u8 = 0x89;
    pub(super) const BININT: u8 = b'J';
    pub(super) const BININT1: u8 = b'K';
    pub(super) const BININT2: u8 = b'M';
    pub(super) const LONG1: u8 = 0x8a;
    pub(super) const BINFLOAT: u8 = b'G';
    pub(super) const BINUNICODE: u8 = b'X';
    pub(super) const EMPTY_DICT: u8 = b'}';
    pub(super) const EMPTY_LIST: u8 = b']';
    pub(super) const EMPTY_TUPLE: u8 = b')';
    pub(super) const TUPLE: u8 = b't';
    pub(super) const TUPLE1: u8 = 0x85;
    pub(super) const TUPLE2: u8 = 0x86;
    pub(super) const TUPLE3: u8 = 0x87;
    pub(super) const APPENDS: u8 = b'e';
    pub(super) const SETITEMS: u8 = b'u';
    pub(super) const GLOBAL: u8 = b'c';
    pub(super) const REDUCE: u8 = b'R';
    pub(super) const NEWOBJ: u8 = 0x81;
    pub(super) const BUILD: u8 = b'b';
    pub(super) const BINPERSID: u8 = b'Q';
    pub(super) const BINPUT: u8 = b'q';
    pub(super) const LONG_BINPUT: u8 = b'r';
    pub(super) const BINGET: u8 = b'h';
    pub(super) const LONG_BINGET: u8 = b'j';
}

/// Maximum length in bytes of the integer in a `LONG1`.
pub const MAX_INTEGER_BYTES: usize = 255;

/// The number of an object in the memo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoId(u32);

/// A pickle under construction. Each method except `finish` appends an object, or combines objects
/// that have been appended.
#[derive(Debug)]
pub struct PickleWriter {
    bytes: Vec<u8>,
    memoised: u32,
    texts: HashMap<Box<str>, MemoId>,
    globals: HashMap<(&'static str, &'static str), MemoId>,
}

impl Default for PickleWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl PickleWriter {
    #[must_use]
    pub fn new() -> Self {
        let bytes = vec![op::PROTO, 2];
        Self { bytes, memoised: 0, texts: HashMap::new(), globals: HashMap::new() }
    }

    /// Ends the pickle. The value of the pickle is the only object that remains on the stack.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(op::STOP);
        self.bytes
    }

    /// Returns the number of bytes that have been written to the pickle.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    pub fn none(&mut self) {
        self.bytes.push(op::NONE);
    }

    pub fn bool(&mut self, value: bool) {
        self.bytes.push(if value { op::NEWTRUE } else { op::NEWFALSE });
    }

    pub fn int(&mut self, value: i64) {
        if let Ok(byte) = u8::try_from(value) {
            self.bytes.extend([op::BININT1, byte]);
        } else if let Ok(short) = u16::try_from(value) {
            self.op_with(op::BININT2, &short.to_le_bytes());
        } else if let Ok(int) = i32::try_from(value) {
            self.op_with(op::BININT, &int.to_le_bytes());
        } else {
            self.long(&value.to_le_bytes());
        }
    }

    /// Appends an integer of any length in little-endian two's complement. Without redundant sign
    /// bytes, it may have at most [`MAX_INTEGER_BYTES`] bytes.
    pub fn long(&mut self, value: &[u8]) {
        let value = trim_sign(value);
        debug_assert!(value.len() <= MAX_INTEGER_BYTES, "the caller must check the length");
        let len = u8::try_from(value.len()).unwrap_or(u8::MAX);
        self.bytes.extend([op::LONG1, len]);
        self.bytes.extend(&value[..len.into()]);
    }

    pub fn float(&mut self, value: f64) {
        self.op_with(op::BINFLOAT, &value.to_be_bytes());
    }

    /// Appends a string that probably occurs several times, such as a key of many mappings. Fails
    /// if the string is 4 GiB or longer.
    pub fn text(&mut self, text: &str) -> Result<()> {
        if let Some(&memo) = self.texts.get(text) {
            self.get(memo);
            return Ok(());
        }
        self.unique_text(text)?;
        let memo = self.put();
        self.texts.insert(text.into(), memo);
        Ok(())
    }

    /// Appends a string that occurs only once, such as the key of a storage. Fails if the string
    /// is 4 GiB or longer.
    pub fn unique_text(&mut self, text: &str) -> Result<()> {
        let len = u32::try_from(text.len())
            .map_err(|_| Error::unsupported("a string in a pickle is 4 GiB or longer"))?;
        self.op_with(op::BINUNICODE, &len.to_le_bytes());
        self.bytes.extend(text.as_bytes());
        Ok(())
    }

    /// Appends a bytes object. Protocol 2 has no opcode for bytes, so the object is written as the
    /// call `_codecs.encode(text, "latin1")`. Fails if the string is 4 GiB or longer.
    pub fn byte_string(&mut self, bytes: &[u8]) -> Result<()> {
        self.global("_codecs", "encode");
        let latin1: String = bytes.iter().map(|&byte| char::from(byte)).collect();
        self.unique_text(&latin1)?;
        self.text("latin1")?;
        self.call(2);
        Ok(())
    }

    /// Appends a class or function. The writer must define these names. They must never come from
    /// the input.
    pub fn global(&mut self, module: &'static str, name: &'static str) {
        if let Some(&memo) = self.globals.get(&(module, name)) {
            return self.get(memo);
        }
        self.bytes.push(op::GLOBAL);
        self.bytes.extend(format!("{module}\n{name}\n").as_bytes());
        let memo = self.put();
        self.globals.insert((module, name), memo);
    }

    /// Appends an empty mapping, to be filled by [`set_items`](Self::set_items).
    pub fn empty_dict(&mut self) {
        self.bytes.push(op::EMPTY_DICT);
    }

    /// Appends an empty list, to be filled by [`appends`](Self::appends).
    pub fn empty_list(&mut self) {
        self.bytes.push(op::EMPTY_LIST);
    }

    /// Appends a call of a class or function without arguments.
    pub fn call_without_arguments(&mut self, module: &'static str, name: &'static str) {
        self.global(module, name);
        self.call(0);
    }

    /// Marks where the members of a list, a mapping or a long tuple start.
    pub fn mark(&mut self) {
        self.bytes.push(op::MARK);
    }

    /// Combines all objects after the mark into a tuple.
    pub fn tuple_since_mark(&mut self) {
        self.bytes.push(op::TUPLE);
    }

    /// Combines the last `len` objects, at most three, into a tuple.
    pub fn tuple(&mut self, len: u8) {
        debug_assert!(len <= 3, "longer tuples need a mark");
        self.bytes.push(match len {
            0 => op::EMPTY_TUPLE,
            1 => op::TUPLE1,
            2 => op::TUPLE2,
            _ => op::TUPLE3,
        });
    }

    /// Appends a tuple of numbers, such as a shape or strides.
    pub fn int_tuple(&mut self, numbers: &[i64]) {
        let short = u8::try_from(numbers.len()).ok().filter(|&len| len <= 3);
        if short.is_none() {
            self.mark();
        }
        for &number in numbers {
            self.int(number);
        }
        match short {
            Some(len) => self.tuple(len),
            None => self.tuple_since_mark(),
        }
    }

    /// Appends all objects after the mark to the list before the mark.
    pub fn appends(&mut self) {
        self.bytes.push(op::APPENDS);
    }

    /// Adds the keys and values after the mark to the mapping before the mark.
    pub fn set_items(&mut self) {
        self.bytes.push(op::SETITEMS);
    }

    /// Calls the global that precedes the last `arguments` objects, and passes these objects as its
    /// arguments. `arguments` is at most three.
    pub fn call(&mut self, arguments: u8) {
        self.tuple(arguments);
        self.reduce();
    }

    /// Calls a global with a tuple of arguments. The global and the tuple are the last two objects.
    pub fn reduce(&mut self) {
        self.bytes.push(op::REDUCE);
    }

    /// Creates an object of a class with `__new__`. The class and the tuple of arguments are the
    /// last two objects.
    pub fn new_object(&mut self) {
        self.bytes.push(op::NEWOBJ);
    }

    /// Sets the attributes of an object from a mapping. The object and the mapping are the last two
    /// objects.
    pub fn build(&mut self) {
        self.bytes.push(op::BUILD);
    }

    /// Converts the last object, which is a tuple that identifies a storage, to that storage.
    pub(crate) fn persistent_id(&mut self) {
        self.bytes.push(op::BINPERSID);
    }

    /// Stores the last object in the memo.
    pub fn put(&mut self) -> MemoId {
        let memo = MemoId(self.memoised);
        self.memoised += 1;
        match u8::try_from(memo.0) {
            Ok(index) => self.bytes.extend([op::BINPUT, index]),
            Err(_) => self.op_with(op::LONG_BINPUT, &memo.0.to_le_bytes()),
        }
        memo
    }

    /// Appends an object that is in the memo.
    pub fn get(&mut self, memo: MemoId) {
        match u8::try_from(memo.0) {
            Ok(index) => self.bytes.extend([op::BINGET, index]),
            Err(_) => self.op_with(op::LONG_BINGET, &memo.0.to_le_bytes()),
        }
    }

    fn op_with(&mut self, op: u8, argument: &[u8]) {
        self.bytes.push(op);
        self.bytes.extend(argument);
    }
}

/// Removes redundant sign bytes from a little-endian two's complement integer. In a pickle, 0 is
/// encoded as zero bytes.
#[must_use]
pub fn trim_sign(value: &[u8]) -> &[u8] {
    let mut value = value;
    while let [rest @ .., last] = value {
        let before = rest.last().copied().unwrap_or(0);
        let sign = if before & 0x80 == 0 { 0 } else { 0xff };
        if *last != sign {
            break;
        }
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn pickled(write: impl FnOnce(&mut PickleWriter)) -> Vec<u8> {
        let mut pickle = PickleWriter::new();
        write(&mut pickle);
        let bytes = pickle.finish();
        assert_eq!((&bytes[..2], bytes.last()), (&[0x80, 2][..], Some(&b'.')));
        bytes[2..bytes.len() - 1].to_vec()
    }

    #[test]
    fn integers_take_the_shortest_opcode() {
        assert_eq!(pickled(|p| p.int(255)), [b'K', 255]);
        assert_eq!(pickled(|p| p.int(256)), [b'M', 0, 1]);
        assert_eq!(pickled(|p| p.int(-1)), [b'J', 255, 255, 255, 255]);
        assert_eq!(pickled(|p| p.int(1 << 31)), [0x8a, 5, 0, 0, 0, 0x80, 0]);
        assert_eq!(pickled(|p| p.int(-1 << 31)), [b'J', 0, 0, 0, 0x80]);
        assert_eq!(pickled(|p| p.int((-1 << 31) - 1)), [0x8a, 5, 255, 255, 255, 0x7f, 255]);
        assert_eq!(pickled(|p| p.int(i64::MIN)), [0x8a, 8, 0, 0, 0, 0, 0, 0, 0, 0x80]);
    }

    #[test]
    fn an_integer_loses_only_bytes_that_repeat_its_sign() {
        assert_eq!(trim_sign(&[0]), b"");
        assert_eq!(trim_sign(&[0xff, 0xff]), [0xff]);
        assert_eq!(trim_sign(&[0x7f, 0]), [0x7f]);
        assert_eq!(trim_sign(&[0x80, 0]), [0x80, 0]);
        assert_eq!(trim_sign(&[0x80, 0xff]), [0x80]);
    }

    #[test]
    fn what_returns_is_written_once() {
        let once = pickled(|p| p.text("cpu").unwrap());
        let twice = pickled(|p| {
            p.text("cpu").unwrap();
            p.text("cpu").unwrap();
        });
        assert_eq!(twice.len(), once.len() + 2);
        let many = pickled(|p| {
            for index in 0..300 {
                p.text(&index.to_string()).unwrap();
            }
            p.text("256").unwrap();
        });
        assert_eq!(many[many.len() - 5..], [b'j', 0, 1, 0, 0]);
    }

    #[test]
    fn bytes_are_text_in_latin1() {
        let bytes = pickled(|p| p.byte_string(&[0, 0xff]).unwrap());
        assert_eq!(bytes, b"c_codecs\nencode\nq\x00X\x03\0\0\0\0\xc3\xbfX\x06\0\0\0latin1q\x01\x86R");
    }
}
