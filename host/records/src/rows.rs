//! An open record input: its files, its schema, and the splits that the format's reader can read
//! separately.

use std::collections::HashSet;
use std::sync::Arc;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::placeholder::explain;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::context::{ReadContext, SourceContext};
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::records::{Batches, RecordReader, RecordSet, SkippedRecord, from_stream};
use tensorferry_sdk::{Error, ErrorKind, Loss, LossKind, Purpose, Result};

pub struct Rows<'a> {
    pub source: Arc<FileSource>,
    /// The format of the input.
    pub format: &'a RegisteredFormat,
    /// The schema and splits.
    pub set: Arc<dyn RecordSet>,
    /// The losses that were found when the input was opened.
    pub opened: Vec<Loss>,
    /// The reader of the input; `None` if a different owner keeps it open.
    pub reader: Option<Box<dyn RecordReader>>,
}

/// Opens a source whose format is known.
pub fn open<'a>(
    source: &FileSource,
    format: &'a RegisteredFormat,
    given: &[(String, String)],
    context: &ReadContext<'_>,
) -> Result<Rows<'a>> {
    let reader = format.record_reader(given, context)?;
    let source = Arc::new(source.reopen());
    let mut opened = Vec::new();
    let cancellable = context.cancellable(source.clone());
    let of_source = SourceContext::new(context, &source);
    let set = reader.open(cancellable, &mut opened, &of_source).map_err(|e| place(e, &source))?;
    source.check_links()?;
    let of_splits: HashSet<&str> = set.splits().iter().map(|split| &*split.file).collect();
    let is_read = |name: &str| of_splits.contains(name) || source.is_open(name);
    opened.extend_from_slice(context.take_account(&source, &format.description, &is_read)?);
    opened.extend(context.unfollowed(&source));
    drop(of_splits);
    Ok(Rows { source, format, set: set.into(), opened, reader: Some(reader) })
}

/// Creates an input from a reader that a different owner has opened and keeps open.
#[must_use]
pub fn shared<'a>(
    source: Arc<FileSource>,
    format: &'a RegisteredFormat,
    set: Arc<dyn RecordSet>,
) -> Rows<'a> {
    Rows { source, format, set, opened: Vec::new(), reader: None }
}

/// Calls `read` with a purpose that allows the reader to make guesses about the input. If a guess
/// is wrong or may have caused an error, calls `read` again with the purpose `otherwise`, which
/// does not allow guesses.
pub fn read_once<T>(otherwise: Purpose, session: &Session, read: impl Fn(Purpose) -> Result<T>) -> Result<T> {
    let noted = session.noted();
    match read(Purpose::ONCE) {
        Err(error) if error.is_wrong_guess() || error.kind() == ErrorKind::Unsupported => {
            session.start_over(noted);
            read(otherwise)
        }
        read => read,
    }
}

/// Returns the error for a rejected schema. If the schema may be based on a guess, the error
/// reports that the guess was wrong.
#[must_use]
pub fn refusal(error: Error, purpose: Purpose) -> Error {
    if purpose.has(Purpose::ONCE) && error.kind() == ErrorKind::Usage {
        return Error::wrong_guess(error.to_string());
    }
    error
}

/// Adds the name of the input to an error that does not name a file. If the file cannot be read,
/// also adds a description of the file.
fn place(error: Error, source: &FileSource) -> Error {
    source.attribute_error(explain(source, error)).file(source.entry_path().display().to_string())
}

impl Rows<'_> {
    /// Adds the name of the input to a stream's error that does not name a file.
    #[must_use]
    pub fn place(&self, error: Error) -> Error {
        place(error, &self.source)
    }

    /// Returns the number of rows, if the number is known without reading the rows.
    #[must_use]
    pub fn known_records(&self) -> Option<u64> {
        self.set.splits().iter().map(|split| split.records).sum()
    }

    /// Checks that the input has at least one row before steps are applied. Reads batches until a
    /// batch contains a row.
    pub fn check_any(&self) -> Result<()> {
        for split in 0..self.set.splits().len() {
            for batch in self.set.stream(split, &Batches::default()).map_err(|error| self.place(error))? {
                if batch.map_err(from_stream)?.num_rows() > 0 {
                    return Ok(());
                }
            }
        }
        let error = Error::malformed("the input holds no records").hint("pass --allow-empty to accept it");
        let skipped = self.set.skipped();
        let error = match skipped.first() {
            Some(first) => {
                let (count, first) = (skipped.len(), left_out(first));
                error.found(format!("{count} damaged and skipped, the first {}: {}", first.what, first.why))
            }
            None => error,
        };
        Err(error.file(self.source.entry_path().display().to_string()))
    }

    /// Returns the losses that were found when the input was opened, and a loss for the records
    /// that the streams have skipped so far.
    pub fn losses(&self) -> Result<Vec<Loss>> {
        let mut losses = self.opened.clone();
        self.set.losses(&mut losses)?;
        losses.extend(self.set.skipped().iter().map(left_out));
        Ok(losses)
    }

    /// Checks that the source has not changed, and drops the reader. Returns an error if the
    /// reader's destructor panicked.
    pub fn close(self) -> Result<()> {
        self.source.check_unchanged()?;
        let Self { format, set, reader, .. } = self;
        drop(set);
        drop(reader);
        format.check_faults()
    }
}

fn left_out(skipped: &SkippedRecord) -> Loss {
    let record = skipped.record.map_or(String::new(), |number| format!(" record {number}"));
    let what = format!("{}{record} at offset {}", skipped.file, skipped.offset);
    Loss::new(LossKind::Record, what, skipped.why.clone()).requested_by_user()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn only_what_a_guess_may_be_to_blame_for_is_tried_again() {
        let session = Session::new(1, 1 << 20);
        for (error, times) in [
            (Error::wrong_guess("another kind"), 2),
            (refusal(Error::usage("no such column"), Purpose::ONCE), 2),
            (refusal(Error::usage("no such column"), Purpose::FLAT), 1),
            (Error::usage("the output already exists"), 1),
            (Error::unsupported("no place for these columns"), 2),
            (Error::malformed("a checksum is wrong"), 1),
            (Error::limit("a record is too long"), 1),
            (Error::io("no space"), 1),
        ] {
            let read = Cell::new(0);
            let outcome = read_once(Purpose::FLAT, &session, |_| {
                read.set(read.get() + 1);
                Err::<(), _>(error.clone())
            });
            assert_eq!((outcome.err(), read.get()), (Some(error), times));
        }
    }
}
