//! Tests of faults between `ferry` and third-party stores. `ferry` must retry a request after a
//! temporary failure. After other failures, the run must end with the matching exit code, without
//! incomplete outputs.

use crate::store_proxy::{Pass, Proxy, ask, request};
use crate::store_servers::{Running, free_port, run, venv};
use crate::store_support::server::{BodyMode, Reply, Request};
use crate::store_support::store::{error, query};
use crate::stores::BUCKET;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::Outcome;
use tensorferry_tests::model::Model;

/// Size of the object in bytes. With the tests' memory setting, each part is 8 MiB.
const BYTES: u64 = 20 << 20;
const MEMORY: [&str; 2] = ["--memory", "64MiB"];

struct Shop {
    ferry: Ferry,
    moto: Running,
    model: PathBuf,
}

impl Shop {
    fn new() -> Self {
        let port = free_port();
        let program = venv().join("bin/moto_server");
        let moto = Running::start(port, Command::new(program).args(["-p", &port.to_string()]));
        run(Command::new(venv().join("bin/python")).args(["-c", BUCKET, &port.to_string()]));
        let ferry = Ferry::on_disk();
        let model = ferry.at("m.safetensors");
        Model::of_size(BYTES, 9, 7).write(&model).unwrap();
        Self { ferry, moto, model }
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        let reply = ask(self.moto.port, &request("PUT", &format!("/bucket/{key}"), bytes));
        assert_eq!(reply.status, 200);
    }

    /// Returns a listing of the store.
    fn listed(&self, query: &str) -> String {
        let reply = ask(self.moto.port, &request("GET", &format!("/bucket?{query}"), b""));
        assert_eq!(reply.status, 200);
        String::from_utf8(reply.body).unwrap()
    }

