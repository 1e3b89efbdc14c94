//! The types that represent the content of a manifest. The published JSON Schema is generated from
//! these types and their comments.

use crate::job::Force;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use tensorferry::values::Algorithm;
use toml::Spanned;

/// Conversions to run. Relative paths are relative to the manifest's folder. `${NAME}` in a string
/// is replaced by the variable NAME.
#[derive(Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields, title = "A manifest of ferry run")]
pub(super) struct Manifest {
    /// Default values of variables, used if neither the command line (`--var NAME=VALUE`) nor the
    /// environment sets them.
    #[schemars(default)]
    pub(super) vars: BTreeMap<String, String>,
    /// Settings that all jobs share. Options on the command line take precedence.
    #[schemars(default)]
    pub(super) run: RunTable,
    /// Default settings of all jobs.
    #[schemars(default)]
    pub(super) defaults: Settings,
    /// Single conversions.
    #[schemars(default)]
    pub(super) job: Vec<Entry<JobKeys>>,
    /// Folders of models: one job for each model.
    #[schemars(default)]
    pub(super) zoo: Vec<Entry<ZooKeys>>,
    /// Folders of record files: one job for each file, or for each group of files.
    #[schemars(default)]
    pub(super) dataset: Vec<Entry<DatasetKeys>>,
}

/// Settings that all jobs share.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunTable {
    /// Maximum number of concurrent jobs. Default: one per thread, or more while jobs are small.
    #[serde(default, deserialize_with = "threads")]
    #[schemars(range(min = 1, max = 1024))]
    pub jobs: Option<u32>,
    /// Number of threads that copy and hash, for all jobs together.
    #[serde(default, deserialize_with = "threads")]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: Option<u32>,
    /// Memory for buffers, for all jobs together, such as `512MiB`.
    pub memory: Option<ByteSize>,
    /// Maximum number of bytes copied per second, for all jobs together, such as `200MB`.
    pub rate: Option<ByteSize>,
    /// Whether the first job that fails permanently ends the run.
    pub fail_fast: Option<bool>,
    /// Path of the journal. Default: next to the manifest.
    pub journal: Option<String>,
    /// Folder of report.html and report.json. Default: next to the journal.
    pub report: Option<String>,
}

/// Settings of a conversion.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// Input format. Default: detected.
    pub(super) from: Option<Located<String>>,
    /// Output format. Default: from the extension.
    pub(super) to: Option<Located<String>>,
    /// Input format options, as with `-i`.
    pub(super) input_options: Option<OptionTexts>,
    /// Output format options, as with `-o`.
    pub(super) output_options: Option<OptionTexts>,
    /// Part of a checkpoint: `auto` (the model), `.` (everything), or a path.
    pub(super) part: Option<String>,
    /// Steps, in order: strings as for `--step`, or tables such as `{ step = "rename", arg = "^a", to = "b" }`.
    pub(super) steps: Option<Vec<Located<StepText>>>,
    /// Read the output back and compare every value before publishing it.
    pub(super) verify: Option<bool>,
    /// Write a receipt for `ferry verify`: true, false, "sha256" or "blake3", which is faster. Default: "sha256".
    pub(super) receipt: Option<ReceiptSetting>,
    /// Fail on any loss or change that was not requested.
    pub(super) strict: Option<bool>,
    /// Kinds of losses that `strict` permits.
    pub(super) allow_loss: Option<Vec<Located<String>>>,
    /// Allow inputs without tensors or records.
    pub(super) allow_empty: Option<bool>,
    /// Globs of the files next to the weights to copy. Default: all files of a model's folder, and none next to a
    /// model that is a file.
    pub(super) companions: Option<Vec<Located<String>>>,
    /// Follow links to weights and records outside the root, or outside the input's folder.
    pub(super) follow_links: Option<bool>,
    /// Which existing outputs a job may replace.
    pub(super) force: Option<Force>,
    /// Number of retries after a temporary failure. Default: 3.
    pub(super) retries: Option<u32>,
    /// Wait before the first retry; each further wait is four times as long. Default: `1s`.
    pub(super) retry_wait: Option<Timespan>,
    /// Memory that the process of the job may allocate, such as `4GiB`. Default: its share of the machine's memory.
    pub(super) memory_limit: Option<ByteSize>,
    /// Maximum duration of a job: `90s`, `10m`, `2h` or `none`. Default: ten minutes, plus one minute per GiB of input.
    pub(super) timeout: Option<Timespan>,
}

