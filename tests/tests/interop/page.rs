//! Tests of pages in a real browser, which is Debian's Chromium, driven by playwright. axe checks
//! the pages for accessibility problems.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tensorferry_tests::workspace::workspace;
use tensorferry_tests::{Ferry, args, python};

/// The version of axe-core, and the checksum of this version from npm.
const AXE: &str = "4.14.1";
const AXE_INTEGRITY: &str =
    "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==";

/// Returns the bytes of `count` F32 numbers.
fn singles(count: usize, scale: f32) -> Vec<u8> {
    let wave = (0..count).map(|n| ((n * 7919 % 1009) as f32 / 1009.0 - 0.5) * scale);
    wave.flat_map(f32::to_le_bytes).collect()
}

/// Writes a model with this many layers. `scale` is the magnitude of its attention weights.
fn layers(ferry: &Ferry, name: &str, layers: usize, scale: f32) -> PathBuf {
    let kinds: [(&str, &[u64]); 4] = [
        ("attn.q_proj.weight", &[32, 32]),
        ("attn.o_proj.weight", &[32, 32]),
        ("mlp.up_proj.weight", &[86, 32]),
        ("norm.weight", &[32]),
    ];
    let mut tensors: Vec<(String, &[u64], Vec<u8>)> = Vec::new();
    for layer in 0..layers {
        for (kind, shape) in kinds {
            let count = shape.iter().product::<u64>();
            let scale = if kind.starts_with("attn") { scale } else { 1.0 };
            let bytes = singles(usize::try_from(count).unwrap(), scale + layer as f32 / 10.0);
            tensors.push((format!("model.layers.{layer}.{kind}"), shape, bytes));
        }
    }
    tensors.push((
        "</script><script>window.hacked=1</script><b>.\u{202e}w".to_owned(),
        &[4],
        singles(4, 1.0),
    ));
    tensors.push(("lm_head.weight".to_owned(), &[64, 32], singles(2048, f32::NAN)));
    let tensors: Vec<(&str, &str, &[u64], &[u8])> =
        tensors.iter().map(|(name, shape, bytes)| (name.as_str(), "F32", *shape, bytes.as_slice())).collect();
    ferry.safetensors(name, &tensors)
}

/// Writes a mixture-of-experts model with a hundred thousand tensors.
fn experts(ferry: &Ferry) -> PathBuf {
    const PARTS: [&str; 4] = ["gate_proj", "up_proj", "down_proj", "scale"];
    let names: Vec<String> = (0..100_000)
        .map(|n| format!("model.layers.{}.mlp.experts.{}.{}.weight", n / 1024, n % 1024 / 4, PARTS[n % 4]))
        .collect();
    let tensors: Vec<(&str, &str, &[u64], &[u8])> =
        names.iter().map(|name| (name.as_str(), "BF16", &[2, 2][..], &[0; 8][..])).collect();
    ferry.safetensors("experts.safetensors", &tensors)
}

/// Returns the script of axe, which is downloaded once from npm to the target folder.
fn axe() -> PathBuf {
    let folder = workspace().target.join("tmp");
    let archive = folder.join(format!("axe-core-{AXE}.tgz"));
    std::fs::create_dir_all(&folder).unwrap();
    if !archive.exists() {
        let mut npm = Command::new("npm");
        let packed = npm
            .args(["pack", "--json", &format!("axe-core@{AXE}"), "--pack-destination"])
            .arg(&folder)
            .output();
        let packed = packed.expect("these tests need npm");
        assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    }
    let script = folder.join(format!("axe-{AXE}.js"));
    let unpack = "import base64, hashlib, sys, tarfile\nfrom pathlib import Path\narchive, integrity, script = sys.argv[1:]\n\
                  found = 'sha512-' + base64.b64encode(hashlib.sha512(Path(archive).read_bytes()).digest()).decode()\n\
                  assert found == integrity, found\n\
                  Path(script).write_bytes(tarfile.open(archive).extractfile('package/axe.min.js').read())";
    let mut python = Command::new(python::interpreter());
    let unpacked =
        python.args(["-c", unpack]).arg(&archive).arg(AXE_INTEGRITY).arg(&script).status().unwrap();
    assert!(unpacked.success(), "{}", archive.display());
    script
}

fn chromium() -> PathBuf {
    let named = std::env::var_os("FERRY_TEST_CHROMIUM").map(PathBuf::from);
    let path = named.unwrap_or_else(|| PathBuf::from("/usr/bin/chromium"));
    assert!(path.exists(), "these tests need Debian's chromium, or the browser named by FERRY_TEST_CHROMIUM");
    path
}

