//! Tests of full and read-only disks, and of sources that change during the copy. The exit code
//! must match the contract, and existing files must be kept.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use tensorferry_tests::disk::{is_left_out, on_tmpfs, with_file_limit};
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::{STAGING, names_in};
use tensorferry_tests::shape::{Scene, Shape, State};
use tensorferry_tests::zoo::Zoo;

const SHAPES: [Shape; 3] = [Shape::File, Shape::Folder, Shape::Set];

#[test]
#[ignore = "mounts a file system"]
fn a_full_disk_is_noticed_before_anything_is_written() {
    for shape in SHAPES.into_iter().filter(|_| !is_left_out()) {
        let scene = Scene::new(shape, 16 << 20);
        let (outcome, left) = on_tmpfs(&scene.work(), "size=8m", &scene.command(State::New, &[]));
        outcome.expect(5).says(&["space"]);
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
#[ignore = "writes hundreds of megabytes"]
fn a_write_that_fails_leaves_what_stood() {
    for shape in SHAPES {
        let scene = Scene::new(shape, 8 << 20);
        for with_old in [false, true] {
            scene.reset(with_old);
            let options: &[&str] = if with_old { &["--force"] } else { &[] };
            let outcome = run(&mut with_file_limit(1 << 20, &scene.command(State::New, options)));
            let _ = outcome.expect(5);
            assert_eq!(scene.state(), if with_old { State::Old } else { State::None });
            scene.nothing_is_staged();
        }
    }
}

#[test]
#[ignore = "mounts a file system"]
fn a_read_only_target_is_named() {
    for shape in SHAPES.into_iter().filter(|_| !is_left_out()) {
        let scene = Scene::new(shape, 1 << 20);
        let (outcome, left) = on_tmpfs(&scene.work(), "ro", &scene.command(State::New, &[]));
        let _ = outcome.expect(5).says(&["work"]);
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Size in bytes of a file that takes long enough to copy.
const LARGE: u64 = 32 << 20;

/// Stops the process while it is writing, changes the source, and resumes the process.
fn changed_during_the_copy(change: impl Fn(&std::fs::File)) {
    const TRIES: u32 = 20;
    for with_old in [false, true] {
        let mut noticed = 0;
        for _ in 0..TRIES {
            // Each round uses a new source, because the test damages it.
            let scene = Scene::new(Shape::File, LARGE);
            scene.reset(with_old);
            let options: &[&str] =
                if with_old { &["--threads", "1", "--force"] } else { &["--threads", "1"] };
            let source = OpenOptions::new().write(true).open(scene.input(State::New)).unwrap();
            let mut child = scene.start(options);
            let deadline = Instant::now() + Duration::from_secs(10);
            let is_writing = || names_in(&scene.work()).iter().any(|name| name.starts_with(STAGING));
            while !is_writing() && child.try_wait().unwrap().is_none() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_micros(200));
            }
            let process = Pid::from_child(&child);
            let _ = kill_process(process, Signal::STOP);
            change(&source);
            let _ = kill_process(process, Signal::CONT);
            match child.wait().unwrap().code() {
                // The copy was already complete.
                Some(0) => {
                    assert_eq!(scene.state(), State::New);
                    continue;
                }
                code => assert_eq!(code, Some(75), "the change of the source was not noticed"),
            }
            assert_eq!(scene.state(), if with_old { State::Old } else { State::None });
            scene.nothing_is_staged();
            noticed += 1;
            if noticed == 3 {
                break;
            }
        }
        assert!(
            noticed > 0,
            "in all {TRIES} attempts, the copy was complete before the source could be changed"
        );
    }
}

#[test]
#[ignore = "writes hundreds of megabytes"]
fn a_source_truncated_during_the_copy_is_a_passing_fault() {
    changed_during_the_copy(|source| source.set_len(4 << 20).unwrap());
}

#[test]
#[ignore = "writes hundreds of megabytes"]
fn a_source_modified_during_the_copy_is_a_passing_fault() {
    changed_during_the_copy(|source| source.write_all_at(b"!", LARGE - 1).unwrap());
}

#[test]
#[ignore = "mounts a file system"]
fn a_full_disk_fails_what_does_not_fit() {
    if is_left_out() {
        return;
    }
    let zoo = Zoo::new();
    zoo.add_model("big.safetensors", 32 << 20, 1);
    zoo.add_model("small.safetensors", 1 << 18, 2);
    std::fs::create_dir(zoo.path("full")).unwrap();
    zoo.manifest(
        "[[job]]\ninput = \"in/big.safetensors\"\noutput = \"full/big.pt\"\n\
         [[job]]\ninput = \"in/small.safetensors\"\noutput = \"full/small.pt\"\n\
         [[job]]\ninput = \"in/big.safetensors\"\noutput = \"out/big.pt\"\nname = \"elsewhere\"\n",
    );
    let (outcome, left) = on_tmpfs(&zoo.path("full"), "size=8m", &zoo.command(&[]));
    // The inputs are valid, so the exit code is the one for I/O errors.
    let _ = outcome.expect(5).says(&["full/big.pt", "space"]);
    assert_eq!(left, ["small.pt", "small.pt.ferry.json"]);
    assert_eq!(zoo.failure("full/big.pt")["exit_code"], 5);
    assert_eq!(zoo.jobs("done"), ["elsewhere", "full/small.pt"]);
}
