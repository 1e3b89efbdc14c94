//! The sets of files for the target `sets`, which mutates a set as a whole.

#[path = "../../plugins/all/src/formats.rs"]
mod formats;

use std::sync::{Arc, LazyLock};
use tensorferry::{Registry, Session};
use tensorferry_tests::sets::{self, Files, Kind, Set, Ties};
use tensorferry_tests::{files, fixtures, fuzz, zip};

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let mut session = Session::new(1, 64 << 20);
    session.limits.expanded_bytes = 16 << 20;
    Registry::new().with_all(formats::formats()).with_session(session)
});

static SETS: LazyLock<Vec<Set>> =
    LazyLock::new(|| kinds().into_iter().map(|kind| Set::new(&REGISTRY, kind)).collect());

/// Mutates a set as `program` specifies, and reads it.
pub(crate) fn read_set(program: &[u8]) -> bool {
    sets::run(&REGISTRY, &SETS, program)
}

/// Returns seeds for each mutation of each set.
#[allow(dead_code, reason = "libFuzzer reads its seeds from a folder")]
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    sets::seeds(SETS.len())
}

/// Files that describe Orbax arrays.
const ORBAX: &[&str] = &["_METADATA", "_CHECKPOINT_METADATA", "_sharding", "array_metadatas", "zarr"];

fn kinds() -> Vec<Kind> {
    let whole =
        |name, files, ties| Kind { name, files, entry: "", ties, lists: true, says: &[], rows: false };
    let table = |name, files, ties| Kind { rows: true, ..whole(name, files, ties) };
    let orbax =
        |case, ties| Kind { says: ORBAX, ..whole(case, fixture(&format!("orbax/{case}/ckpt")), ties) };
    let ranks = |case: &'static str| Kind {
        says: &[".pt"],
        ..whole(case, bare(fixture(&format!("{case}/ckpt"))), Ties::Names)
    };
    let universal = |case| Kind {
        says: &["latest", "model_states", "optimizer_state"],
        ..whole(case, bare(archived(case)), Ties::Names)
    };
    let safetensors = || fixture("safetensors/sharded");
    vec![
        whole("safetensors", safetensors(), Ties::Content),
        Kind {
            entry: "model.safetensors.index.json",
            ..whole("safetensors by index", safetensors(), Ties::Content)
        },
        whole(
            "torch",
            written(&safetensors(), "model/", "torch", &[("max_shard_size", "300")]),
            Ties::Content,
        ),
        whole("flax", fixture("flax/hf_sharded"), Ties::Content),
        Kind {
            entry: "model.weights.json",
            lists: false,
            ..whole("keras", fixture("keras/weights_sharded"), Ties::Content)
        },
        Kind { lists: false, ..whole("gguf", fixture("gguf/split"), Ties::Content) },
        Kind { says: &[".metadata"], ..whole("torch-dcp", archived("dcp_ranks"), Ties::Names) },
        universal("universal_zero2_bf16"),
        universal("universal_zero3_fp32"),
        ranks("deepspeed/zero2_bf16"),
        ranks("deepspeed/zero3_fp32"),
        ranks("megatron/gpt_tp2_pp2"),
        orbax("pytree_zarr2", Ties::Names),
        orbax("pytree_zarr3", Ties::Names),
        // OCDBT has checksums of its nodes but not of its values.
        orbax("pytree_ocdbt", Ties::Names),
        orbax("multi_process", Ties::Names),
        Kind { says: ORBAX, ..whole("orbax steps", fixture("orbax/manager_items/run"), Ties::Names) },
        whole("tf-bundle", fixture("tf/saver_v2_sharded"), Ties::Sums),
        Kind {
            says: &["saved_model.pb"],
            ..whole("saved-model", fixture("tf/saved_model_pb/saved_model"), Ties::Sums)
        },
        Kind {
            entry: "model.onnx",
            says: &["model.onnx"],
            ..whole("onnx", fixture("onnx/external_many_files"), Ties::Names)
        },
        Kind { says: &["index.json"], ..table("mds", fixture("mds/sharded_hashed"), Ties::Sums) },
        table("webdataset", fixture("webdataset/sharded"), Ties::Nothing),
        table("tfrecord", fixture("tfrecord/sharded"), Ties::Names),
        table("parquet", written(&lines(), "rows.parquet", "parquet", &[("shards", "3")]), Ties::Names),
        table("hive", partitioned(), Ties::Nothing),
        table("arrow", written(&lines(), "rows.arrow", "arrow", &[("shards", "3")]), Ties::Names),
        table("csv", renumbered(written(&lines(), "rows.csv", "csv", &[("shards", "3")])), Ties::Nothing),
        table(
            "jsonl",
            renumbered(written(&lines(), "rows.jsonl", "jsonl", &[("shards", "3")])),
            Ties::Nothing,
        ),
    ]
}

