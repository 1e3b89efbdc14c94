//! Tests that check how a run handles stages from earlier runs.

use super::folders::{REPLACED, older_folder};
use super::*;
use crate::commit::folder::carry;
use crate::commit::record::{Exchange, Set, SetFile};
use crate::disk::At;
use crate::stage::{FileKind, WithoutLocks, area, lock, proof};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn only_stages_that_nobody_holds_are_removed() {
    let home = home();
    let destination = beside(home.path());
    let running = Stage::begin(&destination).unwrap();
    fill(&running, &["model"], "theirs");
    let area = area::in_folder(home.path());
    for abandoned in ["1/lock", "1/new/model", "2/lock", "2/new/sub/model", "2/commit.json.part"] {
        write(&area, abandoned, "");
    }
    ["1", "2"].iter().for_each(|name| proof::write(&area.join(name)).unwrap());
    fs::create_dir(area.join("3")).unwrap();
    write(&area, "file", "not a stage");
    symlink("/", area.join("link")).unwrap();
    let recovered = recover(&destination).unwrap();
    assert_eq!(recovered, Recovered { removed: 2, ..Recovered::default() });
    assert_eq!(fs::read_dir(&area).unwrap().count(), 3);
    assert_eq!(recover(&destination).unwrap(), Recovered::default());
    let second = Stage::begin(&destination).unwrap();
    running.commit(&[StagedFile::new("model", FileKind::Data)], KEEP).unwrap();
    drop(second);
    assert_eq!(fs::read_to_string(home.path().join("model")).unwrap(), "theirs");
}

/// An entry that has the name of the staging area but is not the user's folder may be a trap.
#[test]
fn a_staging_area_of_somebody_else_is_not_used() {
    let home = home();
    let area = area::in_folder(home.path());
    let elsewhere = home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &area).unwrap();
    assert_eq!(recover(&beside(home.path())).unwrap(), Recovered::default());
    let stage = Stage::begin(&beside(home.path())).unwrap();
    assert!(!stage.root.canonicalize().unwrap().starts_with(&elsewhere));
    let files = fill(&stage, &["model"], "new");
    stage.commit(&files, KEEP).unwrap();
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 3);
}

/// Recovery does not mistake stages that are constantly created and removed for copied stages.
#[test]
fn live_stages_are_nothing_to_tell_of() {
    let home = home();
    let destination = beside(home.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let runs = || {
            for _ in 0..300 {
                drop(Stage::begin(&destination).unwrap());
            }
        };
        let runs = [scope.spawn(runs), scope.spawn(runs)];
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(recover(&destination).unwrap().notes, [""; 0]);
            }
        });
        let ended = runs.map(|run| run.join());
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(Result::unwrap);
    });
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_lock_is_had_once_and_only_while_it_is_linked() {
    let _calm = nothing_spawns();
    let home = home();
    let first = lock(home.path(), WithoutLocks::Leave).unwrap();
    assert!(first.is_some());
    assert!(lock(home.path(), WithoutLocks::Own).unwrap().is_none());
    drop(first);
    let again = lock(home.path(), WithoutLocks::Leave).unwrap();
    assert!(again.is_some());
    fs::remove_file(home.path().join("lock")).unwrap();
    assert!(lock(home.path(), WithoutLocks::Own).unwrap().is_some());
    assert!(lock(&home.path().join("removed"), WithoutLocks::Own).unwrap().is_none());
}

#[test]
fn many_runs_begin_and_recover_at_once() {
    let home = home();
    std::thread::scope(|scope| {
        for run in 0..8 {
            let folder = home.path();
            scope.spawn(move || {
                for round in 0..20 {
                    recover(&beside(folder)).unwrap();
                    let stage = Stage::begin(&beside(folder)).unwrap();
                    let name = format!("{run}-{round}");
                    let files = fill(&stage, &[&name], &name);
                    if round % 2 == 0 {
                        stage.commit(&files, KEEP).unwrap();
                    }
                }
            });
        }
    });
    let left = tree(home.path());
    assert_eq!(left.len(), 80);
    assert!(left.iter().all(|(name, text)| name == text));
}

