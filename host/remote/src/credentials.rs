//! The sources of credentials, for bug reports.

use crate::settings::Settings;
use crate::{hub, object};

impl Settings {
    /// Returns where credentials were found: the names of settings and environment variables, and
    /// the files of other programs. The list never contains a value. No request is sent.
    #[must_use]
    pub fn credentials(&self) -> Vec<String> {
        let token = hub::login(self).map(|file| format!("file {}", file.display()));
        self.credential_names().into_iter().chain(object::logins(self)).chain(token).collect()
    }
}
