//! Fuzz targets that read hostile bytes with one reader. The reader must return an error or a
//! catalog. It must not panic or exceed its memory limits.
//!
//! These functions are shared by the libFuzzer targets in `tests/fuzz` and by [`drive`], which runs
//! them for a limited time on the stable toolchain.

use crate::bundle::{Bundle, Entry, STRING, dtype};
use crate::mutate::mutate;
use crate::settings::number;
use crate::table::{self, Style};
use crate::workspace::target_and_profile;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Entry as SourceEntry, Format, Limits, MemoryContext, MemorySource, Purpose};
use tensorferry_test_kit::random::Random;

/// Reads `bytes`, including small tensors, as a file called `name`. Returns whether the file could
/// be read.
pub fn read(format: &dyn Format, name: &str, bytes: &[u8]) -> bool {
    read_source(format, &MemorySource::file(name, bytes))
}

/// Reads all rows of a file called `name` that contains `bytes`. Returns whether the file could be
/// read.
pub fn read_records(format: &dyn Format, name: &str, bytes: &[u8]) -> bool {
    let source = Arc::new(MemorySource::file(name, bytes));
    let context = MemoryContext::new(limits());
    let _ = format.probe(source.as_ref(), &context);
    crate::records::read(format, source, &context).is_ok()
}

/// Reads a folder of rows in which `bytes` replaces the file called `name`. Returns whether the
/// folder could be read.
pub fn read_records_among(
    format: &dyn Format,
    files: &[(String, Vec<u8>)],
    name: &str,
    bytes: &[u8],
) -> bool {
    let mut files: BTreeMap<_, _> = files.iter().cloned().collect();
    files.insert(name.to_owned(), bytes.to_vec());
    let source = Arc::new(MemorySource::new(SourceEntry::Folder, files));
    let context = MemoryContext::new(limits());
    let _ = format.probe(source.as_ref(), &context);
    crate::records::read(format, source, &context).is_ok()
}

/// Returns limits for a hostile file of a few kilobytes.
fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.header_bytes = 1 << 20;
    limits.tensors = 4096;
    limits.entries = 16384;
    limits.nodes = 16384;
    limits.nesting = 64;
    limits.name_bytes = 4096;
    limits.expanded_bytes = 1 << 20;
    limits
}

/// Reads a source for display. If that succeeds, also reads the source for conversion to a flat
/// format.
fn read_source(format: &dyn Format, source: &MemorySource) -> bool {
    let mut context = MemoryContext::new(limits());
    // Probe the file first, in the same way as a host.
    let _ = format.probe(source, &context);
    let Ok(view) = MemoryView::read(format, &[], source, &context) else { return false };
    let tensors = view.catalog().tensors();
    for tensor in tensors.iter().filter(|tensor| tensor.bytes <= 64 << 10).take(16) {
        let _ = view.tensor_named(&tensor.name);
    }
    drop(view);
    context.purpose = Purpose::FLAT;
    let _ = MemoryView::read(format, &[], source, &context);
    true
}

/// Reads a folder in which `bytes` replaces the file called `name`. Returns whether the folder
/// could be read.
pub fn read_among(format: &dyn Format, files: &[(String, Vec<u8>)], name: &str, bytes: &[u8]) -> bool {
    let mut files: BTreeMap<_, _> = files.iter().cloned().collect();
    files.insert(name.to_owned(), bytes.to_vec());
    read_source(format, &MemorySource::new(SourceEntry::Folder, files))
}

/// Returns the names and contents of the files in a fixture's folder.
pub fn files_of(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = crate::fixtures::folder().join(folder);
    let names = crate::files::files_below(&folder);
    assert!(!names.is_empty(), "{}", folder.display());
    let read = |name: PathBuf| {
        let bytes = std::fs::read(folder.join(&name)).unwrap();
        (name.to_string_lossy().into_owned(), bytes)
    };
    names.into_iter().map(read).collect()
}

/// Reads a table whose only block is `contents`, with a correct checksum. The table is read as the
/// index of a bundle with three data files of 4 KiB, and as a V1 checkpoint. Returns whether either
/// could be read.
pub fn read_block(format: &dyn Format, contents: &[u8]) -> bool {
    let table = table::around(contents);
    let mut bundle = Bundle::new(3);
    bundle.shards.fill((0..=u8::MAX).cycle().take(4096).collect());
    let is_bundle = read_source(format, &bundle_source(table.clone(), &bundle));
    read(format, "model.ckpt", &table) || is_bundle
}

