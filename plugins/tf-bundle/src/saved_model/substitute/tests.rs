#![expect(clippy::unwrap_used, reason = "tests")]

use crate::bundle::OBJECT_GRAPH_KEY;
use crate::testing::{Sample, context_with, f32s, index, strings};
use std::collections::BTreeMap;
use tensorferry_sdk::memory::MemoryOutput;
use tensorferry_sdk::*;

const W: &str = "w/.ATTRIBUTES/VARIABLE_VALUE";
const RATE: &str = "optimizer/learning_rate/.ATTRIBUTES/VARIABLE_VALUE";
const BETA: &str = "optimizer/beta1_power/.ATTRIBUTES/VARIABLE_VALUE";
const TEXT: &str = "text/.ATTRIBUTES/VARIABLE_VALUE";

/// A SavedModel with a variable, an optimizer and a string.
fn like() -> MemoryContext {
    let bundle = Sample::of(&[
        (W, Dtype::F32, vec![2], f32s(&[1.0, 2.0])),
        (RATE, Dtype::F32, vec![], f32s(&[0.5])),
        (BETA, Dtype::F32, vec![0], vec![]),
        (TEXT, Dtype::STR, vec![2], strings(&["a", "b"])),
    ]);
    let prefix = Target::File("variables/variables".to_owned());
    let mut files = bundle.write(&[], &prefix, &MemoryContext::default()).unwrap().files;
    // saved_model_schema_version = 1, and an empty graph.
    files.insert("saved_model.pb".to_owned(), vec![8, 1, 0x12, 0]);
    files.insert("fingerprint.pb".to_owned(), vec![8, 1]);
    files.insert("assets/vocab.txt".to_owned(), b"a\nb\n".to_vec());
    context_with("like", Entry::Folder, files)
}

fn write(
    tensors: &[(&'static str, Dtype, Vec<u64>, Vec<u8>)],
    context: &MemoryContext,
) -> Result<MemoryOutput> {
    let sample = Sample { is_saved_model: true, ..Sample::of(tensors) };
    sample.write(&[("like", "like")], &Target::Folder, context)
}

#[test]
fn variables_are_new_and_all_else_is_as_it_was() {
    let context = like();
    let new = ("w", Dtype::F32, vec![2], f32s(&[3.0, 4.0]));
    let extra = ("extra", Dtype::F32, vec![1], f32s(&[0.0]));
    let output = write(&[extra, new], &context).unwrap();
    let files: Vec<&str> =
        output.files.keys().map(String::as_str).filter(|name| !name.contains("data-")).collect();
    assert_eq!(files, ["assets/vocab.txt", "saved_model.pb", "variables/variables.index"]);
    assert_eq!(output.files["saved_model.pb"], [8, 1, 0x12, 0]);
    assert!(context.notes().iter().any(|note| note.contains("fingerprint.pb")));
    assert!(
        context
            .notes()
            .iter()
            .any(|note| note.starts_with("1 strings are kept from -o like=: ") && note.contains(TEXT))
    );

    let (header, entries) = index(&output, "variables/variables.index");
    let keys: Vec<&str> = entries.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, [OBJECT_GRAPH_KEY, BETA, RATE, TEXT, W]);
    let bytes = |key: &str| {
        let entry = &entries.iter().find(|(k, _)| k == key).unwrap().1;
        let path = format!("variables/variables.data-{:05}-of-{:05}", entry.shard_id, header.num_shards);
        let start = usize::try_from(entry.offset).unwrap();
        let end = start + usize::try_from(entry.size).unwrap();
        output.files[&path][start..end].to_vec()
    };
    assert_eq!(bytes(W), f32s(&[3.0, 4.0]));
    assert_eq!(bytes(RATE), f32s(&[0.5]));
    assert!(bytes(TEXT).ends_with(b"ab"));
    let losses: Vec<(LossKind, &str)> =
        output.layout.losses().iter().map(|loss| (loss.kind, &*loss.what)).collect();
    assert_eq!(losses, [(LossKind::Tensor, "extra"), (LossKind::State, "optimizer")]);
    assert_eq!(output.layout.names(TensorId(1)).unwrap(), [W]);
}

#[test]
fn a_damaged_value_is_not_carried_along() {
    let mut context = like();
    let source = context.sources.remove("like").unwrap();
    let mut files = BTreeMap::new();
    for name in ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"] {
        let file = source.open(name).unwrap();
        let mut bytes = vec![0; usize::try_from(source.len(file)).unwrap()];
        source.read_at(file, 0, &mut bytes).unwrap();
        // The value of the learning rate.
        if let Some(at) = bytes.windows(4).position(|window| window == f32s(&[0.5])) {
            bytes[at] ^= 1;
        }
        files.insert(name.to_owned(), bytes);
    }
    let error =
        write(&[("w", Dtype::F32, vec![2], f32s(&[3.0, 4.0]))], &context_with("like", Entry::Folder, files));
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains("does not match") && error.to_string().contains(RATE), "{error}");
}

#[test]
fn a_variable_needs_its_tensor() {
    let context = like();
    let missing = write(&[("v", Dtype::F32, vec![2], f32s(&[3.0, 4.0]))], &context).unwrap_err();
    assert!(missing.to_string().contains(W), "{missing}");
    let shape = write(&[("w", Dtype::F32, vec![1], f32s(&[3.0]))], &context).unwrap_err().to_string();
    assert!(shape.contains("[2]") && shape.contains("[1]") && shape.contains(W), "{shape}");
    let dtype = write(&[("w", Dtype::I32, vec![2], vec![0; 8])], &context).unwrap_err().to_string();
    assert!(dtype.contains("DT_FLOAT") && dtype.contains("DT_INT32"), "{dtype}");
}

#[test]
fn a_program_has_to_be_named() {
    let sample = Sample { is_saved_model: true, ..Sample::default() };
    let error = sample.write(&[], &Target::Folder, &MemoryContext::default()).unwrap_err();
    let has_hint = error.details().any(|(name, text)| name == "hint" && text.contains("-o like="));
    assert!(error.kind() == ErrorKind::Usage && has_hint, "{error}");
    let file = Target::File("m.pb".to_owned());
    assert_eq!(sample.write(&[("like", "like")], &file, &like()).unwrap_err().kind(), ErrorKind::Usage);
}
