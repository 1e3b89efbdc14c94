//! The commands that somebody types who has just got ferry, right and wrong spellings among them, and what each prints:
//! `transcript.txt`. A change of words shows there. `FERRY_TEST_WRITE_TRANSCRIPT=1` writes it anew; read it then.

use std::path::PathBuf;
use tensorferry_tests::ferry::{after, run};
use tensorferry_tests::fixtures::case;
use tensorferry_tests::table::Style;
use tensorferry_tests::workspace::root;
use tensorferry_tests::{Ferry, bundle};

/// In this order, in one folder.
const COMMANDS: &[&str] = &[
    "",
    "--version",
    "formats",
    "inspect checkpoint.pt",
    "convert checkpoint.pt",
    "convert checkpoint.pt model.safetensor",
    "convert chekpoint.pt model.safetensors",
    "covert checkpoint.pt model.safetensors",
    "convert checkpoint.pt model.safetensors",
    "convert checkpoint.pt model.safetensors --part model",
    "convert checkpoint.pt model.safetensors --part model",
    "convert checkpoint.pt model.safetensors --part modle --overwrite",
    "convert checkpoint.pt model.safetensors --part modle --force",
    "convert checkpoint.pt model.safetensors --part model --force --verify",
    "convert model.safetensors half.safetensors --dtype bf16",
    "convert model.safetensors half.safetensors --step cast:fp16",
    "convert model.safetensors half.safetensors --step cats:bf16",
    "convert model.safetensors half.safetensors --step cast:bf16",
    "convert model.safetensors out --to pytorch",
    "diff checkpoint.pt model.safetensors --part model",
    "diff model.safetensors half.safetensors",
    "inspect model.safetensors bn.*",
    "inspect model.safetensors layer.*",
    "convert tf/model.ckpt-7.index variables.safetensors",
    "cat people.jsonl --limit 2",
    "cat model.safetensors",
    "convert people.jsonl people.parquet",
    "inspect people.parquet",
    "convert people.jsonl people.tfrecord -o compresion=gzip",
    "convert people.jsonl people.safetensors",
    "convert people.parquet adults.jsonl --step filter:age=>18",
    "convert people.parquet adults.jsonl --step filter:age>18",
    "diff people.jsonl people.parquet",
    "diff people.jsonl adults.jsonl",
    "verify model.safetensors",
    "steps cast",
];

#[test]
fn of_what_a_new_user_types() {
    let ferry = Ferry::new();
    let checkpoint = case("torch", "zip_training_checkpoint").input();
    std::fs::copy(&checkpoint, ferry.at("checkpoint.pt")).unwrap();
    let mut variables = bundle::Bundle::default();
    variables.numbers("dense/kernel", bundle::dtype("F32"), &[2, 3], &[1; 24]);
    std::fs::create_dir(ferry.at("tf")).unwrap();
    variables.write(&ferry.at("tf"), "model.ckpt-7", &Style::default());
    ferry.write(
        "people.jsonl",
        "{\"name\": \"Ada\", \"age\": 36}\n{\"name\": \"Grace\", \"age\": 85}\n{\"name\": \"Tim\", \"age\": 9}\n",
    );

    let mut transcript = String::new();
    for typed in COMMANDS {
        let mut command = after("exec 2>&1", &ferry.command(typed.split_whitespace()));
        let outcome = run(command.current_dir(ferry.home()));
        let code = outcome.code.expect("no signal ends it");
        transcript +=
            &format!("$ {}\n{}", ["ferry", typed].join(" ").trim_end(), shown(&outcome.stdout, &ferry));
        transcript += &if code == 0 { "\n".to_owned() } else { format!("[exit code {code}]\n\n") };
    }
    let path: PathBuf = root().join("tests/tests/quick/cli/transcript.txt");
    if std::env::var_os("FERRY_TEST_WRITE_TRANSCRIPT").is_some() {
        std::fs::write(&path, &transcript).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    let of = |text: &str| text.split("\n\n$ ").map(str::to_owned).collect::<Vec<_>>();
    for (kept, now) in of(&kept).iter().zip(&of(&transcript)) {
        assert_eq!(now, kept, "FERRY_TEST_WRITE_TRANSCRIPT=1 renews {}", path.display());
    }
    assert_eq!(transcript.len(), kept.len());
}

/// Without how long it took, and where the folder lies.
fn shown(text: &str, ferry: &Ferry) -> String {
    let line = |line: &str| match line.rsplit_once(" in ") {
        Some((before, time)) if time.contains(" s") && line.starts_with("wrote ") => {
            let rest = time.split_once(" s").map_or("", |(_, rest)| rest);
            format!("{before} in ... s{rest}\n")
        }
        _ => format!("{line}\n"),
    };
    let text: String = text.lines().map(line).collect();
    text.replace(&ferry.home().display().to_string(), "/home/ada")
}
