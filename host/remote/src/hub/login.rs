//! Finds the user's token for the Hub and the local cache of the Hub. The locations are the same as
//! in `constants.py` of `huggingface_hub`.

use crate::secret::Secret;
use crate::settings::Settings;
use std::path::PathBuf;

/// Returns the token from the settings, or the token that `hf auth login` saved.
pub(super) fn token(settings: &Settings) -> Option<Secret> {
    if let Some(token) = settings.secret("hf-token") {
        return Some(token);
    }
    let path = token_file(settings)?;
    let text = std::fs::read_to_string(path).ok()?;
    let token = text.trim();
    (!token.is_empty()).then(|| Secret::new(token))
}

/// Returns the path of the token that `hf auth login` saves, unless the user turned it off.
pub(super) fn token_file(settings: &Settings) -> Option<PathBuf> {
    let is_off = settings.variable("HF_HUB_DISABLE_IMPLICIT_TOKEN");
    if is_off.is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&value.to_ascii_uppercase().as_str())) {
        return None;
    }
    match settings.variable("HF_TOKEN_PATH") {
        Some(path) => Some(expanded(settings, path)),
        None => Some(home(settings)?.join("token")),
    }
}

/// Returns the path of the Hub's local cache.
pub(super) fn cache(settings: &Settings) -> Option<PathBuf> {
    match settings.text("hf-cache") {
        Some(path) => Some(expanded(settings, path)),
        None => Some(home(settings)?.join("hub")),
    }
}

fn home(settings: &Settings) -> Option<PathBuf> {
    if let Some(path) = settings.variable("HF_HOME") {
        return Some(expanded(settings, path));
    }
    let cache = settings.variable("XDG_CACHE_HOME").map(PathBuf::from);
    Some(cache.or_else(|| Some(settings.home()?.join(".cache")))?.join("huggingface"))
}

fn expanded(settings: &Settings, path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), settings.home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}
