//! Tests which redirects are allowed, and which headers are forwarded.

use super::{open, read, remotes};
use crate::testing::server::{Reply, Server, pattern};

#[test]
fn another_host_gets_no_secret() {
    let target = Server::start(|request| Reply::file(request, b"bytes", "\"a\""));
    let to = target.url("b?sig=word");
    let server = Server::start(move |_| Reply::redirect(&to));
    let url = server.url("a").replace("http://", "http://me:word@");
    let file = open(&remotes(&["http-token=other-word"]), &url).unwrap();
    assert_eq!(read(&*file, 0, 5).unwrap(), b"bytes");
    assert_eq!(server.requests()[0].header("authorization"), Some("Basic bWU6d29yZA=="));
    let got = &target.requests()[0];
    assert_eq!(got.target, "/b?sig=word");
    assert_eq!(got.header("range"), Some("bytes=0-131071"));
    for name in ["authorization", "referer", "cookie"] {
        assert_eq!(got.header(name), None, "{name}");
    }
}

#[test]
fn the_same_host_gets_what_it_got() {
    let server = Server::start(|request| match request.path() {
        "/a" => Reply::redirect("/b/../c"),
        _ => Reply::file(request, b"bytes", "\"a\""),
    });
    let file = open(&remotes(&["http-token=word"]), &server.url("a")).unwrap();
    assert_eq!(read(&*file, 0, 5).unwrap(), b"bytes");
    let requests = server.requests();
    assert_eq!(requests[1].path(), "/c");
    assert_eq!(requests[1].header("authorization"), Some("Bearer word"));
}

#[test]
fn circles_and_other_protocols_end() {
    let server = Server::start(|request| match request.path() {
        "/a" => Reply::redirect("/a"),
        _ => Reply::redirect("file:///etc/passwd"),
    });
    let error = open(&remotes(&[]), &server.url("a")).err().unwrap().to_string();
    assert!(error.contains("more than 10 redirects"), "{error}");
    let error = open(&remotes(&[]), &server.url("b")).err().unwrap().to_string();
    assert!(error.contains("a protocol other than http"), "{error}");
}

#[test]
fn where_a_server_sends_us_is_asked_until_it_is_good_no_longer() {
    let bytes = pattern(3 << 20);
    let served = bytes.clone();
    let target = Server::start(move |request| match request.target.as_str() {
        "/b?sig=1" if request.number < 2 => Reply::file(request, &served, "\"a\""),
        "/b?sig=2" => Reply::file(request, &served, "\"a\""),
        _ => Reply::new(403, "expired"),
    });
    let to = target.url("b?sig=");
    let server = Server::start(move |request| Reply::redirect(format!("{to}{}", request.number + 1)));
    let file = open(&remotes(&[]), &server.url("a")).unwrap();
    for at in [1 << 20, 2 << 20] {
        assert_eq!(read(&*file, at as u64, 100).unwrap(), bytes[at..at + 100]);
    }
    assert_eq!(server.requests().len(), 2);
    assert_eq!(target.requests().len(), 4);
}
