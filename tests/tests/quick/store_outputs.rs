//! Tests of outputs in a store, which is simulated by a map. Each format's files are written
//! through the store interface, with the same bytes as in local files. Each byte must be written
//! once, and no byte may be read before the object is visible.

use crate::formats::formats;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::tempdir;
use tensorferry::{Error, ErrorKind, Registry, Result, Session};
use tensorferry_core::context::remote::{
    Condition, NewObject, Remote, RemoteEntry, RemoteFile, RemotePlace, RemoteStamp, RemoteUpload,
};
use tensorferry_tests::files::files_below;
use tensorferry_tests::fixtures::good_and_bad;

/// Objects by path, and the operations on these objects, in order.
#[derive(Debug, Default)]
struct Objects {
    bytes: Mutex<BTreeMap<String, Arc<Vec<u8>>>>,
    done: Mutex<Vec<String>>,
}

#[derive(Debug, Clone, Default)]
struct Store(Arc<Objects>);

struct Object(Arc<Vec<u8>>, RemoteStamp);

struct Upload {
    store: Store,
    path: String,
    late: Vec<Range<u64>>,
    state: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    /// Number of times that each byte was written.
    times: Vec<u8>,
    len: Option<u64>,
}

impl Remote for Store {
    fn place(&self, url: &str) -> Result<Option<(Arc<dyn RemotePlace>, String)>> {
        let Some(path) = url.strip_prefix("memory://store") else { return Ok(None) };
        Ok(Some((Arc::new(self.clone()), path.trim_matches('/').to_owned())))
    }
}

impl Store {
    fn say(&self, what: &str, path: &str) {
        self.0.done.lock().unwrap().push(format!("{what} {path}"));
    }

    fn get(&self, path: &str) -> Option<Arc<Vec<u8>>> {
        self.0.bytes.lock().unwrap().get(path).cloned()
    }

    /// Returns all objects in a folder, by path relative to the folder.
    fn below(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let all = self.0.bytes.lock().unwrap();
        let below = all.iter().filter_map(|(path, bytes)| Some((path.strip_prefix(folder)?, bytes)));
        below.map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).collect()
    }

    fn take_done(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.done.lock().unwrap())
    }
}

impl RemotePlace for Store {
    fn url(&self, path: &str) -> String {
        format!("memory://store/{path}")
    }

    fn look(&self, path: &str) -> Result<Option<RemoteEntry>> {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        if let Some(bytes) = self.get(path) {
            return Ok(Some(RemoteEntry { name, len: Some(bytes.len() as u64) }));
        }
        let is_folder = !self.below(&format!("{path}/")).is_empty();
        Ok(is_folder.then_some(RemoteEntry { name, len: None }))
    }

    fn list(&self, folder: &str, _: u64) -> Result<Vec<RemoteEntry>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut entries = BTreeMap::new();
        for (path, bytes) in self.below(&prefix) {
            match path.split_once('/') {
                Some((name, _)) => entries.insert(name.to_owned(), None),
                None => entries.insert(path, Some(bytes.len() as u64)),
            };
        }
        Ok(entries.into_iter().map(|(name, len)| RemoteEntry { name, len }).collect())
    }

    fn open(&self, path: &str) -> Result<Arc<dyn RemoteFile>> {
        let stamp = self.stamp(path)?;
        let found = self.get(path).zip(stamp);
        let (bytes, stamp) = found.ok_or_else(|| Error::new(ErrorKind::Malformed, "no such object"))?;
        Ok(Arc::new(Object(bytes, stamp)))
    }

    fn stamp(&self, path: &str) -> Result<Option<RemoteStamp>> {
        Ok(self.get(path).map(|bytes| RemoteStamp {
            len: bytes.len() as u64,
            tag: format!("etag:{:p}", Arc::as_ptr(&bytes)),
            modified: (0, 0),
        }))
    }

    fn create(&self, path: &str, object: NewObject) -> Result<Arc<dyn RemoteUpload>> {
        self.say("create", path);
        let len = usize::try_from(object.len.unwrap_or(0)).unwrap();
        let state = Written { bytes: vec![0; len], times: vec![0; len], len: object.len };
        Ok(Arc::new(Upload {
            store: self.clone(),
            path: path.to_owned(),
            late: object.late,
            state: Mutex::new(state),
        }))
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.say("remove", path);
        self.0.bytes.lock().unwrap().remove(path);
        Ok(())
    }
}

