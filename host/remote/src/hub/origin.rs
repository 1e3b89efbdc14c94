//! Reads the bytes of a file on the Hub. For a large file, the Hub redirects to a signed URL. This
//! URL is reused until it expires. Then a new URL is requested from the Hub.

use super::api::Api;
use super::tree::TreeFile;
use crate::body::Pieces;
use crate::cache::Origin;
use crate::client::{Client, ClientRequest, ClientResponse, Follow, is_same_host, redirect};
use crate::fault::Fault;
use crate::file::START;
use crate::version::{Version, range_header, range_of, refusal};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use reqwest::{Url, header};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct HubOrigin {
    api: Arc<Api>,
    name: String,
    path: String,
    url: Url,
    file: TreeFile,
    /// The signed URL, and the `ETag` of the first response from it.
    signed: Mutex<Option<Signed>>,
}

#[derive(Clone)]
struct Signed {
    url: Url,
    etag: Option<String>,
}

/// Maximum number of redirects within the Hub. Such redirects occur if a repository has been
/// renamed.
const MAX_MOVES: usize = 5;

impl HubOrigin {
    pub(super) fn new(api: &Arc<Api>, path: &str, file: TreeFile) -> Self {
        let (name, url) = (api.address.url(path), api.file_url(path));
        Self { api: Arc::clone(api), name, path: path.to_owned(), url, file, signed: Mutex::new(None) }
    }

    /// Reads the start of the file.
    pub(super) async fn start(&self, client: &Client) -> Result<Bytes, Fault> {
        let mut start = BytesMut::new();
        if self.file.len > 0 {
            let mut pieces = self.get(client, 0..START.min(self.file.len)).await?;
            while let Some(piece) = pieces.next().await {
                start.extend_from_slice(&piece?);
            }
        }
        Ok(start.freeze())
    }

    fn signed(&self) -> Option<Signed> {
        self.signed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, signed: Option<Signed>) {
        *self.signed.lock().unwrap_or_else(PoisonError::into_inner) = signed;
    }

    /// Checks that a response from the Hub refers to the content that the tree lists.
    fn hold(&self, response: &ClientResponse) -> Result<(), Fault> {
        let linked = response.text("x-linked-etag").or_else(|| response.text("etag")).map(bare);
        let is_digest =
            |etag: &&str| etag.len() == self.file.etag().len() && etag.bytes().all(|b| b.is_ascii_hexdigit());
        if let Some(etag) = linked.filter(is_digest).filter(|etag| *etag != self.file.etag()) {
            return Err(Fault::changed(&self.name, self.file.etag(), etag));
        }
        let len = response.text("x-linked-size").and_then(|len| len.parse::<u64>().ok());
        match len.filter(|len| *len != self.file.len) {
            Some(len) => {
                Err(Fault::changed(&self.name, &format!("{} bytes", self.file.len), &format!("{len} bytes")))
            }
            None => Ok(()),
        }
    }

    /// Requests a range of the file from the Hub. Returns the bytes, or the signed URL to which the
    /// Hub redirects.
    async fn resolve(&self, client: &Client, range: &Range<u64>) -> Result<Result<Pieces, Signed>, Fault> {
        let mut url = self.url.clone();
        for _ in 0..=MAX_MOVES {
            let request = self.api.request(url.clone()).header(header::RANGE, range_header(range));
            let response = client.request_with(&request, &Follow::No).await?;
            match redirect(&request, &response)? {
                Some(next) => {
                    self.hold(&response)?;
                    if !is_same_host(&request.url, &next) {
                        return Ok(Err(Signed { url: next, etag: None }));
                    }
                    url = next;
                }
                None if response.status.is_success() => {
                    self.hold(&response)?;
                    let version =
                        Version { len: self.file.len, etag: None, modified: None, generation: None };
                    return Ok(Ok(range_of(client, response, &version, range, &self.name).await?));
                }
                None => return Err(self.api.refusal(client, response, &self.path).await),
            }
        }
        let why = format!("more than {MAX_MOVES} redirects within the Hub");
        Err(Fault::permanent(tensorferry_sdk::Error::io(why).file(&self.name)))
    }
}

impl Origin for HubOrigin {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.file.len
    }

    fn get<'a>(&'a self, client: &'a Client, range: Range<u64>) -> BoxFuture<'a, Result<Pieces, Fault>> {
        Box::pin(async move {
            let (mut signed, mut is_fresh) = (self.signed(), false);
            loop {
                let current = match signed.take() {
                    Some(signed) => signed,
                    None => match self.resolve(client, &range).await? {
                        Ok(pieces) => return Ok(pieces),
                        Err(signed) => {
                            is_fresh = true;
                            signed
                        }
                    },
                };
                let request = ClientRequest::get(current.url.clone())
                    .header(header::RANGE, range_header(&range))
                    .header(header::ACCEPT_ENCODING, header::HeaderValue::from_static("identity"));
                let response = client.request_with(&request, &Follow::After(self.url.clone())).await?;
                if matches!(response.status.as_u16(), 400 | 401 | 403 | 404 | 410) {
                    self.keep(None);
                    if is_fresh {
                        return Err(refusal(client, response, &self.name).await);
                    }
                    // The signed URL has expired.
                    continue;
                }
                // The content of a file at a commit never changes, but each signed URL may return a
                // different `ETag` for the content.
                let version = Version {
                    len: self.file.len,
                    etag: current.etag.clone(),
                    modified: None,
                    generation: None,
                };
                let etag = current.etag.or_else(|| response.text("etag").map(str::to_owned));
                let pieces = range_of(client, response, &version, &range, &self.name).await?;
                self.keep(Some(Signed { url: current.url, etag }));
                return Ok(pieces);
            }
        })
    }

    fn check<'a>(&'a self, _: &'a Client) -> BoxFuture<'a, Result<(), Fault>> {
        // The check always succeeds, because the content of a commit never changes. Each redirect
        // was checked when it was received.
        Box::pin(async { Ok(()) })
    }
}

/// Removes the quotes and the weak prefix from an `ETag`.
fn bare(etag: &str) -> &str {
    etag.trim().trim_start_matches("W/").trim_matches('"')
}
