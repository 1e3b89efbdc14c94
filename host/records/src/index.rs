//! Writes the index of a record input. The index is a file next to the input that contains the
//! positions of the records. The format's reader checks every record's framing and returns the
//! record's position. If writing fails, no partial index is left behind.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::source::FileSource;
use tensorferry_publish::commit::{CommitOptions, check_free, recover};
use tensorferry_publish::stage::{Destination, DestinationKind, FileKind, Stage, StagedFile};
use tensorferry_sdk::records::IndexTotals;
use tensorferry_sdk::{ByteSink, Capabilities, Entry, Error, FileId, Purpose, Result, Source};

/// Creates the index of a source in the file `output`, which must not exist. Returns an error for
/// formats without an index.
pub fn index(
    source: &FileSource,
    format: &RegisteredFormat,
    given: &[(String, String)],
    output: &Path,
    options: CommitOptions,
    session: &Session,
) -> Result<IndexTotals> {
    if !format.description.capabilities.has(Capabilities::INDEX) {
        let id = &format.description.id;
        return Err(Error::unsupported(format!("format {id} has no index"))
            .file(source.entry_path().display().to_string()));
    }
    let context = ReadContext::new(session, Purpose::SHOW);
    let reader = format.record_reader(given, &context)?;
    let destination = destination(output)?;
    let DestinationKind::Beside { name } = &destination.kind else {
        return Err(Error::usage("the index must be a local file"));
    };
    check_free(&destination, std::iter::once(name.as_str()), options.force)?;
    recover(&destination)?;
    let stage = Stage::begin(&destination)?;
    let mut file = IndexFile(BufWriter::new(stage.create(name, None)?));
    let indexed = reader
        .index(&CountedSource::new(source, session), &mut file, &context)
        .map_err(|e| format.attribute_error(e).file(source.entry_path().display().to_string()))?;
    drop(reader);
    format.check_faults()?;
    file.0.flush()?;
    source.check_unchanged()?;
    stage.commit(&[StagedFile::new(name, FileKind::Data)], options)?;
    Ok(indexed)
}

/// Returns the default path of an input's index, which is next to the input.
#[must_use]
pub fn beside(input: &Path) -> PathBuf {
    let mut name = input.file_name().unwrap_or_default().to_owned();
    name.push(".idx");
    input.with_file_name(name)
}

fn destination(output: &Path) -> Result<Destination> {
    let shown = output.display().to_string();
    let absolute = std::path::absolute(output).map_err(|e| Error::from(e).file(&shown))?;
    let name = absolute.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::usage("the index has no file name").file(&shown))?.to_owned();
    let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Destination { folder, kind: DestinationKind::Beside { name } })
}

/// A source that reports progress. The bytes are counted as they are read, because a sequential
/// reader reads each byte once.
struct CountedSource<'a> {
    source: &'a FileSource,
    session: &'a Session,
}

impl<'a> CountedSource<'a> {
    fn new(source: &'a FileSource, session: &'a Session) -> Self {
        session.will_check(source.bytes());
        Self { source, session }
    }
}

impl Source for CountedSource<'_> {
    fn entry(&self) -> &Entry {
        self.source.entry()
    }

    fn open(&self, name: &str) -> Result<FileId> {
        self.source.open(name)
    }

    fn contains(&self, name: &str) -> Result<bool> {
        self.source.contains(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.source.list(prefix)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        self.source.folders(folder)
    }

    fn name(&self, file: FileId) -> &str {
        self.source.name(file)
    }

    fn len(&self, file: FileId) -> u64 {
        self.source.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.session.checked(buffer.len() as u64);
        self.source.read_at(file, offset, buffer)
    }
}

struct IndexFile(BufWriter<std::fs::File>);

impl ByteSink for IndexFile {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.0.write_all(bytes)?)
    }
}
