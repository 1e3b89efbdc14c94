//! Compares digests of dequantized values with digests of the values that gguf-py computes.

use crate::common::{file, source, tensor, with_view};
use serde_json::json;
use std::collections::BTreeSet;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{MemorySource, Purpose};
use tensorferry_test_kit::fixtures::{cases, expected, facts};

#[test]
fn every_type_gives_the_numbers_of_gguf_py() {
    let (mut tensors, mut types) = (0, BTreeSet::new());
    for folder in cases("gguf", "") {
        let expected = expected(&folder);
        let of_floats = |(name, tensor): (&String, &serde_json::Value)| {
            let digest = tensor.get("dequantized_f32_sha256")?.as_str()?.to_owned();
            Some((name.clone(), tensor["dtype"].as_str()?.to_owned(), tensor["shape"].clone(), digest))
        };
        let known = expected["tensors"].as_object().into_iter().flatten();
        let wanted: Vec<_> = known.filter_map(of_floats).collect();
        if wanted.is_empty() || expected["expect"] != "ok" {
            continue;
        }
        let check = |view: &MemoryView<'_>| {
            assert!(view.catalog().losses().len() == 1, "{:?}", view.catalog().losses());
            for (name, dtype, shape, digest) in wanted {
                let found = facts(view, &name);
                assert_eq!(found["dtype"], "F32", "{name}");
                assert_eq!(found["shape"], shape, "{name}");
                assert_eq!(found["sha256"], json!(digest), "{}: {name}", folder.display());
                tensors += 1;
                types.insert(dtype);
            }
        };
        with_view(&source(&folder, &expected), &[("dequantize", "f32")], Purpose::default(), check).unwrap();
    }
    assert_eq!((tensors, types.len()), (74, 25));
}

/// Returns a Q8_0 block with this scale and the codes 0 to 31.
fn q8_0(scale: half::f16) -> Vec<u8> {
    scale.to_le_bytes().into_iter().chain(0..32).collect()
}

fn numbers(blocks: &[u8], dims: &[u64], dtype: &str) -> tensorferry_sdk::Result<Vec<u8>> {
    let source = MemorySource::file("model.gguf", file(&[], &[tensor("w", dims, 8, 0)], blocks));
    with_view(&source, &[("dequantize", dtype)], Purpose::default(), |view| {
        view.tensor_named("w").map(|(_, _, bytes)| bytes)
    })?
}

#[test]
fn one_rounding_leads_to_half_the_bytes() {
    let third = half::f16::from_f32(1.0 / 3.0);
    let exact = |place: u8| third.to_f32() * f32::from(place);
    let f16: Vec<u8> = (0..32).flat_map(|i| half::f16::from_f32(exact(i)).to_le_bytes()).collect();
    let bf16: Vec<u8> = (0..32).flat_map(|i| half::bf16::from_f32(exact(i)).to_le_bytes()).collect();
    assert_eq!(numbers(&q8_0(third), &[32], "f16").unwrap(), f16);
    assert_eq!(numbers(&q8_0(third), &[32], "bf16").unwrap(), bf16);
}

#[test]
fn what_f16_cannot_hold_is_refused() {
    let large = q8_0(half::f16::from_f32(2200.0));
    let error = numbers(&large, &[32], "f16").unwrap_err().to_string();
    assert!(error.contains("too large for F16"), "{error}");
    assert_eq!(numbers(&large, &[32], "bf16").unwrap().len(), 64);
    // An infinite scale produces infinite values, which F16 can represent.
    assert!(numbers(&q8_0(half::f16::INFINITY), &[32], "f16").is_ok());
}

#[test]
fn pieces_join_without_a_seam() {
    // Slightly more than 1 MiB of F32 values, in pieces of 256 KiB.
    let blocks: Vec<u8> = (0..9000_u16).flat_map(|i| q8_0(half::f16::from_bits(i + 0x2000))).collect();
    let bytes = numbers(&blocks, &[32 * 90, 100], "f32").unwrap();
    let expected = (0..9000_u16).flat_map(|i| {
        let scale = half::f16::from_bits(i + 0x2000).to_f32();
        (0..32_u8).flat_map(move |place| (scale * f32::from(place)).to_le_bytes())
    });
    assert!(bytes.into_iter().eq(expected));
}
