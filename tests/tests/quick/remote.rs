//! Tests of inputs in a store, which is simulated by a local folder. Every fixture must be found,
//! read and compared through the store interface, without unnecessary requests.

use crate::formats::formats;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::tempdir;
use tensorferry::compare::CompareRequest;
use tensorferry::request::{LossPolicy, Part};
use tensorferry::{Error, ErrorKind, Registry, Result, Session};
use tensorferry_core::context::remote::{Remote, RemoteEntry, RemoteFile, RemotePlace, RemoteStamp};
use tensorferry_tests::files::names_in;
use tensorferry_tests::fixtures::{self, good_and_bad};
use tensorferry_tests::model::Model;

/// The requests to the store, in order. A request is `look PATH`, `list PATH`, `open PATH`, `read
/// PATH OFFSET LEN` or `advise PATH OFFSET LEN`.
type Asked = Arc<Mutex<Vec<String>>>;

/// A folder that is accessed like a store, as `folder://store/PATH`.
#[derive(Debug)]
struct FolderAsStore {
    root: PathBuf,
    lists: bool,
    /// The content tag that the store returns for every file.
    tag: String,
    asked: Asked,
}

struct Place {
    root: PathBuf,
    lists: bool,
    tag: String,
    asked: Asked,
}

struct StoredFile {
    path: String,
    file: File,
    stamp: RemoteStamp,
    asked: Asked,
}

impl Remote for FolderAsStore {
    fn place(&self, url: &str) -> Result<Option<(Arc<dyn RemotePlace>, String)>> {
        let Some(path) = url.strip_prefix("folder://store") else { return Ok(None) };
        let place = Place {
            root: self.root.clone(),
            lists: self.lists,
            tag: self.tag.clone(),
            asked: self.asked.clone(),
        };
        Ok(Some((Arc::new(place), path.trim_matches('/').to_owned())))
    }
}

impl Place {
    fn ask(&self, what: &str, path: &str) -> PathBuf {
        self.asked.lock().unwrap().push(format!("{what} {path}"));
        self.root.join(path)
    }
}

impl RemotePlace for Place {
    fn url(&self, path: &str) -> String {
        format!("folder://store/{path}")
    }

    fn look(&self, path: &str) -> Result<Option<RemoteEntry>> {
        let at = self.ask("look", path);
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let len = |found: std::fs::Metadata| found.is_file().then_some(found.len());
        Ok(std::fs::metadata(at).ok().map(|found| RemoteEntry { name, len: len(found) }))
    }

    fn list(&self, folder: &str, _: u64) -> Result<Vec<RemoteEntry>> {
        if !self.lists {
            return Err(Error::new(ErrorKind::Unsupported, "nothing is listed here"));
        }
        let at = self.ask("list", folder);
        let entry = |name: String| {
            let found = std::fs::metadata(at.join(&name)).unwrap();
            RemoteEntry { name, len: found.is_file().then_some(found.len()) }
        };
        Ok(names_in(&at).into_iter().map(entry).collect())
    }

    fn open(&self, path: &str) -> Result<Arc<dyn RemoteFile>> {
        let at = self.ask("open", path);
        let file = File::open(at).map_err(|_| Error::new(ErrorKind::Malformed, "no such file"))?;
        let stamp = RemoteStamp { len: file.metadata()?.len(), tag: self.tag.clone(), modified: (0, 0) };
        Ok(Arc::new(StoredFile { path: path.to_owned(), file, stamp, asked: self.asked.clone() }))
    }
}

impl RemoteFile for StoredFile {
    fn stamp(&self) -> &RemoteStamp {
        &self.stamp
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.asked.lock().unwrap().push(format!("read {} {offset} {}", self.path, buffer.len()));
        Ok(self.file.read_exact_at(buffer, offset)?)
    }

    fn advise(&self, ranges: &[Range<u64>]) {
        let mut asked = self.asked.lock().unwrap();
        asked.extend(ranges.iter().map(|range| format!("advise {} {range:?}", self.path)));
    }

    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}

fn registry() -> Registry {
    Registry::new().with_all(formats())
}

/// Returns a session in which a folder is accessible as a store, and the record of requests to the
/// store.
fn session(root: &Path, lists: bool) -> (Session, Asked) {
    let asked = Asked::default();
    let tag = "etag 1".to_owned();
    let store = FolderAsStore { root: root.to_owned(), lists, tag, asked: asked.clone() };
    let mut session = Session::new(2, 64 << 20);
    session.remote = Some(Arc::new(store));
    (session, asked)
}

fn url(root: &Path, path: &Path) -> PathBuf {
    PathBuf::from(format!("folder://store/{}", path.strip_prefix(root).unwrap().display()))
}

