//! Tests of hand-built bundles. The bundles contain table styles, slices, byte orders, sizes and
//! numbers that TensorFlow's own writers rarely or never write. Some bundles are damaged.

use tempfile::tempdir;
use tensorferry_tests::bundle::{Bundle, Entry, dtype};
use tensorferry_tests::fixtures::inspected;
use tensorferry_tests::table::{Blocks, PLAIN, Style, contents};
use tensorferry_tests::{Ferry, args};

/// Checks that ferry lists the bundle's tensors, and copies them to a different bundle.
fn arrives(ferry: &Ferry, bundle: &Bundle, style: &Style) {
    let folder = tempdir().unwrap();
    bundle.write(folder.path(), "m", style);
    let [input, copy] = ["m", "copy"].map(|name| folder.path().join(name));
    assert_eq!(ferry.tensors(&input), bundle.expected, "{style:?}");
    ferry.convert(&input, &copy, &["--to", "tf-bundle", "--strict"]);
    assert_eq!(ferry.tensors(&copy), bundle.expected, "{style:?}");
}

#[test]
fn every_style_of_table_is_read() {
    let ferry = Ferry::new();
    let small = Style { block_bytes: 200, ..Style::default() };
    let styles = [
        Style::default(),
        Style { shares: false, ..Style::default() },
        Style { snappy: true, ..Style::default() },
        Style { snappy: true, ..small.clone() },
        Style { shares: false, shortens: false, snappy: true, ..small.clone() },
        Style { restart_interval: 1, ..small.clone() },
        Style { restart_interval: 1000, block_bytes: 4096, ..Style::default() },
        Style { block_bytes: 1, ..Style::default() },
        Style { after_handle: b"\x07more", ..small },
    ];
    let bundle = Bundle::of_every_dtype(false, 1);
    assert_eq!(bundle.expected.len(), 93);
    for style in styles {
        arrives(&ferry, &bundle, &style);
    }
}

#[test]
fn aligned_data_is_read() {
    let ferry = Ferry::new();
    let bundle = Bundle::of_every_dtype(false, 64);
    assert!(bundle.shards.iter().all(|data| data.len() > 64));
    arrives(&ferry, &bundle, &Style::default());
}

#[test]
fn a_big_endian_bundle_is_read() {
    let ferry = Ferry::new();
    arrives(&ferry, &Bundle::of_every_dtype(true, 1), &Style::default());
}

#[test]
fn slices_of_every_dtype_are_joined() {
    let ferry = Ferry::new();
    for big_endian in [false, true] {
        let bundle = Bundle::of_slices(big_endian);
        assert_eq!(bundle.expected.len(), 31 * 4);
        arrives(&ferry, &bundle, &Style::default());
    }
}

#[test]
fn slices_of_odd_names_and_high_ranks_are_joined() {
    let ferry = Ferry::new();
    let mut bundle = Bundle::new(2);
    let bytes: Vec<u8> = (0..240_u8).collect();
    let u8 = dtype("U8");
    let halves = vec![vec![None, Some((0, 2)), None, None, None], vec![None, Some((2, 3)), None, None, None]];
    bundle.sliced("five", u8, &[2, 5, 4, 3, 2], &bytes, &halves);
    bundle.sliced("a\u{0}b", u8, &[240], &bytes, &[vec![Some((0, 100))], vec![Some((100, 140))]]);
    arrives(&ferry, &bundle, &Style::default());
}

#[test]
#[ignore = "many seconds without optimization"]
fn a_hundred_thousand_keys_are_read() {
    let ferry = Ferry::new();
    let mut bundle = Bundle::default();
    let f32 = dtype("F32");
    for index in 0..100_000_u32 {
        let name = format!("model/layers/{:03}/part_{:03}/scale", index / 1000, index % 1000);
        bundle.numbers(&name, f32, &[1], &index.to_le_bytes());
    }
    for style in [Style::default(), Style { snappy: true, block_bytes: 4096, ..Style::default() }] {
        bundle.write(ferry.home(), "m", &style);
        let [input, output] = ferry.paths(["m", "m.safetensors"]);
        assert_eq!(ferry.tensors(&input), bundle.expected);
        ferry.convert(&input, &output, &["--force"]);
        assert!(ferry.equal(&input, &output));
    }
}

#[test]
fn data_files_are_found_where_the_header_counts_others() {
    let ferry = Ferry::new();
    let mut bundle = Bundle::of_every_dtype(false, 1);
    // This is the result of a merge in which one input was empty. The header counts the files of
    // all inputs, but the file names count only the existing files.
    bundle.header = Some(Bundle::header(4, 0, 1, 0));
    bundle.write(ferry.home(), "m", &Style::default());
    assert_eq!(ferry.tensors(&ferry.at("m")), bundle.expected);
    // If two sets have such names, the choice is ambiguous.
    for (name, bytes) in bundle.data("m") {
        std::fs::write(ferry.at(name.replace("-of-00003", "-of-00007")), bytes).unwrap();
    }
    ferry.on("inspect", ferry.at("m.index"), &["--digest", "sha256"]).expect(3).says(&["m.data-0000"]);
}

