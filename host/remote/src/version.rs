//! The version of a file, which consists of the HTTP headers that identify its content. Every
//! response is checked against the version that was opened.

use crate::body::Pieces;
use crate::client::{Client, ClientResponse};
use crate::fault::Fault;
use futures_util::StreamExt;
use reqwest::header::{self, HeaderMap, HeaderValue};
use std::ops::Range;
use tensorferry_core::context::remote::RemoteStamp;
use tensorferry_sdk::Error;

/// Prefix of a stamp's tag if the tag is a [generation](Version::generation).
pub(crate) const GENERATION: &str = "generation:";

/// The version of a file that a server reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) len: u64,
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
    /// The generation number that Google Cloud Storage assigns to each upload.
    pub(crate) generation: Option<String>,
}

impl Version {
    /// Reads the version from a response about a file of `len` bytes.
    pub(crate) fn of(response: &ClientResponse, len: u64) -> Self {
        let owned = |name| response.text(name).map(|text: &str| text.trim().to_owned());
        Self { len, etag: owned("etag"), modified: owned("last-modified"), generation: None }
    }

    pub(crate) fn stamp(&self) -> RemoteStamp {
        let tag = match (&self.generation, &self.etag, &self.modified) {
            (Some(generation), ..) => format!("{GENERATION}{generation}"),
            (None, Some(etag), _) => format!("etag:{etag}"),
            (None, None, Some(modified)) => format!("last-modified:{modified}"),
            (None, None, None) => "length".into(),
        };
        let seconds = self.modified.as_deref().and_then(http_date).unwrap_or(0);
        RemoteStamp { len: self.len, tag, modified: (seconds, 0) }
    }

    /// Checks that a response is for this version. Headers that are missing from the response are
    /// not compared.
    pub(crate) fn hold(&self, name: &str, found: &Self) -> Result<(), Fault> {
        let differs = |ours: &Option<String>, theirs: &Option<String>| match (ours, theirs) {
            (Some(ours), Some(theirs)) => ours != theirs,
            _ => false,
        };
        if self.len != found.len {
            return Err(Fault::changed(
                name,
                &format!("{} bytes", self.len),
                &format!("{} bytes", found.len),
            ));
        }
        if differs(&self.generation, &found.generation) {
            let told = |generation: &Option<String>| tag("generation", generation);
            return Err(Fault::changed(name, &told(&self.generation), &told(&found.generation)));
        }
        let (etag, modified) = (&self.etag, &self.modified);
        if differs(etag, &found.etag) {
            return Err(Fault::changed(name, &tag("ETag", etag), &tag("ETag", &found.etag)));
        }
        // Several servers that share one host name may report different modification times for a
        // file. Therefore, if both responses have an ETag, only the ETag is compared.
        if (etag.is_none() || found.etag.is_none()) && differs(modified, &found.modified) {
            return Err(Fault::changed(name, &tag("written", modified), &tag("written", &found.modified)));
        }
        Ok(())
    }

    /// Adds condition headers to a request. A server that supports these headers refuses to send a
    /// different version.
    pub(crate) fn conditions(&self, headers: &mut HeaderMap) {
        let value = |text: &str| HeaderValue::from_str(text).ok();
        match (&self.etag, &self.modified) {
            // A weak ETag never matches in a condition, so it is not used.
            (Some(etag), _) if !etag.starts_with("W/") => {
                headers.extend(value(etag).map(|value| (header::IF_MATCH, value)));
            }
            (None, Some(modified)) => {
                headers.extend(value(modified).map(|value| (header::IF_UNMODIFIED_SINCE, value)));
            }
            _ => {}
        }
    }
}

fn tag(what: &str, text: &Option<String>) -> String {
    format!("{what} {}", text.as_deref().unwrap_or("none"))
}

pub(crate) fn range_header(range: &Range<u64>) -> HeaderValue {
    let text = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("bytes=0-0"))
}

/// Returns the range that a response contains. Also returns the length of the file, if the response
/// contains the length.
pub(crate) fn content_range(response: &ClientResponse) -> Option<(Range<u64>, Option<u64>)> {
    let text = response.text("content-range")?.trim().strip_prefix("bytes ")?;
    let (range, len) = text.split_once('/')?;
    let (start, last) = range.split_once('-')?;
    let (start, last): (u64, u64) = (start.trim().parse().ok()?, last.trim().parse().ok()?);
    Some((start..last.checked_add(1)?, len.trim().parse().ok()))
}

/// Returns the file length that the response to an unsatisfiable range request contains (`bytes
/// */LENGTH`).
pub(crate) fn unsatisfied_len(response: &ClientResponse) -> Option<u64> {
    response.text("content-range")?.trim().strip_prefix("bytes")?.trim().strip_prefix("*/")?.parse().ok()
}

/// Refuses a response with a content encoding, because its ranges are not ranges of the file.
pub(crate) fn identity(response: &ClientResponse, name: &str) -> Result<(), Fault> {
    match response.text("content-encoding").map(str::trim) {
        None | Some("" | "identity") => Ok(()),
        Some(encoding) => Err(Fault::permanent(
            Error::unsupported(format!("the server encodes its responses: {encoding:.40}"))
                .file(name)
                .expected("Content-Encoding identity, as requested"),
        )),
    }
}

