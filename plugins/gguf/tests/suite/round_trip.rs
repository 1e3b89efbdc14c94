//! Tests that files that ferry rewrites keep their tensors and metadata, and satisfy ggml's rules.

use crate::common::{file, key, reopen, source, tensor, with_view, write};
use std::collections::BTreeMap;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Entry, LossKind, MemorySource, Purpose, Severity, Value};
use tensorferry_test_kit::fixtures::{cases, expected, sha256};

type Contents = (BTreeMap<String, (String, Vec<u64>, Vec<u8>)>, BTreeMap<String, Value>);

fn contents(view: &MemoryView<'_>) -> Contents {
    let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
    let tensors = names.map(|name| (name.clone(), view.tensor_named(&name).unwrap())).collect();
    (tensors, view.catalog().metadata().clone())
}

#[test]
fn every_case_is_written_again_bit_for_bit() {
    let mut same = 0;
    for folder in cases("gguf", "") {
        let expected = expected(&folder);
        if expected["expect"] != "ok" || folder.ends_with("long_names") {
            continue;
        }
        with_view(&source(&folder, &expected), &[], Purpose::COPY, |view| {
            let output = write(view, &[]).unwrap();
            let losses = output.layout.losses();
            assert!(losses.iter().all(|loss| loss.severity == Severity::Note), "{losses:?}");
            let (tensors, mut metadata) = with_view(&reopen(&output), &[], Purpose::COPY, contents).unwrap();
            let before = contents(view);
            metadata.retain(|key, _| key != "general.quantization_version" || before.1.contains_key(key));
            assert_eq!((tensors, metadata), before, "{}", folder.display());
            same += 1;
        })
        .unwrap();
    }
    assert_eq!(same, 19);
}

/// In a file with a single key, only one order of keys is possible, so the rewritten bytes must
/// equal the bytes that gguf-py wrote.
#[test]
fn the_bytes_are_those_of_gguf_py() {
    let mut same = 0;
    for folder in cases("gguf", "") {
        let (expected, library) = (expected(&folder), folder.join("model.gguf"));
        let is_plain = ["odd_names", "quantize_reference"].iter().any(|name| folder.ends_with(name));
        if !is_plain {
            continue;
        }
        with_view(&source(&folder, &expected), &[], Purpose::COPY, |view| {
            let library = std::fs::read(&library).unwrap();
            assert!(view.catalog().metadata().len() == 1, "{}", folder.display());
            assert!(write(view, &[]).unwrap().files["out.gguf"] == library, "{}", folder.display());
            same += 1;
        })
        .unwrap();
    }
    assert_eq!(same, 2);
}

#[test]
fn what_ggml_would_not_take_is_left_out_and_said() {
    let folder = cases("gguf", "long_names").remove(0);
    with_view(&source(&folder, &expected(&folder)), &[], Purpose::COPY, |view| {
        let output = write(view, &[]).unwrap();
        let losses = output.layout.losses();
        assert_eq!(losses.iter().filter(|loss| loss.kind == LossKind::Tensor).count(), 2, "{losses:?}");
        assert_eq!(with_view(&reopen(&output), &[], Purpose::COPY, contents).unwrap().0.len(), 1);
    })
    .unwrap();
}

/// gguf-py cannot open a tensor without dimensions.
#[test]
fn a_tensor_without_a_dimension_gets_one() {
    let bytes = file(&[], &[tensor("s", &[], 0, 0), tensor("t", &[1], 0, 32)], &[1; 36]);
    with_view(&MemorySource::file("m.gguf", bytes), &[], Purpose::COPY, |view| {
        let output = write(view, &[]).unwrap();
        let losses = output.layout.losses();
        assert!(losses.len() == 1 && losses[0].what == "s", "{losses:?}");
        assert_eq!((losses[0].kind, losses[0].severity), (LossKind::Attribute, Severity::Changed));
        let (tensors, _) = with_view(&reopen(&output), &[], Purpose::COPY, contents).unwrap();
        assert_eq!(tensors["s"], ("F32".to_owned(), vec![1], vec![1; 4]));
    })
    .unwrap();
}

#[test]
fn an_entry_that_is_set_replaces_the_inputs() {
    let bytes = file(&[key("a", 4, &[1, 0, 0, 0])], &[tensor("t", &[2], 0, 0)], &[0; 8]);
    with_view(&MemorySource::file("m.gguf", bytes), &[], Purpose::COPY, |view| {
        let set = |text| reopen(&write(view, &[("set", text)]).unwrap());
        let (_, metadata) = with_view(&set("a=string:x"), &[], Purpose::COPY, contents).unwrap();
        assert_eq!(metadata["a"], "x");
        let aligned = write(view, &[("set", "general.alignment=u32:4096")]).unwrap();
        assert_eq!(aligned.files["out.gguf"].len(), 2 * 4096);
        assert!(with_view(&reopen(&aligned), &[], Purpose::COPY, contents).is_ok());
    })
    .unwrap();
}

