//! Tests that the Orbax reader handles arbitrary OCDBT stores, array descriptions and chunks
//! without a panic.

use crate::drive_any;
use crate::targets::orbax::{LEAF, chunk_of_blosc};
use std::path::PathBuf;
use tensorferry_orbax::Orbax;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Entry, MemoryContext, MemorySource};
use tensorferry_test_kit::ocdbt::{MANIFEST, NODE, inner};
use tensorferry_tests::fixtures::{cases, folder};

/// Returns all files of all cases.
fn files() -> Vec<(PathBuf, Vec<u8>)> {
    let mut open: Vec<PathBuf> = cases("orbax", "").into_iter().map(|case| case.folder).collect();
    let mut found = Vec::new();
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                found.push((path, bytes));
            }
        }
    }
    found
}

/// Returns the contents of the files with this name in all cases.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    files()
        .into_iter()
        .filter(|(path, _)| path.file_name().unwrap() == name)
        .map(|(_, bytes)| bytes)
        .collect()
}

/// Returns the bodies of all manifests or nodes in the files.
fn bodies(magic: u32) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for (_, bytes) in files() {
        for at in 0..bytes.len() {
            let Some(frame) = bytes[at..].strip_prefix(&magic.to_be_bytes()) else { continue };
            let len = frame.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
            // The file contains the magic, the length, the version, the compression, the body and
            // the checksum.
            let body =
                usize::try_from(len).ok().and_then(|len| bytes.get(at + 14..(at + len).checked_sub(4)?));
            match body {
                Some(body) if bytes[at + 13] == 1 => found.extend(zstd::decode_all(body).ok()),
                Some(body) => found.push(body.to_vec()),
                None => {}
            }
        }
    }
    found
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_stores_and_arrays() {
    let (manifests, nodes) = ([seeds("manifest.ocdbt"), bodies(MANIFEST)].concat(), bodies(NODE));
    let arrays = [seeds(".zarray"), seeds("zarr.json")].concat();
    assert!(manifests.len() >= 16 && nodes.len() >= 8, "{} {}", manifests.len(), nodes.len());
    assert!(arrays.len() >= 30, "{}", arrays.len());
    // The node is a root whose only child is the leaf before it. The body of the node is between
    // the first 14 bytes and the checksum.
    let node = inner(1, "d/x", &[(b"w/.zarray".to_vec(), 0, 0, LEAF.len() as u64)], false);
    drive_any("orbax_store", &[manifests, nodes, vec![node[14..node.len() - 4].to_vec()]].concat());
    drive_any("orbax_zarr", &arrays);
    let stored = std::fs::read(folder().join("orbax/zarr2_compressors/z/c_blosc/0.0")).unwrap();
    // The shard has four chunks of one byte. Its index contains the offset and length of each
    // chunk.
    let index = (0..4_u64).flat_map(|at| [at, 1]).flat_map(u64::to_le_bytes);
    let shard: Vec<u8> = [1, 2, 3, 4].into_iter().chain(index).collect();
    drive_any("orbax_chunk", &[blosc_chunks(), vec![stored, shard]].concat());
}

/// Returns 48 zeros in each blosc codec, with four-byte elements, shuffled by bytes and by bits.
fn blosc_chunks() -> Vec<Vec<u8>> {
    let zeros = [0; 48];
    let stored_zlib =
        [b"\x78\x01\x01\x30\x00\xcf\xff", &zeros[..], &(48_u32 << 16 | 1).to_be_bytes()].concat();
    let parts = [
        // The chunk encodes a zero, 45 more zeros copied from it, and two literal zeros.
        (0, vec![0, 0, 7 << 5, 36, 0, 1, 0, 0]),
        (1, [&[0xf0, 33], &zeros[..]].concat()),
        (2, snap::raw::Encoder::new().compress_vec(&zeros).unwrap()),
        (3, stored_zlib),
        (4, zstd::encode_all(&zeros[..], 1).unwrap()),
    ];
    let chunk = |codec: u8, shuffle: u8, part: &[u8]| {
        // The chunk has one block, which is not split and directly follows the header.
        let part_len = u32::try_from(part.len()).unwrap();
        let words = [48, 48, 24 + part_len, 20, part_len].map(u32::to_le_bytes).concat();
        [&[2, 1, 16 | shuffle | codec << 5, 4], &words[..], part].concat()
    };
    let chunks: Vec<_> =
        parts.iter().flat_map(|(codec, part)| [1, 4].map(|shuffle| chunk(*codec, shuffle, part))).collect();
    for bytes in &chunks {
        assert_eq!(decoded(bytes), zeros);
    }
    chunks
}

/// Decodes an array that consists of only this chunk.
fn decoded(chunk: &[u8]) -> Vec<u8> {
    let source = MemorySource::new(Entry::Folder, chunk_of_blosc(chunk).into_iter().collect());
    let context = MemoryContext::default();
    let view = MemoryView::read(&Orbax, &[], &source, &context).unwrap();
    view.tensor_named("w").unwrap().2
}
