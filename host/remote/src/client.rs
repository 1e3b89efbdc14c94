//! The HTTP client. It follows redirects itself, retries requests, and enforces a minimum rate.

use crate::address::{is_public, literal};
use crate::body::Body;
use crate::counted_body::CountedBody;
use crate::fault::{Fault, Remedy, RetryLimits, causes};
use crate::secret::{Secret, scrubbed, shown};
use crate::settings::Settings;
use bytes::Bytes;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};
use tensorferry_sdk::{Error, Result};

#[derive(Debug, Clone)]
pub(crate) struct ClientRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ClientRequest {
    pub(crate) fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: Bytes::new() }
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

#[derive(Debug)]
pub(crate) struct ClientResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The URL from which the response was received, after all redirects.
    pub(crate) url: Url,
    pub(crate) body: Body,
    /// The secrets in the request, which the server might repeat in its messages.
    secrets: Vec<Secret>,
}

impl ClientResponse {
    /// Returns the value of a header as text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Determines which redirects the client follows.
#[derive(Debug, Clone)]
pub(crate) enum Follow {
    /// Follow all allowed redirects.
    Yes,
    /// Do not follow redirects. The caller handles them.
    No,
    /// Follow all allowed redirects. The URL of the request is itself the target of an earlier
    /// redirect from this URL.
    After(Url),
}

/// The HTTP client that all places (servers, repositories and buckets) share. It contains a
/// connection pool and the rules for requests.
#[derive(Clone)]
pub(crate) struct Client {
    any: reqwest::Client,
    /// A client that connects only to public addresses. It is created at the first redirect to
    /// another host.
    public: Arc<OnceLock<reqwest::Client>>,
    settings: Arc<Settings>,
    rules: Arc<Rules>,
    /// For each host that has sent a redirect, whether all of its addresses are private.
    within: Arc<Mutex<HashMap<String, bool>>>,
}

struct Rules {
    tries: usize,
    retry_time: Duration,
    answer_time: Duration,
    min_rate: u64,
    min_rate_time: Duration,
    redirect_to: Vec<String>,
    secrets: Vec<Secret>,
}

/// Maximum number of redirects that a request follows.
const MAX_REDIRECTS: usize = 10;

/// Maximum number of bytes to read from the body of an error response. Providers' messages are a
/// few hundred bytes long.
pub(crate) const MAX_ERROR_BYTES: usize = 64 << 10;

/// Headers that may be forwarded to another host. All other headers may be secret or part of a
/// signature.
const FOR_OTHER_HOSTS: [HeaderName; 8] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
    header::USER_AGENT,
];

