//! Tests that `show` prints the same text as numpy, and that `diff` finds the same differences as
//! numpy.

use serde_json::Value;
use tensorferry_tests::{Ferry, args, python};

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn numpy_prints_the_same_and_finds_the_same_differences() {
    let ferry = Ferry::new();
    let folder = ferry.at("made");
    std::fs::create_dir(&folder).unwrap();
    python::script("show_make.py", args![folder]).expect(0);
    let [arrays, changed] = ["arrays.npz", "changed.npz"].map(|name| folder.join(name));
    prints(&ferry, &arrays, &std::fs::read(folder.join("expected.json")).unwrap());
    differs(&ferry, &arrays, &changed);
}

fn prints(ferry: &Ferry, arrays: &std::path::Path, expected: &[u8]) {
    let expected: Vec<(String, Option<String>, u64, String)> = serde_json::from_slice(expected).unwrap();
    let mut compared = 0;
    for width in [75, 120] {
        let of_width: Vec<_> = expected.iter().filter(|one| one.2 == width).collect();
        let name = |name: &str, index: Option<&String>| match index {
            Some(index) => format!("{name}[{index}]"),
            None => name.to_owned(),
        };
        let mut words = vec!["show".to_owned(), arrays.display().to_string(), format!("--width={width}")];
        words.extend(of_width.iter().map(|(array, index, ..)| name(array, index.as_ref())));
        let mut shown = &*ferry.run(&words).expect(0).stdout;
        for (array, index, _, text) in of_width {
            let name = name(array, index.as_ref());
            let (header, rest) = shown.split_once('\n').unwrap();
            assert!(header.starts_with(&format!("{name}: ")), "{header}");
            assert!(rest.starts_with(&format!("{text}\n")), "{header}\nnumpy:\n{text}\nferry:\n{rest:.2000}");
            shown = rest[text.len() + 1..].trim_start_matches('\n');
            compared += 1;
        }
        assert_eq!(shown, "");
    }
    assert!(compared > 500, "{compared}");
}

fn differs(ferry: &Ferry, a: &std::path::Path, b: &std::path::Path) {
    let expected = python::script("diff_numpy.py", args![b, a]).expect(0).json();
    let found = ferry.diff(b, a, &["--json"]).expect(1).json();
    let number = |value: &Value| match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.as_f64().unwrap_or(0.0),
    };
    let near = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let mut compared = 0;
    for difference in found["differences"].as_array().unwrap() {
        let name = difference["name"].as_str().unwrap();
        let Some(expected) = expected.get(name) else { continue };
        if difference["kind"] != "content" {
            continue;
        }
        assert_eq!(difference["nan"], expected["nan"], "{difference} {expected}");
        for key in ["elements", "largest", "relative"] {
            assert!(near(number(&difference[key]), number(&expected[key])), "{key}: {difference} {expected}");
        }
        if let (Some(cosine), Some(wanted)) = (difference["cosine"].as_f64(), expected["cosine"].as_f64()) {
            assert!((cosine - wanted).abs() < 1e-9, "{difference} {expected}");
        }
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}
