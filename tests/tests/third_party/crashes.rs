//! Tests that a plugin that crashes or hangs causes only its own job to fail.

use crate::outside;
use tensorferry_tests::zoo::Zoo;

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_plugin_that_cannot_be_stopped_by_an_error() {
    let zoo = Zoo::new();
    zoo.ferry.add_plugin(&outside::library("misbehave"));
    for name in ["abort", "loop", "eat"] {
        zoo.write(&format!("in/{name}.misbehave"), format!("MISBEHAVE!{name}").as_bytes());
    }
    zoo.write("in/good.misbehave", b"MISBEHAVEsome bytes");
    zoo.write("in/malformed.safetensors", b"\xff\xff\0\0\0\0\0\0{}");
    for number in 0..8 {
        zoo.add_model(&format!("{number}.safetensors"), 1 << 18, number);
    }
    zoo.manifest(
        "[defaults]\ntimeout = \"5s\"\nmemory_limit = \"256MiB\"\n\
         [[zoo]]\nroot = \"in\"\noutput = \"out/{name}.safetensors\"\n",
    );
    // First use one process, so that each lost process must be replaced. Then use several
    // processes.
    for jobs in ["1", "3"] {
        let _ = std::fs::remove_dir_all(zoo.path("out"));
        let outcome = zoo.run(&["--jobs", jobs]).expect(3);
        assert!(outcome.stdout.contains("13 jobs: 4 failed, 9 done"), "{outcome}");
        assert_eq!(zoo.jobs("failed").len(), 4);
        let abort = zoo.failure("in/abort.misbehave");
        assert_eq!((&abort["kind"], &abort["signal"]), (&"crashed".into(), &6.into()), "{abort}");
        assert_eq!(zoo.failure("in/loop.misbehave")["kind"], "timed out");
        let eat = zoo.failure("in/eat.misbehave");
        assert_eq!(eat["kind"], "crashed");
        assert!(
            eat.to_string().contains("memory allocation of") && eat.to_string().contains("256 MiB"),
            "{eat}"
        );
        let malformed = zoo.failure("in/malformed.safetensors");
        assert_eq!(
            (&malformed["kind"], &malformed["exit_code"]),
            (&"malformed".into(), &3.into()),
            "{malformed}"
        );
        assert!(
            malformed["retry"].as_str().unwrap().contains("--only in/malformed.safetensors"),
            "{malformed}"
        );
        zoo.nothing_is_staged();
    }
    // The other jobs are done, and only the failed jobs run again.
    let _ = zoo.run(&[]).expect(3);
    assert_eq!((zoo.total("unchanged"), zoo.total("failed")), (9, 4));
    let _ = zoo.run(&["--fail-fast", "--jobs", "1"]).expect(3);
    assert_eq!(zoo.total("failed"), 1);
}
