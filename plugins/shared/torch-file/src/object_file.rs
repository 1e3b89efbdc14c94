//! What one `torch.save` wrote: the saved object as a graph, and the storages that its persistent ids name by
//! their keys.

use crate::archive::{Archive, Record};
use crate::described::{self, DescribedTensor};
use crate::pickle::{self, Evaluated, Global, Graph, Value, ValueId};
use crate::{Extent, calls};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tensorferry_sdk::{ByteOrder, Error, Limits, Result, Source};

/// The versions that `caffe2/serialize/versions.h` lets a reader read.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=10;

/// Records of a few bytes are read with a bound of their own.
const MOST_NOTE_BYTES: u64 = 4096;

/// A saved object, and where its storages lie.
#[derive(Debug)]
pub struct ObjectFile {
    graph: Graph,
    root: ValueId,
    globals: BTreeSet<String>,
    /// What the pickles beside the object would call.
    calls_beside: BTreeSet<String>,
    /// The names of parameters and buffers of each class that the file itself declares.
    declared: HashMap<String, HashSet<String>>,
    file_name: String,
    byte_order: ByteOrder,
    records: Records,
}

/// The globals that a file's pickles name, and what the small pickles around the object's would call.
#[derive(Debug, Default)]
pub(crate) struct SidePickles {
    globals: BTreeSet<String>,
    calls: BTreeSet<String>,
}

impl SidePickles {
    /// Adds a pickle beside the object's.
    pub(crate) fn add(&mut self, graph: &Graph) {
        self.add_object(graph);
        self.calls.extend(calls::texts(graph));
    }

    /// Adds the object's own, whose calls are told where they stand.
    pub(crate) fn add_object(&mut self, graph: &Graph) {
        self.globals.extend(graph.globals().iter().map(Global::path));
    }
}

/// What a storage's key leads to.
#[derive(Debug)]
enum Records {
    /// A record of the archive, in this folder.
    Archive { archive: Arc<Archive>, folder: &'static str },
    /// An extent of the file.
    Table(HashMap<Box<str>, Extent>),
}

impl ObjectFile {
    /// The object of a record `pickle` of an archive, whose storages are the records in `folder`.
    ///
    /// # Errors
    /// Malformed or unsupported, with the place in the file; a limit; i/o.
    pub fn of_archive(
        source: &dyn Source,
        archive: &Arc<Archive>,
        pickle: &str,
        folder: &'static str,
        limits: &Limits,
    ) -> Result<Self> {
        check_version(source, archive)?;
        let byte_order = byte_order(source, archive)?;
        let record = archive.need(pickle)?;
        let bytes = archive.bytes(source, record, limits)?;
        let start = record.extent.offset;
        let Evaluated { graph, root, len } =
            pickle::evaluate(&bytes, start, limits).map_err(|error| error.file(archive.file_name()))?;
        if len < bytes.len() {
            return Err(archive
                .at(Error::malformed("the pickle ends before its record does"), start + len as u64)
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

    /// A state dict that something else than a pickle describes: each tensor by its name, over a record
    /// in `folder` of an archive.
    ///
    /// # Errors
    /// As [`of_archive`](Self::of_archive).
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

    /// An object whose storages lie side by side, little-endian.
    pub(crate) fn of_table(
        file_name: &str,
        object: Evaluated,
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

    /// The same object, whose file declares classes: by their paths, the names of their parameters and
    /// buffers. Other tensors among the attributes of such an object are losses.
    #[must_use]
    pub fn declaring(self, declared: HashMap<String, HashSet<String>>) -> Self {
        Self { declared, ..self }
    }

    /// The parameters and buffers of a class that the file declares.
    pub(crate) fn declared(&self, class: &str) -> Option<&HashSet<String>> {
        self.declared.get(class)
    }

    /// Every value of the object.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The object itself.
    #[must_use]
    pub fn root(&self) -> ValueId {
        self.root
    }

    /// The archive that it lies in, if it does.
    #[must_use]
    pub fn archive(&self) -> Option<&Archive> {
        match &self.records {
            Records::Archive { archive, .. } => Some(archive),
            Records::Table(_) => None,
        }
    }

    /// Every function and class that the file's pickles would have looked up, sorted.
    pub fn globals(&self) -> impl Iterator<Item = &str> {
        self.globals.iter().map(String::as_str)
    }

    /// What the pickles beside the object's would have called, sorted.
    pub(crate) fn calls_beside(&self) -> &BTreeSet<String> {
        &self.calls_beside
    }

    /// The order of the bytes in its storages.
    #[must_use]
    pub fn byte_order(&self) -> ByteOrder {
        self.byte_order
    }

    /// Where the bytes of a storage lie.
    ///
    /// # Errors
    /// Malformed, if there is no such storage; unsupported, if it is compressed.
    pub fn storage(&self, key: &str) -> Result<Record> {
        match &self.records {
            Records::Archive { archive, folder } => archive.need(&[folder, key].concat()),
            Records::Table(storages) => match storages.get(key) {
                Some(&extent) => Ok(Record { extent, crc: None }),
                None => Err(Error::malformed(format!("there is no storage {key:?}")).file(&self.file_name)),
            },
        }
    }

    /// An error in this file, at this offset.
    #[must_use]
    pub fn at(&self, error: Error, offset: u64) -> Error {
        error.file(&self.file_name).offset(offset)
    }
}

/// `.format_version` and `.storage_alignment` say how torch may compute offsets without reading the
/// local headers. Here these are read, so neither matters.
fn check_version(source: &dyn Source, archive: &Archive) -> Result<()> {
    // From version 6 on it stands among the notes; torch looks there first.
    let name = if archive.contains(".data/version") { ".data/version" } else { "version" };
    let record = archive.need(name)?;
    let text = note(source, archive, record)?;
    let version = std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let expected = format!("{} to {}", VERSIONS.start(), VERSIONS.end());
    match version {
        Some(version) if VERSIONS.contains(&version) => Ok(()),
        Some(version) if version > *VERSIONS.end() => {
            let error = Error::unsupported("a newer version of torch's archives");
            Err(archive.at(error, record.extent.offset).expected(expected).found(version))
        }
        _ => {
            let error = Error::malformed(format!("record {name:?} does not hold a version"));
            Err(archive.at(error, record.extent.offset).expected(expected).found(text.escape_ascii()))
        }
    }
}

/// torch writes the order of its machine; before it wrote it, all its machines were little-endian.
fn byte_order(source: &dyn Source, archive: &Archive) -> Result<ByteOrder> {
    let Some(record) = archive.record("byteorder")? else { return Ok(ByteOrder::Little) };
    match &*note(source, archive, record)? {
        b"little" => Ok(ByteOrder::Little),
        b"big" => Ok(ByteOrder::Big),
        other => {
            let error = Error::malformed("record \"byteorder\" does not hold a byte order");
            Err(archive.at(error, record.extent.offset).expected("little or big").found(other.escape_ascii()))
        }
    }
}

fn note(source: &dyn Source, archive: &Archive, record: Record) -> Result<Vec<u8>> {
    if record.extent.len > MOST_NOTE_BYTES {
        let error = Error::malformed("a record that holds one word is long");
        return Err(archive
            .at(error, record.extent.offset)
            .expected(format!("at most {MOST_NOTE_BYTES} bytes"))
            .found(record.extent.len));
    }
    let limits = Limits::default();
    archive.bytes(source, record, &limits)
}
