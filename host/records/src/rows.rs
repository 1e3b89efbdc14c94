//! An opened input of records: its files, its schema, and the splits that its format's reader can read.
//!
//! The schema is fixed before the first row. The schema of a TFRecord input comes from a profile of
//! all records. A later row that contradicts it is an error with file, record and column.
//!
//! An input that is read once (`Purpose::ONCE`: `inspect`, and conversions whose steps take every
//! row) is read with a guess at the schema and the splits, from a few records of each split. The
//! streams check the guess. If one fails (`Error::wrong_guess`), the host drops the output and
//! reads the input again without a guess, so the outcome is the same. Any other fault of the input
//! is reported after one reading.
//!
//! If a scan of one file is divided among threads, the first record of a unit is a guess too. The
//! walk over the previous unit checks it, because a record may contain a whole TFRecord file.

use std::collections::HashSet;
use std::sync::Arc;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::placeholder::explain;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::context::{ReadContext, SourceContext};
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::records::{Batches, RecordReader, RecordSet, Skipped, from_stream};
use tensorferry_sdk::{Error, ErrorKind, Loss, LossKind, Purpose, Result};

/// An opened input of records.
pub struct Rows<'a> {
    /// The files.
    pub source: Arc<FileSource>,
    /// Whose input it is.
    pub format: &'a RegisteredFormat,
    /// Its schema and splits.
    pub set: Arc<dyn RecordSet>,
    /// What was lost as it was opened.
    pub opened: Vec<Loss>,
    /// `None`: whoever shares it with others keeps the reader.
    pub reader: Option<Box<dyn RecordReader>>,
}

/// Opens a source whose format is known.
///
/// # Errors
/// Usage, for options that the reader does not have; else whatever is wrong with the input.
pub fn open<'a>(
    source: &FileSource,
    format: &'a RegisteredFormat,
    given: &[(String, String)],
    context: &ReadContext<'_>,
) -> Result<Rows<'a>> {
    let reader = format.record_reader(given, context)?;
    let source = Arc::new(source.afresh());
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

/// An input that somebody else has opened and keeps open.
#[must_use]
pub fn shared<'a>(
    source: Arc<FileSource>,
    format: &'a RegisteredFormat,
    set: Arc<dyn RecordSet>,
) -> Rows<'a> {
    Rows { source, format, set, opened: Vec::new(), reader: None }
}

/// Has `read` go over an input once, on a guess if its reader takes one. Where that is wrong, or may be why a value
/// is refused, it reads again for another purpose, without a guess.
///
/// # Errors
/// What `read` gives.
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

/// Why somebody refuses a schema, which may be no more than a guess: then the guess is what is wrong.
#[must_use]
pub fn refusal(error: Error, purpose: Purpose) -> Error {
    if purpose.has(Purpose::ONCE) && error.kind() == ErrorKind::Usage {
        return Error::wrong_guess(error.to_string());
    }
    error
}

/// Names the input in an error that names no file, and what lies in the place of one that cannot be read.
fn place(error: Error, source: &FileSource) -> Error {
    source.blame(explain(source, error)).file(source.entry_path().display().to_string())
}

impl Rows<'_> {
    /// Names the input in an error of its streams that names no file.
    #[must_use]
    pub fn place(&self, error: Error) -> Error {
        place(error, &self.source)
    }

    /// How many rows there are, where that is known without reading them.
    #[must_use]
    pub fn known_records(&self) -> Option<u64> {
        self.set.splits().iter().map(|split| split.records).sum()
    }

    /// Checks that there is a row, before any step: reads as far as the first one.
    ///
    /// # Errors
    /// Malformed, if there is none; whatever is wrong with the rows.
    pub fn check_any(&self) -> Result<()> {
        for split in 0..self.set.splits().len() {
            for batch in self.set.stream(split, &Batches::default()).map_err(|error| self.place(error))? {
                if batch.map_err(from_stream)?.num_rows() > 0 {
                    return Ok(());
                }
            }
        }
        let error = Error::malformed("the input holds no record").expected("at least one, or --allow-empty");
        let skipped = self.set.skipped();
        let error = match skipped.first() {
            Some(first) => {
                let (count, first) = (skipped.len(), left_out(first));
                error.found(format!("{count} damaged and left out, the first {}: {}", first.what, first.why))
            }
            None => error,
        };
        Err(error.file(self.source.entry_path().display().to_string()))
    }

    /// What the rows cannot say of the input, and the records that streams left out so far.
    ///
    /// # Errors
    /// A plugin error, if the reader cannot tell.
    pub fn losses(&self) -> Result<Vec<Loss>> {
        let mut losses = self.opened.clone();
        self.set.losses(&mut losses)?;
        losses.extend(self.set.skipped().iter().map(left_out));
        Ok(losses)
    }

    /// Checks that the source is still what it was, and lets the reader go.
    ///
    /// # Errors
    /// Transient, if a file changed; a plugin error, if a destructor panicked.
    pub fn close(self) -> Result<()> {
        self.source.check_unchanged()?;
        let Self { format, set, reader, .. } = self;
        drop(set);
        drop(reader);
        format.check_faults()
    }
}

fn left_out(skipped: &Skipped) -> Loss {
    let record = skipped.record.map_or(String::new(), |number| format!(" record {number}"));
    let what = format!("{}{record} at offset {}", skipped.file, skipped.offset);
    Loss::new(LossKind::Record, what, skipped.why.clone()).asked_for()
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
            (Error::usage("the output is there already"), 1),
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
