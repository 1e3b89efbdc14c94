//! Parses the Python literal in a header. It can contain dicts, lists, tuples, strings, integers
//! and booleans. The text is scanned from left to right without recursion, and is never evaluated.
//!
//! `ast.literal_eval` also accepts floats, sets, bytes and sums, but numpy does not accept these in
//! a header.

use tensorferry_sdk::{Error, Result};

/// Maximum depth of nested brackets: the header's dict, a structure, its fields, and nested
/// structures.
const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Literal {
    Text(String),
    Int(i128),
    Bool(bool),
    List(Vec<Literal>),
    Tuple(Vec<Literal>),
    Dict(Vec<(Literal, Literal)>),
}

/// Python versions that may have written a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PythonVersion {
    /// Python 2 or 3. In Python 2, integers may end with `L`.
    Any,
    Three,
}

/// Parses the value in `text`, which is at `offset` in its file.
pub(crate) fn parse(text: &str, offset: u64, python: PythonVersion, max: u64) -> Result<Literal> {
    let mut scanner = Scanner { text: text.as_bytes(), at: 0, offset, python };
    let mut open: Vec<OpenBracket> = Vec::new();
    let mut count = 0_u64;
    loop {
        count += 1;
        if count > max {
            return Err(Error::limit("an array's header has too many values").offset(offset).found(count));
        }
        scanner.skip_blank();
        let mut value = match scanner.peek() {
            Some(b'(') => {
                scanner.begin(&mut open, OpenBracket::Tuple(Vec::new(), false))?;
                match scanner.take(b')') {
                    true => close(&mut open),
                    false => continue,
                }
            }
            Some(b'[') => {
                scanner.begin(&mut open, OpenBracket::List(Vec::new()))?;
                match scanner.take(b']') {
                    true => close(&mut open),
                    false => continue,
                }
            }
            Some(b'{') => {
                scanner.begin(&mut open, OpenBracket::Dict(Vec::new(), None))?;
                match scanner.take(b'}') {
                    true => close(&mut open),
                    false => continue,
                }
            }
            _ => scanner.atom()?,
        };
        // The value is complete. It may also be the last item in one or more enclosing brackets.
        loop {
            let Some(innermost) = open.last_mut() else {
                scanner.skip_blank();
                return if scanner.peek().is_none() { Ok(value) } else { Err(scanner.error("nothing more")) };
            };
            let end = match innermost {
                OpenBracket::List(items) => {
                    items.push(value);
                    b']'
                }
                OpenBracket::Tuple(items, _) => {
                    items.push(value);
                    b')'
                }
                OpenBracket::Dict(_, key @ None) => {
                    *key = Some(value);
                    scanner.expect(b':')?;
                    break;
                }
                OpenBracket::Dict(items, key @ Some(_)) => {
                    items.extend(key.take().map(|key| (key, value)));
                    b'}'
                }
            };
            if scanner.take(b',') {
                if let OpenBracket::Tuple(_, comma) = innermost {
                    *comma = true;
                }
                if !scanner.take(end) {
                    break;
                }
            } else {
                scanner.expect(end)?;
            }
            value = close(&mut open);
        }
    }
}

/// A bracket that has not been closed.
enum OpenBracket {
    List(Vec<Literal>),
    /// The items, and whether a comma was seen. Without a comma, `(3)` is a number instead of a
    /// tuple.
    Tuple(Vec<Literal>, bool),
    /// The entries, and the key whose value is expected next.
    Dict(Vec<(Literal, Literal)>, Option<Literal>),
}

