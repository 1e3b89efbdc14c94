//! Tests of outputs that are URLs, with a local bucket that supports multipart uploads and
//! conditions.

use crate::stores::bucket::{Bucket, start, start_google};
use crate::stores::server::{Reply, Request, Server};
use crate::stores::store::{decoded, query};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::Outcome;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::model::Model;

fn settings(server: &Server) -> Vec<String> {
    let pairs = [
        format!("endpoint={}", server.url("").trim_end_matches('/')),
        "access-key=AKIAHUSH5150".to_owned(),
        "secret-key=hush5150/secret".to_owned(),
        "retries=3".to_owned(),
    ];
    pairs.into_iter().flat_map(|pair| ["--store".to_owned(), pair]).collect()
}

struct Shop {
    ferry: Ferry,
    server: Server,
    bucket: Arc<Bucket>,
}

impl Shop {
    fn new(err: impl Fn(&Request, &Bucket) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let (server, bucket) = start(err);
        Self { ferry: Ferry::new(), server, bucket }
    }

    fn run(&self, words: &[&str]) -> Outcome {
        self.ferry.run(words.iter().map(|word| (*word).to_owned()).chain(settings(&self.server)))
    }

    fn convert(&self, input: &Path, url: &str, options: &[&str]) -> Outcome {
        let input = input.display().to_string();
        self.run(&[&["convert", input.as_str(), url], options].concat())
    }

    fn is_equal(&self, a: &Path, b: &str) {
        let _ = self.run(&["diff", &a.display().to_string(), b]).expect(0);
    }

    /// Checks that the bucket contains neither objects nor uploads.
    fn is_empty(&self) {
        assert_eq!((self.bucket.keys(), self.bucket.open_uploads()), (Vec::new(), 0));
    }

    /// Writes a model of this many bytes.
    fn model(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.ferry.at(name);
        Model::of_size(bytes, 9, 7).write(&path).unwrap();
        path
    }
}

fn is_part(request: &Request) -> bool {
    request.method == "PUT" && query(request, "uploadId").is_some()
}

#[test]
fn an_output_may_be_an_object() {
    let shop = Shop::new(|_, _| None);
    let input = case("torch", "zip_module_state_dict").input();
    let url = "s3://bucket/dir/model.safetensors";
    let report = shop.convert(&input, url, &["--json"]).expect(0).json();
    assert_eq!((&report["output"], &report["files"][0]), (&url.into(), &url.into()));
    shop.is_equal(&input, url);
    assert_eq!(shop.bucket.keys(), ["dir/model.safetensors"]);
    let refused = shop.convert(&input, url, &[]).expect(2);
    let _ = refused.says(&["s3://bucket/dir/model.safetensors exists; use --force to replace it"]);
    let _ = shop.convert(&input, url, &["--force", "--verify", "--receipt"]).expect(0);
    assert_eq!(shop.bucket.keys(), ["dir/model.safetensors", "dir/model.safetensors.ferry.json"]);
    // Writing a new output without a receipt removes the old receipt.
    let _ = shop.convert(&input, url, &["--force"]).expect(0);
    assert_eq!(shop.bucket.keys(), ["dir/model.safetensors"]);
    let _ = shop.convert(&input, "s3://model.safetensors", &[]).expect(2).says(&["no file name"]);
    let _ = shop.convert(&input, "s3://other/a.pt", &[]).expect(5).says(&["NoSuchBucket"]);
}

