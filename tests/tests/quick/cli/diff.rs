//! Tests that `diff` and `check` find each kind of difference, and report it on stdout.

use tensorferry_tests::fixtures::{case, cases};
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

#[test]
fn the_worst_comes_first_and_ci_chooses_what_fails() {
    let ferry = Ferry::new();
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let halves = |values: &[f32]| -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()[2..].to_vec()).collect()
    };
    let (small, large) = (floats(&[1000.0, 2.0, f32::NAN]), floats(&[1.0, 0.5, 3.0, 4.0]));
    let (small_b, large_b) = (floats(&[1000.5, 2.0, f32::NAN]), floats(&[1.0, 0.25, 3.0, 4.0]));
    let a = ferry.safetensors("a.safetensors", &[("x", "F32", &[3], &small), ("y", "F32", &[2, 2], &large)]);
    let b =
        ferry.safetensors("b.safetensors", &[("x", "F32", &[3], &small_b), ("y", "F32", &[2, 2], &large_b)]);
    let found = ferry.diff(&a, &b, &["--json"]).expect(1).json();
    let (x, y) = (&found["differences"][0], &found["differences"][1]);
    assert_eq!((&x["name"], &x["largest"], &x["largest_at"]), (&"x".into(), &0.5.into(), &vec![0].into()));
    assert_eq!((&x["elements"], &x["of"], &x["nan"]), (&1.into(), &3.into(), &0.into()));
    assert_eq!((&y["largest_at"], &y["relative"]), (&vec![0, 1].into(), &0.5.into()));
    assert_eq!(y["largest_values"], serde_json::json!([0.5, 0.25]));
    assert!((y["cosine"].as_f64().unwrap() - 26.125 / (26.25_f64 * 26.0625).sqrt()).abs() < 1e-12, "{y}");
    ferry.diff(&a, &b, &["--max-diff", "0.5"]).expect(0).prints(&["within 0.5: 2 differences"]);
    ferry
        .diff(&a, &b, &["--max-diff", "0.4"])
        .expect(1)
        .prints(&["over 0.4: 1 of 2 differences", "by 0.5 at [0]"]);
    let relative = ferry.diff(&a, &b, &["--max-diff", "0.1,relative", "--json"]).expect(1).json();
    assert_eq!(
        (&relative["differences"][0]["name"], &relative["max_diff"]["over"]),
        (&"y".into(), &1.into())
    );
    ferry.diff(&a, &b, &["--max-diff", "0.5,relative"]).expect(0);
    // If the dtypes differ, the values are compared, and the difference in dtype is not a failure.
    let halved = ferry.safetensors(
        "half.safetensors",
        &[
            ("x", "BF16", &[3], &halves(&[1000.0, 2.0, f32::NAN])),
            ("y", "BF16", &[2, 2], &halves(&[1.0, 0.5, 3.0, 4.0])),
        ],
    );
    ferry.diff(&a, &halved, &[]).expect(1).prints(&["F32 in A, BF16 in B"]);
    ferry.diff(&a, &halved, &["--max-diff", "0"]).expect(0).prints(&["within 0: 2 differences"]);
    // Differences in names or shapes always fail, as does a NaN that is compared with a number.
    let nan = floats(&[1000.0, 2.0, 5.0]);
    for (name, tensors, says) in [
        ("missing", &[("x", "F32", &[3_u64][..], &small[..])][..], "y  only in A"),
        ("nan", &[("x", "F32", &[3], &nan), ("y", "F32", &[2, 2], &large)], "1 NaN on one side"),
        ("shape", &[("x", "F32", &[3], &small), ("y", "F32", &[4], &large)], "[2, 2] in A, [4] in B"),
    ] {
        let other = ferry.safetensors(&format!("{name}.safetensors"), tensors);
        ferry.diff(&a, &other, &["--max-diff", "1e30"]).expect(1).prints(&[says]);
    }
    for wrong in ["x", "-1", "1,sideways", "nan"] {
        ferry.diff(&a, &b, &[&format!("--max-diff={wrong}")]).expect(2);
    }
}

#[test]
fn zeros_of_two_signs_differ_in_their_bits_alone() {
    let ferry = Ferry::new();
    let a = ferry.safetensors("a.safetensors", &[("x", "F32", &[1], &[0, 0, 0, 0])]);
    let b = ferry.safetensors("b.safetensors", &[("x", "F32", &[1], &[0, 0, 0, 128])]);
    ferry.diff(&a, &b, &[]).expect(1).prints(&["the same numbers in different bits"]);
    ferry.diff(&a, &b, &["--max-diff", "0"]).expect(0);
    ferry.diff(&a, &b, &["--atol", "0"]).expect(0);
    // For any tolerance, a different dtype is a difference. Numbers within the tolerance need not
    // be equal.
    let c = ferry.safetensors("c.safetensors", &[("x", "BF16", &[1], &[0, 0x3F])]);
    ferry
        .diff(&a, &c, &["--atol", "1"])
        .expect(1)
        .prints(&["F32 in A, BF16 in B: all numbers within the tolerance"]);
}
