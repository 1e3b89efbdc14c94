//! Options: what a user may tell the readers and writers of the three formats.

use crate::names::naming::Scheme;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::{Error, OptionSpec, Options, Result, TypedOption};

const NAMES: TypedOption<Scheme> = TypedOption::choice(
    Reader,
    "names",
    &[("auto", Scheme::Auto), ("key", Scheme::Key), ("full", Scheme::Full), ("path", Scheme::Path)],
    "names of TensorFlow 2 variables: key is the checkpoint's, full the variable's own, path the objects' that \
     lead to it; auto is full where that is unique, else path, and key where the output is a checkpoint",
);
const STATE: TypedOption<Option<State>> = TypedOption::choice(
    Reader,
    "state",
    &[("all", Some(State::All)), ("model", Some(State::Model))],
    "model leaves out what only an optimizer needs, all leaves nothing out; by default model for outputs that \
     hold a flat list of tensors",
)
.without_default();
const TAGS: TypedOption<Option<String>> = TypedOption::text(
    Reader,
    "tags",
    "the tags of the graph to read, separated by commas (serve), where a SavedModel has several",
);
const SHARDS: TypedOption<Option<u64>> = TypedOption::integer(
    Writer,
    "shards",
    0..=u64::MAX,
    "split the data into so many files of about the same length",
);
const MAX_SHARD_SIZE: TypedOption<Option<u64>> = TypedOption::size(
    Writer,
    "max_shard_size",
    0,
    "split the data into files of at most this many bytes; a tensor is never split",
);
const BUNDLE_LIKE: TypedOption<Option<String>> = TypedOption::source(
    Writer,
    "like",
    "a checkpoint whose object graph and keys the new one takes, so that tf.train.Checkpoint restores it",
);
const MODEL_LIKE: TypedOption<Option<String>> = TypedOption::source(
    Writer,
    "like",
    "the SavedModel to write again with new variables: graph, signatures and assets are its own (needed)",
);
const MISSING: TypedOption<MissingValues> = TypedOption::choice(
    Writer,
    "missing",
    &[("refuse", MissingValues::Refused), ("keep", MissingValues::Kept)],
    "variables of like that no tensor is for: keep takes the values that like has, and lists them",
);
const GRAPH: TypedOption<GraphChoice> = TypedOption::choice(
    Writer,
    "graph",
    &[("auto", GraphChoice::Auto), ("names", GraphChoice::Names), ("none", GraphChoice::Omitted)],
    "the object graph: auto takes that of like, else the one that came with the tensors, else one made of \
     names that are keys of tf.train.Checkpoint; names makes one of any names, split at each /; none writes \
     names as they are, for tf.compat.v1.train.Saver",
);
const LATEST: TypedOption<bool> = TypedOption::flag(
    Writer,
    "latest",
    false,
    "write the file \"checkpoint\", which names the latest checkpoint of a folder, also where the folder is \
     there already",
);

/// What `tf-bundle` declares.
pub(crate) fn of_bundles() -> Vec<OptionSpec> {
    vec![
        NAMES.spec(),
        STATE.spec(),
        SHARDS.spec(),
        MAX_SHARD_SIZE.spec(),
        BUNDLE_LIKE.spec(),
        MISSING.spec(),
        GRAPH.spec(),
        LATEST.spec(),
    ]
}

/// What `saved-model` declares.
pub(crate) fn of_saved_models() -> Vec<OptionSpec> {
    vec![
        NAMES.spec(),
        STATE.spec(),
        TAGS.spec(),
        SHARDS.spec(),
        MAX_SHARD_SIZE.spec(),
        MODEL_LIKE.spec(),
        MISSING.spec(),
    ]
}

/// What a reader was told.
#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    /// How tensors are named.
    pub(crate) names: Scheme,
    /// What is left out, if the user said.
    pub(crate) state: Option<State>,
    /// Which of a SavedModel's graphs is read, if the user said.
    pub(crate) tags: Option<Vec<String>>,
}

/// What of a checkpoint is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Everything.
    All,
    /// What is not an optimizer's.
    Model,
}

