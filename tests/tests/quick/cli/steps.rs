//! Tests of steps with the program. They check the exact results, the messages, and the rejected
//! steps.

use std::path::Path;
use tensorferry_tests::Ferry;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::model::Model;

#[test]
fn a_nested_checkpoint_keeps_its_state_under_other_names() {
    let ferry = Ferry::new();
    let case = case("torch", "zip_training_checkpoint_plain");
    let output = ferry.at("renamed.pt");
    let step = r"rename:^model\.emb,to=model.embedding";
    ferry.convert(&case.input(), &output, &["--verify", "--strict", "--step", step]);
    let [before, after] = [&case.input(), &output].map(|path| ferry.tensors(path));
    assert_eq!(after["model.embedding.weight"], before["model.emb.weight"]);
    assert_eq!(after.len(), before.len());
    ferry.diff(&case.input(), &output, &["--step", step]).expect(0);
    // Values other than tensors are kept.
    let state = |path: &Path| ferry.inspect(path)["state"].to_string().replace("embedding", "emb");
    assert_eq!(state(&output), state(&case.input()));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let ferry = Ferry::new();
    let input = ferry.model("in.safetensors", &Model::of_size(1 << 16, 6, 1));
    let output = ferry.at("out.safetensors");
    for (step, said) in [
        ("renam:a,to=b", "did you mean \"rename\""),
        ("rename:.*,to=x", "several tensors would have the same name"),
        ("select:nothing", "leaves no tensor"),
        ("transpose", "rank="),
        ("@nowhere.toml", "recipe file does not exist"),
    ] {
        ferry.try_convert(&input, &output, &["--step", step]).expect(2).says(&[said, "step"]);
        assert_eq!(ferry.names(), ["in.safetensors"]);
    }
    ferry.convert(&input, &output, &["--step", "drop:nothing"]).says(&["drop:nothing changed nothing"]);
}

#[test]
fn steps_and_recipes_are_listed_and_shown() {
    let ferry = Ferry::new();
    let all = ferry.run(["steps", "--json"]).expect(0).json();
    let text = ferry.run(["steps"]).expect(0).stdout;
    let mut seen = 0;
    for list in ["steps", "recipes"] {
        for item in all[list].as_array().unwrap() {
            let name = item["name"].as_str().unwrap();
            let shown = ferry.run(["steps", name]).expect(0).stdout;
            assert!(
                text.contains(name) && shown.contains(item["summary"].as_str().unwrap()),
                "{name}: {shown}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 20, "{text}");
    ferry.run(["steps", "renam"]).expect(2).says(&["did you mean \"rename\""]);
}
