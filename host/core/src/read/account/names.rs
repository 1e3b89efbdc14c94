//! Decides whether an entry that no format reads may contain data. The decision depends only on the
//! entry's name.

use crate::formats::data_names::{bare_names, globs, is_temporary};
use crate::formats::placeholder::PARTIAL;
use globset::GlobSet;
use std::sync::LazyLock;
use tensorferry_sdk::file_name::{has_suffix, strip_suffix, uncompressed};

/// Files that contain neither tensors nor records, regardless of their suffix.
const FILES_WITHOUT_DATA: [&str; 23] = [
    // Files that Spark, Hadoop, Databricks and Dask write.
    "_SUCCESS",
    "*.crc",
    "_metadata",
    "_common_metadata",
    "_committed_*",
    "_started_*",
    // Files of version control systems and the Hub.
    ".git*",
    ".hgignore",
    ".dockerignore",
    // Files of operating systems and network file systems.
    ".DS_Store",
    "._*",
    "Thumbs.db",
    "desktop.ini",
    ".directory",
    ".nfs*",
    ".fuse_hidden*",
    // Files of editors, and training logs.
    ".*.swp",
    ".~lock.*",
    "events.out.tfevents.*",
    "graph.pbtxt",
    "fingerprint.pb",
    "keras_metadata.pb",
    "*label_map*.pbtxt",
];

/// Suffixes of files that may contain tensors or records but that no format reads. Each list of
/// suffixes has a description.
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
    (&[".lance", ".zarr"], "a dataset in a format that ferry does not read here"),
    (&[".mat", ".rds", ".rdata", ".nc"], "a file of arrays, which ferry does not read"),
    (&[".dta", ".sav", ".sas7bdat"], "a file of a statistics program, which ferry does not read"),
    (
        &[".pdparams", ".pdiparams", ".caffemodel", ".params", ".t7"],
        "weights in a format that ferry does not read",
    ),
    (&[".ggml", ".llamafile"], "weights in a format that ferry does not read"),
];

/// Folders that are not listed, because they contain no input data.
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
    // Folders of development tools and training runs.
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

/// Returns whether files of this name are known to contain no data.
pub(super) fn is_file_without_data(file: &str) -> bool {
    NO_DATA[0].is_match(file)
}

/// Returns whether folders of this name are known to contain no data.
pub fn is_folder_without_data(folder: &str) -> bool {
    NO_DATA[1].is_match(folder)
}

/// Describes an entry that no format reads, but whose name suggests that it contains data.
pub fn other_data(file: &str) -> Option<&'static str> {
    let by_suffix = |file: &str| {
        let mut known = OTHER_DATA.iter();
        let known = known.find(|(suffixes, _)| suffixes.iter().any(|suffix| has_suffix(file, suffix)));
        known.map(|(_, what)| *what)
    };
    by_suffix(file).or_else(|| bare_names(file).find_map(by_suffix))
}

/// Returns the reason why a file that was left out may still contain data.
pub(super) fn why_left_out(file: &str, format: &str, read_as: &str) -> String {
    let finished = PARTIAL.iter().find_map(|suffix| strip_suffix(file, suffix));
    if finished.is_some() {
        "its download has not finished".to_owned()
    } else if is_temporary(file) {
        "a program had not finished writing it, according to its name".to_owned()
    } else if format == read_as && uncompressed(file) != file {
        format!("{read_as} is not read with this compression: decompress it, or convert it on its own")
    } else if format == read_as {
        format!("it is not one of the files that are read as {read_as}: convert it on its own")
    } else {
        format!("it is a {format} file, and the input is read as {read_as}: convert it on its own")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_may_hold_data() {
        for name in
            ["b.zip", "B.AVRO", "b.tar.xz", "labels.xlsx", "b.pkl", "b.pkl.gz", "b.zip.part", "b.avro.tmp"]
        {
            assert!(other_data(name).is_some(), "{name}");
        }
        assert!(
            ["README.md", "images.png", "b", "dataset_info.json"]
                .iter()
                .all(|name| other_data(name).is_none())
        );
        for name in
            ["_SUCCESS", ".part-0.parquet.crc", "_metadata", ".gitattributes", "._a.jsonl", ".DS_Store"]
        {
            assert!(is_file_without_data(name), "{name}");
        }
        // Orbax's `_METADATA` contains data, unlike Spark's `_metadata`; `_b.jsonl` may be data.
        assert!(!is_file_without_data("_METADATA") && !is_file_without_data("_b.jsonl"));
        assert!(is_folder_without_data("__MACOSX") && is_folder_without_data(".dvc"));
        assert!(!is_folder_without_data("data") && !is_folder_without_data(".data"));
    }
}
