//! Reads models that the onnx package wrote, and models that this package or ferry rejects.

use crate::common::{case_source, field, model, source, tensor};
use tensorferry_onnx::Onnx;
use tensorferry_sdk::{CODES_OF, ErrorKind};
use tensorferry_test_kit::fixtures::{all_facts, all_facts_of, cases, expected, name_of, refused_case};
use tensorferry_test_kit::tensors::with_view;

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut unsupported, mut refused) = (0, 0, 0);
    for folder in cases("onnx", "") {
        let expected = expected(&folder);
        let case = folder.display();
        let read = with_view(&Onnx, &case_source(&folder, &expected), &[], |view| {
            let mut facts = all_facts(view)?;
            // Only ferry adds the shapes of sparse tensors as tensors, so the fixtures do not list
            // them.
            facts.retain(|name, _| !(name_of(&folder).starts_with("sparse_") && name.ends_with(".shape")));
            Ok(facts)
        })
        .flatten();
        match (expected["expect"].as_str().unwrap(), read) {
            ("ok", Ok(read)) => {
                let mut facts = all_facts_of(&expected);
                facts.retain(|name, _| !name.ends_with("(dense)"));
                assert_eq!(read, facts, "{case}");
                ok += 1;
            }
            ("ok", Err(error)) => {
                assert!(expected["may_refuse"].is_string(), "{case}: {error}");
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{case}: {error}");
                unsupported += 1;
            }
            ("error", read) => {
                refused_case(&folder, read);
                refused += 1;
            }
            (other, _) => panic!("expect {other}"),
        }
    }
    assert_eq!((ok, unsupported, refused), (16, 1, 26));
}

#[test]
fn a_sparse_tensor_keeps_its_shape() {
    let folder = cases("onnx", "sparse_initializers").remove(0);
    let shape = with_view(&Onnx, &case_source(&folder, &expected(&folder)), &[], |view| {
        view.tensor_named("rank3.shape").unwrap()
    });
    let bytes = [2_u64, 3, 4].iter().flat_map(|dim| dim.to_le_bytes()).collect();
    assert_eq!(shape.unwrap(), ("I64".to_owned(), vec![3], bytes));
}

#[test]
fn what_the_graph_dequantizes_is_marked_as_codes() {
    let codes = |name: &str| tensor(name, 3, &[2], &field(9, &[1, 2]));
    let scale = tensor("s", 1, &[], &field(9, &1_f32.to_le_bytes()));
    let node = [field(1, b"q"), field(1, b"s"), field(2, b"w"), field(4, b"DequantizeLinear")].concat();
    let source = source(&model(&[codes("q"), codes("n"), scale], &field(1, &node)), &[]);
    let marked = with_view(&Onnx, &source, &[], |view| {
        let tensors = view.catalog().tensors().iter();
        let marked = tensors.filter(|tensor| tensor.attributes.contains_key(CODES_OF));
        marked.map(|tensor| tensor.name.clone()).collect::<Vec<_>>()
    });
    assert_eq!(marked.unwrap(), ["q"]);
}

#[test]
fn tensors_that_share_bytes_are_tied() {
    let folder = cases("onnx", "external_aligned_tied").remove(0);
    let ties = with_view(&Onnx, &case_source(&folder, &expected(&folder)), &[], |view| {
        let names: Vec<&str> = view.catalog().tensors().iter().map(|tensor| &*tensor.name).collect();
        let ties = view.catalog().ties();
        let place = |name: &str| names.iter().position(|known| *known == name).unwrap();
        ties[place("tied")] == ties[place("w0")] && ties[place("w1")] != ties[place("w0")]
    });
    assert!(ties.unwrap());
}
