//! What a name alone says of an entry: which format reads such files, or that it holds no data.

use crate::formats::placeholder::PARTIAL;
use crate::formats::registry::Registry;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::HashMap;
use std::sync::LazyLock;
use tensorferry_sdk::file_name::{has_any_suffix, has_suffix, strip_suffix, uncompressed};
use tensorferry_sdk::{Description, Error, Result};

/// Files that hold no tensors and no records, whatever their suffix is.
const FILES_WITHOUT_DATA: [&str; 23] = [
    // Spark, Hadoop, Databricks, Dask.
    "_SUCCESS",
    "*.crc",
    "_metadata",
    "_common_metadata",
    "_committed_*",
    "_started_*",
    // Version control and the Hub.
    ".git*",
    ".hgignore",
    ".dockerignore",
    // Operating systems and network file systems.
    ".DS_Store",
    "._*",
    "Thumbs.db",
    "desktop.ini",
    ".directory",
    ".nfs*",
    ".fuse_hidden*",
    // Editors, and logs of training.
    ".*.swp",
    ".~lock.*",
    "events.out.tfevents.*",
    "graph.pbtxt",
    "fingerprint.pb",
    "keras_metadata.pb",
    "*label_map*.pbtxt",
];

/// What names say that may hold tensors or records, and that no format reads: by suffixes, what it is.
const OTHER_DATA: [(&[&str], &str); 12] = [
    (
        &[".zip", ".7z", ".rar", ".tar.bz2", ".tar.xz", ".tar.zst"],
        "an archive, which ferry does not open: unpack it first",
    ),
    (&[".pkl", ".pickle", ".joblib"], "a pickle, which ferry does not read here"),
    (&[".avro"], "an Avro file, which ferry does not read"),
    (&[".orc"], "an ORC file, which ferry does not read"),
    (&[".xlsx", ".xls", ".ods"], "a spreadsheet, which ferry does not read"),
    (&[".sqlite", ".sqlite3", ".duckdb", ".mdb"], "a database, which ferry does not read"),
    (&[".rec", ".beton", ".mds"], "a file of records, which ferry does not read here"),
    (&[".lance", ".zarr"], "a data set in a format that is not read here"),
    (&[".mat", ".rds", ".rdata", ".nc"], "a file of arrays, which ferry does not read"),
    (&[".dta", ".sav", ".sas7bdat"], "a file of a statistics program, which ferry does not read"),
    (
        &[".pdparams", ".pdiparams", ".caffemodel", ".params", ".t7"],
        "weights in a format that ferry does not read",
    ),
    (&[".ggml", ".llamafile"], "weights in a format that ferry does not read"),
];

/// What programs add to the name of a file while they write it.
const TEMPORARY: [&str; 2] = [".tmp", ".temp"];

/// Folders that are not entered, since they hold no data of the input.
const FOLDERS_WITHOUT_DATA: [&str; 33] = [
    "__MACOSX",
    "lost+found",
    ".git",
    ".github",
    ".cache",
    ".huggingface",
    "_temporary",
    "_spark_metadata",
    ".ipynb_checkpoints",
    "__pycache__",
    ".svn",
    ".hg",
    ".Trash*",
    ".Trashes",
    ".Spotlight-V100",
    ".fseventsd",
    ".TemporaryItems",
    "$RECYCLE.BIN",
    "@eaDir",
    "System Volume Information",
    // Tools of developers, and of runs.
    ".dvc",
    ".hydra",
    ".idea",
    ".vscode",
    ".devcontainer",
    ".circleci",
    ".gitlab",
    ".venv",
    ".tox",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".locks",
];

static NO_DATA: LazyLock<[GlobSet; 2]> = LazyLock::new(|| {
    [&FILES_WITHOUT_DATA[..], &FOLDERS_WITHOUT_DATA[..]]
        .map(|patterns| globs(patterns, false).unwrap_or_default())
});

/// Whether a file of this name is known to hold no data.
pub(super) fn is_file_without_data(file: &str) -> bool {
    NO_DATA[0].is_match(file)
}

/// Whether a folder of this name is known to hold no data.
pub(crate) fn is_folder_without_data(folder: &str) -> bool {
    NO_DATA[1].is_match(folder)
}

/// Why an entry that no format reads may hold data, by its name.
pub(crate) fn other_data(file: &str) -> Option<&'static str> {
    OTHER_DATA
        .iter()
        .find(|(suffixes, _)| suffixes.iter().any(|suffix| has_suffix(file, suffix)))
        .map(|(_, what)| *what)
}

/// The names that formats declare for their files.
#[derive(Debug)]
pub(crate) struct DataNames {
    /// Formats by their suffixes, in lower case.
    suffixes: HashMap<String, String>,
    patterns: GlobSet,
    /// The formats of the patterns, in order.
    of_patterns: Vec<String>,
    /// Names without a wildcard: `latest`, `saved_model.pb`.
    exact: HashMap<String, String>,
}

impl DataNames {
    /// The names of all formats that read.
    ///
    /// # Errors
    /// A plugin error, if the patterns are too large together.
    pub(crate) fn of(registry: &Registry) -> Result<Self> {
        let (mut suffixes, mut exact) = (HashMap::new(), HashMap::new());
        let (mut patterns, mut of_patterns) = (Vec::new(), Vec::new());
        for format in registry.formats().iter().filter(|format| format.description.reads()) {
            let Description { id, suffixes: endings, members, .. } = &*format.description;
            for suffix in endings {
                suffixes.entry(suffix.to_ascii_lowercase()).or_insert_with(|| id.clone());
            }
            for member in members {
                let is_plain = |text: &str| !text.contains(['*', '?', '[', '{']);
                let suffix = member.strip_prefix('*').filter(|rest| rest.starts_with('.') && is_plain(rest));
                if let Some(suffix) = suffix {
                    suffixes.entry(suffix.to_ascii_lowercase()).or_insert_with(|| id.clone());
                } else if is_plain(member) {
                    exact.entry(member.clone()).or_insert_with(|| id.clone());
                } else {
                    patterns.push(member.as_str());
                    of_patterns.push(id.clone());
                }
            }
        }
        Ok(Self { suffixes, patterns: globs(&patterns, true)?, of_patterns, exact })
    }

