//! Reads the headers of an HTTP request within size and time limits, and accepts only simple
//! requests that contain the token.

use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

/// Maximum total size of the first line and the headers, in bytes.
const MAX_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 64;
/// Time limit for receiving the headers. The limit is shorter in tests, because the tests wait
/// until the limit is reached.
const HEADER_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });

/// An accepted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// The path after the token and its slash; empty for the page itself.
    pub path: String,
    /// The query: the text after the question mark.
    pub query: String,
}

impl PageRequest {
    /// Returns an integer parameter of the query.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<usize> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let mut found = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value.parse().ok());
        found.next().flatten()
    }
}

/// The reason for rejecting a request, which determines the HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed,
    Host,
    NotFound,
    Method,
    TooSlow,
    HasBody,
    TooLarge,
    /// The client has closed the connection, so there is no response.
    Gone,
}

impl Refusal {
    /// Returns the HTTP status code and its text.
    pub(crate) fn status(self) -> (u16, &'static str) {
        match self {
            Self::Malformed | Self::Gone => (400, "Bad Request"),
            Self::Host => (421, "Misdirected Request"),
            Self::NotFound => (404, "Not Found"),
            Self::Method => (405, "Method Not Allowed"),
            Self::TooSlow => (408, "Request Timeout"),
            Self::HasBody => (413, "Content Too Large"),
            Self::TooLarge => (431, "Request Header Fields Too Large"),
        }
    }
}

/// Reads up to the end of the headers. Reads of the stream must time out regularly, so that this
/// function can check `is_ended`.
pub(crate) fn read_head(stream: &mut impl Read, is_ended: &dyn Fn() -> bool) -> Result<Vec<u8>, Refusal> {
    let started = Instant::now();
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(Refusal::Gone),
            Ok(count) => head.extend_from_slice(&buffer[..count]),
            Err(error) if is_passing(&error) => {}
            Err(_) => return Err(Refusal::Gone),
        }
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            head.truncate(end + 4);
            return if head.len() > MAX_BYTES { Err(Refusal::TooLarge) } else { Ok(head) };
        }
        if head.len() > MAX_BYTES {
            return Err(Refusal::TooLarge);
        }
        if started.elapsed() > HEADER_TIMEOUT || is_ended() {
            return Err(Refusal::TooSlow);
        }
    }
}

/// Returns whether a read or write can be tried again.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Parses the headers, and checks that the request is for the server with this port and token.
pub(crate) fn parse(head: &[u8], port: u16, token: &str) -> Result<PageRequest, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooLarge),
        _ => return Err(Refusal::Malformed),
    }
    let valued = |name: &str| {
        let of_name = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        of_name.map(|header| header.value).collect::<Vec<_>>()
    };
    // With DNS rebinding, a foreign site resolves to this machine, but the request has the site's
    // own host name.
    let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let [host] = valued("host")[..] else { return Err(Refusal::Host) };
    if !own.iter().any(|own| own.as_bytes() == host) {
        return Err(Refusal::Host);
    }
    if valued("origin")
        .iter()
        .any(|origin| !own.iter().any(|own| format!("http://{own}").as_bytes() == *origin))
    {
        return Err(Refusal::Host);
    }
    if request.method != Some("GET") {
        return Err(Refusal::Method);
    }
    let is_body = |value: &[u8]| value != b"0";
    if !valued("transfer-encoding").is_empty() || valued("content-length").into_iter().any(is_body) {
        return Err(Refusal::HasBody);
    }
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut parts = path.splitn(3, '/');
    let (Some(""), Some(given), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Refusal::NotFound);
    };
    if !is_same(given.as_bytes(), token.as_bytes()) {
        return Err(Refusal::NotFound);
    }
    Ok(PageRequest { path: path.to_owned(), query: query.to_owned() })
}

/// Compares two byte strings in constant time.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn of(text: &str) -> Result<PageRequest, Refusal> {
        parse(text.replace('\n', "\r\n").as_bytes(), 4242, "secret")
    }

    #[test]
    fn a_question_with_the_token_is_one() {
        let page = of("GET /secret/ HTTP/1.1\nHost: 127.0.0.1:4242\n\n").unwrap();
        assert_eq!((&*page.path, &*page.query), ("", ""));
        let values =
            of("GET /secret/values?model=0&tensor=12 HTTP/1.1\nhost: localhost:4242\nContent-Length: 0\n\n");
        let values = values.unwrap();
        assert_eq!(
            (&*values.path, values.number("tensor"), values.number("row")),
            ("values", Some(12), None)
        );
        of("GET /secret/ HTTP/1.1\nHost: 127.0.0.1:4242\nOrigin: http://127.0.0.1:4242\n\n").unwrap();
    }

    #[test]
    fn everything_else_is_refused() {
        let host = "Host: 127.0.0.1:4242\n";
        for (text, refusal) in [
            (format!("GET / HTTP/1.1\n{host}\n"), Refusal::NotFound),
            (format!("GET /secret HTTP/1.1\n{host}\n"), Refusal::NotFound),
            (format!("GET /secreT/ HTTP/1.1\n{host}\n"), Refusal::NotFound),
            (format!("GET //secret/ HTTP/1.1\n{host}\n"), Refusal::NotFound),
            (format!("GET http://127.0.0.1:4242/secret/ HTTP/1.1\n{host}\n"), Refusal::NotFound),
            (format!("POST /secret/ HTTP/1.1\n{host}\n"), Refusal::Method),
            (format!("OPTIONS /secret/ HTTP/1.1\n{host}\n"), Refusal::Method),
            (format!("GET /secret/ HTTP/1.1\n{host}Content-Length: 3\n\n"), Refusal::HasBody),
            (format!("GET /secret/ HTTP/1.1\n{host}Transfer-Encoding: chunked\n\n"), Refusal::HasBody),
            (format!("GET /secret/ HTTP/1.1\n{host}{host}\n"), Refusal::Host),
            (format!("GET /secret/ HTTP/1.1\n{host}Origin: http://evil.example\n\n"), Refusal::Host),
            (format!("GET /secret/ HTTP/1.1\n{host}Origin: null\n\n"), Refusal::Host),
            ("GET /secret/ HTTP/1.1\n\n".to_owned(), Refusal::Host),
            ("GET /secret/ HTTP/1.1\nHost: evil.example:4242\n\n".to_owned(), Refusal::Host),
            ("GET /secret/ HTTP/1.1\nHost: 127.0.0.1\n\n".to_owned(), Refusal::Host),
            ("GET /secret/ HTTP/1.1\nHost: 127.0.0.1:4242.evil.example\n\n".to_owned(), Refusal::Host),
            ("GET\n\n".to_owned(), Refusal::Malformed),
            (format!("GET /secret/ HTTP/1.1\n{host}{}\n", "a: b\n".repeat(64)), Refusal::TooLarge),
        ] {
            assert_eq!(of(&text).unwrap_err(), refusal, "{text}");
        }
    }

    #[test]
    fn headers_without_an_end_are_too_large() {
        let long = [b'a'; 20 << 10];
        assert_eq!(read_head(&mut &long[..], &|| false), Err(Refusal::TooLarge));
        assert_eq!(read_head(&mut &b"GET /"[..], &|| false), Err(Refusal::Gone));
        assert_eq!(read_head(&mut &b"GET /\r\n\r\nmore"[..], &|| false).unwrap(), b"GET /\r\n\r\n");
    }
}
