//! A proxy between `ferry` and a third-party store. It checks uploads against their checksums,
//! which the store does not check, and injects the faults that a test selects.

use crate::store_support::server::{Reply, Request, Server};
use crate::store_support::store;
use base64::prelude::{BASE64_STANDARD, Engine};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Forwards a request and returns the response.
pub(crate) type Pass<'p> = &'p dyn Fn(&Request) -> Reply;

pub(crate) struct Proxy {
    pub(crate) server: Server,
    checked: Arc<Checked>,
}

#[derive(Default)]
struct Checked {
    /// The number of bodies with a checksum.
    count: AtomicUsize,
    /// The bodies that do not match their checksum.
    wrong: Mutex<Vec<String>>,
}

impl Proxy {
    /// Starts a proxy in front of the server at this port. `way` answers each request, and may
    /// forward it.
    pub(crate) fn start(
        port: u16,
        way: impl Fn(&Request, Pass<'_>) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let checked = Arc::<Checked>::default();
        let seen = Arc::clone(&checked);
        let server = Server::start(move |request| way(request, &|request| seen.pass(port, request)));
        Self { server, checked }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("endpoint=http://127.0.0.1:{}", self.server.port)
    }

    /// Returns the number of bodies with a checksum.
    pub(crate) fn checked(&self) -> usize {
        self.checked.count.load(Ordering::SeqCst)
    }

    /// Returns the bodies that do not match their checksum.
    pub(crate) fn wrong(&self) -> Vec<String> {
        self.checked.wrong.lock().unwrap().clone()
    }
}

impl Checked {
    fn pass(&self, port: u16, request: &Request) -> Reply {
        let found = checksums(request);
        self.count.fetch_add(usize::from(!found.is_empty()), Ordering::SeqCst);
        if let Some((name, ..)) = found.iter().find(|(_, said, is)| said != is) {
            self.wrong.lock().unwrap().push(format!("{name} of {} {}", request.method, request.target));
            return store::error(400, "BadDigest");
        }
        ask(port, request)
    }
}

/// Returns the checksums of a body. For each, returns the name of the header, its value, and the
/// correct value.
fn checksums(request: &Request) -> Vec<(&'static str, String, String)> {
    let sha256 = Sha256::digest(&request.body[..]);
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &request.body[..]);
    let hex: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    let of = [
        ("x-amz-checksum-crc64nvme", BASE64_STANDARD.encode(crc.to_be_bytes())),
        ("x-amz-checksum-sha256", BASE64_STANDARD.encode(sha256)),
        ("x-amz-content-sha256", hex),
    ];
    // The last header may specify that the body is not signed.
    let said = |name| request.header(name).filter(|text| !text.starts_with("UNSIGNED")).map(str::to_owned);
    let is_sent = !request.body.is_empty();
    of.into_iter().filter_map(|(name, is)| Some((name, said(name).filter(|_| is_sent)?, is))).collect()
}

/// Returns the response of the server at a port.
pub(crate) fn ask(port: u16, request: &Request) -> Reply {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // In HTTP/1.0, the end of the connection ends the response.
    let mut head = format!("{} {} HTTP/1.0\r\n", request.method, request.target);
    for (name, value) in request.headers.iter().filter(|(name, _)| *name != "connection") {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream.write_all(&request.body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let own = |name: &str| ["connection", "server", "date"].contains(&name.to_ascii_lowercase().as_str());
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.filter(|(name, _)| !own(name));
    headers
        .fold(Reply::new(status, &answer[end + 4..]), |reply, (name, value)| reply.with(name, value.trim()))
}

/// Returns a request with a signature that the server does not check.
pub(crate) fn request(method: &str, target: &str, body: &[u8]) -> Request {
    let signature =
        "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
    let headers = [
        ("host", "127.0.0.1".to_owned()),
        ("content-length", body.len().to_string()),
        ("authorization", signature.to_owned()),
    ];
    Request {
        method: method.to_owned(),
        target: target.to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
        body: Arc::new(body.to_vec()),
        number: 0,
    }
}
