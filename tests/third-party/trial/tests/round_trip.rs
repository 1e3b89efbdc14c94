//! Writes the sample with each writer in memory, and checks that it is read back bit for bit.
#![expect(clippy::unwrap_used, reason = "tests")]

use ferry_trial::{Trial, sample};
use std::collections::BTreeMap;
use std::path::Path;
use tensorferry_sdk::conformance::{Sample, check};
use tensorferry_sdk::memory::{MemoryView, write};
use tensorferry_sdk::{Content, Data, Entry, MemoryContext, MemorySource, Segment, Target};

type Tensors = BTreeMap<String, (String, Vec<u64>, Vec<u8>)>;

fn source(name: &str, files: BTreeMap<String, Vec<u8>>) -> MemorySource {
    MemorySource::new(Entry::File(name.to_owned()), files)
}

fn tensors(view: &MemoryView<'_>) -> Tensors {
    let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
    names.map(|name| (name.clone(), view.tensor_named(&name).unwrap())).collect()
}

/// Returns the names of tied tensors.
fn ties(view: &MemoryView<'_>) -> Vec<(String, String)> {
    let catalog = view.catalog();
    let name = |index: usize| catalog.tensors()[index].name.clone();
    let pairs = catalog.ties().into_iter().enumerate().map(|(index, first)| (index, first.0 as usize));
    pairs.filter(|(index, first)| index != first).map(|(index, first)| (name(index), name(first))).collect()
}

/// Returns the options of every way to write, as text and value.
fn ways() -> Vec<Vec<(String, String)>> {
    let way = |data: &str, key: &str, value: &str| {
        let options = [("data", data), ("files", "3"), (key, value)];
        options.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec()
    };
    vec![
        way("grid", "pieces", "1"),
        way("grid", "pieces", "2"),
        way("grid", "pieces", "3"),
        way("carry", "pieces", "2"),
        way("encode", "chunk", "1"),
        way("encode", "chunk", "64KiB"),
        way("tiles", "pieces", "1"),
        way("tiles", "pieces", "3"),
    ]
}

#[test]
fn the_sample_is_what_it_was() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample");
    let files = sample();
    if std::env::var_os("FERRY_BLESS").is_some() {
        for (name, bytes) in &files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), files.len());
    for (name, bytes) in files {
        assert!(std::fs::read(folder.join(&name)).unwrap() == bytes, "{name}: refresh with FERRY_BLESS=1");
    }
}

