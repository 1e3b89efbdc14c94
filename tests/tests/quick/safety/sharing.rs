//! Tests of inputs that refer to the same bytes many times, and of trees with many small nodes.
//! Such inputs take almost no space in a file. Refusals must take bounded time and memory. Tensors
//! that real models share must be read.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use tensorferry_test_kit::pickle::{call, dict, global, ints, pickle, storage, tensor, text, tuple};
use tensorferry_tests::ferry::Outcome;
use tensorferry_tests::wire::Wire;
use tensorferry_tests::zip::stored;
use tensorferry_tests::{Ferry, args, ferry};

/// Maximum memory that a command may take during an attack, in bytes.
const MAX_BYTES: u64 = 512 << 20;
/// Number of F32 numbers in a large storage of 8 MB.
const LARGE: i64 = 2 << 20;

/// Writes a checkpoint of these tensors with F32 storages of these sizes.
fn checkpoint(path: &Path, tensors: &[(String, Vec<u8>)], storages: &[usize]) {
    let entries: Vec<_> = tensors.iter().map(|(name, tensor)| (text(name), tensor.clone())).collect();
    let pickle = pickle(&dict(&entries));
    let bytes: Vec<(String, Vec<u8>)> =
        storages.iter().enumerate().map(|(at, &len)| (format!("a/data/{at}"), vec![0; len])).collect();
    let mut members: Vec<(&str, &[u8])> =
        vec![("a/data.pkl", &pickle), ("a/byteorder", b"little"), ("a/version", b"3\n")];
    members.extend(bytes.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])));
    std::fs::write(path, stored(&members)).unwrap();
}

fn floats(key: usize, len: i64, offset: i64, size: &[i64], stride: &[i64]) -> Vec<u8> {
    tensor(storage("FloatStorage", &key.to_string(), len), offset, size, stride)
}

/// Returns a sparse tensor of `len` numbers that stores only one of them.
fn sparse(len: i64) -> Vec<u8> {
    sparse_of(0, len)
}

/// Like [`sparse`], but the number is in the storage with this key, and its index is in the next
/// storage.
fn sparse_of(key: usize, len: i64) -> Vec<u8> {
    let layout = call(&global("torch.serialization", "_get_layout"), &[text("torch.sparse_coo")]);
    let indices = tensor(storage("LongStorage", &(key + 1).to_string(), 1), 0, &[1, 1], &[1, 1]);
    let parts = tuple(&[indices, floats(key, 1, 0, &[1], &[1]), ints(&[len]), b"\x89".to_vec()]);
    call(&global("torch._utils", "_rebuild_sparse_tensor"), &[layout, parts])
}

/// Returns tensors with numbers as names.
fn numbered(count: i64, tensor: impl Fn(i64) -> Vec<u8>) -> Vec<(String, Vec<u8>)> {
    (0..count).map(|at| (format!("w.{at}"), tensor(at))).collect()
}

/// Writes a checkpoint of tensors over one large storage.
fn of_large(path: &Path, tensors: &[(String, Vec<u8>)]) {
    checkpoint(path, tensors, &[usize::try_from(LARGE).unwrap() * 4]);
}

/// Writes a msgpack file with a tensor and a list of these items.
fn items(path: &Path, count: u32, item: &[u8]) {
    let array = [&b"\x93\x91\x01\xa7float32\xc4\x04"[..], &[0; 4]].concat();
    let leaf = [&[0xc7, u8::try_from(array.len()).unwrap(), 1][..], &array].concat();
    let list = [&b"\xdd"[..], &count.to_be_bytes(), &item.repeat(count as usize)].concat();
    std::fs::write(path, [&b"\x82\xa1p"[..], &leaf, b"\xa1l", &list].concat()).unwrap();
}

/// Writes a checkpoint with a tensor and a list of these items.
fn pickled(path: &Path, count: usize, item: &[u8]) {
    let list = [b"](", &item.repeat(count)[..], b"e"].concat();
    checkpoint(path, &[("w".to_owned(), floats(0, 4, 0, &[4], &[1])), ("l".to_owned(), list)], &[16]);
}

/// Runs a command with the limits for hostile inputs, and returns its outcome and its peak memory.
fn measured(command: &Command) -> (Outcome, u64) {
    let mut measuring = Command::new(env!("CARGO_BIN_EXE_peak"));
    // The shell exits with 0, so that refusals are also measured.
    measuring.args(["sh", "-c", "\"$@\"; echo \"ended with $?\" >&2", "sh"]);
    let mut outcome = ferry::run(&mut ferry::started_by(measuring, &ferry::bounded(command))).expect(0);
    let peak = outcome.stdout.trim().parse().unwrap();
    outcome.code = outcome.stderr.trim_end().rsplit(' ').next().and_then(|code| code.parse().ok());
    (outcome, peak)
}

type Make = fn(&Ferry, &Path);