#[test]
fn a_flat_tensor_of_comfyui_gets_its_shape_back() {
    let shape = |dims: &[i32]| {
        let dims: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
        let count = (dims.len() / 4) as u64;
        key("comfy.gguf.orig_shape.w", 9, &[&5_u32.to_le_bytes()[..], &count.to_le_bytes(), &dims].concat())
    };
    let found = |dims: &[i32], kind: u32, purpose| {
        let bytes = file(&[shape(dims)], &[tensor("w", &[32, 3], kind, 0)], &[0; 384]);
        let source = MemorySource::new(Entry::File("m".into()), BTreeMap::from([("m".to_owned(), bytes)]));
        with_view(&source, &[], purpose, |view| {
            let (tensors, metadata) = contents(view);
            (tensors["w"].1.clone(), metadata.len())
        })
    };
    assert_eq!(found(&[2, 3, 16], 0, Purpose::FLAT).unwrap(), (vec![2, 3, 16], 0));
    assert_eq!(found(&[2, 3, 16], 0, Purpose::COPY).unwrap(), (vec![3, 32], 1));
    // Rows of 16 elements are not whole blocks.
    assert_eq!(found(&[2, 3, 16], 2, Purpose::FLAT).unwrap(), (vec![3, 32], 1));
    for wrong in [&[2, 3, 15][..], &[-96], &[]] {
        assert!(
            found(wrong, 0, Purpose::FLAT)
                .unwrap_err()
                .to_string()
                .contains("not a valid shape of its tensor")
        );
    }
}

/// The fixture contains gguf-py's result for each tensor, including cases in which `d` is zero,
/// tiny or huge.
#[test]
fn what_is_quantised_is_what_gguf_py_makes() {
    let folder = cases("gguf", "quantize_reference").remove(0);
    let (mut types, expected) = (0, expected(&folder));
    for (word, file_type) in [
        ("q8_0", 7),
        ("q4_0", 2),
        ("q4_1", 3),
        ("q5_0", 8),
        ("q5_1", 9),
        ("tq1_0", 36),
        ("tq2_0", 37),
        ("mxfp4", 38),
    ] {
        with_view(&source(&folder, &expected), &[], Purpose::FLAT, |view| {
            let output = write(view, &[("quantize", word)]).unwrap();
            let (tensors, metadata) = with_view(&reopen(&output), &[], Purpose::FLAT, contents).unwrap();
            let name = word.to_ascii_uppercase();
            assert_eq!(tensors["w"].0, name);
            assert_eq!(
                sha256(&tensors["w"].2),
                expected["tensors"]["w"]["quantized"][&name]["sha256"],
                "{word}"
            );
            // This tensor has one dimension, so it is not quantized.
            assert_eq!(tensors["b"].0, "F32");
            assert_eq!(metadata["general.file_type"].root().as_int(), Some(file_type));
            assert_eq!(metadata["general.quantization_version"].root().as_int(), Some(2));
            let losses = output.layout.losses();
            assert!(
                losses.len() == 1 && losses[0].requested && losses[0].kind == LossKind::Precision,
                "{losses:?}"
            );
            // A one-dimensional tensor is not quantized even if a glob matches its name.
            let both = write(view, &[("quantize", &format!("*={word}"))]).unwrap();
            let (tensors, _) = with_view(&reopen(&both), &[], Purpose::FLAT, contents).unwrap();
            assert_eq!(["w", "b"].map(|of| tensors[of].0.clone()), [&*name, "F32"], "{word}");
            types += 1;
        })
        .unwrap();
    }
    assert_eq!(types, 8);
}

#[test]
fn rows_that_are_no_whole_blocks_become_f16() {
    let folder = cases("gguf", "plain_dtypes").remove(0);
    with_view(&source(&folder, &expected(&folder)), &[], Purpose::FLAT, |view| {
        let output = write(view, &[("quantize", "q8_0")]).unwrap();
        let (tensors, _) = with_view(&reopen(&output), &[], Purpose::FLAT, contents).unwrap();
        for (name, dtype) in
            [("f32.1d", "F32"), ("f16.1d", "F32"), ("f32.2d", "F16"), ("bf16.2d", "F16"), ("i8.2d", "I8")]
        {
            assert_eq!(tensors[name].0, dtype, "{name}");
        }
        assert!(
            output
                .layout
                .losses()
                .iter()
                .any(|loss| loss.what == "bf16.2d" && loss.why.contains("not whole blocks"))
        );
    })
    .unwrap();
}
