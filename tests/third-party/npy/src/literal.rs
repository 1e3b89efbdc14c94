//! A literal is the one Python expression that a header holds: a dict of three known keys.
//!
//! It is scanned, not evaluated, from left to right and without recursion: nothing nests here
//! except the tuple of the shape.

use tensorferry_sdk::{Error, Result};

/// What the dict says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Literal<'a> {
    pub(crate) descr: &'a str,
    pub(crate) fortran_order: bool,
    pub(crate) shape: Vec<u64>,
}

/// Reads the dict in `text`, which lies at `offset` in its file.
///
/// # Errors
/// Malformed, with the offset; unsupported, if the dtype is structured.
pub(crate) fn parse(text: &[u8], offset: u64) -> Result<Literal<'_>> {
    let mut scanner = Scanner { text, at: 0, offset };
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    scanner.expect(b'{')?;
    while !scanner.take(b'}') {
        let key = scanner.string()?;
        scanner.expect(b':')?;
        let is_new = match key {
            "descr" => descr.replace(scanner.descr()?).is_none(),
            "fortran_order" => fortran_order.replace(scanner.boolean()?).is_none(),
            "shape" => shape.replace(scanner.shape()?).is_none(),
            _ => return Err(scanner.error("descr, fortran_order or shape")),
        };
        if !is_new {
            return Err(scanner.error("each key once"));
        }
        if !scanner.take(b',') {
            scanner.expect(b'}')?;
            break;
        }
    }
    scanner.skip_spaces();
    match (descr, fortran_order, shape) {
        _ if scanner.at < text.len() => Err(scanner.error("nothing after the dict")),
        (Some(descr), Some(fortran_order), Some(shape)) => Ok(Literal { descr, fortran_order, shape }),
        _ => Err(scanner.error("descr, fortran_order and shape")),
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    offset: u64,
}

impl<'a> Scanner<'a> {
    fn error(&self, expected: &str) -> Error {
        let rest = &self.text[self.at.min(self.text.len())..];
        let found = String::from_utf8_lossy(&rest[..rest.len().min(24)]).into_owned();
        Error::malformed("the array's header is not the dict that numpy writes")
            .offset(self.offset + self.at as u64)
            .expected(expected)
            .found(format!("{found:?}"))
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    /// Whether `byte` is next; it is stepped over then, and spaces before it in any case.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_spaces();
        let is_next = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.take(byte) { Ok(()) } else { Err(self.error(&char::from(byte).to_string())) }
    }

    fn string(&mut self) -> Result<&'a str> {
        let quote = if self.take(b'"') { b'"' } else { b'\'' };
        if quote == b'\'' {
            self.expect(quote)?;
        }
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|&byte| byte == quote || byte == b'\\');
        let text = len.map(|len| &rest[..len]).and_then(|text| std::str::from_utf8(text).ok());
        let (Some(text), true) = (text, len.is_some_and(|len| rest[len] == quote)) else {
            return Err(self.error("a plain string"));
        };
        self.at += text.len() + 1;
        Ok(text)
    }

    fn descr(&mut self) -> Result<&'a str> {
        if self.take(b'[') || self.take(b'(') {
            return Err(Error::unsupported("an array of a structured dtype"));
        }
        self.string()
    }

    fn boolean(&mut self) -> Result<bool> {
        self.skip_spaces();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.error("True or False"))
    }

    /// A tuple of integers; one of a single element ends in a comma.
    fn shape(&mut self) -> Result<Vec<u64>> {
        self.expect(b'(')?;
        let mut shape = Vec::new();
        while !self.take(b')') {
            shape.push(self.integer()?);
            if self.take(b',') {
                continue;
            }
            if shape.len() == 1 {
                return Err(self.error("a comma: (5) is a number, (5,) a shape"));
            }
            self.expect(b')')?;
            break;
        }
        Ok(shape)
    }

    fn integer(&mut self) -> Result<u64> {
        self.skip_spaces();
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.iter().take_while(|byte| byte.is_ascii_digit()).count()];
        let value = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let value = value.ok_or_else(|| self.error("a dimension of 64 bits"))?;
        self.at += digits.len();
        // Python 2 wrote its long integers so.
        self.take(b'L');
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::ErrorKind;

    #[test]
    fn what_numpy_writes_is_read() {
        let shapes: [(&str, &[u64]); 5] =
            [("()", &[]), ("(3,)", &[3]), ("(3, 4)", &[3, 4]), ("(0, 2,)", &[0, 2]), ("(3L, 4L)", &[3, 4])];
        for (text, shape) in shapes {
            let dict = format!("{{'descr': '<f4', 'fortran_order': True, 'shape': {text}, }}   \n");
            let literal = parse(dict.as_bytes(), 10).unwrap();
            assert_eq!(literal, Literal { descr: "<f4", fortran_order: true, shape: shape.to_vec() });
        }
        assert!(parse(br#"{"shape":(1,),"fortran_order":False,"descr":"|b1"}"#, 10).is_ok());
    }

    #[test]
    fn anything_else_is_refused_with_its_offset() {
        let dicts = [
            "",
            "{",
            "{}",
            "{'descr': '<f4', 'fortran_order': True}",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': True, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (), 'extra': 1}",
            "{'descr': '<f4', 'fortran_order': 1, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (3)}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (-3,)}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (((((",
            "{'descr': '\\x3cf4', 'fortran_order': True, 'shape': ()}",
            "{'descr': '<f4, 'fortran_order': True, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': ()} + 1",
            "__import__('os').system('true')",
        ];
        for dict in dicts {
            let error = parse(dict.as_bytes(), 10).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{dict}");
            assert!(error.details().any(|(name, _)| name == "offset"), "{error}");
        }
        let structured = b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}";
        assert_eq!(parse(structured, 10).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