impl Client {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        // This call fails if the program has already installed a cryptography provider. In that
        // case, the installed provider is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let hosts = settings.text("redirect-to").unwrap_or_default();
        let rules = Rules {
            tries: settings.count("retries"),
            retry_time: settings.time("retry-time"),
            answer_time: settings.time("answer-timeout"),
            min_rate: settings.bytes("min-rate"),
            min_rate_time: settings.time("min-rate-time"),
            redirect_to: hosts.split(',').map(|host| host.trim().to_ascii_lowercase()).collect(),
            secrets: settings.secrets(),
        };
        Ok(Self {
            any: build(settings, None)?,
            public: Arc::default(),
            settings: Arc::new(settings.clone()),
            rules: Arc::new(rules),
            within: Arc::default(),
        })
    }

    /// Returns the limits for retries.
    pub(crate) fn retry_limits(&self) -> RetryLimits {
        RetryLimits::new(self.rules.tries, self.rules.retry_time)
    }

    /// Removes secrets that the settings contain from a server's message.
    pub(crate) fn scrubbed(&self, words: &str) -> String {
        scrubbed(words, &self.rules.secrets)
    }

    /// Sends a request, and retries it after temporary failures. Returns any response whose status
    /// a retry would not change. The request must be safe to repeat.
    pub(crate) async fn request(&self, request: &ClientRequest) -> Result<ClientResponse, Fault> {
        self.request_with(request, &Follow::Yes).await
    }

    /// Sends a request like [`request`](Self::request). The caller determines which redirects are
    /// followed.
    pub(crate) async fn request_with(
        &self,
        request: &ClientRequest,
        follow: &Follow,
    ) -> Result<ClientResponse, Fault> {
        let mut retry_limits = self.retry_limits();
        loop {
            let fault = match self.once(request, follow).await {
                Ok(response) => match busy(&response) {
                    None => return Ok(response),
                    Some(after) => {
                        let words = self.words(response).await;
                        Fault { remedy: Remedy::Retry(after), ..Fault::transient(words) }
                    }
                },
                Err(fault) => fault,
            };
            retry_limits.wait(fault.of(&shown(&request.url))).await?;
        }
    }

    /// Like [`ask`](Self::ask), but without retries. After a temporary failure, it is unknown
    /// whether the server has processed the request.
    pub(crate) async fn request_once(&self, request: &ClientRequest) -> Result<ClientResponse, Fault> {
        let response = self.once(request, &Follow::No).await?;
        match busy(&response) {
            None => Ok(response),
            Some(after) => {
                let words = self.words(response).await;
                Err(Fault { remedy: Remedy::Retry(after), ..Fault::transient(words) })
            }
        }
    }

    /// Sends a request once. If the request is a read, follows redirects.
    async fn once(&self, request: &ClientRequest, follow: &Follow) -> Result<ClientResponse, Fault> {
        let mut request = request.clone();
        let (first, mut is_of_first_host) = match follow {
            Follow::After(first) => (first.clone(), is_same_host(first, &request.url)),
            Follow::Yes | Follow::No => (request.url.clone(), true),
        };
        if !is_of_first_host {
            request.headers = forwarded(&request.headers);
        }
        for _ in 0..=MAX_REDIRECTS {
            let client =
                if is_of_first_host { &self.any } else { self.client_for(&first, &request.url).await? };
            let response = self.send(client, &request).await?;
            let next = redirect(&request, &response)?.filter(|_| !matches!(follow, Follow::No));
            let Some(next) = next else { return Ok(response) };
            if !is_same_host(&request.url, &next) {
                request.headers = forwarded(&request.headers);
                is_of_first_host = false;
            }
            request.url = next;
        }
        Err(Fault::permanent(Error::io(format!("more than {MAX_REDIRECTS} redirects")).file(shown(&first))))
    }

    async fn send(&self, client: &reqwest::Client, request: &ClientRequest) -> Result<ClientResponse, Fault> {
        let mut raw = reqwest::Request::new(request.method.clone(), request.url.clone());
        *raw.headers_mut() = request.headers.clone();
        let (body, taken) = CountedBody::new(request.body.clone());
        if !request.body.is_empty() {
            *raw.body_mut() = Some(reqwest::Body::wrap(body));
        }
        let name = shown(&request.url);
        let response = self.in_time(client.execute(raw), &taken, request.body.len() as u64).await;
        let response = match response? {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.fault(error).of(&name)),
            Err(_) => {
                let seconds = self.rules.answer_time.as_secs_f32();
                return Err(Fault::transient(format!("no response within {seconds} s")).of(&name));
            }
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let body = Body::new(response, self.rules.min_rate, self.rules.min_rate_time);
        Ok(ClientResponse { status, headers, url: request.url.clone(), body, secrets: secrets_of(request) })
    }

    /// Waits for the response to a request, with a time limit that starts when the request body has
    /// been sent.
    async fn in_time<T>(
        &self,
        request: impl Future<Output = T>,
        taken: &AtomicU64,
        len: u64,
    ) -> Result<Result<T, tokio::time::error::Elapsed>, Fault> {
        let mut request = std::pin::pin!(request);
        let mut before = 0;
        while before < len {
            let found = tokio::time::timeout(self.rules.min_rate_time, &mut request).await;
            if found.is_ok() {
                return Ok(found);
            }
            let now = taken.load(Ordering::Relaxed);
            let least = self.rules.min_rate.saturating_mul(self.rules.min_rate_time.as_secs().max(1));
            if now < len && now - before < least {
                return Err(Fault::transient(format!(
                    "{} bytes were sent in {} s, below the setting min-rate of {}",
                    now - before,
                    self.rules.min_rate_time.as_secs_f32(),
                    self.rules.min_rate
                )));
            }
            before = now;
        }
        Ok(tokio::time::timeout(self.rules.answer_time, request).await)
    }

    /// Returns the client to use for a redirect from `first` to `next`. The returned client
    /// connects to private addresses only if the first host's addresses are private, or if the
    /// settings name the target host.
    async fn client_for(&self, first: &Url, next: &Url) -> Result<&reqwest::Client, Fault> {
        let host = next.host_str().unwrap_or_default().to_ascii_lowercase();
        if self.rules.redirect_to.contains(&host) || self.is_within_a_site(first).await {
            return Ok(&self.any);
        }
        match literal(next) {
            Some(address) if !is_public(address) => Err(Fault::permanent(
                Error::io(format!("redirects to {host}, a private address"))
                    .file(shown(first))
                    .hint(format!("pass --store redirect-to={host} to allow it")),
            )),
            _ => match self.public.get() {
                Some(client) => Ok(client),
                None => {
                    let client = build(&self.settings, Some(Arc::new(PublicResolver)))?;
                    Ok(self.public.get_or_init(|| client))
                }
            },
        }
    }

    async fn is_within_a_site(&self, url: &Url) -> bool {
        if let Some(address) = literal(url) {
            return !is_public(address);
        }
        let Some(host) = url.host_str() else { return false };
        let known = || self.within.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(is_within) = known().get(host).copied() {
            return is_within;
        }
        let port = url.port_or_known_default().unwrap_or(443);
        // If the name cannot be resolved here, a proxy may resolve it, so the failure is not an
        // error.
        let found = tokio::net::lookup_host((host, port)).await.map(Iterator::collect);
        let found: Vec<SocketAddr> = found.unwrap_or_default();
        let is_within = !found.is_empty() && found.iter().all(|address| !is_public(address.ip()));
        known().insert(host.to_owned(), is_within);
        is_within
    }

    fn fault(&self, error: reqwest::Error) -> Fault {
        let error = error.without_url();
        let text = causes(&error);
        // TLS errors and refused addresses are permanent, so a retry does not help.
        let is_refused = text.contains("invalid peer certificate") || text.contains("a private address");
        let text = self.scrubbed(&text);
        if is_refused || error.is_builder() {
            Fault::permanent(Error::io(text))
        } else {
            Fault::transient(text)
        }
    }

    /// Returns the status and the message of an error response as text.
    pub(crate) async fn words(&self, response: ClientResponse) -> String {
        let status = response.status;
        let told = ["x-error-message", "x-ms-error-code"].iter().find_map(|name| response.text(name));
        let told = match told {
            Some(told) => told.to_owned(),
            None => message_of(&response.body.start(MAX_ERROR_BYTES).await),
        };
        let told = scrubbed(&self.scrubbed(&told), &response.secrets);
        let reason = status.canonical_reason().unwrap_or_default();
        let status = format!("answered {} {reason}", status.as_u16());
        if told.is_empty() { status.trim().to_owned() } else { format!("{}: {told}", status.trim()) }
    }
}