#[test]
fn keys_that_are_no_text_find_their_way_back() {
    let ferry = Ferry::new();
    let mut bundle = Bundle::default();
    let key = b"\xffraw\x80key";
    let entry = bundle.numbers("plain", dtype("U8"), &[3], b"abc");
    bundle.set(key, &entry);
    bundle.write(ferry.home(), "m", &Style::default());
    let [input, there, back] = ferry.paths(["m", "there.safetensors", "back"]);
    let names: Vec<String> = ferry.tensors(&input).into_keys().collect();
    assert_eq!(names.join(" ").to_lowercase(), r"\xffraw\x80key plain");
    ferry.convert(&input, &there, &[]);
    ferry.convert(&there, &back, &["--to", "tf-bundle"]);
    assert_eq!(ferry.tensors(&back), ferry.tensors(&input));
    let index = std::fs::read(ferry.at("back.index")).unwrap();
    assert!(index.windows(key.len()).any(|window| window == key), "the key was changed");
}

#[test]
fn entries_of_one_place_are_tied() {
    let ferry = Ferry::new();
    let mut bundle = Bundle::default();
    let entry = bundle.numbers("a", dtype("F32"), &[2], b"01234567");
    bundle.set("b", &entry);
    bundle.write(ferry.home(), "m", &Style::default());
    let document = ferry.inspect(&ferry.at("m"));
    assert_eq!(document["tensors"][1]["tied_to"], "a", "{document}");
}

#[test]
fn variants_are_listed_as_lost_and_the_rest_is_read() {
    let ferry = Ferry::new();
    let mut bundle = Bundle::default();
    bundle.numbers("plain", dtype("F32"), &[2], b"01234567");
    for (key, dtype) in [("resource", 20), ("variant", 21)] {
        bundle.set(key, &Entry { dtype, size: 8, ..Entry::default() });
    }
    bundle.write(ferry.home(), "m", &Style::default());
    let document = ferry.inspect(&ferry.at("m"));
    assert_eq!(inspected(&document), bundle.expected);
    for name in ["resource", "variant"] {
        let losses = document["losses"].as_array().unwrap();
        let lost = losses.iter().find(|loss| loss["what"].as_str().is_some_and(|what| what.contains(name)));
        assert_eq!(lost.unwrap_or_else(|| panic!("{name}: {document}"))["kind"], "tensor");
    }
}

/// Tests that wrong checksums, an impossible size, and a table that names a block repeatedly are
/// rejected in bounded time and memory. The tests of tf-bundle cover other faults.
#[test]
fn bundles_that_lie_are_refused() {
    let ferry = Ferry::new();
    let input = ferry.at("m.index");
    let inspect = |says: &[&str]| {
        let arguments = args!["inspect", input, "--from", "tf-bundle", "--digest", "sha256"];
        ferry.run_bounded(arguments).expect(3).says(says);
    };
    let data = "m.data-00000-of-00001";
    let changes: [(fn(&mut Entry), &[&str]); 2] = [
        (|entry| entry.masked_crc ^= 1, &[data, "offset", "\"a\""]),
        (|entry| (entry.shape, entry.size) = (vec![1 << 60], 1 << 62), &[data, "\"a\""]),
    ];
    for (change, says) in changes {
        let mut bundle = Bundle::default();
        let mut entry = bundle.numbers("a", dtype("F32"), &[2, 3], &[7; 24]);
        change(&mut entry);
        bundle.set("a", &entry);
        bundle.write(ferry.home(), "m", &Style::default());
        inspect(says);
    }
    let header = [(Vec::new(), Bundle::header(1, 0, 1, 0))];
    let mut blocks = Blocks::default();
    let handle = blocks.push(&contents(&header, 16, true), PLAIN);
    let keys: Vec<_> = (0..100_000_u32).map(|at| [&b"z"[..], &at.to_be_bytes()].concat()).collect();
    let index: Vec<_> = keys.iter().map(|key| (&**key, handle)).collect();
    std::fs::write(&input, blocks.finish_with(&index, &Style::default())).unwrap();
    inspect(&["m.index", "block", "found 0"]);
}

#[test]
fn a_bundle_of_nothing_is_read() {
    let ferry = Ferry::new();
    let bundle = Bundle::default();
    std::fs::write(ferry.at("m.index"), bundle.index(&Style::default())).unwrap();
    // Without tensors, no data file is needed.
    assert!(ferry.tensors(&ferry.at("m.index")).is_empty());
}

#[test]
fn a_folder_of_several_checkpoints_asks_which() {
    let ferry = Ferry::new();
    let mut bundle = Bundle::default();
    bundle.numbers("w", dtype("F32"), &[2], b"01234567");
    for prefix in ["a", "b"] {
        bundle.write(ferry.home(), prefix, &Style::default());
    }
    let outcome = ferry.on("inspect", ferry.home(), &[]);
    assert!(matches!(outcome.code, Some(2 | 3)), "{outcome}");
    outcome.says(&["\"a\"", "\"b\""]);
    std::fs::write(ferry.at("checkpoint"), "model_checkpoint_path: \"b\"").unwrap();
    assert_eq!(ferry.tensors(ferry.home()), bundle.expected);
    assert_eq!(ferry.names().len(), 5);
}
