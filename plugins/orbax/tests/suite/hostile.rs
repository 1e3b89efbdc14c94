//! Checkpoints that claim to contain far more data than they do. The time and memory use must
//! remain proportional to the actual content.

use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tensorferry_orbax::Orbax;
use tensorferry_sdk::{Entry, ErrorKind, FileId, LossKind, MemorySource, Result, Severity, Source, crc32c};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::ocdbt::{Kv, inner, leaf, store};
use tensorferry_test_kit::random::bytes;
use tensorferry_test_kit::tensors::with_view;

/// Maximum memory of the process that runs all these tests, and maximum time per attack.
const MAX_COST: (u64, Duration) = (768 << 20, Duration::from_secs(20));

fn zarr2(shape: &[u64], chunks: &[u64], fill: &serde_json::Value, compressor: Option<&str>) -> Vec<u8> {
    let compressor = compressor.map(|id| json!({"id": id}));
    let array = json!({
        "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "|u1", "order": "C", "compressor": compressor,
        "fill_value": fill, "filters": null,
    });
    array.to_string().into_bytes()
}

fn zarr3(shape: u64, chunk: u64, codecs: &serde_json::Value) -> Vec<u8> {
    let array = json!({
        "zarr_format": 3, "node_type": "array", "shape": [shape], "data_type": "uint8", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk]}},
        "chunk_key_encoding": {"name": "default"}, "codecs": codecs,
    });
    array.to_string().into_bytes()
}

fn shards(chunk: u64, codecs: &serde_json::Value) -> serde_json::Value {
    json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [chunk], "codecs": codecs, "index_codecs": ["bytes", "crc32c"],
    }}])
}

/// Returns a shard index in which every entry refers to the first `len` bytes.
fn index(count: usize, len: usize) -> Vec<u8> {
    let entry = [0_u64.to_le_bytes(), (len as u64).to_le_bytes()].concat();
    let entries = entry.repeat(count);
    [&entries[..], &crc32c(&entries).to_le_bytes()].concat()
}

fn keys(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| number.to_be_bytes()[1..].to_vec()).collect()
}

/// A node with 40,000 children. All children are in one file, whose path is 60,000 bytes long.
fn long_path() -> Files {
    let children: Vec<_> = keys(40_000).into_iter().map(|key| (key, 0, 0, 10)).collect();
    let node = inner(1, &"a".repeat(60_000), &children, false);
    store(&node, 0, node.len(), 1)
}

/// 3,000 children whose keys share a one-megabyte prefix.
fn long_prefix() -> Files {
    let children: Vec<_> = keys(3000).into_iter().map(|key| (key, 1, 0, 10)).collect();
    let mut data = inner(1, "d/x", &children, false);
    let first = data.len();
    let root = inner(2, "d/x", &[(vec![b'p'; 1_000_000], 1_000_000, 0, first as u64)], true);
    data.extend(&root);
    store(&data, first, root.len(), 2)
}

/// An inline shard with 3,000 chunks. All of these chunks refer to the same megabyte.
fn inline_shard() -> Files {
    let count = 3000;
    let value = [zstd::encode_all(&[0; 1 << 20][..], 1).unwrap(), bytes(1 << 20, 1)].concat();
    let shard = [&value[..], &index(count, value.len())].concat();
    let shape = (count as u64) << 20;
    let array = zarr3(shape, shape, &shards(1 << 20, &json!(["bytes", "zstd"])));
    let node = leaf("", &[(b"w/c/0", Kv::Inline(shard)), (b"w/zarr.json", Kv::Inline(array))], false);
    store(&node, 0, node.len(), 0)
}

/// A description with millions of numbers that is compressed to a few thousand bytes.
fn long_description(numbers: usize) -> Files {
    let text = [b"[".to_vec(), b"0,".repeat(numbers), b"0]".to_vec()].concat();
    let node = leaf("", &[(b"w/.zarray", Kv::Inline(text))], true);
    store(&node, 0, node.len(), 0)
}

/// A tree with a depth of 23 in which each node contains the same child twice.
fn shared_nodes() -> Files {
    let mut data = leaf("", &[(b"k", Kv::Inline(Vec::new()))], false);
    let (mut offset, mut len) = (0, data.len());
    for height in 1..24 {
        let child = |key: &[u8]| (key.to_vec(), 1, offset as u64, len as u64);
        let node = inner(height, "d/x", &[child(b"a"), child(b"b")], false);
        (offset, len) = (data.len(), node.len());
        data.extend(node);
    }
    store(&data, offset, len, 23)
}

/// Nested shards. All chunks of each shard refer to the same inner shard.
fn shards_in_shards() -> Files {
    let count = 8000;
    let inner = [vec![0], index(count, 1)].concat();
    let outer = [&inner[..], &index(count, inner.len())].concat();
    let side = count as u64;
    let array = zarr3(1, side * side, &shards(side, &shards(1, &json!(["bytes"]))));
    Files::from([("w/c/0".to_owned(), outer), ("w/zarr.json".to_owned(), array)])
}

