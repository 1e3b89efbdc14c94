//! Options of the reader and the writer.

use globset::{Glob, GlobMatcher};
use tensorferry_hub::SHARD_OPTION;
use tensorferry_sdk::Side::Writer;
use tensorferry_sdk::{Error, OptionSpec, Options, Result, ShardTag, TypedOption};

const MAX_SHARD_SIZE: TypedOption<Option<u64>> = TypedOption::size(
    Writer,
    "max_shard_size",
    0,
    "maximum bytes of tensors per file; splits the model into shards with an index, named as on the Hugging Face Hub \
     (5GB is usual)",
);
const DEDUPES: TypedOption<bool> = TypedOption::choice(
    Writer,
    "tied",
    &[("keep", false), ("dedupe", true)],
    "tied tensors: keep writes all of them; dedupe writes one and records the other names in the metadata",
);
const PREFER: TypedOption<Option<String>> = TypedOption::text(
    Writer,
    "prefer",
    "glob of tied names to keep with tied=dedupe (embed.*; default: the first name)",
);
const FRAMEWORK: TypedOption<Framework> = TypedOption::choice(
    Writer,
    "format",
    &[
        ("auto", Framework::Auto),
        ("pt", Framework::Named("pt")),
        ("tf", Framework::Named("tf")),
        ("flax", Framework::Named("flax")),
        ("np", Framework::Named("np")),
        ("mlx", Framework::Named("mlx")),
        ("none", Framework::Omit),
    ],
    "framework in the metadata (\"format\"), which transformers requires: auto keeps the input's, or chooses by input \
     format; none adds none",
);

pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![
        SHARD_OPTION.spec(),
        MAX_SHARD_SIZE.spec(),
        ShardTag::spec(),
        DEDUPES.spec(),
        PREFER.spec(),
        FRAMEWORK.spec(),
    ]
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// Maximum number of tensor bytes per file; `None` for a single file.
    pub(crate) max_shard_size: Option<u64>,
    /// The tag to add to the file names of shards.
    pub(crate) shard_tag: ShardTag,
    pub(crate) tied: Tied,
    pub(crate) framework: Framework,
}

/// How to write tied tensors.
#[derive(Debug, Clone)]
pub(crate) enum Tied {
    /// Write each of the tied tensors.
    Keep,
    /// Write only one of the tied tensors, preferably one whose name matches the glob.
    Dedupe(Option<GlobMatcher>),
}

/// The framework to record in the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framework {
    /// The framework of the input format, unless the metadata already names a framework.
    Auto,
    Named(&'static str),
    /// Do not add a framework.
    Omit,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let prefer = PREFER.get(options)?.map(|prefer| glob(&prefer)).transpose()?;
        let tied = match (DEDUPES.get(options)?, prefer) {
            (true, prefer) => Tied::Dedupe(prefer),
            (false, None) => Tied::Keep,
            (false, Some(_)) => {
                return Err(Error::usage(format!(
                    "{PREFER} chooses which tied name to keep, and requires {DEDUPES}=dedupe"
                )));
            }
        };
        let (max_shard_size, framework) = (MAX_SHARD_SIZE.get(options)?, FRAMEWORK.get(options)?);
        Ok(Self { max_shard_size, shard_tag: ShardTag::of(options)?, tied, framework })
    }
}

fn glob(text: &str) -> Result<GlobMatcher> {
    let glob = Glob::new(text).map_err(|error| {
        Error::usage(format!("invalid glob {text:?} for option `prefer`: {}", error.kind()))
    })?;
    Ok(glob.compile_matcher())
}

impl Framework {
    /// Returns the name of the framework to add to the metadata, or `None` to add nothing. `origin`
    /// is the format that the tensors come from. `has_framework` is true if the metadata already names
    /// a framework.
    pub(crate) fn word(self, origin: &str, has_framework: bool) -> Option<&'static str> {
        match self {
            Self::Named(word) => Some(word),
            Self::Omit => None,
            Self::Auto if has_framework => None,
            Self::Auto => match origin {
                "torch" | "torch-dcp" | "deepspeed" | "megatron" => Some("pt"),
                "tf-bundle" | "saved-model" | "tf-graph" => Some("tf"),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;
    use tensorferry_sdk::memory::pairs;

    fn options(given: &[(&str, &str)]) -> Result<WriteOptions> {
        WriteOptions::new(&Options::check(&declared(), Writer, &pairs(given))?)
    }

    #[test]
    fn the_defaults_are_one_file_with_everything_in_it() {
        let options = options(&[]).unwrap();
        assert_eq!(options.max_shard_size, None);
        assert!(matches!(options.tied, Tied::Keep));
        assert_eq!(options.framework, Framework::Auto);
    }

    #[test]
    fn a_preference_needs_something_to_choose() {
        assert_eq!(options(&[("prefer", "a*")]).unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(options(&[("prefer", "a["), ("tied", "dedupe")]).unwrap_err().kind(), ErrorKind::Usage);
        assert!(options(&[("prefer", "a*"), ("tied", "dedupe")]).is_ok());
    }

    #[test]
    fn the_framework_goes_by_the_origin() {
        assert_eq!(Framework::Auto.word("torch", false), Some("pt"));
        assert_eq!(Framework::Auto.word("saved-model", false), Some("tf"));
        assert_eq!(Framework::Auto.word("torch", true), None);
        assert_eq!(Framework::Auto.word("safetensors", false), None);
        assert_eq!(Framework::Omit.word("torch", false), None);
        assert_eq!(Framework::Named("np").word("torch", true), Some("np"));
    }
}
