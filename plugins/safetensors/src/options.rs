//! Options: what a user may tell the writer. The reader has none.

use globset::{Glob, GlobMatcher};
use tensorferry_sdk::{Error, OptionKind, OptionSpec, Options, Result};

const MAX_SHARD_SIZE: &str = "max_shard_size";
const TIED: &str = "tied";
const PREFER: &str = "prefer";
const FORMAT: &str = "format";

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    let words = |words: &[&str]| OptionKind::Choice(words.iter().map(|&word| word.to_owned()).collect());
    vec![
        OptionSpec::writer(
            MAX_SHARD_SIZE,
            OptionKind::Size,
            None,
            "split into files of at most this many bytes of tensors, with an index, named as on the Hugging Face Hub \
             (5GB is usual)",
        ),
        OptionSpec::writer(
            TIED,
            words(&["keep", "dedupe"]),
            Some("keep"),
            "tied tensors: keep writes each of them; dedupe writes one, and the other names into the metadata",
        ),
        OptionSpec::writer(
            PREFER,
            OptionKind::Text,
            None,
            "with tied=dedupe: the names to keep, as a glob (embed.*); otherwise the first by name is kept",
        ),
        OptionSpec::writer(
            FORMAT,
            words(&["auto", "pt", "tf", "flax", "np", "mlx", "none"]),
            Some("auto"),
            "the framework in the metadata (\"format\"), which transformers asks for: auto goes by where the tensors \
             came from, and leaves one that is there; none adds none",
        ),
    ]
}

/// What the writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// Bytes of tensors in one file; `None` for one file.
    pub(crate) max_shard_size: Option<u64>,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Framework {
    /// What fits the format that they came from, unless the metadata says it already.
    Auto,
    /// This.
    Named(String),
    /// Nothing is added.
    Unsaid,
}

impl WriteOptions {
    /// Reads the checked options.
    ///
    /// # Errors
    /// Usage: a glob that is none, or that nothing asks for.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let prefer = options.text(PREFER).map(glob).transpose()?;
        let tied = match (options.text(TIED), prefer) {
            (Some("dedupe"), prefer) => Tied::Dedupe(prefer),
            (_, None) => Tied::Keep,
            (_, Some(_)) => {
                return Err(Error::usage(format!(
                    "-o {PREFER} says which tied name to keep: it needs -o {TIED}=dedupe"
                )));
            }
        };
        let framework = match options.text(FORMAT) {
            None | Some("auto") => Framework::Auto,
            Some("none") => Framework::Unsaid,
            Some(word) => Framework::Named(word.to_owned()),
        };
        Ok(Self { max_shard_size: options.size(MAX_SHARD_SIZE), tied, framework })
    }
}

fn glob(text: &str) -> Result<GlobMatcher> {
    let glob = Glob::new(text).map_err(|error| {
        Error::usage(format!("option {PREFER}: {}", error.kind())).found(format!("{text:?}"))
    })?;
    Ok(glob.compile_matcher())
}

impl Framework {
    /// The word for tensors that came from the format `origin`; `is_said` if the metadata has one.
    /// A file that came from safetensors without one is left as it was.
    pub(crate) fn word(&self, origin: &str, is_said: bool) -> Option<&str> {
        match self {
            Self::Named(word) => Some(word),
            Self::Unsaid => None,
            Self::Auto if is_said => None,
            Self::Auto => match origin {
                "torch" | "torch-dcp" | "deepspeed" => Some("pt"),
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
    use tensorferry_sdk::{ErrorKind, Side};

    fn options(given: &[(&str, &str)]) -> Result<WriteOptions> {
        let given: Vec<_> = given.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        WriteOptions::new(&Options::check(&declared(), Side::Writer, &given)?)
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
        assert_eq!(Framework::Named("np".to_owned()).word("torch", true), Some("np"));
    }
}
