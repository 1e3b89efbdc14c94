//! The reader opens the files, determines a common schema, and divides the files into splits.

mod guess;
mod pieces;
mod set;
mod shared;
mod sniff_message;
mod stream;

use crate::bytes::Window;
use crate::codec::{Codec, sniff_magic};
use crate::columns::{Column, raw_schema, schema};
use crate::files::{self, InputFile};
use crate::frame::{Checks, Frames};
use crate::index::Lines;
use crate::message::MessageKind;
use crate::options::{Decode, ReadOptions};
use crate::policy::FaultPolicy;
use crate::profile::Profile;
use crate::scan::{RecordError, Scan, Tally};
use crate::schema_file::{self, SchemaFile};
use arrow_schema::{Schema, SchemaRef};
use pieces::Piece;
use set::TfRecordSet;
use sniff_message::MessageGuess;
use std::sync::Arc;
use tensorferry_sdk::records::{IndexTotals, RecordReader, RecordSet};
use tensorferry_sdk::{ByteSink, Context, Error, Limits, Loss, LossSink, Purpose, Result, Source};

pub(crate) struct TfRecordReader {
    pub(crate) options: ReadOptions,
}

impl TfRecordReader {
    fn checks(&self, limits: &Limits) -> Checks {
        Checks { data: self.options.checksums, max: limits.header_bytes }
    }
}

impl RecordReader for TfRecordReader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let options = &self.options;
        let files = files::open(&source, options.files.as_deref(), options.codec, context)?;
        let policy = FaultPolicy::new(options.skip, options.allows_tail);
        let request = OpenRequest {
            options,
            source: &source,
            files: &files,
            policy: &policy,
            checks: self.checks(context.limits()),
            context,
        };
        let OpenResult { mut table, pieces, are_checked } = request.open()?;
        table.losses.drain(..).try_for_each(|loss| losses.loss(loss))?;
        // Records that have been verified once are not verified again, because the host ensures
        // that the files do not change between reads.
        let are_right = are_checked && policy.skipped().is_empty();
        let checks = Checks { data: options.checksums && !are_right, ..request.checks };
        Ok(Box::new(TfRecordSet::new(source, files, table, pieces, policy, checks, context.limits().clone())))
    }

    fn index(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<IndexTotals> {
        let name = source.entry().name();
        if name.is_empty() || !source.contains(name)? {
            return Err(Error::usage("only a single file can be indexed").file(name).hint("name a file"));
        }
        let id = source.open(name)?;
        let len = source.len(id);
        let codec = match self.options.codec {
            Some(codec) => codec,
            None => sniff_magic(source, id)?,
        };
        if codec != Codec::None {
            let error = Error::unsupported(
                "a compressed file cannot be indexed, because it cannot be read from the middle",
            );
            return Err(error.file(name));
        }
        let files = [InputFile { name: name.to_owned(), id, len, codec }];
        let policy = FaultPolicy::new(self.options.skip, self.options.allows_tail);
        let scan = Scan {
            source,
            files: &files,
            checks: self.checks(context.limits()),
            policy: &policy,
            context,
            threads: context.threads(),
            only: None,
        };
        let mut indexed = IndexTotals { records: 0, bytes: 0 };
        scan.run(Lines::default, |walked| {
            indexed.records += walked.records - walked.skipped;
            indexed.bytes += walked.end - walked.start;
            output.write(&walked.tally.text)
        })?;
        for skipped in policy.skipped() {
            let place = format!("record {}, offset {}", skipped.record.unwrap_or(0), skipped.offset);
            context.note(&format!("{:?}: {place}: {}", skipped.file, skipped.why));
        }
        Ok(indexed)
    }
}

/// The schema of an input and the rules for converting records to rows.
pub(crate) struct Table {
    /// The schema of all splits.
    pub(crate) schema: SchemaRef,
    /// The rules for decoding records, or `None` if records are returned as bytes.
    pub(crate) decoding: Option<Decoding>,
    /// The message type used to display records as JSON.
    pub(crate) shown: Option<MessageKind>,
    /// Losses that result from the schema.
    pub(crate) losses: Vec<Loss>,
}

/// The rules for converting records to rows.
#[derive(Clone)]
pub(crate) struct Decoding {
    pub(crate) message: MessageKind,
    pub(crate) columns: Arc<[Column]>,
    /// Whether a feature without a column is an error.
    pub(crate) is_closed: bool,
    /// Whether to count features without a kind while decoding. If this is not set, such features
    /// have already been counted.
    pub(crate) counts_unset: bool,
    /// Whether the columns were guessed from only some of the records.
    pub(crate) is_guess: bool,
}

struct OpenResult {
    table: Table,
    pieces: Vec<Piece>,
    /// Whether all checksums have been verified.
    are_checked: bool,
}

/// The data that is required to open an input.
struct OpenRequest<'a> {
    options: &'a ReadOptions,
    source: &'a Arc<dyn Source>,
    files: &'a [InputFile],
    policy: &'a FaultPolicy,
    checks: Checks,
    context: &'a dyn Context,
}

