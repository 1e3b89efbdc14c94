//! Tests of the file type in written files, and of the notes about options that have no effect.

use crate::common::{file, key, reopen, source, tensor, text, with_view, write};
use std::sync::Arc;
use tensorferry_gguf::Gguf;
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::{ErrorKind, MemoryContext, MemorySource, Purpose, Result, Severity, Target};
use tensorferry_test_kit::fixtures::{cases, expected};

const F32: u32 = 0;
const F16: u32 = 1;
const Q8_0: u32 = 8;
const BF16: u32 = 30;

fn u32_key(name: &str, number: u32) -> Vec<u8> {
    key(name, 4, &number.to_le_bytes())
}

/// Returns a file with a matrix of 64 elements and a vector of 32 elements, with these tensor
/// types.
fn model(architecture: &str, file_type: u32, matrix: u32, vector: u32) -> Vec<u8> {
    let keys = [key("general.architecture", 8, &text(architecture)), u32_key("general.file_type", file_type)];
    let bytes = |kind, elements: u64| match kind {
        F32 => elements * 4,
        Q8_0 => elements / 32 * 34,
        _ => elements * 2,
    };
    let second = bytes(matrix, 64).next_multiple_of(32);
    let tensors =
        [tensor("token_embd.weight", &[32, 2], matrix, 0), tensor("norm.weight", &[32], vector, second)];
    let len = second + bytes(vector, 32);
    file(&keys, &tensors, &vec![0; usize::try_from(len).unwrap()])
}

/// Rewrites a file. `others` contains the files that options may name. Also returns the notes.
fn again(
    bytes: Vec<u8>,
    options: &[(&str, &str)],
    others: &[(&str, Vec<u8>)],
) -> Result<(MemoryOutput, String)> {
    let mut context = MemoryContext::default();
    for (name, bytes) in others {
        context.sources.insert((*name).to_owned(), Arc::new(MemorySource::file(name, bytes.clone())));
    }
    let target = Target::File("out.gguf".to_owned());
    with_view(&MemorySource::file("m.gguf", bytes), &[], Purpose::COPY, |view| {
        memory::write(&Gguf, &memory::pairs(options), view, &target, &context)
    })?
    .map(|output| (output, context.notes().join("\n")))
}

fn file_type(output: &MemoryOutput) -> Option<i128> {
    let found = |view: &MemoryView<'_>| {
        let value = view.catalog().metadata().get("general.file_type").cloned();
        value.and_then(|value| value.root().as_int()).map(Into::into)
    };
    with_view(&reopen(output), &[], Purpose::COPY, found).unwrap()
}

#[test]
fn the_file_type_is_what_was_written() {
    for (before, matrix, option, after) in [
        (0, BF16, None, 32),
        (0, F16, None, 1),
        (15, F32, None, 0),
        (0, F32, Some("q8_0"), 7),
        (0, F32, Some("*embd*=q8_0"), 7),
        (7, Q8_0, Some("q4_0"), 7),
        (7, Q8_0, Some("*nothing*=q4_0"), 7),
        (0, F32, Some("*nothing*=q4_0"), 0),
    ] {
        let options: Vec<_> = option.iter().map(|option| ("quantize", *option)).collect();
        let (output, _) = again(model("llama", before, matrix, F32), &options, &[]).unwrap();
        assert_eq!(file_type(&output), Some(after), "{before} {matrix} {option:?}");
        let losses = output.layout.losses().iter().filter(|loss| loss.what == "general.file_type");
        let losses: Vec<_> = losses.collect();
        let is_said = i128::from(before) != after && option != Some("q8_0");
        assert_eq!(losses.len(), usize::from(is_said), "{losses:?}");
        assert!(losses.iter().all(|loss| loss.severity == Severity::Note), "{losses:?}");
    }
    // A file type that the user sets takes precedence.
    let set = [("set", "general.file_type=u32:1024")];
    assert_eq!(file_type(&again(model("llama", 0, BF16, F32), &set, &[]).unwrap().0), Some(1024));
}

