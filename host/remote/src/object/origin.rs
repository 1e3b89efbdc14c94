//! Reads the bytes of an object.

use super::store_error::StoreError;
use super::{Store, fault};
use crate::body::Pieces;
use crate::cache::Origin;
use crate::client::Client;
use crate::fault::Fault;
use crate::version::Version;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStoreExt};
use std::ops::Range;
use std::sync::Arc;

pub(super) struct ObjectOrigin {
    store: Arc<dyn Store>,
    location: Path,
    name: String,
    version: Version,
}

/// Converts the metadata of an object to a version. The fields have the same values as the
/// corresponding HTTP headers.
pub(super) fn version_of(meta: &ObjectMeta) -> Version {
    let modified = meta.last_modified.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    // A numeric version is a generation number from Google Cloud Storage. The versions in S3 and
    // Azure are not plain numbers, and exist only in buckets with versioning.
    let is_number = |version: &String| version.bytes().all(|byte| byte.is_ascii_digit());
    let generation = meta.version.clone().filter(is_number);
    Version { len: meta.size, etag: meta.e_tag.clone(), modified: Some(modified), generation }
}

impl ObjectOrigin {
    pub(super) fn new(store: Arc<dyn Store>, location: Path, name: String, version: Version) -> Self {
        Self { store, location, name, version }
    }

    pub(super) fn version(&self) -> &Version {
        &self.version
    }
}

impl Origin for ObjectOrigin {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.version.len
    }

    fn get<'a>(&'a self, client: &'a Client, range: Range<u64>) -> BoxFuture<'a, Result<Pieces, Fault>> {
        Box::pin(async move {
            let options = GetOptions {
                range: Some(GetRange::Bounded(range)),
                if_match: self.version.etag.clone(),
                // If the bucket keeps old generations, the object can still be read after it has
                // been replaced.
                version: self.version.generation.clone(),
                ..GetOptions::default()
            };
            let found = self.store.get_opts(&self.location, options).await;
            let found =
                found.map_err(|error| fault(StoreError::of(&error, client), &self.name).of(&self.name))?;
            // Some stores ignore conditions that they do not support, so the version in the
            // response is also checked here.
            self.version.hold(&self.name, &version_of(&found.meta))?;
            let client = client.clone();
            let pieces = found.into_stream().map(move |piece| {
                piece.map_err(|error| {
                    let store_error = StoreError::of(&error, &client);
                    // An error that occurs while the body is read is a connection error, not an
                    // error from the store.
                    if store_error.is_transient() {
                        store_error.fault()
                    } else {
                        Fault::transient(store_error.to_string())
                    }
                })
            });
            Ok(Box::pin(pieces) as Pieces)
        })
    }

    fn check<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let found = self.store.head(&self.location).await;
            let found =
                found.map_err(|error| fault(StoreError::of(&error, client), &self.name).of(&self.name))?;
            self.version.hold(&self.name, &version_of(&found))
        })
    }
}