impl RemoteFile for Object {
    fn stamp(&self) -> &RemoteStamp {
        &self.1
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let start = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.0[start..start + buffer.len()]);
        Ok(())
    }

    fn advise(&self, _: &[Range<u64>]) {}

    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}

impl Upload {
    fn write(&self, offset: u64, bytes: &[u8]) {
        let mut state = self.state.lock().unwrap();
        let start = usize::try_from(offset).unwrap();
        let end = start + bytes.len();
        assert!(state.len.is_none_or(|len| end as u64 <= len), "{}: beyond its end", self.path);
        if state.bytes.len() < end {
            state.bytes.resize(end, 0);
            state.times.resize(end, 0);
        }
        state.bytes[start..end].copy_from_slice(bytes);
        state.times[start..end].iter_mut().for_each(|times| *times += 1);
    }
}

impl RemoteUpload for Upload {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes);
        Ok(())
    }

    fn write_late(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset + bytes.len() as u64;
        let is_late = |range: &Range<u64>| range.start <= offset && end <= range.end;
        assert!(self.late.iter().any(is_late), "{}: {offset}..{end} was not declared as late", self.path);
        self.write(offset, bytes);
        Ok(())
    }

    fn ends_at(&self, len: u64) -> Result<()> {
        self.state.lock().unwrap().len = Some(len);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.state.lock().unwrap().bytes.len() as u64
    }

    fn finish(&self) -> Result<()> {
        let state = self.state.lock().unwrap();
        assert!(state.len.is_none_or(|len| len == state.bytes.len() as u64), "{}", self.path);
        let mut expected = vec![1; state.times.len()];
        let place = |offset: u64| usize::try_from(offset).unwrap();
        self.late.iter().for_each(|range| expected[place(range.start)..place(range.end)].fill(2));
        assert!(state.times == expected, "{}: some bytes were not written exactly once", self.path);
        Ok(())
    }

    fn commit(&self, condition: &Condition) -> Result<Option<String>> {
        let found = self.store.stamp(&self.path)?;
        match condition {
            Condition::Absent => assert_eq!(found, None, "{}", self.path),
            Condition::Same(stamp) => assert_eq!(found.as_ref(), Some(stamp), "{}", self.path),
            Condition::Any => {}
        }
        self.store.say("commit", &self.path);
        let bytes = Arc::new(self.state.lock().unwrap().bytes.clone());
        self.store.0.bytes.lock().unwrap().insert(self.path.clone(), bytes);
        Ok(None)
    }
}

fn registry(store: &Store) -> Registry {
    let mut session = Session::new(2, 64 << 20);
    session.remote = Some(Arc::new(store.clone()));
    Registry::new().with_all(formats()).with_session(session)
}

fn here(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |path: PathBuf| (path.display().to_string(), std::fs::read(folder.join(path)).unwrap());
    files_below(folder).into_iter().map(read).collect()
}