impl OpenRequest<'_> {
    fn open(&self) -> Result<OpenResult> {
        let file =
            self.options.schema.as_ref().map(|path| schema_file::read(path, self.context)).transpose()?;
        let message = match (self.options.decode, &file) {
            (_, Some(SchemaFile { message: None, .. })) | (Decode::Raw, None) => None,
            (Decode::Message(message), _) => Some(message),
            (_, Some(SchemaFile { message, .. })) => *message,
            (Decode::Auto, None) => match self.guess_message()? {
                MessageGuess::Message(message) => Some(message),
                MessageGuess::UnknownFields(message) => {
                    self.context.note(
                        "a record has fields that tf.train.Example does not have; they are skipped, as in TensorFlow \
                         (-i decode=raw reads the records as bytes)",
                    );
                    Some(message)
                }
                MessageGuess::Bytes => None,
                MessageGuess::NoRecords => Some(MessageKind::Example),
            },
        };
        if self.context.purpose().has(Purpose::LINES) {
            // Individual records can be displayed even if records contradict each other or later
            // records are damaged.
            let table = Table { shown: message, ..Table::raw() };
            return Ok(OpenResult { table, pieces: pieces::undivided(self.files), are_checked: false });
        }
        let Some(message) = message else { return self.open_divided(Table::raw()) };
        match (file, self.options.infer) {
            (Some(file), _) => self.open_divided(Table::decoded(message, file.columns, false, Vec::new())),
            (None, Some(max)) => {
                let profile = self.profile_of_first(message, max)?;
                self.open_divided(self.table_of(&profile, message)?)
            }
            (None, None) => match self.open_guessed(message)? {
                Some(opened) => Ok(opened),
                None => self.open_profiled(message),
            },
        }
    }

    fn window(&self, file: &InputFile) -> Box<dyn Window + Send> {
        file.codec.window(self.source, file.id, self.context.limits())
    }

    /// Guesses the type of the first records.
    fn guess_message(&self) -> Result<MessageGuess> {
        let mut guess = MessageGuess::NoRecords;
        for file in self.files {
            // Damage is not reported here, but later when the records are read.
            let mut walk = Frames::new(self.window(file), 0, self.checks);
            if sniff_message::try_next(&mut walk, &mut guess) {
                break;
            }
        }
        Ok(guess)
    }

    /// Divides an input into splits. The schema must not depend on all records.
    fn open_divided(&self, table: Table) -> Result<OpenResult> {
        let pieces = pieces::divide(self)?;
        Ok(OpenResult { table, pieces, are_checked: false })
    }

    /// Reads all records. Their profile determines the schema, and their positions determine the
    /// splits.
    fn open_profiled(&self, message: MessageKind) -> Result<OpenResult> {
        let new = || Profile::new(message, self.policy.skips(), self.context.limits());
        let mut profile = new();
        let mut pieces = pieces::PieceBuilder::default();
        self.scan(self.checks).run(new, |walked| {
            let appended = profile.append(&walked.tally, walked.file, walked.first);
            appended.map_err(|error| error.file(&self.files[walked.file].name))?;
            pieces.add(&walked);
            Ok(())
        })?;
        let table = self.table_of(&profile, message)?;
        Ok(OpenResult { table, pieces: pieces.finish(), are_checked: true })
    }

    /// Returns the profile of the first `max` records.
    fn profile_of_first(&self, message: MessageKind, max: u64) -> Result<Profile> {
        let mut profile = Profile::new(message, self.policy.skips(), self.context.limits());
        let mut seen = 0;
        for (number, file) in self.files.iter().enumerate() {
            let mut part = Profile::new(message, self.policy.skips(), self.context.limits());
            let mut walk = Frames::new(self.window(file), 0, self.checks);
            let mut record = 0;
            while seen < max {
                let offset = walk.offset();
                let fault = match walk.next() {
                    Ok(None) => break,
                    Ok(Some(data)) => {
                        let whole = data.len() as u64 + crate::frame::OVERHEAD;
                        match part.record(record, offset, data, whole) {
                            Ok(()) => None,
                            Err(RecordError::Error(error)) => {
                                return Err(error.file(&file.name).offset(offset));
                            }
                            Err(refusal) => Some(crate::scan::record_fault(refusal, offset, offset + whole)),
                        }
                    }
                    Err(fault) => Some(fault),
                };
                record += 1;
                match fault {
                    None => seen += 1,
                    Some(fault) => {
                        if !self.policy.handle_and_skip(&mut walk, number, &file.name, record - 1, fault)? {
                            break;
                        }
                    }
                }
            }
            profile.append(&part, number, 0).map_err(|error| error.file(&file.name))?;
            if seen == max {
                break;
            }
        }
        Ok(profile)
    }

    fn table_of(&self, profile: &Profile, message: MessageKind) -> Result<Table> {
        let name = |file: usize| self.files.get(file).map_or_else(String::new, |file| file.name.clone());
        let columns = profile.columns(self.options.utf8, name)?;
        Ok(Table::decoded(message, columns, true, profile.losses()))
    }

    fn scan(&self, checks: Checks) -> Scan<'_> {
        Scan {
            source: &**self.source,
            files: self.files,
            checks,
            policy: self.policy,
            context: self.context,
            threads: self.context.threads(),
            only: None,
        }
    }
}

impl Table {
    fn raw() -> Self {
        Self { schema: raw_schema(), decoding: None, shown: None, losses: Vec::new() }
    }

    fn decoded(message: MessageKind, columns: Vec<Column>, is_inferred: bool, losses: Vec<Loss>) -> Self {
        let schema = schema(&columns, message == MessageKind::Sequence);
        let decoding = Decoding {
            message,
            columns: columns.into(),
            is_closed: is_inferred,
            counts_unset: !is_inferred,
            is_guess: false,
        };
        Self { schema, decoding: Some(decoding), shown: Some(message), losses }
    }

    /// Returns a schema with only some of the columns.
    pub(crate) fn projected(&self, columns: &[usize]) -> SchemaRef {
        let fields: Vec<_> =
            columns.iter().filter_map(|&column| self.schema.fields().get(column).cloned()).collect();
        Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()))
    }
}
