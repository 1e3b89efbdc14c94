//! Tests reads of objects in stores.

use super::{open, place, read, read_whole, remotes};
use crate::testing::server::{BodyMode, Reply, Server, pattern};
use crate::testing::store::{Objects, answer, start};
use crate::{Remotes, Settings};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tensorferry_core::context::remote::{Remote, RemoteEntry};
use tensorferry_sdk::ErrorKind;

const KEYS: [&str; 2] = ["access-key=AKIAHUSH5150", "secret-key=hush5150/secret"];

fn objects() -> Objects {
    let large = pattern(3 << 20);
    let objects = [
        ("a b?#%20+é.bin", large[..100].to_vec()),
        ("empty", Vec::new()),
        ("folder//odd", b"odd".to_vec()),
        ("folder/large.bin", large),
        ("folder/nested/c", b"c".to_vec()),
        ("folder/z", b"z".to_vec()),
        ("/slash", b"s".to_vec()),
    ];
    objects.map(|(key, bytes)| (key.to_owned(), bytes)).into()
}

fn of(server: &Server, pairs: &[&str]) -> Remotes {
    let endpoint = format!("endpoint={}", server.url(""));
    let pairs: Vec<&str> = KEYS.into_iter().chain([&*endpoint]).chain(pairs.iter().copied()).collect();
    remotes(&pairs)
}

fn entry(name: &str, len: Option<u64>) -> RemoteEntry {
    RemoteEntry { name: name.into(), len }
}

