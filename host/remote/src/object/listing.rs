//! Lists the keys in a bucket.

use super::Store;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use std::borrow::Cow;
use tensorferry_core::context::remote::RemoteEntry;

/// Maximum number of consecutive pages without entries. Azure sends some empty pages, but a server
/// must not send an endless sequence of them.
const MAX_EMPTY: u32 = 1_000;

/// Returns the objects and folders directly below a prefix. Returns `None` if there are more than
/// `most` entries.
pub(super) async fn entries(
    store: &dyn Store,
    prefix: Option<&str>,
    most: u64,
) -> Result<Option<Vec<RemoteEntry>>, object_store::Error> {
    let mut entries: Vec<RemoteEntry> = Vec::new();
    let (mut token, mut empty) = (None, 0);
    let name_of = |path: &Path| {
        let path = path.as_ref();
        let name = path.strip_prefix(prefix.unwrap_or_default())?;
        (!name.is_empty() && !name.contains('/')).then(|| name.to_owned())
    };
    loop {
        let options = PaginatedListOptions {
            delimiter: Some(Cow::Borrowed("/")),
            page_token: token,
            ..PaginatedListOptions::default()
        };
        let page = store.list_paginated(prefix, options).await?;
        let is_empty = page.result.objects.is_empty() && page.result.common_prefixes.is_empty();
        empty = if is_empty { empty + 1 } else { 0 };
        if empty > MAX_EMPTY {
            let source = format!("{MAX_EMPTY} pages of a list without an entry").into();
            return Err(object_store::Error::Generic { store: "list", source });
        }
        for object in &page.result.objects {
            entries
                .extend(name_of(&object.location).map(|name| RemoteEntry { name, len: Some(object.size) }));
        }
        for folder in &page.result.common_prefixes {
            entries.extend(name_of(folder).map(|name| RemoteEntry { name, len: None }));
        }
        if entries.len() as u64 > most {
            return Ok(None);
        }
        token = page.page_token;
        if token.is_none() {
            return Ok(Some(entries));
        }
    }
}

/// The XML elements that represent entries of a list, each with the element that contains the
/// entry's name. S3 and Google Cloud Storage use the first two, and Azure uses the others.
const ENTRIES: [(&str, &str); 4] =
    [("Contents", "Key"), ("CommonPrefixes", "Prefix"), ("Blob", "Name"), ("BlobPrefix", "Name")];

/// Removes entries from an XML list if their names are not valid paths. Because of one such name,
/// `object_store` would reject the whole list. `object_store` would also treat `/a` as `a`.
pub(super) fn readable(xml: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(xml) else { return xml.to_vec() };
    let next = |entry: &str, from: usize| Some(from + text[from..].find(&format!("<{entry}>"))?);
    // The next position of each kind of element. A position is updated only when the loop has
    // passed it, so the list is scanned only once for each kind of element.
    let mut starts = ENTRIES.map(|(entry, _)| next(entry, 0));
    let (mut kept, mut at) = (String::with_capacity(text.len()), 0);
    while let Some((start, kind)) =
        starts.iter().zip(0..).filter_map(|(start, kind)| Some(((*start)?, kind))).min()
    {
        let (entry, name): (&str, &str) = ENTRIES[kind];
        let end = format!("</{entry}>");
        let Some(len) = text[start..].find(&end).map(|len| len + end.len()) else { break };
        let element = &text[start..start + len];
        kept.push_str(&text[at..start]);
        if name_in(element, name).is_none_or(is_path) {
            kept.push_str(element);
        }
        at = start + len;
        for (start, (entry, _)) in starts.iter_mut().zip(ENTRIES) {
            if start.is_some_and(|start| start < at) {
                *start = next(entry, at);
            }
        }
    }
    kept.push_str(&text[at..]);
    kept.into_bytes()
}

fn name_in<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = element.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

/// Returns whether a name, which is still escaped as XML, is a valid path. The name of a folder
/// ends with a slash.
fn is_path(name: &str) -> bool {
    let name = name.strip_suffix('/').unwrap_or(name);
    // In XML, control characters can only be written as numeric references.
    let is_escaped = name.contains("&#") || name.chars().any(|c| c.is_ascii_control());
    !is_escaped && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_paths_are_left_out() {
        let list = |names: &[&str]| {
            let entries = names.iter().map(|name| {
                if name.ends_with('/') {
                    format!("<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>")
                } else {
                    format!("<Contents><Key>{name}</Key><Size>5</Size></Contents>")
                }
            });
            format!("<List><Prefix></Prefix>{}<More>x</More></List>", entries.collect::<String>())
        };
        let found = readable(list(&["a", "a//b", "b/", "//", "/c", "a/../d", "e&amp;f", "g&#1;"]).as_bytes());
        assert_eq!(String::from_utf8(found).unwrap(), list(&["a", "b/", "e&amp;f"]));
        assert_eq!(readable(b"<Blob><Name>a//b</Name></Blob><Blob>"), b"<Blob>");
        assert_eq!(readable(b"\xff"), b"\xff");
        // A long list in which some kinds of entries never occur must not be scanned again for each
        // entry.
        let long = "<Contents><Key>a</Key></Contents>".repeat(100_000);
        assert_eq!(readable(long.as_bytes()), long.as_bytes());
    }
}