#[test]
fn every_format_writes_to_a_store_what_it_writes_here() {
    let store = Store::default();
    let registry = registry(&store);
    let mut written: BTreeMap<&str, u32> = BTreeMap::new();
    let targets: [(&str, &[(&str, &str)]); 10] = [
        ("safetensors", &[]),
        ("safetensors", &[("max_shard_size", "1KB")]),
        ("torch", &[]),
        ("flax", &[]),
        ("numpy", &[]),
        ("numpy", &[("compression", "deflate")]),
        ("gguf", &[]),
        ("orbax", &[]),
        ("tf-bundle", &[]),
        ("torch-dcp", &[]),
    ];
    for section in ["safetensors", "torch", "tf", "numpy", "keras", "gguf", "orbax"] {
        // Use only six cases, because other tests read more.
        for case in good_and_bad(section).0.into_iter().take(6) {
            for (number, (format, options)) in targets.iter().enumerate() {
                let folder = tempdir().unwrap();
                let output = folder.path().join("out");
                let url = format!("memory://store/{section}/{}/{number}", case.name);
                let convert = |output: &str| {
                    let conversion = registry.convert(case.input(), output).to(*format);
                    options.iter().fold(conversion, |all, (key, value)| all.output_option(*key, *value)).run()
                };
                let local = convert(&format!("{}/", output.display()));
                let remote = convert(&format!("{url}/"));
                match (local, remote) {
                    (Ok(local), Ok(remote)) => {
                        let stored = store.below(url.strip_prefix("memory://store/").unwrap());
                        let stored: BTreeMap<String, Vec<u8>> =
                            stored.into_iter().map(|(name, bytes)| (name[1..].to_owned(), bytes)).collect();
                        assert!(here(&output) == stored, "{section} {} {format}", case.name);
                        assert_eq!((local.bytes, local.tensors), (remote.bytes, remote.tensors));
                        *written.entry(format).or_default() += 1;
                    }
                    // A name can be too long for a folder, but not for a store.
                    (Err(local), Ok(_)) if local.to_string().contains("File name too long") => {}
                    (Err(local), Err(remote)) => assert_eq!(local.kind(), remote.kind(), "{remote}"),
                    (local, remote) => panic!(
                        "{section} {} {format}: {:?}, and {:?} to a store",
                        case.name,
                        local.map(drop),
                        remote.map(drop)
                    ),
                }
            }
        }
    }
    assert!(written.len() == 8 && written.values().all(|count| *count > 5), "{written:?}");
}

#[test]
fn records_go_to_a_store_as_they_go_here() {
    let store = Store::default();
    let registry = registry(&store);
    let folder = tempdir().unwrap();
    let input = folder.path().join("in.jsonl");
    let rows: String = (0..5000).map(|n| format!("{{\"id\": {n}, \"text\": \"row {n}\"}}\n")).collect();
    std::fs::write(&input, rows).unwrap();
    let targets: [(&str, &str, &[(&str, &str)]); 7] = [
        ("parquet", "a.parquet", &[]),
        ("parquet", "shards/", &[("shards", "3")]),
        ("tfrecord", "a.tfrecord.gz", &[]),
        ("jsonl", "a.jsonl", &[]),
        ("mds", "mds/", &[("shard_rows", "700")]),
        // This format's file names contain the number of files.
        ("webdataset", "tars/", &[("shard_rows", "700"), ("key", "id")]),
        ("webdataset", "a.tar", &[("key", "id")]),
    ];
    for (number, (format, name, options)) in targets.into_iter().enumerate() {
        let output = folder.path().join(format!("out{number}"));
        let convert = |output: String| {
            let conversion = registry.convert(&input, output).to(format).verify(true);
            options
                .iter()
                .fold(conversion, |all, (key, value)| all.output_option(*key, *value))
                .run()
                .unwrap()
        };
        convert(format!("{}/{name}", output.display()));
        let report = convert(format!("memory://store/{number}/{name}"));
        assert_eq!(report.records, Some(5000));
        assert!(here(&output) == store.below(&format!("{number}/")), "{format} {name}");
        assert!(!here(&output).is_empty());
    }
}

