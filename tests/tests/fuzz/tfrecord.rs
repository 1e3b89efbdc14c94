//! Tests that the TFRecord reader handles arbitrary bytes without a panic. The tests cover frames,
//! messages with correct checksums, and compressed streams.

use crate::drive;
use tensorferry_tests::fixtures::folder;

fn fixture(path: &str) -> Vec<u8> {
    let path = folder().join("tfrecord").join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the data of a file's records.
fn records(path: &str) -> Vec<Vec<u8>> {
    let file = fixture(path);
    let (mut records, mut rest) = (Vec::new(), &file[..]);
    while let Some((len, _)) = rest.split_first_chunk::<8>() {
        let len = usize::try_from(u64::from_le_bytes(*len)).unwrap();
        records.push(rest[12..12 + len].to_vec());
        rest = &rest[len + 16..];
    }
    records
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_frames() {
    let seeds = [fixture("example_ragged_missing/data.tfrecord"), fixture("sequence_example/data.tfrecord")];
    drive("tfrecord_frames", &seeds);
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_messages() {
    let mut seeds = records("example_ragged_missing/data.tfrecord");
    seeds.extend(records("sequence_example/data.tfrecord"));
    seeds.extend(records("example_plain/data.tfrecord").into_iter().take(3));
    assert_eq!(seeds.len(), 7 + 5 + 3);
    drive("tfrecord_messages", &seeds);
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_streams() {
    let plain = fixture("example_plain/data.tfrecord");
    let block = |bytes: &[u8]| {
        let block = snap::raw::Encoder::new().compress_vec(bytes).unwrap();
        [&u32::try_from(block.len()).unwrap().to_be_bytes()[..], &block].concat()
    };
    let snappy = [[block(&plain[..1000]), block(&plain[1000..])].concat(), block(&plain)];
    let gzip = [fixture("example_gzip/data.tfrecord.gz")];
    drive("tfrecord_snappy", &snappy);
    drive("tfrecord_gzip", &gzip);
}
