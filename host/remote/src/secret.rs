//! A type for secrets. Formatters do not show the secret. This module also formats URLs without
//! their secret parts.

use reqwest::Url;
use std::fmt;

/// A key, token or password. Its `Debug` output hides the value, which only `expose` returns.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the secret value, for use in a header or a signature.
    #[must_use]
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("...")
    }
}

/// Returns a URL as text, without the parts that may be secret: user, password, query and fragment.
/// A query is shown as `?...`.
#[must_use]
pub fn shown(url: &Url) -> String {
    let mut bare = url.clone();
    let had_query = bare.query().is_some();
    bare.set_query(None);
    bare.set_fragment(None);
    // These calls fail if the URL cannot contain a user. Such a URL does not need to be changed.
    let _ = bare.set_username("");
    let _ = bare.set_password(None);
    if had_query { format!("{bare}?...") } else { bare.to_string() }
}

/// Formats a string like [`shown`]. If the string is not a valid URL, cuts the string off where a
/// secret may start.
#[must_use]
pub(crate) fn shown_text(url: &str) -> String {
    if let Ok(url) = Url::parse(url) {
        return shown(&url);
    }
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    match (bare.find("://"), bare.rfind('@')) {
        // An `@` before the first `/` follows a user name. An `@` after the first `/` precedes a
        // revision.
        (Some(scheme), Some(at)) if at > scheme && !bare[scheme + 3..at].contains('/') => {
            format!("{}{}", &bare[..scheme + 3], &bare[at + 1..])
        }
        _ => bare.to_owned(),
    }
}

/// Removes secrets from a server's message, joins its lines, and limits its length.
#[must_use]
pub(crate) fn scrubbed(text: &str, secrets: &[Secret]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().map(Secret::expose).filter(|secret| secret.len() >= 4) {
        text = text.replace(secret, "...");
    }
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_secrets() {
        let url = Url::parse("https://me:word@host.example/a/b?X-Amz-Signature=abc#part").unwrap();
        assert_eq!(shown(&url), "https://host.example/a/b?...");
        assert_eq!(shown_text("https://me:word@host:x/a?sig=1"), "https://host:x/a");
        assert_eq!(shown_text("hf://o/n@main/f"), "hf://o/n@main/f");
        assert_eq!(format!("{0} {0:?}", Secret::new("word")), "... Secret(...)");
    }

    #[test]
    fn words_of_a_server_lose_secrets_and_line_ends() {
        let secrets = [Secret::new("AKIA1234"), Secret::new("x")];
        assert_eq!(scrubbed("key AKIA1234\nis unknown", &secrets), "key ... is unknown");
        assert_eq!(scrubbed(&"y".repeat(5000), &secrets).len(), 300);
    }
}
