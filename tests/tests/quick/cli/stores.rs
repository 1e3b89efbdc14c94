//! Tests of inputs that are URLs, with a local server that supports ranges but no listings.

use crate::library::registry;
use crate::stores::bucket::start;
use crate::stores::server::{Reply, Server};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, thread};
use tensorferry::Session;
use tensorferry_test_kit::fixtures::sha256;
use tensorferry_tests::Ferry;
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::files_below;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::model::safetensors;
use tensorferry_tests::zoo::Zoo;

/// Starts a server for the files of a folder, which runs until the process ends, and returns its
/// URL.
fn serve(folder: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = folder.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let folder = folder.clone();
            thread::spawn(move || answer(&stream.unwrap(), &folder));
        }
    });
    format!("http://127.0.0.1:{port}")
}

/// Answers the requests of a connection with the requested ranges of bytes.
fn answer(stream: &TcpStream, folder: &Path) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let request = lines.next()?.ok()?;
        let mut range = None;
        for line in lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()) {
            if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                let (first, last) = bytes.split_once('-').unwrap();
                range = Some((first.parse::<usize>().unwrap(), last.parse::<usize>().unwrap()));
            }
        }
        let mut words = request.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let path = path.split('?').next().unwrap().trim_start_matches('/');
        let mut out = stream;
        let Ok(bytes) = fs::read(folder.join(path)) else {
            write!(out, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").ok()?;
            continue;
        };
        let tag = sha256(&bytes);
        let (status, part, of) = match range.filter(|(first, _)| *first < bytes.len()) {
            Some((first, last)) => {
                let last = last.min(bytes.len() - 1);
                let of = format!("Content-Range: bytes {first}-{last}/{}\r\n", bytes.len());
                ("206 Partial Content", &bytes[first..=last], of)
            }
            None => ("200 OK", &bytes[..], String::new()),
        };
        let len = part.len();
        write!(out, "HTTP/1.1 {status}\r\nETag: \"{tag}\"\r\nContent-Length: {len}\r\n{of}\r\n").ok()?;
        if method != "HEAD" {
            out.write_all(part).ok()?;
        }
    }
}

fn at(url: &str, path: &str) -> PathBuf {
    PathBuf::from(format!("{url}/{path}"))
}

#[test]
fn a_url_is_an_input_as_a_path_is() {
    let case = case("torch", "zip_module_state_dict");
    let (ferry, url) = (Ferry::new(), serve(&case.folder));
    let name = case.input().file_name().unwrap().to_str().unwrap().to_owned();
    let (input, output) = (at(&url, &name), ferry.at("m.safetensors"));
    let (here, there) = (ferry.inspect(&case.input()), ferry.inspect(&input));
    assert_eq!(here["tensors"], there["tensors"]);
    ferry.convert(&input, &output, &["--verify"]);
    assert!(ferry.equal(&input, &output) && ferry.equal(&case.input(), &output));
    let typo = at(&url, "pytorch_model.bim");
    let _ = ferry.on("inspect", &typo, &[]).expect(2).says(&["no such file or folder", "pytorch_model.bim"]);
    let refused = ferry.try_convert(&output, &at(&url, "x.pt"), &[]);
    let _ = refused.expect(3).says(&["outputs can be written only to local folders"]);
    let _ = ferry.on("inspect", "ftp://host/x.pt", &[]).expect(2).says(&["unsupported URL scheme"]);
    let _ = ferry.on("inspect", &input, &["--store", "paralel=4"]).expect(2).says(&["parallel"]);
}

#[test]
fn the_library_opens_urls_without_being_told_how() {
    let case = case("torch", "zip_module_state_dict");
    let input = case.input();
    let url = at(&serve(&case.folder), input.file_name().unwrap().to_str().unwrap());
    let registry = registry();
    for registry in [registry.clone(), registry.with_session(Session::new(1, 64 << 20))] {
        let (there, here) = (registry.open(&url).unwrap(), registry.open(&input).unwrap());
        assert!(here.tensors().len() > 0);
        for (there, here) in there.tensors().zip(here.tensors()) {
            assert_eq!((there.name(), there.read().unwrap()), (here.name(), here.read().unwrap()));
        }
    }
}

#[test]
fn a_set_is_read_through_its_index_and_its_receipt_names_urls() {
    let case = case("safetensors", "sharded");
    let ferry = Ferry::new();
    let store = ferry.at("store");
    fs::create_dir(&store).unwrap();
    for path in files_below(&case.folder) {
        fs::copy(case.folder.join(&path), store.join(&path)).unwrap();
    }
    let url = serve(&store);
    let input = at(&url, "model.safetensors.index.json?X-Amz-Signature=secret");
    let output = ferry.at("joined.safetensors");
    assert_eq!(ferry.tensors(&input), case.all());
    let report = ferry.convert(&input, &output, &["--receipt", "--json"]).json().to_string();
    assert!(!report.contains("secret") && report.contains(&url), "{report}");
    let receipt = fs::read_to_string(ferry.at("joined.safetensors.ferry.json")).unwrap();
    assert!(!receipt.contains("secret") && receipt.contains(&url), "{receipt}");
    let _ = ferry.on("verify", &output, &["--source"]).expect(0);
    let shard = store.join("model-00002-of-00003.safetensors");
    let mut bytes = fs::read(&shard).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&shard, &bytes).unwrap();
    let _ = ferry.on("verify", &output, &["--source"]).expect(4);
    fs::remove_file(&shard).unwrap();
    let _ = ferry.on("verify", &output, &["--source"]).expect(4).prints(&["is missing"]);
}

