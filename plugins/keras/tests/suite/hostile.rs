//! Files that claim far more than they have: each is refused, or read, in the time and memory of what is there.

use crate::common::archive;
use crate::h5::{FIXED, H5, NOWHERE, U8, VARIABLE, attribute, chunked, link, links};
use std::time::{Duration, Instant};
use tensorferry_keras::Keras;
use tensorferry_sdk::memory::{MemoryView, pairs};
use tensorferry_sdk::{ErrorKind, Limits, MemoryContext, MemorySource, Result};

/// Most memory of this process, with all of its tests, and most seconds of one attack.
const MOST: (u64, Duration) = (768 << 20, Duration::from_secs(30));
/// So many references to the first bytes of a heap's text.
fn references(count: usize, len: u32, heap: u64, number: u32) -> Vec<u8> {
    [&len.to_le_bytes()[..], &heap.to_le_bytes(), &number.to_le_bytes()].concat().repeat(count)
}

/// A text of 60,000 bytes in a heap, to which 100,000 elements refer.
fn one_text() -> Vec<u8> {
    let mut file = H5::new();
    let heap = file.heap(&[&[b'x'; 60_000]]);
    let dataset = file.elements(VARIABLE, 100_000, &references(100_000, 60_000, heap, 1));
    let root = file.object(&vec![link("w", dataset)]);
    file.end(root)
}

/// Half a million elements that refer to the last object of a heap of 65,000.
fn far_in_its_heap() -> Vec<u8> {
    let mut file = H5::new();
    let heap = file.heap(&vec![&b"x"[..]; 65_000]);
    let dataset = file.elements(VARIABLE, 500_000, &references(500_000, 1, heap, 1));
    let root = file.object(&vec![link("w", dataset)]);
    file.end(root)
}

/// 16 million texts of a byte.
fn short_texts() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.elements(FIXED, 16_000_000, &vec![b'x'; 16_000_000]);
    let root = file.object(&vec![link("w", dataset)]);
    file.end(root)
}

/// A group with a list of 60,000 names, to which 900 links lead.
fn one_list() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.elements(U8, 1, &[0]);
    let names = attribute("weight_names", FIXED, 60_000, &[b'w'; 60_000]);
    let layer = file.object(&vec![names, link("w", dataset)]);
    let root = file.object(&links(900, layer));
    file.end(root)
}

/// A million texts of a byte, to which 900 links lead.
fn one_dataset() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.elements(FIXED, 1_000_000, &vec![b'x'; 1_000_000]);
    let root = file.object(&links(900, dataset));
    file.end(root)
}

/// 100,000 links in a group whose name is 60,000 bytes.
fn long_paths() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.elements(U8, 1, &[0]);
    let group = file.object(&links(100_000, dataset));
    let root = file.object(&vec![link(&"g".repeat(60_000), group)]);
    file.end(root)
}

/// A list of 60,000 times one layer, whose list has 60,000 times one weight.
fn lists_of_lists() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.elements(U8, 1, &[0]);
    let names = attribute("weight_names", FIXED, 60_000, &[b'w'; 60_000]);
    let layer = file.object(&vec![names, link("w", dataset)]);
    let root = file.object(&vec![attribute("layer_names", FIXED, 60_000, &[b'a'; 60_000]), link("a", layer)]);
    file.end(root)
}

/// Sixteen million chunks, none of which is there.
fn no_chunk() -> Vec<u8> {
    let mut file = H5::new();
    let dataset = file.dataset(U8, 16_000_000, chunked(NOWHERE));
    let root = file.object(&vec![link("w", dataset)]);
    file.end(root)
}

/// Datasets of so many chunks, one of which is there, under so many names.
fn one_chunk(chunks: u64, names: usize) -> Vec<u8> {
    let mut file = H5::new();
    let chunk = file.put(&[7]);
    let key = |offset: u64| [&1_u32.to_le_bytes()[..], &[0; 4], &offset.to_le_bytes(), &[0; 8]].concat();
    let node = [b"TREE\x01\0\x01\0", &NOWHERE[..], &NOWHERE, &key(0), &chunk.to_le_bytes(), &key(chunks)];
    let tree = file.put(&[&node.concat()[..], &[0; 2048]].concat());
    let dataset = file.dataset(U8, chunks, chunked(tree.to_le_bytes()));
    let root = file.object(&links(names, dataset));
    file.end(root)
}

/// A configuration of 32 MB: eleven million lists.
fn long_configuration() -> Vec<u8> {
    let lists = format!("[[]{}]", ",[]".repeat(11_000_000));
    archive(&[("config.json", lists.as_bytes()), ("model.weights.h5", &no_chunk())])
}

/// Reads a file with at most 256 MiB for what is held; gives how many tensors it has.
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
    let again = Err("again and again");
    for (name, file, answer) in [
        ("a text for many", one_text(), again),
        ("a heap of many texts", far_in_its_heap(), Ok(1)),
        ("short texts", short_texts(), Ok(1)),
        ("a list for many groups", one_list(), Ok(900)),
        ("texts for many names", one_dataset(), Err("share stored bytes too often")),
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
            assert!(error.kind() == ErrorKind::Limit && error.to_string().contains(word), "{name}: {error}");
        }
        (found, _) => panic!("{name}: {found:?}"),
    }
    println!("{name}: {:?}, {} MiB", clock.elapsed(), peak() >> 20);
    assert!(clock.elapsed() < MOST.1, "{name}: {:?}", clock.elapsed());
    assert!(peak() < MOST.0, "{name}: {} bytes", peak());
}
