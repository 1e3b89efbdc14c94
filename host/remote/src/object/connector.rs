//! The HTTP layer of all object stores, which replaces the HTTP layer of `object_store`. This layer
//! adds retries with `Retry-After`, redirects that do not forward secrets, and a minimum rate. It
//! also limits the size of lists and error responses. Requests for credentials that are sent to the
//! machine's metadata address have a short time limit.

use super::listing::readable;
use super::request_options::RequestOptions;
use super::store_error::StoreError;
use crate::body::Pieces;
use crate::client::{Client, ClientRequest, ClientResponse};
use crate::fault::Fault;
use crate::runtime::Engine;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use http_body::{Body, Frame};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, RetryConfig};
use reqwest::{Method, Url, header};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tensorferry_sdk::Error;

/// Maximum size in bytes of a response that is not a range of an object. A list of 5,000 names of 1
/// KiB is about 10 MB long.
const MAX_LIST_BYTES: usize = 32 << 20;

/// Time limit for a request that asks the machine's metadata address for credentials.
const METADATA_TIMEOUT: Duration = Duration::from_secs(3);

/// Disables the retries of `object_store`, because this crate's client already retries requests.
pub(super) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Sends the requests of `object_store` with this crate's client.
#[derive(Clone)]
pub(super) struct Connector(Arc<Engine>);

