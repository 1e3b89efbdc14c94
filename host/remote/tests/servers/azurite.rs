//! Tests Azure Blob Storage with Azurite.

use super::install::{Running, azurite, free_port, open, read_whole, remotes, run};
use super::writing::objects_are_written;
use crate::support::server::pattern;
use std::path::Path;
use std::process::Command;
use tensorferry_core::context::remote::{Remote, RemoteEntry};

/// Azurite's test account and its key, from Azurite's documentation.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

fn start(folder: &Path) -> Running {
    let port = free_port();
    let mut command = Command::new(azurite());
    command.args(["--silent", "--skipApiVersionCheck", "--blobPort", &port.to_string(), "--location"]);
    Running::start(port, command.arg(folder))
}

#[test]
#[ignore = "installs azurite from npm"]
fn blobs_of_azurite_are_read_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let endpoint = format!("endpoint=http://127.0.0.1:{}/{ACCOUNT}", server.port);
    let (account, key) = (format!("account={ACCOUNT}"), format!("access-key={KEY}"));
    let large = pattern(24 << 20);
    put(&server, "/container?restype=container", "");
    upload(
        &server,
        &[("model/a.bin", &large), ("model/b%20c%2B%25.txt", b"text"), ("model/sub/d", b"d"), ("empty", b"")],
    );
    let remotes = remotes(64 << 20, &[&endpoint, &account, &key, "retries=2"]);
    let (place, _) = remotes.place("az://container").unwrap().unwrap();
    let entry = |name: &str, len| RemoteEntry { name: name.into(), len };
    let mut listed = place.list("model", 10).unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(listed, [entry("a.bin", Some(24 << 20)), entry("b c+%.txt", Some(4)), entry("sub", None)]);
    assert_eq!(place.look("model").unwrap(), Some(entry("model", None)));
    assert_eq!(place.look("none").unwrap(), None);
    assert_eq!(place.look("empty").unwrap(), Some(entry("empty", Some(0))));
    assert_eq!(read_whole(&*place.open("model/b c+%.txt").unwrap()), b"text");
    let file = place.open("model/a.bin").unwrap();
    assert!(read_whole(&*file) == large);
    file.check_unchanged().unwrap();
    let file = open(&remotes, &format!("abfs://container@{ACCOUNT}.dfs.core.windows.net/model/a.bin"));
    upload(&server, &[("model/a.bin", &large[1..])]);
    let error = file.read_at(20 << 20, &mut [0; 100]).unwrap_err().to_string();
    assert!(error.contains("changed while it was being read"), "{error}");
    let (none, path) = remotes.place("az://no-such-container/a").unwrap().unwrap();
    assert!(none.open(&path).err().unwrap().to_string().contains("ContainerNotFound"));
}

/// Signs requests with the account's key, as described in Microsoft's "Authorize with Shared Key".
const SCRIPT: &str = r#"
import base64, datetime, hashlib, hmac, sys, urllib.request
port, account, key, target, path = sys.argv[1:]
data = open(path, "rb").read() if path else b""
date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
headers = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
if path:
    headers["x-ms-blob-type"] = "BlockBlob"
where, _, query = target.partition("?")
named = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
resource = f"/{account}/{account}{where}" + "".join("\n" + pair.replace("=", ":") for pair in sorted(query.split("&")) if pair)
length = str(len(data)) if data else ""
text = f"PUT\n\n\n{length}\n\napplication/octet-stream\n\n\n\n\n\n\n{named}{resource}"
digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
headers["Content-Type"] = "application/octet-stream"
request = urllib.request.Request(f"http://127.0.0.1:{port}/{account}{target}", data, headers, method="PUT")
urllib.request.urlopen(request)
"#;

fn put(server: &Running, target: &str, file: &str) {
    let port = server.port.to_string();
    run(Command::new("python3").args(["-c", SCRIPT, &port, ACCOUNT, KEY, target, file]));
}

fn upload(server: &Running, blobs: &[(&str, &[u8])]) {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in blobs {
        let file = folder.path().join("blob");
        std::fs::write(&file, bytes).unwrap();
        put(server, &format!("/container/{name}"), file.to_str().unwrap());
    }
}

#[test]
#[ignore = "installs azurite from npm"]
fn blobs_are_written_to_azurite() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let endpoint = format!("endpoint=http://127.0.0.1:{}/{ACCOUNT}", server.port);
    let (account, key) = (format!("account={ACCOUNT}"), format!("access-key={KEY}"));
    put(&server, "/container?restype=container", "");
    let remotes = remotes(64 << 20, &[&endpoint, &account, &key, "retries=2"]);
    objects_are_written(&remotes, "az://container", true);
    let (place, _) = remotes.place("az://container").unwrap().unwrap();
    let error = place.end_uploads("", std::time::Duration::ZERO).unwrap_err();
    assert!(error.to_string().contains("after a week"), "{error}");
}
