//! Options: what a user may tell the readers and writers of the three formats.

use crate::names::naming::Scheme;
use tensorferry_sdk::{Error, OptionKind, OptionSpec, Options, Result};

const NAMES: &str = "names";
const STATE: &str = "state";
const TAGS: &str = "tags";
const SHARDS: &str = "shards";
const MAX_SHARD_SIZE: &str = "max_shard_size";
const LIKE: &str = "like";
const LATEST: &str = "latest";
const GRAPH: &str = "graph";

/// What `tf-bundle` declares.
pub(crate) fn of_bundles() -> Vec<OptionSpec> {
    let mut specs = reader();
    specs.extend(sharding());
    specs.extend([
        OptionSpec::writer(
            LIKE,
            OptionKind::Source,
            None,
            "a checkpoint whose object graph and keys the new one takes, so that tf.train.Checkpoint restores it",
        ),
        OptionSpec::writer(
            GRAPH,
            words(&["auto", "names", "none"]),
            Some("auto"),
            "the object graph: auto takes that of like, else the one that came with the tensors, else one made of \
             names that are keys of tf.train.Checkpoint; names makes one of any names, split at each /; none writes \
             names as they are, for tf.compat.v1.train.Saver",
        ),
        OptionSpec::writer(
            LATEST,
            OptionKind::Bool,
            Some("false"),
            "write the file \"checkpoint\", which names the latest checkpoint of a folder, also where the folder is \
             there already",
        ),
    ]);
    specs
}

/// What `saved-model` declares.
pub(crate) fn of_saved_models() -> Vec<OptionSpec> {
    let mut specs = reader();
    specs.push(tags());
    specs.extend(sharding());
    specs.push(OptionSpec::writer(
        LIKE,
        OptionKind::Source,
        None,
        "the SavedModel to write again with new variables: graph, signatures and assets are its own (needed)",
    ));
    specs
}

/// What `tf-graph` declares: a frozen graph is only read, and its names are its nodes'.
pub(crate) fn of_graphs() -> Vec<OptionSpec> {
    Vec::new()
}

fn reader() -> Vec<OptionSpec> {
    vec![
        OptionSpec::reader(
            NAMES,
            words(&Scheme::WORDS),
            Some("auto"),
            "names of TensorFlow 2 variables: key is the checkpoint's, full the variable's own, path the objects' that \
             lead to it; auto is full where that is unique, else path, and key where the output is a checkpoint",
        ),
        OptionSpec::reader(
            STATE,
            words(&["all", "model"]),
            None,
            "model leaves out what only an optimizer needs, all leaves nothing out; by default model for outputs that \
             hold a flat list of tensors",
        ),
    ]
}

fn tags() -> OptionSpec {
    OptionSpec::reader(
        TAGS,
        OptionKind::Text,
        None,
        "the tags of the graph to read, separated by commas (serve), where a SavedModel has several",
    )
}

fn sharding() -> [OptionSpec; 2] {
    [
        OptionSpec::writer(
            SHARDS,
            OptionKind::Integer,
            None,
            "split the data into so many files of about the same length",
        ),
        OptionSpec::writer(
            MAX_SHARD_SIZE,
            OptionKind::Size,
            None,
            "split the data into files of at most this many bytes; a tensor is never split",
        ),
    ]
}

fn words(words: &[&str]) -> OptionKind {
    OptionKind::Choice(words.iter().map(|&word| word.to_owned()).collect())
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
    pub(crate) fn new(options: &Options) -> Self {
        let names = options.text(NAMES).and_then(Scheme::named).unwrap_or(Scheme::Auto);
        let state = options.text(STATE).map(|word| if word == "all" { State::All } else { State::Model });
        let tags = options.text(TAGS).map(|tags| tags.split(',').map(|tag| tag.trim().to_owned()).collect());
        Self { names, state, tags }
    }
}

/// What a writer was told.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// How data is split into files.
    pub(crate) sharding: Sharding,
    /// The path of a checkpoint or SavedModel to take after.
    pub(crate) like: Option<String>,
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
    ///
    /// # Errors
    /// Usage: options that contradict each other, a split that cannot be.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let sharding = match (options.integer(SHARDS), options.size(MAX_SHARD_SIZE)) {
            (None, None) => Sharding::Whole,
            (Some(0), _) | (_, Some(0)) => {
                return Err(Error::usage("data is split into one file or more")
                    .expected(format!("{SHARDS} or {MAX_SHARD_SIZE} of at least 1"))
                    .found(0));
            }
            (Some(count), None) => Sharding::Count(count),
            (None, Some(most)) => Sharding::AtMost(most),
            (Some(_), Some(_)) => {
                return Err(Error::usage(format!(
                    "-o {SHARDS} and -o {MAX_SHARD_SIZE} are two ways to say one thing: give one of them"
                )));
            }
        };
        let like = options.text(LIKE).map(str::to_owned);
        let graph = match options.text(GRAPH) {
            Some("names") => GraphChoice::Names,
            Some("none") => GraphChoice::Omitted,
            _ => GraphChoice::Auto,
        };
        if like.is_some() && graph != GraphChoice::Auto {
            return Err(Error::usage(format!(
                "-o {LIKE} says where the object graph comes from: leave -o {GRAPH} out"
            )));
        }
        Ok(Self { sharding, like, graph, latest: options.is_true(LATEST) })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{ErrorKind, Side};

    fn options(given: &[(&str, &str)]) -> Result<WriteOptions> {
        let given: Vec<_> = given.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        WriteOptions::new(&Options::check(&of_bundles(), Side::Writer, &given)?)
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
        ] {
            assert_eq!(options(given).unwrap_err().kind(), ErrorKind::Usage, "{given:?}");
        }
        assert_eq!(options(&[("shards", "3")]).unwrap().sharding, Sharding::Count(3));
        assert_eq!(options(&[("max_shard_size", "1kB")]).unwrap().sharding, Sharding::AtMost(1000));
    }

    #[test]
    fn a_reader_hears_what_it_was_told() {
        let given = [("names", "path"), ("state", "model"), ("tags", "serve, gpu")];
        let given = given.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let options = ReadOptions::new(&Options::check(&of_saved_models(), Side::Reader, &given).unwrap());
        assert_eq!((options.names, options.state), (Scheme::Path, Some(State::Model)));
        assert_eq!(options.tags.unwrap(), ["serve", "gpu"]);
    }
}
