//! Tests that the guide's references list exactly the JSON documents that the program prints and
//! the environment variables that it reads.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::files_below;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::{Ferry, args, guide, workspace};

/// The documents, and the commands that print them. Together, the commands print every key.
const DOCUMENTS: [(&str, &[&str]); 14] = [
    (
        "convert",
        &[
            "convert model.pt model.safetensors --verify --receipt --json",
            "convert folder out/ --to safetensors --json",
            "convert rows.jsonl rows.parquet --verify --json",
        ],
    ),
    (
        "inspect",
        &[
            "inspect model.pt --json",
            "inspect folder --json",
            "inspect model.pt --stats --json",
            "inspect rows.jsonl --stats --json",
        ],
    ),
    ("show", &["show model.pt bn.weight[0:2] --json"]),
    ("diff", &["diff model.pt other.pt --json", "diff rows.jsonl other.jsonl --json"]),
    ("check", &["check model.pt --against expected.json --json"]),
    ("verify", &["verify model.safetensors --json"]),
    ("index", &["index rows.tfrecord --json"]),
    ("plan", &["plan zoo.toml plan --json"]),
    ("run", &["run zoo.toml --json"]),
    ("formats", &["formats --json", "formats safetensors --json"]),
    ("steps", &["steps --json"]),
    ("plugin list", &["plugin list --json"]),
    ("doctor", &["doctor --json"]),
    ("errors", &["convert absent.bin model.gguf --json", "convert cut.safetensors model.gguf --json"]),
];

/// Objects whose keys are data. They are listed with the key `*`.
const MAPS: [&str; 9] =
    ["attributes", "counts", "dtypes", "features", "limits", "metadata", "samples", "tensors", "up_to"];

#[test]
fn the_guide_has_every_key_of_the_json_documents() {
    let path = guide::folder().join("json.md");
    let page = fs::read_to_string(&path).unwrap();
    let ferry = Ferry::new();
    prepare(&ferry);
    let mut updated = page.clone();
    for (name, commands) in DOCUMENTS {
        let mut keys = BTreeMap::new();
        for command in commands {
            let mut command_line = ferry.command(command.split(' '));
            // The result of `doctor` must not depend on the Python of this machine.
            command_line.current_dir(ferry.home()).env("FERRY_PYTHON", "absent");
            let ran = run(&mut command_line);
            for document in serde_json::Deserializer::from_str(&ran.stdout).into_iter::<Value>() {
                collect(&document.unwrap_or_else(|error| panic!("{command}: {error}")), "", &mut keys);
            }
        }
        assert!(!keys.is_empty(), "{name} prints no document");
        let (begin, end) = (format!("<!-- json {name} -->\n"), "<!-- /json -->");
        let (before, rest) = updated.split_once(&begin).unwrap_or_else(|| panic!("json.md has no {begin}"));
        let (table, after) = rest.split_once(end).expect("the table has an end");
        updated = format!("{before}{begin}{}{end}{after}", table_of(&keys, &meanings(table)));
    }
    if std::env::var_os("FERRY_TEST_WRITE_GUIDE").is_some() {
        fs::write(&path, &updated).unwrap();
    }
    assert_eq!(page, updated, "set FERRY_TEST_WRITE_GUIDE=1 to update it");
    let without: Vec<&str> = page.lines().filter(|line| line.ends_with("|  |")).collect();
    assert!(without.is_empty(), "keys without a meaning:\n{}", without.join("\n"));
}

fn prepare(ferry: &Ferry) {
    let model = case("torch", "zip_module_state_dict").input();
    for name in ["model.pt", "folder/pytorch_model.bin", "zoo/a.pt"] {
        ferry.write(name, fs::read(&model).unwrap());
    }
    ferry.write("folder/config.json", "{}");
    ferry.write("folder/notes.xlsx", "");
    ferry.write("rows.jsonl", "{\"id\": 1, \"text\": \"a\"}\n{\"id\": 2, \"text\": \"b\"}\n");
    ferry.write("other.jsonl", "{\"id\": 1, \"text\": \"a\"}\n{\"id\": 3, \"text\": \"b\"}\n");
    ferry.write("zoo.toml", "[[zoo]]\nroot = \"zoo\"\noutput = \"out-zoo/{stem}.safetensors\"\n");
    ferry.write("cut.safetensors", [8, 0, 0, 0, 0, 0, 0, 0, b'{']);
    let [model, other, rows] = ferry.paths(["model.pt", "other.pt", "rows.tfrecord"]);
    ferry.convert(&model, &other, &["--step", "cast:f16"]);
    ferry.convert(&ferry.at("rows.jsonl"), &rows, &[]);
    let expected = ferry.run(args!["inspect", other, "--json"]).expect(0);
    ferry.write("expected.json", expected.stdout);
}

