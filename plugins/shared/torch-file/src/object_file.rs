//! Represents a file that `torch.save` wrote. The representation consists of the saved object's
//! graph and the location of each storage. The persistent IDs in the graph contain the keys of the
//! storages.

use crate::archive::{Archive, Record};
use crate::described::{self, DescribedTensor};
use crate::pickle::{self, EvaluatedPickle, Global, Graph, Value, ValueId};
use crate::{Extent, calls};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tensorferry_sdk::{ByteOrder, Error, Limits, Result, Source};

/// Format versions that torch can read, according to `caffe2/serialize/versions.h`.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=10;

/// Maximum length of a record that contains a single word.
const MAX_NOTE_BYTES: u64 = 4096;

/// A saved object, and the locations of its storages.
#[derive(Debug)]
pub struct ObjectFile {
    graph: Graph,
    root: ValueId,
    globals: BTreeSet<String>,
    /// Descriptions of the calls in pickles other than the object's pickle.
    calls_beside: BTreeSet<String>,
    /// The names of the parameters and buffers of each class that the file declares.
    declared: HashMap<String, HashSet<String>>,
    file_name: String,
    byte_order: ByteOrder,
    records: Records,
}

/// The globals in all pickles of a file, and the calls in pickles other than the object's pickle.
#[derive(Debug, Default)]
pub(crate) struct SidePickles {
    globals: BTreeSet<String>,
    calls: BTreeSet<String>,
}

impl SidePickles {
    /// Adds a pickle that is not the object's pickle.
    pub(crate) fn add(&mut self, graph: &Graph) {
        self.add_object(graph);
        self.calls.extend(calls::texts(graph));
    }

    /// Adds the globals in the object's pickle. The calls in this pickle are not added, because
    /// flattening reports them with their paths.
    pub(crate) fn add_object(&mut self, graph: &Graph) {
        self.globals.extend(graph.globals().iter().map(Global::path));
    }
}

/// The locations of the storages, by key.
#[derive(Debug)]
enum Records {
    /// Each storage is a record in this folder of the archive.
    Archive { archive: Arc<Archive>, folder: &'static str },
    /// Each storage is an extent of the file.
    Table(HashMap<Box<str>, Extent>),
}

impl ObjectFile {
    /// Reads the object from the record `pickle` of an archive. Its storages are the records in
    /// `folder`.
    pub fn of_archive(
        source: &dyn Source,
        archive: &Arc<Archive>,
        pickle: &str,
        folder: &'static str,
        limits: &Limits,
    ) -> Result<Self> {
        check_version(source, archive)?;
        let byte_order = byte_order(source, archive)?;
        let record = archive.required_record(pickle)?;
        let bytes = archive.bytes(source, record, limits)?;
        let start = record.extent.offset;
        let EvaluatedPickle { graph, root, len } =
            pickle::evaluate(&bytes, start, limits).map_err(|error| error.file(archive.file_name()))?;
        if len < bytes.len() {
            return Err(archive
                .at(Error::malformed("extra bytes after the pickle in its record"), start + len as u64)
                .expected(format!("{} bytes", bytes.len()))
                .found(len));
        }
        Ok(Self {
            globals: graph.globals().iter().map(Global::path).collect(),
            calls_beside: BTreeSet::new(),
            graph,
            root,
            declared: HashMap::new(),
            file_name: archive.file_name().to_owned(),
            byte_order,
            records: Records::Archive { archive: Arc::clone(archive), folder },
        })
    }

