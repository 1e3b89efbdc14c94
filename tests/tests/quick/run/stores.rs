//! Tests of manifests whose roots, inputs and outputs are URLs of a local bucket.

use crate::stores::bucket::{Bucket, start};
use crate::stores::server::{Reply, Request, Server};
use crate::stores::store;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tensorferry_tests::ferry::{Outcome, run};
use tensorferry_tests::files::files_below;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::model::Model;
use tensorferry_tests::zoo::{Zoo, children, kill, wake};

const SECRETS: [&str; 3] = ["AKIDOFTHETEST", "secretkeyofthetest", "tokenofthetest"];

/// The folder of a manifest, and a bucket. `err` may answer requests in place of the bucket.
struct Shop {
    zoo: Zoo,
    server: Server,
    bucket: Arc<Bucket>,
}

impl Shop {
    fn new(err: impl Fn(&Request, &Bucket) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let (server, bucket) = start(err);
        Self { zoo: Zoo::new(), server, bucket }
    }

    fn settings(&self) -> Vec<String> {
        let keys = ["access-key", "secret-key", "session-token"];
        let keys = keys.iter().zip(SECRETS).map(|(key, secret)| format!("s3.{key}={secret}"));
        let endpoint = format!("s3.endpoint={}", self.server.url("").trim_end_matches('/'));
        keys.chain([endpoint, "retries=2".to_owned()]).collect()
    }

    fn options(&self) -> Vec<String> {
        self.settings().into_iter().flat_map(|setting| ["--store".to_owned(), setting]).collect()
    }

