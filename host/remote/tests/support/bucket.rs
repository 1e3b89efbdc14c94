//! Simulates a writable bucket of S3 or Google Cloud Storage. The bucket supports conditions,
//! multipart uploads and lists of uploads.

use super::server::{Reply, Request, Server};
use super::store::{self, Objects, decoded, query};
use md5::{Digest, Md5};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The content of a bucket called `bucket`.
#[derive(Default)]
pub(crate) struct Bucket {
    objects: Mutex<Objects>,
    tags: Mutex<BTreeMap<String, String>>,
    uploads: Mutex<BTreeMap<String, Begun>>,
    count: Mutex<usize>,
    /// Present only for Google Cloud Storage.
    google: Option<Google>,
}

/// Additional state of the simulated Google Cloud Storage that the simulated S3 does not have.
#[derive(Default)]
struct Google {
    /// The generation of each object. Generations are never reused.
    generations: Mutex<BTreeMap<String, u64>>,
    last: AtomicU64,
    /// The token that the metadata server returns and that requests must contain. If `None`, there
    /// is no authentication.
    token: Option<String>,
}

/// Path of the token on the metadata server.
const TOKEN_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

struct Begun {
    key: String,
    parts: BTreeMap<usize, Arc<Vec<u8>>>,
}

/// Starts a store with an empty bucket. If `err` returns a reply, that reply is sent instead.
pub(crate) fn start(
    err: impl Fn(&Request, &Bucket) -> Option<Reply> + Send + Sync + 'static,
) -> (Server, Arc<Bucket>) {
    serve(Bucket::default(), err)
}

/// Like [`start`], but for Google Cloud Storage. If `token` is `Some`, the server returns the token
/// as the metadata server does, and rejects requests without it.
pub(crate) fn start_google(
    token: Option<&str>,
    err: impl Fn(&Request, &Bucket) -> Option<Reply> + Send + Sync + 'static,
) -> (Server, Arc<Bucket>) {
    let google = Google { token: token.map(str::to_owned), ..Google::default() };
    serve(Bucket { google: Some(google), ..Bucket::default() }, err)
}

fn serve(
    bucket: Bucket,
    err: impl Fn(&Request, &Bucket) -> Option<Reply> + Send + Sync + 'static,
) -> (Server, Arc<Bucket>) {
    let bucket = Arc::new(bucket);
    let shared = Arc::clone(&bucket);
    let answer = move |request: &Request| err(request, &shared).unwrap_or_else(|| shared.answer(request));
    (Server::start(answer), bucket)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the `ETag` of an object that was uploaded as a whole.
pub(crate) fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", hex(&Md5::digest(bytes)))
}

