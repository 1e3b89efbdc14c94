//! S3, as moto does it: with versions of objects, `If-Match`, and all kinds of keys.

use super::install::{Running, ask, free_port, open, read_whole, remotes, venv};
use crate::support::server::pattern;
use std::process::Command;
use tensorferry::engine::context::remote::{Remote, RemoteEntry};

fn start() -> Running {
    let port = free_port();
    let program = venv().join("bin/moto_server");
    let running = Running::start(port, Command::new(program).args(["-p", &port.to_string()]));
    assert_eq!(ask(port, "PUT", "/bucket", "", b""), 200);
    running
}

fn put(server: &Running, key: &str, bytes: &[u8]) {
    assert_eq!(ask(server.port, "PUT", &format!("/bucket/{key}"), "", bytes), 200, "{key}");
}

#[test]
#[ignore = "installs moto from PyPI"]
fn objects_of_moto_are_read_listed_and_told_when_they_change() {
    let server = start();
    let large = pattern(24 << 20);
    put(&server, "model/a.bin", &large);
    put(&server, "model/b%20c%2B%25.txt", b"text");
    put(&server, "model/sub/d", b"d");
    put(&server, "empty", b"");
    for number in 0..1100 {
        put(&server, &format!("many/{number:04}"), b"x");
    }
    let endpoint = format!("endpoint=http://127.0.0.1:{}", server.port);
    let remotes = remotes(64 << 20, &[&endpoint, "access-key=key", "secret-key=secret", "retries=2"]);
    let (place, _) = remotes.place("s3://bucket").unwrap().unwrap();
    let entry = |name: &str, len| RemoteEntry { name: name.into(), len };
    let mut listed = place.list("model", 10).unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(listed, [entry("a.bin", Some(24 << 20)), entry("b c+%.txt", Some(4)), entry("sub", None)]);
    assert_eq!(place.list("many", 2000).unwrap().len(), 1100);
    assert_eq!(place.look("model").unwrap(), Some(entry("model", None)));
    assert_eq!(place.look("mode").unwrap(), None);
    assert_eq!(place.look("empty").unwrap(), Some(entry("empty", Some(0))));
    assert_eq!(read_whole(&*place.open("model/b c+%.txt").unwrap()), b"text");
    let file = place.open("model/a.bin").unwrap();
    assert!(read_whole(&*file) == large);
    file.check_unchanged().unwrap();

    let file = open(&remotes, "s3://bucket/model/a.bin");
    put(&server, "model/a.bin", &pattern(24 << 20)[1..]);
    let error = file.read_at(20 << 20, &mut [0; 100]).unwrap_err().to_string();
    assert!(error.contains("changed while it was read"), "{error}");
    file.check_unchanged().unwrap_err();
    let (none, path) = remotes.place("s3://no-such-bucket/a").unwrap().unwrap();
    let error = none.open(&path).err().unwrap().to_string();
    assert!(error.contains("NoSuchBucket"), "{error}");
}
