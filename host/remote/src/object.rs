//! Reads and writes objects in S3, Google Cloud Storage and Azure. The module uses the Apache
//! `object_store` crate, but sends the requests of that crate with its own client.

mod azure;
mod clean;
mod connector;
mod gcs;
mod listing;
mod origin;
mod profile;
mod request_options;
mod s3;
mod store_error;
mod upload;

use crate::address::literal;
use crate::fault::Fault;
use crate::file::{CachedFile, START};
use crate::opened_files::{Found, OpenedFiles};
use crate::runtime::Engine;
use crate::secret::shown_text;
use crate::settings::{Scope, Settings};
use crate::version::Version;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use object_store::aws::AmazonS3;
use object_store::azure::{AzureCredential, MicrosoftAzure};
use object_store::gcp::GoogleCloudStorage;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use origin::{ObjectOrigin, version_of};
use request_options::RequestOptions;
use reqwest::Url;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store_error::StoreError;
use tensorferry_core::context::remote::{
    NewObject, RemoteEntry, RemoteFile, RemotePlace, RemoteStamp, RemoteUpload,
};
use tensorferry_sdk::{Error, Result};
use upload::Upload;

/// The `object_store` traits that the clients of all providers implement, with two additions.
trait Store: ObjectStore + PaginatedListStore + MultipartStore {
    /// Returns the credential with which a request to Azure can be signed again. Returns `None` for
    /// other stores.
    fn azure_credential(&self) -> BoxFuture<'_, Result<Option<Arc<AzureCredential>>, object_store::Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the S3 client, which can also sign requests that `object_store` does not support.
    fn s3(&self) -> Option<&AmazonS3> {
        None
    }
}

impl Store for AmazonS3 {
    fn s3(&self) -> Option<&AmazonS3> {
        Some(self)
    }
}

impl Store for GoogleCloudStorage {}

impl Store for MicrosoftAzure {
    fn azure_credential(&self) -> BoxFuture<'_, Result<Option<Arc<AzureCredential>>, object_store::Error>> {
        Box::pin(async move { self.credentials().get_credential().await.map(Some) })
    }
}

/// A bucket. In Azure Blob Storage, buckets are called containers.
pub(crate) struct ObjectPlace {
    engine: Arc<Engine>,
    bucket: Bucket,
    store: Mutex<Arc<dyn Store>>,
    opened_files: OpenedFiles,
}

/// The part of a URL that identifies a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bucket {
    scope: Scope,
    /// The scheme and the authority of the URL.
    root: String,
    name: String,
    /// The Azure account, if the URL contains it.
    account: Option<String>,
}

impl Bucket {
    /// Splits a URL into the bucket and the path in the bucket. Returns `None` if the scheme does
    /// not denote an object store.
    pub(crate) fn parse(url: &str) -> Result<Option<(Self, String)>> {
        let Some((scheme, rest)) = url.split_once("://") else { return Ok(None) };
        let scope = match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" => Scope::S3,
            "gs" | "gcs" => Scope::Gcs,
            "az" | "azure" | "abfs" | "abfss" => Scope::Azure,
            _ => return Ok(None),
        };
        // All characters after the first slash belong to the key. In a key, `?`, `#` and `%` are
        // ordinary characters.
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let usage = |why: &str| Error::usage(why).file(shown_text(&format!("{scheme}://{host}")));
        let (name, account) = match host.split_once('@') {
            Some((name, host)) if scope == Scope::Azure => {
                let (account, cloud) = host.split_once('.').unwrap_or((host, ""));
                // Azure clouds other than the public one have different host names.
                if !["", "dfs.core.windows.net", "blob.core.windows.net"].contains(&cloud) {
                    return Err(usage(
                        "only the public Azure cloud has URLs of this form; set az.endpoint to the account's URL",
                    ));
                }
                (name, Some(account.to_owned()))
            }
            Some(_) => {
                return Err(usage("credentials are not allowed in a URL").hint("set them in the environment"));
            }
            None => (host, None),
        };
        let is_name = |name: &str| {
            let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.$".contains(&byte);
            !name.is_empty() && name.bytes().all(is_fine) && !name.starts_with('.')
        };
        if !is_name(name) || !account.as_deref().is_none_or(is_name) {
            return Err(usage("invalid bucket name"));
        }
        let path = path.trim_matches('/').to_owned();
        Path::parse(&path).map_err(|_| {
            usage("invalid key: empty parts, `.`, `..` and control characters are not supported")
        })?;
        let root = format!("{scheme}://{host}");
        Ok(Some((Self { scope, root, name: name.to_owned(), account }, path)))
    }

    /// Returns the key with which `Remotes` finds the opened bucket.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.root)
    }

    fn store(&self, engine: &Arc<Engine>, region: Option<&str>) -> Result<Arc<dyn Store>> {
        let built = match self.scope {
            Scope::S3 => s3::store(engine, &self.name, region),
            Scope::Gcs => gcs::store(engine, &self.name),
            Scope::Azure => azure::store(engine, &self.name, self.account.as_deref()),
        };
        built.map_err(|error| error.file(self.root.clone()))
    }
}

