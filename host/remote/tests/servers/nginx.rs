//! Tests HTTP with nginx, with and without range requests.

use super::install::{Running, free_port, nginx, open, read_whole, remotes};
use crate::support::server::pattern;
use std::path::Path;
use std::process::Command;
use tensorferry_sdk::ErrorKind;

fn start(folder: &Path) -> Running {
    let port = free_port();
    let root = folder.display();
    let config = format!(
        "daemon off; master_process off; pid {root}/pid; error_log {root}/error;\n\
         events {{ }}\n\
         http {{\n\
         access_log off; client_body_temp_path {root}/t; proxy_temp_path {root}/t; fastcgi_temp_path {root}/t;\n\
         uwsgi_temp_path {root}/t; scgi_temp_path {root}/t; sendfile on; gzip on; gzip_types *; gzip_min_length 0;\n\
         server {{ listen 127.0.0.1:{port}; root {root}/files; location /whole/ {{ alias {root}/files/; max_ranges 0; }} }}\n\
         }}\n"
    );
    std::fs::write(folder.join("nginx.conf"), config).unwrap();
    Running::start(
        port,
        Command::new(nginx()).arg("-e").arg(folder.join("error")).arg("-c").arg(folder.join("nginx.conf")),
    )
}

#[test]
#[ignore = "installs nginx from Debian"]
fn files_of_nginx_are_read_with_ranges_and_without() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("files")).unwrap();
    let path = folder.path().join("files/a b.bin");
    let bytes = pattern((40 << 20) + 5);
    std::fs::write(&path, &bytes).unwrap();
    let server = start(folder.path());
    let remotes = remotes(64 << 20, &["retries=2", "spool=64MiB"]);
    let url = |path: &str| format!("http://127.0.0.1:{}/{path}", server.port);
    let file = open(&remotes, &url("a%20b.bin"));
    assert!(file.stamp().tag.starts_with("etag:\""), "{:?}", file.stamp());
    assert!(file.stamp().modified.0 > 1_000_000_000);
    assert!(read_whole(&*file) == bytes);
    file.check_unchanged().unwrap();
    let whole = open(&remotes, &url("whole/a%20b.bin"));
    assert!(read_whole(&*whole) == bytes);
    whole.check_unchanged().unwrap();

    let file = open(&remotes, &url("a%20b.bin"));
    std::fs::write(&path, &bytes[1..]).unwrap();
    let error = file.read_at(30 << 20, &mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transient);
    assert!(error.to_string().contains("changed while it was being read"), "{error}");
}