/// A thousand arrays that share one compressed chunk of 64 MiB.
fn one_chunk() -> Files {
    let chunk = zstd::encode_all(&vec![0; 64 << 20][..], 1).unwrap();
    let array = zarr2(&[64 << 20], &[64 << 20], &json!(0), Some("zstd"));
    let names: Vec<[String; 2]> =
        (0..1000).map(|number| ["/.zarray", "/0"].map(|end| format!("w{number:04}{end}"))).collect();
    let values = names.iter().flat_map(|[description, key]| {
        let inline = (description.as_bytes(), Kv::Inline(array.clone()));
        [inline, (key.as_bytes(), Kv::Indirect(0, chunk.len() as u64))]
    });
    let node = leaf("d/x", &values.collect::<Vec<_>>(), false);
    let data = [&chunk[..], &node].concat();
    store(&data, chunk.len(), node.len(), 0)
}

/// A well-formed tree description with millions of values.
fn long_tree() -> Files {
    let tree = format!("{{\"tree_metadata\":{{}},\"z\":[{}0]}}", "0,".repeat(4 << 20));
    Files::from([("_METADATA".to_owned(), tree.into_bytes())])
}

/// Returns the peak memory of this process.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

#[test]
fn what_is_claimed_takes_no_time_and_no_memory() {
    for (name, files, kind, word) in [
        ("a long path", long_path(), ErrorKind::Malformed, "not a path in"),
        ("a long prefix", long_prefix(), ErrorKind::Limit, "expand too much"),
        ("a shard in a node", inline_shard(), ErrorKind::Malformed, "chunks of a shard overlap"),
        ("50 million numbers", long_description(50_000_000), ErrorKind::Malformed, "node is too long"),
        ("6 million numbers", long_description(6_000_000), ErrorKind::Limit, "description is too long"),
        ("nodes with two parents", shared_nodes(), ErrorKind::Malformed, "same child"),
        ("shards in shards", shards_in_shards(), ErrorKind::Malformed, "chunks of a shard overlap"),
        ("one chunk for a thousand arrays", one_chunk(), ErrorKind::Limit, "chunks expand too much"),
        ("a tree of 4 million values", long_tree(), ErrorKind::Limit, "too many JSON values"),
    ] {
        let clock = Instant::now();
        let error =
            with_view(&Orbax, &MemorySource::folder(files), &[], |view| view.catalog().tensors().len())
                .unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(word), "{name}: {error}");
        assert!(clock.elapsed() < MAX_COST.1, "{name}: {:?}", clock.elapsed());
        assert!(peak() < MAX_COST.0, "{name}: {} bytes", peak());
    }
}

/// A source that counts the file lookups.
struct CountingSource {
    source: MemorySource,
    count: AtomicU64,
}

impl Source for CountingSource {
    fn entry(&self) -> &Entry {
        self.source.entry()
    }

    fn open(&self, name: &str) -> Result<FileId> {
        self.source.open(name)
    }

