//! What opens inputs that are URLs, for all programs: the stores' crate, where they were built with it.

use std::sync::Arc;
use tensorferry::engine::context::remote::Remote;
use tensorferry_sdk::Result;

/// What opens URLs by these settings, each `KEY=VALUE`, and those of the environment; what is fetched ahead takes a part of
/// `memory` bytes.
///
/// # Errors
/// Usage, for a setting that there is not, or where the program was built without stores.
#[cfg(feature = "remote")]
pub fn remote(settings: &[String], memory: u64) -> Result<Arc<dyn Remote>> {
    Ok(Arc::new(tensorferry_remote::Remotes::new(settings, memory)?))
}

#[cfg(not(feature = "remote"))]
pub fn remote(settings: &[String], _memory: u64) -> Result<Arc<dyn Remote>> {
    match settings {
        [] => Ok(Arc::new(without::NoStores)),
        _ => Err(without::error()),
    }
}

#[cfg(not(feature = "remote"))]
mod without {
    use super::*;
    use tensorferry::engine::context::remote::RemotePlace;
    use tensorferry_sdk::Error;

    /// Opens nothing, and says how to get a program that does.
    #[derive(Debug)]
    pub(super) struct NoStores;

    impl Remote for NoStores {
        fn place(&self, url: &str) -> Result<Option<(Arc<dyn RemotePlace>, String)>> {
            Err(error().file(url))
        }
    }

    pub(super) fn error() -> Error {
        Error::usage("this ferry was built without stores")
            .expected("one that was built with --features tensorferry-cli/remote")
    }
}
