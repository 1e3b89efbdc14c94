//! Tests of the files that each kind of commit and recovery leaves behind.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::disk::{Disk, identity};
use crate::stage::FileKind;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::sync::{PoisonError, RwLock};
use tempfile::TempDir;
use tensorferry_sdk::{Error, ErrorKind};

mod folders;
mod recovery;

const ALL: Disk = Disk { noreplace: true, exchange: true, links: true };
const SET: [&str; 4] = ["m.index.json", "m-1", "m-2", "vars/m-3"];
const NONE: Disk = Disk { noreplace: false, exchange: false, links: false };
const FORCE: CommitOptions = CommitOptions { force: true, sync: false };
const KEEP: CommitOptions = CommitOptions { force: false, sync: false };

/// Locked for writing while a process is spawned, and for reading while a test expects a stage's
/// lock to be free. Between fork and exec, a child process has a copy of every descriptor, and
/// therefore of every lock.
static SPAWNING: RwLock<()> = RwLock::new(());

pub(super) fn spawning() -> impl Drop {
    SPAWNING.write().unwrap_or_else(PoisonError::into_inner)
}

/// Copies a file or folder with everything that tar, rsync or a clone can preserve.
pub(crate) fn copy_all(from: &Path, to: &Path) {
    let spawned = {
        let _alone = spawning();
        Command::new("cp").arg("-a").args([from, to]).spawn()
    };
    assert!(spawned.unwrap().wait().unwrap().success());
}

