//! A URL of the Hub, in the same syntax as in `huggingface_hub`:
//! `hf://[models/|datasets/|spaces/]owner/name[@revision][/path]`.

use crate::http::decoded;
use crate::secret::shown_text;
use tensorferry_sdk::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// `models`, `datasets`, `spaces` or `kernels`.
    pub(super) kind: &'static str,
    pub(super) owner: String,
    pub(super) name: String,
    revision: Option<String>,
    pub(super) path: String,
}

const KINDS: [&str; 4] = ["models", "datasets", "spaces", "kernels"];

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self> {
        let usage = |why: &str| {
            let form = "use hf://[models/|datasets/|spaces/|kernels/]owner/name[@revision][/path]";
            Error::usage(why).file(shown_text(url)).hint(form)
        };
        let Some((_, rest)) = url.split_once("://") else { return Err(usage("no URL")) };
        let (first, tail) = rest.split_once('/').unwrap_or((rest, ""));
        if first == "buckets" {
            return Err(Error::unsupported("buckets of the Hub have no hf:// URLs")
                .hint("use an s3:// URL and the S3 gateway of the Hub as the endpoint")
                .file(shown_text(url)));
        }
        let kind = KINDS.into_iter().find(|kind| *kind == first);
        let rest = if kind.is_some() { tail } else { rest };
        let (owner, rest) =
            rest.split_once('/').ok_or_else(|| usage("the repository needs an owner and a name"))?;
        // A revision can contain slashes only if it is a special revision, or if the slashes are
        // percent-encoded.
        let (name, revision, path) = match rest.find(['@', '/']) {
            Some(at) if rest[at..].starts_with('@') => {
                let (name, tail) = (&rest[..at], &rest[at + 1..]);
                let len = special(tail).unwrap_or_else(|| tail.find('/').unwrap_or(tail.len()));
                (name, Some(decoded(&tail[..len])), &tail[len..])
            }
            Some(at) => (&rest[..at], None, &rest[at..]),
            None => (rest, None, ""),
        };
        let is_name = |name: &str| {
            let is_fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !name.is_empty() && name.len() <= 96 && name.chars().all(is_fine) && name != "." && name != ".."
        };
        if !is_name(owner) || !is_name(name) || name.contains("--") || name.contains("..") {
            return Err(usage("invalid repository name"));
        }
        if revision
            .as_deref()
            .is_some_and(|revision| revision.is_empty() || revision.split('/').any(is_relative))
        {
            return Err(usage("invalid revision"));
        }
        let path = path.trim_matches('/');
        if !path.is_empty() && path.split('/').any(|part| part.is_empty() || is_relative(part)) {
            return Err(usage("invalid path in the repository"));
        }
        let (owner, name, path) = (owner.to_owned(), name.to_owned(), path.to_owned());
        Ok(Self { kind: kind.unwrap_or("models"), owner, name, revision, path })
    }

    /// Returns the revision in the URL, or the default revision if the URL does not contain one.
    pub(super) fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }

    /// Returns whether the revision is a full commit hash.
    pub(super) fn is_commit(&self) -> bool {
        self.revision().len() == 40 && self.revision().bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    /// Returns the name of the repository's folder in the local cache.
    pub(super) fn folder(&self) -> String {
        format!("{}--{}--{}", self.kind, self.owner, self.name)
    }

    /// Returns the `hf://` URL of a path in the repository at this revision.
    pub(super) fn url(&self, path: &str) -> String {
        let kind = if self.kind == "models" { String::new() } else { format!("{}/", self.kind) };
        let revision = self.revision.as_deref().map(|revision| {
            if special(revision) == Some(revision.len()) {
                revision.to_owned()
            } else {
                revision.replace('/', "%2F")
            }
        });
        let revision = revision.map_or(String::new(), |revision| format!("@{revision}"));
        let slash = if path.is_empty() { "" } else { "/" };
        format!("hf://{kind}{}/{}{revision}{slash}{path}", self.owner, self.name)
    }
}

fn is_relative(part: &str) -> bool {
    part == "." || part == ".."
}

/// Returns the length of a special revision that contains slashes: `refs/pr/NUMBER` or
/// `refs/convert/NAME`.
fn special(text: &str) -> Option<usize> {
    let (prefix, name) =
        ["refs/pr/", "refs/convert/"].iter().find_map(|p| Some((*p, text.strip_prefix(p)?)))?;
    let len = name.find('/').unwrap_or(name.len());
    let is_fine = prefix == "refs/convert/" || name[..len].bytes().all(|byte| byte.is_ascii_digit());
    (len > 0 && is_fine).then_some(prefix.len() + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_hub_reads_them() {
        let found = |url: &str| {
            let address = Address::parse(url).unwrap();
            assert_eq!(Address::parse(&address.url(&address.path)).unwrap(), address);
            let id = format!("{}/{}/{}", address.kind, address.owner, address.name);
            (id, address.revision().to_owned(), address.path.clone())
        };
        let is = |id: &str, revision: &str, path: &str| (id.to_owned(), revision.to_owned(), path.to_owned());
        assert_eq!(found("hf://org/model"), is("models/org/model", "main", ""));
        assert_eq!(found("hf://models/org/model/"), is("models/org/model", "main", ""));
        assert_eq!(found("hf://datasets/o/d@v1/a/b.csv"), is("datasets/o/d", "v1", "a/b.csv"));
        assert_eq!(found("hf://o/m@refs/pr/10/a"), is("models/o/m", "refs/pr/10", "a"));
        assert_eq!(found("hf://o/m@refs%2Fpr%2F10/a"), is("models/o/m", "refs/pr/10", "a"));
        assert_eq!(found("hf://o/m@feature%2Fa/b"), is("models/o/m", "feature/a", "b"));
        assert_eq!(found("hf://o/m/a@b.bin"), is("models/o/m", "main", "a@b.bin"));
        for wrong in [
            "hf://",
            "hf://model",
            "hf://o/m@/x",
            "hf://o/m/a//x",
            "hf://o/m/../x",
            "hf://o/a b",
            "hf://buckets/o/b/x",
        ] {
            Address::parse(wrong).unwrap_err();
        }
    }
}
