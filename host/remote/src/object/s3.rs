//! A bucket in S3 or in a compatible store.

use super::connector::{Connector, no_retries};
use super::profile::{Profile, ProfileCredentials};
use super::{Store, endpoint};
use crate::runtime::Engine;
use crate::settings::Scope;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use std::sync::Arc;
use tensorferry_sdk::{Error, Result};

/// Opens a bucket. `region` is the region that the store has reported. If `region` is `None`, the
/// settings determine the region.
pub(super) fn store(engine: &Arc<Engine>, bucket: &str, region: Option<&str>) -> Result<Arc<dyn Store>> {
    let settings = &engine.settings;
    let text = |key| settings.scoped(Scope::S3, key);
    let mut builder = AmazonS3Builder::new();
    for (name, value) in settings.variables().filter(|(name, _)| name.starts_with("AWS_")) {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    builder =
        builder.with_bucket_name(bucket).with_retry(no_retries()).with_http_connector(Connector::new(engine));
    let mut has_endpoint = ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"]
        .iter()
        .any(|name| settings.variable(name).is_some());

    let given = (text("access-key"), text("secret-key"));
    let has_keys = given.0.is_some() || settings.variable("AWS_ACCESS_KEY_ID").is_some();
    let is_anonymous = settings.scoped_flag(Scope::S3, "anonymous").unwrap_or(false);
    let others = [
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ];
    let has_others = others.iter().any(|name| settings.variable(name).is_some());
    let mut home = None;
    if !is_anonymous && !has_keys {
        let named = text("profile");
        let profile = Profile::read(settings, named.unwrap_or("default"))?;
        if profile.is_none()
            && let Some(name) = named
        {
            return Err(Error::usage(format!("no profile {name:?} in the files of ~/.aws")));
        }
        if let Some(profile) = profile.filter(|_| named.is_some() || !has_others) {
            home = profile.get("region").map(str::to_owned);
            if let Some(url) = profile.get("endpoint_url") {
                builder = builder.with_endpoint(url);
                has_endpoint = true;
            }
            if profile.has_credentials()? {
                builder = builder.with_credentials(Arc::new(ProfileCredentials::new(engine, profile)));
            }
        }
    }
    match given {
        (Some(key), Some(secret)) => {
            builder = builder.with_access_key_id(key).with_secret_access_key(secret);
            if let Some(token) = text("session-token") {
                builder = builder.with_token(token);
            }
        }
        (None, None) => {}
        _ => return Err(Error::usage("access-key and secret-key must be set together")),
    }
    if let Some(region) = region.or(text("region")).or(home.as_deref()) {
        builder = builder.with_region(region);
    }
    if let Some(url) = endpoint(settings, Scope::S3)? {
        builder = builder.with_endpoint(url);
        has_endpoint = true;
    }
    let is_in_path =
        settings.scoped_flag(Scope::S3, "path-style").unwrap_or(has_endpoint || bucket.contains('.'));
    builder = builder.with_virtual_hosted_style_request(!is_in_path);
    if !is_in_path && let Some(url) = endpoint(settings, Scope::S3)? {
        // For virtual-hosted requests, `object_store` expects the endpoint to contain the bucket.
        builder = builder.with_endpoint(url.replacen("://", &format!("://{bucket}."), 1));
    }
    if is_anonymous {
        builder = builder.with_skip_signature(true);
    }
    // Each object is deleted with a separate request, because some stores do not support bulk
    // deletion.
    builder = builder.with_disable_bulk_delete(true);
    match text("checksum").unwrap_or_default() {
        "crc64nvme" => builder = builder.with_checksum_algorithm(Checksum::CRC64NVME),
        "sha256" => builder = builder.with_checksum_algorithm(Checksum::SHA256),
        _ => {}
    }
    // TLS already protects the request body, so signing its digest would not add anything.
    let url =
        endpoint(settings, Scope::S3)?.or_else(|| settings.variable("AWS_ENDPOINT_URL").map(str::to_owned));
    builder = builder.with_unsigned_payload(url.is_none_or(|url| url.starts_with("https://")));
    Ok(Arc::new(builder.build().map_err(|error| super::unfit(&error))?))
}