/// Creates the stage that an interrupted run would leave behind: a stage with the record of a set,
/// and with the set's files.
fn abandoned_set(folder: &Path, force: bool, old: Option<&str>) -> Set {
    let _calm = nothing_spawns();
    let mut stage = Stage::begin(&beside(folder)).unwrap();
    for name in SET.iter().filter(|_| old.is_some()) {
        write(folder, name, old.unwrap());
    }
    let files = fill(&stage, &SET, "new");
    let at = Move { root: &stage.root, parent: folder, folder: None, disk: ALL, sync: false };
    let set = set::plan(&files, &[], &at, force).unwrap();
    Record::new(Action::Set(set.clone()), false).write(&stage.root).unwrap();
    stage.keep = true;
    set
}

fn stage_in(folder: &Path) -> PathBuf {
    area::stages(folder).unwrap().pop().unwrap()
}

#[test]
fn a_set_is_finished_from_each_step() {
    for old in [None, Some("old")] {
        for steps in 0..=SET.len() {
            let home = home();
            let set = abandoned_set(home.path(), old.is_some(), old);
            let staged = stage_in(home.path()).join("new");
            fs::create_dir_all(home.path().join("vars")).unwrap();
            if old.is_some() && steps > 0 {
                fs::remove_file(home.path().join("m.index.json")).unwrap();
            }
            for file in &set.files[..steps] {
                fs::rename(staged.join(&file.name), home.path().join(&file.name)).unwrap();
            }
            let recovered = recover(&beside(home.path())).unwrap();
            assert_eq!(recovered.finished.len(), 1, "{recovered:?}");
            assert_eq!(tree(home.path()).len(), SET.len());
            assert!(tree(home.path()).iter().all(|(_, text)| text == "new"));
        }
    }
}

#[test]
fn a_link_that_stood_in_for_a_rename_is_recognised() {
    let home = home();
    abandoned_set(home.path(), false, None);
    fs::hard_link(stage_in(home.path()).join("new/m-1"), home.path().join("m-1")).unwrap();
    assert_eq!(recover(&beside(home.path())).unwrap().finished.len(), 1);
    assert_eq!(tree(home.path()).len(), SET.len());
}

#[test]
fn a_set_is_given_up_when_others_have_written_there() {
    for (force, old) in [(false, None), (true, Some("old"))] {
        let home = home();
        abandoned_set(home.path(), force, old);
        fs::rename(stage_in(home.path()).join("new/m-1"), home.path().join("m-1")).unwrap();
        write(home.path(), "m-2", "somebody else's");
        let recovered = recover(&beside(home.path())).unwrap();
        assert_eq!((recovered.finished.len(), recovered.notes.len()), (0, 1), "{recovered:?}");
        let left = tree(home.path());
        assert!(left.contains(&("m-2".to_owned(), "somebody else's".to_owned())));
        assert_eq!(left.len(), if force { 4 } else { 1 }, "{left:?}");
    }
}

#[test]
fn a_record_that_cannot_be_followed_stays_with_a_note() {
    let _calm = nothing_spawns();
    let home = home();
    let set = Set {
        folder: None,
        force: true,
        removes_index: false,
        missing_folders: Vec::new(),
        files: vec![SetFile {
            name: "../outside".to_owned(),
            index: false,
            new: identity(home.path()).unwrap().unwrap(),
            old: None,
        }],
        old_receipts: Vec::new(),
        stale: Vec::new(),
    };
    let root = area::in_folder(home.path()).join("x");
    write(&root, "new/f", "x");
    write(&root, "lock", "");
    proof::write(&root).unwrap();
    Record::new(Action::Set(set), false).write(&root).unwrap();
    let recovered = recover(&beside(home.path())).unwrap();
    assert_eq!((recovered.removed, recovered.notes.len()), (0, 1));
    assert!(root.join("new/f").exists());
    // Recovery for other runs in the same folder still works.
    assert_eq!(recover(&beside(home.path())).unwrap().notes.len(), 1);
    Stage::begin(&beside(home.path())).unwrap();
}

