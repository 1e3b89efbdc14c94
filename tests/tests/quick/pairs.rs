//! Tests of conversions between all pairs of formats. The losses of each pair are a table in the
//! guide, and every fixture is converted to safetensors and back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tempfile::tempdir;
use tensorferry::{Dtype, Error, Loss, NewTensor, Registry, Report, SaveOptions, Severity};
use tensorferry_test_kit::fixtures::sha256;
use tensorferry_tests::fixtures::{Facts, case, good_and_bad};
use tensorferry_tests::workspace;

fn registry() -> Registry {
    Registry::new().with_all(crate::formats::formats())
}

/// A format: its ID, the name of a file, and whether it can be written without a template, only
/// with a template, or never.
struct Format {
    id: &'static str,
    file: &'static str,
    written: Written,
}

enum Written {
    Alone,
    Like(fn() -> PathBuf),
    Never(fn() -> PathBuf),
}

fn formats() -> Vec<Format> {
    let alone = |id, file| Format { id, file, written: Written::Alone };
    let like = |id, file, input| Format { id, file, written: Written::Like(input) };
    let never = |id, input| Format { id, file: "", written: Written::Never(input) };
    vec![
        alone("safetensors", "m.safetensors"),
        alone("torch", "m.pt"),
        alone("torch-dcp", "m/"),
        never("deepspeed", || case("deepspeed", "zero3_fp32").folder.join("ckpt")),
        alone("megatron", "m/"),
        alone("tf-bundle", "m"),
        like("saved-model", "m/", || case("tf", "saved_model_pb").folder.join("saved_model")),
        never("tf-graph", || case("tf", "frozen_graph").folder.join("frozen.pb")),
        alone("gguf", "m.gguf"),
        like("onnx", "m.onnx", || case("onnx", "ir_version_3").folder.join("model.onnx")),
        alone("numpy", "m.npz"),
        alone("flax", "m.msgpack"),
        alone("orbax", "m/"),
        alone("keras", "m.weights.h5"),
        alone("tfrecord", "m.tfrecord"),
        alone("parquet", "m.parquet"),
        alone("jsonl", "m.jsonl"),
        alone("arrow", "m.arrow"),
        alone("csv", "m.csv"),
        alone("webdataset", "m.tar"),
        alone("mds", "m/"),
    ]
}

const RECORDS: [&str; 7] = ["tfrecord", "parquet", "jsonl", "arrow", "csv", "webdataset", "mds"];
const DATA_SET: &str = r#"{"id":1,"text":"a","score":0.5,"tags":["x","y"],"flag":true,"at":{"lat":1.5,"lon":2}}
{"id":2,"text":"\u00e9","score":-1.25,"tags":[],"flag":false,"at":{"lat":-3.5,"lon":4}}
{"id":3,"text":null,"score":8,"tags":["z"],"flag":null,"at":{"lat":0,"lon":-1}}
"#;

/// Writes the model for the table.
fn model(registry: &Registry, path: &Path) {
    let numbers = |count: u8, width: usize| (0..count).flat_map(|n| vec![n; width]).collect::<Vec<u8>>();
    let floats = |count: u8| (0..count).flat_map(|n| (f32::from(n) / 8.0).to_le_bytes()).collect::<Vec<u8>>();
    let tensors = [
        NewTensor::new("layer.weight", Dtype::F32, [2, 32], floats(64)),
        NewTensor::new("layer.bias", Dtype::F16, [32], numbers(32, 2)),
        NewTensor::new("layer.scale", Dtype::BF16, [2], numbers(2, 2)),
        NewTensor::new("layer.small", Dtype::F8_E4M3, [4], numbers(4, 1)),
        NewTensor::new("codes", Dtype::U8, [4], numbers(4, 1)),
        NewTensor::new("mask", Dtype::BOOL, [3], vec![1, 0, 1]),
        NewTensor::new("step", Dtype::I64, Vec::new(), 7_i64.to_le_bytes().to_vec()),
    ];
    registry.save_with(path, tensors, &SaveOptions::new().metadata("author", "me")).unwrap();
}

struct Pairs {
    registry: Registry,
    folder: tempfile::TempDir,
    formats: Vec<Format>,
    /// The notes below the table, in the order of their numbers.
    notes: Vec<String>,
}