impl Bucket {
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        self.put_as(key, bytes.to_vec(), tag(bytes));
    }

    fn put_as(&self, key: &str, bytes: Vec<u8>, tag: String) {
        self.tags.lock().unwrap().insert(key.to_owned(), tag);
        if let Some(google) = &self.google {
            let number = google.last.fetch_add(1, Ordering::SeqCst) + 1;
            google.generations.lock().unwrap().insert(key.to_owned(), number);
        }
        self.objects.lock().unwrap().insert(key.to_owned(), bytes);
    }

    fn tag(&self, key: &str) -> String {
        self.tags.lock().unwrap().get(key).cloned().unwrap_or_default()
    }

    /// Returns the generation of an object.
    pub(crate) fn generation(&self, key: &str) -> Option<u64> {
        self.google.as_ref()?.generations.lock().unwrap().get(key).copied()
    }

    /// Adds the generation of an object to a reply, if the store simulates Google Cloud Storage.
    fn numbered(&self, key: &str, reply: Reply) -> Reply {
        match self.generation(key) {
            Some(number) => reply.with("x-goog-generation", number),
            None => reply,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.objects.lock().unwrap().get(key).cloned()
    }

    pub(crate) fn clear(&self) {
        self.objects.lock().unwrap().clear();
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }

    /// Returns the number of uploads that have been neither completed nor aborted.
    pub(crate) fn open_uploads(&self) -> usize {
        self.uploads.lock().unwrap().len()
    }

    pub(crate) fn answer(&self, request: &Request) -> Reply {
        if let Some(token) = self.google.as_ref().and_then(|google| google.token.as_deref()) {
            if request.path() == TOKEN_PATH {
                return match request.header("metadata-flavor") {
                    Some("Google") => Reply::new(
                        200,
                        format!(
                            r#"{{"access_token": "{token}", "expires_in": 3600, "token_type": "Bearer"}}"#
                        ),
                    ),
                    _ => Reply::new(403, ""),
                };
            }
            if request.header("authorization") != Some(&format!("Bearer {token}")) {
                return store::error(401, "AuthenticationRequired");
            }
        }
        let path = decoded(request.path());
        let Some(key) = path.strip_prefix("/bucket") else { return store::error(404, "NoSuchBucket") };
        let key = key.strip_prefix('/').unwrap_or(key);
        let upload = query(request, "uploadId");
        match (request.method.as_str(), &upload) {
            ("GET", None) if query(request, "uploads").is_some() => self.list(request),
            ("GET" | "HEAD", None) if key.is_empty() => store::answer(&self.objects.lock().unwrap(), request),
            ("GET" | "HEAD", None) => self.read(key, request),
            ("POST", None) => self.begin(key),
            ("PUT", Some(id)) => self.part(id, request),
            ("POST", Some(id)) => self.complete(id, key, request),
            ("DELETE", Some(id)) => match self.uploads.lock().unwrap().remove(id) {
                Some(_) => Reply::new(204, ""),
                None => store::error(404, "NoSuchUpload"),
            },
            ("PUT", None) => self.refusal(key, request).unwrap_or_else(|| {
                self.put(key, &request.body);
                self.numbered(key, Reply::new(200, "").with("ETag", tag(&request.body)))
            }),
            ("DELETE", None) => {
                self.objects.lock().unwrap().remove(key);
                if let Some(google) = &self.google {
                    google.generations.lock().unwrap().remove(key);
                }
                Reply::new(204, "")
            }
            _ => Reply::new(405, ""),
        }
    }

    fn read(&self, key: &str, request: &Request) -> Reply {
        let objects = self.objects.lock().unwrap();
        let Some(bytes) = objects.get(key) else { return store::error(404, "NoSuchKey") };
        if let (Some(number), Some(current)) = (query(request, "generation"), self.generation(key))
            && number != current.to_string()
        {
            // The simulated store does not keep older generations.
            return store::error(404, "NoSuchKey");
        }
        let asked = request.header("x-goog-if-generation-match").filter(|_| self.google.is_some());
        if asked.is_some_and(|wanted| {
            self.generation(key).map(|number| number.to_string()).as_deref() != Some(wanted)
        }) {
            return store::error(412, "PreconditionFailed");
        }
        let reply = match request.method.as_str() {
            "HEAD" => Reply::new(200, "").with("Content-Length", bytes.len()).with("ETag", self.tag(key)),
            _ => Reply::file(request, bytes, &self.tag(key)),
        };
        self.numbered(key, reply.with("Last-Modified", store::WRITTEN))
    }

    /// Returns an error reply if a request's condition does not allow the object to be written.
    fn refusal(&self, key: &str, request: &Request) -> Option<Reply> {
        let found = self.objects.lock().unwrap().contains_key(key).then(|| self.tag(key));
        let is_refused = match (request.header("if-none-match"), request.header("if-match")) {
            // For writes to Google Cloud Storage, the crate uses only conditions on generations.
            _ if self.google.is_some() => {
                let number = self.generation(key).unwrap_or(0).to_string();
                request.header("x-goog-if-generation-match").is_some_and(|wanted| wanted != number)
            }
            (Some("*"), _) => found.is_some(),
            (_, Some(wanted)) => found.as_deref() != Some(wanted),
            _ => false,
        };
        is_refused.then(|| store::error(412, "PreconditionFailed"))
    }

    fn begin(&self, key: &str) -> Reply {
        let mut count = self.count.lock().unwrap();
        *count += 1;
        let id = format!("upload-{count}");
        let begun = Begun { key: key.to_owned(), parts: BTreeMap::new() };
        self.uploads.lock().unwrap().insert(id.clone(), begun);
        let xml = format!(
            "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
        );
        Reply::new(200, xml)
    }

    fn part(&self, id: &str, request: &Request) -> Reply {
        let number: usize = query(request, "partNumber").unwrap().parse().unwrap();
        match self.uploads.lock().unwrap().get_mut(id) {
            None => store::error(404, "NoSuchUpload"),
            Some(begun) => {
                begun.parts.insert(number, Arc::clone(&request.body));
                Reply::new(200, "").with("ETag", tag(&request.body))
            }
        }
    }

    fn complete(&self, id: &str, key: &str, request: &Request) -> Reply {
        // Google Cloud Storage does not support conditions for multipart uploads.
        if let Some(refusal) = self.refusal(key, request).filter(|_| self.google.is_none()) {
            return refusal;
        }
        let Some(begun) = self.uploads.lock().unwrap().remove(id) else {
            return store::error(404, "NoSuchUpload");
        };
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let listed = text.matches("<PartNumber>").count();
        assert_eq!(listed, begun.parts.len(), "{text}");
        let last = begun.parts.len();
        assert!(begun.parts.iter().all(|(number, bytes)| *number == last || bytes.len() >= 5 << 20));
        let digests: Vec<u8> =
            begun.parts.values().flat_map(|bytes| Md5::digest(&**bytes).to_vec()).collect();
        let parts: Vec<&[u8]> = begun.parts.values().map(|bytes| &bytes[..]).collect();
        let tag = format!("\"{}-{last}\"", hex(&Md5::digest(&digests)));
        self.put_as(key, parts.concat(), tag.clone());
        let xml =
            format!("<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>");
        self.numbered(key, Reply::new(200, xml))
    }

    fn list(&self, request: &Request) -> Reply {
        let prefix = query(request, "prefix").unwrap_or_default();
        let mut xml = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>".to_owned();
        for (id, begun) in &*self.uploads.lock().unwrap() {
            if begun.key.starts_with(&prefix) {
                write!(
                    xml,
                    "<Upload><Key>{}</Key><UploadId>{id}</UploadId><Initiated>1994-11-06T08:49:37.000Z</Initiated></Upload>",
                    begun.key.replace('&', "&amp;")
                )
                .unwrap();
            }
        }
        Reply::new(200, xml + "</ListMultipartUploadsResult>")
    }
}