/// Returns the profile of the AWS tools and the file of the gcloud tools, if they exist.
pub(crate) fn logins(settings: &Settings) -> impl Iterator<Item = String> {
    let file = settings.home().map(|home| home.join(".config/gcloud/application_default_credentials.json"));
    let file = file.filter(|file| file.is_file()).map(|file| format!("file {}", file.display()));
    profile::Profile::described(settings).into_iter().chain(file)
}

impl ObjectPlace {
    /// Prepares access to the bucket without sending a request.
    pub(crate) fn new(engine: &Arc<Engine>, bucket: Bucket) -> Result<Self> {
        let store = Mutex::new(bucket.store(engine, None)?);
        Ok(Self { engine: Arc::clone(engine), bucket, store, opened_files: OpenedFiles::default() })
    }

    fn current(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends a request. If the store reports a different region for the bucket, or if the
    /// credentials were renewed, sends the request once more.
    fn ask<T: Send + 'static>(
        &self,
        path: &str,
        work: impl Fn(Arc<dyn Store>) -> BoxFuture<'static, Result<T, object_store::Error>>,
    ) -> Result<Result<T, StoreError>> {
        let mut is_second = false;
        let mut is_renewed = false;
        loop {
            let store = self.current();
            let (work, client) = (work(store), self.engine.process()?.client.clone());
            let found = self
                .engine
                .wait(async move { work.await.map_err(|error| StoreError::of(&error, &client)) })?;
            let region = found.as_ref().err().and_then(StoreError::region).map(str::to_owned);
            match region {
                Some(region) if !is_second && self.bucket.scope == Scope::S3 => {
                    let store = self.bucket.store(&self.engine, Some(&region))?;
                    *self.store.lock().unwrap_or_else(PoisonError::into_inner) = store;
                    is_second = true;
                }
                // Repeats the request with renewed credentials.
                _ if !is_renewed && found.as_ref().err().is_some_and(StoreError::is_expired) => {
                    is_renewed = true;
                }
                _ => return Ok(found.map_err(|store_error| store_error.of_file(&self.url(path)))),
            }
        }
    }

    fn object(&self, path: &str) -> Result<Found> {
        if let Some(file) = self.opened_files.take(path, &self.engine.cancelled)? {
            return Ok(Some(file));
        }
        let location = location(path)?;
        let asked = location.clone();
        let found = self.ask(path, move |store| {
            let location = asked.clone();
            Box::pin(async move { start(&*store, &location).await })
        })?;
        let (version, bytes) = match found {
            Ok(found) => found,
            Err(store_error) if store_error.status() == Some(404) => {
                // A missing bucket is an error. A missing object is not.
                return if store_error.is_of_bucket() { Err(store_error.error()) } else { Ok(None) };
            }
            Err(store_error) => return Err(store_error.error()),
        };
        let origin = ObjectOrigin::new(self.current(), location, self.url(path), version);
        Ok(Some(opened(&self.engine, origin, bytes)))
    }

    /// Returns whether any key starts with the path followed by a slash.
    fn is_folder(&self, path: &str) -> Result<bool> {
        let prefix = prefix(path);
        let found = self.ask(path, move |store| {
            let prefix = prefix.clone();
            Box::pin(async move {
                // The request is for two entries, because the first entry may be a placeholder for
                // the folder itself. This placeholder is not included in the list.
                let options = PaginatedListOptions { max_keys: Some(2), ..PaginatedListOptions::default() };
                let page = store.list_paginated(prefix.as_deref(), options).await?;
                Ok(!page.result.objects.is_empty()
                    || !page.result.common_prefixes.is_empty()
                    || page.page_token.is_some())
            })
        })?;
        found.map_err(|store_error| store_error.error())
    }
}