#[test]
fn what_is_not_quantised_is_said() {
    for (matrix, option, says) in [
        (Q8_0, "q4_0", Some("leaves 1 tensors of Q8_0 unchanged: they are already quantized")),
        (Q8_0, "token*=q4_0", Some("already quantized")),
        (Q8_0, "q8_0", None),
        (F32, "q4_0", None),
        (F32, "*fnn*=q8_0,token*=q4_0", Some("-o quantize=*fnn*=q8_0: no tensor matches")),
    ] {
        let (_, notes) = again(model("llama", 0, matrix, F32), &[("quantize", option)], &[]).unwrap();
        assert!(says.map_or(notes.is_empty(), |says| notes.contains(says)), "{option}: {notes}");
    }
}

#[test]
fn narrow_norms_of_a_language_model_are_said() {
    for (vector, is_said) in [(F32, false), (F16, true), (BF16, true)] {
        let (_, notes) = again(model("llama", 1, F16, vector), &[], &[]).unwrap();
        assert_eq!(notes.contains("cast:f32,rank=1"), is_said, "{notes}");
    }
}

#[test]
fn a_file_is_like_one_of_its_own_kind() {
    let own = || model("qwen2", 0, F32, F32);
    let same = [("same", model("qwen2", 1, F16, F32))];
    again(own(), &[("like", "same")], &same).unwrap();
    let other = [("other", model("llama", 0, F32, F32))];
    let error = again(own(), &[("like", "other")], &other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(["qwen2", "llama", "other"].iter().all(|says| error.to_string().contains(says)), "{error}");
    again(own(), &[("like", "other"), ("set", "general.architecture=string:llama")], &other).unwrap();
    let strange = file(&[], &[tensor("strange", &[2], F32, 0)], &[0; 8]);
    let error = again(own(), &[("like", "strange")], &[("strange", strange)]).unwrap_err().to_string();
    assert!(error.contains("no tensor name in common") && error.contains("token_embd.weight"), "{error}");
}

#[test]
fn names_of_transformers_are_given_or_refused_with_a_reason() {
    let hyper = [
        key("general.architecture", 8, &text("llama")),
        u32_key("llama.attention.head_count", 2),
        u32_key("llama.embedding_length", 32),
        u32_key("llama.feed_forward_length", 32),
        u32_key("llama.block_count", 1),
        u32_key("llama.context_length", 32),
        key("llama.attention.layer_norm_rms_epsilon", 6, &1e-5_f32.to_le_bytes()),
    ];
    let bytes = file(&hyper, &[tensor("blk.0.attn_q.weight", &[32, 32], Q8_0, 0)], &[0; 34 * 32]);
    let source = MemorySource::file("m.gguf", bytes);
    let read = |options: &[(&str, &str)], purpose| {
        with_view(&source, options, purpose, |view| view.catalog().steps().join(" "))
    };
    let error = read(&[("names", "hf")], Purpose::FLAT).unwrap_err().to_string();
    assert!(error.contains("blk.0.attn_q.weight") && error.contains("cannot reorder rows"), "{error}");
    let steps = read(&[("names", "hf"), ("dequantize", "f32")], Purpose::COMPARE).unwrap();
    assert!(steps.contains("llama-from-ggml"), "{steps}");
    let error = read(&[("names", "hf")], Purpose::SHOW).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("names=hf"), "{error}");
}

/// Tests that an already quantized model keeps its file type.
#[test]
fn a_mix_stays_what_it_is() {
    let folder = cases("gguf", "llama_tiny").remove(0);
    with_view(&source(&folder, &expected(&folder)), &[], Purpose::COPY, |view| {
        assert_eq!(file_type(&write(view, &[]).unwrap()), Some(15));
        assert_eq!(file_type(&write(view, &[("quantize", "q5_0")]).unwrap()), Some(15));
    })
    .unwrap();
}