#[test]
fn a_set_is_found_when_all_of_it_is_there_and_an_older_one_until_then() {
    let store = Store::default();
    let registry = registry(&store);
    let input = tensorferry_tests::fixtures::case("safetensors", "sharded").folder;
    let url = "memory://store/a/";
    let convert = |size: &str, force| {
        let conversion =
            registry.convert(&input, url).to("safetensors").output_option("max_shard_size", size);
        conversion.receipt(true).force(force).run()
    };
    let report = convert("200", false).unwrap();
    assert!(
        report.files.len() > 3 && report.files[0].0.starts_with("memory://store/a"),
        "{:?}",
        report.files
    );
    assert_eq!(report.receipt, Some(PathBuf::from("memory://store/a/receipt.ferry.json")));
    let commits = |done: Vec<String>| -> Vec<String> {
        done.into_iter().filter(|line| !line.starts_with("create")).collect()
    };
    let done = commits(store.take_done());
    assert_eq!(
        done[done.len() - 2..],
        ["commit a/model.safetensors.index.json", "commit a/receipt.ferry.json"]
    );
    let refused = convert("200", false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage);
    assert!(refused.to_string().contains("memory://store/a exists; use --force"), "{refused}");
    assert!(commits(store.take_done()).is_empty());
    let before = store.below("a/").len();
    // The new set has different shard names, and its index replaces the old index. The old shards
    // are removed last.
    convert("200", true).unwrap();
    let done = commits(store.take_done());
    let at =
        |what: &str| done.iter().position(|line| line == what).unwrap_or_else(|| panic!("{what}: {done:?}"));
    let index = at("commit a/model.safetensors.index.json");
    assert_eq!(at("remove a/receipt.ferry.json") + 1, index, "{done:?}");
    let of_shards = |what: &str| -> Vec<usize> {
        let is_shard = |line: &str| line.starts_with(what) && line.contains("-of-");
        (0..done.len()).filter(|&at| is_shard(&done[at])).collect()
    };
    let (come, gone) = (of_shards("commit"), of_shards("remove"));
    assert!(come.len() > 1 && come.len() == gone.len(), "{done:?}");
    assert!(come.iter().all(|&at| at < index && done[at].contains("a/model-r")), "{done:?}");
    assert!(gone[0] > at("commit a/receipt.ferry.json"), "{done:?}");
    assert_eq!(store.below("a/").len(), before);
    assert_eq!(registry.open(url).unwrap().tensors().count(), 6);
    // If the output is one file, it is written before the index of the older set is removed.
    convert("10KB", true).unwrap();
    let done = commits(store.take_done());
    let at =
        |what: &str| done.iter().position(|line| line == what).unwrap_or_else(|| panic!("{what}: {done:?}"));
    assert!(at("commit a/model.safetensors") < at("remove a/model.safetensors.index.json"), "{done:?}");
    // The shards of the older set were removed, and its sidecars were replaced.
    assert!(store.below("a/").len() < before, "{:?}", store.below("a/").keys());
    assert_eq!(registry.open(url).unwrap().tensors().count(), 6);
    // Several files replace the single file.
    convert("200", true).unwrap();
    let done = commits(store.take_done());
    let at =
        |what: &str| done.iter().position(|line| line == what).unwrap_or_else(|| panic!("{what}: {done:?}"));
    assert!(at("commit a/model.safetensors.index.json") < at("remove a/model.safetensors"), "{done:?}");
    assert_eq!(store.below("a/").len(), before);
}

#[test]
fn an_object_is_not_replaced_by_what_was_not_compared_with_it() {
    let store = Store::default();
    let registry = registry(&store);
    let input = tensorferry_tests::fixtures::case("safetensors", "all_dtypes").input();
    registry.convert(&input, "memory://store/a.safetensors").run().unwrap();
    let before = store.below("");
    let own = || registry.convert("memory://store/a.safetensors", "memory://store/a.safetensors").force(true);
    let refused = own().verify(true).run().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage, "{refused}");
    assert!(store.below("") == before);
    // As with local files, a conversion may replace its own input.
    own().run().unwrap();
    assert!(store.below("") == before);
    let dry = registry.convert(&input, "memory://store/b.safetensors").dry_run(true).run().unwrap();
    assert!(dry.dry_run && store.below("") == before);
}
