//! Options: what a user may tell the reader and the writer.

use globset::{Glob, GlobMatcher};
use tensorferry_hub::SHARD_IS_ALONE;
use tensorferry_sdk::Side::Writer;
use tensorferry_sdk::{Error, OptionSpec, Options, Result, ShardTag, TypedOption};

const MAX_SHARD_SIZE: TypedOption<Option<u64>> = TypedOption::size(
    Writer,
    "max_shard_size",
    0,
    "split into files of at most this many bytes of tensors, with an index, named as on the Hugging Face Hub \
     (5GB is usual)",
);
const DEDUPES: TypedOption<bool> = TypedOption::choice(
    Writer,
    "tied",
    &[("keep", false), ("dedupe", true)],
    "tied tensors: keep writes each of them; dedupe writes one, and the other names into the metadata",
);
const PREFER: TypedOption<Option<String>> = TypedOption::text(
    Writer,
    "prefer",
    "with tied=dedupe: the names to keep, as a glob (embed.*); otherwise the first by name is kept",
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
        ("none", Framework::Unsaid),
    ],
    "the framework in the metadata (\"format\"), which transformers asks for: auto goes by where the tensors \
     came from, and leaves one that is there; none adds none",
);

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![
        SHARD_IS_ALONE.spec(),
        MAX_SHARD_SIZE.spec(),
        ShardTag::spec(),
        DEDUPES.spec(),
        PREFER.spec(),
        FRAMEWORK.spec(),
    ]
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// Bytes of tensors in one file; `None` for one file.
    pub(crate) max_shard_size: Option<u64>,
    /// What shards have in their names.
    pub(crate) shard_tag: ShardTag,
    /// What becomes of tied tensors.
    pub(crate) tied: Tied,
    /// What the metadata says of the framework.
    pub(crate) framework: Framework,
}

/// What becomes of tied tensors.
#[derive(Debug, Clone)]
pub(crate) enum Tied {
    /// Each is written.
    Keep,
    /// One is written: preferably one that this glob matches.
    Dedupe(Option<GlobMatcher>),
}

/// What the metadata says of the framework that the tensors are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framework {
    /// What fits the format that they came from, unless the metadata says it already.
    Auto,
    /// This.
    Named(&'static str),
    /// Nothing is added.
    Unsaid,
}

impl WriteOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let prefer = PREFER.get(options)?.map(|prefer| glob(&prefer)).transpose()?;
        let tied = match (DEDUPES.get(options)?, prefer) {
            (true, prefer) => Tied::Dedupe(prefer),
            (false, None) => Tied::Keep,
            (false, Some(_)) => {
                return Err(Error::usage(format!(
                    "{PREFER} says which tied name to keep: it needs {DEDUPES}=dedupe"
                )));
            }
        };
        let (max_shard_size, framework) = (MAX_SHARD_SIZE.get(options)?, FRAMEWORK.get(options)?);
        Ok(Self { max_shard_size, shard_tag: ShardTag::of(options)?, tied, framework })
    }
}

fn glob(text: &str) -> Result<GlobMatcher> {
    let glob = Glob::new(text).map_err(|error| {
        Error::usage(format!("option prefer: {}", error.kind())).found(format!("{text:?}"))
    })?;
    Ok(glob.compile_matcher())
}

impl Framework {
    /// The word for tensors that came from the format `origin`; `is_said` if the metadata has one.
    /// A file that came from safetensors without one is left as it was.
    pub(crate) fn word(self, origin: &str, is_said: bool) -> Option<&'static str> {
        match self {
            Self::Named(word) => Some(word),
            Self::Unsaid => None,
            Self::Auto if is_said => None,
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
        assert_eq!(Framework::Unsaid.word("torch", false), None);
        assert_eq!(Framework::Named("np").word("torch", true), Some("np"));
    }
}
