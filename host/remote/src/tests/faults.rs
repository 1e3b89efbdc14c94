//! Tests reads from faulty servers, and reads of files that change.

use super::{open, read, read_whole, remotes};
use crate::testing::server::{BodyMode, Reply, Server, pattern};
use std::time::{Duration, Instant};
use tensorferry_sdk::ErrorKind;

#[test]
fn an_object_that_is_replaced_is_told_although_the_server_ignores_conditions() {
    let bytes = pattern(2 << 20);
    let server = Server::start(move |request| {
        let etag = if request.number == 0 { "\"a\"" } else { "\"b\"" };
        Reply::careless(request, &bytes, etag)
    });
    let url = server.url("a");
    let file = open(&remotes(&[]), &url).unwrap();
    let error = read(&*file, 1 << 20, 100).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient);
    let text = error.to_string();
    assert!(text.contains("changed while it was being read") && text.contains(&url), "{text}");
    assert!(text.contains("expected ETag \"a\", found ETag \"b\""), "{text}");
    // After the change was detected, further reads fail without a request.
    let asked = server.requests().len();
    read(&*file, 0, 10).unwrap_err();
    assert_eq!(server.requests().len(), asked);
    assert_eq!(file.check_unchanged().unwrap_err().kind(), ErrorKind::Transient);
}

#[test]
fn a_server_that_knows_conditions_is_asked_with_them() {
    let bytes = pattern(2 << 20);
    let server = Server::start(move |request| {
        let etag = if request.number == 0 { "\"a\"" } else { "\"b\"" };
        Reply::file(request, &bytes, etag)
    });
    let file = open(&remotes(&[]), &server.url("a")).unwrap();
    let error = read(&*file, 1 << 20, 100).unwrap_err();
    assert!(error.to_string().contains("changed while it was being read"), "{error}");
    assert_eq!(server.requests()[1].header("if-match"), Some("\"a\""));
}

#[test]
fn without_tags_length_and_date_tell() {
    let server = Server::start(|request| {
        let bytes = pattern(if request.number == 0 { 2 << 20 } else { (2 << 20) + 1 });
        Reply::careless(request, &bytes, "")
    });
    let file = open(&remotes(&[]), &server.url("a")).unwrap();
    let error = read(&*file, 1 << 20, 100).unwrap_err();
    assert!(error.to_string().contains("expected 2097152 bytes, found 2097153 bytes"), "{error}");

    let server = Server::start(|request| {
        let date = format!("Sun, 06 Nov 1994 08:49:{} GMT", 37 + request.number.min(1));
        Reply::careless(request, &pattern(2 << 20), "").with("Last-Modified", date)
    });
    let file = open(&remotes(&[]), &server.url("a")).unwrap();
    assert_eq!(file.stamp().modified, (784_111_777, 0));
    let error = read(&*file, 1 << 20, 100).unwrap_err();
    assert!(error.to_string().contains("changed while it was being read"), "{error}");
}

#[test]
fn a_cut_body_is_fetched_from_where_it_was_cut() {
    let bytes = pattern(6 << 20);
    for etag in ["\"a\"", ""] {
        let served = bytes.clone();
        let server = Server::start(move |request| {
            let reply = Reply::careless(request, &served, etag);
            // Every second response is cut off.
            if request.number % 2 == 1 { reply.with_body_mode(BodyMode::Cut(700_000)) } else { reply }
        });
        let file = open(&remotes(&["retries=8"]), &server.url("a")).unwrap();
        assert!(read_whole(&*file).unwrap() == bytes);
        let asked: usize =
            server.requests().iter().map(|request| request.range(6 << 20).unwrap()).map(|(a, b)| b - a).sum();
        assert!(asked < 22 << 20, "{asked}");
    }
}

#[test]
fn a_wrong_length_is_a_cut_body() {
    let bytes = pattern(2 << 20);
    let served = bytes.clone();
    let server = Server::start(move |request| {
        let reply = Reply::careless(request, &served, "\"a\"");
        let len = reply.body.len();
        match request.number {
            // One response has a Content-Length that is too long for its body, and the next
            // response has a Content-Length that is too short.
            1 => reply.with("Content-Length", len + 10).with_body_mode(BodyMode::Cut(len)),
            2 => reply.with("Content-Length", len / 2),
            _ => reply,
        }
    });
    let file = open(&remotes(&[]), &server.url("a")).unwrap();
    assert!(read_whole(&*file).unwrap() == bytes);
}

#[test]
fn what_is_busy_is_asked_again_and_not_for_ever() {
    let server = Server::start(|request| match request.number {
        0 => Reply::new(503, "slow down").with("Retry-After", 0),
        1 => Reply::new(500, ""),
        2 => Reply::new(429, "").with("RateLimit", "\"api\";r=0;t=0"),
        _ => Reply::file(request, b"bytes", "\"a\""),
    });
    let file = open(&remotes(&[]), &server.url("a")).unwrap();
    assert_eq!(read(&*file, 0, 5).unwrap(), b"bytes");
    assert_eq!(server.requests().len(), 4);

    let server =
        Server::start(|_| Reply::new(503, "<Error><Code>SlowDown</Code><Message>less</Message></Error>"));
    let error = open(&remotes(&["retries=2"]), &server.url("a")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Transient);
    assert!(
        error.to_string().contains("answered 503 Service Unavailable: SlowDown: less (2 tries"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 2);

    let server = Server::start(|_| Reply::new(429, "").with("Retry-After", 3600));
    let started = Instant::now();
    let error = open(&remotes(&[]), &server.url("a")).err().unwrap();
    assert!(error.to_string().contains("asks to wait 3600 s, but retry-time is 5 s"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[test]
fn the_body_of_an_error_is_read_as_far_as_it_is_worth() {
    let server = Server::start(|_| Reply::new(403, vec![b'x'; 8192]).with_body_mode(BodyMode::Endless));
    let started = Instant::now();
    let error = open(&remotes(&[]), &server.url("a")).err().unwrap();
    assert!(started.elapsed() < Duration::from_secs(2));
    assert!(error.to_string().len() < 1000, "{error}");
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn a_byte_at_a_time_is_broken_off() {
    let bytes = pattern(1 << 20);
    let server = Server::start(move |request| {
        let reply = Reply::file(request, &bytes, "\"a\"");
        if request.number == 0 {
            reply
        } else {
            reply.with_body_mode(BodyMode::Slow(Duration::from_millis(50)))
        }
    });
    let started = Instant::now();
    let file = open(&remotes(&["retries=2"]), &server.url("a")).unwrap();
    let error = read(&*file, 1 << 19, 100_000).unwrap_err();
    assert!(error.to_string().contains("min-rate"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[test]
fn no_answer_and_no_server_are_passing_faults() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(400));
        Reply::new(404, "")
    });
    let error = open(&remotes(&["answer-timeout=0.1", "retries=2"]), &server.url("a")).err().unwrap();
    assert!(error.to_string().contains("no response within 0.1 s"), "{error}");
    let url = server.url("a");
    drop(server);
    let error = open(&remotes(&["retries=2"]), &url).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
}

#[test]
fn other_bytes_than_were_asked_for_are_refused() {
    let bytes = pattern(2 << 20);
    let server = Server::start(move |request| {
        let mut reply = Reply::file(request, &bytes, "\"a\"");
        if request.number > 0 {
            reply.headers[0].1 = "bytes 0-99/2097152".into();
        }
        reply
    });
    let file = open(&remotes(&[]), &server.url("a")).unwrap();
    let error = read(&*file, 1 << 20, 100).unwrap_err();
    assert!(error.to_string().contains("a different range than requested"), "{error}");
}