#[test]
fn an_object_of_many_parts_goes_from_store_to_store() {
    let shop = Shop::new(|_, _| None);
    let input = shop.model("m.safetensors", 60 << 20);
    let memory = ["--memory", "64MiB"];
    // In a zip, the checksum of a tensor precedes its data, so the upload of a part must wait for
    // the checksums.
    let torch = "s3://bucket/m.pt";
    let _ = shop.convert(&input, torch, &[&memory[..], &["--verify"]].concat()).expect(0);
    let back = "s3://bucket/m.safetensors";
    let _ = shop.convert(Path::new(torch), back, &[&memory[..], &["--receipt=blake3"]].concat()).expect(0);
    shop.is_equal(&input, back);
    let here = shop.ferry.at("here.safetensors");
    let _ = shop.convert(Path::new(torch), here.to_str().unwrap(), &[]).expect(0);
    assert!(shop.bucket.get("m.safetensors").unwrap() == std::fs::read(&here).unwrap());
    assert_eq!(shop.bucket.open_uploads(), 0);
    let parts: Vec<usize> =
        shop.server.requests().iter().filter(|r| is_part(r)).map(|r| r.body.len()).collect();
    assert!(parts.len() > 12 && parts.iter().all(|len| *len <= 8 << 20), "{parts:?}");
}

#[test]
fn a_folder_takes_its_sidecars_along_and_its_index_comes_last() {
    let shop = Shop::new(|_, _| None);
    let folder = shop.ferry.at("in");
    std::fs::create_dir(&folder).unwrap();
    Model::of_size(1 << 20, 9, 7).write(&folder.join("model.safetensors")).unwrap();
    shop.ferry.write("in/config.json", "{\"model_type\": \"x\"}");
    let url = "s3://bucket/out/";
    let options = ["--to", "torch", "-o", "max_shard_size=300KB", "--receipt"];
    let _ = shop.convert(&folder, url, &options).expect(0);
    let keys = shop.bucket.keys();
    for name in ["config.json", "pytorch_model.bin.index.json", "receipt.ferry.json"] {
        assert!(keys.contains(&format!("out/{name}")), "{keys:?}");
    }
    assert!(keys.len() > 5, "{keys:?}");
    let puts: Vec<String> =
        shop.server.requests().into_iter().filter(|r| r.method == "PUT").map(|r| r.target).collect();
    assert!(
        puts[puts.len() - 2].contains("index.json") && puts[puts.len() - 1].contains("receipt"),
        "{puts:?}"
    );
    shop.is_equal(&folder, url);
    let _ = shop.convert(&folder, url, &options).expect(2).says(&["s3://bucket/out exists"]);
}

/// Tests that after each request, an index whose shards all exist is in the bucket.
#[test]
fn a_set_that_is_replaced_is_whole_at_every_moment() {
    let (index, looks) = ("out/pytorch_model.bin.index.json", Arc::<AtomicU64>::default());
    let (is_there, seen) = (Arc::<AtomicBool>::default(), Arc::clone(&looks));
    let is_replaced = Arc::clone(&is_there);
    let shop = Shop::new(move |_, bucket| {
        if is_replaced.load(Ordering::SeqCst) {
            let index: Value = serde_json::from_slice(&bucket.get(index).unwrap()).unwrap();
            for shard in index["weight_map"].as_object().unwrap().values() {
                let shard = format!("out/{}", shard.as_str().unwrap());
                assert!(bucket.get(&shard).is_some(), "{shard} of {:?}", bucket.keys());
            }
            seen.fetch_add(1, Ordering::SeqCst);
        }
        None
    });
    let (first, second) = (shop.model("first.safetensors", 1 << 20), shop.ferry.at("second.safetensors"));
    Model::of_size(1 << 20, 9, 8).write(&second).unwrap();
    let url = "s3://bucket/out/";
    let options = ["--to", "torch", "-o", "max_shard_size=300KB"];
    let _ = shop.convert(&first, url, &options).expect(0);
    is_there.store(true, Ordering::SeqCst);
    for (model, more) in [(&second, &["--verify", "--receipt"][..]), (&first, &[])] {
        let count = shop.bucket.keys().len();
        let _ = shop.convert(model, url, &[&options[..], &["--force"], more].concat()).expect(0);
        shop.is_equal(model, url);
        // The replacement adds a receipt or removes the old receipt.
        assert!(shop.bucket.keys().len().abs_diff(count) == 1, "{:?}", shop.bucket.keys());
    }
    assert!(looks.load(Ordering::SeqCst) > 30);
}