/// Reads three bundles that contain `bytes` as an index entry, as the object graph, and as the data
/// of strings. Returns whether any of them could be read.
pub fn read_bundle(format: &dyn Format, bytes: &[u8]) -> bool {
    let mut with_entry = Bundle::default();
    with_entry.numbers("numbers", dtype("U8"), &[64], &[7; 64]);
    let mut with_graph = with_entry.clone();
    let mut with_data = with_entry.clone();
    with_entry.entries.insert(b"entry".to_vec(), bytes.to_vec());

    for name in ["w", "model/w", "optimizer/_variables/1"] {
        with_graph.numbers(&format!("{name}/.ATTRIBUTES/VARIABLE_VALUE"), dtype("F32"), &[2], &[1; 8]);
    }
    with_graph.strings("_CHECKPOINTABLE_OBJECT_GRAPH", &[], &[bytes]);

    let size = i64::try_from(bytes.len()).unwrap();
    let offset = i64::try_from(with_data.shards[0].len()).unwrap();
    with_data.shards[0].extend(bytes);
    with_data.set("strings", &Entry { dtype: STRING, shape: vec![2, 2], offset, size, ..Entry::default() });

    let read = |bundle: &Bundle| read_source(format, &bundle_source(bundle.index(&Style::default()), bundle));
    [with_entry, with_graph, with_data].iter().filter(|bundle| read(bundle)).count() > 0
}

/// Returns the files of a bundle with this index.
fn bundle_source(index: Vec<u8>, bundle: &Bundle) -> MemorySource {
    let files = bundle.data("m").into_iter().chain([("m.index".to_owned(), index)]);
    MemorySource::new(SourceEntry::File("m.index".to_owned()), files.collect())
}

/// Reads a folder with a checkpoint and `text` as its state file. Returns whether the folder could
/// be read.
pub fn read_state_file(format: &dyn Format, text: &[u8]) -> bool {
    let mut bundle = Bundle::default();
    bundle.numbers("numbers", dtype("U8"), &[64], &[7; 64]);
    let files = bundle.data("m").into_iter();
    let others = [("m.index", bundle.index(&Style::default())), ("checkpoint", text.to_vec())];
    let files = files.chain(others.map(|(name, bytes)| (name.to_owned(), bytes)));
    read_source(format, &MemorySource::new(SourceEntry::Folder, files.collect()))
}

/// Returns the kept inputs of a target, which reached new code in libFuzzer or once failed. Also
/// returns the inputs in the target's folder in `FERRY_FUZZ_ALSO`, so that `tests/coverage`
/// includes inputs that were not kept.
pub fn kept(name: &str) -> Vec<Vec<u8>> {
    let mut kept = Vec::new();
    if let Ok(bytes) =
        std::fs::read(crate::workspace::root().join("tests/fuzz/seeds").join(format!("{name}.zip")))
    {
        kept.extend(crate::zip::members(&bytes).into_iter().map(|(_, bytes)| bytes));
    }
    let also = std::env::var_os("FERRY_FUZZ_ALSO").map(|folder| PathBuf::from(folder).join(name));
    let also = also.and_then(|folder| std::fs::read_dir(folder).ok());
    kept.extend(also.into_iter().flatten().map(|file| std::fs::read(file.unwrap().path()).unwrap()));
    kept
}

/// Runs `target` on mutations of `seeds` for `FERRY_FUZZ_SECONDS` (2 by default), with the random
/// seed `FERRY_FUZZ_SEED`. If `FERRY_FUZZ_CORPUS` is set, only writes the seeds for libFuzzer
/// (`tests/soak`) to a folder in it that has the target's name.
pub fn drive(name: &str, seeds: &[Vec<u8>], target: impl Fn(&[u8]) -> bool) {
    assert!(!seeds.is_empty(), "{name}: no seeds to mutate");
    let seeds = &[seeds, &kept(name)].concat();
    if let Some(corpus) = std::env::var_os("FERRY_FUZZ_CORPUS") {
        let folder = PathBuf::from(corpus).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (number, bytes) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), bytes).unwrap();
        }
        return;
    }
    let seed = number("FERRY_FUZZ_SEED").unwrap_or(0x7e45_0f3a);
    let end = Instant::now() + Duration::from_secs(number("FERRY_FUZZ_SECONDS").unwrap_or(2));
    let mut random = Random::new(seed);
    let (mut runs, mut read): (u64, u64) = (0, 0);
    for bytes in seeds {
        check(name, seed, bytes, &target);
    }
    while Instant::now() < end {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        let other = &seeds[random.below(seeds.len())];
        mutate(&mut random, &mut bytes, other);
        read += u64::from(check(name, seed, &bytes, &target));
        runs += 1;
    }
    println!("{name}: {runs} inputs from {} seeds, {read} were read, FERRY_FUZZ_SEED={seed}", seeds.len());
}

fn check(name: &str, seed: u64, bytes: &[u8], target: &impl Fn(&[u8]) -> bool) -> bool {
    catch_unwind(AssertUnwindSafe(|| target(bytes))).unwrap_or_else(|_| {
        let path = keep(name, bytes);
        panic!("{name} panics on the {} bytes in {} (FERRY_FUZZ_SEED={seed})", bytes.len(), path.display());
    })
}

fn keep(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = target_and_profile().0.join("fuzz-failures");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}
