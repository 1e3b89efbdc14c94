//! Tests files on HTTP servers, with and without range requests.

use super::{open, place, read, read_whole, remotes, remotes_with};
use crate::testing::server::{Reply, Server, pattern};
use std::time::Duration;
use tensorferry_core::context::remote::Remote;
use tensorferry_sdk::ErrorKind;

#[test]
fn a_small_file_takes_one_request() {
    let bytes = pattern(1000);
    let served = bytes.clone();
    let server = Server::start(move |request| Reply::file(request, &served, "\"a\""));
    let remotes = remotes(&[]);
    let (place, path) = place(&remotes, &server.url("models/a%20b.bin"));
    assert_eq!(path, "models/a b.bin");
    let entry = place.look(&path).unwrap().unwrap();
    assert_eq!((entry.name.as_str(), entry.len), ("a b.bin", Some(1000)));
    let file = place.open(&path).unwrap();
    assert_eq!(file.stamp().tag, "etag:\"a\"");
    assert_eq!(read(&*file, 0, 1000).unwrap(), bytes);
    assert_eq!(read(&*file, 990, 10).unwrap(), bytes[990..]);
    let requests = server.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert_eq!(requests[0].target, "/models/a%20b.bin");
    assert_eq!(requests[0].header("range"), Some("bytes=0-131071"));
    assert_eq!(requests[0].header("accept-encoding"), Some("identity"));
    // Only the first response was read, so all bytes are from one version of the file.
    file.check_unchanged().unwrap();
    assert_eq!(server.requests().len(), 1);
    place.will_open(&["other", "other"]);
    assert_eq!(read(&*place.open("other").unwrap(), 0, 1000).unwrap(), bytes);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn nothing_is_at_a_path_without_a_file_and_nothing_is_listed() {
    let server = Server::start(|_| Reply::new(404, ""));
    let remotes = remotes(&[]);
    let (place, path) = place(&remotes, &server.url("a"));
    assert_eq!(place.look(&path).unwrap(), None);
    let error = place.open(&path).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert_eq!(place.list("", 10).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(open(&remotes, &server.url("folder/")).err().unwrap().kind(), ErrorKind::Usage);
}

#[test]
fn an_empty_file_is_a_file() {
    let server = Server::start(|request| Reply::file(request, &[], "\"a\""));
    let file = open(&remotes(&[]), &server.url("empty")).unwrap();
    assert_eq!(file.stamp().len, 0);
    read(&*file, 0, 0).unwrap();
    assert_eq!(read(&*file, 0, 1).unwrap_err().kind(), ErrorKind::Io);
    file.check_unchanged().unwrap();
}

#[test]
fn a_file_in_sequence_comes_by_few_large_requests() {
    let bytes = pattern((24 << 20) + 77);
    let served = bytes.clone();
    let server = Server::start(move |request| Reply::file(request, &served, "\"a\""));
    let file = open(&remotes_with(64 << 20, &[]), &server.url("long")).unwrap();
    assert!(read_whole(&*file).unwrap() == bytes);
    let requests = server.requests().len();
    assert!((4..=20).contains(&requests), "{requests}");
}

#[test]
fn what_is_advised_comes_in_its_order_and_once() {
    let bytes = pattern(40 << 20);
    let served = bytes.clone();
    let server = Server::start(move |request| Reply::file(request, &served, "\"a\""));
    let file = open(&remotes_with(64 << 20, &[]), &server.url("long")).unwrap();
    let mib = 1 << 20;
    file.advise(&[30 * mib..34 * mib, 10 * mib..12 * mib, 12 * mib..16 * mib]);
    for at in [30, 31, 32, 33, 10, 11, 12, 13, 14, 15] {
        let from = at << 20;
        let found = read(&*file, at as u64 * mib, 1 << 20).unwrap();
        assert!(found == bytes[from..from + (1 << 20)], "{at}");
    }
    let ranges: Vec<_> =
        server.requests().iter().map(|request| request.header("range").unwrap().to_owned()).collect();
    let fetched: usize =
        server.requests().iter().map(|request| request.range(40 << 20).unwrap()).map(|(a, b)| b - a).sum();
    assert!(fetched <= (10 << 20) + (128 << 10), "{ranges:?}");
    assert!(ranges.len() <= 5, "{ranges:?}");
}

#[test]
fn many_threads_within_a_small_budget() {
    let bytes = pattern(30 << 20);
    let served = bytes.clone();
    let server = Server::start(move |request| Reply::file(request, &served, "\"a\""));
    let remotes = remotes_with(3 << 20, &["parallel=3"]);
    let file = open(&remotes, &server.url("long")).unwrap();
    // The announced ranges are never read. They fill the memory budget, but must not block other
    // reads.
    file.advise(&[0..15 << 20, 15 << 20..30 << 20]);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                for window in 0..30_u64 {
                    let start = (window * 7 + thread * 5) % 29 * (1 << 20) + 1000;
                    let from = usize::try_from(start).unwrap();
                    assert!(read(&**file, start, 900_000).unwrap() == bytes[from..from + 900_000]);
                }
            });
        }
    });
}

#[test]
fn a_server_without_ranges_has_its_file_spooled_once() {
    let bytes = pattern(3 << 20);
    let served = bytes.clone();
    let server = Server::start(move |_| Reply::new(200, &*served).with("ETag", "\"a\""));
    let remotes = remotes(&["spool=4MiB"]);
    let file = open(&remotes, &server.url("whole")).unwrap();
    assert!(read_whole(&*file).unwrap() == bytes);
    file.check_unchanged().unwrap();
    assert_eq!(server.requests().len(), 1);
    let notes = remotes.take_notes();
    assert!(notes.len() == 1 && notes[0].contains(&server.url("whole")), "{notes:?}");
    assert!(notes[0].contains("all 3145728 bytes"), "{notes:?}");
    let error = open(&super::remotes(&["spool=2MiB"]), &server.url("whole")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("setting spool"), "{error}");
}

#[test]
fn bytes_that_were_encoded_are_refused() {
    let server =
        Server::start(|request| Reply::file(request, b"bytes", "\"a\"").with("Content-Encoding", "gzip"));
    let error = open(&remotes(&[]), &server.url("a")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn queries_are_used_for_their_own_file_and_shown_nowhere() {
    let server = Server::start(|request| match request.target.as_str() {
        "/a?sig=word&x=%2F" | "/b" => Reply::file(request, b"bytes", "\"a\""),
        _ => Reply::new(403, "").with("x", "y"),
    });
    let remotes = remotes(&[]);
    let (place, path) = place(&remotes, &server.url("a?sig=word&x=%2F#part"));
    assert_eq!(path, "a");
    assert_eq!(place.url("a"), format!("{}?...", server.url("a")));
    assert_eq!(read(&*place.open("a").unwrap(), 0, 5).unwrap(), b"bytes");
    assert_eq!(read(&*place.open("b").unwrap(), 0, 5).unwrap(), b"bytes");
    let error = open(&remotes, &server.url("a?sig=other-word")).err().unwrap().to_string();
    assert!(
        error.contains("answered 403") && error.contains("signed URL") && !error.contains("word"),
        "{error}"
    );
}

#[test]
fn a_run_that_is_ended_waits_for_nothing() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_secs(2));
        Reply::new(404, "")
    });
    let settings = crate::Settings::with_environment(&["retries=1"], []).unwrap();
    let started = std::time::Instant::now();
    let remotes = crate::Remotes::cancelled_by(settings, 1 << 20, || true);
    let error = open(&remotes, &server.url("a")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(started.elapsed() < Duration::from_secs(1));
}
