//! Splits the text form into tokens: names, numbers, string literals and signs.

use std::ops::Range;
use tensorferry_sdk::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) range: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A letter or `_`, followed by letters, digits and `_`.
    Name,
    /// A sequence of digits, decimal points, exponents and `f` suffixes. The parser checks whether
    /// the sequence is a valid number.
    Number,
    /// A string literal with its quotes.
    Text,
    /// Any other single character.
    Sign(u8),
    /// The end of the text.
    End,
}

/// Splits text into tokens, with one token of lookahead.
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    file: &'a str,
    next: Token,
}

impl<'a> Lexer<'a> {
    /// Creates a lexer at the beginning of `text`. Errors contain the name `file`.
    pub(crate) fn new(text: &'a [u8], file: &'a str) -> Result<Self> {
        let next = Token { kind: Kind::End, range: 0..0 };
        let mut lexer = Self { text, file, next };
        lexer.next = lexer.scan(0)?;
        Ok(lexer)
    }

    /// Returns the kind of the next token without consuming the token.
    pub(crate) fn peek(&self) -> Kind {
        self.next.kind
    }

    /// Consumes and returns the next token.
    pub(crate) fn take(&mut self) -> Result<Token> {
        let following = self.scan(self.next.range.end)?;
        Ok(std::mem::replace(&mut self.next, following))
    }

    /// Consumes the next token if it is this sign.
    pub(crate) fn take_sign(&mut self, sign: u8) -> Result<bool> {
        let is_next = self.peek() == Kind::Sign(sign);
        if is_next {
            self.take()?;
        }
        Ok(is_next)
    }

    /// Returns the characters of a token.
    pub(crate) fn text(&self, token: &Token) -> &'a [u8] {
        self.text.get(token.range.clone()).unwrap_or_default()
    }

    /// Returns an error that points to the next token.
    pub(crate) fn expected(&self, what: &str) -> Error {
        self.error(&self.next, "invalid text form").expected(what)
    }

    /// Returns an error that points to a token.
    pub(crate) fn error(&self, token: &Token, message: &str) -> Error {
        // The message contains only the beginning of the token, because a string literal may be a
        // whole tensor.
        let shown = String::from_utf8_lossy(self.text(token)).chars().take(40).collect::<String>();
        let found = if token.kind == Kind::End { "the end".to_owned() } else { format!("{shown:?}") };
        self.at(token.range.start, message).found(found)
    }

    fn at(&self, offset: usize, message: &str) -> Error {
        Error::malformed(message).file(self.file).offset(offset as u64)
    }

    fn scan(&self, from: usize) -> Result<Token> {
        let start = self.skip_blank(from);
        let rest = self.text.get(start..).unwrap_or_default();
        let run = |fits: fn(u8) -> bool| rest.iter().take_while(|&&byte| fits(byte)).count();
        let (kind, len) = match rest {
            [] => (Kind::End, 0),
            [first, ..] if is_letter(*first) => (Kind::Name, run(is_letter_or_digit)),
            [first, ..] if first.is_ascii_digit() => (Kind::Number, number_len(rest)),
            [b'.', second, ..] if second.is_ascii_digit() => (Kind::Number, number_len(rest)),
            [quote @ (b'"' | b'\''), ..] => (Kind::Text, self.literal_len(start, rest, *quote)?),
            [sign, ..] => (Kind::Sign(*sign), 1),
        };
        Ok(Token { kind, range: start..start + len })
    }

    /// Returns the offset of the first character after white space and comments.
    fn skip_blank(&self, from: usize) -> usize {
        let mut comment = false;
        let blank = |&&byte: &&u8| {
            comment = byte != b'\n' && (comment || byte == b'#');
            comment || byte.is_ascii_whitespace() || byte == 0x0b
        };
        from + self.text.get(from..).unwrap_or_default().iter().take_while(blank).count()
    }

    fn literal_len(&self, start: usize, rest: &[u8], quote: u8) -> Result<usize> {
        let mut index = 1;
        loop {
            match rest.get(index) {
                Some(b'\\') => index += 2,
                Some(&byte) if byte == quote => return Ok(index + 1),
                Some(b'\n') | None => return Err(self.at(start, "a string does not end on the same line")),
                Some(_) => index += 1,
            }
        }
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn is_letter_or_digit(byte: u8) -> bool {
    is_letter(byte) || byte.is_ascii_digit()
}

/// Returns the number of leading letters, digits, decimal points and exponent signs.
fn number_len(rest: &[u8]) -> usize {
    let hex = matches!(rest, [b'0', b'x' | b'X', ..]);
    let mut before = 0;
    let in_number = |&&byte: &&u8| {
        let signed = !hex && matches!(before, b'e' | b'E') && matches!(byte, b'+' | b'-');
        before = byte;
        signed || byte == b'.' || is_letter_or_digit(byte)
    };
    rest.iter().take_while(in_number).count()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn tokens(text: &str) -> Vec<(Kind, String)> {
        let mut lexer = Lexer::new(text.as_bytes(), "x").unwrap();
        let mut tokens = Vec::new();
        while lexer.peek() != Kind::End {
            let token = lexer.take().unwrap();
            tokens.push((token.kind, String::from_utf8(lexer.text(&token).to_vec()).unwrap()));
        }
        tokens
    }

    #[test]
    fn tokens_are_told_apart() {
        let expected = [
            (Kind::Name, "a_1"),
            (Kind::Sign(b':'), ":"),
            (Kind::Sign(b'-'), "-"),
            (Kind::Number, "1.5e-3f"),
            (Kind::Number, "0x1e"),
            (Kind::Sign(b'-'), "-"),
            (Kind::Number, ".5"),
            (Kind::Text, r##""a\"#""##),
            (Kind::Text, "'\"'"),
            (Kind::Sign(b'}'), "}"),
        ];
        let expected: Vec<_> = expected.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect();
        assert_eq!(tokens("a_1 : # b: 'c\n-1.5e-3f 0x1e-.5 \"a\\\"#\"'\"'}#"), expected);
    }

    #[test]
    fn strings_end_on_their_line() {
        for text in ["\"a", "\"a\nb\"", "'a\"", "\"\\"] {
            assert!(Lexer::new(text.as_bytes(), "x").is_err(), "{text}");
        }
    }
}
