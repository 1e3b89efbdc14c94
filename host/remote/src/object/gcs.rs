//! A bucket of Google Cloud Storage.

use super::connector::{Connector, no_retries};
use super::{Store, endpoint};
use crate::runtime::Engine;
use crate::settings::Scope;
use object_store::StaticCredentialProvider;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use std::sync::Arc;
use tensorferry_sdk::Result;

pub(super) fn store(engine: &Arc<Engine>, bucket: &str) -> Result<Arc<dyn Store>> {
    let settings = &engine.settings;
    let mut builder = GoogleCloudStorageBuilder::new();
    for (name, value) in settings.variables().filter(|(name, _)| name.starts_with("GOOGLE_")) {
        // The credentials file of the service account has a separate setting.
        let is_account = name.contains("SERVICE_ACCOUNT") && !name.ends_with("KEY");
        if let (false, Ok(key)) = (is_account, name.to_ascii_lowercase().parse::<GoogleConfigKey>()) {
            builder = builder.with_config(key, value);
        }
    }
    builder =
        builder.with_bucket_name(bucket).with_retry(no_retries()).with_http_connector(Connector::new(engine));
    if let Some(path) = settings.scoped(Scope::Gcs, "service-account") {
        builder = builder.with_service_account_path(path);
    }
    // Google's own clients use this variable for test servers, which have no authentication.
    let emulator = settings
        .variable("STORAGE_EMULATOR_HOST")
        .map(|host| if host.contains("://") { host.to_owned() } else { format!("http://{host}") });
    let url = endpoint(settings, Scope::Gcs)?;
    let is_anonymous = settings.scoped_flag(Scope::Gcs, "anonymous");
    if is_anonymous.unwrap_or(url.is_none() && emulator.is_some()) {
        // Even if signatures are disabled, `object_store` requests a token before a write. An empty
        // token prevents this request.
        let nobody = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
        builder = builder.with_skip_signature(true).with_credentials(Arc::new(nobody));
    }
    if let Some(url) = url.or(emulator) {
        builder = builder.with_base_url(url.trim_end_matches('/'));
    }
    Ok(Arc::new(builder.build().map_err(|error| super::unfit(&error))?))
}