fn opened(engine: &Arc<Engine>, origin: ObjectOrigin, start: Bytes) -> Arc<dyn RemoteFile> {
    let stamp = origin.version().stamp();
    CachedFile::opened(engine, origin, stamp, start)
}

/// Returns the endpoint that the settings specify for a kind of store. An endpoint without TLS must
/// be on this machine or be explicitly allowed.
fn endpoint(settings: &Settings, scope: Scope) -> Result<Option<String>> {
    let Some(text) = settings.scoped(scope, "endpoint") else { return Ok(None) };
    let url = Url::parse(text)
        .map_err(|_| Error::usage("the setting endpoint is not a URL").found(shown_text(text)))?;
    let is_local = literal(&url).map_or(url.host_str() == Some("localhost"), |address| address.is_loopback());
    match url.scheme() {
        "https" => {}
        "http" if is_local || settings.scoped_flag(scope, "allow-http").unwrap_or(false) => {}
        "http" => {
            let why = "the setting endpoint has no TLS, so keys and data would be readable in transit";
            let problem = Error::usage(why).found(shown_text(text));
            return Err(problem.hint("pass --store allow-http=true to allow it"));
        }
        _ => {
            return Err(
                Error::usage("the setting endpoint is not an http or https URL").found(shown_text(text))
            );
        }
    }
    Ok(Some(text.trim_end_matches('/').to_owned()))
}

/// Converts an `object_store` error about invalid settings.
fn unfit(error: &object_store::Error) -> Error {
    // Most of these messages name the missing setting. Only messages about URLs also contain the
    // values of settings.
    let text = crate::fault::causes(error);
    let words = text.split(' ').filter(|word| !word.contains("://"));
    Error::usage(words.collect::<Vec<_>>().join(" "))
}

fn location(path: &str) -> Result<Path> {
    Path::parse(path).map_err(|_| Error::usage("invalid object key").found(format!("{path:?}")))
}

fn prefix(folder: &str) -> Option<String> {
    (!folder.is_empty()).then(|| format!("{folder}/"))
}

/// Reads the first bytes of an object. Also returns the version of the object.
async fn start(store: &dyn Store, location: &Path) -> Result<(Version, Bytes), object_store::Error> {
    let options = GetOptions { range: Some(GetRange::Bounded(0..START)), ..GetOptions::default() };
    match store.get_opts(location, options).await {
        Ok(found) => {
            let version = version_of(&found.meta);
            // If the body cannot be read, the bytes are requested again later.
            let bytes = found.bytes().await.unwrap_or_default();
            Ok((version, bytes))
        }
        // A store cannot satisfy a range request for an empty object.
        Err(error) if store_error::status_of(&error) == Some(416) => {
            Ok((version_of(&store.head(location).await?), Bytes::new()))
        }
        Err(error) => Err(error),
    }
}

impl RemotePlace for ObjectPlace {
    fn url(&self, path: &str) -> String {
        self.bucket.url(path)
    }

    fn look(&self, path: &str) -> Result<Option<RemoteEntry>> {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        if !path.is_empty()
            && let Some(file) = self.object(path)?
        {
            let len = Some(file.stamp().len);
            self.opened_files.keep(path, file);
            return Ok(Some(RemoteEntry { name, len }));
        }
        Ok(self.is_folder(path)?.then_some(RemoteEntry { name, len: None }))
    }

    fn list(&self, folder: &str, most: u64) -> Result<Vec<RemoteEntry>> {
        let prefix = prefix(folder);
        let found = self.ask(folder, move |store| {
            let prefix = prefix.clone();
            Box::pin(async move { listing::entries(&*store, prefix.as_deref(), most).await })
        })?;
        let entries = found.map_err(|store_error| store_error.error())?;
        entries
            .ok_or_else(|| Error::limit("too many entries in a folder").file(self.url(folder)).expected(most))
    }

    fn open(&self, path: &str) -> Result<Arc<dyn RemoteFile>> {
        let found = if path.is_empty() { None } else { self.object(path)? };
        found.ok_or_else(|| Error::malformed("no such object").file(self.url(path)))
    }