#[test]
fn records_go_to_objects() {
    let shop = Shop::new(|_, _| None);
    let rows: String = (0..20_000).map(|n| format!("{{\"id\": {n}, \"text\": \"row {n}\"}}\n")).collect();
    let input = shop.ferry.write("in.jsonl", rows);
    for (url, options) in [
        ("s3://bucket/a.parquet", &["--verify", "--receipt"][..]),
        ("s3://bucket/shards/", &["--to", "tfrecord", "-o", "shards=3", "--verify"]),
        ("s3://bucket/tars/", &["--to", "webdataset", "-o", "shard_rows=7000", "-o", "key=id"]),
    ] {
        let _ = shop.convert(&input, url, options).expect(0);
        if !url.contains("tars") {
            shop.is_equal(&input, url);
        }
    }
    assert_eq!(shop.bucket.keys().iter().filter(|key| key.ends_with(".tar")).count(), 3);
    assert_eq!(shop.bucket.open_uploads(), 0);
}

#[test]
fn what_is_not_what_was_read_is_removed() {
    // The store returns bytes that differ from the received bytes.
    let shop = Shop::new(|request, bucket| {
        let mut reply = bucket.answer(request);
        if request.method == "GET" && reply.body.len() > 1000 {
            let last = reply.body.len() - 1;
            reply.body[last] ^= 1;
        }
        Some(reply)
    });
    let input = shop.model("m.safetensors", 100_000);
    let _ = shop.convert(&input, "s3://bucket/m.safetensors", &["--verify"]).expect(4);
    shop.is_empty();
}

#[test]
fn an_output_that_may_not_be_written_leaves_nothing() {
    let refuse = |status: u16| {
        Shop::new(move |request, _| {
            let is_refused = is_part(request) && query(request, "partNumber").as_deref() == Some("3");
            let words = format!("{:?}", request.headers);
            let body = format!("<Error><Code>AccessDenied</Code><Message>{words}</Message></Error>");
            is_refused.then(|| Reply::new(status, body))
        })
    };
    for (status, code) in [(403, 5), (500, 75)] {
        let shop = refuse(status);
        let input = shop.model("m.safetensors", 60 << 20);
        let refused = shop.convert(&input, "s3://bucket/m.pt", &["--memory", "64MiB"]).expect(code);
        let refused = refused.says(&["bucket/m.pt"]);
        assert!(!refused.said().to_lowercase().contains("hush"), "{refused}");
        shop.is_empty();
    }
    let shop = Shop::new(|_, _| None);
    let input = shop.model("m.safetensors", 1000);
    let _ = shop.convert(&input, "s3://bucket/m.safetensors", &["--dry-run"]).expect(0);
    shop.is_empty();
    let _ = shop.convert(&input, "s3://bucket/no.such.format", &[]).expect(2);
    shop.is_empty();
}

