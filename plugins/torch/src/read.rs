//! Reads an archive: its pickle becomes a graph, the graph's tensors and its other values become a
//! catalog. Nothing that the pickle names is called.

use crate::archive::{Archive, Record};
use crate::container::{self, Container};
use crate::flatten::{PlaceViews, flatten};
use crate::lazy::LazyView;
use crate::pickle::{self, Graph};
use crate::rebuild::View;
use crate::side_record::{SIDE_RECORD, SideRecord};
use crate::storages::{Placed, Storages};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{
    ByteOrder, ByteSink, CatalogSink, Context, Error, FileId, Limits, Result, Source, TensorReader,
};

/// The versions that `caffe2/serialize/versions.h` lets a reader read.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=10;

/// Records of a few bytes are read with a bound of their own.
const MOST_NOTE_BYTES: u64 = 4096;

/// Reads PyTorch's files.
#[derive(Debug, Default)]
pub(crate) struct TorchReader {
    /// What the encoded storages' handles stand for.
    lazy: Mutex<Arc<[LazyView]>>,
}

impl TensorReader for TorchReader {
    fn read(&self, source: &dyn Source, catalog: &mut dyn CatalogSink, context: &dyn Context) -> Result<()> {
        let name = &container::file_of(source)?;
        let file = source.open(name)?;
        match container::detect(source, file)? {
            Container::Zip => {}
            other => return Err(other.refusal().file(name)),
        }
        let lazy = read_archive(source, file, catalog, context).map_err(|error| error.file(name))?;
        *self.lazy.lock().unwrap_or_else(PoisonError::into_inner) = lazy.into();
        Ok(())
    }

    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let lazy = Arc::clone(&self.lazy.lock().unwrap_or_else(PoisonError::into_inner));
        let view = usize::try_from(handle).ok().and_then(|index| lazy.get(index));
        view.ok_or_else(|| Error::plugin(format!("no encoded storage {handle}")))?
            .decode(source, output, context)
    }
}

fn read_archive(
    source: &dyn Source,
    file: FileId,
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<Vec<LazyView>> {
    let limits = context.limits();
    let archive = Archive::open(source, file, limits)?;
    if archive.contains("constants.pkl") {
        return Err(Error::unsupported("a TorchScript archive; save the module's state_dict() instead"));
    }
    if archive.contains("archive_format") {
        return Err(Error::unsupported("a torch.export archive; save the program's state_dict instead"));
    }
    check_version(source, &archive)?;
    let byte_order = byte_order(source, &archive)?;
    let record = archive.need("data.pkl")?;
    let bytes = archive.bytes(source, record, limits)?;
    let pickle = pickle::evaluate(&bytes, record.offset, limits)?;
    if pickle.len < bytes.len() {
        return Err(archive
            .at(Error::malformed("the pickle ends before its record does"), record.offset + pickle.len as u64)
            .expected(format!("{} bytes", bytes.len()))
            .found(pickle.len));
    }
    drop(bytes);
    let mut globals: Vec<String> = pickle.graph.globals().iter().map(pickle::Global::path).collect();
    globals.sort_unstable();
    globals.dedup();
    for global in globals {
        catalog.global(&global)?;
    }
    read_side_record(source, &archive, catalog, limits)?;
    let mut storages = Storages::new(&archive, byte_order, limits);
    flatten(&pickle.graph, pickle.root, &mut storages, catalog, context)?;
    Ok(storages.into_lazy_views())
}

impl PlaceViews for Storages<'_> {
    fn place(
        &mut self,
        catalog: &mut dyn CatalogSink,
        graph: &Graph,
        name: &str,
        view: &View,
    ) -> Result<Placed> {
        Storages::place(self, catalog, graph, name, view)
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
            Err(archive.at(error, record.offset).expected(expected).found(version))
        }
        _ => {
            let error = Error::malformed(format!("record {name:?} does not hold a version"));
            Err(archive.at(error, record.offset).expected(expected).found(text.escape_ascii()))
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
            Err(archive.at(error, record.offset).expected("little or big").found(other.escape_ascii()))
        }
    }
}

fn read_side_record(
    source: &dyn Source,
    archive: &Archive,
    catalog: &mut dyn CatalogSink,
    limits: &Limits,
) -> Result<()> {
    let Some(record) = archive.record(SIDE_RECORD)? else { return Ok(()) };
    let bytes = archive.bytes(source, record, limits)?;
    let side = SideRecord::parse(&bytes).map_err(|error| archive.at(error, record.offset))?;
    catalog.origin(&side.origin)?;
    side.metadata.iter().try_for_each(|(key, value)| catalog.metadata(key, value))
}

fn note(source: &dyn Source, archive: &Archive, record: Record) -> Result<Vec<u8>> {
    if record.len > MOST_NOTE_BYTES {
        let error = Error::malformed("a record that holds one word is long");
        return Err(archive
            .at(error, record.offset)
            .expected(format!("at most {MOST_NOTE_BYTES} bytes"))
            .found(record.len));
    }
    let limits = Limits::default();
    archive.bytes(source, record, &limits)
}