#[test]
fn a_bucket_is_a_place_of_files_and_folders() {
    let server = start(objects(), |_| None);
    let remotes = of(&server, &[]);
    let (place, path) = place(&remotes, "s3://bucket/folder/");
    assert_eq!(path, "folder");
    assert_eq!(place.look("folder").unwrap(), Some(entry("folder", None)));
    assert_eq!(place.look("").unwrap(), Some(entry("", None)));
    assert_eq!(place.look("none").unwrap(), None);
    assert_eq!(place.look("folde").unwrap(), None);
    let mut listed = place.list("folder", 10).unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(listed, [entry("large.bin", Some(3 << 20)), entry("nested", None), entry("z", Some(1))]);
    let mut listed = place.list("", 10).unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(listed, [entry("a b?#%20+é.bin", Some(100)), entry("empty", Some(0)), entry("folder", None)]);
    assert_eq!(place.list("folder", 2).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(place.open("none").err().unwrap().kind(), ErrorKind::Malformed);
    assert_eq!(place.url("folder/z"), "s3://bucket/folder/z");
}

#[test]
fn a_list_that_never_ends_is_given_up() {
    let next = AtomicU64::new(0);
    let server = start(objects(), move |request| {
        request.target.contains("list-type=2").then(|| {
            let next = next.fetch_add(1, Ordering::Relaxed);
            let xml = format!(
                "<ListBucketResult><NextContinuationToken>{next}</NextContinuationToken></ListBucketResult>"
            );
            Reply::new(200, xml).with("Content-Type", "application/xml")
        })
    });
    let remotes = of(&server, &[]);
    let (place, _) = place(&remotes, "s3://bucket/folder/");
    let error = place.list("folder", 10).unwrap_err().to_string();
    assert!(error.contains("1000 pages of a list without an entry"), "{error}");
}

#[test]
fn one_request_looks_opens_and_reads_a_small_object() {
    let server = start(objects(), |_| None);
    let remotes = of(&server, &[]);
    let (place, path) = place(&remotes, "s3://bucket/a b?#%20+é.bin");
    assert_eq!(place.look(&path).unwrap(), Some(entry("a b?#%20+é.bin", Some(100))));
    let file = place.open(&path).unwrap();
    assert_eq!(read(&*file, 5, 50).unwrap(), pattern(100)[5..55]);
    assert_eq!(file.stamp().tag, "etag:\"tag\"");
    assert_eq!(file.stamp().modified, (784_111_777, 0));
    assert_eq!(server.requests().len(), 1);
    assert!(server.requests()[0].header("authorization").unwrap().starts_with("AWS4-HMAC-SHA256"));
    file.check_unchanged().unwrap();
    assert_eq!(server.requests().len(), 1);
    let empty = open(&remotes, "s3://bucket/empty").unwrap();
    assert_eq!(empty.stamp().len, 0);
    empty.check_unchanged().unwrap();
}

#[test]
fn a_large_object_survives_what_stores_do() {
    let server = start(objects(), |request| match request.number {
        1 => Some(Reply::new(503, "<Error><Code>SlowDown</Code></Error>").with("Retry-After", 0)),
        2 => Some(answer(&objects(), request).with_body_mode(BodyMode::Cut(300_000))),
        3 => Some(Reply::new(500, "")),
        _ => None,
    });
    let file = open(&of(&server, &[]), "s3://bucket/folder/large.bin").unwrap();
    assert!(read_whole(&*file).unwrap() == pattern(3 << 20));
    assert!(server.requests().len() >= 5);
    assert!(server.requests().iter().skip(1).all(|request| request.header("if-match") == Some("\"tag\"")));
}

#[test]
fn an_object_that_is_replaced_is_told() {
    // Three cases: the object is replaced in a store that ignores conditions, the object is
    // replaced in a store that supports conditions, or the object is deleted.
    let other = |request: &crate::testing::server::Request| {
        let mut request = request.clone();
        request.headers.remove("if-match");
        let mut reply = answer(&objects(), &request);
        reply.headers.retain(|(name, _)| name != "ETag");
        reply.with("ETag", "\"other\"")
    };
    let replies: [fn(&crate::testing::server::Request) -> Reply; 3] =
        [other, |_| Reply::new(412, ""), |_| Reply::new(404, "<Error><Code>NoSuchKey</Code></Error>")];
    for reply in replies {
        let server = start(objects(), move |request| (request.number > 0).then(|| reply(request)));
        let file = open(&of(&server, &[]), "s3://bucket/folder/large.bin").unwrap();
        let error = read(&*file, 2 << 20, 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("changed while it was being read") && text.contains("s3://bucket/folder/large.bin"),
            "{text}"
        );
        assert_eq!(file.check_unchanged().unwrap_err().kind(), ErrorKind::Transient);
    }
}

#[test]
fn a_bucket_of_another_region_is_found_there() {
    let server = start(objects(), |request| {
        let is_there = request.header("authorization").unwrap().contains("/eu-north-1/s3/");
        (!is_there).then(|| Reply::new(301, "").with("x-amz-bucket-region", "eu-north-1"))
    });
    let file = open(&of(&server, &["region=us-east-2"]), "s3://bucket/folder/z").unwrap();
    assert_eq!(read(&*file, 0, 1).unwrap(), b"z");
    assert_eq!(server.requests().len(), 2);
    // An invalid region name in a response is ignored.
    let server = Server::start(|_| Reply::new(301, "").with("x-amz-bucket-region", "evil.example/"));
    let error = open(&of(&server, &[]), "s3://bucket/folder/z").err().unwrap().to_string();
    assert!(error.contains("answered 301") && !error.contains("evil"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_redirect_to_another_host_takes_no_key_along() {
    let target = start(objects(), |_| None);
    let to = target.url("bucket/folder/z");
    let server = start(objects(), move |_| Some(Reply::redirect(&to)));
    let file = open(&of(&server, &["session-token=hush5150-token"]), "s3://bucket/folder/z").unwrap();
    assert_eq!(read(&*file, 0, 1).unwrap(), b"z");
    assert_eq!(server.requests()[0].header("x-amz-security-token"), Some("hush5150-token"));
    let got = &target.requests()[0].headers;
    assert!(
        got.keys().all(|name| !name.starts_with("x-amz") && name != "authorization" && name != "referer"),
        "{got:?}"
    );
}

#[test]
fn refusals_are_short_and_hold_no_secret() {
    let server = Server::start(|request| match request.path() {
        "/bucket/endless" => Reply::new(403, vec![b'x'; 8192]).with_body_mode(BodyMode::Endless),
        "/bucket/said" => Reply::new(
            403,
            format!(
                "<Error><Code>SignatureDoesNotMatch</Code><Message>{:?}</Message></Error>",
                request.headers
            ),
        ),
        "/bucket" => Reply::new(200, vec![b'<'; 1 << 20]).with_body_mode(BodyMode::Endless),
        _ => Reply::new(404, "<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>"),
    });
    let remotes = of(&server, &["session-token=hush5150-token"]);
    let started = Instant::now();
    for (url, expected) in [
        ("s3://bucket/endless", "answered 403"),
        ("s3://bucket/said", "SignatureDoesNotMatch"),
        ("s3://none/a", "NoSuchBucket"),
    ] {
        let error = open(&remotes, url).err().unwrap();
        let text = format!("{error} {error:?}");
        assert!(text.contains(expected) && text.contains(url) && text.len() < 2000, "{text}");
        assert!(!text.contains("hush") && !text.contains("AKIA"), "{text}");
    }
    let (place, _) = place(&remotes, "s3://bucket");
    let error = place.list("", 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[test]
fn anonymous_requests_are_not_signed() {
    let server = start(objects(), |_| None);
    for url in ["s3://bucket/folder/z", "gs://bucket/folder/z"] {
        let endpoint = format!("endpoint={}", server.url(""));
        let file = open(&remotes(&[&endpoint, "anonymous=true"]), url).unwrap();
        assert_eq!(read(&*file, 0, 1).unwrap(), b"z");
    }
    assert!(server.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn googles_store_is_read_with_a_service_accounts_file() {
    let server = start(objects(), |_| None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("account.json");
    let account = serde_json::json!({
        "gcs_base_url": server.url("").trim_end_matches('/'), "disable_oauth": true,
        "client_email": "", "private_key": "", "private_key_id": "",
    });
    std::fs::write(&path, account.to_string()).unwrap();
    let remotes = remotes(&[&format!("gs.service-account={}", path.display())]);
    let (place, path) = place(&remotes, "gs://bucket/folder");
    assert_eq!(place.look(&path).unwrap(), Some(entry("folder", None)));
    assert_eq!(place.list(&path, 10).unwrap().len(), 3);
    let file = place.open("folder/large.bin").unwrap();
    assert!(read_whole(&*file).unwrap() == pattern(3 << 20));
    file.check_unchanged().unwrap();
}

#[test]
fn keys_of_the_environment_and_of_profiles_are_used() {
    let server = start(objects(), |_| None);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".aws")).unwrap();
    let profile = "[p]\naws_access_key_id = PROFILE\naws_secret_access_key = s\n";
    std::fs::write(folder.path().join(".aws/credentials"), profile).unwrap();
    let home = ("HOME", folder.path().to_str().unwrap().to_owned());
    let url = ("AWS_ENDPOINT_URL", server.url("").trim_end_matches('/').to_owned());
    let environment = [
        vec![("AWS_ACCESS_KEY_ID", "ENVIRONMENT".to_owned()), ("AWS_SECRET_ACCESS_KEY", "s".to_owned())],
        vec![("AWS_PROFILE", "p".to_owned())],
    ];
    for (variables, expected) in environment.into_iter().zip(["ENVIRONMENT/", "PROFILE/"]) {
        let variables = variables.into_iter().chain([home.clone(), url.clone()]);
        let none: [&str; 0] = [];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        let remotes = Remotes::new(Settings::with_environment(&none, variables).unwrap(), 1 << 20);
        open(&remotes, "s3://bucket/folder/z").unwrap();
        let last = server.requests().pop().unwrap();
        assert!(last.header("authorization").unwrap().contains(expected), "{last:?}");
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let error = |pairs: &[&str], url: &str| remotes(pairs).place(url).err().unwrap().to_string();
    assert!(error(&["endpoint=http://10.1.2.3:9000"], "s3://b/k").contains("no TLS"));
    assert!(error(&["access-key=hush"], "s3://b/k").contains("must be set together"));
    assert!(error(&["profile=none"], "s3://b/k").contains("no profile"));
    assert!(error(&[], "az://c/k").contains("no storage account"));
}

#[test]
fn files_that_will_be_opened_are_opened_at_the_same_time() {
    let objects: Objects = (0..20).map(|number| (format!("s/{number}"), pattern(500 + number))).collect();
    let server = start(objects, |_| {
        std::thread::sleep(Duration::from_millis(100));
        None
    });
    let remotes = of(&server, &[]);
    let (place, _) = place(&remotes, "s3://bucket/s");
    let paths: Vec<String> = (0..21).map(|number| format!("s/{number}")).collect();
    let started = Instant::now();
    place.will_open(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    for (number, path) in paths.iter().enumerate().take(20) {
        assert_eq!(read_whole(&*place.open(path).unwrap()).unwrap(), pattern(500 + number));
    }
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(server.requests().len(), 21);
    assert_eq!(place.open("s/20").err().unwrap().kind(), ErrorKind::Malformed);
}

#[test]
fn files_that_are_opened_in_another_order_than_was_said_are_opened() {
    let objects: Objects = (0..150).map(|number| (format!("s/{number}"), pattern(number))).collect();
    let server = start(objects, |_| None);
    let remotes = of(&server, &[]);
    let (place, _) = place(&remotes, "s3://bucket/s");
    let paths: Vec<String> = (0..150).map(|number| format!("s/{number}")).collect();
    place.will_open(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    for (number, path) in paths.iter().enumerate().rev() {
        assert_eq!(place.open(path).unwrap().stamp().len, number as u64);
    }
    // No object is requested twice, even if its announced opening was still waiting for a permit.
    assert_eq!(server.requests().len(), 151);
}

#[test]
fn keys_that_expire_while_an_object_is_read_are_fetched_anew() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    // Each run of the credential program prints different keys.
    let count = folder.path().join("count");
    let program = format!(
        "echo x >> {0}; echo '{{\"AccessKeyId\":\"KEY'$(wc -l < {0})'\",\"SecretAccessKey\":\"s\"}}'",
        count.display()
    );
    std::fs::write(&config, format!("[profile p]\ncredential_process = {program}\n")).unwrap();
    let server = start(objects(), |request| {
        let is_first = request.header("authorization").unwrap().contains("KEY1/");
        (is_first && request.number > 2).then(|| crate::testing::store::error(400, "ExpiredToken"))
    });
    let endpoint = format!("endpoint={}", server.url(""));
    let pairs = ["retries=4", "retry-time=5", "profile=p", &endpoint];
    let environment = [("AWS_CONFIG_FILE".to_owned(), config.to_str().unwrap().to_owned())];
    let settings = Settings::with_environment(&pairs, environment).unwrap();
    let remotes = Remotes::new(settings, 8 << 20);
    for _ in 0..2 {
        let file = open(&remotes, "s3://bucket/folder/large.bin").unwrap();
        assert_eq!(read_whole(&*file).unwrap(), pattern(3 << 20));
        file.check_unchanged().unwrap();
    }
    let signed: Vec<_> = server.requests();
    let by = |key: &str| signed.iter().filter(|r| r.header("authorization").unwrap().contains(key)).count();
    assert!(by("KEY1/") > 2 && by("KEY2/") > 1 && by("KEY3/") == 0, "{signed:?}");
}

#[test]
fn a_program_that_gives_keys_is_started_once_for_all_who_wait() {
    let folder = tempfile::tempdir().unwrap();
    let (config, count) = (folder.path().join("config"), folder.path().join("count"));
    // The credential program fails if another instance is running.
    let program = format!(
        "mkdir {0} && sleep 0.2 && echo x >> {1} && rmdir {0} && echo '{{\"AccessKeyId\":\"k\",\"SecretAccessKey\":\"s\"}}'",
        folder.path().join("busy").display(),
        count.display()
    );
    std::fs::write(&config, format!("[profile p]\ncredential_process = {program}\n")).unwrap();
    let server = start(objects(), |_| None);
    let endpoint = format!("endpoint={}", server.url(""));
    let environment = [("AWS_CONFIG_FILE".to_owned(), config.to_str().unwrap().to_owned())];
    let settings = Settings::with_environment(&["profile=p", &endpoint], environment).unwrap();
    let remotes = Remotes::new(settings, 8 << 20);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| open(&remotes, "s3://bucket/folder/z").map(drop).unwrap());
        }
    });
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
}
