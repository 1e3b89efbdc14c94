//! A record output: its planned files, and the records that are written to these files.

use crate::batch_bytes::{Measure, batch_bytes, repeated_bytes};
use crate::checksum::{ComparedTypes, RowsChecksum, as_json, checksum, compared_types, is_of_bytes};
use crate::conversion::draft::{WrittenRecords, draft_records};
use crate::conversion::input::RecordInput;
use crate::digest::{RowHasher, hashed};
use crate::encoding::is_text;
use crate::flow::from_fn;
use crate::metadata_losses::unsupported_metadata;
use crate::rows;
use crate::schema_file::schema_file;
use crate::steps::Origin;
use crate::write::write;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tensorferry_convert::context::ConversionContext;
use tensorferry_convert::publication::{self, PlannedOutput, StagedOutput};
use tensorferry_convert::receipt::Receipt;
use tensorferry_convert::report::Report;
use tensorferry_convert::write::shard_tag::with_tag;
use tensorferry_core::context::fault;
use tensorferry_core::formats::options;
use tensorferry_core::formats::used::UsedFormat;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::file_group::{SCHEMA, accepts_schema};
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_publish::stage::{FileKind, StagedFile};
use tensorferry_publish::staging::Staging;
use tensorferry_sdk::arrow_array::{Array, BooleanArray, RecordBatch};
use tensorferry_sdk::records::{RecordPlan, RecordWriter};
use tensorferry_sdk::{
    Capabilities, Context, Entry, Error, ErrorKind, Loss, Purpose, Result, Role, arrow_schema,
};

/// Plans a record output and writes the records to a stage. `bytes` is the length of the input.
pub(crate) fn write_records<'a>(
    context: &'a ConversionContext<'a>,
    reading: &ReadContext<'_>,
    input: &RecordInput<'_>,
    bytes: u64,
) -> Result<WrittenOutput<'a>> {
    let mut output = RecordOutput::plan(context, reading, input, bytes)?;
    let report = output.report()?;
    if context.request.dry_run {
        return Ok(WrittenOutput::Foreseen(output.foresee(report)));
    }
    let staged = publication::stage(context, &mut output, report)?;
    Ok(WrittenOutput::Staged(staged, output.close()?))
}

/// Records that have been written. The input's reader is closed before the [commit](Self::commit),
/// so that nothing is published if its destructor fails.
#[must_use]
pub(crate) enum WrittenOutput<'a> {
    /// The result of a dry run.
    Foreseen(Report),
    /// An output that is ready to be published, and every file that was read.
    Staged(StagedOutput<'a>, Vec<(PathBuf, FileIdentity)>),
}

impl WrittenOutput<'_> {
    pub(crate) fn commit(self) -> Result<Report> {
        match self {
            Self::Foreseen(report) => Ok(report),
            Self::Staged(staged, inputs) => staged.commit(inputs),
        }
    }
}

/// Records whose files are planned.
struct RecordOutput<'a> {
    context: &'a ConversionContext<'a>,
    /// The read context for the plugins, which includes the additional inputs that the plugins have
    /// opened.
    reading: &'a ReadContext<'a>,
    input: &'a RecordInput<'a>,
    bytes: u64,
    schema: SchemaRef,
    /// The plan. It is dropped before the writer that created it.
    plan: Box<dyn RecordPlan>,
    /// The names of the files that contain rows. Rolled files get their final names after they are
    /// written. Until then, this list contains the name of one rolled file.
    names: Vec<String>,
    /// Losses that are known from the schema before any row is written.
    planned_losses: Vec<Loss>,
    _writer: Box<dyn RecordWriter>,
    /// The hasher that computes digests of the written rows, if a receipt is requested.
    hasher: Option<RowHasher>,
    /// For each file, the number of rows that the writer reported as lost.
    lost_rows: Vec<u64>,
}

impl<'a> RecordOutput<'a> {
    /// Plans the files of the output with the target's writer.
    fn plan(
        context: &'a ConversionContext<'a>,
        reading: &'a ReadContext<'a>,
        input: &'a RecordInput<'a>,
        bytes: u64,
    ) -> Result<Self> {
        let (target, asked) = (&context.target, &context.request.output);
        let given = with_tag(target, &asked.options, asked.commit.force, "", context.session)?;
        let writer = target.format.record_writer(&given, reading)?;
        let refused = |error| rows::refusal(error, reading.purpose());
        let schema = input.schema().map_err(refused)?;
        let mut planned_losses = Vec::new();
        let plan = writer
            .plan(&schema, input.count(), &target.target, &mut planned_losses, reading)
            .map_err(refused)?;
        planned_losses.extend(unsupported_metadata(&schema, target.format.description.capabilities));
        if reading.purpose().has(Purpose::ONCE) && input.count().is_none() && plan.files().len() > 1 {
            return Err(Error::wrong_guess(
                "the number of rows must be known to divide them evenly over files",
            ));
        }
        let columns = hashed(&schema).into_iter().flatten().collect();
        let hasher = asked.receipt.map(|_| RowHasher::new(columns, plan.files().len()));
        let names = match plan.roll() {
            Some(_) => vec![plan.name(0, 1)?],
            None => plan.files().to_vec(),
        };
        Ok(Self {
            context,
            reading,
            input,
            bytes,
            schema,
            plan,
            names,
            planned_losses,
            _writer: writer,
            hasher,
            lost_rows: Vec::new(),
        })
    }

