//! Checks `transcript.txt`, a shell session that shows the help and the output of incorrect
//! commands, which the guide does not show. The transcript makes changes to messages visible.
//! `FERRY_TEST_WRITE_TRANSCRIPT=1` updates the transcript. Review the changes afterwards.

use std::path::PathBuf;
use tensorferry_tests::ferry::run;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::workspace::root;
use tensorferry_tests::{Ferry, session};

#[test]
fn of_what_a_new_user_types() {
    let ferry = Ferry::new();
    let checkpoint = case("torch", "zip_training_checkpoint").input();
    std::fs::copy(&checkpoint, ferry.at("checkpoint.pt")).unwrap();
    ferry.write(
        "people.jsonl",
        "{\"name\": \"Ada\", \"age\": 36}\n{\"name\": \"Grace\", \"age\": 85}\n{\"name\": \"Tim\", \"age\": 9}\n",
    );

    let path: PathBuf = root().join("tests/tests/quick/cli/transcript.txt");
    let entries = session::parse(&std::fs::read_to_string(&path).unwrap());
    assert!(entries.len() > 20, "only {} commands", entries.len());
    let outcome = run(&mut ferry.shell(&session::script(entries.iter().map(|entry| &*entry.typed))));
    let home = ferry.home().display().to_string();
    let outputs = session::printed(&outcome).into_iter();
    let renewed: Vec<_> = outputs
        .zip(&entries)
        .map(|((output, code), entry)| session::renewed(entry, &output.replace(&home, session::HOME), code))
        .collect();
    let transcript = session::render(&renewed);
    if std::env::var_os("FERRY_TEST_WRITE_TRANSCRIPT").is_some() {
        std::fs::write(&path, &transcript).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    let of = |text: &str| text.split("\n\n$ ").map(str::to_owned).collect::<Vec<_>>();
    for (kept, now) in of(&kept).iter().zip(&of(&transcript)) {
        assert_eq!(now, kept, "FERRY_TEST_WRITE_TRANSCRIPT=1 updates {}", path.display());
    }
    assert_eq!(transcript.len(), kept.len());
}
