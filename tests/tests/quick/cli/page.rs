//! Tests that `inspect --html` and `diff --html` write one self-contained page in which hostile
//! text does not become markup. `view` must serve the page only to clients that have the secret
//! address.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tensorferry_tests::{Ferry, args};

/// A name that, if it is not escaped, adds a script to a page, ends a line of a script, and
/// reverses the text after it.
const HOSTILE: &str = "</script><script>window.hacked=1</script><b>.\u{2028}\u{202e}w";

/// Returns the bytes of these F32 numbers.
fn singles(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
    numbers.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// Writes a model with a matrix, hostile names, NaN and infinities.
fn model(ferry: &Ferry) -> std::path::PathBuf {
    let matrix = singles((0..8000_u16).map(|n| if n == 80 { f32::NAN } else { f32::from(n % 200) - 99.0 }));
    let infinite = singles([f32::INFINITY, 1.0, f32::NEG_INFINITY, f32::NAN]);
    ferry.safetensors(
        "model.safetensors",
        &[
            ("layers.0.weight", "F32", &[100, 80], &matrix),
            ("layers.0.bias", "F32", &[4], &infinite),
            (HOSTILE, "F32", &[1], &singles([2.0])),
            ("", "I8", &[2], &[1, 255]),
            ("empty", "F32", &[0, 3], &[]),
        ],
    )
}

/// Returns the JSON document in a page. Checks that it cannot end its HTML element.
#[track_caller]
fn document(page: &str) -> Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("it holds data");
    let (data, rest) = rest.split_once("</script>").unwrap();
    assert!(!data.contains(['<', '>', '&', '\u{2028}']), "{data:.200}");
    assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (2, 2));
    assert!(page.starts_with("<!DOCTYPE html>") && rest.ends_with("</html>\n"));
    assert!(page.contains("default-src 'none'") && page.contains("script-src 'sha256-"));
    serde_json::from_str(data).unwrap()
}

#[track_caller]
fn written(path: &Path) -> Value {
    document(&std::fs::read_to_string(path).unwrap())
}

/// Returns the names of a document's tensors.
fn names(model: &Value) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut last: Vec<u16> = Vec::new();
    for pair in model["tensors"]["names"].as_array().unwrap().chunks(2) {
        last.truncate(usize::try_from(pair[0].as_u64().unwrap()).unwrap());
        last.extend(pair[1].as_str().unwrap().encode_utf16());
        names.push(String::from_utf16(&last).unwrap());
    }
    names
}