/// Tests Google Cloud Storage, which requires a token from the machine's metadata server.
/// Conditions refer to the generation numbers of objects.
#[test]
fn googles_store_is_read_and_written_to_with_a_machines_token() {
    let (server, bucket) = start_google(Some("hush5150"), |_, _| None);
    let ferry = Ferry::new();
    let run = |words: &[&str]| {
        let endpoint = format!("gs.endpoint=http://127.0.0.1:{}", server.port);
        let mut command = ferry.command([words, &["--store", &endpoint, "--store", "retries=3"]].concat());
        command.env("GCE_METADATA_HOST", format!("127.0.0.1:{}", server.port)).env("HOME", ferry.home());
        tensorferry_tests::ferry::run(&mut command)
    };
    let [first, second] = ferry.paths(["first.safetensors", "second.safetensors"]);
    Model::of_size(20 << 20, 9, 7).write(&first).unwrap();
    Model::of_size(20 << 20, 9, 8).write(&second).unwrap();
    let [first, second] = [&first, &second].map(|path| path.to_str().unwrap());
    let (file, set) = ("gs://bucket/m.pt", "gs://bucket/set/");
    let memory = ["--memory", "64MiB"];
    let options = [&["--to", "safetensors", "-o", "max_shard_size=7MB"], &memory[..]].concat();
    let note = ["no conditional multipart upload"];
    let _ = run(&[&["convert", first, file, "--verify"], &memory[..]].concat()).expect(0).says(&note);
    let _ = run(&[&["convert", second, file], &memory[..]].concat()).expect(2).says(&["exists; use --force"]);
    let _ = run(&[&["convert", second, file, "--force"], &memory[..]].concat()).expect(0).says(&note);
    let _ = run(&["diff", second, file]).expect(0);
    let _ = run(&[&["convert", first, set], &options[..]].concat()).expect(0);
    let keys = bucket.keys();
    let index = "set/model.safetensors.index.json";
    let generation = bucket.generation(index).unwrap();
    let _ = run(&[&["convert", second, set, "--force", "--receipt"], &options[..]].concat()).expect(0);
    let _ = run(&["diff", second, set]).expect(0);
    assert_eq!((bucket.keys().len(), bucket.open_uploads()), (keys.len() + 1, 0));
    let requests = server.requests();
    let is_put = |request: &&Request| request.method == "PUT" && decoded(request.path()).ends_with(index);
    let puts = requests.iter().filter(is_put);
    let asked: Vec<_> =
        puts.map(|put| put.header("x-goog-if-generation-match").unwrap().to_owned()).collect();
    assert_eq!(asked, ["0", &generation.to_string()]);
    assert!(requests.iter().any(|request| request.target.contains("generation=")));
    let nobody = run(&["inspect", file, "--store", "anonymous=true"]).expect(5);
    let _ = nobody.says(&["AuthenticationRequired"]);
}

/// Returns a shop whose bucket blocks before the third part, and a flag that is set when the bucket
/// blocks.
fn stuck() -> (Shop, Arc<AtomicBool>) {
    let reached = Arc::<AtomicBool>::default();
    let is_there = Arc::clone(&reached);
    let shop = Shop::new(move |request, _| {
        if is_part(request)
            && query(request, "partNumber").as_deref() == Some("3")
            && !is_there.swap(true, Ordering::SeqCst)
        {
            std::thread::sleep(Duration::from_secs(3));
        }
        None
    });
    (shop, reached)
}

/// Starts a conversion, and sends it a signal while it uploads the third part. Returns the exit
/// code.
fn broken_off(shop: &Shop, reached: &AtomicBool, signal: &str) -> Option<i32> {
    let input = shop.model("m.safetensors", 60 << 20);
    let words = ["convert", input.to_str().unwrap(), "s3://bucket/dir/m.safetensors", "--memory", "64MiB"];
    let words = words.iter().map(|word| (*word).to_owned()).chain(settings(&shop.server));
    let mut child = shop.ferry.command(words).stderr(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    while !reached.load(Ordering::SeqCst) {
        assert!(since.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    child.wait().unwrap().code()
}

#[test]
fn an_interrupted_upload_is_ended_and_a_killed_one_can_be() {
    let (shop, reached) = stuck();
    assert_eq!(broken_off(&shop, &reached, "-INT"), Some(130));
    shop.is_empty();

    let (shop, reached) = stuck();
    assert_eq!(broken_off(&shop, &reached, "-KILL"), None);
    assert_eq!((shop.bucket.keys().len(), shop.bucket.open_uploads()), (0, 1));
    // The test's bucket dates uploads to 1994.
    let young = shop.run(&["clean", "s3://bucket/dir/", "--older-than", "100years"]).expect(0);
    let _ = young.prints(&["no unfinished uploads"]);
    let _ = shop.run(&["clean", "s3://bucket/other"]).expect(0).prints(&["no unfinished uploads"]);
    let ended = shop.run(&["clean", "s3://bucket/dir/", "--json"]).expect(0).json();
    assert_eq!(ended["ended"][0], "s3://bucket/dir/m.safetensors");
    shop.is_empty();
    let _ = shop.ferry.run(["clean", "/tmp"]).expect(2);
}
