//! Uploads that nobody completes any more: of runs that were killed. A store keeps their parts, and has them paid for.

use super::Store;
use super::manner::Manner;
use super::trouble::Trouble;
use crate::client::{Ask, Client};
use crate::fault::Fault;
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use reqwest::Method;
use std::time::{Duration, SystemTime};
use tensorferry_sdk::Error;

/// Most bytes of a list: a thousand uploads with names of 1 KiB.
const MOST_OF_LIST: usize = 8 << 20;

/// How long a signed request for a list is good.
const TIME_OF_SIGNATURE: Duration = Duration::from_secs(300);

struct Begun {
    key: String,
    id: String,
    since: SystemTime,
}

/// Ends the uploads of objects whose names begin so that were begun longer ago than this; gives the names.
pub(super) async fn end(
    store: &dyn Store,
    client: &Client,
    prefix: &str,
    older_than: Duration,
) -> Result<Vec<String>, Fault> {
    let begun = list(store, client, prefix).await?;
    let last = SystemTime::now().checked_sub(older_than).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut ended = Vec::new();
    for upload in begun.into_iter().filter(|upload| upload.since <= last) {
        // A key that is none of ours.
        let Ok(path) = Path::parse(&upload.key) else { continue };
        match Manner::default().of(store.abort_multipart(&path, &upload.id)).await {
            Ok(()) => ended.push(upload.key),
            Err(error) => match Trouble::of(&error, client) {
                // Somebody else was faster.
                trouble if trouble.status() == Some(404) => {}
                trouble => return Err(trouble.fault()),
            },
        }
    }
    Ok(ended)
}

async fn list(store: &dyn Store, client: &Client, prefix: &str) -> Result<Vec<Begun>, Fault> {
    let Some(s3) = store.s3() else {
        return Err(Fault::last(Error::unsupported(
            "uploads are listed of S3 alone: Azure drops blocks that nobody commits after a week, and a bucket of Google's \
             by a rule of its life cycle (AbortIncompleteMultipartUpload)",
        )));
    };
    let mut begun = Vec::new();
    let mut after: Option<(String, String)> = None;
    loop {
        let mut query = vec![("uploads".to_owned(), String::new()), ("prefix".to_owned(), prefix.to_owned())];
        if let Some((key, id)) = after {
            query.extend([("key-marker".to_owned(), key), ("upload-id-marker".to_owned(), id)]);
        }
        let options = SignedUrlOptions::default().with_query(query);
        let url = s3.signed_url_opts(Method::GET, &Path::default(), TIME_OF_SIGNATURE, &options).await;
        let url = url.map_err(|error| Trouble::of(&error, client).fault())?;
        let answer = client.ask(&Ask::get(url)).await?;
        if !answer.status.is_success() {
            return Err(Fault::last(Error::io(client.words(answer).await)));
        }
        let text = answer.body.all(MOST_OF_LIST).await?;
        let text = String::from_utf8_lossy(&text);
        begun.extend(uploads(&text));
        let is_truncated = element(&text, "IsTruncated").as_deref() == Some("true");
        after = element(&text, "NextKeyMarker").zip(element(&text, "NextUploadIdMarker"));
        if !is_truncated || after.is_none() {
            return Ok(begun);
        }
    }
}

fn uploads(xml: &str) -> impl Iterator<Item = Begun> {
    xml.split("<Upload>").skip(1).filter_map(|rest| {
        let upload = rest.split("</Upload>").next()?;
        let since = humantime::parse_rfc3339_weak(&element(upload, "Initiated")?).ok()?;
        Some(Begun { key: element(upload, "Key")?, id: element(upload, "UploadId")?, since })
    })
}

/// The text of the first element of a name.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    unescaped(text)
}

/// A text as it was before XML; `None`, if it is none.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('&');
    let mut all = parts.next()?.to_owned();
    for part in parts {
        let (name, rest) = part.split_once(';')?;
        let number = |name: &str| match name.strip_prefix('x') {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => name.parse().ok(),
        };
        all.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            name => char::from_u32(number(name.strip_prefix('#')?)?)?,
        });
        all.push_str(rest);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_are_read_from_a_list() {
        let xml = "<L><Prefix>a</Prefix><Upload><Key>a/b &amp; &#233;&#xe9;</Key><UploadId>1</UploadId>\
                   <Initiated>2024-05-06T07:08:09.000Z</Initiated></Upload><Upload><Key>no</Key></Upload></L>";
        let found: Vec<Begun> = uploads(xml).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].key.as_str(), found[0].id.as_str()), ("a/b & éé", "1"));
        let since = found[0].since.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since.as_secs(), 1_714_979_289);
        assert_eq!(unescaped("a&b"), None);
    }
}
