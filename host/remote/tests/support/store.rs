//! Simulates a store that returns XML, as S3 and Google Cloud Storage do. Tests can define errors
//! that the store returns.

use super::server::{Reply, Request, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The objects, keyed by their names. All objects are in one bucket, which is called `bucket` in
/// the path of URLs.
pub(crate) type Objects = BTreeMap<String, Vec<u8>>;

pub(crate) const WRITTEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// Starts a store. If `err` returns a reply, that reply is sent instead.
pub(crate) fn start(
    objects: Objects,
    err: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
) -> Server {
    Server::start(move |request| err(request).unwrap_or_else(|| answer(&objects, request)))
}

pub(crate) fn error(status: u16, code: &str) -> Reply {
    Reply::new(status, format!("<Error><Code>{code}</Code><Message>as the test wants it</Message></Error>"))
}

pub(crate) fn answer(objects: &Objects, request: &Request) -> Reply {
    let path = decoded(request.path());
    let Some(key) = path.strip_prefix("/bucket") else { return error(404, "NoSuchBucket") };
    let key = key.strip_prefix('/').unwrap_or(key);
    if key.is_empty() {
        return list(objects, request);
    }
    match objects.get(key) {
        None => error(404, "NoSuchKey"),
        Some(bytes) if request.method == "HEAD" => Reply::new(200, "")
            .with("Content-Length", bytes.len())
            .with("ETag", "\"tag\"")
            .with("Last-Modified", WRITTEN),
        Some(bytes) => Reply::file(request, bytes, "\"tag\"").with("Last-Modified", WRITTEN),
    }
}

/// Returns the value of a query parameter.
pub(crate) fn query(request: &Request, name: &str) -> Option<String> {
    let pairs = request.target.split_once('?').map_or("", |(_, query)| query).split('&');
    let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(of, _)| *of == name).map(|(_, value)| decoded(value))
}

/// Returns a page of a list. The page has two entries, or fewer if the request limits the number.
fn list(objects: &Objects, request: &Request) -> Reply {
    let query = |name: &str| query(request, name);
    let (prefix, delimiter) = (query("prefix").unwrap_or_default(), query("delimiter"));
    let mut entries = BTreeSet::new();
    for (key, bytes) in objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
        let below = &key[prefix.len()..];
        entries.insert(match delimiter.as_deref().and_then(|delimiter| below.find(delimiter)) {
            Some(at) => {
                format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", &key[..=prefix.len() + at])
            }
            None => format!(
                "<Contents><Key>{key}</Key><Size>{}</Size><ETag>\"tag\"</ETag>\
                 <LastModified>1994-11-06T08:49:37.000Z</LastModified></Contents>",
                bytes.len()
            ),
        });
    }
    let from: usize = query("continuation-token").map_or(0, |token| token.parse().unwrap());
    let most = query("max-keys").map_or(2, |most| most.parse().unwrap()).min(2);
    let mut xml = String::from("<?xml version=\"1.0\"?><ListBucketResult>");
    xml.extend(entries.iter().skip(from).take(most).map(String::as_str));
    if from + most < entries.len() {
        write!(xml, "<NextContinuationToken>{}</NextContinuationToken>", from + most).unwrap();
    }
    Reply::new(200, xml + "</ListBucketResult>").with("Content-Type", "application/xml")
}

pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&tail[..2]).unwrap(), 16).unwrap());
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).unwrap()
}
