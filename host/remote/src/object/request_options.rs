//! Request options that `object_store` does not support. The options are stored in the current
//! task. The [connector](super::connector) reads them from the task when it sends the request.

use object_store::azure::{AzureAuthorizer, AzureCredential};
use object_store::client::HttpRequest;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use std::future::Future;
use std::sync::Arc;

tokio::task_local! {
    static REQUEST_OPTIONS: RequestOptions;
}

#[derive(Clone, Default)]
pub(super) struct RequestOptions {
    /// If set, the request is not retried, and the caller checks the outcome.
    pub(super) is_tried_once: bool,
    /// A condition that is added to the request, because `object_store` does not support it.
    pub(super) condition: Option<(HeaderName, HeaderValue)>,
    /// The Azure credential. If the signature covers the condition, the request is signed again
    /// with this credential.
    pub(super) azure: Option<Arc<AzureCredential>>,
}

impl RequestOptions {
    /// Runs `work`, and applies these options to all of its requests. If the store refuses a
    /// request, the refusal is returned as an error.
    pub(super) async fn of<T>(self, work: impl Future<Output = T>) -> T {
        REQUEST_OPTIONS.scope(self, work).await
    }

    /// Returns the options of the current task, or `None` if the task only reads.
    pub(super) fn current() -> Option<Self> {
        REQUEST_OPTIONS.try_with(Self::clone).ok()
    }

    /// Adds the condition to a request that is already signed. Signs the request again if
    /// necessary.
    pub(super) fn apply_to(&self, request: &mut HttpRequest) -> Result<(), object_store::Error> {
        let Some((name, value)) = self.condition.clone().filter(|_| is_completing(request)) else {
            return Ok(());
        };
        request.headers_mut().insert(name, value);
        // Azure's shared-key signature covers conditional headers, so the request is signed again.
        // Bearer tokens and signatures in the URL do not cover headers, and S3's signature covers
        // only the headers that it names.
        let shared = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let account = shared.and_then(|value| value.strip_prefix("SharedKey ")?.split_once(':'));
        let account = account.map(|(account, _)| account.to_owned());
        if let (Some(account), Some(credential)) = (account, &self.azure) {
            request.headers_mut().remove(AUTHORIZATION);
            AzureAuthorizer::new(credential, &account).try_authorize(request)?;
        }
        Ok(())
    }
}

/// Returns whether a request completes a multipart upload.
fn is_completing(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let has = |start: &str| query.split('&').any(|pair| pair.starts_with(start));
    match request.method().as_str() {
        "POST" => has("uploadId="),
        "PUT" => has("comp=blocklist"),
        _ => false,
    }
}