    fn keys(&self, prefix: &str) -> Vec<String> {
        let text = self.listed(&format!("list-type=2&prefix={prefix}"));
        let keys = text.split("<Key>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned());
        keys.collect()
    }

    fn has_no_uploads(&self, name: &str) {
        assert!(!self.listed("uploads").contains("<UploadId>"), "{name}");
    }

    fn command(&self, proxy: &Proxy, words: &[&str], settings: &[&str]) -> Command {
        let endpoint = proxy.endpoint();
        let keys = ["access-key=key", "secret-key=secret"];
        let keys = keys.into_iter().filter(|_| !settings.iter().any(|pair| pair.starts_with("profile=")));
        let settings = settings.iter().copied().chain(keys).chain([&*endpoint, "retries=3"]);
        let settings = settings.flat_map(|pair| ["--store", pair]);
        self.ferry.command(words.iter().copied().chain(settings))
    }

    fn run(&self, proxy: &Proxy, words: &[&str], settings: &[&str]) -> Outcome {
        tensorferry_tests::ferry::run(&mut self.command(proxy, words, settings))
    }

    fn is_equal(&self, a: &str, b: &str) {
        let direct = Proxy::start(self.moto.port, |request, pass| pass(request));
        let _ = self.run(&direct, &["diff", a, b], &[]).expect(0);
    }

    /// Converts an object to a local file. `way` answers the requests for bytes of the object, and
    /// receives the number of each request.
    fn read(
        &self,
        name: &str,
        settings: &[&str],
        (code, says): (i32, &[&str]),
        way: impl Fn(usize, &Request, Pass<'_>) -> Reply + Send + Sync + 'static,
    ) -> Duration {
        let key = format!("{}/m.safetensors", name.replace(' ', "-"));
        self.put(&key, &std::fs::read(&self.model).unwrap());
        let (asked, path) = (AtomicUsize::new(0), format!("/bucket/{key}"));
        let proxy = Proxy::start(self.moto.port, move |request, pass| {
            match request.method == "GET" && request.path() == path {
                true => way(asked.fetch_add(1, Ordering::SeqCst), request, pass),
                false => pass(request),
            }
        });
        let before = self.ferry.names();
        let output = self.ferry.at("out.pt").display().to_string();
        let url = format!("s3://bucket/{key}");
        let words = [&["convert", &url, &output][..], &MEMORY].concat();
        let since = Instant::now();
        let outcome = self.run(&proxy, &words, settings);
        let took = since.elapsed();
        let outcome = outcome.expect_of(name, code).says(says);
        if code == 0 {
            self.is_equal(self.model.to_str().unwrap(), &output);
            std::fs::remove_file(&output).unwrap();
        }
        assert_eq!(self.ferry.names(), before, "{name}: {outcome}");
        took
    }

    /// Converts a local file to an object in parts. `way` answers the requests that `of` selects,
    /// and receives the number of each request.
    fn write(
        &self,
        name: &str,
        of: fn(&Request) -> bool,
        (code, says): (i32, &[&str]),
        way: impl Fn(usize, &Request, Pass<'_>) -> Reply + Send + Sync + 'static,
    ) -> Proxy {
        self.write_model(name, &self.model, of, (code, says), way)
    }

    fn write_model(
        &self,
        name: &str,
        model: &Path,
        of: fn(&Request) -> bool,
        (code, says): (i32, &[&str]),
        way: impl Fn(usize, &Request, Pass<'_>) -> Reply + Send + Sync + 'static,
    ) -> Proxy {
        let prefix = format!("{}/", name.replace(' ', "-"));
        let asked = AtomicUsize::new(0);
        let proxy = Proxy::start(self.moto.port, move |request, pass| match of(request) {
            true => way(asked.fetch_add(1, Ordering::SeqCst), request, pass),
            false => pass(request),
        });
        let (input, url) = (model.display().to_string(), format!("s3://bucket/{prefix}m.pt"));
        let outcome = self.run(&proxy, &[&["convert", &input, &url][..], &MEMORY].concat(), &[]);
        let _ = outcome.expect_of(name, code).says(says);
        let expected: &[String] = if code == 0 { &[format!("{prefix}m.pt")] } else { &[] };
        assert_eq!(self.keys(&prefix), expected, "{name}");
        self.has_no_uploads(name);
        if code == 0 {
            self.is_equal(&input, &url);
        }
        proxy
    }
}

/// A variant of [`Outcome::expect`] whose failure message names the case.
trait ExpectOf {
    fn expect_of(self, name: &str, code: i32) -> Self;
}

impl ExpectOf for Outcome {
    fn expect_of(self, name: &str, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{name}: {self}");
        self
    }
}

/// Returns a response with a length that does not match the body.
fn of_length(mut reply: Reply, len: usize) -> Reply {
    reply.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-length"));
    reply.with("Content-Length", len)
}

/// Returns a request without the header that tells the server to check that the object is
/// unchanged.
fn careless(request: &Request) -> Request {
    let mut request = request.clone();
    request.headers.remove("if-match");
    request
}

fn half(reply: Reply) -> Reply {
    let len = reply.body.len();
    reply.with_body_mode(BodyMode::Cut(len / 2))
}

#[test]
#[ignore = "installs moto from PyPI"]
fn what_goes_wrong_while_an_object_is_read() {
    let shop = Shop::new();
    let (fine, passing, denied) = (0, 75, 5);

    shop.read("cut in the middle", &[], (fine, &[]), |n, request, pass| match n % 2 {
        0 => pass(request),
        _ => half(pass(request)),
    });
    let took = shop.read("busy", &[], (fine, &[]), |n, request, pass| match n {
        1 => Reply::new(500, ""),
        2 => error(503, "SlowDown").with("Retry-After", 1),
        _ => pass(request),
    });
    assert!(took >= Duration::from_secs(1), "{took:?}");
    shop.read("longer than said", &[], (fine, &[]), |n, request, pass| {
        let reply = pass(request);
        let len = reply.body.len();
        if n == 1 { of_length(reply, len / 2) } else { reply }
    });
    shop.read("shorter than said", &[], (fine, &[]), |n, request, pass| {
        let reply = pass(request);
        let len = reply.body.len();
        if n == 1 { of_length(reply, len + 10).with_body_mode(BodyMode::Cut(len)) } else { reply }
    });
    shop.read("never a byte", &[], (passing, &["3 tries"]), |n, request, pass| match n {
        0 => pass(request),
        _ => pass(request).with_body_mode(BodyMode::Cut(0)),
    });
    shop.read("no answer", &[], (passing, &["3 tries"]), |n, request, pass| match n {
        0 => pass(request),
        _ => Reply::new(200, "").with_body_mode(BodyMode::Lost),
    });
    shop.read("broken for ever", &[], (passing, &["500", "3 tries"]), |n, request, pass| match n {
        0 => pass(request),
        _ => Reply::new(500, ""),
    });
    shop.read("another range", &[], (denied, &["got 0..100"]), |n, request, pass| {
        let mut reply = pass(request);
        if n > 0 {
            reply.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-range"));
            reply = reply.with("Content-Range", format!("bytes 0-99/{BYTES}"));
        }
        reply
    });
    shop.read("denied", &[], (denied, &["AccessDenied"]), |n, request, pass| match n {
        0 => pass(request),
        _ => error(403, "AccessDenied"),
    });
    let took = shop.read("denied without end", &[], (denied, &["403"]), |n, request, pass| match n {
        0 => pass(request),
        _ => Reply::new(403, vec![b'x'; 8192]).with_body_mode(BodyMode::Endless),
    });
    assert!(took < Duration::from_secs(20), "{took:?}");
    let slow = ["min-rate-time=1", "retries=2"];
    let took = shop.read("a byte a second", &slow, (passing, &["min-rate"]), |n, request, pass| match n {
        0 => pass(request),
        _ => pass(request).with_body_mode(BodyMode::Slow(Duration::from_secs(1))),
    });
    assert!(took < Duration::from_secs(20), "{took:?}");
    shop.read("keys that expire", &[], (denied, &["ExpiredToken"]), |n, request, pass| match n {
        0 => pass(request),
        _ => error(400, "ExpiredToken"),
    });
}

#[test]
#[ignore = "installs moto from PyPI"]
fn an_object_that_is_replaced_while_it_is_read() {
    let shop = Shop::new();
    let changed = (75, &["changed while it was being read"][..]);
    let port = shop.moto.port;
    let replace = move |request: &Request| {
        let other = vec![0; usize::try_from(BYTES).unwrap()];
        let reply = ask(port, &crate::store_proxy::request("PUT", request.path(), &other));
        assert_eq!(reply.status, 200);
    };
    shop.read("replaced", &[], changed, move |n, request, pass| {
        if n == 1 {
            replace(request);
        }
        pass(request)
    });
    shop.read("replaced and not checked", &[], changed, move |n, request, pass| {
        if n == 1 {
            replace(request);
        }
        pass(&careless(request))
    });
    // The first half of a range is from one object, and the retried second half is from a different
    // object.
    shop.read("replaced within a range", &[], changed, move |n, request, pass| match n {
        1 => {
            let reply = half(pass(request));
            replace(request);
            reply
        }
        _ => pass(&careless(request)),
    });
}

/// Tests that `ferry` gets new keys from the key program if the first keys expire while it reads or
/// writes a file.
#[test]
#[ignore = "installs moto from PyPI"]
fn keys_that_expire_are_fetched_anew() {
    let shop = Shop::new();
    let count = shop.ferry.write("count", "0");
    let program = shop.ferry.write(
        "keys.py",
        format!(
            "import json\npath = {count:?}\nn = int(open(path).read()) + 1\nopen(path, 'w').write(str(n))\n\
             print(json.dumps({{'Version': 1, 'AccessKeyId': f'KEY{{n}}', 'SecretAccessKey': 'secret'}}))\n"
        ),
    );
    let config = format!("[profile p]\ncredential_process = python3 {}\n", program.display());
    let config = shop.ferry.write("config", config);
    let key = "expiring/m.safetensors";
    shop.put(key, &std::fs::read(&shop.model).unwrap());
    for (from, to) in [
        (format!("s3://bucket/{key}"), shop.ferry.at("out.pt").display().to_string()),
        (shop.model.display().to_string(), "s3://bucket/expiring/out.pt".to_owned()),
    ] {
        std::fs::write(&count, "0").unwrap();
        let moved = AtomicUsize::new(0);
        let proxy = Proxy::start(shop.moto.port, move |request, pass| {
            let is_first =
                request.header("authorization").is_some_and(|text| text.contains("Credential=KEY1/"));
            let bytes = pass_bytes(request);
            match is_first && bytes && moved.fetch_add(1, Ordering::SeqCst) > 0 {
                true => error(400, "ExpiredToken"),
                false => pass(request),
            }
        });
        let words = [&["convert", &from, &to][..], &MEMORY].concat();
        let mut command = shop.command(&proxy, &words, &["profile=p"]);
        command.env("AWS_CONFIG_FILE", &config).env("AWS_SHARED_CREDENTIALS_FILE", "/nowhere");
        let _ = tensorferry_tests::ferry::run(&mut command).expect(0);
        assert!(std::fs::read_to_string(&count).unwrap().parse::<u32>().unwrap() > 1);
        shop.is_equal(shop.model.to_str().unwrap(), &to);
        shop.has_no_uploads(&to);
    }
}

/// Returns whether a request transfers bytes of an object.
fn pass_bytes(request: &Request) -> bool {
    is_part(request) || (request.method == "GET" && request.path().ends_with(".safetensors"))
}

fn is_begin(request: &Request) -> bool {
    request.method == "POST" && query(request, "uploads").is_some()
}

fn is_part(request: &Request) -> bool {
    request.method == "PUT" && query(request, "uploadId").is_some()
}

fn is_complete(request: &Request) -> bool {
    request.method == "POST" && query(request, "uploadId").is_some()
}

fn is_small(request: &Request) -> bool {
    request.method == "PUT" && query(request, "uploadId").is_none()
}

fn lost(_: Reply) -> Reply {
    Reply::new(200, "").with_body_mode(BodyMode::Lost)
}

#[test]
#[ignore = "installs moto from PyPI"]
fn what_goes_wrong_while_an_object_is_sent() {
    let shop = Shop::new();
    let (fine, passing, denied) = ((0, &[][..]), 75, 5);

    let proxy = shop.write("nothing", is_part, fine, |_, request, pass| pass(request));
    assert!(proxy.checked() >= 3 && proxy.wrong().is_empty(), "{:?}", proxy.wrong());
    shop.write("parts are busy", is_part, fine, |n, request, pass| match n {
        0 => Reply::new(500, ""),
        1 => error(503, "SlowDown").with("Retry-After", 0),
        _ => pass(request),
    });
    shop.write("answers to parts are lost", is_part, fine, |n, request, pass| match n {
        0 | 2 => lost(pass(request)),
        _ => pass(request),
    });
    let proxy = shop.write("a byte changes on the way", is_part, fine, |n, request, pass| {
        let mut request = request.clone();
        if n == 1 {
            Arc::make_mut(&mut request.body)[1000] ^= 1;
        }
        pass(&request)
    });
    assert_eq!(proxy.wrong().len(), 1, "{:?}", proxy.wrong());
    shop.write("no upload may begin", is_begin, (denied, &["AccessDenied"]), |_, _, _| {
        error(403, "AccessDenied")
    });
    shop.write("a part is denied", is_part, (denied, &["AccessDenied"]), |n, request, pass| match n {
        2 => error(403, "AccessDenied"),
        _ => pass(request),
    });
    shop.write("a part is denied without end", is_part, (denied, &["403"]), |n, request, pass| match n {
        1 => Reply::new(403, vec![b'x'; 8192]).with_body_mode(BodyMode::Endless),
        _ => pass(request),
    });
    shop.write("keys expire", is_part, (denied, &["ExpiredToken"]), |n, request, pass| match n {
        0 => pass(request),
        _ => error(400, "ExpiredToken"),
    });
    shop.write(
        "a part always fails",
        is_part,
        (passing, &["500", "3 tries"]),
        |_, request, pass| match query(request, "partNumber").as_deref() {
            Some("2") => Reply::new(500, ""),
            _ => pass(request),
        },
    );
}

#[test]
#[ignore = "installs moto from PyPI"]
fn what_goes_wrong_while_an_object_becomes_visible() {
    let shop = Shop::new();
    let (fine, passing, denied) = ((0, &[][..]), 75, 5);

    shop.write("busy", is_complete, fine, |n, request, pass| match n {
        0 => Reply::new(500, ""),
        1 => error(503, "SlowDown").with("Retry-After", 0),
        _ => pass(request),
    });
    shop.write("it fails in the middle of the answer", is_complete, fine, |n, request, pass| match n {
        0 => error(200, "InternalError"),
        _ => pass(request),
    });
    shop.write("the answer is lost", is_complete, fine, |n, request, pass| match n {
        0 => lost(pass(request)),
        _ => pass(request),
    });
    shop.write("the answer is cut", is_complete, fine, |n, request, pass| match n {
        0 => half(pass(request)),
        _ => pass(request),
    });
    let conflict = "ConditionalRequestConflict";
    shop.write(
        "another writer is active",
        is_complete,
        (passing, &["another process is writing"]),
        move |_, _, _| error(409, conflict),
    );
    shop.write("it always fails", is_complete, (passing, &["3 tries"]), |_, _, _| Reply::new(500, ""));
    shop.write("it is denied", is_complete, (denied, &["AccessDenied"]), |_, _, _| {
        error(403, "AccessDenied")
    });

    let small = shop.ferry.at("small.safetensors");
    Model::of_size(100_000, 9, 7).write(&small).unwrap();
    let is_done = |name: &str, way: fn(usize, &Request, Pass<'_>) -> Reply| {
        let proxy = shop.write_model(name, &small, is_small, fine, way);
        assert!(proxy.checked() > 0 && proxy.wrong().is_empty(), "{:?}", proxy.wrong());
    };
    is_done("small and another writer is active", |n, request, pass| match n {
        0 => error(409, "ConditionalRequestConflict"),
        _ => pass(request),
    });
    is_done("small and the answer is lost", |n, request, pass| match n {
        0 => lost(pass(request)),
        _ => pass(request),
    });
    is_done("small and busy", |n, request, pass| match n {
        0 => error(503, "SlowDown").with("Retry-After", 0),
        1 => Reply::new(500, ""),
        _ => pass(request),
    });
    shop.write_model("small and denied", &small, is_small, (denied, &["AccessDenied"]), |_, _, _| {
        error(403, "AccessDenied")
    });
}

/// Tests that the older set is unchanged if a run that replaces it fails at any request.
#[test]
#[ignore = "installs moto from PyPI"]
fn a_set_that_is_not_replaced_stays() {
    let shop = Shop::new();
    let newer = shop.ferry.at("newer.safetensors");
    Model::of_size(BYTES, 9, 8).write(&newer).unwrap();
    let url = "s3://bucket/set/";
    let options = ["--to", "safetensors", "-o", "max_shard_size=7MB", "--memory", "64MiB"];
    let direct = Proxy::start(shop.moto.port, |request, pass| pass(request));
    let words = [&["convert", shop.model.to_str().unwrap(), url][..], &options].concat();
    let _ = shop.run(&direct, &words, &[]).expect(0);
    let before = shop.keys("set/");
    let is_index = |request: &Request| is_small(request) && request.path().ends_with(".index.json");
    let is_second = |request: &Request| is_complete(request) && request.path().contains("-00002-of-");
    let words = [&["convert", newer.to_str().unwrap(), url, "--force"][..], &options].concat();
    let faults: [(&str, fn(&Request) -> bool, fn() -> Reply, i32); 3] = [
        ("a shard fails", is_second, || Reply::new(500, ""), 75),
        ("the index is denied", is_index, || error(403, "AccessDenied"), 5),
        ("the index was replaced meanwhile", is_index, || error(412, "PreconditionFailed"), 75),
    ];
    for (name, picks, reply, code) in faults {
        let proxy = Proxy::start(
            shop.moto.port,
            move |request, pass| {
                if picks(request) { reply() } else { pass(request) }
            },
        );
        let _ = shop.run(&proxy, &words, &[]).expect_of(name, code);
        assert_eq!(shop.keys("set/"), before, "{name}");
        shop.has_no_uploads(name);
        shop.is_equal(shop.model.to_str().unwrap(), url);
    }
    let _ = shop.run(&direct, &words, &[]).expect(0);
    shop.is_equal(newer.to_str().unwrap(), url);
    assert_eq!(shop.keys("set/").len(), before.len());
    assert!(direct.wrong().is_empty() && direct.checked() > 5);
}