impl Pairs {
    fn convert(&self, from: &Path, to: &Path, format: &Format, steps: &[&str]) -> Result<Report, Error> {
        let mut conversion = self.registry.convert(from, to).to(format.id).force(true);
        // The checkpoint contains a model and an optimizer. Formats without a tree can store only
        // the model or only the optimizer.
        if from.ends_with("dcp") {
            conversion = conversion.part("model");
        }
        for step in steps {
            conversion = conversion.step(*step);
        }
        let has_keys = from.extension().is_some_and(|extension| extension == "tar");
        if format.id == "webdataset" && !has_keys {
            let key = if steps.is_empty() { "id" } else { "name" };
            conversion = conversion.output_option("key", key);
        }
        if let Written::Like(like) = format.written {
            conversion = conversion.output_option("like", like().display().to_string());
        }
        conversion.run()
    }

    fn path(&self, folder: &str, format: &Format) -> PathBuf {
        let folder = self.folder.path().join(folder).join(format.id);
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(format.file)
    }

    /// Returns the input in format `from`. If `to` needs a template, the input is created from that
    /// template. Otherwise, the input is the dataset for record formats, and the model for tensor
    /// formats.
    fn input(&self, from: &Format, to: &Format) -> Option<PathBuf> {
        match (&from.written, &to.written) {
            (Written::Never(_), Written::Like(_)) => None,
            (Written::Never(input), _) => Some(input()),
            (_, Written::Like(_)) if RECORDS.contains(&from.id) => Some(self.path("base", from)),
            (_, Written::Like(like)) if from.id == to.id => Some(like()),
            (Written::Like(_), Written::Like(_)) => None,
            (Written::Like(input), _) => Some(input()),
            (Written::Alone, Written::Like(like)) => {
                let path = self.path(to.id, from);
                self.convert(&like(), &path, from, &[]).ok().map(|_| path)
            }
            (Written::Alone, Written::Alone) => Some(self.path("base", from)),
            (Written::Alone, Written::Never(_)) => None,
        }
    }

    fn cell(&mut self, from: &Format, to: &Format) -> String {
        let Some(input) = self.input(from, to) else { return "-".to_owned() };
        // Converting tensors to rows requires the same leading dimension in all tensors. A record
        // per tensor accepts any shapes.
        let crosses = RECORDS.contains(&to.id) && !RECORDS.contains(&from.id);
        let steps: &[&str] = if crosses { &["records:tensor"] } else { &[] };
        match self.convert(&input, &self.path(&format!("from-{}", from.id), to), to, steps) {
            Ok(report) => {
                let worst =
                    report.losses.iter().map(|loss| loss.severity).max_by_key(|&severity| rank(severity));
                let word = match worst.map(rank) {
                    None => return "all".to_owned(),
                    Some(0) => "all",
                    Some(1) => "changed",
                    Some(_) => "lost",
                };
                let mut numbers = BTreeSet::new();
                for loss in &report.losses {
                    numbers.insert(self.note(&format!(
                        "{}, {}: {}",
                        loss.severity.word(),
                        loss.kind.word(),
                        without_names(loss)
                    )));
                }
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                format!("{word} {}", numbers.join(" "))
            }
            Err(error) => format!("no {}", self.note(&format!("refused: {}", error.message()))),
        }
    }

    fn note(&mut self, text: &str) -> usize {
        // Escape `<`, because Markdown treats `list<int64>` as HTML.
        let text = text.replace('<', "\\<");
        let known = self.notes.iter().position(|note| *note == text);
        known.unwrap_or_else(|| {
            self.notes.push(text);
            self.notes.len() - 1
        }) + 1
    }
}

fn rank(severity: Severity) -> u8 {
    match severity {
        Severity::Note => 0,
        Severity::Changed => 1,
        _ => 2,
    }
}

/// Returns the reason of a loss without names that occur only in the test model.
fn without_names(loss: &Loss) -> String {
    let mut parts = loss.why.split('"');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (index, part) in parts.enumerate() {
        text.push_str(if index % 2 == 0 { "NAME" } else { part });
    }
    text
}