/// Adds the keys of a value, as paths such as `losses[].kind`, with their types.
fn collect(value: &Value, path: &str, keys: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    let mut add = |kind| {
        keys.entry(path.to_owned()).or_default().insert(kind);
    };
    match value {
        Value::Null => add("null"),
        Value::Bool(_) => add("boolean"),
        Value::Number(_) => add("number"),
        Value::String(_) => add("string"),
        Value::Array(items) => {
            if !path.is_empty() {
                add("list");
            }
            items.iter().for_each(|item| collect(item, &format!("{path}[]"), keys));
        }
        Value::Object(entries) => {
            let last = path.rsplit('.').next().unwrap_or_default();
            if last == "state" {
                return add("object");
            }
            let is_map = MAPS.contains(&last);
            for (key, item) in entries {
                let key = if is_map { "*" } else { key };
                let dot = if path.is_empty() { "" } else { "." };
                collect(item, &format!("{path}{dot}{key}"), keys);
            }
        }
    }
}

fn meanings(table: &str) -> BTreeMap<&str, &str> {
    let rows = table.lines().filter_map(|row| row.strip_prefix("| `")?.split_once("` | "));
    rows.filter_map(|(key, rest)| Some((key, rest.split_once(" | ")?.1.trim_end_matches(" |")))).collect()
}

fn table_of(keys: &BTreeMap<String, BTreeSet<&str>>, meanings: &BTreeMap<&str, &str>) -> String {
    let mut table = "| Key | Type | Meaning |\n|---|---|---|\n".to_owned();
    for (key, kinds) in keys {
        // The elements of a list are described by the list, or by their own keys.
        if key.ends_with("[]") {
            continue;
        }
        let kinds = kinds.iter().copied().collect::<Vec<_>>().join(" or ");
        let meaning = meanings.get(key.as_str()).copied().unwrap_or_default();
        writeln!(table, "| `{key}` | {kinds} | {meaning} |").unwrap();
    }
    table
}

/// Prefixes in the names of environment variables that programs define.
const PREFIXES: [&str; 12] = [
    "FERRY_",
    "XDG_",
    "HF_",
    "AWS_",
    "GOOGLE_",
    "SLURM_",
    "JOB_",
    "RAY_",
    "NO_",
    "HUGGING",
    "HTTP",
    "TRANSFORMERS_",
];

#[test]
fn the_guide_has_every_environment_variable() {
    let pages = ["every-command.md", "remote.md", "ray.md"];
    let pages = pages.map(|name| fs::read_to_string(guide::folder().join(name)).unwrap()).concat();
    let mut read = BTreeSet::new();
    for file in files_below(&workspace::root().join("host")) {
        let name = file.display().to_string();
        let is_test = name.contains("tests") || name.contains("/examples/") || name.starts_with("target");
        let is_source = [".rs", ".py"].iter().any(|ending| name.ends_with(ending));
        if is_test || !is_source || name.ends_with("crash.rs") {
            continue;
        }
        let text = fs::read_to_string(workspace::root().join("host").join(&file)).unwrap();
        let code = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
        read.extend(code.split('"').filter(|word| is_variable(word)).map(str::to_owned));
    }
    let of_tests = ["FERRY_FAULT", "FERRY_TEST_", "FERRY_UPDATE_"];
    let missing: Vec<&String> = read
        .iter()
        .filter(|name| !of_tests.iter().any(|start| name.starts_with(start)))
        .filter(|name| !pages.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "not in the guide: {missing:?}");
    assert!(read.len() > 25, "{read:?}");
    // The guide also names variables that only other programs read.
    let listed = pages.split('`').filter(|word| is_variable(word) && word.starts_with("FERRY_"));
    let unread: Vec<&str> = listed.filter(|name| !read.contains(*name)).collect();
    assert!(unread.is_empty(), "in the guide, but nothing reads them: {unread:?}");
}

fn is_variable(word: &str) -> bool {
    let is_name = word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    is_name && !word.ends_with('_') && PREFIXES.iter().any(|start| word.starts_with(start))
}
