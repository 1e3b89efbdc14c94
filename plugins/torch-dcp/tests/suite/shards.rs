//! Tests the variant that uses safetensors files.

use crate::common::{catalog, error, values};
use tensorferry_sdk::{Format, MemoryContext, MemorySource, Score};
use tensorferry_test_kit::Files;
use tensorferry_torch_dcp::TorchDcp;

fn shard(tensors: &str, metadata: &str, values: &[f32]) -> Vec<u8> {
    let header = format!("{{\"__metadata__\":{{{metadata}}},{tensors}}}");
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    file
}

/// Returns a shard with a part of `w`. The part consists of rows with two values each, starting at
/// row `from`.
fn rows(from: i64, values: &[f32]) -> Vec<u8> {
    let tensor = format!(
        "\"w\":{{\"dtype\":\"F32\",\"shape\":[{},2],\"data_offsets\":[0,{}]}}",
        values.len() / 2,
        4 * values.len()
    );
    shard(&tensor, &sharding(&format!("[{from},0]")), values)
}

fn sharding(offsets: &str) -> String {
    format!(
        "\"DCP_SHARDING_INFO\":\"{{\\\"w\\\":{{\\\"saved_offsets\\\":{offsets}}}}}\",\"format\":\"pt\",\"DCP_VERSION\":\"1.0\""
    )
}

fn files(shards: &[Vec<u8>]) -> Files {
    let name = |index| format!("shard-{:05}-model-00001-of-00001.safetensors", index + 1);
    shards.iter().enumerate().map(|(index, bytes)| (name(index), bytes.clone())).collect()
}

#[test]
fn parts_are_put_together() {
    let shards = files(&[rows(2, &[5.0, 6.0]), rows(0, &[1.0, 2.0, 3.0, 4.0])]);
    assert_eq!(values(shards.clone(), "w"), (vec![3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert!(catalog(shards).unwrap().metadata().is_empty(), "these keys describe the files, not the model");
}

#[test]
fn gaps_overlaps_and_contradictions_are_refused() {
    let four = [1.0, 2.0, 3.0, 4.0];
    let other = |dtype: &str, shape: &str, offsets: &str| {
        let tensor = format!("\"w\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[0,16]}}");
        shard(&tensor, &sharding(offsets), &four)
    };
    for (second, fault) in [
        (rows(3, &four), "gap"),
        (rows(1, &four), "overlap"),
        (rows(-1, &four), "DCP_SHARDING_INFO"),
        (other("I32", "[2,2]", "[2,0]"), "differ"),
        (other("F32", "[4]", "[4]"), "differ"),
        (other("F32", "[2,2]", "[2]"), "has no position"),
        (other("F32", "[2,2]", "[18446744073709551615,0]"), "64 bits"),
        (other("F32", "[2,2]", "{}"), "DCP_SHARDING_INFO"),
        (other("F32", "[2,3]", "[2,0]"), "header"),
        (other("F99", "[2,2]", "[2,0]"), "header"),
        (
            shard("\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}", "", &four),
            "positions of its tensors",
        ),
        (rows(2, &four)[..30].to_vec(), "too early"),
        ([rows(2, &four), vec![0]].concat(), "does not match"),
        (u64::MAX.to_le_bytes().to_vec(), "too early"),
        (Vec::new(), "too early"),
    ] {
        let error = error(files(&[rows(0, &four), second]));
        assert!(error.contains(fault), "{fault}: {error}");
    }
}

#[test]
fn the_probe_asks_for_the_mark() {
    let score = |shards: Files| {
        let source = MemorySource::folder(shards);
        TorchDcp.probe(&source, &MemoryContext::default()).unwrap().unwrap()
    };
    assert_eq!(score(files(&[rows(0, &[1.0, 2.0])])), Score::CERTAIN);
    let plain = shard("\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}", "", &[1.0]);
    assert_eq!(score(files(&[plain])), Score::NO);
    assert_eq!(score(files(&[Vec::new()])), Score::NO);
}