/// Returns a node of a TensorFlow graph. It is a constant with this many elements, which all equal
/// the first element.
pub(super) fn constant(number: i64, elements: i64) -> Wire {
    let shape = Wire::new().message(2, &Wire::new().int(1, elements));
    let tensor = Wire::new().int(1, 1).message(2, &shape).bytes(5, &1_f32.to_le_bytes());
    let attribute = |key: &str, value: &Wire| Wire::new().bytes(1, key.as_bytes()).message(2, value);
    Wire::new()
        .bytes(1, format!("c{number}").as_bytes())
        .bytes(2, b"Const")
        .message(5, &attribute("dtype", &Wire::new().int(6, 1)))
        .message(5, &attribute("value", &Wire::new().message(8, &tensor)))
}

/// Writes one tensor under several names, in a format that supports this.
fn written(ferry: &Ferry, path: &Path, names: i64) {
    let from = ferry.at("names.pt");
    of_large(&from, &numbered(names, |_| floats(0, LARGE, 0, &[LARGE], &[1])));
    let bound: &[&str] = &["--limit", "expanded_bytes=1TiB"];
    let is_list = path.extension().is_some_and(|suffix| suffix == "safetensors");
    let options: &[&str] = if is_list { &["-o", "tied=dedupe"] } else { &[] };
    ferry.convert(&from, path, &[bound, options].concat());
}