    /// The format whose files are called so, also below the suffix of a compression, of an unfinished file, or the number of
    /// a log that was rotated.
    pub(crate) fn format_of(&self, file: &str) -> Option<&str> {
        let finished = PARTIAL.iter().chain(&TEMPORARY).find_map(|suffix| strip_suffix(file, suffix));
        let bare = uncompressed(finished.unwrap_or(file));
        let rotated = || {
            bare.rsplit_once('.')
                .filter(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.declared(file).or_else(|| self.declared(bare)).or_else(|| self.declared(rotated()?.0))
    }

    fn declared(&self, file: &str) -> Option<&str> {
        let lower = file.to_ascii_lowercase();
        let mut endings = lower.match_indices('.').filter(|(at, _)| *at > 0).map(|(at, _)| &lower[at..]);
        let by_suffix = endings.find_map(|ending| self.suffixes.get(ending));
        let by_pattern = || Some(&self.of_patterns[*self.patterns.matches(file).first()?]);
        by_suffix.or_else(by_pattern).map(String::as_str)
    }

    /// Whether some format reads a file of this name, alone or as a part of a folder.
    pub(crate) fn is_read(&self, file: &str) -> bool {
        self.format_of(file).is_some() || self.exact.contains_key(file)
    }

    /// The name without the suffix of a format.
    pub(crate) fn stem<'n>(&self, file: &'n str) -> Option<&'n str> {
        let lower = file.to_ascii_lowercase();
        let mut dots = lower.match_indices('.').filter(|(at, _)| *at > 0);
        dots.find_map(|(at, _)| self.suffixes.contains_key(&lower[at..]).then(|| &file[..at]))
    }
}

/// Why a file that is not read as the others may still hold data.
pub(super) fn why_left_out(file: &str, format: &str, read_as: &str) -> String {
    let finished = PARTIAL.iter().find_map(|suffix| strip_suffix(file, suffix));
    if finished.is_some() {
        "its download has not finished".to_owned()
    } else if has_any_suffix(file, TEMPORARY) {
        "a program had not finished writing it, by its name".to_owned()
    } else if format == read_as && uncompressed(file) != file {
        format!("{read_as} is not read with this compression: decompress it, or convert it on its own")
    } else if format == read_as {
        format!("it is not among the files that are read as {read_as}: convert it on its own")
    } else {
        format!("it is a {format} file, and the input is read as {read_as}: convert it on its own")
    }
}

fn globs(patterns: &[&str], case_insensitive: bool) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        // A plugin's pattern that cannot be parsed matches nothing, and keeps its place.
        let glob =
            GlobBuilder::new(pattern).case_insensitive(case_insensitive).literal_separator(true).build();
        let never = || GlobBuilder::new("/").build();
        set.add(glob.or_else(|_| never()).map_err(|error| Error::plugin(error.to_string()))?);
    }
    set.build().map_err(|error| Error::plugin(format!("the formats' name patterns: {error}")))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{Capabilities, Format};

    struct Lines;

    impl Format for Lines {
        fn describe(&self) -> Description {
            let description =
                Description::new("lines", "").suffixes([".jsonl"]).members(["*-?????-of-?????", "latest"]);
            description.capabilities(Capabilities::READ_RECORDS)
        }
    }

    #[test]
    fn a_name_says_what_may_hold_data() {
        let names = DataNames::of(&Registry::new().with(Box::new(Lines))).unwrap();
        for name in [
            "a.jsonl",
            "A.JSONL",
            "a.jsonl.bz2",
            "a.jsonl.XZ",
            "a.JSONL.lz4",
            "a.jsonl.part",
            "a.jsonl.tmp",
            "a.jsonl.1",
            "a.jsonl.2.gz",
            "d-00000-of-00002",
        ] {
            assert_eq!(names.format_of(name), Some("lines"), "{name}");
        }
        for name in ["a.json", "README.md", "a.bz2", ".jsonl", "", "latest", "a.1", "a.jsonl.bak", "a.jsonl."]
        {
            assert_eq!(names.format_of(name), None, "{name}");
        }
        for name in ["b.zip", "B.AVRO", "b.tar.xz", "labels.xlsx", "b.pkl"] {
            assert!(other_data(name).is_some(), "{name}");
        }
        assert!(
            ["README.md", "images.png", "b", "dataset_info.json"]
                .iter()
                .all(|name| other_data(name).is_none())
        );
        assert!(names.is_read("latest") && names.is_read("a.jsonl.gz") && !names.is_read("README.md"));
        assert_eq!(names.stem("x.y.jsonl"), Some("x.y"));
        for name in
            ["_SUCCESS", ".part-0.parquet.crc", "_metadata", ".gitattributes", "._a.jsonl", ".DS_Store"]
        {
            assert!(is_file_without_data(name), "{name}");
        }
        // Orbax's own file, and Spark's.
        assert!(!is_file_without_data("_METADATA") && !is_file_without_data("_b.jsonl"));
        assert!(is_folder_without_data("__MACOSX") && is_folder_without_data(".dvc"));
        assert!(!is_folder_without_data("data") && !is_folder_without_data(".data"));
    }
}
