//! Tests repositories on the Hub.

use super::{open, place, read, read_whole, remotes};
use crate::Remotes;
use crate::testing::hub::{COMMIT, Files, Hub, TOKEN};
use crate::testing::server::pattern;
use std::path::Path;
use tensorferry_core::context::remote::{Remote, RemoteEntry};
use tensorferry_sdk::ErrorKind;

fn files() -> Files {
    let large = pattern(3 << 20);
    let files = [
        ("config.json", b"{}".to_vec()),
        ("model-1 of 2.bin", large.clone()),
        ("onnx/a/model.bin", large[..2000].to_vec()),
        ("onnx/config.json", b"{ }".to_vec()),
        ("z.txt", b"z".to_vec()),
    ];
    files.map(|(path, bytes)| (path.to_owned(), bytes)).into()
}

fn of(hub: &Hub, pairs: &[&str]) -> Remotes {
    let endpoint = format!("hf-endpoint={}", hub.endpoint());
    let pairs: Vec<&str> =
        ["hf-cache=/nowhere", &endpoint].into_iter().chain(pairs.iter().copied()).collect();
    remotes(&pairs)
}

fn entry(name: &str, len: Option<u64>) -> RemoteEntry {
    RemoteEntry { name: name.into(), len }
}

#[test]
fn a_model_is_listed_once_and_read_behind_a_redirect() {
    let hub = Hub::start(files());
    let remotes = of(&hub, &["hf-token=hf_hush5150"]);
    let (place, path) = place(&remotes, "hf://org/model");
    assert_eq!(path, "");
    assert_eq!(place.look("").unwrap(), Some(entry("", None)));
    let listed = place.list("", 10).unwrap();
    let large = Some(3 << 20);
    assert_eq!(
        listed,
        [
            entry("config.json", Some(2)),
            entry("model-1 of 2.bin", large),
            entry("onnx", None),
            entry("z.txt", Some(1))
        ]
    );
    let pages = hub.server.requests().len();
    assert_eq!(place.list("onnx", 10).unwrap(), [entry("a", None), entry("config.json", Some(3))]);
    assert_eq!(place.look("onnx/a/model.bin").unwrap(), Some(entry("model.bin", Some(2000))));
    assert_eq!(place.look("none").unwrap(), None);
    assert_eq!(place.list("", 3).unwrap_err().kind(), ErrorKind::Limit);
    let file = place.open("model-1 of 2.bin").unwrap();
    assert!(file.stamp().tag.starts_with("sha256:"), "{:?}", file.stamp());
    assert_eq!(hub.server.requests().len(), pages);
    // ferry sends one request for the revision, and four for the pages of seven entries. Known
    // entries do not need a request.
    assert_eq!(pages, 5);
    assert_eq!(read(&*file, 8, 100).unwrap(), pattern(3 << 20)[8..108]);
    assert_eq!((hub.server.requests().len(), hub.store.requests().len()), (pages + 1, 1));
    assert_eq!(read_whole(&*file).unwrap(), pattern(3 << 20));
    // The signed URL is reused.
    assert_eq!(hub.server.requests().len(), pages + 1);
    let token = format!("Bearer {TOKEN}");
    assert!(hub.server.requests().iter().all(|request| request.header("authorization") == Some(&token)));
    assert!(hub.store.requests().iter().all(|request| request.header("authorization").is_none()));
    assert!(hub.server.requests().last().unwrap().target.contains(COMMIT));
    // Files that were announced are already being opened at this point.
    let asked = hub.server.requests().len();
    place.will_open(&["onnx/a/model.bin", "z.txt", "none"]);
    let (large, small) = (place.open("onnx/a/model.bin").unwrap(), place.open("z.txt").unwrap());
    assert_eq!(read_whole(&*large).unwrap(), pattern(2000));
    assert_eq!(read(&*small, 0, 1).unwrap(), b"z");
    assert_eq!(hub.server.requests().len(), asked + 2);
    let small = place.open("config.json").unwrap();
    assert!(small.stamp().tag.starts_with("git-blob:"));
    assert_eq!(read(&*small, 0, 2).unwrap(), b"{}");
    small.check_unchanged().unwrap();
}

#[test]
fn one_file_of_a_repository_is_found_without_a_list() {
    let hub = Hub::start(files());
    let remotes = of(&hub, &[]);
    for (url, len) in [
        ("hf://org/model@v1/onnx/a/model.bin", 2000),
        ("hf://models/org/model@refs/pr/1/z.txt", 1),
        ("hf://datasets/org/data/onnx/config.json", 3),
        ("hf://org/old/z.txt", 1),
    ] {
        let (place, path) = place(&remotes, url);
        assert_eq!(place.look(&path).unwrap().unwrap().len, Some(len), "{url}");
        assert_eq!(place.url(&path), url.replace("models/", ""));
    }
    let (place, _) = place(&remotes, "hf://org/model@v1");
    assert_eq!(place.look("onnx").unwrap(), Some(entry("onnx", None)));
    assert_eq!(place.look("none").unwrap(), None);
    assert_eq!(place.open("none").err().unwrap().kind(), ErrorKind::Malformed);
    assert!(hub.server.requests().iter().all(|request| !request.target.contains("/tree/")));
}

