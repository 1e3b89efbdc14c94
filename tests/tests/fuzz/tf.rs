//! Tests that the TensorFlow readers handle arbitrary bytes without a panic. The tests cover
//! tables, data with correct checksums, graphs, saved models, and text forms.

use crate::{drive, drive_any};
use std::path::Path;
use tensorferry_tests::bundle::Bundle;
use tensorferry_tests::fixtures::folder;
use tensorferry_tests::table::{self, Style, contents};

fn fixture(path: &str) -> Vec<u8> {
    let path = folder().join("tf").join(Path::new(path));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the contents of the block of a bundle's index, without the type and the checksum.
fn block(bundle: &Bundle) -> Vec<u8> {
    let header = (Vec::new(), Bundle::header(3, i64::from(bundle.big_endian), 1, 0));
    let entries: Vec<_> = std::iter::once(header).chain(bundle.entries.clone()).collect();
    contents(&entries, 16, true)
}

/// Returns a bundle without the string tensors, whose lengths are in the data.
fn numbers(mut bundle: Bundle) -> Bundle {
    let holds = |key: &[u8], name: &[u8]| key.windows(name.len()).any(|part| part == name);
    bundle.entries.retain(|key, _| !holds(key, b"strings") && !holds(key, b"/STR/"));
    bundle
}

/// Returns a bundle with slices of some dtypes.
fn slices(big_endian: bool) -> Bundle {
    let mut bundle = numbers(Bundle::of_slices(big_endian));
    bundle.entries.retain(|key, _| key.windows(4).any(|part| part == b"F16/" || part == b"C64/"));
    bundle
}

/// Returns the first block of a table written by TensorFlow. The block is uncompressed and starts
/// at offset 0.
fn first_block(table: &[u8]) -> Vec<u8> {
    let len = (0..table.len() - 5).find(|&len| {
        let crc = u32::from_le_bytes(table[len + 1..len + 5].try_into().unwrap());
        len > 8 && table[len] == table::PLAIN && crc == table::masked_crc(&table[..=len])
    });
    table[..len.expect("a block starts at offset 0")].to_vec()
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_tables() {
    let made = [slices(false), slices(true), numbers(Bundle::of_every_dtype(false, 1))];
    let mut seeds: Vec<Vec<u8>> = made.iter().map(block).collect();
    seeds.push(first_block(&fixture("saver_v1/model.ckpt-42")));
    drive("tf_table", &seeds);
    let mut seeds = Vec::new();
    for index in ["raw_all_dtypes/ckpt.index", "saver_v2_sharded/model.ckpt-42.index"] {
        seeds.push(first_block(&fixture(index)));
    }
    let mut files = vec![fixture("saver_v1/model.ckpt-42"), fixture("saver_v2_plain/model.ckpt-42.index")];
    files.push(slices(false).index(&Style { snappy: true, block_bytes: 100, ..Style::default() }));
    drive_any("tf_table", &seeds);
    drive_any("tf_table_file", &files);
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_bundles() {
    let mut seeds: Vec<Vec<u8>> = slices(false).entries.into_values().collect();
    for case in [
        "object_optimizer_slots/run/ckpt-2",
        "object_all_dtypes/ckpt",
        "saved_model_pb/saved_model/variables/variables",
    ] {
        // This file contains the object graph, among other data.
        seeds.push(fixture(&format!("{case}.data-00000-of-00001")));
    }
    seeds.extend(object_graphs());
    drive_any("tf_bundle", &seeds);
}

/// Returns the object graphs in the `expected.json` of the fixtures.
fn object_graphs() -> Vec<Vec<u8>> {
    let graphs = ["object_optimizer_slots", "object_all_dtypes", "saved_model_pb"].map(|case| {
        let expected: serde_json::Value =
            serde_json::from_slice(&fixture(&format!("{case}/expected.json"))).unwrap();
        let hex = &expected["tensors"]["_CHECKPOINTABLE_OBJECT_GRAPH"]["elements_hex"][0];
        let hex = hex.as_str().unwrap().as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        hex.chunks(2).map(byte).collect()
    });
    graphs.to_vec()
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_graphs() {
    let graphs = [fixture("frozen_graph/frozen.pb")];
    drive("tf_graph", &graphs);
    let models = [fixture("saved_model_pb/saved_model/saved_model.pb")];
    drive("tf_saved_model", &models);
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_text() {
    let graphs = [fixture("frozen_graph/frozen.pbtxt")];
    drive("tf_graph_text", &graphs);
    let models = [fixture("saved_model_pbtxt/saved_model/saved_model.pbtxt")];
    drive("tf_saved_model_text", &models);
    let states = [fixture("object_optimizer_slots/run/checkpoint"), b"model_checkpoint_path: \"m\"".to_vec()];
    drive("tf_state_file", &states);
}
