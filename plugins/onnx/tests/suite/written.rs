//! Checks that replacing the tensors of a model does not change any other byte.

use crate::common::{case_source, contents, field, model, number, outside, source, tensor};
use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_onnx::Onnx;
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::{
    CatalogSink, Dtype, Entry, ErrorKind, MemoryContext, MemorySource, Result, Source, Storage, Target,
};
use tensorferry_test_kit::fixtures::{cases, expected};

/// Writes a copy of `like` with the tensors of `from` and these options.
fn rewrite(from: &MemorySource, like: &MemorySource, options: &[(&str, &str)]) -> Result<MemoryOutput> {
    let mut context = MemoryContext::default();
    context.sources.insert("like".to_owned(), Arc::new(like.clone()));
    let view = MemoryView::read(&Onnx, &[], from, &context)?;
    let options = [&[("like", "like")], options].concat();
    memory::write(&Onnx, &memory::pairs(&options), &view, &Target::File("out.onnx".to_owned()), &context)
}

fn read(output: &MemoryOutput) -> BTreeMap<String, (String, Vec<u64>, Vec<u8>)> {
    contents(&MemorySource::new(Entry::File("out.onnx".to_owned()), output.files.clone())).unwrap()
}

#[test]
fn a_model_like_itself_is_itself() {
    let mut same = 0;
    for folder in cases("onnx", "") {
        let expected = expected(&folder);
        if expected["expect"] != "ok" || expected["may_refuse"].is_string() {
            continue;
        }
        let source = case_source(&folder, &expected);
        let before = contents(&source).unwrap();
        for external in ["auto", "all", "none"] {
            let output = rewrite(&source, &source, &[("external", external)]).unwrap();
            assert_eq!(read(&output), before, "{} {external}", folder.display());
            assert!(output.layout.losses().is_empty() || before.values().any(|facts| facts.0 == "STR"));
        }
        let file = source.open(source.entry().name()).unwrap();
        let mut bytes = vec![0; usize::try_from(source.len(file)).unwrap()];
        source.read_at(file, 0, &mut bytes).unwrap();
        let output = rewrite(&source, &source, &[]).unwrap();
        // If all elements are in raw_data, the output is identical to the template.
        if ["raw_all_dtypes", "subgraph_initializers", "odd_names"].iter().any(|name| folder.ends_with(name))
        {
            assert!(output.files["out.onnx"] == bytes, "{}", folder.display());
            same += 1;
        }
    }
    assert_eq!(same, 3);
}

/// Returns a model that stores elements in every possible way, and that contains a node that must
/// be kept.
fn forms() -> (MemorySource, Vec<u8>) {
    let node = field(1, &[field(4, b"Relu"), number(100, 7)].concat());
    let initializers = [
        tensor("raw", 2, &[3], &field(9, &[1, 2, 3])),
        tensor("listed", 2, &[3], &[field(5, &[4, 5, 6]), field(12, b"a note")].concat()),
        tensor("beside", 2, &[2000], &outside(&[("location", "old"), ("offset", "1"), ("checksum", "x")])),
        tensor("text", 8, &[1], &field(6, b"text")),
    ];
    let old: Vec<u8> = std::iter::once(9).chain([7; 2000]).collect();
    (source(&model(&initializers, &node), &[("old", &old)]), node)
}

fn others(catalog: &mut dyn CatalogSink) -> Result<()> {
    let storage = catalog.storage(Storage::inline([[8; 3], [9; 3]].concat()))?;
    let long = catalog.storage(Storage::inline([5; 2000]))?;
    catalog.tensor("raw", Dtype::U8, &[3], storage, 0)?;
    catalog.tensor("listed", Dtype::U8, &[3], storage, 3)?;
    catalog.tensor("beside", Dtype::U8, &[2000], long, 0)?;
    catalog.tensor("unknown", Dtype::U8, &[1], storage, 0)?;
    Ok(())
}

/// Writes a copy of the model in `forms`, with different tensors and these options.
fn with_others(
    options: &[(&str, &str)],
    fill: impl FnOnce(&mut dyn CatalogSink) -> Result<()>,
) -> Result<MemoryOutput> {
    let (like, _) = forms();
    let mut context = MemoryContext::default();
    context.sources.insert("like".to_owned(), Arc::new(like));
    let none = MemorySource::file("none", []);
    let view = MemoryView::build("torch", &none, &context, fill).unwrap();
    let options = [&[("like", "like")], options].concat();
    memory::write(&Onnx, &memory::pairs(&options), &view, &Target::File("out.onnx".to_owned()), &context)
}

#[test]
fn other_tensors_take_the_places_of_a_models_own() {
    for (external, outside) in [("auto", true), ("all", true), ("none", false)] {
        let output = with_others(&[("external", external)], others).unwrap();
        let tensors = read(&output);
        assert_eq!(tensors["raw"].2, [8; 3]);
        assert_eq!(tensors["listed"].2, [9; 3]);
        assert_eq!(tensors["beside"].2, [5; 2000]);
        assert_eq!(tensors["text"].2[8..], *b"text");
        assert_eq!(output.files.get("out.onnx.data").map(Vec::len), outside.then_some(2000));
        let model = &output.files["out.onnx"];
        let holds = |part: &[u8]| model.windows(part.len()).any(|window| window == part);
        assert!(holds(&forms().1) && holds(b"a note") && holds(b"by hand"), "{external}");
        let omitted: Vec<&str> = output.layout.losses().iter().map(|loss| &*loss.what).collect();
        assert_eq!(omitted, ["unknown"]);
    }
}

#[test]
fn what_no_tensor_replaces_comes_along_on_request() {
    let only = |catalog: &mut dyn CatalogSink| {
        let storage = catalog.storage(Storage::inline([8; 3]))?;
        catalog.tensor("raw", Dtype::U8, &[3], storage, 0).map(drop)
    };
    let refused = with_others(&[], only).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage);
    let reported = refused.to_string();
    assert!(reported.contains("no values for \"listed\", \"beside\""), "{reported}");
    for external in ["auto", "all", "none"] {
        let options = [("external", external), ("missing", "keep")];
        let tensors = read(&with_others(&options, only).unwrap());
        assert_eq!((&*tensors["raw"].2, &*tensors["listed"].2), (&[8; 3][..], &[4, 5, 6][..]));
        assert_eq!(tensors["beside"].2, [7; 2000], "{external}");
    }
}

#[test]
fn tensors_of_another_shape_or_dtype_are_left_out() {
    let unlike = |catalog: &mut dyn CatalogSink| {
        let storage = catalog.storage(Storage::inline([1; 64]))?;
        catalog.tensor("raw", Dtype::U8, &[1, 3], storage, 0)?;
        catalog.tensor("listed", Dtype::I8, &[3], storage, 0).map(drop)
    };
    assert_eq!(with_others(&[], unlike).unwrap_err().kind(), ErrorKind::Usage);
    let output = with_others(&[("missing", "keep")], unlike).unwrap();
    let reported: Vec<&str> = output.layout.losses().iter().map(|loss| &*loss.why).collect();
    assert!(reported[0].contains("-o like= model is U8 [3]") && reported.len() == 2, "{reported:?}");
}

#[test]
fn tensors_alone_make_no_model() {
    let (from, context) = (forms().0, MemoryContext::default());
    let view = MemoryView::read(&Onnx, &[], &from, &context).unwrap();
    let refused = memory::write(&Onnx, &[], &view, &Target::Folder, &context).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage);
}