/// Returns the files of a fixture without its `expected.json`.
fn fixture(folder: &str) -> Files {
    shared(fuzz::files_of(folder).into_iter().filter(|(name, _)| name != "expected.json"))
}

fn shared(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Files {
    files.into_iter().map(|(name, bytes)| (name, Arc::new(bytes))).collect()
}

/// Returns the same files without the checksums in archives, because a mutation would invalidate
/// the checksums.
fn bare(files: Files) -> Files {
    let bare = |(name, bytes): (String, Arc<Vec<u8>>)| {
        let bytes = if name.ends_with(".pt") { Arc::new(zip::bare(&zip::members(&bytes))) } else { bytes };
        (name, bytes)
    };
    files.into_iter().map(bare).collect()
}

/// Returns a stored set: the output of `dcp_make.py` from three ranks, or of DeepSpeed's
/// `ds_to_universal.py` for the fixture with this name.
fn archived(name: &str) -> Files {
    let path = fixtures::folder().with_file_name("fuzz").join("sets").join(format!("{name}.zip"));
    shared(zip::members(&std::fs::read(path).expect("the stored set exists")))
}

/// Returns rows of several types.
fn lines() -> Files {
    let line = |n: u32| format!("{{\"id\": {n}, \"name\": \"row {n}\", \"weight\": {}.5}}\n", n * n);
    shared([("rows.jsonl".to_owned(), (0..30).map(line).collect::<String>().into_bytes())])
}

/// Converts files to another format.
fn written(files: &Files, output: &str, format: &str, options: &[(&str, &str)]) -> Files {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    for folder in [&from, &to] {
        std::fs::create_dir(folder).expect("a new folder");
    }
    for (name, bytes) in files {
        std::fs::write(from.join(name), &**bytes).expect("there is space");
    }
    let conversion = REGISTRY.convert(&from, to.join(output)).to(format);
    let conversion =
        options.iter().fold(conversion, |conversion, (key, value)| conversion.output_option(*key, *value));
    conversion.run().unwrap_or_else(|error| panic!("{format}: {error}"));
    let to = if to.join(output).is_dir() { to.join(output) } else { to };
    let read = |name: std::path::PathBuf| {
        let bytes = std::fs::read(to.join(&name)).expect("it was written");
        (name.to_string_lossy().into_owned(), bytes)
    };
    shared(files::files_below(&to).into_iter().map(read))
}

/// Returns a table in folders whose names contain some of its columns.
fn partitioned() -> Files {
    let files = written(&lines(), "rows.parquet", "parquet", &[("shards", "4")]);
    let names = [
        "2023/country=de/part-0",
        "2023/country=fr/part-0",
        "2024/country=de/part-0",
        "2024/country=de/part-1",
    ];
    names.iter().map(|name| format!("year={name}.parquet")).zip(files.into_values()).collect()
}

/// Returns the same files, with names that do not contain the total number of files.
fn renumbered(files: Files) -> Files {
    let renamed = |(name, bytes): (String, Arc<Vec<u8>>)| {
        let (before, after) = name.split_once("-of-").expect("a counted name");
        (format!("{before}{}", &after[after.find('.').unwrap_or(0)..]), bytes)
    };
    files.into_iter().map(renamed).collect()
}
