//! Files on HTTP servers, which cannot list folders. If a server does not support range requests, a
//! file is read once into an unnamed temporary file.

use crate::body::Pieces;
use crate::cache::Origin;
use crate::client::{Client, ClientRequest, ClientResponse, Follow};
use crate::fault::Fault;
use crate::file::{CachedFile, START};
use crate::opened_files::{Found, OpenedFiles};
use crate::runtime::Engine;
use crate::secret::{Secret, shown, shown_text};
use crate::spool::{Spool, SpooledFile};
use crate::version::{Version, content_range, identity, range_header, range_of, refusal, unsatisfied_len};
use base64::Engine as _;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use reqwest::Url;
use reqwest::header::{self, HeaderMap, HeaderValue};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tensorferry_core::context::remote::{RemoteEntry, RemoteFile, RemotePlace};
use tensorferry_sdk::{Error, Result};

/// An HTTP server, and the URL that the user passed.
pub(crate) struct HttpPlace {
    engine: Arc<Engine>,
    /// The URL of the server: scheme, host and port, with the path `/`.
    root: Url,
    /// The path in the URL that the user passed, and the URL itself. The query of the URL is used
    /// only for this path.
    named: (String, Url),
    headers: HeaderMap,
    opened_files: OpenedFiles,
}

impl HttpPlace {
    /// Splits a URL into the server and the path on the server.
    pub(crate) fn of(engine: &Arc<Engine>, text: &str) -> Result<(Arc<dyn RemotePlace>, String)> {
        let usage = |message: &str| Error::usage(message).file(shown_text(text));
        let mut url = Url::parse(text).map_err(|_| usage("no URL"))?;
        if url.host_str().is_none_or(str::is_empty) {
            return Err(usage("the URL has no host"));
        }
        if url.path().ends_with('/') {
            return Err(usage("HTTP servers do not list folders").hint("name each file"));
        }
        url.set_fragment(None);
        let headers = headers(engine, &url)?;
        // The user name and the password are removed from the URL. The client sends them in a
        // header instead, and only to this host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let path = decoded(url.path().trim_start_matches('/'));
        let mut root = url.clone();
        root.set_path("/");
        root.set_query(None);
        let named = (path.clone(), url);
        let place =
            Self { engine: Arc::clone(engine), root, named, headers, opened_files: OpenedFiles::default() };
        Ok((Arc::new(place), path))
    }

    fn url_of(&self, path: &str) -> Url {
        if path == self.named.0 {
            return self.named.1.clone();
        }
        let mut url = self.root.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.clear().extend(path.split('/'));
        }
        url
    }

    /// Opens the file at a path. Returns `None` if the file does not exist.
    fn finding(&self, path: &str) -> impl Future<Output = Result<Found, Fault>> + Send + use<> {
        let origin =
            HttpOrigin { name: self.url(path), url: self.url_of(path), headers: self.headers.clone() };
        let (engine, spool) = (Arc::clone(&self.engine), Spool::new(&self.engine.settings));
        async move {
            Ok(match origin.open(&engine.process()?.client, spool).await? {
                None => None,
                Some(Opened::Ranges(origin, start)) => {
                    let stamp = origin.version.stamp();
                    Some(CachedFile::opened(&engine, *origin, stamp, start))
                }
                Some(Opened::Spooled(file)) => {
                    engine.notes.say(file.note(&engine.settings));
                    Some(Arc::new(file) as Arc<dyn RemoteFile>)
                }
            })
        }
    }

    fn find(&self, path: &str) -> Result<Found> {
        if path.is_empty() {
            return Ok(None);
        }
        if let Some(file) = self.opened_files.take(path, &self.engine.cancelled)? {
            return Ok(Some(file));
        }
        self.engine.wait(self.finding(path))?.map_err(|fault| fault.error)
    }
}

impl RemotePlace for HttpPlace {
    fn url(&self, path: &str) -> String {
        shown(&self.url_of(path))
    }

    fn look(&self, path: &str) -> Result<Option<RemoteEntry>> {
        let Some(file) = self.find(path)? else { return Ok(None) };
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let len = Some(file.stamp().len);
        self.opened_files.keep(path, file);
        Ok(Some(RemoteEntry { name, len }))
    }

    fn list(&self, folder: &str, _: u64) -> Result<Vec<RemoteEntry>> {
        let problem = Error::unsupported("HTTP servers do not list folders").file(self.url(folder));
        Err(problem.hint("name each file"))
    }

    fn open(&self, path: &str) -> Result<Arc<dyn RemoteFile>> {
        self.find(path)?.ok_or_else(|| Error::malformed("no such file").file(self.url(path)))
    }

    fn will_open(&self, paths: &[&str]) {
        for path in paths.iter().filter(|path| !path.is_empty()) {
            self.opened_files.begin(path, &self.engine, self.finding(path));
        }
    }
}

