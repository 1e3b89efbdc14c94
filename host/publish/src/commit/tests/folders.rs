//! Tests of outputs that are folders: new folders, and replaced folders that contain other files.

use super::*;
use crate::beneath::OpenFolder;
use crate::commit::folder::{CarryResult, carry, drain};
use crate::stage::area;
use std::collections::HashSet;

#[test]
fn a_new_folder_appears_whole() {
    for sync in [false, true] {
        let home = home();
        let out = home.path().join("out");
        for empty_before in [false, true] {
            let _ = fs::remove_dir_all(&out);
            if empty_before {
                fs::create_dir(&out).unwrap();
                fs::set_permissions(&out, Permissions::from_mode(0o711)).unwrap();
            }
            check_free(&whole(&out), ["a"], false).unwrap();
            let committed = publish(
                &whole(&out),
                ALL,
                &["a", "sub/b", "index.json"],
                CommitOptions { force: false, sync },
            )
            .unwrap();
            assert_eq!(committed.files[1], out.join("sub/b"));
            assert_tree(home.path(), &[("out/a", "new"), ("out/index.json", "new"), ("out/sub/b", "new")]);
            let mode = fs::metadata(&out).unwrap().permissions().mode() & 0o777;
            assert!(!empty_before || mode == 0o711, "{mode:o}");
        }
    }
}

#[test]
fn a_folder_with_anything_in_it_is_refused_without_force() {
    let home = home();
    let out = home.path().join("out");
    write(&out, "foreign", "f");
    refused(&check_free(&whole(&out), ["a"], false).unwrap_err());
    refused(&publish(&whole(&out), ALL, &["a"], KEEP).unwrap_err());
    assert_tree(home.path(), &[("out/foreign", "f")]);

    // Another program creates a file with the name between the check and the rename.
    let late = home.path().join("late");
    let stage = Stage::begin(&whole(&late)).unwrap();
    fill(&stage, &["a"], "new");
    write(&late, "theirs", "t");
    refused(&stage.rename_folder(&late, KEEP).unwrap_err());
    drop(stage);
    assert_tree(&late, &[("theirs", "t")]);
}

/// Creates an older output, and unrelated files in its folder.
pub(super) fn older_folder(out: &Path) {
    write(out, "a", "old");
    write(out, "index.json", "old");
    write(out, "notes.txt", "foreign");
    write(out, "sub/b", "old");
    write(out, "sub/deep/er/log", "foreign");
    symlink("notes.txt", out.join("link")).unwrap();
    symlink("/nowhere", out.join("sub/dangling")).unwrap();
    fs::create_dir(out.join("empty")).unwrap();
    fs::set_permissions(out.join("empty"), Permissions::from_mode(0o500)).unwrap();
    fs::set_permissions(out, Permissions::from_mode(0o750)).unwrap();
}

pub(super) const REPLACED: [(&str, &str); 8] = [
    ("a", "new"),
    ("c", "new"),
    ("index.json", "new"),
    ("link", "-> notes.txt"),
    ("notes.txt", "foreign"),
    ("sub/b", "new"),
    ("sub/dangling", "-> /nowhere"),
    ("sub/deep/er/log", "foreign"),
];

#[test]
fn a_replaced_folder_keeps_what_others_put_there() {
    let no_exchange = Disk { exchange: false, ..ALL };
    let no_links = Disk { links: false, ..ALL };
    for (disk, exchanged) in [(ALL, true), (no_exchange, false), (no_links, false), (NONE, false)] {
        for sync in [false, true] {
            let home = home();
            let out = home.path().join("out");
            older_folder(&out);
            let log = identity(&out.join("sub/deep/er/log")).unwrap();
            let before = fs::metadata(&out).unwrap().ino();
            let committed = publish(
                &whole(&out),
                disk,
                &["a", "sub/b", "c", "index.json"],
                CommitOptions { force: true, sync },
            )
            .unwrap();
            assert_tree(&out, &REPLACED);
            assert_eq!(fs::metadata(&out).unwrap().ino() != before, exchanged);
            assert_eq!(committed.notes.is_empty(), exchanged, "{:?}", committed.notes);
            assert_eq!(identity(&out.join("sub/deep/er/log")).unwrap(), log);
            let mode = |name: &str| fs::metadata(out.join(name)).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(""), mode("empty")), (0o750, 0o500));
            assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
        }
    }
}