impl ReadOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let tags = TAGS.get(options)?;
        let tags = tags.map(|tags| tags.split(',').map(|tag| tag.trim().to_owned()).collect());
        Ok(Self { names: NAMES.get(options)?, state: STATE.get(options)?, tags })
    }
}

/// What a writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// How data is split into files.
    pub(crate) sharding: Sharding,
    /// The path of a checkpoint or SavedModel to take after.
    pub(crate) like: Option<String>,
    /// What becomes of its variables that no tensor is for.
    pub(crate) missing: MissingValues,
    /// Where the object graph comes from.
    pub(crate) graph: GraphChoice,
    /// Whether the state file is written where others may have one.
    pub(crate) latest: bool,
}

/// How data is split into files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharding {
    /// One file.
    Whole,
    /// So many files of about the same length.
    Count(u64),
    /// Files of at most so many bytes.
    AtMost(u64),
}

/// What becomes of variables that no tensor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingValues {
    /// They are an error.
    Refused,
    /// They keep their values.
    Kept,
}

/// Where the object graph comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraphChoice {
    /// From the checkpoint to take after, the metadata, or names that are keys.
    Auto,
    /// From any names.
    Names,
    /// From nowhere.
    Omitted,
}

impl WriteOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let sharding = match (SHARDS.get(options)?, MAX_SHARD_SIZE.get(options)?) {
            (None, None) => Sharding::Whole,
            (Some(0), _) | (_, Some(0)) => {
                return Err(Error::usage("data is split into one file or more")
                    .expected("shards or max_shard_size of at least 1")
                    .found(0));
            }
            (Some(count), None) => Sharding::Count(count),
            (None, Some(most)) => Sharding::AtMost(most),
            (Some(_), Some(_)) => {
                return Err(Error::usage(format!(
                    "{SHARDS} and {MAX_SHARD_SIZE} are two ways to say one thing: give one of them"
                )));
            }
        };
        let (like, graph) = (BUNDLE_LIKE.get(options)?, GRAPH.get(options)?);
        if like.is_some() && graph != GraphChoice::Auto {
            return Err(Error::usage(format!(
                "{BUNDLE_LIKE} says where the object graph comes from: leave {GRAPH} out"
            )));
        }
        let missing = MISSING.get(options)?;
        if like.is_none() && missing == MissingValues::Kept {
            return Err(Error::usage(format!(
                "{MISSING}=keep takes values of what {BUNDLE_LIKE} names: give that too"
            )));
        }
        Ok(Self { sharding, like, missing, graph, latest: LATEST.get(options)? })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;
    use tensorferry_sdk::memory::pairs;

    fn options(given: &[(&str, &str)]) -> Result<WriteOptions> {
        WriteOptions::new(&Options::check(&of_bundles(), Writer, &pairs(given))?)
    }

    #[test]
    fn the_defaults_are_one_file_and_the_best_graph_there_is() {
        let options = options(&[]).unwrap();
        assert_eq!((options.sharding, options.graph), (Sharding::Whole, GraphChoice::Auto));
        assert!(!options.latest && options.like.is_none());
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for given in [
            &[("shards", "2"), ("max_shard_size", "1GB")][..],
            &[("shards", "0")],
            &[("max_shard_size", "0")],
            &[("like", "x"), ("graph", "none")],
            &[("missing", "keep")],
        ] {
            assert_eq!(options(given).unwrap_err().kind(), ErrorKind::Usage, "{given:?}");
        }
        assert_eq!(options(&[("shards", "3")]).unwrap().sharding, Sharding::Count(3));
        assert_eq!(options(&[("max_shard_size", "1kB")]).unwrap().sharding, Sharding::AtMost(1000));
    }

    #[test]
    fn a_reader_hears_what_it_was_told() {
        let given = pairs(&[("names", "path"), ("state", "model"), ("tags", "serve, gpu")]);
        let options = Options::check(&of_saved_models(), Reader, &given).unwrap();
        let options = ReadOptions::new(&options).unwrap();
        assert_eq!((options.names, options.state), (Scheme::Path, Some(State::Model)));
        assert_eq!(options.tags.unwrap(), ["serve", "gpu"]);
    }
}