#[test]
fn an_exchange_is_drained_if_it_has_happened_and_else_dropped() {
    for exchanged in [false, true] {
        for moved_away in [false, true] {
            let home = home();
            let out = home.path().join("out");
            older_folder(&out);
            let root = area::in_folder(home.path()).join("x");
            let new = root.join("new");
            write(&root, "lock", "");
            proof::write(&root).unwrap();
            for name in ["a", "sub/b", "c", "index.json"] {
                write(&new, name, "new");
            }
            carry(&out, &new, &HashSet::new(), ALL).unwrap();
            let inode = |path: &Path| fs::metadata(path).unwrap().ino();
            let exchange = Exchange {
                folder: "out".into(),
                new_inode: inode(&new),
                old_inode: inode(&out),
                files: ["a", "sub/b", "c", "index.json"].map(str::to_owned).to_vec(),
            };
            Record::new(Action::Exchange(exchange), true).write(&root).unwrap();
            if exchanged {
                ALL.exchange(At::from(&*new), At::from(&*out)).unwrap();
                write(&new, "late", "foreign");
            }
            if moved_away {
                fs::rename(&out, home.path().join("elsewhere")).unwrap();
            }
            let recovered = recover(&whole(&out)).unwrap();
            match (exchanged, moved_away) {
                (true, true) => {
                    assert_eq!(recovered.notes.len(), 1);
                    assert_eq!(fs::read_to_string(new.join("late")).unwrap(), "foreign");
                    continue;
                }
                (true, false) => {
                    assert_eq!(recovered.finished, [out.canonicalize().unwrap()]);
                    let mut expected = REPLACED.to_vec();
                    expected.insert(3, ("late", "foreign"));
                    assert_tree(&out, &expected);
                }
                (false, _) => assert_eq!(recovered.removed, 1),
            }
            assert!(!root.exists());
        }
    }
}

/// A stage from a clone or an archive may be an attack. Following its record could write through a
/// link in the stage, or move files out of one of the user's folders.
#[test]
fn a_stage_that_was_not_made_here_is_left_alone() {
    for (bait, is_copied) in [("d/.bash_login", false), ("d/.bash_login", true)] {
        let home = home();
        let (repository, victim) = (home.path().join("r"), home.path().join("victim"));
        fs::create_dir_all(&victim).unwrap();
        fs::create_dir(&repository).unwrap();
        abandoned_set(&repository, false, None);
        let root = stage_in(&repository);
        write(&root, &format!("new/{bait}"), "echo owned");
        let file = |name: &str| SetFile {
            name: name.to_owned(),
            index: false,
            new: identity(&root.join("new").join(name)).unwrap().unwrap(),
            old: None,
        };
        let set = Set {
            folder: None,
            force: false,
            removes_index: false,
            missing_folders: Vec::new(),
            files: vec![file(bait)],
            old_receipts: Vec::new(),
            stale: Vec::new(),
        };
        Record::new(Action::Set(set), false).write(&root).unwrap();
        symlink(&victim, repository.join("d")).unwrap();
        let folder = if is_copied {
            let copied = home.path().join("clone");
            copy_all(&repository, &copied);
            copied
        } else {
            repository
        };
        let before = tree(&folder);
        let recovered = recover(&beside(&folder)).unwrap();
        assert_eq!((recovered.finished.len(), recovered.removed, recovered.notes.len()), (0, 0, 1));
        // A copied stage is rejected completely. In the user's own stage, recovery does not follow
        // a link below the output's folder.
        let said = if is_copied { "ferry recover" } else { "a symbolic link" };
        assert!(recovered.notes[0].contains(said), "{:?}", recovered.notes);
        assert_eq!(tree(&folder), before);
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
        assert!(recover_by_hand(&stage_in(&folder)).is_err());
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    }
}

/// A user who has checked a copied stage can finish it.
#[test]
fn a_copied_stage_is_finished_by_hand() {
    let home = home();
    let (made, copied) = (home.path().join("made"), home.path().join("copied"));
    fs::create_dir(&made).unwrap();
    abandoned_set(&made, false, None);
    let running = Stage::begin(&beside(&made)).unwrap();
    assert!(recover_by_hand(&running.root).is_err());
    drop(running);
    fs::create_dir(&copied).unwrap();
    copy_all(&area::in_folder(&made), &copied);
    assert_eq!(recover(&beside(&copied)).unwrap().notes.len(), 1);
    assert!(recover_by_hand(&copied).is_err());
    let recovered = recover_by_hand(&stage_in(&copied)).unwrap();
    assert_eq!(recovered.finished.len(), 1, "{recovered:?}");
    assert_eq!(tree(&copied).len(), SET.len());
}