    /// Returns a report that contains everything that is known before writing.
    fn report(&self) -> Result<Report> {
        let mut report = Report::new(self.context.request, &self.context.target, self.losses()?);
        report.holds_records = true;
        report.records = Some(0);
        report.readers = vec![UsedFormat::of(self.input.format)];
        report.files_read = self.input.source.opened().len();
        report.account = self.reading.account().cloned();
        self.context.request.losses.check(&report.losses)?;
        Ok(report)
    }

    /// Completes the report of a dry run. The lengths of the files are unknown. If the writer rolls
    /// files, the number of files is also unknown.
    fn foresee(&self, mut report: Report) -> Report {
        let mut names = &*self.names;
        if self.is_named_late() {
            let note = "the number of files depends on the rows; each file name contains this number, \
                        which is known only at the end";
            report.notes.push(note.to_owned());
            names = &[];
        }
        let files = names.iter().chain(self.plan.sealed()).map(|name| (name.clone(), 0)).collect();
        report.records = self.input.count();
        report.planned(files, &self.context.target, self.context.started, self.context.session)
    }

    /// Like [`compare_back`](Self::compare_back), but reads the output back with the types of
    /// `schema`.
    fn compare_by_schema(
        &self,
        stage: &dyn Staging,
        schema: &Schema,
        told: &[(String, String)],
        losses: &[Loss],
    ) -> Result<Vec<String>> {
        let scratch = stage.scratch()?;
        let file = scratch.path().join("columns.json");
        let text = schema_file(schema).to_string();
        std::fs::write(&file, text).map_err(|e| Error::from(e).file(file.display().to_string()))?;
        let options = [told, &[(SCHEMA.to_owned(), file.display().to_string())]].concat();
        self.compare_back(stage, schema, &options, losses)
    }

    /// Reads the output back with these options, and compares the columns of `schema`. Returns the
    /// names of the columns that cannot be compared.
    fn compare_back(
        &self,
        stage: &dyn Staging,
        schema: &Schema,
        options: &[(String, String)],
        losses: &[Loss],
    ) -> Result<Vec<String>> {
        let (target, session, files) = (&self.context.target, self.context.session, &self.names);
        let entry = match &files[..] {
            [one] => Entry::File(one.clone()),
            _ => Entry::Folder,
        };
        let written = stage.written("", entry, session)?;
        let reading = ReadContext::new(session, Purpose::COMPARE);
        let written = rows::open(&written, target.format, options, &reading)?;
        let (compared, mut left_out) = compared_types(schema, &written.set.schema(), losses);
        // If rows are distributed over several files, they are read back in a different order.
        let ordered = files.len() == 1;
        let back = RecordInput::of_rows(&written, &[], session);
        let both = |compared: &ComparedTypes| -> Result<[RowsChecksum; 2]> {
            let summed = |input: &RecordInput<'_>| input.flow(|flow| checksum(flow, compared, ordered));
            Ok([summed(self.input)?, summed(&back)?])
        };
        // A struct may contain a type that arrow-cast does not cast.
        let is_uncast = |error: &Error| error.kind() == ErrorKind::Unsupported;
        let (sent, found, is_compared) = match both(&compared) {
            Ok([sent, found]) => (sent, found, true),
            Err(error) if is_uncast(&error) => {
                let [sent, found] = both(&ComparedTypes::new())?;
                (sent, found, false)
            }
            Err(error) => return Err(error),
        };
        if sent.rows != found.rows {
            if found.rows + self.lost_rows.iter().sum::<u64>() != sent.rows {
                let error = Error::verification("the output has the wrong number of records");
                return Err(error.expected(sent.rows).found(found.rows));
            }
            left_out.extend(self.compare_present(&back, compared, [sent.rows, found.rows], ordered)?);
            written.close()?;
            return Ok(left_out);
        }
        let sent_type = |name: &str| schema.field_with_name(name).ok().map(|field| field.data_type());
        let back_schema = written.set.schema();
        let is_read_as_text =
            |name: &str| back_schema.field_with_name(name).is_ok_and(|field| is_text(field.data_type()));
        // The result is `None` if the values cannot be compared.
        let is_same = |compared: &ComparedTypes| match both(compared) {
            Ok([sent, found]) => Ok(Some(sent == found)),
            Err(error) if is_uncast(&error) => Ok(None),
            Err(error) => Err(error),
        };
        if !is_compared || sent != found {
            let error = Error::verification("the records in the output differ from the input's");
            let mut same = ComparedTypes::new();
            let count = compared.len();
            for column in compared {
                let alone = ComparedTypes::from([column.clone()]);
                let compared = is_same(&alone)?;
                if compared == Some(true) {
                    same.extend(alone);
                } else if !(is_read_as_text(&column.0) && self.is_its_json(&back, &column.0, ordered)) {
                    let is_nested = sent_type(&column.0).is_some_and(DataType::is_nested);
                    let is_explained = is_nested && losses.iter().any(|loss| loss.what == column.0);
                    if compared.is_some() && !is_explained {
                        return Err(error.column(column.0));
                    }
                    left_out.push(column.0);
                }
            }
            if same.len() == count || is_same(&same)? != Some(true) {
                return Err(error);
            }
        }
        written.close()?;
        Ok(left_out)
    }

