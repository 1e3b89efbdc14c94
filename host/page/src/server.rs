//! A server that listens only on this machine's loopback address. Each request must contain the
//! token from the server's URL. The token has 128 random bits. The server limits the number of
//! connections, and each connection's duration and bytes.

use crate::html::{Reach, policy, script};
use crate::request::{PageRequest, Refusal, is_passing, parse, read_head};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of concurrent connections. A browser opens six connections.
const MAX_CONNECTIONS: usize = 32;
/// Time limit for sending a response.
const MAX_ANSWER_LENGTH: Duration = Duration::from_secs(60);
/// Time after which a waiting connection checks whether the server has stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Pause between checks for new connections and for the end of the server.
const PAUSE: Duration = Duration::from_millis(20);

/// The response to a request for the page or its data.
#[derive(Debug, Clone)]
pub enum PageResponse {
    Html(Arc<str>),
    Json(String),
    /// An error message, sent as JSON.
    Failed(String),
    /// The requested path does not exist.
    NotFound,
}

/// A server that is bound to a port, and its token.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    port: u16,
    token: String,
}

impl Server {
    /// Binds a server to a port of 127.0.0.1. Port 0 selects a free port.
    pub fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let token = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { port: listener.local_addr()?.port(), listener, token })
    }

    /// Returns the URL of the page. Anyone with this URL can access everything that the page shows.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// Handles requests until `is_ended` returns true, with one thread per connection. An error on
    /// a connection ends only that connection.
    pub fn serve(
        &self,
        is_ended: &(dyn Fn() -> bool + Sync),
        answer: &(dyn Fn(&PageRequest) -> PageResponse + Sync),
    ) -> io::Result<()> {
        let (open, waiting) = (AtomicUsize::new(0), Waiting::default());
        std::thread::scope(|scope| {
            while !is_ended() {
                let stream = match self.listener.accept() {
                    Ok((stream, _)) => stream,
                    Err(error) if is_passing(&error) => {
                        std::thread::sleep(PAUSE);
                        continue;
                    }
                    // The client closed the connection before it was accepted.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                    Err(error) => return Err(error),
                };
                // Browsers keep unused connections open, so the connection that has waited longest
                // is closed.
                if open.load(Ordering::Relaxed) >= MAX_CONNECTIONS && !waiting.close_oldest() {
                    drop(stream);
                    continue;
                }
                open.fetch_add(1, Ordering::Relaxed);
                let (open, waiting, ticket) = (&open, &waiting, waiting.enter(&stream));
                scope.spawn(move || {
                    // An error means that the client has closed the connection, so the error cannot
                    // be reported to the client.
                    let _ = self.handle_connection(stream, is_ended, answer, || waiting.leave(ticket));
                    waiting.leave(ticket);
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Ok(())
        })
    }

    fn handle_connection(
        &self,
        mut stream: TcpStream,
        is_ended: &dyn Fn() -> bool,
        answer: &dyn Fn(&PageRequest) -> PageResponse,
        has_asked: impl FnOnce(),
    ) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(POLL_INTERVAL))?;
        stream.set_write_timeout(Some(POLL_INTERVAL))?;
        let head = read_head(&mut stream, is_ended);
        has_asked();
        let asked = head.and_then(|head| parse(&head, self.port, &self.token));
        let refused = |refusal: Refusal| {
            let (status, words) = refusal.status();
            (status, words, "text/plain; charset=utf-8", Arc::from(format!("{words}\n")))
        };
        let (status, words, kind, body) = match asked {
            Err(Refusal::Gone) => return Ok(()),
            Err(refusal) => refused(refusal),
            Ok(request) => match answer(&request) {
                PageResponse::Html(page) => (200, "OK", "text/html; charset=utf-8", page),
                PageResponse::Json(json) => (200, "OK", "application/json", Arc::from(json)),
                PageResponse::Failed(json) => {
                    (500, "Internal Server Error", "application/json", Arc::from(json))
                }
                PageResponse::NotFound => refused(Refusal::NotFound),
            },
        };
        let head = self.head(status, words, kind, body.len());
        let started = Instant::now();
        let is_over = || is_ended() || started.elapsed() > MAX_ANSWER_LENGTH;
        write_all(&mut stream, head.as_bytes(), &is_over)?;
        write_all(&mut stream, body.as_bytes(), &is_over)?;
        stream.shutdown(Shutdown::Write)?;
        // If unread input remained, closing the connection would discard the response.
        let mut rest = [0; 1024];
        for _ in 0..64 {
            if stream.read(&mut rest)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Returns the first line and the headers of a response.
    fn head(&self, status: u16, words: &str, kind: &str, len: usize) -> String {
        let policy = policy(&script(), Reach::ItsServer);
        let allow = if status == 405 { "Allow: GET\r\n" } else { "" };
        format!(
            "HTTP/1.1 {status} {words}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n{allow}\
             Content-Security-Policy: {policy}; frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n\
             Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Cross-Origin-Opener-Policy: same-origin\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
    }
}

/// Connections that have not yet sent a request, oldest first.
#[derive(Default)]
struct Waiting(Mutex<(u64, BTreeMap<u64, TcpStream>)>);

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, TcpStream>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, and returns the ticket to remove it.
    fn enter(&self, stream: &TcpStream) -> u64 {
        let mut waiting = self.lock();
        let (next, streams) = &mut *waiting;
        *next += 1;
        streams.extend(stream.try_clone().ok().map(|stream| (*next, stream)));
        *next
    }

    fn leave(&self, ticket: u64) {
        self.lock().1.remove(&ticket);
    }

    /// Closes the connection that has waited longest, which ends its thread. Returns `false` if no
    /// connection is waiting.
    fn close_oldest(&self) -> bool {
        let oldest = self.lock().1.pop_first();
        oldest.is_some_and(|(_, stream)| stream.shutdown(Shutdown::Both).is_ok())
    }
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8], is_over: &dyn Fn() -> bool) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        if is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Sends bytes to a server and returns the response.
    fn ask(server: &Server, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(request.replace('\n', "\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn serving(test: impl FnOnce(&Server)) {
        let server = Server::bind(0).unwrap();
        let is_ended = AtomicBool::new(false);
        let answer = |request: &PageRequest| match &*request.path {
            "" => PageResponse::Html("<p>page".into()),
            "values" => PageResponse::Json(format!("{:?}", request.number("n"))),
            _ => PageResponse::NotFound,
        };
        std::thread::scope(|scope| {
            let running = scope.spawn(|| server.serve(&|| is_ended.load(Ordering::Relaxed), &answer));
            let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&server)));
            is_ended.store(true, Ordering::Relaxed);
            running.join().unwrap().unwrap();
            tested.unwrap();
        });
    }

    #[test]
    fn who_has_the_address_gets_the_page_and_nobody_else() {
        serving(|server| {
            let (port, token) = (server.port, &server.token);
            assert_eq!(server.address(), format!("http://127.0.0.1:{port}/{token}/"));
            assert_eq!(token.len(), 32);
            let host = format!("Host: 127.0.0.1:{port}\n");
            let page = ask(server, &format!("GET /{token}/ HTTP/1.1\n{host}\n"));
            assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\n<p>page"), "{page}");
            for header in
                ["Content-Length: 7\r\n", "nosniff", "no-store", "default-src 'none'", "no-referrer"]
            {
                assert!(page.contains(header), "{header}: {page}");
            }
            assert!(!page.to_lowercase().contains("access-control"), "{page}");
            assert!(ask(server, &format!("GET /{token}/values?n=7 HTTP/1.1\n{host}\n")).ends_with("Some(7)"));
            let refused = |request: String, status: &str| {
                let answer = ask(server, &request);
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
                assert!(!answer.contains(&**token) && !answer.contains("page"), "{answer}");
            };
            refused(format!("GET / HTTP/1.1\n{host}\n"), "404");
            refused(format!("GET /{token}/../../etc/passwd HTTP/1.1\n{host}\n"), "404");
            refused(format!("GET /{token}/ HTTP/1.1\nHost: evil.example:{port}\n\n"), "421");
            refused(format!("POST /{token}/ HTTP/1.1\n{host}Content-Length: 4\n\nabcd"), "405");
            refused(format!("GET /{token}/{} HTTP/1.1\n{host}\n", "a".repeat(20_000)), "431");
            refused("nonsense\n\n".to_owned(), "400");
        });
    }

    #[test]
    fn who_says_nothing_is_in_nobodys_way() {
        serving(|server| {
            let silent: Vec<TcpStream> =
                (0..40).map(|_| TcpStream::connect(("127.0.0.1", server.port)).unwrap()).collect();
            let request = format!("GET /{}/ HTTP/1.1\nHost: localhost:{}\n\n", server.token, server.port);
            assert!(ask(server, &request).starts_with("HTTP/1.1 200 "));
            // The oldest connection was closed to make room. The other connections were closed when
            // the server ended.
            let told = |mut stream: &TcpStream| {
                let mut answer = String::new();
                stream.read_to_string(&mut answer).map(|_| answer)
            };
            assert_eq!(told(&silent[0]).unwrap_or_default(), "");
            let answer = told(&silent[39]).unwrap();
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        });
    }

    #[test]
    fn no_two_tokens_are_the_same() {
        let [one, other] = [Server::bind(0).unwrap(), Server::bind(0).unwrap()];
        assert_ne!(one.token, other.token);
        assert!(Server::bind(one.port).is_err());
    }
}
