//! Tests S3 with moto, including object versions, `If-Match` and unusual keys.

use super::install::{Running, free_port, open, read_whole, remotes, run, venv};
use super::writing::{objects_are_written, sent};
use crate::support::server::pattern;
use std::process::Command;
use std::time::Duration;
use tensorferry_core::context::remote::{Remote, RemoteEntry};

/// Uploads the files of a folder to the bucket, and a thousand small objects on request.
const SCRIPT: &str = r#"
import concurrent.futures, pathlib, sys, boto3
port, folder, many = sys.argv[1:]
s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                  aws_access_key_id="key", aws_secret_access_key="secret")
s3.create_bucket(Bucket="bucket")
for path in pathlib.Path(folder).rglob("*"):
    if path.is_file():
        s3.put_object(Bucket="bucket", Key=str(path.relative_to(folder)), Body=path.read_bytes())
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    put = lambda number: s3.put_object(Bucket="bucket", Key=f"many/{number:04}", Body=b"x")
    list(pool.map(put, range(int(many))))
"#;

fn start() -> Running {
    let port = free_port();
    let program = venv().join("bin/moto_server");
    Running::start(port, Command::new(program).args(["-p", &port.to_string()]))
}

fn put(server: &Running, many: usize, objects: &[(&str, &[u8])]) {
    let folder = tempfile::tempdir().unwrap();
    for (key, bytes) in objects {
        let path = folder.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let mut python = Command::new(venv().join("bin/python"));
    python.args(["-c", SCRIPT, &server.port.to_string()]).arg(folder.path()).arg(many.to_string());
    run(&mut python);
}

#[test]
#[ignore = "installs moto from PyPI"]
fn objects_of_moto_are_read_listed_and_told_when_they_change() {
    let server = start();
    let large = pattern(24 << 20);
    let objects: [(&str, &[u8]); 4] =
        [("model/a.bin", &large), ("model/b c+%.txt", b"text"), ("model/sub/d", b"d"), ("empty", b"")];
    put(&server, 1010, &objects);
    let endpoint = format!("endpoint=http://127.0.0.1:{}", server.port);
    let remotes = remotes(64 << 20, &[&endpoint, "access-key=key", "secret-key=secret", "retries=2"]);
    let (place, _) = remotes.place("s3://bucket").unwrap().unwrap();
    let entry = |name: &str, len| RemoteEntry { name: name.into(), len };
    let mut listed = place.list("model", 10).unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(listed, [entry("a.bin", Some(24 << 20)), entry("b c+%.txt", Some(4)), entry("sub", None)]);
    assert_eq!(place.list("many", 2000).unwrap().len(), 1010);
    assert_eq!(place.look("model").unwrap(), Some(entry("model", None)));
    assert_eq!(place.look("mode").unwrap(), None);
    assert_eq!(place.look("empty").unwrap(), Some(entry("empty", Some(0))));
    assert_eq!(read_whole(&*place.open("model/b c+%.txt").unwrap()), b"text");
    let file = place.open("model/a.bin").unwrap();
    assert!(read_whole(&*file) == large);
    file.check_unchanged().unwrap();

    let file = open(&remotes, "s3://bucket/model/a.bin");
    put(&server, 0, &[("model/a.bin", &large[1..])]);
    let error = file.read_at(20 << 20, &mut [0; 100]).unwrap_err().to_string();
    assert!(error.contains("changed while it was being read"), "{error}");
    file.check_unchanged().unwrap_err();
    let (none, path) = remotes.place("s3://no-such-bucket/a").unwrap().unwrap();
    let error = none.open(&path).err().unwrap().to_string();
    assert!(error.contains("NoSuchBucket"), "{error}");
}

#[test]
#[ignore = "installs moto from PyPI"]
fn objects_are_written_to_moto() {
    let server = start();
    put(&server, 0, &[]);
    let endpoint = format!("endpoint=http://127.0.0.1:{}", server.port);
    for checksum in ["crc64nvme", "sha256", "none"] {
        let checksum = format!("checksum={checksum}");
        let pairs = [&*endpoint, &*checksum, "access-key=key", "secret-key=secret", "retries=2"];
        objects_are_written(&remotes(64 << 20, &pairs), "s3://bucket", false);
    }
    let remotes = remotes(64 << 20, &[&endpoint, "access-key=key", "secret-key=secret", "retries=2"]);
    let (place, _) = remotes.place("s3://bucket").unwrap().unwrap();
    assert!(place.end_uploads("", Duration::ZERO).unwrap().is_empty());
    // Simulates the upload of a killed process.
    std::mem::forget(sent(&place, "dir/left", &pattern(40 << 20)).unwrap());
    // moto reports 2010 as the date of each upload.
    let ages = Duration::from_secs(100 * 365 * 86_400);
    assert!(place.end_uploads("dir/", ages).unwrap().is_empty());
    assert_eq!(place.end_uploads("dir/", Duration::ZERO).unwrap(), ["s3://bucket/dir/left"]);
    assert!(place.end_uploads("", Duration::ZERO).unwrap().is_empty());
}