    /// Creates a state dict from named descriptions of tensors that are not in a pickle. Their
    /// storages are records in `folder` of an archive.
    pub fn described(
        source: &dyn Source,
        archive: &Arc<Archive>,
        folder: &'static str,
        tensors: &[(&str, DescribedTensor<'_>)],
    ) -> Result<Self> {
        check_version(source, archive)?;
        let byte_order = byte_order(source, archive)?;
        let mut graph = Graph::default();
        let mut entries = Vec::with_capacity(tensors.len());
        for (name, tensor) in tensors {
            let key = described::push_text(&mut graph, name);
            entries.push((key, tensor.push(&mut graph)?));
        }
        let root = graph.push(Value::Dict(entries));
        Ok(Self {
            graph,
            root,
            globals: BTreeSet::new(),
            calls_beside: BTreeSet::new(),
            declared: HashMap::new(),
            file_name: archive.file_name().to_owned(),
            byte_order,
            records: Records::Archive { archive: Arc::clone(archive), folder },
        })
    }

    /// Creates an object with little-endian storages at known extents of a file.
    pub(crate) fn of_table(
        file_name: &str,
        object: EvaluatedPickle,
        storages: HashMap<Box<str>, Extent>,
        beside: SidePickles,
    ) -> Self {
        let SidePickles { globals, calls } = beside;
        Self {
            graph: object.graph,
            root: object.root,
            globals,
            calls_beside: calls,
            declared: HashMap::new(),
            file_name: file_name.to_owned(),
            byte_order: ByteOrder::Little,
            records: Records::Table(storages),
        }
    }

    /// Sets the classes that the file declares, by path, with the names of their parameters and
    /// buffers. If an object of such a class has other tensors as attributes, these tensors are
    /// reported as losses.
    #[must_use]
    pub fn declaring(self, declared: HashMap<String, HashSet<String>>) -> Self {
        Self { declared, ..self }
    }

    /// Returns the parameters and buffers that the file declares for a class.
    pub(crate) fn declared(&self, class: &str) -> Option<&HashSet<String>> {
        self.declared.get(class)
    }

    /// Returns the graph with all values of the object.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the object itself.
    #[must_use]
    pub fn root(&self) -> ValueId {
        self.root
    }

    /// Returns the archive that contains the object, or `None` if the container is not a zip
    /// archive.
    #[must_use]
    pub fn archive(&self) -> Option<&Archive> {
        match &self.records {
            Records::Archive { archive, .. } => Some(archive),
            Records::Table(_) => None,
        }
    }

    /// Iterates, in sorted order, over all functions and classes that Python would look up when
    /// loading the file's pickles.
    pub fn globals(&self) -> impl Iterator<Item = &str> {
        self.globals.iter().map(String::as_str)
    }

    /// Returns sorted descriptions of the calls in pickles other than the object's pickle.
    pub(crate) fn side_calls(&self) -> &BTreeSet<String> {
        &self.calls_beside
    }

    /// Returns the byte order of the storages.
    #[must_use]
    pub fn byte_order(&self) -> ByteOrder {
        self.byte_order
    }

    /// Returns the location of a storage's bytes. Fails if the storage is missing or compressed.
    pub fn storage(&self, key: &str) -> Result<Record> {
        match &self.records {
            Records::Archive { archive, folder } => archive.required_record(&[folder, key].concat()),
            Records::Table(storages) => match storages.get(key) {
                Some(&extent) => Ok(Record { extent, crc: None }),
                None => Err(Error::malformed(format!("storage {key:?} is missing")).file(&self.file_name)),
            },
        }
    }

    /// Adds the name of this file and an offset to an error.
    #[must_use]
    pub fn at(&self, error: Error, offset: u64) -> Error {
        error.file(&self.file_name).offset(offset)
    }
}

/// Checks the format version. torch uses `.format_version` and `.storage_alignment` to compute
/// offsets without reading the local headers. ferry reads the local headers, so it ignores these
/// records.
fn check_version(source: &dyn Source, archive: &Archive) -> Result<()> {
    // Since format version 6, the record with the version is in the folder `.data`. torch looks in
    // this folder first.
    let name = if archive.contains(".data/version") { ".data/version" } else { "version" };
    let record = archive.required_record(name)?;
    let text = note(source, archive, record)?;
    let version = std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let expected = format!("{} to {}", VERSIONS.start(), VERSIONS.end());
    match version {
        Some(version) if VERSIONS.contains(&version) => Ok(()),
        Some(version) if version > *VERSIONS.end() => {
            let error = Error::unsupported("the version of the archive is newer than supported");
            Err(archive.at(error, record.extent.offset).expected(expected).found(version))
        }
        _ => {
            let error = Error::malformed(format!("record {name:?} does not contain a version"));
            Err(archive.at(error, record.extent.offset).expected(expected).found(text.escape_ascii()))
        }
    }
}

/// Returns the byte order of the machine that wrote the file. Older files do not contain the byte
/// order, and are read as little-endian.
fn byte_order(source: &dyn Source, archive: &Archive) -> Result<ByteOrder> {
    let Some(record) = archive.record("byteorder")? else { return Ok(ByteOrder::Little) };
    match &*note(source, archive, record)? {
        b"little" => Ok(ByteOrder::Little),
        b"big" => Ok(ByteOrder::Big),
        other => {
            let error = Error::malformed("record \"byteorder\" does not contain a byte order");
            Err(archive.at(error, record.extent.offset).expected("little or big").found(other.escape_ascii()))
        }
    }
}

fn note(source: &dyn Source, archive: &Archive, record: Record) -> Result<Vec<u8>> {
    if record.extent.len > MAX_NOTE_BYTES {
        let error = Error::malformed("a record of a single word is too long");
        return Err(archive
            .at(error, record.extent.offset)
            .expected(format!("at most {MAX_NOTE_BYTES} bytes"))
            .found(record.extent.len));
    }
    let limits = Limits::default();
    archive.bytes(source, record, &limits)
}