#[test]
fn tiles_are_read_as_a_grid() {
    let context = MemoryContext::default();
    let made = source("sample.trial", sample());
    let view = MemoryView::read(&Trial, &[], &made, &context).unwrap();
    let options = [("data", "tiles"), ("pieces", "3")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let written = write(&Trial, &options, &view, &Target::File("out.trial".to_owned()), &context).unwrap();
    let written = source("out.trial", written.files);
    let again = MemoryView::read(&Trial, &[], &written, &context).unwrap();
    let grids =
        again.catalog().tensors().iter().filter(|tensor| matches!(tensor.data, Data::Grid(_))).count();
    assert!(grids > 3, "{grids}");
    assert_eq!(tensors(&again), tensors(&view));
}

#[test]
fn the_sample_reads_as_it_was_meant() {
    let context = MemoryContext::default();
    let source = source("sample.trial", sample());
    let view = MemoryView::read(&Trial, &[], &source, &context).unwrap();
    let found = tensors(&view);
    let i16s = |values: &[i16]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let grid = (0..4_u8).flat_map(|i| (0..6).map(move |j| f32::from(10 * i + j))).flat_map(f32::to_le_bytes);
    assert_eq!(found["grid"], ("F32".to_owned(), vec![4, 6], grid.collect()));
    assert_eq!(found["tied"], found["grid"]);
    assert_eq!(found["transposed"].2, i16s(&[0, 2, 4, 1, 3, 5]));
    assert_eq!(found["reversed"].2, i16s(&[5, 4, 3, 2, 1, 0]));
    assert_eq!(found["overlapping"].2, i16s(&[0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5]));
    assert_eq!(found["repeated"].2, i16s(&[3; 10]));
    assert_eq!(found["scalar"], ("I16".to_owned(), vec![], i16s(&[2])));
    assert_eq!(found["empty"], ("F64".to_owned(), vec![0, 3], Vec::new()));
    assert_eq!(found["quantized"], ("Q4_0".to_owned(), vec![2, 32], (0..36).collect()));
    assert_eq!(found["strings"].2.len(), 3 * 8 + 5 + 3);
    let f64s = |numbers: [u8; 6]| {
        numbers.iter().flat_map(|i| (f64::from(*i) + 0.5).to_le_bytes()).collect::<Vec<u8>>()
    };
    assert_eq!(found["joined"], ("F64".to_owned(), vec![2, 3], f64s([0, 1, 2, 3, 4, 5])));
    assert_eq!(found["joined and turned"], ("F64".to_owned(), vec![3, 2], f64s([0, 3, 1, 4, 2, 5])));
    assert_eq!(found.len(), 12);
    assert_eq!(ties(&view), [("tied".to_owned(), "grid".to_owned())]);
}

#[test]
fn every_way_of_writing_comes_back_bit_for_bit() {
    let context = MemoryContext::default();
    let first = source("sample.trial", sample());
    let view = MemoryView::read(&Trial, &[], &first, &context).unwrap();
    let (expected, expected_ties) = (tensors(&view), ties(&view));
    for options in ways() {
        let output = write(&Trial, &options, &view, &Target::File("out.trial".to_owned()), &context).unwrap();
        assert!(output.layout.losses().is_empty());
        assert_eq!(output.files.len(), 4);
        let second = source("out.trial", output.files);
        let back = MemoryView::read(&Trial, &[], &second, &context).unwrap();
        assert_eq!(tensors(&back), expected, "{options:?}");
        assert_eq!(ties(&back), expected_ties, "{options:?}");
        assert_eq!(back.catalog().metadata(), view.catalog().metadata());
        let attributes = |view: &MemoryView<'_>| {
            let tensors = view.catalog().tensors().iter();
            tensors.map(|tensor| (tensor.name.clone(), tensor.attributes.clone())).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(attributes(&back), attributes(&view), "{options:?}");
        assert_eq!(back.catalog().origin(), "trial");
    }
}

/// The format must use every kind of segment, because the tests of the host depend on that.
#[test]
fn every_kind_of_segment_is_used() {
    let context = MemoryContext::default();
    let source = source("sample.trial", sample());
    let view = MemoryView::read(&Trial, &[], &source, &context).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for options in ways() {
        let target = Target::File("out.trial".to_owned());
        let layout = write(&Trial, &options, &view, &target, &context).unwrap().layout;
        for file in layout.files() {
            let segments = match &file.content {
                Content::Copied(segments) => segments,
                Content::Streamed => {
                    seen.insert("streamed");
                    continue;
                }
                Content::Late => {
                    seen.insert("late");
                    continue;
                }
            };
            seen.extend(segments.iter().map(|placed| match &placed.segment {
                Segment::Tensor(part) if part.region.is_none() => "whole tensor",
                Segment::Tensor(_) => "part of a tensor",
                Segment::Storage { swap_unit: 1, .. } => "storage",
                Segment::Storage { .. } => "storage turned around",
                Segment::Pad => "pad",
                Segment::Encoded(_) => "encoded",
                Segment::Source(_) => "another input's",
                Segment::Deferred(_) => "deferred",
                Segment::Bytes(_) => "bytes",
            }));
        }
    }
    let expected = [
        "deferred",
        "encoded",
        "late",
        "pad",
        "part of a tensor",
        "storage",
        "storage turned around",
        "streamed",
        "whole tensor",
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn damage_is_found() {
    let context = MemoryContext::default();
    let files = sample();
    let check = |files: BTreeMap<String, Vec<u8>>| -> tensorferry_sdk::Result<()> {
        let source = source("sample.trial", files);
        let view = MemoryView::read(&Trial, &[], &source, &context)?;
        let names: Vec<_> = view.catalog().tensors().iter().map(|tensor| tensor.name.clone()).collect();
        names.iter().try_for_each(|name| view.tensor_named(name).map(drop))
    };
    assert!(check(files.clone()).is_ok());
    for (name, bytes) in &files {
        for place in 0..bytes.len() {
            let mut cut = files.clone();
            cut.get_mut(name).unwrap().truncate(place);
            assert!(check(cut).is_err(), "{name} cut at {place}");
            let mut flipped = files.clone();
            flipped.get_mut(name).unwrap()[place] ^= 0x40;
            // The reader ignores bits between storages and in the CRC of a data file.
            let covered = name == "sample.trial" || place < 8;
            assert!(check(flipped).is_err() || !covered, "{name} flipped at {place}");
        }
    }
    let mut missing = files;
    missing.remove("sample.trial.1");
    assert!(check(missing).is_err());
}

/// Runs the conformance suite, which covers typed metadata, attributes of tensors, and storages
/// that are joined from other storages.
#[test]
fn the_conformance_suite_holds() {
    let sample = Sample::set(Entry::File("sample.trial".to_owned()), sample());
    let report = check(&Trial, &[sample.holding(&["grid", "joined and turned", "strings"])]);
    assert!(report.written > 100, "{report:?}");
    assert_eq!(report.refused, [] as [String; 0]);
}