#[test]
fn a_page_holds_the_model_and_its_values() {
    let ferry = Ferry::new();
    let (input, page) = (model(&ferry), ferry.at("out.html"));
    let said = ferry.run(args!["inspect", input, "--stats", "--html", page]).expect(0);
    assert!(said.stdout.contains("out.html: "), "{}", said.stdout);
    assert_eq!(ferry.names(), ["model.safetensors", "out.html"]);
    let all = written(&page);
    assert_eq!((&all["kind"], &all["title"]), (&"model".into(), &"model.safetensors".into()));
    let model = &all["models"][0];
    let names = names(model);
    let place = |name: &str| names.iter().position(|it| it == name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(names.len(), 5);
    let matrix = place("layers.0.weight");
    let of = |column: &str, at: usize| model["tensors"][column][at].clone();
    let shape = of("shape", matrix).as_u64().and_then(|at| usize::try_from(at).ok()).unwrap();
    assert_eq!(model["shapes"][shape], serde_json::json!([100, 80]));
    assert_eq!((of("bytes", matrix), of("file", matrix)), (32000.into(), 0.into()));
    assert!(of("offset", matrix).as_u64().is_some_and(|offset| offset > 8));
    assert_eq!(model["files"][0], "model.safetensors");
    // The heat map contains every second row and column. One of its values is missing.
    let heat = &model["heat"][matrix.to_string()];
    assert_eq!(
        (&heat["rows"], &heat["columns"], &heat["steps"]),
        (&50.into(), &40.into(), &serde_json::json!([2, 2]))
    );
    assert_eq!(heat["cells"].as_str().unwrap().len(), (50 * 40_usize).div_ceil(3) * 4);
    let stats = &model["stats"][matrix.to_string()];
    assert_eq!((&stats["nan"], &stats["min"], &stats["max"]), (&1.into(), &(-99.0).into(), &100.0.into()));
    let counts = stats["histogram"]["counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 7999);
    let bias = &model["stats"][place("layers.0.bias").to_string()];
    assert_eq!((&bias["posinf"], &bias["neginf"], &bias["nan"]), (&1.into(), &1.into(), &1.into()));
    assert!(model["findings"].as_array().unwrap().iter().any(|finding| finding["title"] == "NaN"));
    assert!(place(HOSTILE) < 5 && place("") < 5);
    let formats: Vec<&str> =
        model["elsewhere"].as_array().unwrap().iter().filter_map(|it| it["format"].as_str()).collect();
    assert!(formats.contains(&"torch") && !formats.contains(&"safetensors"), "{formats:?}");

    // Without `--stats`, no values are read.
    let plain = ferry.at("plain.html");
    ferry.run(args!["inspect", input, "--html", plain]).expect(0);
    let plain = written(&plain);
    assert!(plain["models"][0]["stats"].is_null() && plain["models"][0]["findings"].is_null());
    let narrow = ferry.at("narrow.html");
    ferry.run(args!["inspect", input, "layers.*", "--html", narrow]).expect(0);
    assert_eq!(written(&narrow)["models"][0]["tensors"]["dtype"].as_array().unwrap().len(), 2);
}

#[test]
fn what_is_there_is_not_replaced_unasked() {
    let ferry = Ferry::new();
    let (input, page) = (model(&ferry), ferry.at("out.html"));
    ferry.run(args!["inspect", input, "--html", page]).expect(0);
    let first = std::fs::read(&page).unwrap();
    let refused = ferry.run(args!["inspect", input, "--stats", "--html", page]).expect(2);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(std::fs::read(&page).unwrap(), first);
    ferry.run(args!["inspect", input, "--stats", "--html", page, "--force"]).expect(0);
    assert_ne!(std::fs::read(&page).unwrap(), first);
    // A page may replace only an existing page.
    let bytes = std::fs::read(&input).unwrap();
    let refused = ferry.run(args!["inspect", input, "--html", input, "--force"]).expect(2);
    assert!(refused.stderr.contains("not a page"), "{}", refused.stderr);
    assert_eq!(std::fs::read(&input).unwrap(), bytes);
    // A failed command leaves no output.
    let absent = ferry.at("absent.html");
    ferry.run(args!["inspect", ferry.at("nothing"), "--html", absent]).expect(2);
    ferry.run(args!["inspect", input, "no-such-name", "--html", absent]).expect(2);
    ferry.run(args!["inspect", input, "--json", "--html", absent]).expect(2);
    ferry.run(args!["inspect", input, "--force"]).expect(2);
    assert_eq!(ferry.names(), ["model.safetensors", "out.html"]);
}

#[test]
fn there_is_a_page_of_every_kind() {
    let ferry = Ferry::new();
    let input = model(&ferry);
    let page = |name: &str| ferry.at(name);
    let line =
        |id: usize, word: &str| serde_json::json!({ "id": id, "word": word, "list": [1, 2, id] }).to_string();
    let lines: Vec<String> =
        (0..50).map(|id| line(id, if id % 5 == 0 { HOSTILE } else { "plain" })).collect();
    let rows = ferry.write("rows.jsonl", lines.join("\n") + "\n");
    ferry.run(args!["inspect", rows, "--stats", "--html", page("rows.html")]).expect(0);
    let records = written(&page("rows.html"));
    assert_eq!((&records["kind"], &records["records"]), (&"records".into(), &50.into()));
    let column = |name: &str| {
        let columns = records["columns"].as_array().unwrap();
        columns.iter().find(|column| column["name"] == name).unwrap().clone()
    };
    assert_eq!(column("word")["sample"]["top"][0], serde_json::json!(["plain", 40]));
    assert_eq!(column("word")["stats"]["distinct"], 2);
    assert_eq!(column("id")["sample"]["histogram"]["to"], 49.0);
    assert_eq!(column("list")["lengths"]["max"], 3);
    assert_eq!(records["rows"]["rows"].as_array().unwrap().len(), 10);

    let other = ferry.safetensors(
        "other.safetensors",
        &[
            ("layers.0.bias", "F32", &[4], &singles([1.0; 4])),
            (HOSTILE, "F32", &[1], &singles([5.0])),
            ("new", "I8", &[0], &[]),
        ],
    );
    let found = ferry.run(args!["diff", input, other, "--html", page("diff.html")]).expect(1);
    assert!(found.stdout.starts_with("different: ") && found.stdout.lines().count() == 1, "{}", found.stdout);
    let diff = written(&page("diff.html"));
    assert_eq!((&diff["kind"], &diff["equal"]), (&"diff".into(), &false.into()));
    let kinds: Vec<&str> =
        diff["differences"].as_array().unwrap().iter().filter_map(|it| it["kind"].as_str()).collect();
    assert_eq!(kinds, ["missing", "missing", "missing", "unexpected", "content", "content"]);
    let hostile = diff["differences"].as_array().unwrap().iter().find(|it| it["name"] == HOSTILE).unwrap();
    assert_eq!(hostile["largest"], 3.0);
    ferry.run(args!["diff", input, input, "--html", page("same.html")]).expect(0);
    assert_eq!(written(&page("same.html"))["equal"], true);
    ferry.run(args!["diff", rows, rows, "--html", page("same-rows.html")]).expect(0);
    ferry.run(args!["diff", rows, rows, "--html", page("same-rows.html")]).expect(2);

    // A folder of models produces one page.
    for part in ["unet", "vae"] {
        let tensors: &[(&str, &str, &[u64], &[u8])] = &[(part, "I8", &[2], &[1, 2])];
        ferry.safetensors(&format!("pipeline/{part}/model.safetensors"), tensors);
    }
    ferry.run(args!["inspect", ferry.at("pipeline"), "--html", page("pipeline.html")]).expect(0);
    let pipeline = written(&page("pipeline.html"));
    let folders: Vec<&str> =
        pipeline["models"].as_array().unwrap().iter().filter_map(|it| it["folder"].as_str()).collect();
    assert_eq!(folders, ["unet", "vae"]);
}

/// A server and its address.
struct View {
    program: Child,
    port: u16,
    path: String,
}

impl View {
    fn of(ferry: &Ferry, input: &Path) -> Self {
        let mut program =
            ferry.command(args!["view", input]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let rest =
            address.trim_end().strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{address}"));
        let (port, path) = rest.split_once('/').unwrap();
        Self { program, port: port.parse().unwrap(), path: format!("/{path}") }
    }

    /// Returns the status and the body of a response.
    fn ask(&self, head: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
        assert!(head.contains("X-Content-Type-Options: nosniff"), "{head}");
        assert!(!head.to_lowercase().contains("access-control-allow"), "{head}");
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}", self.port))
    }

    /// Stops the server with the signal of Ctrl-C, and returns the server's exit code.
    fn end(&mut self) -> Option<i32> {
        let interrupted =
            Command::new("kill").args(["-INT", &self.program.id().to_string()]).status().unwrap();
        assert!(interrupted.success());
        let started = Instant::now();
        loop {
            if let Some(status) = self.program.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < Duration::from_secs(60), "the server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for View {
    /// Kills the server if a test fails.
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn a_view_is_served_to_who_knows_its_address() {
    let ferry = Ferry::new();
    let input = model(&ferry);
    let mut view = View::of(&ferry, &input);
    assert!(view.path.len() == 34 && view.path.ends_with('/'), "{}", view.path);
    let (status, page) = view.get(&view.path);
    let all = document(&page);
    assert_eq!((status, &all["live"]), (200, &true.into()));
    assert!(all["models"][0]["stats"].is_null() && page.contains("connect-src 'self'"));
    let names = names(&all["models"][0]);
    let matrix = names.iter().position(|name| name == "layers.0.weight").unwrap();
    let (status, values) = view.get(&format!("{}values?model=0&tensor={matrix}", view.path));
    let values: Value = serde_json::from_str(&values).unwrap();
    assert_eq!((status, &values["stats"]["nan"], &values["heat"]["rows"]), (200, &1.into(), &50.into()));
    let hostile = names.iter().position(|name| name == HOSTILE).unwrap();
    let (status, values) = view.get(&format!("{}values?model=0&tensor={hostile}", view.path));
    let values: Value = serde_json::from_str(&values).unwrap();
    assert_eq!((status, &values["stats"]["max"], &values["heat"]), (200, &2.0.into(), &Value::Null));

    let path = &view.path;
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT".to_owned(), 404),
        (format!("GET /{}/ HTTP/1.1\r\nHost: 127.0.0.1:PORT", "0".repeat(32)), 404),
        (format!("GET {path}model.safetensors HTTP/1.1\r\nHost: 127.0.0.1:PORT"), 404),
        (format!("GET {path}../../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1:PORT"), 404),
        (format!("GET {path}values?model=1&tensor=0 HTTP/1.1\r\nHost: 127.0.0.1:PORT"), 404),
        (format!("GET {path}values?model=0&tensor=99 HTTP/1.1\r\nHost: 127.0.0.1:PORT"), 404),
        (format!("GET {path}values?model=0&tensor=-1 HTTP/1.1\r\nHost: 127.0.0.1:PORT"), 404),
        (format!("GET {path} HTTP/1.1\r\nHost: rebound.example:PORT"), 421),
        (format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nOrigin: http://evil.example"), 421),
        (format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1:PORT"), 405),
        (format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX: {}", "x".repeat(20_000)), 431),
    ] {
        let request = request.replace("PORT", &view.port.to_string());
        let (found, body) = view.ask(&request);
        assert_eq!(found, status, "{request:.200}");
        assert!(body.len() < 100, "{body}");
    }
    // An idle client does not block other clients, and does not prevent the server from stopping.
    let _silent = TcpStream::connect(("127.0.0.1", view.port)).unwrap();
    assert_eq!(view.get(&view.path).0, 200);
    // The server listens only on the local address.
    let listening = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X} ", view.port);
    let mut own = listening.lines().filter(|line| line.contains(" 0A ") && line.contains(&port));
    assert!(own.all(|line| line.contains(&format!("0100007F{port}"))), "{listening}");
    assert_eq!(view.end(), Some(0));
}

#[test]
fn a_view_says_what_is_wrong() {
    let ferry = Ferry::new();
    let input = model(&ferry);
    let mut view = View::of(&ferry, &input);
    let taken = ferry.run(args!["view", input, "--port", view.port.to_string()]).expect(5);
    assert!(taken.stderr.contains("cannot listen"), "{}", taken.stderr);
    // If a file changes while it is served, this is reported, and the file is not read.
    std::fs::write(&input, [0; 100]).unwrap();
    let (status, body) = view.get(&format!("{}values?model=0&tensor=0", view.path));
    assert_eq!(status, 500, "{body}");
    assert!(
        serde_json::from_str::<Value>(&body).unwrap()["error"]
            .as_str()
            .unwrap()
            .contains("model.safetensors"),
        "{body}"
    );
    assert_eq!(view.end(), Some(0));
    ferry.run(args!["view", "-"]).expect(2);
    ferry.run(args!["view", ferry.at("nothing")]).expect(2);
}
