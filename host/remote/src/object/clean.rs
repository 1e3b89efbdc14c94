//! Aborts uploads that are unfinished because their run was killed. Until an upload is aborted, the
//! store keeps the uploaded parts and charges for them.

use super::Store;
use super::request_options::RequestOptions;
use super::store_error::StoreError;
use crate::client::{Client, ClientRequest};
use crate::fault::Fault;
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};
use reqwest::Method;
use std::time::{Duration, SystemTime};
use tensorferry_sdk::Error;

/// Maximum size of a list in bytes. This size is enough for a thousand uploads with names of 1 KiB.
const MAX_LIST_BYTES: usize = 8 << 20;

/// How long the signature of a list request is valid.
const SIGNATURE_VALIDITY: Duration = Duration::from_secs(300);

struct UnfinishedUpload {
    key: String,
    id: String,
    since: SystemTime,
}

/// Aborts the uploads whose keys have this prefix and that are older than `older_than`. Returns the
/// keys of the objects whose uploads were aborted.
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
        // ferry does not create objects whose keys are not valid paths.
        let Ok(path) = Path::parse(&upload.key) else { continue };
        match RequestOptions::default().of(store.abort_multipart(&path, &upload.id)).await {
            Ok(()) => ended.push(upload.key),
            Err(error) => match StoreError::of(&error, client) {
                // The upload was completed or aborted after the list was created.
                store_error if store_error.status() == Some(404) => {}
                store_error => return Err(store_error.fault()),
            },
        }
    }
    Ok(ended)
}

async fn list(store: &dyn Store, client: &Client, prefix: &str) -> Result<Vec<UnfinishedUpload>, Fault> {
    let Some(s3) = store.s3() else {
        return Err(Fault::permanent(Error::unsupported(
            "only S3 can list unfinished uploads: Azure drops uncommitted blocks after a week, and Google Cloud Storage \
             needs a lifecycle rule (AbortIncompleteMultipartUpload)",
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
        let url = s3.signed_url_opts(Method::GET, &Path::default(), SIGNATURE_VALIDITY, &options).await;
        let url = url.map_err(|error| StoreError::of(&error, client).fault())?;
        let response = client.request(&ClientRequest::get(url)).await?;
        if !response.status.is_success() {
            return Err(Fault::permanent(Error::io(client.words(response).await)));
        }
        let text = response.body.all(MAX_LIST_BYTES).await?;
        let text = String::from_utf8_lossy(&text);
        begun.extend(uploads(&text));
        let is_truncated = element(&text, "IsTruncated").as_deref() == Some("true");
        after = element(&text, "NextKeyMarker").zip(element(&text, "NextUploadIdMarker"));
        if !is_truncated || after.is_none() {
            return Ok(begun);
        }
    }
}

fn uploads(xml: &str) -> impl Iterator<Item = UnfinishedUpload> {
    xml.split("<Upload>").skip(1).filter_map(|rest| {
        let upload = rest.split("</Upload>").next()?;
        let since = humantime::parse_rfc3339_weak(&element(upload, "Initiated")?).ok()?;
        Some(UnfinishedUpload { key: element(upload, "Key")?, id: element(upload, "UploadId")?, since })
    })
}

/// Returns the text of the first element with this name.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    unescaped(text)
}

/// Decodes XML escapes. Returns `None` if an escape is invalid.
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
        let found: Vec<UnfinishedUpload> = uploads(xml).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].key.as_str(), found[0].id.as_str()), ("a/b & éé", "1"));
        let since = found[0].since.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since.as_secs(), 1_714_979_289);
        assert_eq!(unescaped("a&b"), None);
    }
}
