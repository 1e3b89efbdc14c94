//! Inputs that are URLs, as a person types them: of a server on this machine that gives ranges, and lists as S3 does.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use tensorferry_tests::Ferry;
use tensorferry_tests::digest::sha256;
use tensorferry_tests::files::{copy_below, files_below};
use tensorferry_tests::fixtures::case;
use tensorferry_tests::zoo::Zoo;

/// Serves the files of a folder for as long as the process runs; gives its URL. By a file's name it
///
/// - refuses one that begins with `denied`, and says back what it was asked with,
/// - says of one that begins with `changing` with each answer that it is another one.
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

static ANSWERS: AtomicU64 = AtomicU64::new(0);

/// Answers the requests of a connection, each with the bytes that its range asks for.
fn answer(stream: &TcpStream, folder: &Path) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let request = lines.next()?.ok()?;
        let headers: Vec<String> =
            lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let range = headers.iter().find_map(|line| {
            let line = line.to_ascii_lowercase();
            let (first, last) = line.strip_prefix("range: bytes=")?.split_once('-')?;
            Some((first.parse::<usize>().unwrap(), last.parse::<usize>().unwrap()))
        });
        let mut words = request.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let path = path.trim_matches('/');
        let name = path.rsplit('/').next().unwrap();
        let (mut status, mut whole) = ("200 OK", fs::read(folder.join(path)).unwrap_or_default());
        if query.contains("list-type=2") {
            whole = listed(&folder.join(path), query).into_bytes();
        } else if name.starts_with("denied") {
            let said = headers.join(" ").replace(['<', '&'], "");
            whole = format!("<Error><Code>AccessDenied</Code><Message>{said}</Message></Error>").into_bytes();
            status = "403 Forbidden";
        } else if !folder.join(path).is_file() {
            status = "404 Not Found";
        }
        let mut tag = sha256(&whole);
        if name.starts_with("changing") {
            tag = ANSWERS.fetch_add(1, Ordering::Relaxed).to_string();
        }
        let mut of = String::new();
        let mut part = &whole[..];
        if let Some((first, last)) = range.filter(|(first, _)| status == "200 OK" && *first < whole.len()) {
            let last = last.min(whole.len() - 1);
            of = format!("Content-Range: bytes {first}-{last}/{}\r\n", whole.len());
            (status, part) = ("206 Partial Content", &whole[first..=last]);
        }
        let mut out = stream;
        let when = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT";
        let len = part.len();
        write!(out, "HTTP/1.1 {status}\r\nETag: \"{tag}\"\r\n{when}\r\nContent-Length: {len}\r\n{of}\r\n")
            .ok()?;
        if method != "HEAD" {
            out.write_all(part).ok()?;
        }
    }
}

/// What `ListObjectsV2` answers of a bucket that is a folder, with `/` as the delimiter.
fn listed(bucket: &Path, query: &str) -> String {
    let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or_default();
    let prefix = prefix.replace("%2F", "/");
    let mut text = format!("<ListBucketResult><Prefix>{prefix}</Prefix><IsTruncated>false</IsTruncated>");
    for entry in fs::read_dir(bucket.join(&prefix)).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        let found = entry.metadata().unwrap();
        text += &if found.is_dir() {
            format!("<CommonPrefixes><Prefix>{name}/</Prefix></CommonPrefixes>")
        } else {
            let when = "2026-01-01T00:00:00.000Z";
            let len = found.len();
            format!(
                "<Contents><Key>{name}</Key><LastModified>{when}</LastModified><Size>{len}</Size></Contents>"
            )
        };
    }
    text + "</ListBucketResult>"
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
    let _ = refused.expect(3).says(&["outputs go to folders of this machine"]);
    let _ = ferry.on("inspect", "ftp://host/x.pt", &[]).expect(2).says(&["nothing is known that opens"]);
    let _ = ferry.on("inspect", &input, &["--store", "paralel=4"]).expect(2).says(&["parallel"]);
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
    let _ = ferry.on("verify", &output, &["--source"]).expect(4).prints(&["is not there"]);
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

/// A manifest's folder, in which `store/zoo` is the bucket `zoo`, and the options by which it is reached.
fn zoo_with_bucket() -> (Zoo, PathBuf, String) {
    let zoo = Zoo::new();
    let bucket = zoo.path("store/zoo");
    fs::create_dir_all(&bucket).unwrap();
    let endpoint = format!("s3.endpoint={}", serve(&zoo.path("store")));
    (zoo, bucket, endpoint)
}