    fn stamp(&self, path: &str) -> Result<Option<RemoteStamp>> {
        let location = location(path)?;
        let found = self.ask(path, move |store| {
            let location = location.clone();
            Box::pin(async move { store.head(&location).await })
        })?;
        match found {
            Ok(meta) => Ok(Some(version_of(&meta).stamp())),
            Err(store_error) if store_error.status() == Some(404) && !store_error.is_of_bucket() => Ok(None),
            Err(store_error) => Err(store_error.error()),
        }
    }

    fn create(&self, path: &str, object: NewObject) -> Result<Arc<dyn RemoteUpload>> {
        let (store, name) = (self.current(), (path, self.url(path)));
        Ok(Arc::new(Upload::begin(&self.engine, store, self.bucket.scope, name, &object)?))
    }

    fn remove(&self, path: &str) -> Result<()> {
        let (store, location) = (self.current(), location(path)?);
        let (client, url) = (self.engine.process()?.client.clone(), self.url(path));
        self.engine.run_to_end(async move {
            match RequestOptions::default().of(store.delete(&location)).await {
                Ok(()) => Ok(()),
                Err(error) => match StoreError::of(&error, &client) {
                    store_error if store_error.status() == Some(404) => Ok(()),
                    store_error => Err(store_error.of_file(&url).error()),
                },
            }
        })?
    }

    fn end_uploads(&self, prefix: &str, older_than: Duration) -> Result<Vec<String>> {
        // The only purpose of this request is to determine the bucket's region, which every
        // response contains.
        let _ = self.stamp("ferry");
        let (store, client) = (self.current(), self.engine.process()?.client.clone());
        let prefix = prefix.to_owned();
        let ended =
            self.engine.wait(async move { clean::end(&*store, &client, &prefix, older_than).await })?;
        let ended = ended.map_err(|fault| fault.of(&self.url("")).error)?;
        Ok(ended.iter().map(|key| self.url(key)).collect())
    }

    fn will_open(&self, paths: &[&str]) {
        for path in paths.iter().filter(|path| !path.is_empty()) {
            let Ok(location) = location(path) else { continue };
            let (engine, store, url) = (Arc::clone(&self.engine), self.current(), self.url(path));
            self.opened_files.begin(path, &self.engine, async move {
                let found = start(&*store, &location).await;
                let (version, bytes) = match found {
                    Ok(found) => found,
                    // This error is not reported. If it occurs again when the file is opened, it is
                    // reported then.
                    Err(error) => return Err(StoreError::of(&error, &engine.process()?.client).fault()),
                };
                Ok(Some(opened(&engine, ObjectOrigin::new(store, location, url, version), bytes)))
            });
        }
    }
}

/// Converts a store's error to a fault for the cache.
fn fault(store_error: StoreError, name: &str) -> Fault {
    match store_error.status() {
        Some(404 | 410) => Fault::changed(name, "the object", "none"),
        Some(412) => Fault::changed(name, "the version that was opened", "another version"),
        Some(416) => Fault::changed(name, "an object of the same length", "a shorter object"),
        _ => store_error.fault(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_keys_are_told_apart() {
        let found = |url: &str| {
            let (bucket, path) = Bucket::parse(url).unwrap().unwrap();
            (bucket.name, bucket.account, path)
        };
        let is = |name: &str, account: Option<&str>, path: &str| {
            (name.into(), account.map(Into::into), path.into())
        };
        assert_eq!(found("s3://b/a/c.bin"), is("b", None, "a/c.bin"));
        assert_eq!(found("s3://b/a?b#c%20d/"), is("b", None, "a?b#c%20d"));
        assert_eq!(found("gs://b"), is("b", None, ""));
        assert_eq!(found("abfss://c@acc.dfs.core.windows.net/a"), is("c", Some("acc"), "a"));
        assert_eq!(found("az://c/a"), is("c", None, "a"));
        for wrong in [
            "s3://",
            "s3:///a",
            "s3://key:hush@b/a",
            "s3://b/a//c",
            "s3://b/../c",
            "s3://b c/d",
            "abfss://c@a.dfs.core.chinacloudapi.cn/d",
        ] {
            let error = Bucket::parse(wrong).unwrap_err().to_string();
            assert!(!error.contains("hush"), "{error}");
        }
        assert_eq!(Bucket::parse("ftp://b/a").unwrap(), None);
    }
}
