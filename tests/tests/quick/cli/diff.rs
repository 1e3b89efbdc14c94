//! `diff` and `check` find each kind of difference, and say so on stdout.

use tensorferry_tests::fixtures::case;
use tensorferry_tests::fixtures::cases;
use tensorferry_tests::model::Tensors;
use tensorferry_tests::{Ferry, args};

const BASE: Tensors<'_> =
    &[("a", "F32", &[2], &[0, 0, 128, 63, 0, 0, 0, 64]), ("b", "I8", &[2, 2], &[1, 2, 3, 4])];

#[test]
fn equal_content_in_other_bytes_is_equal() {
    let ferry = Ferry::new();
    let base = ferry.safetensors("base.safetensors", BASE);
    let other = ferry.safetensors("other.safetensors", &[BASE[1], BASE[0]]);
    assert_ne!(std::fs::read(&base).unwrap(), std::fs::read(&other).unwrap());
    let outcome = ferry.diff(&base, &other, &[]).expect(0);
    assert!(outcome.stdout.contains("equal") || outcome.stdout.contains("same"), "{outcome}");
    let _ = ferry.diff(&base, &other, &["--json"]).expect(0).json();
}

#[test]
fn each_kind_of_difference_is_found() {
    let ferry = Ferry::new();
    let base = ferry.safetensors("base.safetensors", BASE);
    let changes: [(&str, Tensors<'_>, &str); 6] = [
        ("missing", &[BASE[0]], "b"),
        ("added", &[BASE[0], BASE[1], ("c", "U8", &[1], &[0])], "c"),
        ("dtype", &[BASE[0], ("b", "U8", &[2, 2], &[1, 2, 3, 4])], "b"),
        ("shape", &[BASE[0], ("b", "I8", &[4], &[1, 2, 3, 4])], "b"),
        ("content", &[BASE[0], ("b", "I8", &[2, 2], &[1, 2, 3, 5])], "b"),
        ("name", &[BASE[0], ("B", "I8", &[2, 2], &[1, 2, 3, 4])], "B"),
    ];
    for (kind, tensors, what) in changes {
        let changed = ferry.safetensors(&format!("{kind}.safetensors"), tensors);
        for (a, b) in [(&base, &changed), (&changed, &base)] {
            let outcome = ferry.diff(a, b, &[]).expect(1);
            assert!(outcome.stdout.contains(what), "{kind}: {outcome}");
            let json = ferry.diff(a, b, &["--json"]).expect(1);
            assert!(json.json().to_string().contains(&format!("{what:?}")), "{kind}: {json}");
        }
    }
}

#[test]
fn a_malformed_side_gives_no_verdict() {
    let ferry = Ferry::new();
    let base = ferry.safetensors("base.safetensors", BASE);
    let broken = case("safetensors", "bad_truncated_data").input();
    for (a, b) in [(&base, &broken), (&broken, &base)] {
        let outcome = ferry.diff(a, b, &[]).expect(3);
        assert_eq!(outcome.stdout, "", "{outcome}");
    }
}

#[test]
fn check_takes_the_fixtures_own_expectations() {
    let ferry = Ferry::new();
    let mut checked = 0;
    for case in cases("safetensors", "").iter().filter(|case| !case.is_error()) {
        let expected = case.folder.join("expected.json");
        let outcome = ferry.run(args!["check", case.input(), "--against", expected]).expect(0);
        assert_ne!(outcome.stdout, "", "no verdict: {outcome}");
        checked += 1;
    }
    assert_eq!(checked, 6);
}

#[test]
fn check_finds_each_kind_of_difference() {
    let ferry = Ferry::new();
    let base = ferry.safetensors("base.safetensors", BASE);
    let a = r#""a": {"dtype": "F32", "shape": [2]}"#;
    let wrong = [
        (format!(r#"{{"tensors": {{{a}}}}}"#), "b"),
        (format!(r#"{{"tensors": {{{a}, "b": {{"dtype": "U8", "shape": [2, 2]}}}}}}"#), "U8"),
        (format!(r#"{{"tensors": {{{a}, "b": {{"dtype": "I8", "shape": [4]}}}}}}"#), "b"),
        (
            format!(
                r#"{{"tensors": {{{a}, "b": {{"dtype": "I8", "shape": [2, 2]}}, "c": {{"dtype": "I8", "shape": []}}}}}}"#
            ),
            "c",
        ),
    ];
    let expected = ferry.at("expected.json");
    for (text, what) in wrong {
        std::fs::write(&expected, &text).unwrap();
        let outcome = ferry.run(args!["check", base, "--against", expected]).expect(1);
        assert!(outcome.stdout.contains(what), "{text}: {outcome}");
    }
}