fn build(settings: &Settings, resolver: Option<Arc<PublicResolver>>) -> Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("tensorferry/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .http1_only()
        .connect_timeout(settings.time("connect-timeout"))
        .pool_idle_timeout(Duration::from_secs(30));
    if let Some(path) = settings.text("ca-bundle") {
        builder = builder.tls_certs_merge(certificates(path)?);
    }
    if let Some(resolver) = resolver {
        builder = builder.dns_resolver(resolver);
    }
    builder.build().map_err(|error| Error::io(format!("cannot set up TLS: {}", causes(&error))))
}

/// Returns `Some` if a response is a temporary failure. The inner value is the wait that the server
/// requests, if any.
fn busy(response: &ClientResponse) -> Option<Option<Duration>> {
    let is_transient = match response.status.as_u16() {
        408 | 425 | 429 => true,
        501 | 505 => false,
        status => status >= 500,
    };
    is_transient.then(|| {
        let asked = response.text("retry-after").and_then(|text| retry_after(text.trim(), SystemTime::now()));
        asked.or_else(|| Some(Duration::from_secs(rate_limit_reset(response.text("ratelimit")?)?)))
    })
}

/// Parses the value of `Retry-After`, which is a number of seconds or a date (RFC 9110, section
/// 10.2.3).
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    // If the date is in the past, the wait is zero.
    Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default())
}

/// Returns the number of seconds until an exhausted rate limit is reset. An IETF draft defines the
/// header that contains this number, with values such as `"api";r=0;t=55`.
fn rate_limit_reset(text: &str) -> Option<u64> {
    let mut parts = text.split(';').map(str::trim);
    let is_spent = parts.clone().any(|part| part == "r=0");
    parts.find_map(|part| part.strip_prefix("t=")?.parse().ok()).filter(|_| is_spent)
}

/// Returns the target URL, if the response is a redirect that may be followed.
pub(crate) fn redirect(request: &ClientRequest, response: &ClientResponse) -> Result<Option<Url>, Fault> {
    let is_redirect = matches!(response.status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let only_reads = request.method == Method::GET || request.method == Method::HEAD;
    let Some(location) = response.text("location").filter(|_| is_redirect && only_reads) else {
        return Ok(None);
    };
    let refused = |why: &str| Fault::permanent(Error::io(why).file(shown(&request.url)));
    let next = request.url.join(location).map_err(|_| refused("redirects to an invalid URL"))?;
    match (request.url.scheme(), next.scheme()) {
        ("http" | "https", "https") | ("http", "http") => Ok(Some(next)),
        ("https", "http") => Err(refused("redirects from https to http")),
        _ => Err(refused("redirects to a protocol other than http")),
    }
}

pub(crate) fn is_same_host(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin()
}

/// Returns the headers that may be forwarded to another host.
fn forwarded(headers: &HeaderMap) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| FOR_OTHER_HOSTS.contains(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

struct PublicResolver;

impl reqwest::dns::Resolve for PublicResolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                let host = name.as_str();
                return Err(format!(
                    "{host} has a private address, and a server redirects to it (--store redirect-to={host} allows it)"
                )
                .into());
            }
            Ok(Box::new(public.into_iter()) as reqwest::dns::Addrs)
        })
    }
}

