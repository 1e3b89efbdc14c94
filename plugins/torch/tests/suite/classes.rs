//! Tests modules and tensors whose classes define their own serialization. Reads files that the
//! real libraries wrote (`tests/values/make_classes.py`), and compares the results with the tensors
//! that torch loads from these files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{ErrorKind, Loss, LossKind, MemoryContext, MemorySource, Result};
use tensorferry_torch::Torch;

/// The dtype, shape and bytes of each tensor, by name.
type Tensors = BTreeMap<String, (String, Vec<u64>, Vec<u8>)>;

/// Returns the tensors of a file, and the losses of tensors or of calls to torchao.
fn read(name: &str, options: &[(&str, &str)]) -> Result<(Tensors, BTreeMap<String, String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/values/classes").join(name);
    let (source, context) = (MemorySource::file(name, fs::read(path).unwrap()), MemoryContext::default());
    let options: Vec<_> = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let view = MemoryView::read(&Torch, &options, &source, &context)?;
    let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
    let tensors = names.map(|name| Ok((name.clone(), view.tensor_named(&name)?))).collect::<Result<_>>()?;
    let is_listed = |loss: &&Loss| loss.kind == LossKind::Tensor || loss.why.contains("calls torchao.");
    let losses = view.catalog().losses().iter().filter(is_listed);
    Ok((tensors, losses.map(|loss| (loss.what.clone(), loss.why.clone())).collect()))
}

#[test]
fn a_module_has_what_its_class_puts_into_a_state_dict() {
    let mut seen = 0;
    for name in ["static", "dynamic", "dynamic_f16", "bitsandbytes"] {
        let (found, lost) = read(&format!("{name}.pt"), &[]).unwrap();
        let (wanted, _) = read(&format!("{name}.want.pt"), &[]).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{name}");
        assert_eq!(found, wanted, "{name}");
        // The state dict that torch creates does not contain these biases.
        let biases = ["cell.bias_hh", "cell.bias_ih"];
        let biases = if name.starts_with("dynamic") { &biases[..] } else { &[] };
        assert_eq!(lost.keys().collect::<Vec<_>>(), biases, "{name}");
        seen += found.len();
    }
    assert!(seen > 90, "{seen} tensors");
}

#[test]
fn tensors_outside_of_a_state_dict_are_losses() {
    let (found, lost) = read("attributes.pt", &[]).unwrap();
    let lstm =
        ["bias_hh_l0", "bias_ih_l0", "weight_hh_l0", "weight_ih_l0"].map(|name| format!("lstm.{name}"));
    let linear = ["linear.bias", "linear.weight"].map(str::to_owned);
    assert_eq!(found.into_keys().collect::<Vec<_>>(), [&linear[..], &lstm].concat());
    let lost: Vec<String> = lost.into_keys().collect();
    assert_eq!(lost, ["_hidden.a.0", "listed.0._parameters.weight", "plain"]);

    let (found, lost) = read("script.pt", &[]).unwrap();
    let found: Vec<String> = found.into_keys().collect();
    assert_eq!(found, ["buffer", "linear.bias", "linear.weight", "listed.0"]);
    assert_eq!(lost.into_keys().collect::<Vec<_>>(), ["entries.k", "plain"]);
}

#[test]
fn torchao_tensors_become_their_values() {
    for name in ["int8", "int8_tensor", "intx", "float8"] {
        let (found, lost) = read(&format!("torchao_{name}.pt"), &[("dequantize", "f32")]).unwrap();
        let (wanted, _) = read(&format!("torchao_{name}.want.pt"), &[]).unwrap();
        assert_eq!(found, wanted, "{name}");
        assert_eq!(lost, BTreeMap::new(), "{name}");

        let (found, lost) = read(&format!("torchao_{name}.pt"), &[]).unwrap();
        assert!(!found.contains_key("0.weight") && found.contains_key("0.weight.qdata"), "{name}");
        let why = &lost["0.weight"];
        assert!(why.contains("torchao.") && why.contains("-i dequantize=f32"), "{name}: {why}");
    }
}

#[test]
fn a_tensor_of_ranks_is_read_if_the_file_has_all_of_it() {
    let numbers =
        |from: u8| -> Vec<u8> { (from..from + 30).flat_map(|n| f32::from(n).to_le_bytes()).collect() };
    for name in ["replicated_0_of_1.pt", "replicated_1_of_2.pt", "cut_0_of_1.pt"] {
        let (found, lost) = read(name, &[]).unwrap();
        assert_eq!(found["w"], ("F32".to_owned(), vec![5, 6], numbers(0)), "{name}");
        assert_eq!(found.get("p").map(|p| p.2.clone()), name.starts_with('r').then(|| numbers(1)), "{name}");
        assert_eq!((found.len(), lost.len()), (1 + usize::from(name.starts_with('r')), 0), "{name}");
    }
    let (found, _) = read("shards_0_of_1.pt", &[]).unwrap();
    assert_eq!(found["w"], ("F32".to_owned(), vec![4, 3], [0, 0, 128, 63].repeat(12)));
    let pieces = [
        ("cut_1_of_2.pt", "one rank's part [2, 6] of [5, 6] (Shard) of a torch.distributed.tensor.DTensor"),
        ("terms_0_of_1.pt", "one rank's terms (Partial) of a torch.distributed.tensor.DTensor"),
        ("terms_1_of_2.pt", "one rank's terms (Partial) of a torch.distributed.tensor.DTensor"),
        ("shards_1_of_2.pt", "1 of the shards of [4, 3] of a torch.distributed._shard"),
    ];
    for (name, what) in pieces {
        let error = read(name, &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}");
        let error = error.to_string();
        assert!(error.contains(what) && error.contains("tensor \"w\""), "{name}: {error}");
    }
}

#[test]
fn other_wrappers_are_lost_by_name() {
    for (name, class, parts) in [
        (
            "masked.pt",
            "torch.masked.maskedtensor.core.MaskedTensor",
            &["w._masked_data", "w._masked_mask"][..],
        ),
        (
            "jagged.pt",
            "torch.nested._internal.nested_tensor.NestedTensor",
            &["w._metadata_cache.max_seqlen", "w._metadata_cache.min_seqlen", "w._offsets", "w._values"],
        ),
    ] {
        let (found, lost) = read(name, &[]).unwrap();
        assert_eq!(found.into_keys().collect::<Vec<_>>(), parts, "{name}");
        assert!(lost["w"].contains(class), "{name}: {lost:?}");
    }
    // If the user requests decoded values, the reader fails instead of leaving out the tensor.
    let error = read("masked.pt", &[("dequantize", "f32")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("MaskedTensor"), "{error}");
}