impl Connector {
    pub(super) fn new(engine: &Arc<Engine>) -> Self {
        Self(Arc::clone(engine))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for Connector {
    fn call<'s, 'f>(&'s self, request: HttpRequest) -> BoxFuture<'f, Result<HttpResponse, HttpError>>
    where
        's: 'f,
        Self: 'f,
    {
        async move {
            let process = self.0.process().map_err(|error| failed(Fault::permanent(error).into()))?;
            let falls_back = self.0.settings.variable("AWS_IMDSV1_FALLBACK").is_some();
            let answered = send(&process.client, request, falls_back).await;
            answered.map_err(|store_error| failed(store_error.retry_if_renewed(&self.0.renewal)))
        }
        .boxed()
    }
}

/// Wraps an error so that `object_store` returns the error without a retry.
fn failed(store_error: StoreError) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, store_error)
}

/// Sends a request. If `falls_back` is true, returns a 403 response from Amazon's metadata service
/// to `object_store`, which handles it.
async fn send(
    client: &Client,
    mut request: HttpRequest,
    falls_back: bool,
) -> Result<HttpResponse, StoreError> {
    let request_options = RequestOptions::current();
    if let Some(request_options) = &request_options {
        request_options.apply_to(&mut request).map_err(|error| StoreError::of(&error, client))?;
    }
    let (parts, body) = request.into_parts();
    let url = Url::parse(&parts.uri.to_string());
    let url =
        url.map_err(|_| Fault::permanent(Error::usage("the store's endpoint does not form a valid URL")))?;
    let is_range = parts.headers.contains_key(header::RANGE);
    let is_list = is_list(&url);
    let reads = parts.method == Method::GET || parts.method == Method::HEAD;
    let request =
        ClientRequest { method: parts.method, url, headers: parts.headers, body: collected(body).await? };
    if is_own_address(&request.url) {
        let asked = tokio::time::timeout(METADATA_TIMEOUT, client.request(&request)).await;
        let nowhere = || {
            let why = "no credentials for the object store: none are set, and this machine provides none";
            Fault::permanent(
                Error::usage(why)
                    .hint("set the provider's keys, or pass --store anonymous=true to read a public bucket"),
            )
        };
        let response = asked.map_err(|_| nowhere())?.map_err(|_| nowhere())?;
        let is_refused = !response.status.is_success();
        if is_refused && !(falls_back && response.status.as_u16() == 403) {
            return Err(nowhere().into());
        }
        return whole(response).await;
    }
    let is_tried_once = request_options.as_ref().is_some_and(|request_options| request_options.is_tried_once);
    let mut response =
        if is_tried_once { client.request_once(&request).await? } else { client.request(&request).await? };
    let status = response.status.as_u16();
    if (reads || request_options.is_some()) && status >= 300 {
        // The region becomes part of a host name, so its characters are checked.
        let is_name = |region: &&str| region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let region = response.text("x-amz-bucket-region").filter(is_name).map(str::to_owned);
        let is_elsewhere = matches!(status, 301 | 307 | 400) && region.is_some();
        let told = response.text("x-ms-error-code").is_some() || request.method == Method::HEAD;
        let words = client.words(response).await;
        let words = if told && !words.contains(": ") { format!("{words}: ") } else { words };
        return Err(StoreError::refusal(
            status,
            words.trim_end_matches(": "),
            region.filter(|_| is_elsewhere),
        ));
    }
    if !is_range || request.method == Method::HEAD {
        if is_list {
            // The text of the list is changed below, so the original length would be wrong.
            response.headers.remove(header::CONTENT_LENGTH);
            let head = response_head(&response);
            let text = response.body.all(MAX_LIST_BYTES).await?;
            return Ok(head.map(|()| Bytes::from(readable(&text)).into()));
        }
        let response = whole(response).await?;
        return if is_tried_once { late_error(response).await } else { Ok(response) };
    }
    let head = response_head(&response);
    Ok(head.map(|()| HttpResponseBody::new(SyncBody(Mutex::new(response.body.pieces())))))
}

fn response_head(response: &ClientResponse) -> http::Response<()> {
    let mut head = http::Response::new(());
    *head.status_mut() = response.status;
    *head.headers_mut() = response.headers.clone();
    head
}

async fn whole(response: ClientResponse) -> Result<HttpResponse, StoreError> {
    let head = response_head(&response);
    let is_error = !response.status.is_success();
    let body = if is_error {
        response.body.start(crate::client::MAX_ERROR_BYTES).await
    } else {
        response.body.all(MAX_LIST_BYTES).await?
    };
    Ok(head.map(|()| body.into()))
}

/// Returns the error that the body of a response with a success status may contain. S3 sends the
/// status before it has assembled the object from its parts.
async fn late_error(response: HttpResponse) -> Result<HttpResponse, StoreError> {
    let (head, body) = response.into_parts();
    let body = body.bytes().await.map_err(|error| Fault::transient(crate::fault::causes(&error)))?;
    if body.windows(7).take(512).any(|bytes| bytes == b"<Error>") {
        let words = crate::client::message_of(&body);
        return Err(match words.split(": ").next() {
            Some("InternalError" | "SlowDown" | "ServiceUnavailable") | None => {
                Fault::transient(words).into()
            }
            Some("PreconditionFailed") => StoreError::refusal(412, &format!("answered: {words}"), None),
            Some("NoSuchUpload") => StoreError::refusal(404, &format!("answered: {words}"), None),
            Some("ConditionalRequestConflict") => {
                StoreError::refusal(409, &format!("answered: {words}"), None)
            }
            Some(_) => StoreError::refusal(400, &format!("answered: {words}"), None),
        });
    }
    Ok(HttpResponse::from_parts(head, body.into()))
}

fn is_list(url: &Url) -> bool {
    url.query_pairs()
        .any(|(name, value)| (name == "list-type" && value == "2") || (name == "comp" && value == "list"))
}

/// Returns whether the host of the URL is the machine's metadata address, which provides
/// credentials.
fn is_own_address(url: &Url) -> bool {
    url.host_str().is_some_and(|host| host.starts_with("169.254.") || host == "metadata.google.internal")
}

async fn collected(mut body: HttpRequestBody) -> Result<Bytes, Fault> {
    if let Some(bytes) = body.as_bytes() {
        return Ok(bytes.clone());
    }
    let len = body.content_length();
    let mut all = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| Fault::permanent(Error::io("cannot read the body of the request")))?;
        match frame.into_data() {
            // The request body of an uploaded part is already in one piece and does not need to be
            // copied.
            Ok(bytes) if bytes.len() == len => return Ok(bytes),
            Ok(bytes) => all.extend_from_slice(&bytes),
            Err(_) => {}
        }
    }
    Ok(all.into())
}

/// A response body. The mutex is only needed to make it `Sync`, and the lock is never contended.
struct SyncBody(Mutex<Pieces>);

impl Body for SyncBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let pieces = match self.get_mut().0.get_mut() {
            Ok(pieces) => pieces,
            Err(poisoned) => poisoned.into_inner(),
        };
        pieces
            .poll_next_unpin(context)
            .map(|piece| piece.map(|piece| piece.map(Frame::data).map_err(|fault| failed(fault.into()))))
    }
}