#[test]
fn the_roots_of_a_manifest_lie_in_a_store() {
    let (zoo, bucket, endpoint) = zoo_with_bucket();
    let options = ["--store", &endpoint, "--store", "anonymous=true"];
    let model = case("safetensors", "all_dtypes").input();
    fs::create_dir_all(bucket.join("models/sub")).unwrap();
    fs::copy(&model, bucket.join("models/a.safetensors")).unwrap();
    copy_below(&case("safetensors", "sharded").folder, &bucket.join("models/sub"));
    fs::create_dir(bucket.join("rows")).unwrap();
    for shard in ["x-00000-of-00002.jsonl", "x-00001-of-00002.jsonl"] {
        fs::write(bucket.join("rows").join(shard), "{\"a\": 1}\n{\"a\": 2}\n").unwrap();
    }
    zoo.manifest(
        "[[zoo]]\nroot = \"s3://zoo/models\"\noutput = \"out/{path}.pt\"\n\
         [[dataset]]\nroot = \"s3://zoo/rows/\"\noutput = \"rows/{path}.parquet\"\n",
    );
    let _ = zoo.run(&options).expect(0).prints(&["4 done"]);
    assert!(zoo.ferry.equal(&bucket.join("models/a.safetensors"), &zoo.path("out/a.pt")));
    assert!(zoo.ferry.equal(&bucket.join("models/sub"), &zoo.path("out/sub/model.pt")));
    assert_eq!(zoo.ferry.rows(&zoo.path("rows/x-00001-of-00002.parquet")).len(), 2);
    let _ = zoo.run(&options).expect(0).prints(&["4 unchanged"]);
    fs::write(bucket.join("rows/x-00000-of-00002.jsonl"), "{\"a\": 3}\n").unwrap();
    fs::copy(&model, bucket.join("models/b.safetensors")).unwrap();
    let _ = zoo.run(&options).expect(0).prints(&["2 done, 3 unchanged"]);
    zoo.manifest("[[zoo]]\nroot = \"s3://zoo/model\"\noutput = \"out/{path}.pt\"\n");
    let _ = zoo.run(&options).expect(2).says(&["s3://zoo/model is no folder"]);
}

#[test]
fn no_secret_is_in_what_a_run_leaves() {
    let (zoo, bucket, endpoint) = zoo_with_bucket();
    let secrets = ["AKIDOFTHETEST", "secretkeyofthetest", "tokenofthetest"];
    let keys = ["access-key", "secret-key", "session-token"];
    let keys = keys.iter().zip(secrets).map(|(key, secret)| format!("s3.{key}={secret}"));
    let settings: Vec<String> = keys.chain([endpoint]).collect();
    let options: Vec<&str> = settings.iter().flat_map(|setting| ["--store", setting]).collect();
    let model = case("safetensors", "all_dtypes").input();
    for name in ["a", "denied"] {
        fs::copy(&model, bucket.join(format!("{name}.safetensors"))).unwrap();
    }
    zoo.manifest("[[zoo]]\nroot = \"s3://zoo\"\noutput = \"out/{path}.pt\"\n");
    let run = zoo.run(&options);
    let mut left = vec![run.said()];
    let files = files_below(zoo.home()).into_iter().filter(|path| !path.starts_with("store"));
    left.extend(
        files
            .map(|path| String::from_utf8_lossy(&fs::read(zoo.path(path.to_str().unwrap())).unwrap()).into()),
    );
    assert!(left.len() > 5 && left.iter().any(|text| text.contains("AccessDenied")), "{left:?}");
    for secret in secrets {
        assert!(!left.iter().any(|text| text.contains(secret)), "{secret} is in {left:?}");
    }
    let _ = run.expect(3).prints(&["1 done, 1 failed"]);
    // A process that is started is told by its environment, as people may: what is typed everybody can read.
    let told = zoo.command(&[]).env("FERRY_STORE", settings.join("\n")).output().unwrap();
    assert!(String::from_utf8_lossy(&told.stdout).contains("1 unchanged"), "{told:?}");
}

#[test]
fn a_file_that_is_replaced_while_it_is_read_leaves_nothing() {
    let ferry = Ferry::new();
    let store = ferry.at("store");
    fs::create_dir(&store).unwrap();
    let zeros = vec![0_u8; 1 << 20];
    let model = ferry.safetensors("m.safetensors", &[("a", "F32", &[1 << 18], &zeros)]);
    fs::rename(&model, store.join("changing.safetensors")).unwrap();
    let input = at(&serve(&store), "changing.safetensors");
    let before = ferry.names();
    let refused = ferry.try_convert(&input, &ferry.at("m.pt"), &[]);
    let _ = refused.expect(75).says(&["changed while it was read", "changing.safetensors"]);
    assert_eq!(ferry.names(), before);
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