    fn contains(&self, name: &str) -> Result<bool> {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.source.contains(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.source.list(prefix)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        self.source.folders(folder)
    }

    fn name(&self, file: FileId) -> &str {
        self.source.name(file)
    }

    fn len(&self, file: FileId) -> u64 {
        self.source.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_at(file, offset, buffer)
    }
}

#[test]
fn chunks_that_are_not_there_are_counted_over_all_arrays() {
    // A few bytes claim many missing chunks. In one case, 140 bytes claim 16 million chunks in one
    // array. In the other case, ten arrays claim 100,000 chunks each.
    for (arrays, chunks) in [(1, 16_000_000), (10, 100_000)] {
        let name = |number| format!("w{number}/.zarray");
        let files = (0..arrays).map(|number| (name(number), zarr2(&[chunks], &[1], &json!(0), None)));
        let source = CountingSource { source: MemorySource::folder(files), count: AtomicU64::new(0) };
        let error = with_view(&Orbax, &source, &[], |_| ()).unwrap_err();
        assert!(error.kind() == ErrorKind::Limit && error.to_string().contains("missing chunks"), "{error}");
        let requested = source.count.into_inner();
        assert!(requested < 300_000, "{requested} files were looked up");
    }
}

#[test]
fn a_chunk_that_is_not_there_is_named() {
    let two = || vec![1, 2];
    let files = |fill: serde_json::Value| {
        let array = zarr2(&[6], &[2], &fill, None);
        Files::from([("w/.zarray".to_owned(), array), ("w/0".to_owned(), two()), ("w/2".to_owned(), two())])
    };
    let tree = |stores_all: bool| {
        let tree = json!({
            "tree_metadata": {"('w',)": {
                "key_metadata": [{"key": "w", "key_type": 2}],
                "value_metadata": {"value_type": "jax.Array", "skip_deserialize": false},
            }},
            "use_ocdbt": false, "store_array_data_equal_to_fill_value": stores_all,
        });
        ("_METADATA".to_owned(), tree.to_string().into_bytes())
    };
    let mut stored = files(json!(0));
    stored.extend([tree(true)]);
    for files in [stored, files(json!(null))] {
        let error = with_view(&Orbax, &MemorySource::folder(files), &[], |_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        let reported = error.to_string();
        assert!(
            reported.contains("missing") && reported.contains("w/1") && reported.contains("tensor \"w\""),
            "{reported}"
        );
    }
    // If the writer may omit chunks, ferry reads missing chunks as the fill value and reports a
    // loss.
    let mut left_out = files(json!(7));
    left_out.extend([tree(false)]);
    with_view(&Orbax, &MemorySource::folder(left_out), &[], |view| {
        assert_eq!(view.tensor_named("w").unwrap().2, [1, 2, 7, 7, 1, 2]);
        let [loss] = view.catalog().losses() else { panic!("{:?}", view.catalog().losses()) };
        assert_eq!((&*loss.what, loss.severity), ("w", Severity::Changed));
        assert!(loss.why.contains("1 of its 3 chunks"), "{loss}");
    })
    .unwrap();
    // If all chunks are missing, the tensor has its declared shape.
    let none = Files::from([("w/.zarray".to_owned(), zarr2(&[200_000], &[1], &json!(7), None))]);
    with_view(&Orbax, &MemorySource::folder(none), &[], |view| {
        assert!(view.tensor_named("w").unwrap().2.iter().all(|byte| *byte == 7));
    })
    .unwrap();
}

#[test]
fn arrays_in_groups_are_found() {
    let array = || zarr2(&[2], &[2], &json!(0), None);
    let files = [
        ("top/.zarray", array()),
        ("top/0", vec![0, 1]),
        ("grp/w/.zarray", array()),
        ("grp/w/0", vec![2, 3]),
    ];
    let files = files.map(|(name, bytes)| (name.to_owned(), bytes));
    with_view(&Orbax, &MemorySource::folder(Files::from(files)), &[], |view| {
        assert_eq!(view.tensor_named("grp/w").unwrap().2, [2, 3]);
        assert_eq!(view.tensor_named("top").unwrap().2, [0, 1]);
    })
    .unwrap();
    for chunk in ["lost/0.1", "grp/lost/c/0", "lost/c"] {
        let mut files = Files::from([("top/.zarray".to_owned(), array())]);
        files.insert(chunk.to_owned(), vec![0]);
        let error = with_view(&Orbax, &MemorySource::folder(files), &[], |_| ()).unwrap_err();
        assert!(error.to_string().contains("without a description") && error.to_string().contains(chunk));
    }
}

/// Orbax writes both leaves of `{"a.b": x, "a": {"b": y}}` to the same path. Different items have
/// different paths.
#[test]
fn names_that_are_one_are_told_apart_or_refused() {
    let array = |path: &str, n: u8| {
        [(format!("{path}/.zarray"), zarr2(&[1], &[1], &json!(0), None)), (format!("{path}/0"), vec![n])]
    };
    let tree = |paths: &[&[&str]]| {
        let leaf = |path: &&[&str]| {
            let keys: Vec<_> = path.iter().map(|key| json!({"key": key, "key_type": 2})).collect();
            let value = json!({"value_type": "np.ndarray", "skip_deserialize": false});
            (format!("{path:?}"), json!({"key_metadata": keys, "value_metadata": value}))
        };
        let leaves: serde_json::Map<String, serde_json::Value> = paths.iter().map(leaf).collect();
        json!({ "tree_metadata": leaves, "use_ocdbt": false }).to_string().into_bytes()
    };
    let mut files = Files::from(array("a.b", 1));
    files.insert("_METADATA".to_owned(), tree(&[&["a.b"], &["a", "b"]]));
    let error = with_view(&Orbax, &MemorySource::folder(files), &[], |_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("\"a.b\""), "{error}");

    let mut files: Files = array("a/b.c", 1).into_iter().chain(array("a.b/c", 2)).collect();
    files.insert("a/_METADATA".to_owned(), tree(&[&["b.c"]]));
    files.insert("a.b/_METADATA".to_owned(), tree(&[&["c"]]));
    with_view(&Orbax, &MemorySource::folder(files), &[], |view| {
        let mut names: Vec<_> = view.catalog().tensors().iter().map(|tensor| &*tensor.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["a.b.c", "a.b.c#2"]);
        assert!(view.catalog().losses().iter().any(|loss| loss.kind == LossKind::Name));
    })
    .unwrap();
}
