//! Reads the profiles of the AWS tools from `~/.aws/credentials` and `~/.aws/config`.

use crate::runtime::Engine;
use crate::settings::{Scope, Settings};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tensorferry_sdk::{Error, Result};

/// The keys and values of one profile.
#[derive(Clone)]
pub(super) struct Profile {
    name: String,
    values: BTreeMap<String, String>,
}

/// Time for which keys are used before ferry reads the files again, or runs the credential program
/// again. The time is short enough to renew keys that are valid for an hour.
const KEY_REUSE_TIME: Duration = Duration::from_secs(300);

impl Profile {
    /// Reads a profile. Returns `None` if neither file contains the profile.
    pub(super) fn read(settings: &Settings, name: &str) -> Result<Option<Self>> {
        let file = |variable: &str, default: &str| {
            settings.variable(variable).map(PathBuf::from).or_else(|| Some(settings.home()?.join(default)))
        };
        let (mut values, mut is_there) = (BTreeMap::new(), false);
        // If both files contain the same key, the value in the first file takes precedence.
        for (path, header) in [
            (
                file("AWS_CONFIG_FILE", ".aws/config"),
                if name == "default" { name.into() } else { format!("profile {name}") },
            ),
            (file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"), name.to_owned()),
        ] {
            let Some(path) = path else { continue };
            match std::fs::read_to_string(&path) {
                Ok(text) => {
                    if let Some(found) = section(&text, &header) {
                        is_there = true;
                        values.extend(found);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::from(error).file(path.to_string_lossy())),
            }
        }
        Ok(is_there.then(|| Self { name: name.to_owned(), values }))
    }

    /// Describes the profile that the settings select, for bug reports; `None` if it does not exist.
    pub(super) fn described(settings: &Settings) -> Option<String> {
        let name = settings.scoped(Scope::S3, "profile").unwrap_or("default");
        let usable = Self::read(settings, name).transpose()?.and_then(|profile| profile.has_credentials());
        let fault = match usable {
            Ok(true) => String::new(),
            Ok(false) => " (no keys)".to_owned(),
            Err(error) => format!(" ({error})"),
        };
        Some(format!("profile {name:?} of the AWS tools{fault}"))
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// Returns whether the profile contains keys, or names a program that prints keys.
    pub(super) fn has_credentials(&self) -> Result<bool> {
        if self.get("aws_access_key_id").is_some() || self.get("credential_process").is_some() {
            return Ok(true);
        }
        for key in ["sso_session", "sso_start_url", "role_arn"] {
            if self.get(key).is_some() {
                let name = &self.name;
                return Err(Error::unsupported(format!(
                    "the profile {name:?} uses {key}, which only the AWS tools support: give another profile \
                     `credential_process = aws configure export-credentials --profile {name}`"
                )));
            }
        }
        Ok(false)
    }
}

/// Returns the values in one section of an INI file. Indented lines contain nested values and are
/// skipped.
fn section(text: &str, header: &str) -> Option<BTreeMap<String, String>> {
    let (mut found, mut is_in) = (None, false);
    for line in text.lines() {
        let bare = line.trim();
        if let Some(name) = bare.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let words: Vec<&str> = name.0.split_whitespace().collect();
            is_in = words.join(" ") == header;
            if is_in {
                found.get_or_insert_with(BTreeMap::new);
            }
        } else if is_in
            && !line.starts_with([' ', '\t', '#', ';'])
            && let (Some((key, value)), Some(values)) = (bare.split_once('='), found.as_mut())
        {
            values.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

/// The credentials of a profile. The credentials are read again regularly, in case they have
/// changed.
pub(super) struct ProfileCredentials {
    engine: Arc<Engine>,
    name: String,
}

impl fmt::Debug for ProfileCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfileCredentials({:?})", self.name)
    }
}

impl ProfileCredentials {
    pub(super) fn new(engine: &Arc<Engine>, profile: Profile) -> Self {
        engine.renewal.is_possible();
        Self { engine: Arc::clone(engine), name: profile.name }
    }

    /// Returns valid keys, and renews the keys first if necessary. Concurrent callers wait for the
    /// same renewal, even if they use different buckets. The program that prints the keys must not
    /// run twice at the same time, because it may prompt the user or write a file.
    async fn keys(&self) -> Result<Arc<AwsCredential>> {
        let mut known = Arc::clone(&self.engine.process()?.keys).lock_owned().await;
        let holds = |since: Instant| since.elapsed() < KEY_REUSE_TIME && self.engine.renewal.holds(since);
        if let Some((since, keys)) = &*known
            && holds(*since)
        {
            return Ok(Arc::clone(keys));
        }
        let (engine, name) = (Arc::clone(&self.engine), self.name.clone());
        // Even if no caller is waiting any longer, the task continues and holds the lock until it
        // ends.
        let found = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let keys = Arc::new(Self::renew(&engine.settings, &name)?);
            *known = Some((begun, Arc::clone(&keys)));
            Ok(keys)
        });
        found.await.unwrap_or_else(|_| Err(Error::io("cannot read the profile")))
    }

    fn renew(settings: &Settings, name: &str) -> Result<AwsCredential> {
        let gone = || Error::usage(format!("the profile {name:?} no longer has keys"));
        let profile = Profile::read(settings, name)?.ok_or_else(gone)?;
        if let Some(command) = profile.get("credential_process") {
            return from_process(name, command);
        }
        let (key, secret) = (profile.get("aws_access_key_id"), profile.get("aws_secret_access_key"));
        let (key_id, secret_key) = key.zip(secret).ok_or_else(gone)?;
        let token = profile.get("aws_session_token").map(str::to_owned);
        Ok(AwsCredential { key_id: key_id.to_owned(), secret_key: secret_key.to_owned(), token })
    }
}

/// Runs a program that prints keys as JSON, and returns the keys.
fn from_process(name: &str, command: &str) -> Result<AwsCredential> {
    // Error messages must not contain the program's output, which is secret, or its error output,
    // which may contain secrets.
    let failed = |why: &str| Error::io(format!("credential_process of the profile {name:?} {why}"));
    let run =
        std::process::Command::new("sh").args(["-c", command]).stdin(std::process::Stdio::null()).output();
    let output = run.map_err(|_| failed("cannot be started"))?;
    if !output.status.success() {
        return Err(failed(&format!("failed ({})", output.status)));
    }
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|_| failed("does not print JSON"))?;
    let text = |key: &str| json[key].as_str().map(str::to_owned);
    match (text("AccessKeyId"), text("SecretAccessKey")) {
        (Some(key_id), Some(secret_key)) => {
            Ok(AwsCredential { key_id, secret_key, token: text("SessionToken") })
        }
        _ => Err(failed("prints no keys")),
    }
}

