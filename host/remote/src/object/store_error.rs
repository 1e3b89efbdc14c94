//! Extracts the error of this crate's client from an `object_store` error.

use crate::client::Client;
use crate::fault::{Fault, Remedy, causes};
use crate::renewal::Renewal;
use std::fmt;
use tensorferry_sdk::Error;

/// A refusal by a store, or a failed request. `object_store` wraps this error in its own errors.
/// Their messages are not used, because they contain URLs with signatures.
#[derive(Debug, Clone)]
pub(super) struct StoreError {
    fault: Fault,
    status: Option<u16>,
    /// The store's error code, such as `NoSuchKey`.
    code: String,
    /// The region of the bucket, if the request was sent to a different region.
    region: Option<String>,
    /// Whether the credentials had expired and were renewed.
    is_expired: bool,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.fault.error, f)
    }
}

impl std::error::Error for StoreError {}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        Self { fault, status: None, code: String::new(), region: None, is_expired: false }
    }
}

/// Error codes for request bodies that were damaged or cut off in transit.
const DAMAGED_BODY_CODES: [&str; 4] =
    ["BadDigest", "RequestTimeout", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"];

impl StoreError {
    /// Creates a refusal with the store's message.
    pub(super) fn refusal(status: u16, words: &str, region: Option<String>) -> Self {
        // The message has the form `answered 404 Not Found: NoSuchKey: The ...`.
        let code = words.split(": ").nth(1).unwrap_or_default().to_owned();
        let (why, hint) = match (status, &region) {
            (_, Some(region)) => (
                format!(" (the bucket is in the region {region})"),
                Some(format!("pass --store region={region}")),
            ),
            (401 | 403, _) if code == "AccessDenied" || code.is_empty() => {
                (" (without permission to list the bucket, this may mean a missing object)".into(), None)
            }
            _ => (String::new(), None),
        };
        let fault = match DAMAGED_BODY_CODES.contains(&&*code) {
            true => Fault::transient(words),
            false => {
                let error = Error::io(format!("{words}{why}"));
                Fault::permanent(match hint {
                    Some(hint) => error.hint(hint),
                    None => error,
                })
            }
        };
        Self { fault, status: Some(status), code, region, is_expired: false }
    }

    /// Extracts or creates the error for an `object_store` error.
    pub(super) fn of(error: &object_store::Error, client: &Client) -> Self {
        if let Some(store_error) = source_of(error) {
            return store_error.clone();
        }
        if let object_store::Error::NotFound { .. } = error {
            return Self { status: Some(404), ..Fault::permanent(Error::io("no such object")).into() };
        }
        // `object_store` itself has caused this error, for example because of an invalid setting or
        // a response that it cannot parse.
        let text = client.scrubbed(&without_urls(&causes(error)));
        Fault::permanent(Error::io(text)).into()
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.status
    }

    /// Returns whether the error means that the bucket, rather than the object, is missing.
    pub(super) fn is_of_bucket(&self) -> bool {
        ["NoSuchBucket", "ContainerNotFound"].contains(&self.code.as_str())
    }

    /// Marks the error for a retry if it may mean that the credentials have expired, and new
    /// credentials can be fetched. An empty error code may also mean this, because a response to
    /// `HEAD` does not contain an error code.
    pub(super) fn retry_if_renewed(mut self, renewal: &Renewal) -> Self {
        let is_expiry = self.status == Some(400)
            && (self.code.is_empty()
                || ["ExpiredToken", "TokenRefreshRequired"].contains(&self.code.as_str()));
        if is_expiry && renewal.ask() {
            self.fault.remedy = Remedy::Retry(None);
            self.is_expired = true;
        }
        self
    }

    pub(super) fn is_expired(&self) -> bool {
        self.is_expired
    }

    pub(super) fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    pub(super) fn of_file(mut self, name: &str) -> Self {
        self.fault = self.fault.of(name);
        self
    }

    pub(super) fn fault(self) -> Fault {
        self.fault
    }

    pub(super) fn error(self) -> Error {
        self.fault.error
    }

    /// Returns whether a retry may succeed.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self.fault.remedy, Remedy::Retry(_))
    }
}

/// Returns the HTTP status, if the error is a refusal by the store.
pub(super) fn status_of(error: &object_store::Error) -> Option<u16> {
    source_of(error)?.status
}

fn source_of(error: &object_store::Error) -> Option<&StoreError> {
    let mut next = Some(error as &(dyn std::error::Error + 'static));
    while let Some(error) = next {
        if let Some(store_error) = error.downcast_ref() {
            return Some(store_error);
        }
        next = error.source();
    }
    None
}

/// Removes the query and the fragment from all URLs in a message, because they may contain secrets.
fn without_urls(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.find("://") {
        Some(_) => word.split(['?', '#']).next().unwrap_or_default(),
        None => word,
    });
    words.collect::<Vec<_>>().join(" ")
}
