//! Trouble is what `object_store` says went wrong, seen through to what our own client found.

use crate::client::Client;
use crate::fault::{Fault, Remedy, causes};
use crate::renewal::Renewal;
use std::fmt;
use tensorferry_sdk::Error;

/// What a store refused, or how a request to it failed. It travels through `object_store`'s errors, whose own texts hold
/// URLs with signatures in them.
#[derive(Debug, Clone)]
pub(super) struct Trouble {
    fault: Fault,
    status: Option<u16>,
    /// What the store calls it: `NoSuchKey`.
    code: String,
    /// Where the bucket is.
    region: Option<String>,
    /// Whether the credentials were fetched anew since.
    is_expired: bool,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.fault.error, f)
    }
}

impl std::error::Error for Trouble {}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self { fault, status: None, code: String::new(), region: None, is_expired: false }
    }
}

/// What a store says of bytes that are not what their checksum says, or that did not come to their end.
const CHANGED_ON_THE_WAY: [&str; 4] =
    ["BadDigest", "RequestTimeout", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"];

impl Trouble {
    /// A refusal of a store's, in its words.
    pub(super) fn refused(status: u16, words: &str, region: Option<String>) -> Self {
        // `answered 404 Not Found: NoSuchKey: The ...`.
        let code = words.split(": ").nth(1).unwrap_or_default().to_owned();
        let hint = match (status, &region) {
            (_, Some(region)) => format!(" (the bucket is in the region {region}: --store region={region})"),
            (401 | 403, _) if code == "AccessDenied" || code.is_empty() => {
                " (who may not list a bucket is told so of what is not there, too)".into()
            }
            _ => String::new(),
        };
        let fault = match CHANGED_ON_THE_WAY.contains(&&*code) {
            true => Fault::passing(words),
            false => Fault::last(Error::io(format!("{words}{hint}"))),
        };
        Self { fault, status: Some(status), code, region, is_expired: false }
    }

    /// What is behind an error of `object_store`.
    pub(super) fn of(error: &object_store::Error, client: &Client) -> Self {
        if let Some(trouble) = behind(error) {
            return trouble.clone();
        }
        if let object_store::Error::NotFound { .. } = error {
            return Self { status: Some(404), ..Fault::last(Error::io("there is no such object")).into() };
        }
        // Of its own: settings that do not fit, answers that are none.
        let text = client.scrubbed(&without_urls(&causes(error)));
        Fault::last(Error::io(text)).into()
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether the bucket is missing, and not the object.
    pub(super) fn is_of_bucket(&self) -> bool {
        ["NoSuchBucket", "ContainerNotFound"].contains(&self.code.as_str())
    }

    /// The same, but where a store calls the credentials expired and others are to be had: then another try helps. `HEAD`
    /// has no words for it.
    pub(super) fn unless_renewed(mut self, renewal: &Renewal) -> Self {
        let is_expiry = self.status == Some(400)
            && (self.code.is_empty()
                || ["ExpiredToken", "TokenRefreshRequired"].contains(&self.code.as_str()));
        if is_expiry && renewal.ask() {
            self.fault.remedy = Remedy::Again(None);
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

    /// Whether another try may help.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.fault.remedy, Remedy::Again(_))
    }
}

/// The status of a store's refusal.
pub(super) fn status_of(error: &object_store::Error) -> Option<u16> {
    behind(error)?.status
}

fn behind(error: &object_store::Error) -> Option<&Trouble> {
    let mut next = Some(error as &(dyn std::error::Error + 'static));
    while let Some(error) = next {
        if let Some(trouble) = error.downcast_ref() {
            return Some(trouble);
        }
        next = error.source();
    }
    None
}

/// A text with URLs cut where secrets may begin.
fn without_urls(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.find("://") {
        Some(_) => word.split(['?', '#']).next().unwrap_or_default(),
        None => word,
    });
    words.collect::<Vec<_>>().join(" ")
}
