//! Tests that `huggingface_hub` can read from this crate's test Hub, and that this crate can read
//! the cache that `huggingface_hub` writes.

use super::install::{open, read_whole, remotes, run, venv};
use crate::support::hub::{COMMIT, Files, Hub};
use crate::support::server::pattern;
use std::process::Command;

const SCRIPT: &str = r#"
import sys
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError, EntryNotFoundError
api = HfApi()
assert api.model_info("org/model").sha == sys.argv[1]
assert api.model_info("org/model", revision="v1", expand=["sha"]).sha == sys.argv[1]
tree = {e.path: getattr(e, "size", None) for e in api.list_repo_tree("org/model", recursive=True, revision=sys.argv[1])}
assert tree == {"config.json": 2, "model.bin": 3 << 20, "onnx": None, "onnx/a.bin": 2000}, tree
info = api.get_paths_info("org/model", ["model.bin", "onnx", "none"])
assert [(i.path, type(i).__name__) for i in info] == [("model.bin", "RepoFile"), ("onnx", "RepoFolder")], info
assert info[0].lfs.sha256 and info[0].lfs.size == 3 << 20, info
for repo, error in [("org/gated", GatedRepoError), ("org/private", RepositoryNotFoundError)]:
    try:
        api.model_info(repo)
        raise SystemExit(repo)
    except error:
        pass
try:
    api.model_info("org/model", revision="none")
    raise SystemExit("revision")
except RevisionNotFoundError:
    pass
try:
    hf_hub_download("org/model", "none")
    raise SystemExit("entry")
except EntryNotFoundError:
    pass
assert api.model_info("org/private", token="hf_hush5150").sha
path = hf_hub_download("org/old", "config.json")
assert open(path).read() == "{}"
print(snapshot_download("org/model"))
"#;

#[test]
#[ignore = "installs huggingface_hub from PyPI"]
fn the_hubs_own_client_works_against_the_hub_of_the_tests() {
    let large = pattern(3 << 20);
    let files: [(&str, &[u8]); 3] =
        [("config.json", b"{}"), ("model.bin", &large), ("onnx/a.bin", &large[..2000])];
    let files: Files = files.map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).into();
    let hub = Hub::start(files);
    let home = tempfile::tempdir().unwrap();
    let mut python = Command::new(venv().join("bin/python"));
    python.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HF_HOME", home.path());
    python
        .env("HF_ENDPOINT", hub.endpoint())
        .env("HF_HUB_DISABLE_XET", "1")
        .env("HF_HUB_DISABLE_TELEMETRY", "1");
    let snapshot = run(python.args(["-c", SCRIPT, COMMIT]));
    assert_eq!(std::fs::read(std::path::Path::new(snapshot.trim()).join("model.bin")).unwrap(), large);

    // ferry reads the cache of `huggingface_hub` without sending requests to the Hub.
    let cache = format!("hf-cache={}", home.path().join("hub").display());
    let endpoint = format!("hf-endpoint={}", hub.endpoint());
    let asked = hub.server.requests().len();
    let offline = remotes(16 << 20, &[&cache, &endpoint, "hf-offline=true"]);
    let cached = open(&offline, "hf://org/model/model.bin");
    assert!(read_whole(&*cached) == large);
    let stored = hub.store.requests().len();
    assert_eq!(hub.server.requests().len(), asked);
    let online = remotes(16 << 20, &[&cache, &endpoint]);
    assert_eq!(open(&online, "hf://org/model/onnx/a.bin").stamp().len, 2000);
    assert_eq!(hub.store.requests().len(), stored);
    let direct = remotes(16 << 20, &["hf-cache=/nowhere", &endpoint]);
    let file = open(&direct, "hf://org/model/model.bin");
    assert!(read_whole(&*file) == large);
    assert_eq!(file.stamp(), cached.stamp());
}
