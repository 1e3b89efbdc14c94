//! A test Hub that behaves like the real Hub. The test Hub has revisions, paged trees, tokens and
//! gated repositories, and redirects to signed URLs of files on another host. `huggingface_hub` can
//! read from the test Hub.

use super::server::{Reply, Request, Server};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const TOKEN: &str = "hf_hush5150";

/// The files of a repository by path. Files of more than a thousand bytes are stored as LFS files.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

pub(crate) struct Hub {
    pub(crate) server: Server,
    pub(crate) store: Server,
    /// The signature that valid URLs must have.
    signature: Arc<AtomicUsize>,
    state: Arc<State>,
}

struct State {
    files: Mutex<Files>,
    store_port: AtomicUsize,
    signature: Arc<AtomicUsize>,
}

impl Hub {
    /// Starts a Hub with one repository. The repository is available as `org/model`, `org/private`
    /// and `org/gated`, under its old name `org/old`, and as the dataset `org/data`.
    pub(crate) fn start(files: Files) -> Self {
        let signature = Arc::new(AtomicUsize::new(1));
        let state = Arc::new(State {
            files: Mutex::new(files),
            store_port: AtomicUsize::new(0),
            signature: Arc::clone(&signature),
        });
        let shared = Arc::clone(&state);
        let store = Server::start(move |request| shared.stored(request));
        state.store_port.store(usize::from(store.port), Ordering::SeqCst);
        let shared = Arc::clone(&state);
        let server = Server::start(move |request| shared.answer(request));
        Self { server, store, signature, state }
    }

    pub(crate) fn endpoint(&self) -> String {
        self.server.url("").trim_end_matches('/').to_owned()
    }

    /// Invalidates all URLs that have been signed so far.
    pub(crate) fn expire(&self) {
        self.signature.fetch_add(1, Ordering::SeqCst);
    }

    /// Replaces the content at a path, which never happens within a commit on the real Hub.
    pub(crate) fn replace(&self, path: &str, bytes: &[u8]) {
        self.state.files.lock().unwrap().insert(path.to_owned(), bytes.to_vec());
    }
}