#[test]
fn signed_urls_that_expire_are_asked_for_again() {
    let hub = Hub::start(files());
    let file = open(&of(&hub, &[]), "hf://org/model/model-1 of 2.bin").unwrap();
    read(&*file, 0, 10).unwrap();
    hub.expire();
    assert_eq!(read(&*file, 2 << 20, 10).unwrap(), pattern(3 << 20)[2 << 20..(2 << 20) + 10]);
    let resolved =
        hub.server.requests().iter().filter(|request| request.target.contains("/resolve/")).count();
    assert_eq!(resolved, 2);
}

#[test]
fn content_that_changes_at_a_commit_is_told() {
    let hub = Hub::start(files());
    let file = open(&of(&hub, &[]), "hf://org/model/model-1 of 2.bin").unwrap();
    hub.replace("model-1 of 2.bin", &pattern(2 << 20));
    let error = read(&*file, 0, 10).unwrap_err();
    assert!(error.to_string().contains("changed while it was being read"), "{error}");
}

#[test]
fn what_the_hub_refuses_is_told_with_what_to_do() {
    let hub = Hub::start(files());
    let remotes = of(&hub, &[]);
    let error = |url: &str| remotes.place(url).err().unwrap();
    let gated = error("hf://org/gated");
    assert_eq!(gated.kind(), ErrorKind::Io);
    assert!(gated.to_string().contains("gated: request access at http://127.0.0.1"), "{gated}");
    let private = error("hf://org/private/config.json");
    assert_eq!(private.kind(), ErrorKind::Usage);
    let hint = private.details().find(|(name, _)| *name == "hint");
    assert!(hint.is_some_and(|(_, hint)| hint.contains("hf auth login")), "{private:?}");
    assert!(error("hf://org/model@none").to_string().contains("no such revision"));
    let full = error("hf://org/full");
    assert_eq!(full.kind(), ErrorKind::Transient);
    assert!(full.to_string().contains("asks to wait 250 s"), "{full}");
    let (busy, _) = place(&remotes, "hf://org/busy");
    assert_eq!(busy.look("z.txt").unwrap(), Some(entry("z.txt", Some(1))));
    let logged_in = of(&hub, &["hf-token=hf_hush5150"]);
    let (private, path) = place(&logged_in, "hf://org/private/z.txt");
    assert_eq!(read(&*private.open(&path).unwrap(), 0, 1).unwrap(), b"z");
}

/// Creates a cache with the same structure as one that `huggingface_hub` writes.
fn cache(folder: &Path) {
    let repository = folder.join("models--org--model");
    let snapshot = repository.join("snapshots").join(COMMIT);
    for folder in [&repository.join("refs"), &repository.join("blobs"), &snapshot] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(repository.join("refs/main"), COMMIT).unwrap();
    let hub = Hub::start(files());
    let file = open(&of(&hub, &[]), "hf://org/model/model-1 of 2.bin").unwrap();
    let etag = file.stamp().tag.trim_start_matches("sha256:").to_owned();
    std::fs::write(repository.join("blobs").join(&etag), pattern(3 << 20)).unwrap();
    std::os::unix::fs::symlink(format!("../../blobs/{etag}"), snapshot.join("model-1 of 2.bin")).unwrap();
}

#[test]
fn the_cache_is_read_first_and_alone_when_offline() {
    let folder = tempfile::tempdir().unwrap();
    cache(folder.path());
    let hub = Hub::start(files());
    let cache = format!("hf-cache={}", folder.path().display());
    let remotes = of(&hub, &[&cache]);
    let (place, path) = place(&remotes, "hf://org/model/model-1 of 2.bin");
    place.list("", 10).unwrap();
    let asked = hub.server.requests().len();
    let file = place.open(&path).unwrap();
    assert_eq!(read_whole(&*file).unwrap(), pattern(3 << 20));
    file.check_unchanged().unwrap();
    assert_eq!((hub.server.requests().len(), hub.store.requests().len()), (asked, 0));

    let offline = of(&hub, &[&cache, "hf-offline=true"]);
    let (place, path) = super::place(&offline, "hf://org/model/model-1 of 2.bin");
    assert_eq!(place.list("", 10).unwrap(), [entry("model-1 of 2.bin", Some(3 << 20))]);
    let cached = place.open(&path).unwrap();
    assert_eq!(cached.stamp(), file.stamp());
    assert_eq!(read(&*cached, 5, 10).unwrap(), pattern(3 << 20)[5..15]);
    assert_eq!(place.open("config.json").err().unwrap().kind(), ErrorKind::Malformed);
    let error = offline.place("hf://org/other").err().unwrap();
    assert!(error.to_string().contains("hf-offline is set"), "{error}");
    assert_eq!(hub.server.requests().len(), asked);
}
