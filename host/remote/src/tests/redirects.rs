//! Redirects: where they may lead, and what goes along.

use super::{open, read, remotes};
use crate::testing::server::{Reply, Server};

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
    assert!(error.contains("more than 10 times"), "{error}");
    let error = open(&remotes(&[]), &server.url("b")).err().unwrap().to_string();
    assert!(error.contains("another protocol"), "{error}");
}
