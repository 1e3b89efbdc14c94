//! Tests hostile inputs. Each input must produce an error instead of a panic. If ferry accepts a
//! file, it must find the same content as the `safetensors` library.

use crate::common::{bytes_file, contents, file, refusal, with_view};
use proptest::prelude::*;
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{ErrorKind, Limits, MemoryContext, MemorySource, Result};

fn good() -> Vec<u8> {
    let json = r#"{"__metadata__":{"format":"pt","tied":"a"},
        "a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},
        "b":{"dtype":"F4","shape":[2,3],"data_offsets":[8,11]},
        "e":{"dtype":"I64","shape":[0,9],"data_offsets":[11,11]}}"#;
    file(json, b"12345678abc")
}

fn read(bytes: &[u8]) -> Result<()> {
    with_view(&MemorySource::file("m.safetensors", bytes), |view, _| drop(contents(view)))
}

#[test]
fn a_file_cut_anywhere_is_malformed() {
    let good = good();
    read(&good).unwrap();
    for len in 0..good.len() {
        assert_eq!(read(&good[..len]).unwrap_err().kind(), ErrorKind::Malformed, "{len} bytes");
    }
}

/// Checks that the `safetensors` library accepts each file that ferry accepts, and finds the same
/// tensors in it.
fn assert_no_laxer_than_the_library(bytes: &[u8]) {
    let source = MemorySource::file("m.safetensors", bytes);
    let context = MemoryContext::default();
    let Ok(view) = MemoryView::read(&tensorferry_safetensors::Safetensors, &[], &source, &context) else {
        return;
    };
    let library = SafeTensors::deserialize(bytes).unwrap();
    let expected: BTreeMap<_, _> = library
        .iter()
        .map(|(name, tensor)| {
            let shape: Vec<u64> = tensor.shape().iter().map(|&dim| dim as u64).collect();
            (name.to_owned(), (tensor.dtype().to_string(), shape, tensor.data().to_vec()))
        })
        .collect();
    let mut found = contents(&view);
    found.retain(|name, _| library.tensor(name).is_ok());
    assert_eq!(found, expected);
}

#[test]
fn a_flipped_bit_is_refused_or_read_as_the_library_reads_it() {
    let good = good();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_no_laxer_than_the_library(&bad);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edits_are_refused_or_read_as_the_library_reads_them(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bad = good();
        for (place, byte) in edits {
            let place = place.index(bad.len());
            bad[place] = byte;
        }
        assert_no_laxer_than_the_library(&bad);
        bad.remove(cut.index(bad.len()));
        assert_no_laxer_than_the_library(&bad);
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_no_laxer_than_the_library(&bytes);
        assert_no_laxer_than_the_library(&file(&String::from_utf8_lossy(&bytes), b""));
    }
}

#[test]
fn limits_hold() {
    let read = |bytes: Vec<u8>, set: fn(&mut Limits)| {
        let mut limits = Limits::default();
        set(&mut limits);
        let source = MemorySource::file("m.safetensors", bytes);
        let context = MemoryContext::new(limits);
        MemoryView::read(&tensorferry_safetensors::Safetensors, &[], &source, &context).map(drop)
    };
    let limited = |bytes, set, bound: &str| {
        let error = read(bytes, set).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(format!("{error:?}").contains(bound), "{bound}: {error}");
    };
    limited(good(), |limits| limits.header_bytes = 100, "");
    limited(good(), |limits| limits.tensors = 2, "--limit tensors=N");
    let name = "--limit name_bytes=N";
    limited(bytes_file("{}", &[("long name", b"x")]), |limits| limits.name_bytes = 8, name);
    limited(bytes_file(r#"{"long key":""}"#, &[]), |limits| limits.name_bytes = 7, name);
}

#[test]
fn a_message_is_short_and_one_line() {
    let name = "\\n".repeat(1000);
    let dtype = "F".repeat(100_000);
    let json = format!(r#"{{"{name}":{{"dtype":"{dtype}","shape":[],"data_offsets":[0,0]}}}}"#);
    let message = refusal(&MemorySource::file("m.safetensors", file(&json, b"")));
    assert!(message.len() < 5000 && !message.contains('\n'), "{message}");
}
