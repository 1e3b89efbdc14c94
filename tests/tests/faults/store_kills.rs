//! Tests of processes that are killed while they write a set to a store. The complete old set or
//! the complete new set must remain. Without an old set, either nothing or the new set may remain.
//! `ferry clean` aborts the uploads of the killed process, and the next run removes its other
//! objects.

use crate::stores::bucket::{Bucket, start};
use crate::stores::server::Server;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tensorferry_test_kit::random::Random;
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::{Outcome, run};
use tensorferry_tests::model::Model;
use tensorferry_tests::settings::kills;

const INDEX: &str = "out/model.safetensors.index.json";
const SHARDS: [&str; 6] = ["--to", "safetensors", "-o", "max_shard_size=7MB", "--memory", "64MiB"];

struct Shop {
    ferry: Ferry,
    server: Server,
    bucket: Arc<Bucket>,
    older: PathBuf,
    newer: PathBuf,
}

impl Shop {
    fn new() -> Self {
        let (ferry, (server, bucket)) = (Ferry::new(), start(|_, _| None));
        let [older, newer] = ferry.paths(["older.safetensors", "newer.safetensors"]);
        Model::of_size(20 << 20, 40, 1).write(&older).unwrap();
        Model::of_size(20 << 20, 40, 2).write(&newer).unwrap();
        Self { ferry, server, bucket, older, newer }
    }

    fn words(&self, words: &[&str]) -> Vec<String> {
        let endpoint = format!("endpoint={}", self.server.url("").trim_end_matches('/'));
        let settings = [endpoint.as_str(), "access-key=key", "secret-key=secret"];
        let settings = settings.iter().flat_map(|setting| ["--store", setting]);
        words.iter().copied().chain(settings).map(str::to_owned).collect()
    }

    fn convert(&self, input: &std::path::Path, options: &[&str]) -> Vec<String> {
        let input = input.display().to_string();
        self.words(&[&["convert", input.as_str(), "s3://bucket/out/"], &SHARDS[..], options].concat())
    }

    /// Empties the bucket, and writes the older set if `with_older` is set.
    fn reset(&self, with_older: bool) {
        self.bucket.clear();
        if with_older {
            let _ = self.ferry.run(self.convert(&self.older, &[])).expect(0);
        }
    }

    fn equals(&self, model: &std::path::Path) -> Outcome {
        self.ferry.run(self.words(&["diff", &model.display().to_string(), "s3://bucket/out/"]))
    }

    /// Returns the objects of the current set, which are the index and the shards that the index
    /// names.
    fn found(&self) -> BTreeSet<String> {
        let index: Value = serde_json::from_slice(&self.bucket.get(INDEX).unwrap()).unwrap();
        let shards = index["weight_map"].as_object().unwrap().values();
        let shards = shards.map(|shard| format!("out/{}", shard.as_str().unwrap()));
        shards.chain([INDEX.to_owned()]).collect()
    }

    /// Checks that a killed run left a complete set, and that the next run leaves only the new set.
    fn stands_and_is_mended(&self, with_older: bool, about: &str) {
        // All shards in the index must exist, and must all be from the same set.
        if with_older || self.bucket.get(INDEX).is_some() {
            let is = |model: &std::path::Path| self.equals(model).code == Some(0);
            assert!(is(&self.newer) || (with_older && is(&self.older)), "{about}: {:?}", self.bucket.keys());
        }
        let _ = self.ferry.run(self.words(&["clean", "s3://bucket/", "--older-than", "0s"])).expect(0);
        assert_eq!(self.bucket.open_uploads(), 0, "{about}");
        let _ = self.ferry.run(self.convert(&self.newer, &["--force"])).expect(0);
        let _ = self.equals(&self.newer).expect(0);
        assert_eq!(self.bucket.keys().into_iter().collect::<BTreeSet<_>>(), self.found(), "{about}");
    }
}

#[test]
#[ignore = "kills processes"]
fn a_set_in_a_store_killed_at_random_moments() {
    let (shop, count) = (Shop::new(), kills(25));
    for with_older in [false, true] {
        let options: &[&str] = if with_older { &["--force"] } else { &[] };
        shop.reset(with_older);
        let since = Instant::now();
        let _ = shop.ferry.run(shop.convert(&shop.newer, options)).expect(0);
        let whole = since.elapsed();
        let (mut random, mut ended) = (Random::new(count), 0);
        for kill in 0..count {
            shop.reset(with_older);
            let mut child = shop.ferry.command(shop.convert(&shop.newer, options)).spawn().unwrap();
            let moment = whole * u32::try_from(random.below(1000)).unwrap() / 1000;
            std::thread::sleep(moment);
            ended += u64::from(child.try_wait().unwrap().is_some());
            child.kill().unwrap();
            child.wait().unwrap();
            // The server may still be receiving the last request.
            std::thread::sleep(Duration::from_millis(100));
            shop.stands_and_is_mended(with_older, &format!("kill {kill} after {moment:?}"));
        }
        assert!(ended < count, "every run had ended before it was killed");
    }
}

#[test]
#[ignore = "kills processes"]
fn a_set_in_a_store_killed_at_each_stage() {
    let shop = Shop::new();
    for (stage, with_older, options) in [
        ("copied", false, &[][..]),
        ("copied", true, &[]),
        ("sealed", true, &[]),
        ("file-renamed", true, &[]),
        ("file-renamed", false, &[]),
        ("old-index-removed", true, &["--receipt=blake3"]),
        ("index-renamed", true, &[]),
        ("index-renamed", true, &["--verify"]),
        ("verified", true, &["--verify"]),
        ("stale-removed", true, &[]),
        ("stale-removed@2", true, &[]),
        ("committed", true, &[]),
    ] {
        shop.reset(with_older);
        let force: &[&str] = if with_older { &["--force"] } else { &[] };
        let mut command = shop.ferry.command(shop.convert(&shop.newer, &[force, options].concat()));
        let killed = run(command.env("FERRY_FAULT", stage));
        assert_eq!(killed.code, None, "{stage}: {killed}");
        shop.stands_and_is_mended(with_older, stage);
    }
}

/// Tests that a run that fails before the commit leaves the existing objects unchanged.
#[test]
#[ignore = "kills processes"]
fn a_set_in_a_store_that_cannot_be_finished_leaves_the_older_one() {
    let shop = Shop::new();
    let objects = || -> Vec<(String, Option<Vec<u8>>)> {
        shop.bucket.keys().into_iter().map(|key| (key.clone(), shop.bucket.get(&key))).collect()
    };
    for (stage, options) in [
        ("copied", &[][..]),
        ("file-renamed", &[]),
        ("old-index-removed", &[]),
        ("index-renamed", &["--verify"]),
        ("verified", &["--verify", "--receipt=blake3"]),
        // The second rename publishes the receipt together with the new set.
        ("index-renamed@2", &["--receipt=blake3"]),
    ] {
        shop.bucket.clear();
        let _ = shop.ferry.run(shop.convert(&shop.older, &["--receipt=blake3"])).expect(0);
        let before = objects();
        let words = shop.convert(&shop.newer, &[&["--force"], options].concat());
        let failed = run(shop.ferry.command(words).env("FERRY_FAULT", format!("{stage}=eio")));
        let _ = failed.expect(75).says(&["the requested fault"]);
        assert!(objects() == before, "{stage}: {:?}", shop.bucket.keys());
        assert_eq!(shop.bucket.open_uploads(), 0, "{stage}");
    }
}