/// Whether to write a receipt, and the algorithm for its file digests.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected true, false, \"sha256\" or \"blake3\"")]
pub(super) enum ReceiptSetting {
    IsWritten(bool),
    By(ReceiptDigest),
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ReceiptDigest {
    Sha256,
    Blake3,
}

impl ReceiptSetting {
    pub(super) fn algorithm(self) -> Option<Algorithm> {
        match self {
            Self::IsWritten(false) => None,
            Self::IsWritten(true) | Self::By(ReceiptDigest::Sha256) => Some(Algorithm::Sha256),
            Self::By(ReceiptDigest::Blake3) => Some(Algorithm::Blake3),
        }
    }
}

#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "{T}")]
pub(super) struct Entry<T> {
    #[schemars(flatten)]
    pub(super) own: T,
    #[schemars(flatten)]
    pub(super) settings: Settings,
}

/// One conversion.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "JobEntry")]
pub(super) struct JobKeys {
    /// Name for `--only` and the report. Default: the output.
    pub(super) name: Option<String>,
    /// A file, a folder, an index, or the common prefix of a set of files.
    pub(super) input: Located<String>,
    /// A file, or a folder if the path ends in `/` or is an existing folder.
    pub(super) output: Located<String>,
}

/// A folder of models: one job for each model.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ZooEntry")]
pub(super) struct ZooKeys {
    /// Prefix of the jobs' names. Default: the name of the root.
    pub(super) name: Option<String>,
    /// The folder of the models, as a path or URL.
    pub(super) root: Located<String>,
    /// Globs of models' paths below the root, or of files in a model's folder. Default: everything.
    pub(super) include: Option<Vec<Located<String>>>,
    /// Globs of paths to leave out.
    pub(super) exclude: Option<Vec<Located<String>>>,
    /// Output template: a path with the fields `{path}`, `{parent}`, `{stem}` and `{name}`.
    pub(super) output: Located<String>,
    /// Which files and folders are models.
    #[serde(default)]
    pub(super) models: ModelDetection,
    /// Settings for some of the models. The first matching rule applies.
    #[serde(skip)]
    #[schemars(!skip, default)]
    pub(super) rule: Vec<Entry<RuleKeys>>,
}

/// Which files and folders of a zoo are models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Take")]
pub(super) enum ModelDetection {
    /// A folder is a model if it has a `config.json` or is in a folder format. Otherwise, each file
    /// or set of files in the folder is a model.
    #[default]
    Auto,
    /// Every folder with weights in it is a model.
    Folders,
    /// Each file or set of files is a model. Folders are models only in formats that are always folders.
    Files,
}

/// Settings for some models of a zoo.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RuleEntry")]
pub(super) struct RuleKeys {
    /// Glob of the models that the rule applies to.
    #[serde(rename = "match")]
    pub(super) matches: Located<String>,
    /// Output template for these models. Default: the zoo's output template.
    pub(super) output: Option<Located<String>>,
}

/// A folder of record files that form one table: one job for each file, or for each group of files.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "DatasetEntry")]
pub(super) struct DatasetKeys {
    /// Name of the dataset, and prefix of the jobs' names. Default: the name of the root.
    pub(super) name: Option<String>,
    /// The folder of the files, as a path or URL.
    pub(super) root: Located<String>,
    /// Globs of file paths, relative to the root. Default: all files with the extension of a record
    /// format.
    pub(super) include: Option<Vec<Located<String>>>,
    /// Globs of paths to leave out.
    pub(super) exclude: Option<Vec<Located<String>>>,
    /// Output template: a path with the fields `{path}`, `{parent}`, `{stem}`, `{name}` and
    /// `{group}`.
    pub(super) output: Located<String>,
    /// Number of files of one folder that become one output. Default: 1.
    pub(super) group: Option<Located<u32>>,
}

/// A value with its position in the text, for error messages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct Located<T>(#[schemars(with = "T")] Spanned<T>);

impl<T> Deref for Located<T> {
    type Target = Spanned<T>;