pub(super) fn nothing_spawns() -> impl Drop {
    SPAWNING.read().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(super) fn beside(folder: &Path) -> Destination {
    Destination { folder: folder.to_owned(), kind: DestinationKind::Beside { name: "model".to_owned() } }
}

pub(super) fn whole(folder: &Path) -> Destination {
    Destination { folder: folder.to_owned(), kind: DestinationKind::Folder }
}

/// Returns the role of a file of this name in a set.
pub(super) fn kind_of(name: &str) -> FileKind {
    match name {
        "receipt.json" => FileKind::Receipt,
        name if name.ends_with(".json") => FileKind::Index,
        _ => FileKind::Data,
    }
}

/// Stages files whose content is `text`, and returns them.
pub(super) fn fill(stage: &Stage, names: &[&str], text: &str) -> Vec<StagedFile> {
    let put = |name: &&str| {
        stage.create(name, None).unwrap().write_all(text.as_bytes()).unwrap();
        StagedFile::new(*name, kind_of(name))
    };
    names.iter().map(put).collect()
}

/// Stages and commits new files of these names.
fn publish(
    destination: &Destination,
    disk: Disk,
    names: &[&str],
    options: CommitOptions,
) -> Result<Committed> {
    let stage = Stage::begin_on(destination, disk)?;
    let files = fill(&stage, names, "new");
    stage.commit(&files, options)
}

/// Returns all files below a folder and their contents, sorted. For a link, the content is `->
/// target`.
pub(super) fn tree(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(&current).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                folders.push(path);
            } else if meta.is_symlink() {
                found.push((name, format!("-> {}", fs::read_link(&path).unwrap().display())));
            } else {
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

pub(super) fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[track_caller]
fn assert_tree(folder: &Path, expected: &[(&str, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(n, t)| ((*n).to_owned(), (*t).to_owned())).collect();
    assert_eq!(tree(folder), expected);
}

fn refused(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    assert!(error.message().contains("exists; use --force to replace it"), "{error}");
}

#[test]
fn one_file_is_renamed_and_nothing_else_stays() {
    for (disk, sync) in [(ALL, false), (ALL, true), (NONE, false)] {
        let home = home();
        let stage = Stage::begin_on(&beside(home.path()), disk).unwrap();
        let files = fill(&stage, &["model"], "new");
        assert!(!home.path().join("model").exists());
        let committed = stage.commit(&files, CommitOptions { force: false, sync }).unwrap();
        assert_eq!(committed.files, [home.path().join("model")]);
        assert!(committed.notes.is_empty());
        assert_tree(home.path(), &[("model", "new")]);
    }
}

#[test]
fn the_mode_is_what_the_umask_leaves() {
    let home = home();
    publish(&beside(home.path()), ALL, &["model"], KEEP).unwrap();
    File::create(home.path().join("plain")).unwrap();
    let mode = |name: &str| fs::metadata(home.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("model"), mode("plain"));

    publish(&whole(&home.path().join("folder")), ALL, &["sub/model"], KEEP).unwrap();
    fs::create_dir(home.path().join("plain-folder")).unwrap();
    for folder in ["folder", "folder/sub"] {
        assert_eq!(mode(folder), mode("plain-folder"));
    }
}

#[test]
fn a_dropped_stage_leaves_nothing_and_unmakes_its_parents() {
    let home = home();
    for destination in [beside(&home.path().join("a/b")), whole(&home.path().join("a/b/c"))] {
        let stage = Stage::begin(&destination).unwrap();
        fill(&stage, &["sub/model"], "new");
        stage.spill().unwrap().write_all(b"x").unwrap();
        assert!(home.path().join("a/b").is_dir());
        drop(stage);
        assert!(!home.path().join("a").exists());
    }
    publish(&beside(&home.path().join("a/b")), ALL, &["model"], CommitOptions { force: false, sync: true })
        .unwrap();
    assert_tree(home.path(), &[("a/b/model", "new")]);
}

#[test]
fn a_staged_file_has_its_length_and_can_be_read_back() {
    let home = home();
    let stage = Stage::begin(&beside(home.path())).unwrap();
    let file = stage.create("sub/model", Some(12345)).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 12345);
    assert_eq!(fs::read(stage.path("sub/model")).unwrap(), vec![0; 12345]);
    for name in ["../model", "/model", "", "a//b", "a/", "./a"] {
        assert_eq!(stage.create(name, None).unwrap_err().kind(), ErrorKind::Usage, "{name}");
    }
    let error = stage.create("sub/model", None).unwrap_err().to_string();
    assert!(error.contains(&home.path().join("sub/model").display().to_string()), "{error}");
}

#[test]
fn a_name_that_is_taken_is_refused_before_and_at_the_commit() {
    for disk in [ALL, NONE] {
        let home = home();
        let destination = beside(home.path());
        let stage = Stage::begin_on(&destination, disk).unwrap();
        let files = fill(&stage, &["model"], "new");
        write(home.path(), "model", "old");
        refused(&check_free(&destination, ["model"], false).unwrap_err());
        check_free(&destination, ["model"], true).unwrap();
        check_free(&destination, ["other"], false).unwrap();
        refused(&stage.commit(&files, KEEP).unwrap_err());
        assert_tree(home.path(), &[("model", "old")]);

        publish(&destination, disk, &["model"], FORCE).unwrap();
        assert_tree(home.path(), &[("model", "new")]);
    }
}

#[test]
fn what_ferry_would_not_have_written_is_not_replaced() {
    let home = home();
    fs::create_dir(home.path().join("folder")).unwrap();
    write(home.path(), "file", "old");
    symlink("/dev/null", home.path().join("device")).unwrap();
    symlink("file", home.path().join("link")).unwrap();
    symlink("nowhere", home.path().join("dangling")).unwrap();
    for name in ["folder", "device", "file/model", "link/model"] {
        let error = check_free(&beside(home.path()), [name], true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.message().contains("where the output needs"), "{error}");
    }
    check_free(&beside(home.path()), ["link", "dangling"], true).unwrap();
    refused(&check_free(&beside(home.path()), ["dangling"], false).unwrap_err());
    for destination in [whole(&home.path().join("file")), whole(&home.path().join("dangling"))] {
        assert_eq!(Stage::begin(&destination).unwrap_err().kind(), ErrorKind::Usage);
    }
    assert_eq!(Stage::begin(&beside(&home.path().join("file/sub"))).unwrap_err().kind(), ErrorKind::Usage);

    // The link itself is replaced, and its target is not changed.
    publish(&beside(home.path()), ALL, &["link"], FORCE).unwrap();
    assert_eq!(fs::read_to_string(home.path().join("file")).unwrap(), "old");
    assert!(!fs::symlink_metadata(home.path().join("link")).unwrap().is_symlink());
}

#[test]
fn a_folder_that_cannot_be_written_to_is_named() {
    // No user can create files in `/proc`, not even root.
    let error = Stage::begin(&beside(Path::new("/proc"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error.to_string().contains("cannot create a staging folder")
            && error.to_string().starts_with("/proc: ")
    );
}

#[test]
fn a_set_comes_among_other_files_or_not_at_all() {
    for disk in [ALL, NONE] {
        for sync in [false, true] {
            let home = home();
            write(home.path(), "foreign", "f");
            publish(&beside(home.path()), disk, &SET, CommitOptions { force: false, sync }).unwrap();
            assert_tree(
                home.path(),
                &[
                    ("foreign", "f"),
                    ("m-1", "new"),
                    ("m-2", "new"),
                    ("m.index.json", "new"),
                    ("vars/m-3", "new"),
                ],
            );
        }
        // The last name becomes taken after the check, so the earlier renames must be undone.
        let home = home();
        let mut stage = Stage::begin_on(&beside(home.path()), disk).unwrap();
        let files = fill(&stage, &SET, "new");
        let at = Move { root: &stage.root, parent: home.path(), folder: None, disk, sync: false };
        let set = set::plan(&files, &[], &at, false).unwrap();
        write(home.path(), "m.index.json", "theirs");
        refused(&set::finish(&set, &at).unwrap_err());
        assert!(home.path().join("vars/m-3").exists());
        set::roll_back(&set, &at);
        stage.keep = false;
        drop(stage);
        assert_tree(home.path(), &[("m.index.json", "theirs")]);
        assert!(!home.path().join("vars").exists());
    }
}

#[test]
fn a_set_is_replaced_under_its_names_only() {
    let home = home();
    for name in ["m-1", "m-0", "m.index.json", "foreign"] {
        write(home.path(), name, "old");
    }
    refused(&check_free(&beside(home.path()), SET, false).unwrap_err());
    publish(&beside(home.path()), ALL, &SET, FORCE).unwrap();
    assert_tree(
        home.path(),
        &[
            ("foreign", "old"),
            ("m-0", "old"),
            ("m-1", "new"),
            ("m-2", "new"),
            ("m.index.json", "new"),
            ("vars/m-3", "new"),
        ],
    );
}

#[test]
fn a_planned_file_that_was_not_written_ends_the_commit() {
    let home = home();
    let stage = Stage::begin(&beside(home.path())).unwrap();
    let mut files = fill(&stage, &["a"], "new");
    files.push(StagedFile::new("b", FileKind::Data));
    assert_eq!(stage.commit(&files, KEEP).unwrap_err().kind(), ErrorKind::Plugin);
    assert_tree(home.path(), &[]);
}
