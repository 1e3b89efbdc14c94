//! Tests of archives whose parts contradict each other, or that expand to much more than their
//! length. They are tested as files, and inside distributed checkpoints and DeepSpeed checkpoints.

use super::bombs::{read, short};
use super::containers::{Files, STORAGE, Table, described, float, stored};
use ::zip::write::SimpleFileOptions;
use ::zip::{CompressionMethod, ZipWriter};
use std::io::{Cursor, Write as _};
use tensorferry_test_kit::pickle::{dict, pickle, text};
use tensorferry_test_kit::zip::{Zip, Zip64};
use tensorferry_tests::Ferry;

/// Returns a state dict of one tensor.
fn model() -> Zip {
    Zip::torch(&pickle(&dict(&[(text("w"), float())])), &[&STORAGE])
}

/// Returns an archive as a file, as an object of a distributed checkpoint, inside an exported
/// program, and as the model states of DeepSpeed.
fn places(archive: &[u8]) -> Vec<Files> {
    let table = Table { described: vec![(text("x"), described())], stored: vec![stored("x", archive.len())] };
    let mut exported = Zip::default();
    exported.add("archive_format", b"pt2");
    exported.add("models/model.json", b"{}");
    exported.add("data/weights/model.pt", archive);
    exported.add(".data/version", b"6\n");
    let files = |container, files: &[(&str, Vec<u8>)]| Files {
        container,
        files: files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect(),
    };
    vec![
        files("zip", &[("model.pt", archive.to_vec())]),
        files("distributed", &[(".metadata", pickle(&table.metadata())), ("__0_0.distcp", archive.to_vec())]),
        files("exported", &[("model.pt2", exported.bytes())]),
        files(
            "deepspeed",
            &[
                ("latest", b"step".to_vec()),
                ("step/mp_rank_00_model_states.pt", archive.to_vec()),
                ("step/zero_pp_rank_0_mp_rank_00_optim_states.pt", model().bytes()),
            ],
        ),
    ]
}

/// Text of the refusal, and the fault that causes it.
type Case = (&'static str, fn(&mut Zip));

const CASES: [Case; 18] = [
    ("names that are equal", |zip| drop(zip.add("data.pkl", b"x").clone())),
    ("only in case", |zip| drop(zip.add("DATA.PKL", b"x").clone())),
    ("only in case", |zip| drop(zip.add("Data/0", b"x").clone())),
    ("different names", |zip| zip.entry("data/0").local.name = b"m/data/1".to_vec()),
    ("different lengths", |zip| zip.entry("data/0").local.len = 15),
    ("different compression methods", |zip| zip.entry("data/0").local.method = 8),
    ("different CRCs", |zip| zip.entry("data/0").local.crc = 1),
    ("different flags", |zip| zip.entry("data/0").local.flags = 0x800),
    ("encrypted", |zip| zip.entry("data/0").central.flags = 1),
    ("two lengths", |zip| zip.entry("data/0").central.len = 15),
    ("overlaps", |zip| zip.entry("version").offset = Some(1)),
    ("point to a local header", |zip| zip.entry("data.pkl").offset = Some(1)),
    ("reaches past the end", |zip| zip.entry("version").offset = Some(0x7fff_ffff)),
    ("too short for its entries", |zip| zip.count = Some(0xfff0)),
    ("extra bytes after the last entry", |zip| zip.count = Some(2)),
    ("disagree", |zip| zip.zip64 = Some(Zip64 { more_entries: 1 << 60, ..Zip64::default() })),
    ("outside of the archive's root", |zip| {
        let entry = zip.add("x", b"");
        (entry.local.name, entry.central.name) = (b"n/x".to_vec(), b"n/x".to_vec());
    }),
    ("..", |zip| {
        let entry = zip.add("x", b"");
        (entry.local.name, entry.central.name) = (b"m/../x".to_vec(), b"m/../x".to_vec());
    }),
];

#[test]
fn parts_that_disagree_are_refused_wherever_the_archive_is() {
    let ferry = Ferry::new();
    let mut wrong = Vec::new();
    for (index, (says, tamper)) in CASES.into_iter().enumerate() {
        let mut zip = model();
        tamper(&mut zip);
        for files in places(&zip.bytes()) {
            let outcome = read(&ferry, &files);
            let is_refused = outcome.code == Some(3) && outcome.stderr.contains(says);
            if !is_refused || !outcome.stderr.contains("offset") {
                wrong.push(format!("case {index}, {says:?}, in {}: {}", files.container, short(&outcome)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn the_archive_that_is_tampered_with_is_sound() {
    let ferry = Ferry::new();
    for files in places(&model().bytes()) {
        // In a DeepSpeed checkpoint, the archive is also valid, but the buffers are missing.
        let code = if files.container == "deepspeed" { 3 } else { 0 };
        let outcome = read(&ferry, &files).expect(code);
        assert!(code == 0 || outcome.stderr.contains("buffer_names"), "{outcome}");
    }
}

/// Returns an archive of the members that torch writes. One of the members is compressed, and
/// decompresses to 256 MiB.
fn compressed(long: &str) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let deflated = stored.compression_method(CompressionMethod::Deflated);
    for name in ["data.pkl", "data/0", "version", "byteorder", "constants.pkl", "extra/note.txt"] {
        let is_extra = ["constants.pkl", "extra/note.txt"].contains(&name);
        if name == long {
            archive.start_file(format!("m/{name}"), deflated).unwrap();
            let zeros = vec![0; 1 << 20];
            (0..256).for_each(|_| archive.write_all(&zeros).unwrap());
        } else if !is_extra || long.starts_with("extra") {
            archive.start_file(format!("m/{name}"), stored).unwrap();
            let content = match name {
                "data.pkl" => pickle(&dict(&[(text("w"), float())])),
                "data/0" => STORAGE.to_vec(),
                "version" => b"3\n".to_vec(),
                "byteorder" => b"little".to_vec(),
                _ => pickle(b")"),
            };
            archive.write_all(&content).unwrap();
        }
    }
    archive.finish().unwrap().into_inner()
}

#[test]
#[ignore = "half a minute: archives that hold a gigabyte"]
fn nothing_is_unpacked() {
    let ferry = Ferry::new();
    for (long, code) in
        [("data.pkl", 3), ("data/0", 3), ("version", 3), ("byteorder", 3), ("extra/note.txt", 0)]
    {
        for files in places(&compressed(long)) {
            let outcome = read(&ferry, &files);
            let is_right = match (files.container, code) {
                // A TorchScript archive is not part of a checkpoint.
                ("zip", 0) => outcome.code == Some(0),
                _ => outcome.code == Some(3) && (code == 0 || outcome.stderr.contains("compressed")),
            };
            assert!(is_right, "{long} in {}: {}", files.container, short(&outcome));
        }
    }
}