    fn deref(&self) -> &Spanned<T> {
        &self.0
    }
}

/// Options of a reader or a writer.
pub(super) type OptionTexts = BTreeMap<Located<String>, OptionValues>;

/// A number of bytes, such as `64KiB` or `5GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(inline)]
pub struct ByteSize(#[schemars(with = "String")] pub u64);

/// A time span such as `90s`, `10m` or `2h`, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(inline)]
pub(super) struct Timespan(#[schemars(with = "String")] pub(super) Option<std::time::Duration>);

/// An option's value as for `-i` and `-o`, written as a string, a number, `true` or `false`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OptionText(pub(super) String);

/// The value of an option, or a list of values if it may be given more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OptionValues(pub(super) Vec<String>);

/// A step, as for `--step`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StepText(pub(super) String);

/// Checks a number like the arguments of `--jobs` and `--threads`.
fn threads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match u32::deserialize(deserializer)? {
        number @ 1..=1024 => Ok(Some(number)),
        number => Err(de::Error::custom(format!("expected 1 to 1024, found {number}"))),
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = OptionText::deserialize(deserializer)?.0;
        let size = tensorferry_sdk::parse_size(&text);
        size.map(Self)
            .ok_or_else(|| de::Error::custom(format!("expected a size such as 512MiB, found {text:?}")))
    }
}

impl<'de> Deserialize<'de> for Timespan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = OptionText::deserialize(deserializer)?.0;
        if text == "none" {
            return Ok(Self(None));
        }
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let unit = match text[digits..].trim() {
            "" | "s" => Some(1.0),
            "ms" => Some(0.001),
            "m" | "min" => Some(60.0),
            "h" => Some(3600.0),
            "d" => Some(86400.0),
            _ => None,
        };
        let seconds = text[..digits].parse::<f64>().ok().zip(unit).map(|(number, unit)| number * unit);
        let span = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
        span.map(|span| Self(Some(span))).ok_or_else(|| {
            de::Error::custom(format!("expected a time such as 90s, 10m or none, found {text:?}"))
        })
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number, true or false")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }
}

impl<'de> Deserialize<'de> for OptionText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Self)
    }
}

impl<'de> Deserialize<'de> for OptionValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a string, a number, true or false, or a list of them")]
        enum OneOrMore {
            One(OptionText),
            More(Vec<OptionText>),
        }
        Ok(Self(match OneOrMore::deserialize(deserializer)? {
            OneOrMore::One(value) => vec![value.0],
            OneOrMore::More(values) => values.into_iter().map(|value| value.0).collect(),
        }))
    }
}

impl<'de> Deserialize<'de> for StepText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StepVisitor;
        impl<'de> Visitor<'de> for StepVisitor {
            type Value = StepText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a step as a string, or a table with the key `step`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<StepText, E> {
                Ok(StepText(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StepText, A::Error> {
                let mut values = BTreeMap::new();
                while let Some((key, OptionText(value))) = map.next_entry::<String, OptionText>()? {
                    values.insert(key, value);
                }
                let name = values.remove("step").ok_or_else(|| de::Error::missing_field("step"))?;
                let first = values.remove("arg").map(|arg| format!(":{arg}")).unwrap_or_default();
                let rest = values.iter().map(|(key, value)| quoted(&format!("{key}={value}")));
                let fields: Vec<String> =
                    std::iter::once(quoted(&format!("{name}{first}"))).chain(rest).collect();
                Ok(StepText(fields.join(",")))
            }
        }
        deserializer.deserialize_any(StepVisitor)
    }
}

/// Quotes a field in the same way as CSV.
fn quoted(field: &str) -> String {
    if !field.contains([',', '"', '\n']) {
        return field.to_owned();
    }
    format!("\"{}\"", field.replace('"', "\"\""))
}

impl JsonSchema for OptionValues {
    fn schema_name() -> Cow<'static, str> {
        "OptionValues".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let value = || json_schema!({ "type": ["string", "boolean", "integer", "number"] });
        json_schema!({
            "description": "The value of an option, or a list of values if it may be given more than once.",
            "anyOf": [value(), { "type": "array", "items": value() }],
        })
    }
}

impl JsonSchema for StepText {
    fn schema_name() -> Cow<'static, str> {
        "Step".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let value = json_schema!({ "type": ["string", "boolean", "integer", "number"] });
        json_schema!({
            "description": "A step, as a string like the argument of --step, or as a table.",
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": {
                        "step": { "type": "string", "description": "The step's name." },
                        "arg": { "type": ["string", "integer", "number"], "description": "The argument after the colon." },
                    },
                    "required": ["step"],
                    "additionalProperties": value,
                },
            ],
        })
    }
}