#[test]
fn shared_bytes_and_trees_are_bounded() {
    let shared = "--limit expanded_bytes=N";
    let attacks: [(&str, &str, &[&str], &str, Make); 20] = [
        ("sparse tensors of one recipe", "pt", &["-i", "densify=true"], shared, |_, path| {
            checkpoint(path, &numbered(20, |_| sparse(1 << 29)), &[4, 8]);
        }),
        ("sparse tensors of one storage", "pt", &["-i", "densify=true"], shared, |_, path| {
            checkpoint(path, &numbered(20, |at| sparse((1 << 29) + at)), &[4, 8]);
        }),
        ("sparse tensors with their own storages", "pt", &["-i", "densify=true"], shared, |_, path| {
            let tensors = numbered(20, |at| sparse_of(usize::try_from(at).unwrap() * 2, 1 << 29));
            checkpoint(path, &tensors, &[4, 8].repeat(20));
        }),
        ("views that overlap", "pt", &[], shared, |_, path| {
            of_large(path, &numbered(200, |at| floats(0, LARGE, at, &[LARGE - 2000], &[1])));
        }),
        ("names of one tensor", "pt", &[], shared, |_, path| {
            of_large(path, &numbered(200, |_| floats(0, LARGE, 0, &[LARGE], &[1])));
        }),
        ("tensors that are other shapes of one", "pt", &[], shared, |_, path| {
            of_large(path, &numbered(200, |at| floats(0, LARGE, 0, &[LARGE - at], &[1])));
        }),
        ("a row a thousand times", "pt", &[], shared, |_, path| {
            of_large(path, &[("w".to_owned(), floats(0, LARGE, 0, &[1000, LARGE], &[0, 1]))]);
        }),
        ("windows of a thousand rows", "pt", &[], shared, |_, path| {
            of_large(path, &[("w".to_owned(), floats(0, LARGE, 0, &[1000, LARGE - 1000], &[1, 1]))]);
        }),
        ("ties of safetensors", "safetensors", &[], shared, |ferry, path| written(ferry, path, 100)),
        ("hard links of HDF5", "weights.h5", &[], shared, |ferry, path| written(ferry, path, 100)),
        ("ranges of safetensors", "safetensors", &[], "overlaps", |_, path| {
            let entry =
                |at| format!(r#""w.{at}":{{"dtype":"U8","shape":[1048576],"data_offsets":[0,1048576]}}"#);
            let header = format!("{{{}}}", (0..1000).map(entry).collect::<Vec<_>>().join(","));
            let len = (header.len() as u64).to_le_bytes();
            std::fs::write(path, [&len[..], header.as_bytes(), &[0; 1 << 20]].concat()).unwrap();
        }),
        ("constants of a graph", "pb", &[], shared, |_, path| {
            let graph =
                (0..300).fold(Wire::new(), |graph, at| graph.message(1, &constant(at, (1 << 26) + at)));
            std::fs::write(path, graph.0).unwrap();
        }),
        ("lists of msgpack", "msgpack", &["--json"], "--limit nodes=N", |_, path| {
            items(path, 2_000_000, b"\x90");
        }),
        ("nulls of msgpack", "msgpack", &["--json"], "--limit nodes=N", |_, path| {
            items(path, 4_000_000, b"\xc0");
        }),
        ("tuples of a pickle", "pt", &["--json"], "--limit nodes=N", |_, path| {
            pickled(path, 4_000_000, b")");
        }),
        ("numbers of a pickle", "pt", &["--json"], "--limit nodes=N", |_, path| {
            pickled(path, 4_000_000, b"K\x01");
        }),
        ("maps of msgpack", "msgpack", &["--json"], "--limit nodes=N", |_, path| {
            items(path, 600_000, b"\x81\xa1a\xc0");
        }),
        ("texts of msgpack", "msgpack", &["--json"], "--limit nodes=N", |_, path| {
            items(path, 2_000_000, b"\xa0");
        }),
        ("dicts of a pickle", "pt", &["--json"], "--limit nodes=N", |_, path| {
            pickled(path, 1_000_000, b"}K\x01Ns");
        }),
        ("lists of a pickle", "pt", &["--json"], "--limit nodes=N", |_, path| pickled(path, 2_000_000, b"]")),
    ];
    let ferry = Ferry::new();
    for (at, (name, suffix, options, word, make)) in attacks.into_iter().enumerate() {
        let path = ferry.at(format!("attack{at}.{suffix}"));
        make(&ferry, &path);
        let command = [OsStr::new("inspect"), path.as_os_str()];
        let words: Vec<&OsStr> = command.into_iter().chain(options.iter().map(OsStr::new)).collect();
        let (outcome, peak) = measured(&ferry.command(&words));
        let refused = outcome.expect(3);
        assert!(refused.stderr.contains(word), "{name}: {refused}");
        println!("{name}: {} MiB", peak >> 20);
        assert!(peak <= MAX_BYTES, "{name}: {peak} bytes");
    }
}

/// Tests trees with the maximum number of nodes, of the kinds that take the most memory.
#[test]
#[ignore = "half a minute: hundreds of thousands of nodes"]
fn trees_of_many_nodes_take_the_memory_that_they_may() {
    let attacks: [(&str, &str, Make); 3] = [
        ("maps of msgpack", "msgpack", |_, path| items(path, 270_000, b"\x81\xa1a\xc0")),
        ("dicts of a pickle", "pt", |_, path| pickled(path, 200_000, b"}K\x01Ns")),
        ("lists of a pickle", "pt", |_, path| pickled(path, 800_000, b"]")),
    ];
    let ferry = Ferry::new();
    for (name, suffix, make) in attacks {
        let path = ferry.at(format!("tree.{suffix}"));
        make(&ferry, &path);
        for way in [args!["inspect", &path, "--json"].to_vec(), args!["inspect", &path].to_vec()] {
            let (outcome, peak) = measured(&ferry.command(&way));
            outcome.expect(0);
            println!("{name}, {way:?}: {} MiB", peak >> 20);
            // Development builds have larger libraries.
            assert!(peak <= (256 + 32 + 64) << 20, "{name}: {peak} bytes");
        }
        let page = ferry.at("page.html");
        ferry.run_bounded(args!["inspect", &path, "--html", &page, "--force"]).expect(0);
    }
}

#[test]
fn what_models_share_is_read() {
    let ferry = Ferry::new();
    let [path, out] = ferry.paths(["twin.pt", "out.safetensors"]);
    let whole = |key: usize, len: i64| floats(key, len, 0, &[len], &[1]);
    let twins: [(&str, Vec<(String, Vec<u8>)>, &[usize]); 9] = [
        ("a layer for twelve", numbered(12, |_| whole(0, LARGE)), &[8 << 20]),
        (
            "a rotary table for 61 layers",
            {
                let mut all = numbered(61, |_| whole(0, 1 << 17));
                all.push(("embedding".to_owned(), whole(1, LARGE)));
                all
            },
            &[1 << 19, 8 << 20],
        ),
        ("tied embeddings", numbered(2, |_| whole(0, LARGE)), &[8 << 20]),
        (
            "a mask for eight heads",
            vec![("m".to_owned(), floats(0, LARGE, 0, &[8, LARGE], &[0, 1]))],
            &[8 << 20],
        ),
        (
            "windows that overlap",
            vec![("m".to_owned(), floats(0, LARGE, 0, &[15, LARGE / 8], &[LARGE / 16, 1]))],
            &[8 << 20],
        ),
        ("a constant", vec![("c".to_owned(), floats(0, 1, 0, &[1 << 26], &[0]))], &[4]),
        (
            "parts of one storage",
            numbered(512, |at| floats(0, LARGE, at * 4096, &[64, 64], &[64, 1])),
            &[8 << 20],
        ),
        ("columns of one matrix", numbered(64, |at| floats(0, LARGE, at, &[LARGE / 64], &[64])), &[8 << 20]),
        (
            "a matrix and its transpose",
            vec![
                ("a".to_owned(), floats(0, LARGE, 0, &[1 << 10, 1 << 11], &[1 << 11, 1])),
                ("b".to_owned(), floats(0, LARGE, 0, &[1 << 11, 1 << 10], &[1, 1 << 11])),
            ],
            &[8 << 20],
        ),
    ];
    for (name, tensors, storages) in twins {
        checkpoint(&path, &tensors, storages);
        let outcome = ferry.try_convert(&path, &out, &["--dry-run"]);
        assert_eq!(outcome.code, Some(0), "{name}: {outcome}");
    }
    checkpoint(&path, &numbered(4, |_| sparse(1 << 20)), &[4, 8]);
    ferry.try_convert(&path, &out, &["--dry-run", "-i", "densify=true"]).expect(0);
    for suffix in ["safetensors", "weights.h5"] {
        let tied = ferry.at(format!("tied.{suffix}"));
        written(&ferry, &tied, 12);
        ferry.try_convert(&tied, &ferry.at("back.pt"), &["--dry-run"]).expect(0);
    }
}