fn error(status: u16, code: &str) -> Reply {
    Reply::new(status, json!({ "error": "said so" }).to_string())
        .with("X-Error-Code", code)
        .with("X-Error-Message", code)
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a name for a blob. In git, the name is the SHA-1 digest, but any forty digits work here.
fn oid(bytes: &[u8]) -> String {
    hex(bytes)[..40].to_owned()
}

fn is_large(bytes: &[u8]) -> bool {
    bytes.len() > 1000
}

fn entry(path: &str, bytes: &[u8]) -> Value {
    let mut entry = json!({ "type": "file", "path": path, "size": bytes.len(), "oid": oid(bytes) });
    if is_large(bytes) {
        entry["lfs"] = json!({ "oid": hex(bytes), "size": bytes.len(), "pointerSize": 130 });
    }
    entry
}

impl State {
    /// Starts a server for the Hub's large files. If the URL of a request is signed, the server
    /// returns the bytes that have the requested digest.
    fn stored(&self, request: &Request) -> Reply {
        if request.header("authorization").is_some() {
            return Reply::new(400, "two ways to authorize");
        }
        let signature = format!("Signature={}", self.signature.load(Ordering::SeqCst));
        if !request.target.ends_with(&signature) {
            return Reply::new(
                403,
                "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>",
            );
        }
        let files = self.files.lock().unwrap();
        let wanted = request.path().trim_start_matches('/').to_owned();
        match files.values().find(|bytes| hex(bytes) == wanted) {
            Some(bytes) => Reply::file(request, bytes, &format!("\"{}\"", &wanted[..32])),
            None => Reply::new(404, ""),
        }
    }

    fn answer(&self, request: &Request) -> Reply {
        let path = request.path().trim_start_matches('/').to_owned();
        let parts: Vec<&str> = path.split('/').collect();
        match parts[..] {
            ["api", "models" | "datasets", owner, name, ref rest @ ..] => {
                match self.gate(request, owner, name) {
                    Some(refusal) => refusal,
                    None => self.api(request, rest),
                }
            }
            ["datasets", owner, name, "resolve", revision, ref rest @ ..]
            | [owner, name, "resolve", revision, ref rest @ ..] => match self.gate(request, owner, name) {
                Some(refusal) => refusal,
                None => self.resolve(request, revision, &rest.join("/")),
            },
            _ => Reply::new(404, ""),
        }
    }

    fn gate(&self, request: &Request, owner: &str, name: &str) -> Option<Reply> {
        let has_token = request.header("authorization") == Some(&format!("Bearer {TOKEN}"));
        match (owner, name) {
            ("org", "model" | "data") => None,
            ("org", "private" | "gated") if has_token => None,
            ("org", "gated") => Some(error(401, "GatedRepo")),
            ("org", "old") => {
                let target = request.target.replacen("org/old", "org/model", 1);
                Some(Reply::new(307, "").with("Location", target))
            }
            ("org", "busy") if request.number > 0 => None,
            ("org", "busy") => Some(error(429, "").with("RateLimit", "\"api\";r=0;t=0")),
            ("org", "full") => Some(error(429, "").with("RateLimit", "\"api\";r=0;t=250")),
            _ => Some(error(if has_token { 404 } else { 401 }, "RepoNotFound")),
        }
    }

    fn api(&self, request: &Request, rest: &[&str]) -> Reply {
        let is_known = |revision: &str| ["main", "v1", "refs%2Fpr%2F1", COMMIT].contains(&revision);
        let revision = rest.get(1).copied().unwrap_or("main");
        if !is_known(revision) {
            return error(404, "RevisionNotFound");
        }
        let files = self.files.lock().unwrap();
        match rest {
            [] | ["revision", _] => {
                let siblings: Vec<Value> = files.keys().map(|path| json!({ "rfilename": path })).collect();
                Reply::new(200, json!({ "_id": "1", "id": "org/model", "sha": COMMIT, "siblings": siblings, "private": false, "tags": [], "downloads": 0, "likes": 0 }).to_string())
                    .with("Content-Type", "application/json")
            }
            ["tree", revision, folder @ ..] => self.tree(request, &files, revision, &folder.join("/")),
            ["paths-info", _] => {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                let paths: Vec<String> = match serde_json::from_str::<Value>(&body) {
                    Ok(json) => json["paths"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|p| p.as_str().unwrap().to_owned())
                        .collect(),
                    Err(_) => body
                        .split('&')
                        .filter_map(|pair| Some(pair.strip_prefix("paths=")?.replace("%2F", "/")))
                        .collect(),
                };
                let found: Vec<Value> = paths.iter().filter_map(|path| found(&files, path)).collect();
                Reply::new(200, Value::from(found).to_string()).with("Content-Type", "application/json")
            }
            _ => Reply::new(404, ""),
        }
    }

    /// Returns a tree with two entries per page.
    fn tree(&self, request: &Request, files: &Files, revision: &str, folder: &str) -> Reply {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut entries = BTreeMap::new();
        let is_recursive = request.target.to_ascii_lowercase().contains("recursive=true");
        for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with(&prefix)) {
            let below = &path[prefix.len()..];
            for (at, _) in below.match_indices('/') {
                let folder = &path[..prefix.len() + at];
                if is_recursive || !below[..at].contains('/') {
                    entries.insert(
                        folder.to_owned(),
                        json!({ "type": "directory", "path": folder, "size": 0, "oid": "d" }),
                    );
                }
            }
            if is_recursive || !below.contains('/') {
                entries.insert(path.clone(), entry(path, bytes));
            }
        }
        if entries.is_empty() {
            return error(404, "EntryNotFound");
        }
        let cursor = request.target.split_once("cursor=").map_or(0, |(_, at)| at.parse().unwrap());
        let page: Vec<&Value> = entries.values().skip(cursor).take(2).collect();
        let reply = Reply::new(200, json!(page).to_string()).with("Content-Type", "application/json");
        if cursor + 2 >= entries.len() {
            return reply;
        }
        let host = request.header("host").unwrap();
        let next = format!(
            "http://{host}/api/models/org/model/tree/{revision}/{folder}?recursive={is_recursive}&cursor={}",
            cursor + 2
        );
        reply.with("Link", format!("<{next}>; rel=\"next\""))
    }

    fn resolve(&self, request: &Request, revision: &str, path: &str) -> Reply {
        if revision != COMMIT && revision != "main" {
            return error(404, "RevisionNotFound");
        }
        let files = self.files.lock().unwrap();
        let Some(bytes) = files.get(&path.replace("%20", " ")) else { return error(404, "EntryNotFound") };
        if !is_large(bytes) {
            return Reply::file(request, bytes, &format!("\"{}\"", oid(bytes))).with("X-Repo-Commit", COMMIT);
        }
        let (port, signature) =
            (self.store_port.load(Ordering::SeqCst), self.signature.load(Ordering::SeqCst));
        Reply::redirect(format!("http://127.0.0.1:{port}/{}?Expires=9&Signature={signature}", hex(bytes)))
            .with("X-Linked-Size", bytes.len())
            .with("X-Linked-ETag", format!("\"{}\"", hex(bytes)))
            .with("ETag", format!("\"{}\"", oid(bytes)))
            .with("X-Repo-Commit", COMMIT)
    }
}

fn found(files: &Files, path: &str) -> Option<Value> {
    if let Some(bytes) = files.get(path) {
        return Some(entry(path, bytes));
    }
    let is_folder = files.keys().any(|name| name.starts_with(&format!("{path}/")));
    is_folder.then(|| json!({ "type": "directory", "path": path, "oid": "d" }))
}
