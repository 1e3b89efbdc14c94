//! The settings for stores and transfers: `--store KEY=VALUE` and environment variables.

use crate::secret::Secret;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tensorferry_sdk::{Error, Result};

/// The kind of store that a setting applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// S3 and compatible stores.
    S3,
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl Scope {
    const ALL: [(&'static str, Self); 3] = [("s3", Self::S3), ("gs", Self::Gcs), ("az", Self::Azure)];
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Secret,
    /// A number that is at least 1.
    Count,
    /// A number of bytes, with an optional suffix KiB, MiB, GiB or TiB.
    Bytes,
    Seconds,
    Flag,
    /// A checksum algorithm in [`CHECKSUMS`].
    Checksum,
}

/// The checksum algorithms for uploaded parts.
const CHECKSUMS: [&str; 3] = ["crc64nvme", "sha256", "none"];

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Secret => "secret",
            Self::Count => "number",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
            Self::Flag => "true or false",
            Self::Checksum => "name",
        }
    }
}

/// A description of a setting, for the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingDescription {
    pub key: &'static str,
    /// Type of the value.
    pub value: &'static str,
    /// The default value, or an empty string if there is no default.
    pub default: &'static str,
    /// Equivalent environment variables. The first variable that is set applies.
    pub variables: &'static [&'static str],
    /// Whether the setting can be limited to one kind of store, as in `s3.KEY`, `gs.KEY` or
    /// `az.KEY`.
    pub is_scoped: bool,
    pub about: &'static str,
}

struct Row(&'static str, Kind, &'static str, &'static [&'static str], bool, &'static str);