    fn run(&self) -> Outcome {
        let options = self.options();
        self.zoo.run(&options.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn put(&self, key: &str, path: &Path) {
        self.bucket.put(key, &fs::read(path).unwrap());
    }

    fn is_equal(&self, a: &str, b: &str) {
        let words = ["diff", a, b].map(str::to_owned);
        let _ = self.zoo.ferry.run(words.into_iter().chain(self.options())).expect(0);
    }
}

#[test]
fn roots_and_outputs_lie_in_a_store() {
    let shop = Shop::new(|_, _| None);
    let model = case("safetensors", "all_dtypes").input();
    shop.put("models/a.safetensors", &model);
    let sharded = case("safetensors", "sharded").folder;
    for path in files_below(&sharded) {
        shop.put(&format!("models/sub/{}", path.display()), &sharded.join(&path));
    }
    for shard in ["x-00000-of-00002.jsonl", "x-00001-of-00002.jsonl"] {
        shop.bucket.put(&format!("rows/{shard}"), b"{\"a\": 1}\n{\"a\": 2}\n");
    }
    let manifest = |models: &str| {
        shop.zoo.manifest(&format!(
            "[[zoo]]\nroot = \"s3://bucket/{models}\"\noutput = \"s3://bucket/out/{{path}}.pt\"\n\
             [[dataset]]\nroot = \"s3://bucket/rows/\"\noutput = \"rows/{{path}}.parquet\"\n",
        ));
    };
    manifest("models");
    let dry: Vec<String> = shop.options().into_iter().chain(["--dry-run".to_owned()]).collect();
    let _ = shop.zoo.run(&dry.iter().map(String::as_str).collect::<Vec<_>>()).expect(0);
    assert!(!shop.bucket.keys().iter().any(|key| key.starts_with("out/")));
    let _ = shop.run().expect(0).prints(&["4 done"]);
    shop.is_equal(&model.display().to_string(), "s3://bucket/out/a.pt");
    shop.is_equal(&sharded.display().to_string(), "s3://bucket/out/sub/model.pt");
    assert_eq!(shop.zoo.ferry.rows(&shop.zoo.path("rows/x-00001-of-00002.parquet")).len(), 2);
    let receipt = String::from_utf8(shop.bucket.get("out/a.pt.ferry.json").unwrap()).unwrap();
    assert!(receipt.contains("s3://bucket/models/a.safetensors"), "{receipt}");
    let _ = shop.run().expect(0).prints(&["4 unchanged"]);
    let verify = |url: &str| {
        let words = ["verify".to_owned(), url.to_owned(), "--source".to_owned()];
        shop.zoo.ferry.run(words.into_iter().chain(shop.options()))
    };
    for url in ["s3://bucket/out/", "s3://bucket/out/sub/model.pt", "s3://bucket/out/a.pt.ferry.json"] {
        let _ = verify(url).expect(0).prints(&["ok"]);
    }
    let _ = verify("s3://bucket/models/a.safetensors").expect(4).prints(&["no receipt"]);
    let _ = verify("s3://bucket/out/none").expect(2).says(&["no such file or folder"]);

    // Add a model, change a file, and replace an output as a different program would.
    shop.put("models/b.safetensors", &model);
    shop.bucket.put("rows/x-00000-of-00002.jsonl", b"{\"a\": 3}\n");
    shop.bucket.put("out/sub/model.pt", b"something else");
    let _ = shop.run().expect(0).prints(&["3 done, 2 unchanged"]);
    shop.is_equal(&sharded.display().to_string(), "s3://bucket/out/sub/model.pt");
    shop.bucket.put("out/b.pt", &shop.bucket.get("out/a.pt").unwrap()[1..]);
    let _ = verify("s3://bucket/out").expect(4).prints(&["changed"]);

    // Objects that were not written by a run are not replaced.
    shop.put("models/c.safetensors", &model);
    shop.bucket.put("out/c.pt", b"somebody's");
    let refused = shop.run().expect(3).prints(&["1 failed"]);
    assert!(refused.said().contains("s3://bucket/out/c.pt"), "{refused}");
    assert_eq!(shop.bucket.get("out/c.pt").unwrap(), b"somebody's");
    manifest("model");
    let _ = shop.run().expect(2).says(&["`root` is not a folder: s3://bucket/model"]);
}

/// Tests that a set of shards is read as a whole, and that its output in the same folder is not
/// read as an input.
#[test]
fn sets_and_outputs_lie_in_one_folder_of_a_store() {
    let shop = Shop::new(|_, _| None);
    for name in ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"] {
        let shard = shop.zoo.ferry.safetensors(name, &[(name, "U8", &[4], &[7; 4])]);
        shop.put(&format!("models/{name}"), &shard);
    }
    shop.zoo.manifest(
        "[[zoo]]\nroot = \"s3://bucket/models\"\noutput = \"s3://bucket/models/{path}.pt\"\n\
         [[zoo]]\nname = \"below\"\nroot = \"s3://bucket/models/\"\noutput = \"s3://bucket/models/out/{path}.pt\"\n",
    );
    let _ = shop.run().expect(0).prints(&["2 jobs: 2 done"]);
    assert_eq!(shop.zoo.report()["jobs"][0]["tensors"], 2);
    let _ = shop.run().expect(0).prints(&["2 jobs: 2 unchanged"]);
}

/// Tests workers that share only a store.
#[test]
fn a_plan_and_its_journals_lie_in_a_store() {
    let shop = Shop::new(|_, _| None);
    let model = case("safetensors", "all_dtypes").input();
    for name in ["a", "b", "c"] {
        shop.put(&format!("models/{name}.safetensors"), &model);
    }
    shop.zoo.manifest(
        "[[zoo]]\nroot = \"s3://bucket/models\"\noutput = \"s3://bucket/out/{path}.pt\"\nretries = 0\n",
    );
    let manifest = shop.zoo.path("zoo.toml").display().to_string();
    let ferry = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned());
        shop.zoo.ferry.run(words.chain(shop.options()))
    };
    let plan = ["plan", &manifest, "s3://bucket/plans/one", "--piece-jobs", "1"];
    let _ = ferry(&plan).expect(0).prints(&["3 jobs in 3 pieces"]);
    let _ = ferry(&plan).expect(2).says(&["the plan already exists"]);
    let run = |more: &[&str]| {
        let report = shop.zoo.path("report").display().to_string();
        let words = ["run", "s3://bucket/plans/one", "--report", &report];
        ferry(&words.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let _ = run(&["--shard", "1/2"]).expect(0).prints(&["2 jobs: 2 done"]);
    let journals =
        || shop.bucket.keys().into_iter().filter(|key| key.contains("/journal/")).collect::<Vec<_>>();
    assert!(!journals().is_empty() && journals().iter().all(|key| !key.contains("/journal/00001/")));
    let _ = run(&[]).expect(0).prints(&["3 jobs: 1 done, 2 unchanged"]);
    let before = journals();
    let _ = run(&[]).expect(0).prints(&["3 jobs: 3 unchanged"]);
    assert_eq!(journals(), before);
    shop.is_equal(&model.display().to_string(), "s3://bucket/out/b.pt");
    let _ = ferry(&["work", "s3://bucket/plans/one", "--pull"]).expect(3).says(&["workers cannot claim"]);
    // Remove the `done` events, as if the run had been killed before it could record its commits.
    for key in before.iter().filter(|key| key.contains("/journal/00002/")) {
        let lines = String::from_utf8(shop.bucket.get(key).unwrap()).unwrap();
        let lines: String = lines
            .lines()
            .filter(|line| !line.contains("\"event\":\"done\""))
            .map(|line| format!("{line}\n"))
            .collect();
        shop.bucket.put(key, lines.as_bytes());
    }
    let _ = run(&[]).expect(0).prints(&["3 jobs: 3 unchanged"]);
}

/// Tests a worker that freezes before its objects become visible. A different worker creates the
/// same objects, and then the first worker continues.
#[test]
fn of_two_workers_one_makes_an_object_visible() {
    for stage in ["journal-commit-written@1", "journal-commit-written@2", "journal-done@1"] {
        let shop = Shop::new(|_, _| None);
        shop.put("models/a.safetensors", &case("safetensors", "all_dtypes").input());
        shop.zoo.manifest(
            "[[zoo]]\nroot = \"s3://bucket/models\"\noutput = \"s3://bucket/out/{path}.pt\"\nretries = 0\n",
        );
        let options = shop.options();
        let manifest = shop.zoo.path("zoo.toml").display().to_string();
        let plan = shop.zoo.path("zoo.plan").display().to_string();
        let made = ["plan", &manifest, &plan].map(str::to_owned).into_iter().chain(options.clone());
        let _ = shop.zoo.ferry.run(made).expect(0);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut command = shop.zoo.on_plan("run", &options);
        command.env("FERRY_FAULT", format!("{stage}=stop")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let frozen = command.spawn().unwrap();
        shop.zoo.wait_until_stopped(frozen.id());
        let _ = run(&mut shop.zoo.on_plan("run", &options)).expect(0).prints(&["1 job: 1 "]);
        let puts = || shop.bucket.keys().iter().map(|key| shop.bucket.get(key).unwrap()).collect::<Vec<_>>();
        let standing = puts();
        let woken = wake(frozen);
        assert!(woken.status.success(), "{stage}: {}", String::from_utf8_lossy(&woken.stderr));
        assert_eq!(puts(), standing);
        let _ = run(&mut shop.zoo.on_plan("run", &options)).expect(0).prints(&["1 job: 1 unchanged"]);
    }
}

#[test]
fn a_set_that_a_run_has_made_is_replaced_by_its_index() {
    let shop = Shop::new(|_, _| None);
    let [first, second] = shop.zoo.ferry.paths(["first.safetensors", "second.safetensors"]);
    Model::of_size(100_000, 9, 7).write(&first).unwrap();
    Model::of_size(100_000, 9, 8).write(&second).unwrap();
    shop.zoo.manifest(
        "[[zoo]]\nroot = \"s3://bucket/models\"\noutput = \"s3://bucket/out/{path}.safetensors\"\n\
         output_options = { max_shard_size = \"40KB\" }\n",
    );
    let sets = |keys: Vec<String>| -> Vec<String> {
        keys.into_iter().filter(|key| key.starts_with("out/") && key.contains("-of-")).collect()
    };
    shop.put("models/a.safetensors", &first);
    let _ = shop.run().expect(0).prints(&["1 done"]);
    let older = sets(shop.bucket.keys());
    assert!(older.len() > 1 && older.iter().all(|key| key.starts_with("out/a-0")), "{older:?}");
    shop.put("models/a.safetensors", &second);
    let _ = shop.run().expect(0).prints(&["1 done"]);
    let newer = sets(shop.bucket.keys());
    assert!(newer.len() == older.len() && newer.iter().all(|key| key.starts_with("out/a-r")), "{newer:?}");
    shop.is_equal(second.to_str().unwrap(), "s3://bucket/out/a.safetensors.index.json");
    let _ = shop.run().expect(0).prints(&["1 unchanged"]);
    // A changed object is written again.
    shop.bucket.put(&newer[0], b"something else");
    let _ = shop.run().expect(0).prints(&["1 done"]);
    shop.is_equal(second.to_str().unwrap(), "s3://bucket/out/a.safetensors.index.json");
    let last = sets(shop.bucket.keys());
    assert!(last.len() == older.len() && last.iter().all(|key| !newer.contains(key)), "{last:?}");
}

#[test]
fn a_run_that_is_killed_is_finished_by_the_next() {
    // The run is killed while the store completes an object, before the run receives the response.
    let completed = Arc::<AtomicU64>::default();
    let count = Arc::clone(&completed);
    let shop = Shop::new(move |request, bucket| {
        let is_put = request.method == "PUT" && request.path().ends_with(".pt");
        if !is_put || count.fetch_add(1, Ordering::SeqCst) > 0 {
            return None;
        }
        let reply = bucket.answer(request);
        std::thread::sleep(std::time::Duration::from_secs(2));
        Some(reply)
    });
    for name in ["a", "b"] {
        shop.put(&format!("models/{name}.safetensors"), &case("safetensors", "all_dtypes").input());
    }
    shop.zoo.manifest("[[zoo]]\nroot = \"s3://bucket/models\"\noutput = \"s3://bucket/out/{path}.pt\"\n");
    let options = shop.options();
    let mut run = shop.zoo.start(&options.iter().map(String::as_str).collect::<Vec<_>>());
    while completed.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let workers = children(run.id());
    kill(run.id());
    workers.into_iter().for_each(kill);
    run.wait().unwrap();
    let _ = shop.run().expect(0);
    let _ = shop.run().expect(0).prints(&["2 unchanged"]);
    for name in ["a", "b"] {
        shop.is_equal(
            &case("safetensors", "all_dtypes").input().display().to_string(),
            &format!("s3://bucket/out/{name}.pt"),
        );
    }
    assert_eq!(shop.bucket.open_uploads(), 0);
}

#[test]
fn no_secret_is_in_what_a_run_leaves() {
    let shop = Shop::new(|request, _| {
        let said = format!("{:?}", request.headers).replace(['<', '&'], "");
        let body = format!("<Error><Code>AccessDenied</Code><Message>{said}</Message></Error>");
        request.path().contains("denied").then(|| Reply::new(403, body))
    });
    let model = case("safetensors", "all_dtypes").input();
    for name in ["a", "denied"] {
        shop.put(&format!("in/{name}.safetensors"), &model);
    }
    shop.zoo.manifest("[[zoo]]\nroot = \"s3://bucket/in\"\noutput = \"out/{path}.pt\"\n");
    let run = shop.run();
    let mut left = vec![run.said()];
    left.extend(
        files_below(shop.zoo.home())
            .iter()
            .map(|path| String::from_utf8_lossy(&fs::read(shop.zoo.home().join(path)).unwrap()).into_owned()),
    );
    assert!(left.len() > 5 && left.iter().any(|text| text.contains("AccessDenied")), "{left:?}");
    for secret in SECRETS {
        assert!(!left.iter().any(|text| text.contains(secret)), "{secret} is in {left:?}");
    }
    // The exit code is the one for I/O errors, because the model may be readable from a different
    // machine.
    let _ = run.expect(5).prints(&["1 failed, 1 done"]);
    // The settings can also be in the environment, because arguments are visible to other users.
    let told = shop.zoo.command(&[]).env("FERRY_STORE", shop.settings().join("\n")).output().unwrap();
    assert!(String::from_utf8_lossy(&told.stdout).contains("1 unchanged"), "{told:?}");
    let settings = format!("# of the test\n\n{}\n", shop.settings().join("\n"));
    shop.zoo.write("config/ferry/stores", settings.as_bytes());
    let told = shop.zoo.command(&[]).env("XDG_CONFIG_HOME", shop.zoo.path("config")).output().unwrap();
    assert!(String::from_utf8_lossy(&told.stdout).contains("1 unchanged"), "{told:?}");
    // A configuration folder that cannot be entered is treated as empty.
    let mut closed = shop.zoo.command(&[]);
    closed.env("XDG_CONFIG_HOME", shop.zoo.path("config/ferry/stores"));
    let told = closed.env("FERRY_STORE", shop.settings().join("\n")).output().unwrap();
    assert!(String::from_utf8_lossy(&told.stdout).contains("1 unchanged"), "{told:?}");
}

#[test]
fn a_file_that_is_replaced_while_it_is_read_leaves_nothing() {
    let count = AtomicU64::new(0);
    let shop = Shop::new(move |request, bucket| {
        let mut reply = bucket.answer(request);
        if request.method == "GET" && request.path().ends_with(".safetensors") {
            let tag = format!("\"{}\"", count.fetch_add(1, Ordering::Relaxed));
            reply.headers.retain(|(name, _)| name != "ETag");
            reply = reply.with("ETag", tag).with("Last-Modified", store::WRITTEN);
        }
        Some(reply)
    });
    let (ferry, zeros) = (&shop.zoo.ferry, vec![0_u8; 1 << 20]);
    shop.put("m.safetensors", &ferry.safetensors("m.safetensors", &[("a", "F32", &[1 << 18], &zeros)]));
    let before = ferry.names();
    let output = ferry.at("m.pt").display().to_string();
    let words = ["convert".to_owned(), "s3://bucket/m.safetensors".to_owned(), output];
    let refused = ferry.run(words.into_iter().chain(shop.options())).expect(75);
    let _ = refused.says(&["changed while it was being read", "s3://bucket/m.safetensors"]);
    assert_eq!(ferry.names(), before);
}