#[test]
fn the_table_of_pairs_is_what_they_carry() {
    let mut pairs =
        Pairs { registry: registry(), folder: tempdir().unwrap(), formats: formats(), notes: Vec::new() };
    let base = pairs.path("base", &pairs.formats[0]);
    model(&pairs.registry, &base);
    let data = pairs.folder.path().join("data.jsonl");
    std::fs::write(&data, DATA_SET).unwrap();
    for format in &pairs.formats {
        let source = if RECORDS.contains(&format.id) { &data } else { &base };
        if matches!(format.written, Written::Alone) && format.id != "safetensors" {
            pairs.convert(source, &pairs.path("base", format), format, &[]).unwrap();
        }
    }
    let gguf = pairs.formats.iter().find(|format| format.id == "gguf").unwrap();
    let safetensors = pairs.path("base", &pairs.formats[0]);
    let quantised = pairs.registry.convert(safetensors, pairs.path("base", gguf)).force(true);
    let typed = quantised.output_option("quantize", "layer.weight=q8_0");
    typed.output_option("set", "model.layers=u32:2").run().unwrap();
    let rows = formats();
    let columns: Vec<Format> =
        formats().into_iter().filter(|format| !matches!(format.written, Written::Never(_))).collect();
    let mut table = "| from \\ to |".to_owned();
    columns.iter().for_each(|to| write!(table, " `{}` |", to.id).unwrap());
    write!(table, "\n|---|{}\n", "---|".repeat(columns.len())).unwrap();
    let (mut carried, mut refused) = (0, 0);
    for from in &rows {
        write!(table, "| `{}` |", from.id).unwrap();
        for to in &columns {
            let cell = pairs.cell(from, to);
            carried += usize::from(cell.starts_with("all"));
            refused += usize::from(cell.starts_with("no"));
            write!(table, " {cell} |").unwrap();
        }
        table.push('\n');
    }
    assert!(carried > 20 && refused < 45, "{carried} carry all, {refused} are refused:\n{table}");
    let notes: String = pairs
        .notes
        .iter()
        .enumerate()
        .fold(String::new(), |text, (at, note)| text + &format!("{}. {note}\n", at + 1));
    let page = format!("{INTRODUCTION}\n{table}\n## Notes\n\n{notes}");
    let path = workspace::root().join("host/tensorferry/docs/pairs.md");
    if std::env::var_os("FERRY_TEST_WRITE_PAIRS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        kept,
        page,
        "{} does not match the formats: set FERRY_TEST_WRITE_PAIRS=1 to update it",
        path.display()
    );
}

const INTRODUCTION: &str = "\
# Losses between formats

A test generates this table and fails if it is out of date. The input of a tensor format is one
small model in that format: a matrix of F32, vectors of F16, BF16, F8_E4M3, U8 and BOOL, a scalar of
I64, and one entry of metadata. Content that the input format cannot hold does not count. The GGUF
model has a matrix of Q8_0 and a typed entry.

- Into a record format, each tensor becomes a record (`--step records:tensor`).
- The input of a record format has three rows with integers, texts, floats, lists, booleans, structs
  and nulls.
- Formats that are only read (`deepspeed`, `tf-graph`) have a small model of their own.
- `onnx` and `saved-model` are written from a template (`-o like=`), which determines the tensors of
  their columns.

| Cell | Meaning |
|---|---|
| `all` | everything is carried over; a number is a remark |
| `changed` | everything is present, some of it in a different form |
| `lost` | some content is missing |
| `no` | ferry refuses the conversion |
| `-` | no such input exists |
";

/// Returns a model's tensors, read in the same way as by `ferry inspect`.
fn facts(registry: &Registry, path: &Path) -> Result<BTreeMap<String, Facts>, Error> {
    let model = registry.open(path)?;
    let facts = |tensor: tensorferry::Tensor| {
        let bytes = tensor.read()?;
        let facts = (tensor.dtype_name().to_owned(), tensor.shape().to_vec(), sha256(&bytes));
        Ok((tensor.name().to_owned(), facts))
    };
    model.tensors().map(facts).collect()
}

