//! Tests files that declare far more than they contain. ferry must reject each file, or read it
//! with time and memory in proportion to its actual content.

use crate::common::archive;
use crate::h5::{FIXED, H5, U8, UNDEFINED_ADDRESS, VARIABLE, attribute, chunked, link, links};
use std::time::{Duration, Instant};
use tensorferry_keras::Keras;
use tensorferry_sdk::memory::{MemoryView, pairs};
use tensorferry_sdk::{ErrorKind, Limits, MemoryContext, MemorySource, Result};

/// Memory limit in bytes for this process, which runs all tests, and time limit for reading each
/// hostile file.
const MAX_COST: (u64, Duration) = (768 << 20, Duration::from_secs(30));
/// Returns `count` references to the first `len` bytes of a string in a heap.
fn references(count: usize, len: u32, heap: u64, number: u32) -> Vec<u8> {
    [&len.to_le_bytes()[..], &heap.to_le_bytes(), &number.to_le_bytes()].concat().repeat(count)
}

/// Builds a dataset of 100,000 elements that all refer to one string of 60,000 bytes in a heap.
fn one_text() -> Vec<u8> {
    let mut file = H5::new();
    let heap = file.heap(&[&[b'x'; 60_000]]);
    let dataset = file.elements(VARIABLE, 100_000, &references(100_000, 60_000, heap, 1));
    let root = file.object(&vec![link("w", dataset)]);
    file.end(root)
}

/// Builds a dataset of half a million elements that all refer to the last of 65,000 objects in a
/// heap.
fn far_in_its_heap() -> Vec<u8> {
    let mut file = H5::new();
    let heap = file.heap(&vec![&b"x"[..]; 65_000]);
    let dataset = file.elements(VARIABLE, 500_000, &references(500_000, 1, heap, 1));
    let root = file.object(&vec![link("w", dataset)]);
    file.end(root)
}

/// Builds a dataset that contains 16 million one-byte strings.
fn short_texts() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.elements(FIXED, 16_000_000, &vec![b'x'; 16_000_000]);
    let root = file.object(&vec![link("w", dataset)]);
    file.end(root)
}

/// Builds a file with 900 links to one group, which has a list of 60,000 names.
fn one_list() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.elements(U8, 1, &[0]);
    let names = attribute("weight_names", FIXED, 60_000, &[b'w'; 60_000]);
    let layer = file.object(&vec![names, link("w", dataset)]);
    let root = file.object(&links(900, layer));
    file.end(root)
}

/// Builds a file with 900 links to one dataset, which contains a million one-byte strings.
fn one_dataset() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.elements(FIXED, 1_000_000, &vec![b'x'; 1_000_000]);
    let root = file.object(&links(900, dataset));
    file.end(root)
}

/// Builds a file with 100,000 links in a group whose name is 60,000 bytes long.
fn long_paths() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.elements(U8, 1, &[0]);
    let group = file.object(&links(100_000, dataset));
    let root = file.object(&vec![link(&"g".repeat(60_000), group)]);
    file.end(root)
}

/// Builds a file whose layer list contains the same layer 60,000 times. That layer's weight list
/// contains the same weight 60,000 times.
fn lists_of_lists() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.elements(U8, 1, &[0]);
    let names = attribute("weight_names", FIXED, 60_000, &[b'w'; 60_000]);
    let layer = file.object(&vec![names, link("w", dataset)]);
    let root = file.object(&vec![attribute("layer_names", FIXED, 60_000, &[b'a'; 60_000]), link("a", layer)]);
    file.end(root)
}

/// Builds a dataset with 16 million chunks, all of which are missing.
fn no_chunk() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.dataset(U8, 16_000_000, chunked(UNDEFINED_ADDRESS));
    let root = file.object(&vec![link("w", dataset)]);
    file.end(root)
}

/// Builds a file with `names` links to one dataset. The dataset has `chunks` chunks, and all but
/// one are missing.
fn one_chunk(chunks: u64, names: usize) -> Vec<u8> {
    let mut file = H5::new();
    let chunk = file.put(&[7]);
    let key = |offset: u64| [&1_u32.to_le_bytes()[..], &[0; 4], &offset.to_le_bytes(), &[0; 8]].concat();
    let node = [
        b"TREE\x01\0\x01\0",
        &UNDEFINED_ADDRESS[..],
        &UNDEFINED_ADDRESS,
        &key(0),
        &chunk.to_le_bytes(),
        &key(chunks),
    ];
    let tree = file.put(&[&node.concat()[..], &[0; 2048]].concat());
    let dataset = file.dataset(U8, chunks, chunked(tree.to_le_bytes()));
    let root = file.object(&links(names, dataset));
    file.end(root)
}

/// Builds a configuration of 32 MB that contains eleven million lists.
fn long_configuration() -> Vec<u8> {
    let lists = format!("[[]{}]", ",[]".repeat(11_000_000));
    archive(&[("config.json", lists.as_bytes()), ("model.weights.h5", &no_chunk())])
}

/// Reads a file with a header limit of 256 MiB. Returns the number of tensors.
fn read(name: &str, bytes: Vec<u8>) -> Result<usize> {
    let mut limits = Limits::default();
    limits.header_bytes = 256 << 20;
    let context = MemoryContext::new(limits);
    let source = MemorySource::file(name, bytes);
    MemoryView::read(&Keras, &pairs(&[]), &source, &context).map(|view| view.catalog().tensors().len())
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn small_files_stay_small() {
    let again = Err("too many times");
    for (name, file, answer) in [
        ("one string for many", one_text(), again),
        ("a heap of many strings", far_in_its_heap(), Ok(1)),
        ("short strings", short_texts(), Ok(1)),
        ("a list for many groups", one_list(), Ok(900)),
        ("strings for many names", one_dataset(), Err("share stored bytes too often")),
        ("long paths", long_paths(), Err("header_bytes")),
        ("one layer, one weight", lists_of_lists(), Ok(1)),
        ("no chunk", no_chunk(), Ok(1)),
        ("one chunk of many", one_chunk(16_000_000, 1), Err("entries")),
        ("one chunk under many names", one_chunk(100_000, 100), Err("entries")),
        ("a few chunks", one_chunk(1000, 2), Ok(2)),
    ] {
        check(name, "m.weights.h5", file, answer);
    }
    check("a long configuration", "m.keras", long_configuration(), Err("nodes"));
}

fn check(name: &str, file: &str, bytes: Vec<u8>, answer: Result<usize, &str>) {
    let clock = Instant::now();
    match (read(file, bytes), answer) {
        (Ok(count), Ok(expected)) => assert_eq!(count, expected, "{name}"),
        (Err(error), Err(word)) => {
            let hint = error.details().find(|(name, _)| *name == "hint").map(|(_, text)| text);
            let text = format!("{error} {}", hint.unwrap_or_default());
            assert!(error.kind() == ErrorKind::Limit && text.contains(word), "{name}: {text}");
        }
        (found, _) => panic!("{name}: {found:?}"),
    }
    println!("{name}: {:?}, {} MiB", clock.elapsed(), peak() >> 20);
    assert!(clock.elapsed() < MAX_COST.1, "{name}: {:?}", clock.elapsed());
    assert!(peak() < MAX_COST.0, "{name}: {} bytes", peak());
}
