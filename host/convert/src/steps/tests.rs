//! Tests of steps and recipes, written as users write them.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::record_support::NoRecords;
use proptest::prelude::*;
use tensorferry_sdk::{Catalog, CatalogBuilder, CatalogSink, Dtype, Entry, Limits, MemorySource, Storage};
use tensorferry_tensors::steps::apply;
use tensorferry_tensors::steps::spec::Field;

fn catalog(tensors: &[(&str, &[u64])]) -> Catalog {
    let (source, limits) = (MemorySource::new(Entry::Folder, Default::default()), Limits::default());
    let mut builder = CatalogBuilder::new("memory", &source, &limits);
    for (name, shape) in tensors {
        let bytes = vec![0; usize::try_from(shape.iter().product::<u64>()).unwrap()];
        let storage = builder.storage(Storage::inline(bytes)).unwrap();
        builder.tensor(name, Dtype::U8, shape, storage, 0).unwrap();
    }
    builder.finish().unwrap()
}

fn names_after(tensors: &[&str], steps: &[&str]) -> Vec<String> {
    let tensors: Vec<(&str, &[u64])> = tensors.iter().map(|&name| (name, &[1][..])).collect();
    let (catalog, _) = apply(catalog(&tensors), &on_tensors(parsed(steps)).unwrap()).unwrap();
    catalog.tensors().iter().map(|tensor| tensor.name.clone()).collect()
}

fn parsed(texts: &[&str]) -> Vec<AnyStep> {
    parse(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>(), &NoRecords).unwrap()
}

fn refused(text: &str) -> String {
    parse(&[text.to_owned()], &NoRecords).unwrap_err().to_string()
}

#[test]
fn mistakes_say_where_and_what_was_meant() {
    for (spec, said) in [
        ("renam:a,to=b", "did you mean \"rename\""),
        ("rename:a", "expected to="),
        ("rename,to=b", "expected rename:REGEX"),
        ("rename:a,too=b", "did you mean \"to\""),
        ("rename:a,to=b,to=c", "column 15: to= is given twice"),
        ("rename:(a,to=b", "unclosed group"),
        ("rename:(a),to=$1_x", "${1}_x"),
        ("rename:(a),to=$2", "no group \"2\""),
        ("rename:a,to=$", "write $$ for a dollar sign"),
        ("select", "expected a glob"),
        ("select:[", "not a glob"),
        ("transpose:x", "takes nothing after a colon"),
        ("permute:ab->ac", "does not appear before it"),
        ("permute:0x2", "each dimension"),
        ("reshape:3xy", "expected a shape"),
        ("reshape:-1x-1", "-1 may appear only once"),
        ("split:a,to=b", "expected to= for each part"),
        ("split:a,to=b$i", "expected parts= or sizes="),
        ("split:a,to=b,to=c,parts=3", "different numbers of parts"),
        ("concat:a,to=b", "(?<i>"),
        ("select:a,min_size=big", "expected a size"),
        ("select:a,rank=x", "expected a number"),
        ("strip-prefix,prefx=a.", "did you mean \"prefix\""),
        ("strip-wrappers,a=b", "it has none"),
        ("strip-prefix:a", "nothing after a colon"),
        ("@/nowhere/x.toml", "recipe file does not exist"),
    ] {
        let error = refused(spec);
        assert!(error.contains(said) && error.contains("step 1"), "{spec}: {error}");
    }
}

#[test]
fn recipes_are_steps() {
    for name in recipe::names() {
        let recipe = recipe::find(name).unwrap().unwrap();
        let needed = recipe.parameters.iter().filter(|(_, parameter)| parameter.default.is_none());
        let given: String = needed.map(|(key, _)| format!(",{key}=8")).collect();
        assert!(!parsed(&[&format!("{name}{given}")]).is_empty());
        if let Some(back) = &recipe.inverse {
            assert_eq!(recipe::find(back).unwrap().unwrap().inverse.as_deref(), Some(name), "{name}");
        }
    }
    let of_llama = ["model.layers.10.self_attn.q_proj.weight", "model.norm.weight", "lm_head.weight"];
    let named = ["blk.10.attn_q.weight", "output_norm.weight", "output.weight"];
    assert_eq!(names_after(&of_llama, &["qwen-to-ggml"]), named);
    assert_eq!(names_after(&of_llama, &["qwen-to-ggml", "qwen-from-ggml"]), of_llama);
    let some = ["module._orig_mod.a._fsdp_wrapped_module.b", "modulex"];
    assert_eq!(names_after(&some, &["strip-wrappers"]), ["a.b", "modulex"]);
    assert_eq!(names_after(&some, &["strip-prefix"])[1], "modulex");
}

#[test]
fn a_file_is_a_recipe_and_cannot_name_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.toml");
    let at = format!("@{}", path.display());
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write(
        "summary = 's'\nsteps = ['rename:^,to={{p}}', {step = 'strip-prefix', prefix = 'x'}]\n[parameters.p]\nhelp = 'h'",
    );
    assert_eq!(names_after(&["a"], &[&format!("{at},p=xy")]), ["ya"]);
    assert!(refused(&at).contains("expected p=: h"));
    write(&format!("summary = 's'\nsteps = ['{at}']"));
    assert!(refused(&at).contains("deep"), "{}", refused(&at));
    write("summary = 's'\nsteps = ['rename:(,to=']");
    assert!(refused(&at).contains("step 1 of @"), "{}", refused(&at));
    write("summary = 's'\n  stepz = []\nsteps = []");
    assert!(refused(&at).contains("line 2, column 3"), "{}", refused(&at));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_spec_panics(
        name in proptest::sample::select(signatures(&NoRecords).into_iter().map(|signature| signature.name).collect::<Vec<_>>()),
        argument in proptest::option::of("[a-z0-9x*$(){}\\[\\]^.>-]{0,12}"),
        options in proptest::collection::vec(
            (
                proptest::sample::select(vec!["to", "with", "axis", "sizes", "parts", "from", "where", "where_re", "rank", "beside"]),
                "[a-z0-9x*$(){}\\[\\]^.>-]{0,8}",
            ),
            0..4,
        ),
    ) {
        let mut spec = Spec::new(name);
        spec.argument = argument.map(Field::new);
        for (key, value) in options {
            spec = spec.option(key, value);
        }
        if let Ok(steps) = make(&spec, &NoRecords, 0).and_then(on_tensors) {
            let _ = apply(catalog(&[("a", &[4, 3]), ("b.c", &[12]), ("", &[]), ("z", &[0, 7])]), &steps);
        }
    }
}