fn close(open: &mut Vec<OpenBracket>) -> Literal {
    match open.pop() {
        Some(OpenBracket::List(items)) => Literal::List(items),
        Some(OpenBracket::Tuple(mut items, false)) if items.len() == 1 => items.remove(0),
        Some(OpenBracket::Tuple(items, _)) => Literal::Tuple(items),
        Some(OpenBracket::Dict(items, _)) => Literal::Dict(items),
        None => Literal::Tuple(Vec::new()),
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    offset: u64,
    python: PythonVersion,
}

impl<'a> Scanner<'a> {
    fn error(&self, expected: &str) -> Error {
        let rest = self.rest();
        let found = String::from_utf8_lossy(&rest[..rest.len().min(24)]).into_owned();
        Error::malformed("the array's header is not a plain Python literal")
            .offset(self.offset + self.at as u64)
            .expected(expected)
            .found(format!("{found:?}"))
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// Skips whitespace and comments.
    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if self.peek() != Some(b'#') {
                return;
            }
            self.at += self.rest().iter().take_while(|&&byte| byte != b'\n').count();
        }
    }

    /// Skips whitespace and comments, and then consumes `byte` if it is next. Returns whether
    /// `byte` was consumed.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_blank();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.take(byte) { Ok(()) } else { Err(self.error(&char::from(byte).to_string())) }
    }

    /// Opens a bracket and consumes its first byte.
    fn begin(&mut self, open: &mut Vec<OpenBracket>, bracket: OpenBracket) -> Result<()> {
        if open.len() == MAX_DEPTH {
            return Err(self.error(&format!("at most {MAX_DEPTH} nested brackets")));
        }
        self.at += 1;
        open.push(bracket);
        Ok(())
    }

    /// Parses a string, an integer, `True` or `False`.
    fn atom(&mut self) -> Result<Literal> {
        let rest = self.rest();
        let unprefixed = rest.strip_prefix(b"u").or(rest.strip_prefix(b"U")).unwrap_or(rest);
        if matches!(unprefixed.first(), Some(b'\'' | b'"')) {
            self.at += rest.len() - unprefixed.len();
            return self.text().map(Literal::Text);
        }
        let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let sign = usize::from(matches!(rest.first(), Some(b'-' | b'+')));
        let word = &rest[sign..];
        let word = &word[..word.iter().take_while(is_word).count()];
        let value = match (word, sign) {
            (b"True", 0) => Some(Literal::Bool(true)),
            (b"False", 0) => Some(Literal::Bool(false)),
            _ => integer(word, self.python)
                .map(|value| Literal::Int(if sign == 1 && rest[0] == b'-' { -value } else { value })),
        };
        let value = value.ok_or_else(|| self.error("a string, an integer, True or False"))?;
        self.at += sign + word.len();
        Ok(value)
    }

    fn text(&mut self) -> Result<String> {
        let quote = self.peek();
        let start = self.at;
        let mut bytes = Vec::new();
        self.at += 1;
        loop {
            let Some(byte) = self.peek().filter(|&byte| byte != b'\n') else {
                self.at = start;
                return Err(self.error("the end of the string"));
            };
            self.at += 1;
            match byte {
                byte if Some(byte) == quote => break,
                b'\\' => {
                    let mut buffer = [0; 4];
                    bytes.extend(self.escaped()?.encode_utf8(&mut buffer).as_bytes());
                }
                byte => bytes.push(byte),
            }
        }
        // The conversion cannot fail, because the input is UTF-8 and is split only at ASCII
        // characters.
        String::from_utf8(bytes).map_err(|_| self.error("UTF-8"))
    }

    /// Parses the part of an escape sequence that follows the backslash.
    fn escaped(&mut self) -> Result<char> {
        let kind = self.peek();
        let digits = match kind {
            Some(b'x') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => 0,
        };
        let plain = match kind {
            Some(byte @ (b'\\' | b'\'' | b'"')) => Some(char::from(byte)),
            Some(b'n') => Some('\n'),
            Some(b'r') => Some('\r'),
            Some(b't') => Some('\t'),
            _ => self.rest().get(1..=digits).filter(|_| digits > 0).and_then(|hex| {
                u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok().and_then(char::from_u32)
            }),
        };
        let plain = plain.ok_or_else(|| self.error("an escape that Python's repr writes"))?;
        self.at += 1 + digits;
        Ok(plain)
    }
}

/// Parses a Python integer: decimal, hexadecimal, octal or binary, with `_` between digits.
fn integer(word: &[u8], python: PythonVersion) -> Option<i128> {
    let word = std::str::from_utf8(word).ok()?;
    let word =
        if python == PythonVersion::Any { word.strip_suffix(['L', 'l']).unwrap_or(word) } else { word };
    let lower = word.to_ascii_lowercase();
    let (digits, radix) = match lower.get(..2) {
        Some("0x") => (&lower[2..], 16),
        Some("0o") => (&lower[2..], 8),
        Some("0b") => (&lower[2..], 2),
        _ => (&*lower, 10),
    };
    let in_prefix = radix != 10;
    let sane =
        digits.split('_').enumerate().all(|(part, digits)| !digits.is_empty() || (part == 0 && in_prefix));
    // `010` was octal in Python 2 and is invalid in Python 3.
    let leading = radix == 10
        && digits.len() > 1
        && digits.starts_with('0')
        && digits.contains(|c| !matches!(c, '0' | '_'));
    if !sane || leading {
        return None;
    }
    i128::from_str_radix(&digits.replace('_', ""), radix).ok()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    fn read(text: &str) -> Result<Literal> {
        parse(text, 10, PythonVersion::Any, 1000)
    }

    fn ints(values: &[i128]) -> Literal {
        Literal::Tuple(values.iter().map(|&value| Literal::Int(value)).collect())
    }

    #[test]
    fn values_are_pythons() {
        for (text, value) in [
            ("()", ints(&[])),
            (" ( 3 , ) ", ints(&[3])),
            ("(3)", Literal::Int(3)),
            ("(2L, 0x10, 1_000, -1, +0b1, 00)", ints(&[2, 16, 1000, -1, 1, 0])),
            ("[True, False] # why\n", Literal::List(vec![Literal::Bool(true), Literal::Bool(false)])),
            (r#"u"a'\x41\u00e9\\""#, Literal::Text("a'A\u{e9}\\".to_owned())),
            ("{'a': {}, }", Literal::Dict(vec![(Literal::Text("a".to_owned()), Literal::Dict(vec![]))])),
            ("((1, 2), ((3)),)", Literal::Tuple(vec![ints(&[1, 2]), Literal::Int(3)])),
        ] {
            assert_eq!(read(text).unwrap(), value, "{text}");
        }
        assert!(parse("2L", 0, PythonVersion::Three, 10).is_err());
    }

    #[test]
    fn anything_else_is_refused_where_it_stands() {
        let deep = "(".repeat(4000);
        for text in [
            "",
            "{",
            "(,)",
            "(1,,)",
            "[1)",
            "{'a'}",
            "{'a': }",
            "'a",
            "'a\n'",
            "'\\q'",
            "1.5",
            "None",
            "010",
            "1__0",
            "_1",
            "f(1)",
            "1 + 1",
            "b'a'",
            "0x",
            "1 2",
            "340282366920938463463374607431768211456",
            &deep,
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{text}");
            assert!(error.details().any(|(name, _)| name == "offset"), "{error}");
        }
        assert_eq!(parse("[1, 2, 3]", 0, PythonVersion::Any, 3).unwrap_err().kind(), ErrorKind::Limit);
    }
}