    /// If the writer has omitted rows and reported them, compares only the non-null values of each
    /// column. Returns the columns without nulls: these columns have values in the missing rows,
    /// and therefore cannot be compared.
    fn compare_present(
        &self,
        back: &RecordInput<'_>,
        compared: ComparedTypes,
        rows: [u64; 2],
        ordered: bool,
    ) -> Result<Vec<String>> {
        let mut left_out = Vec::new();
        for column in compared {
            let alone = ComparedTypes::from([column.clone()]);
            let summed = |input: &RecordInput<'_>| {
                input.flow(|flow| {
                    let schema = flow.schema();
                    let next = || flow.next()?.map(|batch| present(&batch, &column.0)).transpose();
                    checksum(&mut *from_fn(schema, next), &alone, ordered)
                })
            };
            let (sent, found) = (summed(self.input)?, summed(back)?);
            if [sent.rows, found.rows] == rows {
                left_out.push(column.0);
            } else if sent != found {
                let error = Error::verification("the records in the output differ from the input's");
                return Err(error.column(column.0));
            }
        }
        Ok(left_out)
    }

    /// Returns whether a column was read back as the JSON text of its values.
    fn is_its_json(&self, back: &RecordInput<'_>, name: &str, ordered: bool) -> bool {
        let compared = ComparedTypes::from([(name.to_owned(), DataType::LargeBinary)]);
        let Ok(found) = back.flow(|flow| checksum(flow, &compared, ordered)) else { return false };
        // A format that does not support nulls may write a null as the text `null`.
        [true, false].into_iter().any(|nulls| {
            let sent = self.input.flow(|flow| {
                let field = Field::new(name, DataType::LargeBinary, true);
                let schema = Arc::new(Schema::new(vec![field]));
                let next = || flow.next()?.map(|batch| as_json(&batch, name, nulls)).transpose();
                checksum(&mut *from_fn(schema, next), &compared, ordered)
            });
            sent.is_ok_and(|sent| sent == found)
        })
    }

    fn losses(&self) -> Result<Vec<Loss>> {
        Ok([self.input.losses()?, self.planned_losses.clone()].concat())
    }

    /// Drops the writer, and checks that the input has not changed. Returns every file that was
    /// read, with the file's identity when it was read.
    fn close(self) -> Result<Vec<(PathBuf, FileIdentity)>> {
        let Self { context, reading, input, .. } = self;
        drop(self.plan);
        drop(self._writer);
        context.target.format.check_faults()?;
        input.source.check_unchanged()?;
        reading.check_additional_inputs()?;
        let own = input.source.stamped().map(|(path, identity)| (path.to_owned(), identity));
        Ok(own.chain(reading.additional_files()).collect())
    }
}