#[test]
fn through_safetensors_and_back_every_digest_stays_or_is_named() {
    let (registry, folder) = (registry(), tempdir().unwrap());
    let (mut models, mut kept, mut named, mut silent) = (0, 0, 0, Vec::new());
    for section in [
        "safetensors",
        "torch",
        "tf",
        "flax",
        "gguf",
        "onnx",
        "numpy",
        "orbax",
        "keras",
        "deepspeed",
        "megatron",
    ] {
        for case in good_and_bad(section).0 {
            let (input, at) = (case.input(), folder.path().join(section).join(&case.name));
            std::fs::create_dir_all(&at).unwrap();
            let there = at.join("there.safetensors");
            let through = registry.convert(&input, &there).allow_empty(true).force(true).run();
            // A format may refuse an input with an error.
            let Ok(through) = through else { continue };
            let like = |file: &str| (file.to_owned(), Some(input.display().to_string()));
            let (file, like) = match &*through.readers[0].id {
                "safetensors" => ("back.safetensors".to_owned(), None),
                "torch" => ("back.pt".to_owned(), None),
                "tf-bundle" => ("back".to_owned(), None),
                "saved-model" => like("back"),
                "flax" => ("back.msgpack".to_owned(), None),
                "gguf" => ("back.gguf".to_owned(), None),
                "onnx" => like("back.onnx"),
                "numpy" => ("back.npz".to_owned(), None),
                "orbax" => ("back/".to_owned(), None),
                "keras" => ("back.weights.h5".to_owned(), None),
                "megatron" => ("back/".to_owned(), None),
                // These formats cannot be written.
                _ => continue,
            };
            let mut back = registry.convert(&there, at.join(&file)).to(&*through.readers[0].id);
            if let Some(like) = like {
                back = back.output_option("like", like);
            }
            let Ok(back) = back.allow_empty(true).run() else { continue };
            let before = facts(&registry, &input).unwrap();
            let after = facts(&registry, &at.join(&file)).unwrap();
            let losses: Vec<&Loss> = through.losses.iter().chain(&back.losses).collect();
            let is_named =
                |name: &str| losses.iter().any(|loss| loss.what.contains(name) || loss.why.contains(name));
            for (name, facts) in &before {
                if after.get(name) == Some(facts) {
                    kept += 1;
                } else if is_named(name) {
                    named += 1;
                } else {
                    silent.push(format!("{section}/{}: {name:?} {:?}", case.name, after.get(name)));
                }
            }
            models += 1;
        }
    }
    assert!(silent.is_empty(), "{} tensors are lost silently:\n{}", silent.len(), silent.join("\n"));
    println!("{models} models, {kept} tensors kept, {named} named");
    assert!(models >= 70 && kept >= 300 && named < kept / 4, "{models} models, {kept} kept, {named} named");
}

/// Returns the output of `ferry cat` for a dataset.
fn lines(registry: &Registry, from: &Path, to: &Path) -> String {
    registry.convert(from, to).allow_empty(true).force(true).run().unwrap();
    std::fs::read_to_string(to).unwrap()
}

#[test]
fn through_parquet_and_back_every_row_stays_or_is_named() {
    let (registry, folder) = (registry(), tempdir().unwrap());
    let (mut sets, mut kept, mut silent) = (0, 0, Vec::new());
    for section in ["tfrecord", "arrow", "webdataset", "mds"] {
        for case in good_and_bad(section).0 {
            let (input, at) = (case.input(), folder.path().join(section).join(&case.name));
            std::fs::create_dir_all(&at).unwrap();
            let there = at.join("there.parquet");
            let Ok(through) = registry.convert(&input, &there).allow_empty(true).run() else { continue };
            let reader = &*through.readers[0].id;
            let Some(format) = formats().into_iter().find(|format| format.id == reader) else { continue };
            let back = at.join("back").join(format.file);
            let Ok(report) = registry.convert(&there, &back).to(format.id).allow_empty(true).run() else {
                continue;
            };
            let before = lines(&registry, &input, &at.join("before.jsonl"));
            let after = lines(&registry, &back, &at.join("after.jsonl"));
            sets += 1;
            if before == after {
                kept += 1;
            } else if through.losses.iter().chain(&report.losses).next().is_none() {
                silent.push(format!("{section}/{}:\n{before}\n{after}", case.name));
            }
        }
    }
    assert!(silent.is_empty(), "{} sets are changed silently:\n{}", silent.len(), silent.join("\n"));
    println!("{sets} sets, {kept} kept");
    assert!(sets >= 20 && kept * 2 > sets, "{sets} sets, {kept} kept");
}