/// A `ferry view` server that is killed at the end of the test.
struct View(Child);

impl View {
    fn of(ferry: &Ferry, input: &Path) -> (Self, String) {
        let mut program =
            ferry.command(args!["view", input]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        (Self(program), address.trim_end().to_owned())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn look(ferry: &Ferry, pages: &[Value]) -> Vec<Value> {
    let shots = workspace().target.join("tmp/pages");
    std::fs::create_dir_all(&shots).unwrap();
    let tasks = json!({ "chromium": chromium(), "axe": axe(), "shots": shots, "pages": pages });
    let tasks = ferry.write("tasks.json", tasks.to_string());
    let looked = python::command("page_browser.py", args![tasks]).output().unwrap();
    assert!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stderr));
    let found: Vec<Value> = serde_json::from_slice(&looked.stdout).unwrap();
    assert_eq!(found.len(), pages.len());
    found
}

fn file(path: &Path) -> String {
    format!("file://{}", path.display())
}

#[test]
#[ignore = "needs Debian's chromium, and playwright from PyPI"]
fn pages_work_in_a_browser_by_mouse_and_by_keyboard() {
    let ferry = Ferry::on_disk();
    let model = layers(&ferry, "model.safetensors", 12, 1.0);
    let other = layers(&ferry, "other.safetensors", 11, 1.5);
    let [page, values, diff, rows, shown] =
        ferry.paths(["page.html", "values.html", "diff.html", "rows.parquet", "rows.html"]);
    ferry.run(args!["inspect", model, "--html", page]).expect(0);
    ferry.run(args!["inspect", model, "--stats", "--html", values]).expect(0);
    ferry.run(args!["diff", model, other, "--html", diff]).expect(1);
    python::script("page_rows.py", args![rows]);
    ferry.run(args!["inspect", rows, "--stats", "--html", shown]).expect(0);
    let (_view, address) = View::of(&ferry, &model);
    let found = look(
        &ferry,
        &[
            json!({ "name": "structure", "url": file(&page), "kind": "model", "search": "up_proj" }),
            json!({ "name": "values", "url": file(&values), "kind": "model", "search": "up_proj", "values": true }),
            json!({ "name": "view", "url": address, "kind": "model", "search": "up_proj", "values": true }),
            json!({ "name": "diff", "url": file(&diff), "kind": "diff", "search": "q_proj" }),
            json!({ "name": "records", "url": file(&shown), "kind": "records", "search": "text", "pictures": 8 }),
        ],
    );
    assert!(found.iter().all(|one| one["opened"].as_f64().is_some_and(|seconds| seconds > 0.0)), "{found:?}");
}

#[test]
#[ignore = "needs Debian's chromium, and playwright from PyPI"]
fn a_hundred_thousand_tensors_open_without_a_stutter() {
    let ferry = Ferry::on_disk();
    let [small, deep, large] = ferry.paths(["small.html", "deep.html", "large.html"]);
    ferry.run(args!["inspect", layers(&ferry, "small.safetensors", 2, 1.0), "--html", small]).expect(0);
    ferry
        .run(args!["inspect", layers(&ferry, "deep.safetensors", 200, 1.0), "--stats", "--html", deep])
        .expect(0);
    ferry.run(args!["inspect", experts(&ferry), "--html", large]).expect(0);
    let page = |name: &str, path: &Path, search: &str| json!({ "name": name, "url": file(path), "kind": "model", "search": search });
    let found = look(
        &ferry,
        &[
            page("small", &small, "up_proj"),
            page("deep", &deep, "layers.177. up_proj"),
            page("large", &large, "experts.77. down"),
        ],
    );
    let bytes = [&small, &deep, &large].map(|path| std::fs::metadata(path).unwrap().len());
    let of = |at: usize, key: &str| found[at][key].as_f64().unwrap();
    for (at, bytes) in bytes.iter().enumerate() {
        println!(
            "{}: {bytes} bytes, {:.2} s, longest jump {:.3} s",
            found[at]["name"],
            of(at, "opened"),
            of(at, "scroll")
        );
    }
    // A name takes only a few numbers, and the bytes that it does not share with the previous name.
    assert!(bytes[2] < 6_000_000, "{bytes:?}");
    // Compare with an almost empty page, because the machine may be busy.
    let least = of(0, "opened").max(0.3);
    assert!(of(1, "opened") < 10.0 * least && of(2, "opened") < 20.0 * least, "{found:?}");
    assert!(of(2, "scroll") < 10.0 * of(0, "scroll").max(0.05), "{found:?}");
    assert!(of(2, "elements") < 2.0 * of(1, "elements").max(1000.0), "{found:?}");
}