/// Returns the secrets in a request: its query, and the headers that must not be forwarded.
fn secrets_of(request: &ClientRequest) -> Vec<Secret> {
    let mut secrets: Vec<Secret> = request.url.query().map(Secret::new).into_iter().collect();
    for (_, value) in request.url.query_pairs() {
        secrets.push(Secret::new(value));
    }
    for (name, value) in &request.headers {
        if let (false, Ok(value)) = (FOR_OTHER_HOSTS.contains(name), value.to_str()) {
            secrets.push(Secret::new(value));
            // For values such as `Bearer TOKEN` or `Credential=KEY/DATE/..., Signature=DIGITS`,
            // each part is a secret.
            for part in value.split([' ', ',']) {
                let part = part.split_once('=').map_or(part, |(_, part)| part);
                let parts = [part, part.split('/').next().unwrap_or_default()];
                secrets.extend(parts.into_iter().filter(|part| part.len() >= 8).map(Secret::new));
            }
        }
    }
    secrets
}

fn certificates(path: &str) -> Result<Vec<reqwest::Certificate>> {
    let text = std::fs::read(path)
        .map_err(|error| Error::usage(format!("cannot read ca-bundle: {error}")).file(path))?;
    reqwest::Certificate::from_pem_bundle(&text)
        .map_err(|_| Error::usage("ca-bundle contains no certificates").file(path).expected("PEM"))
}

/// Extracts the message from the body of an error response. The message is a field in JSON or XML,
/// the title of an HTML page, or the first line of plain text.
pub(crate) fn message_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if let Ok(json) = serde_json::from_slice::<serde_json::Value>(body) {
        let error = &json["error"];
        let found = [error, &error["message"], &json["message"], &json["error_description"]];
        return found.iter().find_map(|value| value.as_str()).unwrap_or_default().to_owned();
    }
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.trim().to_owned())
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => element("title").unwrap_or_else(|| {
            let line = text.lines().next().unwrap_or_default();
            if line.trim_start().starts_with('<') { String::new() } else { line.to_owned() }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_host_may_not_send_us_into_a_site() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = |pairs: &[&str]| Client::new(&Settings::with_environment(pairs, []).unwrap()).unwrap();
        let (first, next) = ("https://93.184.216.34/a", "https://169.254.169.254/latest");
        let leads = |pairs: &[&str], first: &str, next: &str| {
            let (client, first, next) =
                (client(pairs), Url::parse(first).unwrap(), Url::parse(next).unwrap());
            let found = runtime.block_on(client.client_for(&first, &next)).map(drop);
            found.map_err(|fault| fault.error.to_string())
        };
        let error = leads(&[], first, next).unwrap_err();
        assert!(error.contains("169.254.169.254, a private address"), "{error}");
        leads(&["redirect-to=a, 169.254.169.254"], first, next).unwrap();
        leads(&[], "http://127.0.0.1/a", next).unwrap();
        leads(&[], first, "https://8.8.8.8/a").unwrap();
        // Host names are checked later, when they are resolved.
        let client = client(&["retries=1"]);
        let request = ClientRequest::get(Url::parse("http://localhost:1/a").unwrap());
        let follow = Follow::After(Url::parse(first).unwrap());
        let fault = runtime.block_on(client.request_with(&request, &follow)).unwrap_err();
        assert!(fault.error.to_string().contains("a private address"), "{}", fault.error);
    }

    #[test]
    fn limits_that_are_spent_say_when_they_end() {
        assert_eq!(rate_limit_reset("\"api\";r=0;t=55"), Some(55));
        assert_eq!(rate_limit_reset("\"api\";r=3;t=55"), None);
    }

    #[test]
    fn a_wait_is_asked_for_in_seconds_or_until_a_date() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        let wait = |text| retry_after(text, now).map(|wait| wait.as_secs());
        assert_eq!(wait("7"), Some(7));
        assert_eq!(wait("Wed, 21 Oct 2015 07:29:30 GMT"), Some(90));
        assert_eq!(wait("Wed, 21 Oct 2015 07:20:00 GMT"), Some(0));
        assert_eq!(wait("soon"), None);
    }

    #[test]
    fn errors_say_what_people_can_read() {
        assert_eq!(message_of(b"{\"error\":{\"message\":\"no\"}}"), "no");
        assert_eq!(message_of(b"<Error><Code>A</Code><Message>b</Message></Error>"), "A: b");
        assert_eq!(message_of(b"<html><head><title>503</title>"), "503");
        assert_eq!(message_of(b"<html>"), "");
        assert_eq!(message_of(b"plain\nmore"), "plain");
    }
}