impl PlannedOutput for RecordOutput<'_> {
    fn files(&self) -> Vec<StagedFile> {
        let file = |kind| move |path: &String| StagedFile::new(&**path, kind);
        let sealed = self.plan.sealed().iter().map(file(FileKind::Index));
        self.names.iter().map(file(FileKind::Data)).chain(sealed).collect()
    }

    fn is_named_late(&self) -> bool {
        self.plan.roll().is_some()
    }

    fn superseded(&self) -> Vec<(&str, Role)> {
        self.plan.supersedes().iter().map(|pattern| (pattern.as_str(), Role::Data)).collect()
    }

    fn reads_from(&self, path: &Path) -> bool {
        self.input.source.has_opened(path)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn known_len(&self) -> Option<u64> {
        None
    }

    fn write(&mut self, stage: &dyn Staging, report: &mut Report) -> Result<Vec<u64>> {
        let (plan, session, count) = (&*self.plan, self.context.session, self.input.count());
        // A format that stores column metadata also stores column types, including dictionary
        // types.
        let keeps_types = self.context.target.format.description.capabilities.has(Capabilities::METADATA);
        let measure: Measure = if keeps_types { batch_bytes } else { repeated_bytes };
        let hasher = self.hasher.as_mut();
        let written = self.input.flow(|flow| write(flow, plan, count, measure, hasher, stage, session))?;
        fault::reach("copied")?;
        report.losses = [self.losses()?, written.losses].concat();
        report.notes.extend(self.plan.notes());
        report.records = Some(written.records);
        if let (0, Origin::Rows(rows), false) =
            (written.records, self.input.origin, self.context.request.input.may_be_empty())
        {
            rows.check_any()?;
        }
        self.context.request.losses.check(&report.losses)?;
        self.lost_rows = written.lost_rows;
        let lens = written.files.iter().map(|file| file.bytes).chain(written.sealed).collect();
        self.names = written.files.into_iter().map(|file| file.name).collect();
        Ok(lens)
    }

    fn digest(&mut self) -> Result<()> {
        Ok(())
    }

    fn verify(&self, stage: &dyn Staging, report: &mut Report) -> Result<()> {
        let sent = self.input.schema()?;
        // The input's losses come first in the list. They are skipped, because values that the
        // reader could not represent were never sent to the writer.
        let losses = report.losses.get(self.input.losses()?.len()..).unwrap_or_default();
        let description = &self.context.target.format.description;
        let told = options::text_options(description, &self.context.request.output.options);
        // If the output has no header, a schema provides the column names. Otherwise, the columns
        // would be read back with different names.
        let mut left_out = if options::has_header(&told) {
            self.compare_back(stage, &sent, &told, losses)?
        } else {
            match self.compare_by_schema(stage, &sent, &told, losses) {
                // A schema file cannot express some types. If the columns have such types, they are
                // not compared.
                Err(error) if matches!(error.kind(), ErrorKind::Usage | ErrorKind::Unsupported) => {
                    sent.fields().iter().map(|field| field.name().clone()).collect()
                }
                found => found?,
            }
        };
        // Bytes that are written as text are read back as bytes if a schema declares them.
        let is_bytes = |field: &&FieldRef| left_out.contains(field.name()) && is_of_bytes(field.data_type());
        // Returns the field without metadata that other formats attach to a column.
        let plain = |field: &FieldRef| Field::new(field.name(), field.data_type().clone(), true);
        let bytes: Vec<Field> = sent.fields().iter().filter(is_bytes).map(plain).collect();
        if !bytes.is_empty() && accepts_schema(self.context.target.format, &[]) {
            let schema = Schema::new(bytes);
            match self.compare_by_schema(stage, &schema, &told, losses) {
                Ok(still) => left_out.retain(|name| schema.index_of(name).is_err() || still.contains(name)),
                Err(error) if error.kind() == ErrorKind::Verification => return Err(error),
                // A schema file cannot express these columns.
                Err(_) => {}
            }
        }
        let not_compared = |name| {
            format!("column {name:?} was not verified: it is written or read back as a different type")
        };
        report.notes.extend(left_out.iter().map(not_compared));
        report.verified = report.records;
        Ok(())
    }

    fn receipt(&self, stage: &dyn Staging, report: &Report) -> Result<Receipt> {
        let written = WrittenRecords {
            format: self.input.format,
            source: self.input.source,
            additional: &self.reading.additional_inputs(),
            files: &self.names,
            lost_rows: &self.lost_rows,
            sealed: self.plan.sealed(),
            schema: &self.schema,
            hasher: self.hasher.as_ref(),
        };
        draft_records(self.context, &written, stage, report)
    }
}

/// Returns the rows of a batch in which a column is not null.
fn present(batch: &RecordBatch, name: &str) -> Result<RecordBatch> {
    let Some(column) = batch.column_by_name(name) else { return Ok(batch.slice(0, 0)) };
    let Some(nulls) = column.logical_nulls() else { return Ok(batch.clone()) };
    let is_present = BooleanArray::new(nulls.inner().clone(), None);
    let rows = arrow_select::filter::filter_record_batch(batch, &is_present);
    rows.map_err(|error| Error::unsupported(error.to_string()).column(name))
}