#[test]
fn every_fixture_is_the_same_through_a_store() {
    let root = fixtures::folder();
    let registry = registry();
    let mut compared = BTreeMap::new();
    let sections = names_in(&root).into_iter().filter(|name| root.join(name).is_dir());
    for section in sections.filter(|name| name != "quantised") {
        let (good, _) = good_and_bad(&section);
        for case in good {
            let (session, asked) = session(&root, true);
            let input = case.input();
            let remote = url(&root, &input);
            let losses = LossPolicy::default();
            let request = |a, b| CompareRequest {
                a,
                b,
                part: &Part::Whole,
                options: &[],
                steps: &[],
                tolerance: None,
                max_diff: None,
                losses: &losses,
            };
            // Inputs that need an option of their reader fail in both cases.
            let registry = registry.clone().with_session(session);
            let here = registry.compare(&request(&input, &input));
            let through = registry.compare(&request(&input, &remote));
            match (here, through) {
                (Ok(_), Ok(found)) => {
                    assert!(found.is_equal(), "{section} {}: {:?}", case.name, found.json());
                    *compared.entry(section.clone()).or_insert(0) += 1;
                }
                (Err(here), Err(through)) => assert_eq!(here.kind(), through.kind(), "{through}"),
                (here, through) => panic!(
                    "{section} {}: {:?}, and {:?} through a store",
                    case.name,
                    here.map(drop),
                    through.map(drop)
                ),
            }
            let mut asked: Vec<String> = asked.lock().unwrap().clone();
            asked.retain(|line| !line.starts_with("read ") && !line.starts_with("advise "));
            let count = asked.len();
            asked.sort();
            asked.dedup();
            assert_eq!(asked.len(), count, "{section} {}: requested twice", case.name);
        }
    }
    assert!(compared.len() >= 12 && compared.values().sum::<u32>() > 150, "{compared:?}");
}

#[test]
fn what_a_person_points_at_is_found_in_a_store() {
    let root = fixtures::folder().join("safetensors").join("sharded");
    let open = |lists, path: &str| {
        let (session, _) = session(&root, lists);
        let opened = registry().with_session(session).open(format!("folder://store/{path}"));
        opened.map(|model| model.tensors().count())
    };
    for path in ["", "model.safetensors.index.json", "model-0000?-of-0000?.safetensors"] {
        assert_eq!(open(true, path).unwrap(), 6, "{path:?}");
    }
    // From a server without listings, only the named files, and files that they refer to, can be
    // read.
    assert_eq!(open(false, "model.safetensors.index.json").unwrap(), 6);
    assert_eq!(open(true, "model.safetensors.index.js").unwrap(), 6);
    let missing = open(true, "modell.safetensors.index.json").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Usage);
    assert!(missing.to_string().contains("folder://store/model.safetensors.index.json"), "{missing}");
    let (session, _) = session(&root, true);
    let unknown = registry().with_session(session).open("other://store/x").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Usage);
    let without = registry().open("folder://store/x").unwrap_err();
    assert!(without.to_string().contains("unsupported URL scheme"), "{without}");
}

#[test]
fn a_conversion_says_what_it_will_read_before_it_does() {
    let home = tempdir().unwrap();
    let (input, output) = (home.path().join("in.safetensors"), home.path().join("out.pt"));
    Model::of_size(40 << 20, 9, 7).write(&input).unwrap();
    let (session, asked) = session(home.path(), true);
    let registry = registry().with_session(session);
    let report = registry.convert("folder://store/in.safetensors", &output).run().unwrap();
    assert_eq!(report.tensors, 9);
    let asked = asked.lock().unwrap();
    // Each window is announced before it is read, and nothing is read twice.
    let (mut said, mut bytes) = (0, 0);
    for line in asked.iter() {
        let words: Vec<&str> = line.split(' ').collect();
        match *words {
            ["advise", _, range] => {
                let (_, end) = range.split_once("..").unwrap();
                said = said.max(end.parse::<u64>().unwrap());
            }
            ["read", _, offset, len] if said > 0 => {
                let (offset, len): (u64, u64) = (offset.parse().unwrap(), len.parse().unwrap());
                assert!(offset + len <= said, "{line}: {said}");
                bytes += len;
            }
            _ => {}
        }
    }
    assert!((40 << 20..42 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn what_was_read_has_the_digest_that_its_place_says() {
    let case = fixtures::case("safetensors", "all_dtypes");
    let input = case.input();
    let bytes = std::fs::read(&input).unwrap();
    let (root, name) = (input.parent().unwrap().to_owned(), input.file_name().unwrap().to_str().unwrap());
    let home = tempdir().unwrap();
    let convert = |digest: String| {
        let tag = format!("sha256:{digest}");
        let store = FolderAsStore { root: root.clone(), lists: true, tag, asked: Asked::default() };
        let mut session = Session::new(2, 64 << 20);
        session.remote = Some(Arc::new(store));
        let registry = registry().with_session(session);
        let conversion = registry.convert(format!("folder://store/{name}"), home.path().join("m.pt"));
        conversion.receipt(true).force(true).run().map(drop)
    };
    convert(tensorferry_test_kit::fixtures::sha256(&bytes)).unwrap();
    let error = convert("0".repeat(64)).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Malformed && error.to_string().contains("the SHA-256 of the file differs"),
        "{error}"
    );
}