/// Returns the bytes of a range from the response to the range request. Checks that the response is
/// for this version.
pub(crate) async fn range_of(
    client: &Client,
    response: ClientResponse,
    version: &Version,
    range: &Range<u64>,
    name: &str,
) -> Result<Pieces, Fault> {
    match response.status.as_u16() {
        206 => {
            identity(&response, name)?;
            let Some((found, len)) = content_range(&response) else {
                return Err(Fault::permanent(Error::io("the response has no Content-Range").file(name)));
            };
            version.hold(name, &Version::of(&response, len.unwrap_or(version.len)))?;
            if found.start != range.start || found.end > range.end {
                return Err(Fault::permanent(
                    Error::io("the response contains a different range than requested")
                        .file(name)
                        .expected(format!("bytes {}-{}", range.start, range.end - 1))
                        .found(format!("bytes {}-{}", found.start, found.end - 1)),
                ));
            }
            Ok(limited(response.body.pieces(), range.end - range.start))
        }
        200 => {
            let len = response.body.len().unwrap_or(version.len);
            version.hold(name, &Version::of(&response, len))?;
            // Range requests are sent only to servers that support them, so this failure is
            // temporary.
            Err(Fault::transient("the response contains the whole file instead of a range").of(name))
        }
        404 | 410 => Err(Fault::changed(name, "the file", "none")),
        412 => Err(Fault::changed(name, "the version that was opened", "another version")),
        416 => Err(Fault::changed(name, &format!("{} bytes", version.len), "fewer")),
        _ => Err(refusal(client, response, name).await),
    }
}

/// Converts an error response to a fault. The response is not a temporary failure.
pub(crate) async fn refusal(client: &Client, response: ClientResponse, name: &str) -> Fault {
    let status = response.status.as_u16();
    let had_query = response.url.query().is_some();
    let words = client.words(response).await;
    let hint = match status {
        401 | 403 if had_query => " (a signed URL may have expired)",
        401 => " (the server requires credentials)",
        _ => "",
    };
    Fault::permanent(Error::io(format!("{words}{hint}")).file(name))
}

/// Ends the sequence of pieces after `bytes` bytes, even if the body is longer.
fn limited(pieces: Pieces, bytes: u64) -> Pieces {
    let state = (pieces, bytes);
    Box::pin(futures_util::stream::try_unfold(state, |(mut pieces, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let Some(piece) = pieces.next().await else { return Ok(None) };
        let mut piece = piece?;
        piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        let left = left - piece.len() as u64;
        Ok(Some((piece, (pieces, left))))
    }))
}

/// Converts an HTTP date (RFC 9110, IMF-fixdate), such as `Sun, 06 Nov 1994 08:49:37 GMT`, to
/// seconds since 1970.
fn http_date(text: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut parts = text.split_once(", ")?.1.split(' ');
    let day: i64 = parts.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = i64::try_from(MONTHS.find(parts.next().filter(|name| name.len() == 3)?)? / 3).ok()? + 1;
    let year: i64 = parts.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut clock = parts.next()?.split(':').map(str::parse::<i64>);
    let mut next = || clock.next()?.ok().filter(|part| (0..=60).contains(part));
    let seconds = next()? * 3600 + next()? * 60 + next()?;
    // The date is converted to a number of days. In this calculation, years start in March.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_seconds() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(http_date("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
        assert_eq!(http_date("yesterday"), None);
        for claimed in [
            "Sun, 06 Nov 1994 9223372036854775807:00:00 GMT",
            "Sun, 9223372036854775807 Nov 1994 08:49:37 GMT",
            "Sun, -9223372036854775808 Jan 1970 00:00:00 GMT",
        ] {
            assert_eq!(http_date(claimed), None, "{claimed}");
        }
    }

    #[test]
    fn versions_differ_by_what_both_say() {
        let version = |len, etag: Option<&str>, modified: Option<&str>| Version {
            len,
            etag: etag.map(Into::into),
            modified: modified.map(Into::into),
            generation: None,
        };
        let ours = version(5, Some("\"a\""), Some("x"));
        ours.hold("f", &version(5, Some("\"a\""), Some("y"))).unwrap();
        ours.hold("f", &version(5, None, None)).unwrap();
        ours.hold("f", &version(6, Some("\"a\""), Some("x"))).unwrap_err();
        ours.hold("f", &version(5, Some("\"b\""), Some("x"))).unwrap_err();
        let written_as = |generation: &str| Version { generation: Some(generation.into()), ..ours.clone() };
        written_as("1").hold("f", &ours).unwrap();
        let error = written_as("1").hold("f", &written_as("2")).unwrap_err().error.to_string();
        assert!(error.contains("expected generation 1, found generation 2"), "{error}");
        assert_eq!(written_as("1").stamp().tag, "generation:1");
        let error = version(5, None, Some("x")).hold("f", &version(5, None, Some("y"))).unwrap_err().error;
        assert!(error.to_string().contains("expected written x, found written y"), "{error}");
    }
}