#[test]
fn a_manifest_does_a_url_again_when_its_file_is_another() {
    let zoo = Zoo::new();
    let store = zoo.path("store");
    fs::create_dir(&store).unwrap();
    let model = case("safetensors", "all_dtypes").input();
    fs::copy(&model, store.join("a.safetensors")).unwrap();
    let url = serve(&store);
    let manifest = |query: &str| {
        zoo.manifest(&format!("[[job]]\ninput = \"{url}/a.safetensors{query}\"\noutput = \"a.pt\"\n"));
    };
    manifest("?sig=secret");
    let _ = zoo.run(&[]).expect(2).says(&["signed query"]);
    manifest("");
    let _ = zoo.run(&[]).expect(0).prints(&["1 done"]);
    let _ = zoo.run(&[]).expect(0).prints(&["1 unchanged"]);
    fs::copy(
        case("safetensors", "sharded").folder.join("model-00001-of-00003.safetensors"),
        store.join("a.safetensors"),
    )
    .unwrap();
    let _ = zoo.run(&[]).expect(0).prints(&["1 done"]);
}

#[test]
fn a_server_without_ranges_is_named_and_where_its_file_is_kept() {
    let model = std::fs::read(case("safetensors", "all_dtypes").input()).unwrap();
    let len = model.len();
    let server = Server::start(move |request| match request.path() {
        "/m.safetensors" => Reply::new(200, &*model),
        _ => Reply::new(404, ""),
    });
    let (ferry, url) = (Ferry::new(), server.url("m.safetensors"));
    let spool = ferry.at("spool");
    std::fs::create_dir(&spool).unwrap();
    let note = format!("the server of {url} does not support range requests: all {len} bytes were read into");
    let folder = format!("spool-folder={}", spool.display());
    for words in [&["inspect", &url][..], &["convert", &url, "out.pt"]] {
        let mut command = ferry.command([words, &["--store", &folder]].concat());
        let outcome =
            run(command.current_dir(ferry.home())).expect(0).says(&[&note, spool.to_str().unwrap()]);
        assert_eq!(outcome.said().matches("does not support range requests").count(), 1, "{outcome}");
    }
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0);
}

#[test]
fn a_file_url_is_a_path() {
    let case = case("torch", "zip_module_state_dict");
    let ferry = Ferry::new();
    let url = |path: &Path| PathBuf::from(format!("file://{}", path.display()));
    let output = ferry.at("m.safetensors");
    ferry.convert(&url(&case.input()), &url(&output), &[]);
    assert!(ferry.equal(&case.input(), &output));
}

/// Tests that each header of a set in a store is requested once, and that the requests run in
/// parallel. A hundred sequential requests would take seconds.
#[test]
fn a_set_of_shards_is_inspected_with_one_request_each_and_together() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (at_once, most) = (AtomicUsize::new(0), Arc::<AtomicUsize>::default());
    let (seen, peak) = (Arc::clone(&asked), Arc::clone(&most));
    let (server, bucket) = start(move |request, _| {
        if request.path().contains("-of-") {
            seen.lock().unwrap().push(request.path().to_owned());
            peak.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
            at_once.fetch_sub(1, Ordering::SeqCst);
        }
        None
    });
    let count = 24;
    let shard = |number: usize| format!("model-{number:05}-of-{count:05}.safetensors");
    let mut map = Vec::new();
    // The file is longer than the range that is requested for a header.
    let bytes = vec![0; 200_000];
    for number in 1..=count {
        let name = format!("{number}.w");
        bucket.put(&format!("m/{}", shard(number)), &safetensors(&[(&name, "U8", &[200_000], &bytes)]));
        map.push(format!("\"{name}\":\"{}\"", shard(number)));
    }
    let index = format!("{{\"metadata\":{{}},\"weight_map\":{{{}}}}}", map.join(","));
    bucket.put("m/model.safetensors.index.json", index.as_bytes());
    let ferry = Ferry::new();
    let endpoint = format!("endpoint={}", server.url("").trim_end_matches('/'));
    for url in ["s3://bucket/m/model.safetensors.index.json", "s3://bucket/m/"] {
        asked.lock().unwrap().clear();
        most.store(0, Ordering::SeqCst);
        let settings = [&*endpoint, "access-key=k", "secret-key=s"].map(|setting| ["--store", setting]);
        let words = ["inspect", url].into_iter().chain(settings.into_iter().flatten());
        let _ = ferry.run(words).expect(0).prints(&["24 tensors"]);
        let mut shards = asked.lock().unwrap().clone();
        shards.sort();
        let all = shards.len();
        shards.dedup();
        assert_eq!((shards.len(), all), (count, count), "{url}");
        assert!(most.load(Ordering::SeqCst) >= 4, "{url}: {most:?} at once");
    }
}