const CA_VARIABLES: &[&str] = &["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row("parallel", Kind::Count, "8", &[], false, "number of parallel prefetch requests"),
    Row("retries", Kind::Count, "10", &[], false, "maximum attempts for a request that makes no progress"),
    Row("retry-time", Kind::Seconds, "120", &[], false, "time limit for these attempts, including waits that the server asks for"),
    Row("connect-timeout", Kind::Seconds, "10", &[], false, "time limit for establishing a connection"),
    Row("answer-timeout", Kind::Seconds, "60", &[], false, "time limit until a response starts"),
    Row("min-rate", Kind::Bytes, "1KiB", &[], false, "bytes per second below which a transfer is retried"),
    Row("min-rate-time", Kind::Seconds, "30", &[], false, "period over which this rate is measured"),
    Row("spool", Kind::Bytes, "16GiB", &[], false, "maximum size of a file from an HTTP server without range requests"),
    Row("spool-folder", Kind::Text, "", &["TMPDIR"], false, "folder for the unnamed temporary copies of such files"),
    Row("redirect-to", Kind::Text, "", &[], false, "comma-separated hosts with private addresses that servers may redirect to"),
    Row("ca-bundle", Kind::Text, "", CA_VARIABLES, false, "PEM file of additional trusted certificates"),
    Row("http-token", Kind::Secret, "", &[], false, "bearer token for the host of an http or https URL"),
    Row("hf-token", Kind::Secret, "", &["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"], false, "token for the Hub (default: the one that `hf auth login` saved)"),
    Row("hf-endpoint", Kind::Text, "https://huggingface.co", &["HF_ENDPOINT"], false, "URL of the Hugging Face Hub"),
    Row("hf-offline", Kind::Flag, "false", &["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"], false, "read only the Hub's local cache"),
    Row("hf-cache", Kind::Text, "", &["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"], false, "folder of the Hub's local cache, which is never written"),
    Row("endpoint", Kind::Text, "", &[], true, "URL of a store other than the provider's own"),
    Row("allow-http", Kind::Flag, "false", &[], true, "allow an endpoint without TLS (always allowed on this machine)"),
    Row("anonymous", Kind::Flag, "false", &[], true, "do not sign requests, for public buckets"),
    Row("checksum", Kind::Checksum, "crc64nvme", &[], true, "S3: checksum to verify each uploaded part: crc64nvme, sha256 or none"),
    Row("region", Kind::Text, "", &["AWS_REGION", "AWS_DEFAULT_REGION"], true, "S3: region of the bucket"),
    Row("path-style", Kind::Flag, "", &[], true, "S3: put the bucket into the path, not the host (default with an endpoint)"),
    Row("profile", Kind::Text, "", &["AWS_PROFILE", "AWS_DEFAULT_PROFILE"], true, "S3: profile in ~/.aws"),
    Row("access-key", Kind::Secret, "", &[], true, "S3: access key ID; Azure: account key"),
    Row("secret-key", Kind::Secret, "", &[], true, "S3: secret access key"),
    Row("session-token", Kind::Secret, "", &[], true, "S3: session token for temporary credentials"),
    Row("service-account", Kind::Text, "", &["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "SERVICE_ACCOUNT"], true, "GCS: key file of a service account (default: the default credentials)"),
    Row("account", Kind::Text, "", &["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"], true, "Azure: storage account, if the URL does not name it"),
    Row("sas", Kind::Secret, "", &["AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN"], true, "Azure: shared access signature"),
];

/// Settings for stores and transfers, with checked values. `Debug` does not show the values.
#[derive(Clone)]
pub struct Settings {
    values: BTreeMap<(Option<Scope>, &'static str), String>,
    environment: BTreeMap<String, String>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl Settings {
    /// Parses settings of the form `KEY=VALUE`, and adds the settings in the environment. If a key
    /// occurs several times, the last value applies.
    pub fn new(pairs: &[impl AsRef<str>]) -> Result<Self> {
        Self::with_environment(
            pairs,
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        )
    }

    /// Like [`new`](Self::new), but with the given variables instead of the environment.
    pub fn with_environment(
        pairs: &[impl AsRef<str>],
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self> {
        let environment: BTreeMap<String, String> =
            environment.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let mut values = BTreeMap::new();
        for Row(key, kind, default, variables, ..) in ROWS {
            let variable = variables.iter().find_map(|name| Some((*name, environment.get(*name)?)));
            if let Some((name, value)) = variable {
                values.insert((None, *key), checked(name, *kind, value)?);
            } else if !default.is_empty() {
                values.insert((None, *key), checked(key, *kind, default)?);
            }
        }
        for pair in pairs {
            let Some((name, value)) = pair.as_ref().split_once('=') else {
                return Err(Error::usage("a setting of --store must have the form KEY=VALUE")
                    .found(format!("{:?}", key_of(pair.as_ref()))));
            };
            let (scope, row) = row_of(name.trim())?;
            values.insert((scope, row.0), checked(name, row.1, value.trim())?);
        }
        Ok(Self { values, environment })
    }

    /// Returns all settings, in the order of the documentation.
    pub fn describe() -> impl Iterator<Item = SettingDescription> {
        ROWS.iter().map(|Row(key, kind, default, variables, is_scoped, about)| SettingDescription {
            key,
            value: kind.word(),
            default,
            variables,
            is_scoped: *is_scoped,
            about,
        })
    }

    /// Returns the value of a setting that applies to all stores.
    pub(crate) fn text(&self, key: &'static str) -> Option<&str> {
        self.values.get(&(None, key)).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the value of a setting for one kind of store. If the setting has no value for this
    /// kind, returns the value for all stores.
    pub(crate) fn scoped(&self, scope: Scope, key: &'static str) -> Option<&str> {
        let own = self.values.get(&(Some(scope), key)).map(String::as_str);
        own.or_else(|| self.text(key)).filter(|value| !value.is_empty())
    }

    /// Returns the value of a flag for one kind of store, or `None` if the flag is not set.
    pub(crate) fn scoped_flag(&self, scope: Scope, key: &'static str) -> Option<bool> {
        self.scoped(scope, key).and_then(flag)
    }

    pub(crate) fn secret(&self, key: &'static str) -> Option<Secret> {
        self.text(key).map(Secret::new)
    }

    pub(crate) fn is_set(&self, key: &'static str) -> bool {
        self.text(key).and_then(flag).unwrap_or(false)
    }

    pub(crate) fn count(&self, key: &'static str) -> usize {
        self.text(key).and_then(|text| text.parse().ok()).unwrap_or(1)
    }

    pub(crate) fn bytes(&self, key: &'static str) -> u64 {
        self.text(key).and_then(bytes).unwrap_or(0)
    }

    pub(crate) fn time(&self, key: &'static str) -> Duration {
        self.text(key).and_then(seconds).unwrap_or_default()
    }

    /// Returns an environment variable.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from)
    }

    /// Returns the settings and environment variables that contain or locate credentials, by name.
    pub(crate) fn credential_names(&self) -> Vec<String> {
        let rows = || ROWS.iter().filter(|row| row.1 == Kind::Secret || row.0 == "service-account");
        let settings = self.values.iter().filter(|((scope, key), value)| {
            let row = rows().find(|row| row.0 == *key).filter(|_| !value.is_empty());
            // A value from the environment is listed as a variable.
            let is_variable =
                |row: &Row| row.3.iter().any(|name| self.variable(name) == Some(value.as_str()));
            row.is_some_and(|row| scope.is_some() || !is_variable(row))
        });
        let settings = settings.map(|((scope, key), _)| {
            let scope = Scope::ALL.iter().find(|(_, known)| Some(*known) == *scope);
            format!("setting {}{key}", scope.map(|(name, _)| format!("{name}.")).unwrap_or_default())
        });
        let of_rows = |name: &str| rows().any(|row| row.3.contains(&name));
        let of_providers =
            |name: &str| PREFIXES.iter().any(|start| name.starts_with(start)) && is_secret(name);
        let variables = self.environment.keys().filter(|name| of_rows(name) || of_providers(name));
        settings.chain(variables.map(|name| format!("environment variable {name}"))).collect()
    }

    /// Returns all secret values, which must be removed from servers' messages.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let is_secret = |key: &str| ROWS.iter().any(|row| row.0 == key && row.1 == Kind::Secret);
        let said = self.values.iter().filter(|((_, key), _)| is_secret(key)).map(|(_, value)| value);
        // The providers' own clients read additional variables. A fixed list of these variables
        // would become incomplete.
        let named = self.environment.iter().filter(|(name, _)| is_secret(name));
        said.chain(named.map(|(_, value)| value)).map(Secret::new).collect()
    }
}

/// The starts of the names of environment variables that the providers' clients read.
const PREFIXES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// Returns whether an environment variable may contain or locate a secret, judging by its name.
fn is_secret(name: &str) -> bool {
    ["KEY", "SECRET", "TOKEN", "PASSWORD", "CREDENTIAL"].iter().any(|word| name.contains(word))
}

/// Returns the part of an invalid setting that is safe to show.
fn key_of(text: &str) -> &str {
    text.split([':', ' ']).next().unwrap_or_default()
}

fn row_of(name: &str) -> Result<(Option<Scope>, &'static Row)> {
    let scoped = name.split_once('.').and_then(|(scope, key)| {
        let (_, scope) = Scope::ALL.into_iter().find(|(known, _)| *known == scope)?;
        Some((scope, key))
    });
    let (scope, key) = scoped.map_or((None, name), |(scope, key)| (Some(scope), key));
    // Environment variables and other programs use underscores.
    let key = key.replace('_', "-").to_ascii_lowercase();
    if let Some(row) = ROWS.iter().find(|row| row.0 == key && (scope.is_none() || row.4)) {
        return Ok((scope, row));
    }
    let distance = |row: &&Row| strsim::damerau_levenshtein(row.0, &key);
    let nearest = ROWS.iter().min_by_key(distance).map_or("", |row| row.0);
    Err(Error::usage(format!("unknown setting {name:?}; did you mean {nearest:?}?")))
}

fn checked(name: &str, kind: Kind, value: &str) -> Result<String> {
    let is_right = match kind {
        Kind::Text => true,
        // Characters that a header cannot contain are rejected here, because later error messages
        // could show the value.
        Kind::Secret => value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '),
        Kind::Count => value.parse::<u32>().is_ok_and(|count| (1..=1024).contains(&count)),
        Kind::Bytes => bytes(value).is_some(),
        Kind::Seconds => seconds(value).is_some(),
        Kind::Flag => flag(value).is_some(),
        Kind::Checksum => CHECKSUMS.contains(&value),
    };
    if is_right {
        return Ok(value.to_owned());
    }
    let expected = match kind {
        Kind::Text | Kind::Secret => "printable ASCII characters",
        Kind::Count => "a number from 1 to 1024",
        Kind::Bytes => "a number of bytes, like 512, 64KiB or 2GiB",
        Kind::Seconds => "a number of seconds above 0, up to 86400",
        Kind::Flag => "true or false",
        Kind::Checksum => "crc64nvme, sha256 or none",
    };
    let value = if kind == Kind::Secret { String::new() } else { format!(" {value:?}") };
    Err(Error::usage(format!("invalid value{value} of the setting {name}: expected {expected}")))
}

fn flag(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn seconds(value: &str) -> Option<Duration> {
    let number: f64 = value.strip_suffix('s').unwrap_or(value).parse().ok()?;
    (number > 0.0 && number <= 86_400.0).then(|| Duration::from_secs_f64(number))
}

fn bytes(value: &str) -> Option<u64> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let unit: u64 = match value[digits..].trim() {
        "" | "B" => 1,
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        "TiB" | "T" => 1 << 40,
        _ => return None,
    };
    value[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn settings(pairs: &[&str]) -> Result<Settings> {
        let environment = [("HF_TOKEN", "hf_word"), ("AWS_REGION", "eu-west-1"), ("EMPTY", "")];
        Settings::with_environment(pairs, environment.map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn pairs_come_before_variables_and_scopes_before_all() {
        let settings =
            settings(&["region=us-east-2", "s3.endpoint=http://a", "endpoint=http://b", "min_rate=2KiB"])
                .unwrap();
        assert_eq!(settings.scoped(Scope::S3, "region"), Some("us-east-2"));
        assert_eq!(settings.scoped(Scope::S3, "endpoint"), Some("http://a"));
        assert_eq!(settings.scoped(Scope::Gcs, "endpoint"), Some("http://b"));
        assert_eq!(settings.bytes("min-rate"), 2048);
        assert_eq!(settings.count("parallel"), 8);
        assert_eq!(settings.time("retry-time"), Duration::from_secs(120));
        assert!(!settings.is_set("hf-offline"));
    }

    #[test]
    fn what_is_wrong_is_said_and_secrets_are_not() {
        let error = |pair: &str| settings(&[pair]).unwrap_err().to_string();
        assert!(error("endpont=x").contains("did you mean \"endpoint\""), "{}", error("endpont=x"));
        assert!(error("s3.parallel=3").contains("unknown setting"), "{}", error("s3.parallel=3"));
        assert!(error("parallel=0").contains("from 1 to 1024"));
        assert!(error("spool=3XB").contains("64KiB"));
        assert!(error("anonymous=maybe").contains("true or false"));
        let wrong = error("secret-key=wo\u{7}rd");
        assert!(!wrong.contains("rd\""), "{wrong}");
        assert!(!error("parallel word").contains("word"));
        let shown = format!("{:?}", settings(&["secret-key=word"]).unwrap());
        assert!(!shown.contains("word"), "{shown}");
    }

    #[test]
    fn every_default_is_a_value_of_its_setting() {
        let none: [&str; 0] = [];
        Settings::with_environment(&none, []).unwrap();
        assert!(Settings::describe().count() >= 25);
        let all = Settings::describe().filter(|row| row.is_scoped).count();
        assert!(all >= 10, "{all}");
    }

    #[test]
    fn the_guide_has_them_all() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/remote.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut table = String::from(
            "| Key | Value | Default | Environment | Description | |\n|---|---|---|---|---|---|\n",
        );
        for row in Settings::describe() {
            let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
            let variables =
                row.variables.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let dot = if row.is_scoped { "." } else { "" };
            let (key, value, default) = (code(row.key), row.value, code(row.default));
            writeln!(table, "| {key} | {value} | {default} | {variables} | {} | {dot} |", row.about).unwrap();
        }
        let (before, rest) = text.split_once("<!-- settings -->\n").unwrap();
        let (found, after) = rest.split_once("<!-- /settings -->").unwrap();
        if std::env::var_os("FERRY_TEST_WRITE_GUIDE").is_some() {
            std::fs::write(&path, format!("{before}<!-- settings -->\n{table}<!-- /settings -->{after}"))
                .unwrap();
            return;
        }
        assert_eq!(found, table, "set FERRY_TEST_WRITE_GUIDE=1 to update it");
    }
}
