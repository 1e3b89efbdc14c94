//! Options of the readers and writers of the three formats.

use crate::names::naming::Scheme;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::{Error, OptionSpec, Options, Result, TypedOption};

const NAMES: TypedOption<Scheme> = TypedOption::choice(
    Reader,
    "names",
    &[("auto", Scheme::Auto), ("key", Scheme::Key), ("full", Scheme::Full), ("path", Scheme::Path)],
    "names of TensorFlow 2 variables: checkpoint keys, full variable names, or object paths; auto is full if \
     unique, otherwise path, and key if the output is a checkpoint",
);
const STATE: TypedOption<Option<State>> = TypedOption::choice(
    Reader,
    "state",
    &[("all", Some(State::All)), ("model", Some(State::Model))],
    "read all state or drop optimizer state [default: model for outputs with a flat list of tensors]",
)
.without_default();
const TAGS: TypedOption<Option<String>> = TypedOption::text(
    Reader,
    "tags",
    "tags of the graph to read, separated by commas, if a SavedModel has several",
);
const SHARDS: TypedOption<Option<u64>> =
    TypedOption::integer(Writer, "shards", 0..=u64::MAX, "number of data files, of about equal size");
const MAX_SHARD_SIZE: TypedOption<Option<u64>> =
    TypedOption::size(Writer, "max_shard_size", 0, "maximum size of a data file; a tensor is never split");
const BUNDLE_LIKE: TypedOption<Option<String>> = TypedOption::source(
    Writer,
    "like",
    "checkpoint to take the object graph and keys from, for tf.train.Checkpoint",
);
const MODEL_LIKE: TypedOption<Option<String>> =
    TypedOption::source(Writer, "like", "SavedModel to copy with new variables (required)");
const MISSING: TypedOption<MissingValues> = TypedOption::choice(
    Writer,
    "missing",
    &[("refuse", MissingValues::Refused), ("keep", MissingValues::Kept)],
    "variables of like without a tensor: an error, or keep and list their values",
);
const GRAPH: TypedOption<GraphChoice> = TypedOption::choice(
    Writer,
    "graph",
    &[("auto", GraphChoice::Auto), ("names", GraphChoice::Names), ("none", GraphChoice::Omitted)],
    "object graph: auto takes that of like or of the input, or builds one from names that are keys of \
     tf.train.Checkpoint; names builds one from any names, split at each /; none writes no graph, for \
     tf.compat.v1.train.Saver",
);
const LATEST: TypedOption<bool> = TypedOption::flag(
    Writer,
    "latest",
    false,
    "write the file \"checkpoint\", which names the latest checkpoint, into an existing folder too",
);

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

#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    /// The scheme for naming tensors.
    pub(crate) names: Scheme,
    /// The part of the checkpoint to read, if the user set it.
    pub(crate) state: Option<State>,
    /// The tags of the graph to read in a SavedModel, if the user set them.
    pub(crate) tags: Option<Vec<String>>,
}

/// The part of a checkpoint to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    All,
    /// Everything except optimizer state.
    Model,
}

impl ReadOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let tags = TAGS.get(options)?;
        let tags = tags.map(|tags| tags.split(',').map(|tag| tag.trim().to_owned()).collect());
        Ok(Self { names: NAMES.get(options)?, state: STATE.get(options)?, tags })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) sharding: Sharding,
    /// The path of a checkpoint or SavedModel to use as a template.
    pub(crate) like: Option<String>,
    /// The action for template variables that no tensor matches.
    pub(crate) missing: MissingValues,
    /// The source of the object graph.
    pub(crate) graph: GraphChoice,
    /// Whether to write the state file even if the folder may already contain one.
    pub(crate) latest: bool,
}

/// The way in which the data is split into files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharding {
    /// One file.
    Whole,
    /// This number of files of about equal length.
    Count(u64),
    /// Files of at most this many bytes.
    AtMost(u64),
}

/// The action for template variables that no tensor matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingValues {
    /// Report an error.
    Refused,
    /// Keep the values of the template.
    Kept,
}

/// The source of the object graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraphChoice {
    /// The template or the metadata; otherwise the tensor names, if all of them are keys.
    Auto,
    /// The tensor names, even if they are not keys.
    Names,
    /// No object graph.
    Omitted,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let sharding = match (SHARDS.get(options)?, MAX_SHARD_SIZE.get(options)?) {
            (None, None) => Sharding::Whole,
            (Some(0), _) | (_, Some(0)) => {
                return Err(Error::usage(format!("{SHARDS} and {MAX_SHARD_SIZE} must be at least 1")));
            }
            (Some(count), None) => Sharding::Count(count),
            (None, Some(max)) => Sharding::AtMost(max),
            (Some(_), Some(_)) => {
                return Err(Error::usage(format!("{SHARDS} and {MAX_SHARD_SIZE} cannot be combined")));
            }
        };
        let (like, graph) = (BUNDLE_LIKE.get(options)?, GRAPH.get(options)?);
        if like.is_some() && graph != GraphChoice::Auto {
            return Err(Error::usage(format!(
                "{BUNDLE_LIKE} already sets the object graph and cannot be combined with {GRAPH}"
            )));
        }
        let missing = MISSING.get(options)?;
        if like.is_none() && missing == MissingValues::Kept {
            return Err(Error::usage(format!("{MISSING}=keep needs {BUNDLE_LIKE}")));
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
