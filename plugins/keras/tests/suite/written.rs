//! Writes new files and copies of existing files, and reads them again.

use crate::common::{archive, source};
use std::sync::Arc;
use tensorferry_keras::Keras;
use tensorferry_sdk::memory::{self, MemoryView};
use tensorferry_sdk::{Dtype, ErrorKind, MemoryContext, MemorySource, Result, Storage, Target};
use tensorferry_test_kit::fixtures::{cases, expected, facts};
use tensorferry_test_kit::tensors::with_view;

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
    let view = MemoryView::build("model", &none, &context, |catalog| {
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
        // These tensors cannot be written. Two of them have names that are not valid paths, and
        // HDF5 does not support the dtype of the third one.
        catalog.tensor("layers", Dtype::F32, &[], storage, 0)?;
        catalog.tensor("a//b", Dtype::F32, &[], storage, 0)?;
        catalog.tensor("f8", Dtype::F8_E4M3, &[3], storage, 0).map(drop)
    })
    .unwrap();
    let target = Target::File("m.weights.h5".to_owned());
    let output = memory::write(&Keras, &[], &view, &target, &context).unwrap();
    let bytes = &output.files["m.weights.h5"];
    let again = MemorySource::file("m.weights.h5", bytes.clone());
    with_view(&Keras, &again, &[], |read| {
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
    // Tensors can be matched with variables by path, or by the names of layers and variables.
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
        // These are the tensors of the copied file, with their bytes in reverse order.
        let tensors: Vec<(String, Dtype, Vec<u64>, Vec<u8>)> = with_view(&Keras, &like, names, |view| {
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
        let view = MemoryView::build("model", &none, &context, |catalog| {
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
        with_view(&Keras, &again, names, |read| {
            for (tensor, ..) in &tensors {
                assert_eq!(facts(read, tensor), facts(&view, tensor), "{case}: {tensor}");
            }
        })
        .unwrap();
    }
}

/// Writes tensors that contain only zeros into a copy of a fixture's file. Returns the losses and
/// notes.
fn like(case: &str, options: &[(&str, &str)], tensors: &[(&str, Dtype, &[u64])]) -> Result<Vec<String>> {
    let folder = cases("keras", case).remove(0);
    let like = source(&folder, expected(&folder)["entry"].as_str().unwrap());
    let mut context = MemoryContext::default();
    context.sources.insert("like".to_owned(), Arc::new(like));
    let none = MemorySource::file("model", []);
    let view = MemoryView::build("model", &none, &context, |catalog| {
        for (name, dtype, shape) in tensors {
            let bytes =
                shape.iter().product::<u64>() * u64::from(dtype.info().unwrap().element_bytes().unwrap());
            let storage = catalog.storage(Storage::inline(vec![0; usize::try_from(bytes).unwrap()]))?;
            catalog.tensor(name, *dtype, shape, storage, 0)?;
        }
        Ok(())
    })
    .unwrap();
    let target = Target::File("m.weights.h5".to_owned());
    let options = memory::pairs(&[&[("like", "like")], options].concat());
    let output = memory::write(&Keras, &options, &view, &target, &context)?;
    Ok(output.layout.losses().iter().map(ToString::to_string).chain(context.notes()).collect())
}

const KEPT: &[(&str, &str)] = &[("missing", "keep")];
const KERNEL: (&str, Dtype, &[u64]) = ("layers/dense/vars/0", Dtype::F32, &[6, 5]);

#[test]
fn another_file_that_has_none_of_the_tensors_is_refused() {
    for options in [&[][..], KEPT] {
        let error = like("weights_h5", options, &[("nothing/like/it", Dtype::F32, &[1])]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("nothing/like/it"), "{error}");
    }
}

/// The user must request an output that mixes old and new values.
#[test]
fn variables_without_tensors_are_refused_or_kept() {
    let error = like("sequential_compiled", &[], &[KERNEL]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let text = error.to_string();
    assert!(text.contains("\"layers/dense/vars/1\""), "{text}");
    let hint = error.details().find(|(name, _)| *name == "hint").unwrap().1;
    assert!(hint.contains("-o missing=keep"), "{hint}");
    assert!(!text.contains("optimizer") && !text.contains("\"layers/dense/vars/0\""), "{text}");
    let reported = like("sequential_compiled", KEPT, &[KERNEL]).unwrap();
    assert!(
        reported.iter().any(|reported| reported.starts_with("7 variables keep the values")),
        "{reported:?}"
    );
    assert!(reported.iter().any(|reported| reported.contains("optimizer")), "{reported:?}");
    let error = memory::write(
        &Keras,
        &memory::pairs(KEPT),
        &MemoryView::build("model", &MemorySource::file("model", []), &MemoryContext::default(), |_| Ok(()))
            .unwrap(),
        &Target::File("m.weights.h5".to_owned()),
        &MemoryContext::default(),
    );
    assert_eq!(error.map(|_| ()).unwrap_err().kind(), ErrorKind::Usage);
}

/// The cast tensor has the name of a variable, but a different dtype.
#[test]
fn tensors_that_do_not_fit_say_both_forms() {
    let cast = (KERNEL.0, Dtype::F16, KERNEL.2);
    let text = like("sequential_compiled", &[], &[cast]).unwrap_err().to_string();
    assert!(text.contains("F32 of shape [6, 5]") && text.contains("found F16 of shape [6, 5]"), "{text}");
    let text = like("sequential_compiled", KEPT, &[cast]).unwrap_err().to_string();
    assert!(text.contains("F16 of shape [6, 5]"), "{text}");
    // Keras 2 files cannot mark elements as BF16, so a BF16 tensor does not fit.
    let path = "model_weights/first/first/kernel:0";
    assert!(like("legacy_h5_model", &[], &[(path, Dtype::BF16, &[6, 5])]).is_err());
}

#[test]
fn what_needs_a_model_says_so() {
    let (none, context) = (MemorySource::file("model", []), MemoryContext::default());
    let view = MemoryView::build("model", &none, &context, |_| Ok(())).unwrap();
    for name in ["m.keras", "m.h5", "m.weights.json"] {
        let error = memory::write(&Keras, &[], &view, &Target::File(name.to_owned()), &context);
        assert_eq!(error.map(|_| ()).unwrap_err().kind(), ErrorKind::Usage, "{name}");
    }
}

/// If a path is not that of a layer's variable, ferry cannot derive a name from it.
#[test]
fn names_that_change_nothing_are_noted() {
    for (path, is_noted) in [("a/b", true), ("layers/dense/vars/0", false)] {
        let (none, context) = (MemorySource::file("model", []), MemoryContext::default());
        let view = MemoryView::build("model", &none, &context, |catalog| {
            let storage = catalog.storage(Storage::inline(vec![0; 4]))?;
            catalog.tensor(path, Dtype::F32, &[1], storage, 0).map(drop)
        })
        .unwrap();
        let target = Target::File("m.weights.h5".to_owned());
        let output = memory::write(&Keras, &[], &view, &target, &context).unwrap();
        let again = MemorySource::file("m.weights.h5", output.files["m.weights.h5"].clone());
        let context = MemoryContext::default();
        MemoryView::read(&Keras, &memory::pairs(&[("names", "name")]), &again, &context).unwrap();
        assert_eq!(context.notes().iter().any(|note| note.contains("changed nothing")), is_noted, "{path}");
    }
}

/// The assets of an archive are copied, whether the output is an archive or a folder.
#[test]
fn assets_of_another_file_go_along() {
    let vocabulary = "assets/layers/text/vocabulary.txt";
    let weights = cases("keras", "h5_minimal_writer").remove(0).join("min.weights.h5");
    let like = archive(&[
        ("config.json", b"{}"),
        ("model.weights.h5", &std::fs::read(weights).unwrap()),
        (vocabulary, b"the\nof\n"),
    ]);
    let like = MemorySource::file("like.keras", like);
    let mut context = MemoryContext::default();
    context.sources.insert("like".to_owned(), Arc::new(like.clone()));
    let view = MemoryView::read(&Keras, &memory::pairs(&[]), &like, &context).unwrap();
    let write = |target: &Target| {
        memory::write(&Keras, &memory::pairs(&[("like", "like")]), &view, target, &context).unwrap().files
    };
    assert_eq!(write(&Target::Folder)[vocabulary], b"the\nof\n");
    let again = write(&Target::File("m.keras".to_owned())).remove("m.keras").unwrap();
    let losses = with_view(&Keras, &MemorySource::file("m.keras", again), &[], |read| {
        read.catalog().losses().to_vec()
    });
    assert_eq!(losses.unwrap()[0].what, vocabulary);
}
