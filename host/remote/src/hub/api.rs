//! A client for the Hub's API, which resolves revisions to commits and lists the files of commits.

use super::address::Address;
use super::login;
use super::tree::{TreeEntry, TreeFile};
use crate::client::{Client, ClientRequest, ClientResponse, is_same_host};
use crate::fault::Fault;
use crate::secret::shown;
use crate::settings::Settings;
use bytes::Bytes;
use reqwest::header::{self, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;
use tensorferry_sdk::{Error, Result};

/// The API of one repository at a revision.
pub(super) struct Api {
    endpoint: Url,
    token: Option<HeaderValue>,
    pub(super) address: Address,
    revision: String,
}

/// Maximum size of an API response in bytes. A response with a thousand entries is about 300 KB
/// long.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// Maximum number of entries in a tree.
const MAX_ENTRIES: usize = 2_000_000;

impl Api {
    pub(super) fn new(settings: &Settings, address: Address, revision: &str) -> Result<Self> {
        let endpoint = settings.text("hf-endpoint").unwrap_or("https://huggingface.co");
        let wrong = || Error::usage("hf-endpoint is not an http or https URL");
        let endpoint = Url::parse(endpoint).map_err(|_| wrong())?;
        if !matches!(endpoint.scheme(), "http" | "https") || endpoint.cannot_be_a_base() {
            return Err(wrong());
        }
        let token = login::token(settings).map(|token| {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            let mut value = value.map_err(|_| {
                Error::usage("hf-token contains characters that are not allowed in an HTTP header")
            })?;
            value.set_sensitive(true);
            Ok::<_, Error>(value)
        });
        Ok(Self { endpoint, token: token.transpose()?, address, revision: revision.to_owned() })
    }

    /// Returns the URL from which a file can be downloaded.
    pub(super) fn file_url(&self, path: &str) -> Url {
        let address = &self.address;
        let kind = (address.kind != "models").then_some(address.kind);
        let parts = kind.into_iter().chain([&*address.owner, &*address.name, "resolve", &*self.revision]);
        self.url(parts.chain(path.split('/')))
    }

    fn url<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    fn api_url<'a>(&'a self, what: &'a str, path: &'a str) -> Url {
        let address = &self.address;
        let parts = ["api", address.kind, &address.owner, &address.name, what, &self.revision];
        self.url(parts.into_iter().chain(path.split('/').filter(|part| !part.is_empty())))
    }

    /// Creates a request to the Hub that contains the token.
    pub(super) fn request(&self, url: Url) -> ClientRequest {
        let request =
            ClientRequest::get(url).header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        match &self.token {
            Some(token) => request.header(header::AUTHORIZATION, token.clone()),
            None => request,
        }
    }

    async fn json(
        &self,
        client: &Client,
        request: &ClientRequest,
        path: &str,
    ) -> Result<(Value, Option<Url>), Fault> {
        let mut response = client.request(request).await?;
        // If a repository has been renamed, the Hub sends a redirect. The client follows redirects
        // only for GET requests, so the redirect of a POST request is followed here.
        if request.method == Method::POST && matches!(response.status.as_u16(), 307 | 308) {
            let next = response.text("location").and_then(|location| request.url.join(location).ok());
            if let Some(url) = next.filter(|next| is_same_host(&request.url, next)) {
                response = client.request(&ClientRequest { url, ..request.clone() }).await?;
            }
        }
        if !response.status.is_success() {
            return Err(self.refusal(client, response, path).await);
        }
        let next = match response.text("link").and_then(next_link) {
            None => None,
            Some(link) => match request.url.join(link) {
                Ok(next) if is_same_host(&request.url, &next) => Some(next),
                _ => {
                    let why = "the next page of the Hub's list is on a different host";
                    return Err(Fault::permanent(Error::io(why).file(shown(&request.url))));
                }
            },
        };
        let body =
            response.body.all(MAX_RESPONSE_BYTES).await.map_err(|fault| fault.of(&shown(&request.url)))?;
        let json = serde_json::from_slice(&body).map_err(|_| {
            Fault::permanent(Error::io("the Hub's response is not JSON").file(shown(&request.url)))
        })?;
        Ok((json, next))
    }

    /// Resolves the revision to a commit.
    pub(super) async fn commit(&self, client: &Client) -> Result<String, Fault> {
        let mut url = self.api_url("revision", "");
        url.query_pairs_mut().append_pair("expand", "sha");
        let (json, _) = self.json(client, &self.request(url), "").await?;
        let sha = json["sha"].as_str().filter(|sha| is_hex(sha, 40));
        sha.map(str::to_owned).ok_or_else(|| self.unclear("a commit"))
    }

    /// Lists all entries in a folder and its sub-folders, with their paths.
    pub(super) async fn tree(
        &self,
        client: &Client,
        folder: &str,
    ) -> Result<Vec<(String, TreeEntry)>, Fault> {
        let mut url = self.api_url("tree", folder);
        url.query_pairs_mut().append_pair("recursive", "true").append_pair("expand", "false");
        let mut entries = Vec::new();
        let mut next = Some(url);
        while let Some(url) = next {
            let (json, more) = self.json(client, &self.request(url), folder).await?;
            let page = json.as_array().ok_or_else(|| self.unclear("a list of files"))?;
            // The loop ends at an empty page, because a server could send an endless sequence of
            // empty pages.
            if page.is_empty() {
                break;
            }
            for entry in page {
                entries.push(tree_entry(entry).ok_or_else(|| self.unclear("a file"))?);
            }
            if entries.len() > MAX_ENTRIES {
                let error = Error::limit("too many files in a repository").file(self.address.url(folder));
                return Err(Fault::permanent(error.expected(MAX_ENTRIES)));
            }
            next = more;
        }
        Ok(entries)
    }

    /// Returns the entry at a path.
    pub(super) async fn path(&self, client: &Client, path: &str) -> Result<Option<TreeEntry>, Fault> {
        let mut request = self.request(self.api_url("paths-info", ""));
        request.method = Method::POST;
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = Bytes::from(serde_json::json!({ "paths": [path], "expand": false }).to_string());
        let (json, _) = self.json(client, &request, path).await?;
        let found = json.as_array().ok_or_else(|| self.unclear("a list of files"))?;
        let found = found.iter().filter_map(tree_entry).find(|(name, _)| name == path);
        Ok(found.map(|(_, known)| known))
    }

    fn unclear(&self, what: &str) -> Fault {
        Fault::permanent(Error::io(format!("the Hub's response is not {what}")).file(self.address.url("")))
    }

    /// Converts an error response of the Hub to a fault.
    pub(super) async fn refusal(&self, client: &Client, response: ClientResponse, path: &str) -> Fault {
        let address = &self.address;
        let (status, code) =
            (response.status.as_u16(), response.text("x-error-code").unwrap_or_default().to_owned());
        let has_token = self.token.is_some();
        let page = || shown(&self.url([&*address.owner, &*address.name]));
        let unknown = || {
            Error::usage("no such repository, or it is private")
                .hint("log in with `hf auth login` or set HF_TOKEN")
        };
        let error = match code.as_str() {
            "GatedRepo" if has_token => Error::io(format!(
                "the repository is gated, and this token has no access: request it at {}",
                page()
            )),
            "GatedRepo" => Error::io(format!("the repository is gated: request access at {}", page()))
                .hint("log in with `hf auth login` or set HF_TOKEN"),
            "RevisionNotFound" => {
                return Fault::permanent(
                    Error::usage("the repository has no such revision").file(address.url("")),
                );
            }
            "EntryNotFound" => Error::malformed("no such file or folder in the repository"),
            "RepoNotFound" if has_token => {
                Error::usage("no such repository, or the token has no access to it")
            }
            "RepoNotFound" => unknown(),
            // If the request contains no token, the Hub sends the same response for a private
            // repository.
            "" if status == 401 && !has_token => unknown(),
            _ => Error::io(client.words(response).await),
        };
        Fault::permanent(error.file(address.url(path)))
    }
}

/// Parses an entry of a tree in an API response.
fn tree_entry(entry: &Value) -> Option<(String, TreeEntry)> {
    let path = entry["path"].as_str()?;
    let is_path = path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    let known = match entry["type"].as_str()? {
        "directory" => TreeEntry::Folder,
        "file" => {
            let lfs = &entry["lfs"];
            // In the API, the value of `oid` is only the digest. In LFS pointer files, the digest
            // has a prefix that names the algorithm.
            let sha256 = lfs["oid"].as_str().map(|oid| oid.trim_start_matches("sha256:").to_owned());
            let len = lfs["size"].as_u64().or_else(|| entry["size"].as_u64())?;
            let oid = entry["oid"].as_str()?.to_owned();
            TreeEntry::File(TreeFile { len, sha256: sha256.filter(|sha256| is_hex(sha256, 64)), oid })
        }
        _ => return None,
    };
    is_path.then(|| (path.to_owned(), known))
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the target of a header such as `Link: <URL>; rel="next"` (RFC 8288).
fn next_link(text: &str) -> Option<&str> {
    text.split(',').find_map(|link| {
        let (url, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
        rest.contains("rel=\"next\"").then_some(url)
    })
}