#[test]
fn an_output_folder_behind_a_link_is_replaced_where_it_lies() {
    let home = home();
    write(home.path(), "real/a", "old");
    fs::create_dir(home.path().join("links")).unwrap();
    symlink("../real", home.path().join("links/out")).unwrap();
    publish(&whole(&home.path().join("links/out")), ALL, &["a"], FORCE).unwrap();
    assert_tree(home.path(), &[("links/out", "-> ../real"), ("real/a", "new")]);
}

#[test]
fn files_and_folders_of_one_name_are_not_mixed() {
    for (old, new) in [("x/foreign", "x"), ("x", "x/model")] {
        let home = home();
        let out = home.path().join("out");
        write(&out, old, "f");
        assert_eq!(check_free(&whole(&out), [new], true).unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(publish(&whole(&out), ALL, &[new], FORCE).unwrap_err().kind(), ErrorKind::Usage);
        assert_tree(home.path(), &[(&format!("out/{old}"), "f")]);
    }
}

#[test]
fn what_comes_between_carry_and_exchange_is_carried_too() {
    let home = home();
    let (old, new) = (home.path().join("old"), home.path().join("new"));
    for name in ["same", "edited", "a", "gone"] {
        write(&old, name, "old");
    }
    write(&new, "a", "new");
    assert!(matches!(carry(&old, &new, &HashSet::new(), ALL).unwrap(), CarryResult::All));
    assert_tree(&new, &[("a", "new"), ("edited", "old"), ("gone", "old"), ("same", "old")]);
    // Changes before the exchange: an editor that saves by rename, a new file, a new folder, and a
    // stage of a different run.
    std::thread::sleep(std::time::Duration::from_millis(20));
    write(&old, "saved", "edited");
    fs::rename(old.join("saved"), old.join("edited")).unwrap();
    write(&old, "late", "foreign");
    write(&old, "folder/late", "foreign");
    write(&area::in_folder(&old), "other/lock", "");
    let tops = [&old, &new].map(|path| OpenFolder::open(path).unwrap());
    drain(&tops[0], &tops[1], &HashSet::from([Path::new("a")]), ALL, true).unwrap();
    assert!(!old.exists());
    let stage = area::in_folder(Path::new("")).join("other/lock");
    assert_tree(
        &new,
        &[
            (stage.to_str().unwrap(), ""),
            ("a", "new"),
            ("edited", "edited"),
            ("folder/late", "foreign"),
            ("gone", "old"),
            ("late", "foreign"),
            ("same", "old"),
        ],
    );
}

#[test]
fn a_link_in_the_place_of_a_folder_leads_a_drain_nowhere() {
    for place in ["new", "new/sub"] {
        let home = home();
        let at = |name: &str| home.path().join(name);
        for name in ["old/late", "old/sub/late", "new/sub/b"] {
            write(home.path(), name, name);
        }
        fs::create_dir(at("victim")).unwrap();
        let tops = [at("old"), at("new")].map(|path| OpenFolder::open(&path).unwrap());
        // A different process moves the folder after it was checked.
        fs::rename(at(place), at("moved")).unwrap();
        symlink(at("victim"), at(place)).unwrap();
        let drained = drain(&tops[0], &tops[1], &HashSet::new(), ALL, false);
        assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 0, "{place}");
        match place {
            // The files are moved into the open folder, even if its path has changed.
            "new" => assert_eq!(fs::read_to_string(at("moved/sub/late")).unwrap(), "old/sub/late"),
            _ => assert!(drained.is_err() && at("old/sub/late").exists()),
        }
        assert!(OpenFolder::open(&at(place)).is_err());
    }
}

#[test]
fn a_mounted_or_current_folder_is_filled_from_within() {
    let current = std::env::current_dir().unwrap();
    let site = Stage::begin(&whole(&current)).unwrap();
    assert_eq!(site.site.whole, None);
    assert_eq!(site.site.parent, current);
    drop(site);

    let home = home();
    let out = home.path().join("out");
    write(&out, "a", "old");
    write(&out, "foreign", "f");
    let mut stage = Stage::begin(&whole(&out)).unwrap();
    let folder = stage.site.parent.join("out");
    fs::rename(&stage.root, folder.join(stage.root.file_name().unwrap())).unwrap();
    stage.root = folder.join(stage.root.file_name().unwrap());
    stage.site.parent = folder;
    stage.site.whole = None;
    let files = fill(&stage, &["a", "b"], "new");
    stage.commit(&files, FORCE).unwrap();
    assert_tree(home.path(), &[("out/a", "new"), ("out/b", "new"), ("out/foreign", "f")]);
}