/// Returns the headers for requests to the URL's own host.
fn headers(engine: &Engine, url: &Url) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let password = url.password().unwrap_or_default();
    let authorization = if !url.username().is_empty() || !password.is_empty() {
        let pair = format!("{}:{}", decoded(url.username()), decoded(password));
        Some(Secret::new(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))))
    } else {
        engine.settings.secret("http-token").map(|token| Secret::new(format!("Bearer {}", token.expose())))
    };
    if let Some(authorization) = authorization {
        let value = HeaderValue::from_str(authorization.expose());
        let mut value = value.map_err(|_| {
            Error::usage("http-token contains characters that are not allowed in an HTTP header")
        })?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

/// Decodes percent-encoding. If the decoded bytes are not UTF-8, the text is returned unchanged.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'%').then(|| tail.get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// A file at a URL that has not been requested yet.
struct HttpOrigin {
    name: String,
    url: Url,
    headers: HeaderMap,
}

/// A file on a server that supports range requests.
struct RangedOrigin {
    origin: HttpOrigin,
    version: Version,
    /// The URL to which the server last redirected, while this URL is valid.
    moved: Mutex<Option<Url>>,
}

impl RangedOrigin {
    fn new(origin: HttpOrigin, version: Version, answered: &Url) -> Box<Self> {
        let moved = (*answered != origin.url).then(|| answered.clone());
        Box::new(Self { origin, version, moved: Mutex::new(moved) })
    }

    fn moved(&self) -> MutexGuard<'_, Option<Url>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to the URL of the last redirect. If that URL is no longer valid, sends the
    /// request to the original URL.
    async fn request(&self, client: &Client, request: ClientRequest) -> Result<ClientResponse, Fault> {
        let moved = self.moved().clone();
        if let Some(url) = moved {
            let moved = ClientRequest { url, ..request.clone() };
            let response = client.request_with(&moved, &Follow::After(request.url.clone())).await?;
            // Each of these statuses may mean that a signed URL has expired.
            if !matches!(response.status.as_u16(), 400 | 401 | 403 | 404 | 410) {
                return Ok(response);
            }
        }
        let response = client.request(&request).await?;
        *self.moved() = (response.url != request.url).then(|| response.url.clone());
        Ok(response)
    }
}

enum Opened {
    Ranges(Box<RangedOrigin>, Bytes),
    Spooled(SpooledFile),
}

impl HttpOrigin {
    fn request(&self, range: &Range<u64>) -> ClientRequest {
        let mut request = ClientRequest::get(self.url.clone());
        request.headers = self.headers.clone();
        request.header(header::RANGE, range_header(range))
    }

    /// Requests the start of the file. The response shows whether the server supports ranges.
    async fn open(self, client: &Client, spool: Spool) -> Result<Option<Opened>, Fault> {
        let response = client.request(&self.request(&(0..START))).await?;
        let name = self.name.clone();
        match response.status.as_u16() {
            206 => {
                identity(&response, &name)?;
                let len = match content_range(&response) {
                    Some((range, Some(len))) if range.start == 0 && range.end <= len => len,
                    _ => {
                        let why = "the response to a range request has no file length";
                        return Err(Fault::permanent(Error::unsupported(why).file(name)));
                    }
                };
                let origin = RangedOrigin::new(self, Version::of(&response, len), &response.url);
                // If the response is cut off here, the missing bytes are requested again when they
                // are read.
                let start = response.body.start(usize::try_from(START.min(len)).unwrap_or(0)).await;
                Ok(Some(Opened::Ranges(origin, start)))
            }
            200 => {
                identity(&response, &name)?;
                let version = Version::of(&response, response.body.len().unwrap_or(0));
                let again = self.request(&(0..1));
                let file = spool.fill(client, response, version, again, &name).await?;
                Ok(Some(Opened::Spooled(file)))
            }
            // A server cannot satisfy a range request for an empty file.
            416 if unsatisfied_len(&response) == Some(0) => {
                let version = Version::of(&response, 0);
                Ok(Some(Opened::Ranges(RangedOrigin::new(self, version, &response.url), Bytes::new())))
            }
            404 | 410 => Ok(None),
            _ => Err(refusal(client, response, &name).await),
        }
    }
}

impl Origin for RangedOrigin {
    fn name(&self) -> &str {
        &self.origin.name
    }

    fn len(&self) -> u64 {
        self.version.len
    }

    fn get<'a>(&'a self, client: &'a Client, range: Range<u64>) -> BoxFuture<'a, Result<Pieces, Fault>> {
        Box::pin(async move {
            let mut request = self.origin.request(&range);
            self.version.conditions(&mut request.headers);
            let response = self.request(client, request).await?;
            range_of(client, response, &self.version, &range, &self.origin.name).await
        })
    }

    fn check<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            // The request method is GET instead of HEAD, because a signed URL is valid only for
            // GET. The request goes to the original URL, because the server may now redirect to a
            // different URL.
            let response = client.request(&self.origin.request(&(0..1))).await?;
            if response.status.as_u16() == 416 && self.version.len == 0 {
                let version = Version::of(&response, unsatisfied_len(&response).unwrap_or(0));
                return self.version.hold(&self.origin.name, &version);
            }
            range_of(client, response, &self.version, &(0..1), &self.origin.name).await.map(drop)
        })
    }
}
