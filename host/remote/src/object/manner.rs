//! The manner in which a store's own request is sent: what `object_store` has no word for travels with the task to the
//! [connector](super::connector), which sends the request.

use object_store::azure::{AzureAuthorizer, AzureCredential};
use object_store::client::HttpRequest;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use std::future::Future;
use std::sync::Arc;

tokio::task_local! {
    static MANNER: Manner;
}

#[derive(Clone, Default)]
pub(super) struct Manner {
    /// Whether it is tried once only: who asks looks himself what became of it.
    pub(super) is_tried_once: bool,
    /// A condition, of a request for which `object_store` sends none.
    pub(super) condition: Option<(HeaderName, HeaderValue)>,
    /// What signs it anew, where the signature is over the condition.
    pub(super) azure: Option<Arc<AzureCredential>>,
}

impl Manner {
    /// Does work whose requests are sent in this manner. Refusals of a store are told as such then.
    pub(super) async fn of<T>(self, work: impl Future<Output = T>) -> T {
        MANNER.scope(self, work).await
    }

    /// That of the requests of this task; `None` where they read.
    pub(super) fn current() -> Option<Self> {
        MANNER.try_with(Self::clone).ok()
    }

    /// Puts the condition into a request that has been signed.
    pub(super) fn put_into(&self, request: &mut HttpRequest) -> Result<(), object_store::Error> {
        let Some((name, value)) = self.condition.clone().filter(|_| is_completing(request)) else {
            return Ok(());
        };
        request.headers_mut().insert(name, value);
        // Azure's shared keys sign conditions; a bearer's token and a signature in the URL sign no headers, and S3's
        // signature is over those that it names.
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

/// Whether a request puts the parts of an object together.
fn is_completing(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let has = |start: &str| query.split('&').any(|pair| pair.starts_with(start));
    match request.method().as_str() {
        "POST" => has("uploadId="),
        "PUT" => has("comp=blocklist"),
        _ => false,
    }
}
