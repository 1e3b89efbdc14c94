//! Compares ferry's output with that of the `safetensors` library, for random tensors.

use crate::common::{contents, convert, file, reopen, with_view};
use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView, serialize};
use std::collections::{BTreeMap, HashMap};
use tensorferry_sdk::MemorySource;

const DTYPES: [Dtype; 22] = [
    Dtype::BOOL,
    Dtype::F4,
    Dtype::F6_E2M3,
    Dtype::F6_E3M2,
    Dtype::U8,
    Dtype::I8,
    Dtype::F8_E5M2,
    Dtype::F8_E4M3,
    Dtype::F8_E8M0,
    Dtype::F8_E4M3FNUZ,
    Dtype::F8_E5M2FNUZ,
    Dtype::I16,
    Dtype::U16,
    Dtype::F16,
    Dtype::BF16,
    Dtype::I32,
    Dtype::U32,
    Dtype::F32,
    Dtype::C64,
    Dtype::F64,
    Dtype::I64,
    Dtype::U64,
];

#[derive(Debug, Clone)]
struct Sample {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
}

fn sample() -> impl Strategy<Value = Sample> {
    let dtype = (0..DTYPES.len()).prop_map(|index| DTYPES[index]);
    (dtype, prop::collection::vec(0_usize..5, 0..4), any::<u8>()).prop_map(|(dtype, mut shape, seed)| {
        // For every dtype, four elements fill whole bytes.
        if shape.iter().product::<usize>() * dtype.bitsize() % 8 != 0 {
            shape.push(4);
        }
        let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let data = (0..bytes).map(|i| seed.wrapping_add(u8::try_from(i % 251).unwrap())).collect();
        Sample { dtype, shape, data }
    })
}

fn samples() -> impl Strategy<Value = BTreeMap<String, Sample>> {
    prop::collection::btree_map(
        ".{0,6}".prop_filter("reserved", |name| name != "__metadata__"),
        sample(),
        0..12,
    )
}

/// Generates a metadata entry whose value is longer than any tensor name. An entry with a shorter
/// value could be mistaken for a tie.
fn one_entry() -> impl Strategy<Value = Option<(String, String)>> {
    prop::option::of((".{0,8}", "longer than a name.{0,8}"))
}

fn library(samples: &BTreeMap<String, Sample>, metadata: Option<(String, String)>) -> Vec<u8> {
    let views = samples.iter().map(|(name, sample)| {
        (name, TensorView::new(sample.dtype, sample.shape.clone(), &sample.data).unwrap())
    });
    serialize(views, metadata.map(|entry| HashMap::from([entry]))).unwrap()
}

/// Builds a file that contains the same tensors, but with the data in a different order and
/// different whitespace in the header.
fn shuffled(samples: &BTreeMap<String, Sample>, metadata: Option<&(String, String)>, seed: u64) -> Vec<u8> {
    let mut order: Vec<_> = samples.iter().collect();
    order.sort_by_key(|(name, _)| {
        name.bytes().fold(seed, |hash, byte| hash.wrapping_mul(31) ^ u64::from(byte))
    });
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, sample) in order {
        let begin = data.len();
        data.extend_from_slice(&sample.data);
        let info = serde_json::json!({
            "data_offsets": [begin, data.len()], "shape": sample.shape, "dtype": sample.dtype.to_string(), "more": [{}],
        });
        header.insert(name.clone(), info);
    }
    if let Some((key, value)) = metadata {
        header.insert("__metadata__".to_owned(), serde_json::json!({ key: value }));
    }
    file(&(serde_json::to_string_pretty(&header).unwrap() + "  \n"), &data)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_what_the_library_writes(samples in samples(), metadata in one_entry(), seed in any::<u64>()) {
        let expected = library(&samples, metadata.clone());
        for input in [expected.clone(), shuffled(&samples, metadata.as_ref(), seed)] {
            let source = MemorySource::file("m.safetensors", input);
            let output = convert(&source, &[]).unwrap();
            prop_assert!(output.files["model.safetensors"] == expected);
            prop_assert!(output.layout.losses().is_empty());
        }
    }

    #[test]
    fn what_is_read_is_what_the_library_reads(samples in samples(), max in 0_u64..300) {
        let source = MemorySource::file("m.safetensors", library(&samples, None));
        let expected: BTreeMap<_, _> = samples
            .iter()
            .map(|(name, sample)| {
                let shape: Vec<u64> = sample.shape.iter().map(|&dim| dim as u64).collect();
                (name.clone(), (sample.dtype.to_string(), shape, sample.data.clone()))
            })
            .collect();
        prop_assert_eq!(&with_view(&source, |view, _| contents(view)).unwrap(), &expected);
        let output = convert(&source, &[("max_shard_size", &max.to_string())]).unwrap();
        let shards = output.files.iter().filter(|(name, _)| name.ends_with(".safetensors"));
        for (_, bytes) in shards {
            safetensors::SafeTensors::deserialize(bytes).unwrap();
        }
        prop_assert_eq!(&with_view(&reopen(&output), |view, _| contents(view)).unwrap(), &expected);
    }
}
