//! Tests of conversions to and from third-party stores on this machine, which are moto's S3 and
//! Azurite.

use crate::store_servers::{Running, azurite, free_port, run, venv};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::Outcome;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::model::Model;

pub(crate) const BUCKET: &str = r#"
import sys, boto3
boto3.client("s3", endpoint_url=f"http://127.0.0.1:{sys.argv[1]}", region_name="us-east-1",
             aws_access_key_id="key", aws_secret_access_key="secret").create_bucket(Bucket="bucket")
"#;

/// Azurite's account, whose key is public in Azurite's documentation, and a container that is
/// created with a signature made with that key.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const CONTAINER: &str = r#"
import base64, datetime, hashlib, hmac, sys, urllib.request
port, account, key = sys.argv[1:]
date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
text = f"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2021-08-06\n/{account}/{account}/bucket\nrestype:container"
digest = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Authorization": f"SharedKey {account}:{digest}"}
urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/{account}/bucket?restype=container", headers=headers, method="PUT"))
"#;

struct Shop {
    ferry: Ferry,
    server: Running,
    scheme: &'static str,
    settings: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Shop {
    fn moto() -> Self {
        let port = free_port();
        let server = Running::start(
            port,
            Command::new(venv().join("bin/moto_server")).args(["-p", &port.to_string()]),
        );
        run(Command::new(venv().join("bin/python")).args(["-c", BUCKET, &port.to_string()]));
        let endpoint = format!("endpoint=http://127.0.0.1:{port}");
        Self::of(
            server,
            "s3",
            &[&endpoint, "access-key=key", "secret-key=secret"],
            tempfile::tempdir().unwrap(),
        )
    }

    fn azurite() -> Self {
        let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
        let mut command = Command::new(azurite());
        command.args(["--silent", "--skipApiVersionCheck", "--blobPort", &port.to_string(), "--location"]);
        let server = Running::start(port, command.arg(folder.path()));
        run(Command::new("python3").args(["-c", CONTAINER, &port.to_string(), ACCOUNT, KEY]));
        let pairs = [
            format!("endpoint=http://127.0.0.1:{port}/{ACCOUNT}"),
            format!("account={ACCOUNT}"),
            format!("access-key={KEY}"),
        ];
        Self::of(server, "az", &pairs, folder)
    }

    fn of(
        server: Running,
        scheme: &'static str,
        pairs: &[impl AsRef<str>],
        folder: tempfile::TempDir,
    ) -> Self {
        let pairs = pairs.iter().map(AsRef::as_ref).chain(["retries=3"]);
        let settings = pairs.flat_map(|pair| ["--store".to_owned(), pair.to_owned()]).collect();
        Self { ferry: Ferry::on_disk(), server, scheme, settings, _folder: folder }
    }

    fn url(&self, path: &str) -> String {
        format!("{}://bucket/{path}", self.scheme)
    }

    fn run(&self, words: &[&str]) -> Outcome {
        self.ferry.run(words.iter().copied().chain(self.settings.iter().map(String::as_str)))
    }

    fn convert(&self, from: &str, to: &str, options: &[&str]) -> Outcome {
        self.run(&[&["convert", from, to], options].concat())
    }

    /// Converts a file to the store, within the store, and back.
    fn check(&self) {
        let text = |path: &Path| path.display().to_string();
        let model = self.ferry.at("m.safetensors");
        Model::of_size(100 << 20, 9, 7).write(&model).unwrap();
        let (torch, back) = (self.url("a b/m.pt"), self.url("back/m.safetensors"));
        let _ = self.convert(&text(&model), &torch, &["--verify"]).expect(0);
        let _ = self.convert(&torch, &back, &["--receipt=blake3"]).expect(0);
        let here = self.ferry.at("here.safetensors");
        let _ = self.convert(&back, &text(&here), &[]).expect(0);
        let _ = self.run(&["diff", &text(&model), &text(&here)]).expect(0);
        let _ = self.convert(&text(&model), &torch, &[]).expect(2).says(&["exists; use --force"]);
        let _ = self
            .convert(&text(&case("torch", "zip_module_state_dict").input()), &torch, &["--force"])
            .expect(0);

        let sharded = case("safetensors", "sharded").folder;
        let set = self.url("set/");
        let options = ["--to", "torch", "-o", "max_shard_size=200"];
        let _ = self.convert(&text(&sharded), &set, &[&options[..], &["--receipt"]].concat()).expect(0);
        let _ = self.run(&["diff", &text(&sharded), &set]).expect(0);
        let _ = self.convert(&text(&sharded), &set, &options).expect(2);
        let _ = self.convert(&text(&sharded), &set, &["--to", "torch", "--force"]).expect(0);
        let _ = self.run(&["diff", &text(&sharded), &set]).expect(0);

        let rows: String = (0..50_000).map(|n| format!("{{\"id\": {n}, \"text\": \"row {n}\"}}\n")).collect();
        let input = text(&self.ferry.write("in.jsonl", rows));
        let table = self.url("rows/a.parquet");
        let _ = self.convert(&input, &table, &["--verify", "--receipt"]).expect(0);
        let _ = self.run(&["diff", &input, &table]).expect(0);
        let _ = self
            .convert(&table, &self.url("rows/shards/"), &["--to", "tfrecord", "-o", "shards=4"])
            .expect(0);
        let _ = self.run(&["diff", &input, &self.url("rows/shards/")]).expect(0);
    }
}

#[test]
#[ignore = "installs moto from PyPI"]
fn conversions_to_moto_and_back_are_equal() {
    Shop::moto().check();
}

#[test]
#[ignore = "installs azurite from npm"]
fn conversions_to_azurite_and_back_are_equal() {
    Shop::azurite().check();
}

/// Returns the response of moto to an unsigned request, which moto accepts.
fn asked(port: u16, target: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
#[ignore = "installs moto from PyPI"]
fn a_killed_upload_is_ended_by_clean() {
    let shop = Shop::moto();
    let model = shop.ferry.at("m.safetensors");
    Model::of_size(400 << 20, 9, 7).write(&model).unwrap();
    let uploads = || asked(shop.server.port, "/bucket?uploads").contains("<UploadId>");
    let url = shop.url("dir/m.safetensors");
    for (signal, code) in [("-INT", Some(130)), ("-KILL", None)] {
        let words = ["convert", model.to_str().unwrap(), &url];
        let words = words.into_iter().chain(shop.settings.iter().map(String::as_str));
        let mut child = shop.ferry.command(words).stderr(Stdio::null()).spawn().unwrap();
        let since = Instant::now();
        while !uploads() {
            assert!(since.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(20));
        }
        run(Command::new("kill").args([signal, &child.id().to_string()]));
        assert_eq!(child.wait().unwrap().code(), code);
        assert_eq!(uploads(), code.is_none(), "{signal}");
    }
    assert!(!asked(shop.server.port, "/bucket?list-type=2").contains("<Key>"));
    let _ = shop
        .run(&["clean", &shop.url("dir/"), "--older-than", "100years"])
        .expect(0)
        .prints(&["no unfinished uploads"]);
    let _ = shop
        .run(&["clean", &shop.url("dir/"), "--older-than", "0s"])
        .expect(0)
        .prints(&["aborted the upload of", &url]);
    assert!(!uploads());
}
