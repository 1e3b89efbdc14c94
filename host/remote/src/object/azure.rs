//! A container of Azure Blob Storage.

use super::connector::{Connector, no_retries};
use super::{Store, endpoint};
use crate::runtime::Engine;
use crate::settings::Scope;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use std::sync::Arc;
use tensorferry_sdk::{Error, Result};

/// Opens a container. The account name is in the URL or in the settings.
pub(super) fn store(engine: &Arc<Engine>, container: &str, account: Option<&str>) -> Result<Arc<dyn Store>> {
    let settings = &engine.settings;
    let text = |key| settings.scoped(Scope::Azure, key);
    let mut builder = MicrosoftAzureBuilder::new();
    for (name, value) in settings.variables() {
        let is_key = name.starts_with("AZURE_");
        match name.to_ascii_lowercase().parse::<AzureConfigKey>() {
            Ok(key) if is_key => builder = builder.with_config(key, value),
            _ if name == "IDENTITY_ENDPOINT" => builder = builder.with_msi_endpoint(value),
            _ => {}
        }
    }
    builder = builder
        .with_container_name(container)
        .with_retry(no_retries())
        .with_http_connector(Connector::new(engine));
    let account = account.or(text("account")).ok_or_else(|| {
        Error::usage("no storage account for the container")
            .hint("use az://CONTAINER@ACCOUNT/PATH, or set AZURE_STORAGE_ACCOUNT_NAME")
    })?;
    builder = builder.with_account(account);
    if let Some(key) = text("access-key") {
        builder = builder.with_access_key(key);
    }
    if let Some(sas) = text("sas") {
        builder = builder.with_config(AzureConfigKey::SasKey, sas);
    }
    if settings.scoped_flag(Scope::Azure, "anonymous").unwrap_or(false) {
        builder = builder.with_skip_signature(true);
    }
    if let Some(url) = endpoint(settings, Scope::Azure)? {
        builder = builder.with_endpoint(url);
    }
    Ok(Arc::new(builder.build().map_err(|error| super::unfit(&error))?))
}