impl CredentialProvider for ProfileCredentials {
    type Credential = AwsCredential;

    fn get_credential<'s, 'f>(&'s self) -> BoxFuture<'f, object_store::Result<Arc<AwsCredential>>>
    where
        's: 'f,
        Self: 'f,
    {
        async move {
            self.keys().await.map_err(|error| object_store::Error::Generic {
                store: "S3",
                source: Box::new(super::StoreError::from(crate::fault::Fault::permanent(error))),
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(folder: &std::path::Path) -> Settings {
        let none: [&str; 0] = [];
        Settings::with_environment(&none, [("HOME".into(), folder.to_str().unwrap().into())]).unwrap()
    }

    #[test]
    fn profiles_are_read_from_both_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".aws")).unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(".aws").join(name), text).unwrap();
        write(
            "config",
            "[default]\nregion = eu-west-1\ns3 =\n  region = no\n[profile  a]\naws_access_key_id=config\n\
             [profile program]\ncredential_process = echo '{\"AccessKeyId\":\"k\",\"SecretAccessKey\":\"s\"}'\n\
             [profile sso]\nsso_session = x\n",
        );
        write("credentials", "# keys\n[a]\nAWS_ACCESS_KEY_ID = key\naws_secret_access_key = s=t\n");
        let settings = settings(folder.path());
        let read = |name: &str| Profile::read(&settings, name).unwrap();
        assert_eq!(read("default").unwrap().get("region"), Some("eu-west-1"));
        assert!(!read("default").unwrap().has_credentials().unwrap());
        assert_eq!(read("a").unwrap().get("aws_access_key_id"), Some("key"));
        assert!(read("none").is_none());
        let error = read("sso").unwrap().has_credentials().unwrap_err().to_string();
        assert!(error.contains("export-credentials"), "{error}");
        let keys = ProfileCredentials::renew(&settings, "a").unwrap();
        assert_eq!((keys.key_id.as_str(), keys.secret_key.as_str(), keys.token), ("key", "s=t", None));
        let keys = ProfileCredentials::renew(&settings, "program").unwrap();
        assert_eq!((keys.key_id.as_str(), keys.secret_key.as_str()), ("k", "s"));
        let engine = Arc::new(Engine::new(settings.clone(), 1 << 20, Arc::new(|| false)));
        let shown = format!("{:?}", ProfileCredentials::new(&engine, read("a").unwrap()));
        assert!(!shown.contains("s=t"), "{shown}");
    }
}
