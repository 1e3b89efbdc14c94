//! A local server for which each test defines the responses.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path and query of the request.
    pub(crate) target: String,
    /// The headers, keyed by lowercase name.
    pub(crate) headers: HashMap<String, String>,
    /// The request body, which is shared with the list of recorded requests.
    pub(crate) body: Arc<Vec<u8>>,
    /// Index of this request among all requests that the server has received.
    pub(crate) number: usize,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    /// Returns the requested range of a file with `len` bytes.
    pub(crate) fn range(&self, len: usize) -> Option<(usize, usize)> {
        let (start, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((start.parse().unwrap(), (last.parse::<usize>().unwrap() + 1).min(len)))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) body_mode: BodyMode,
}

/// How a response body is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BodyMode {
    Whole,
    /// Send only this many bytes, and then close the connection.
    Cut(usize),
    /// Send one byte at a time, with a pause after each byte.
    Slow(Duration),
    /// Repeat the body forever, without a length.
    Endless,
    /// Close the connection without a response.
    Lost,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), body_mode: BodyMode::Whole }
    }

    pub(crate) fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.headers.push((name.into(), value.to_string()));
        self
    }

    pub(crate) fn with_body_mode(mut self, body_mode: BodyMode) -> Self {
        self.body_mode = body_mode;
        self
    }

    pub(crate) fn redirect(to: impl std::fmt::Display) -> Self {
        Self::new(302, "").with("Location", to)
    }

    /// Returns a file as a correct server does: the requested range, if the version of the file
    /// matches the conditions of the request.
    pub(crate) fn file(request: &Request, bytes: &[u8], etag: &str) -> Self {
        let other = request.header("if-match").is_some_and(|wanted| wanted != etag);
        if other {
            return Self::new(412, "");
        }
        Self::careless(request, bytes, etag)
    }

    /// Returns the requested range of a file, and ignores conditions.
    pub(crate) fn careless(request: &Request, bytes: &[u8], etag: &str) -> Self {
        let reply = match request.range(bytes.len()) {
            None => Self::new(200, bytes),
            Some((start, _)) if start >= bytes.len() => {
                Self::new(416, "").with("Content-Range", format!("bytes */{}", bytes.len()))
            }
            Some((start, end)) => {
                let range = format!("bytes {start}-{}/{}", end - 1, bytes.len());
                Self::new(206, &bytes[start..end]).with("Content-Range", range)
            }
        };
        if etag.is_empty() { reply } else { reply.with("ETag", etag) }
    }
}

pub(crate) struct Server {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, over) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::<AtomicBool>::default());
        let (log, ended, answer) = (Arc::clone(&requests), Arc::clone(&over), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || {
                    // Clients may close the connection at any time.
                    let _ = serve(&stream, &log, &*answer);
                });
            }
        });
        Self { port, requests, over }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // This connection wakes up the server, which is waiting for the next connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(
    stream: &TcpStream,
    log: &Mutex<Vec<Request>>,
    answer: &(dyn Fn(&Request) -> Reply + Send + Sync),
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut out = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let len = headers.get("content-length").map_or(0, |len| len.parse().unwrap());
        let mut body = vec![0; len];
        reader.read_exact(&mut body)?;
        let request = {
            let mut log = log.lock().unwrap();
            let number = log.len();
            log.push(Request { method, target, headers, body: Arc::new(body), number });
            log[number].clone()
        };
        let reply = answer(&request);
        if let BodyMode::Lost = reply.body_mode {
            return Ok(());
        }
        let mut head = format!("HTTP/1.1 {} Said\r\n", reply.status);
        let has_length = reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        match reply.body_mode {
            BodyMode::Endless => head += "Connection: close\r\n",
            _ if has_length => {}
            _ => head += &format!("Content-Length: {}\r\n", reply.body.len()),
        }
        for (name, value) in &reply.headers {
            head += &format!("{name}: {value}\r\n");
        }
        out.write_all(format!("{head}\r\n").as_bytes())?;
        if request.method == "HEAD" {
            continue;
        }
        match reply.body_mode {
            BodyMode::Whole | BodyMode::Lost => out.write_all(&reply.body)?,
            BodyMode::Cut(bytes) => return out.write_all(&reply.body[..bytes.min(reply.body.len())]),
            BodyMode::Slow(pause) => {
                for byte in &reply.body {
                    out.write_all(&[*byte])?;
                    std::thread::sleep(pause);
                }
            }
            BodyMode::Endless => loop {
                out.write_all(&reply.body)?;
            },
        }
    }
}

/// Returns test bytes, each of which depends on its offset.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    for number in 0..=len as u64 / 8 {
        bytes.extend_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
