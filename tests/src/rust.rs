//! Rust's sources as words, marks and strings: as much of the language as the architecture's tests need.

/// A part of a source; comments are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A name, a keyword or a number.
    Word(String),
    /// What a string literal has between its quotes, escapes as they are written.
    Text(String),
    /// One character of punctuation.
    Mark(char),
}

impl Token {
    /// Whether it is this word.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }

    /// The word that it is.
    pub fn word(&self) -> Option<&str> {
        if let Self::Word(word) = self { Some(word) } else { None }
    }
}

/// The tokens of a source.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            comment_len(rest)
        } else if let Some((open, hashes)) = opening_quote(rest) {
            let body = &rest[open..];
            let close = format!("\"{}", "#".repeat(hashes.unwrap_or(0)));
            let end = if hashes.is_some() { body.find(&close) } else { end_of_text(body) };
            let end = end.unwrap_or(body.len());
            found.push(Token::Text(body[..end].to_owned()));
            (open + end + close.len()).min(rest.len())
        } else if first == '\'' {
            character_len(rest)
        } else if is_word(first) {
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            found.push(Token::Word(rest[..len].to_owned()));
            len
        } else {
            if !first.is_whitespace() {
                found.push(Token::Mark(first));
            }
            first.len_utf8()
        };
        rest = &rest[len..];
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Block comments nest.
fn comment_len(source: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < source.len() {
        let rest = &source[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// How long the start of a string literal is; of a raw one, with how many hashes it ends.
fn opening_quote(source: &str) -> Option<(usize, Option<usize>)> {
    // The longest prefix has two letters.
    let (prefix, _) = source.char_indices().take(3).find(|(_, c)| ['"', '#'].contains(c))?;
    if !["", "b", "c", "r", "br", "cr"].contains(&&source[..prefix]) {
        return None;
    }
    let hashes = source[prefix..].chars().take_while(|&c| c == '#').count();
    let is_raw = source[..prefix].ends_with('r');
    let is_string = source[prefix + hashes..].starts_with('"') && (is_raw || hashes == 0);
    is_string.then_some((prefix + hashes + 1, is_raw.then_some(hashes)))
}

fn end_of_text(body: &str) -> Option<usize> {
    let mut is_escaped = false;
    body.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

/// A character, or the mark of a lifetime.
fn character_len(source: &str) -> usize {
    let body = &source[1..];
    if body.starts_with('\\') {
        let escaped = body.char_indices().nth(1).map_or(1, |(_, c)| 1 + c.len_utf8());
        return body[escaped..].find('\'').map_or(source.len(), |at| 1 + escaped + at + 1);
    }
    let first = body.chars().next().map_or(0, char::len_utf8);
    if body[first..].starts_with('\'') { 1 + first + 1 } else { 1 }
}

/// The tokens without what stands under `#[cfg(test)]`, and the names of the modules among that.
pub fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut rest = tokens;
    while let Some(first) = rest.first() {
        if !is_test_attribute(rest) {
            kept.push(first.clone());
            rest = &rest[1..];
            continue;
        }
        let item = &rest[group_len(&rest[1..]) + 1..];
        let len = item_len(item);
        let name = item[..len].iter().position(|token| token.is_word("mod"));
        modules.extend(name.and_then(|at| item.get(at + 1)?.word()).map(str::to_owned));
        rest = &item[len..];
    }
    (kept, modules)
}

fn is_test_attribute(tokens: &[Token]) -> bool {
    let mut start = tokens.iter().take(8).filter(|token| !token.is_word("all") && !token.is_word("any"));
    let mut next = |expected: &Token| start.next() == Some(expected);
    next(&Token::Mark('#'))
        && next(&Token::Mark('['))
        && next(&Token::Word("cfg".into()))
        && next(&Token::Mark('('))
        && start.find(|token| **token != Token::Mark('(')).is_some_and(|token| token.is_word("test"))
}

/// How many tokens a bracketed group at the start has.
fn group_len(tokens: &[Token]) -> usize {
    let mut depth = 0;
    let end = tokens.iter().position(|token| {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    end.map_or(tokens.len(), |end| end + 1)
}

/// How many tokens the item at the start has: up to its semicolon, or to the end of its braces.
fn item_len(tokens: &[Token]) -> usize {
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            Token::Mark(';') => return at + 1,
            Token::Mark('{') => {
                let end = at + group_len(&tokens[at..]);
                return end + usize::from(tokens.get(end) == Some(&Token::Mark(';')));
            }
            Token::Mark('(' | '[') => at += group_len(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> String {
        let (kept, modules) = without_tests(&tokens(source));
        let shown = kept.iter().map(|token| match token {
            Token::Word(word) => word.clone(),
            Token::Text(text) => format!("<{text}>"),
            Token::Mark(mark) => mark.to_string(),
        });
        shown.chain(modules.iter().map(|name| format!("-{name}"))).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_strings_and_characters_are_told_apart() {
        assert_eq!(words("a /* b /* c */ d */ e // f\ng"), "a e g");
        assert_eq!(words(r#"f("a\"b", 'x', '\'', '"', b"c")"#), "f ( <a\\\"b> , , , , <c> )");
        assert_eq!(words("r#\"a \"b\" \\\"# r\"\\\" x"), "<a \"b\" \\> <\\> x");
        assert_eq!(words("&'a str 'static"), "& a str static");
        assert_eq!(words("'\\u{1f}' r#type"), "r # type");
    }

    #[test]
    fn tests_are_left_out() {
        assert_eq!(words("a #[cfg(test)] mod tests { fn f() { } } b"), "a b -tests");
        assert_eq!(words("#[cfg(test)] #[path = \"x\"] mod far; b"), "b -far");
        assert_eq!(words("#[cfg(all(test, unix))] fn f(a: [u8; 2]) -> u8 { 1 } b"), "b");
        assert_eq!(words("#[cfg(test)] use a::{b, c}; d"), "d");
        assert_eq!(words("#[cfg(not(test))] fn f() { }"), "# [ cfg ( not ( test ) ) ] fn f ( ) { }");
    }
}
