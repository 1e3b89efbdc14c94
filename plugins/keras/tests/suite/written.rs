//! What is written is read again: as a file of its own, and like another one.

use crate::common::facts::{cases, expected, facts};
use crate::common::{source, with_view};
use std::sync::Arc;
use tensorferry_keras::Keras;
use tensorferry_sdk::memory::{self, MemoryView};
use tensorferry_sdk::{Dtype, ErrorKind, MemoryContext, MemorySource, Storage, Target};

const WRITTEN: [Dtype; 15] = [
    Dtype::BOOL,
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::I64,
    Dtype::U8,
    Dtype::U16,
    Dtype::U32,
    Dtype::U64,
    Dtype::F16,
    Dtype::BF16,
    Dtype::F32,
    Dtype::F64,
    Dtype::C64,
    Dtype::C128,
];

#[test]
fn every_dtype_comes_back() {
    let (none, context) = (MemorySource::file("model", []), MemoryContext::default());
    let view = MemoryView::made("model", &none, &context, |catalog| {
        let bytes: Vec<u8> = (0..96).map(|byte| byte & 1).collect();
        let storage = catalog.storage(Storage::inline(bytes))?;
        for dtype in WRITTEN {
            let name = format!("layers/{}/vars/0", dtype.info().unwrap().name());
            catalog.tensor(&name, dtype, &[2, 3], storage, 0)?;
        }
        catalog.tensor("layers/scalar/vars/0", Dtype::F32, &[], storage, 0)?;
        catalog.tensor("layers/none/vars/0", Dtype::F32, &[0, 4], storage, 0)?;
        catalog.tensor(&"n".repeat(300), Dtype::F32, &[1], storage, 0)?;
        catalog.tensor("layers/tied/vars/0", Dtype::F32, &[2, 3], storage, 0)?;
        // Paths that cannot be, and a dtype that is not there.
        catalog.tensor("layers", Dtype::F32, &[], storage, 0)?;
        catalog.tensor("a//b", Dtype::F32, &[], storage, 0)?;
        catalog.tensor("f8", Dtype::F8_E4M3, &[3], storage, 0).map(drop)
    })
    .unwrap();
    let target = Target::File("m.weights.h5".to_owned());
    let output = memory::write(&Keras, &[], &view, &target, &context).unwrap();
    let bytes = &output.files["m.weights.h5"];
    let again = MemorySource::file("m.weights.h5", bytes.clone());
    with_view(&again, &[], |read| {
        let names: Vec<&str> = read.catalog().tensors().iter().map(|tensor| &*tensor.name).collect();
        assert_eq!(names.len(), WRITTEN.len() + 4, "{names:?}");
        for name in names {
            assert_eq!(facts(read, name), facts(&view, name), "{name}");
        }
    })
    .unwrap();
}

#[test]
fn another_file_is_written_again() {
    // Own names mean the same variables as paths do.
    let own: &[(&str, &str)] = &[("names", "name")];
    for (case, name, names) in [
        ("bfloat16", "model.keras", &[][..]),
        ("functional_nested_shared", "model.keras", &[]),
        ("functional_nested_shared", "model.keras", own),
        ("legacy_h5_model", "model.h5", &[]),
        ("legacy_h5_model", "model.h5", own),
        ("weights_h5", "model.weights.h5", &[]),
        ("weights_h5", "model.weights.h5", own),
        ("h5_userblock", "ub.weights.h5", &[]),
    ] {
        let folder = cases("keras", case).remove(0);
        let like = source(&folder, expected(&folder)["entry"].as_str().unwrap());
        let mut context = MemoryContext::default();
        context.sources.insert("like".to_owned(), Arc::new(like.clone()));
        let options = memory::pairs(&[("like", "like")]);
        let none = MemorySource::file("model", []);
        // Each tensor's bytes, turned over.
        let tensors: Vec<(String, Dtype, Vec<u64>, Vec<u8>)> = with_view(&like, names, |view| {
            let tensors = view.catalog().tensors().iter();
            tensors
                .map(|tensor| {
                    let (_, shape, mut bytes) = view.tensor_named(&tensor.name).unwrap();
                    bytes.reverse();
                    (tensor.name.clone(), tensor.dtype, shape, bytes)
                })
                .collect()
        })
        .unwrap();
        let view = MemoryView::made("model", &none, &context, |catalog| {
            for (name, dtype, shape, bytes) in &tensors {
                let storage = catalog.storage(Storage::inline(bytes.clone()))?;
                catalog.tensor(name, *dtype, shape, storage, 0)?;
            }
            Ok(())
        })
        .unwrap();
        let target = Target::File(name.to_owned());
        let output = memory::write(&Keras, &options, &view, &target, &context).unwrap();
        let again = MemorySource::file(name, output.files[name].clone());
        with_view(&again, names, |read| {
            for (tensor, ..) in &tensors {
                assert_eq!(facts(read, tensor), facts(&view, tensor), "{case}: {tensor}");
            }
        })
        .unwrap();
    }
}

#[test]
fn another_file_that_has_none_of_the_tensors_is_refused() {
    let folder = cases("keras", "weights_h5").remove(0);
    let like = source(&folder, expected(&folder)["entry"].as_str().unwrap());
    let mut context = MemoryContext::default();
    context.sources.insert("like".to_owned(), Arc::new(like));
    let none = MemorySource::file("model", []);
    let view = MemoryView::made("model", &none, &context, |catalog| {
        let storage = catalog.storage(Storage::inline(vec![0; 4]))?;
        catalog.tensor("nothing/like/it", Dtype::F32, &[1], storage, 0).map(|_| ())
    })
    .unwrap();
    let target = Target::File("m.weights.h5".to_owned());
    let error = memory::write(&Keras, &memory::pairs(&[("like", "like")]), &view, &target, &context);
    let error = error.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("nothing/like/it"), "{error}");
}

#[test]
fn what_needs_a_model_says_so() {
    let (none, context) = (MemorySource::file("model", []), MemoryContext::default());
    let view = MemoryView::made("model", &none, &context, |_| Ok(())).unwrap();
    for name in ["m.keras", "m.h5", "m.weights.json"] {
        let error = memory::write(&Keras, &[], &view, &Target::File(name.to_owned()), &context);
        assert_eq!(error.map(|_| ()).unwrap_err().kind(), ErrorKind::Usage, "{name}");
    }
}
