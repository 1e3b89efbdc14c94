//! A bucket that can be written to, as S3's: conditions, uploads in parts, what is listed of them.

use super::server::{Reply, Request, Server};
use super::store::{self, Objects, decoded, query};
use md5::{Digest, Md5};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

/// What a bucket called `bucket` holds.
#[derive(Default)]
pub(crate) struct Bucket {
    objects: Mutex<Objects>,
    tags: Mutex<BTreeMap<String, String>>,
    uploads: Mutex<BTreeMap<String, Begun>>,
    count: Mutex<usize>,
}

struct Begun {
    key: String,
    parts: BTreeMap<usize, Vec<u8>>,
}

/// Starts a store with an empty bucket; `err` may answer in its place.
pub(crate) fn start(
    err: impl Fn(&Request, &Bucket) -> Option<Reply> + Send + Sync + 'static,
) -> (Server, Arc<Bucket>) {
    let bucket = Arc::<Bucket>::default();
    let shared = Arc::clone(&bucket);
    let answer = move |request: &Request| err(request, &shared).unwrap_or_else(|| shared.answer(request));
    (Server::start(answer), bucket)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The tag of an object that was put at once.
pub(crate) fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", hex(&Md5::digest(bytes)))
}

impl Bucket {
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        self.put_as(key, bytes, tag(bytes));
    }

    fn put_as(&self, key: &str, bytes: &[u8], tag: String) {
        self.tags.lock().unwrap().insert(key.to_owned(), tag);
        self.objects.lock().unwrap().insert(key.to_owned(), bytes.to_vec());
    }

    fn tag(&self, key: &str) -> String {
        self.tags.lock().unwrap().get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.objects.lock().unwrap().get(key).cloned()
    }

    /// Removes all objects.
    pub(crate) fn clear(&self) {
        self.objects.lock().unwrap().clear();
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }

    /// How many uploads are neither completed nor ended.
    pub(crate) fn open_uploads(&self) -> usize {
        self.uploads.lock().unwrap().len()
    }

    pub(crate) fn answer(&self, request: &Request) -> Reply {
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
                Reply::new(200, "").with("ETag", tag(&request.body)).with("x-goog-generation", 7)
            }),
            ("DELETE", None) => {
                self.objects.lock().unwrap().remove(key);
                Reply::new(204, "")
            }
            _ => Reply::new(405, ""),
        }
    }

    fn read(&self, key: &str, request: &Request) -> Reply {
        let objects = self.objects.lock().unwrap();
        match objects.get(key) {
            None => store::error(404, "NoSuchKey"),
            Some(bytes) if request.method == "HEAD" => Reply::new(200, "")
                .with("Content-Length", bytes.len())
                .with("ETag", self.tag(key))
                .with("Last-Modified", store::WRITTEN),
            Some(bytes) => Reply::file(request, bytes, &self.tag(key)).with("Last-Modified", store::WRITTEN),
        }
    }

    /// Why an object may not be written.
    fn refusal(&self, key: &str, request: &Request) -> Option<Reply> {
        let found = self.get(key).map(|_| self.tag(key));
        let is_refused = match (request.header("if-none-match"), request.header("if-match")) {
            (Some("*"), _) => found.is_some(),
            (_, Some(wanted)) => found.as_deref() != Some(wanted),
            _ => request.header("x-goog-if-generation-match") == Some("0") && found.is_some(),
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
                begun.parts.insert(number, request.body.clone());
                Reply::new(200, "").with("ETag", tag(&request.body)).with("x-goog-generation", 7)
            }
        }
    }

    fn complete(&self, id: &str, key: &str, request: &Request) -> Reply {
        if let Some(refusal) = self.refusal(key, request) {
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
        let digests: Vec<u8> = begun.parts.values().flat_map(|bytes| Md5::digest(bytes).to_vec()).collect();
        let bytes: Vec<u8> = begun.parts.into_values().flatten().collect();
        let tag = format!("\"{}-{last}\"", hex(&Md5::digest(&digests)));
        self.put_as(key, &bytes, tag.clone());
        Reply::new(
            200,
            format!("<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"),
        )
        .with("x-goog-generation", 7)
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
