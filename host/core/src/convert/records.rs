//! A conversion of records, from an opened source to a report.

use super::receipts::draft_records::{RowsConversion, draft_rows};
use crate::context::fault;
use crate::context::session::Session;
use crate::convert::Request;
use crate::convert::report::Report;
use crate::convert::sides::check_sides;
use crate::convert::steps::{on_records, parse};
use crate::convert::watch::{Ready, Used, Watch};
use crate::formats::registry::{RegisteredFormat, Registry};
use crate::publish::commit::{Identity, Recovered, StagedFile, check_free, recover};
use crate::publish::stage::Stage;
use crate::publish::stale;
use crate::read::context::{ReadContext, purpose};
use crate::read::losses;
use crate::read::source::FileSource;
use crate::receipt;
use crate::records::checksum::{RowsChecksum, checksum, compared_types};
use crate::records::digest::{RowHasher, hashed};
use crate::records::flow::Flow;
use crate::records::rows::{self, Rows};
use crate::records::steps::{self, Origin, RecordAction};
use crate::records::write::{RecordsWritten, write};
use crate::steps::Step;
use crate::write::target::Resolved;
use arrow_schema::SchemaRef;
use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;
use tensorferry_sdk::{Context, Entry, Error, Format, Loss, Options, Purpose, Result, Side, arrow_schema};

/// Converts an input of records to a target of records. `watch` is told how many bytes there are to read,
/// before the first one moves, and asked before the output becomes visible.
///
/// # Errors
/// Whatever is wrong; nothing of the output is left then.
pub fn convert(
    source: &FileSource,
    format: &RegisteredFormat,
    target: &Resolved<'_>,
    request: &Request,
    registry: &Registry,
    session: &Session,
    watch: &dyn Watch,
) -> Result<Report> {
    let started = Instant::now();
    check_sides(request, &format.description, &target.format.description)?;
    let given = &request.reader_options;
    let options =
        request.unit.as_ref().map_or_else(|| given.clone(), |unit| unit.reader_options(format, given));
    let steps = on_records(parse(&request.steps)?)?;
    let recovered = RefCell::default();
    let read = |purpose| {
        let context = ReadContext::new(session, purpose).with_new_output(target.is_new_folder());
        let rows = rows::open(source, format, &options, &context)?;
        let bytes = rows.set.splits().iter().map(|split| split.bytes).sum();
        let through = Through { rows: &rows, steps: &steps, session };
        let target =
            Destined { target, request, registry, context: &context, session, recovered: &recovered };
        let report = target.write(&through, bytes, watch, started)?;
        rows.close()?;
        Ok(report)
    };
    let purpose = purpose(&format.description, &target.format.description);
    // Steps that leave rows unread would leave a guess unproven.
    if request.dry_run || !steps.iter().all(|step| step.action.is_row_wise()) {
        return read(purpose);
    }
    rows::read_once(purpose, session, read)
}

/// What can be made to flow, again if need be.
pub trait Flows {
    /// Has `body` pull the flow.
    ///
    /// # Errors
    /// What `body` gives.
    fn flow(&self, body: &mut dyn FnMut(&mut dyn Flow) -> Result<()>) -> Result<()>;

    /// The formats that it is read as.
    fn readers(&self) -> Vec<Used>;

    /// How many rows there will be, where that is known.
    fn rows(&self) -> Option<u64>;

    /// What is lost on the way; it grows while the flow is pulled.
    fn losses(&self) -> Vec<Loss>;

    /// The files that it comes from, and what they were when they were opened.
    fn files(&self) -> Vec<(PathBuf, Identity)>;

    /// The input that they are of, to be read again.
    fn source(&self) -> &FileSource;

    /// Checks that they are still that.
    ///
    /// # Errors
    /// Transient, naming the file that changed.
    fn check_unchanged(&self) -> Result<()>;
}

/// All rows of an input, through steps.
struct Through<'a> {
    rows: &'a Rows<'a>,
    steps: &'a [Step<RecordAction>],
    session: &'a Session,
}

impl Flows for Through<'_> {
    fn flow(&self, body: &mut dyn FnMut(&mut dyn Flow) -> Result<()>) -> Result<()> {
        std::thread::scope(|scope| {
            body(&mut *steps::make(scope, Origin::Rows(self.rows), self.steps, self.session)?)
        })
    }

    fn readers(&self) -> Vec<Used> {
        vec![Used::of(self.rows.format)]
    }

    fn rows(&self) -> Option<u64> {
        steps::count(self.steps, self.rows.known_records())
    }

    fn losses(&self) -> Vec<Loss> {
        self.rows.losses()
    }

    fn files(&self) -> Vec<(PathBuf, Identity)> {
        self.rows.source.stamped().map(|(path, identity)| (path.to_owned(), identity)).collect()
    }

    fn source(&self) -> &FileSource {
        &self.rows.source
    }

    fn check_unchanged(&self) -> Result<()> {
        self.rows.source.check_unchanged()
    }
}

/// The schema of what flows; nothing is read for it.
fn schema(flows: &dyn Flows) -> Result<SchemaRef> {
    let mut schema = None;
    flows.flow(&mut |flow| {
        schema = Some(flow.schema());
        Ok(())
    })?;
    schema.ok_or_else(|| Error::plugin("a flow that was not made"))
}

/// Where a flow goes.
pub(crate) struct Destined<'a> {
    pub(crate) target: &'a Resolved<'a>,
    pub(crate) request: &'a Request,
    pub(crate) registry: &'a Registry,
    pub(crate) context: &'a ReadContext<'a>,
    pub(crate) session: &'a Session,
    /// What dead runs had left there, over all attempts to write.
    pub(crate) recovered: &'a RefCell<Recovered>,
}

impl Destined<'_> {
    /// Writes what flows and makes it visible. `bytes`: how long the input is.
    pub(crate) fn write(
        &self,
        flows: &dyn Flows,
        bytes: u64,
        watch: &dyn Watch,
        started: Instant,
    ) -> Result<Report> {
        let Self { target, request, session, .. } = *self;
        let options =
            Options::check(&target.format.description.options, Side::Writer, &request.writer_options)?;
        let writer = target.format.format.record_writer(&options)?;
        let schema = schema(flows)?;
        let plan = writer.plan(&schema, flows.rows(), &target.target, self.context)?;
        if self.context.purpose() == Purpose::ONCE && flows.rows().is_none() && plan.files().len() > 1 {
            return Err(Error::unsupported("rows that are not counted, where each file gets as many"));
        }
        let lost = || flows.losses().into_iter().chain(plan.losses());
        let mut report = Report::of_records(request, target, lost().collect());
        report.readers = flows.readers();
        losses::check(&report.losses, request.strict, &request.allowed)?;
        if request.dry_run {
            return Ok(report.planned_records(plan.files(), flows.rows(), started, session));
        }

        let mut recovered = self.recovered.borrow_mut();
        recovered.append(recover(&target.destination)?);
        let recovered = recovered.clone();
        report.recovered(recovered.clone());
        let receipt = receipt::name_for(&target.destination);
        let names = plan.files().iter().map(String::as_str);
        let names = names.chain(request.receipt.then_some(receipt.as_str()));
        check_free(&target.destination, names, request.commit.force)?;
        let older = (!request.receipt).then(|| receipt.clone());
        let stale = stale::Search::new(&target.destination.folder, &[])?;
        let stale = stale.find(&recovered, &[], older, request.commit.force, session)?;
        let mut stage = Stage::begin_after(recovered, &target.destination)?;
        stage.supersede(stale)?;
        let columns = hashed(&schema).into_iter().flatten().collect();
        let mut hasher = request.receipt.then(|| RowHasher::new(columns, plan.files().len()));
        watch.begun(bytes);
        let mut written = RecordsWritten::default();
        flows.flow(&mut |flow| {
            written = write(flow, &*plan, flows.rows(), hasher.as_mut(), &stage, session)?;
            Ok(())
        })?;
        fault::reach("copied")?;
        report.losses = lost().chain(written.losses).collect();
        report.notes.extend(plan.notes());
        losses::check(&report.losses, request.strict, &request.allowed)?;
        fault::reach("sealed")?;
        report.records = Some(written.records);
        if request.verify {
            self.verify(flows, &stage, plan.files(), &mut report.notes)?;
            report.verified = report.records;
            fault::reach("verified")?;
        }
        let staged = plan.files().iter().map(|path| StagedFile { path: path.clone(), index: false });
        let mut staged: Vec<StagedFile> = staged.collect();
        if let Some(hasher) = &hasher {
            let conversion = RowsConversion {
                request,
                registry: self.registry,
                target,
                readers: &report.readers,
                source: flows.source(),
                lent: &self.context.lent(),
                stage: &stage,
                files: plan.files(),
                schema: &schema,
                hasher,
                report: &report,
            };
            draft_rows(&conversion, session)?.write(&stage.create(&receipt, None)?)?;
            // The last thing to become visible, and of an older output the first that goes.
            staged.push(StagedFile { path: receipt, index: true });
        }
        drop(plan);
        drop(writer);
        target.format.format.faults().check()?;
        flows.check_unchanged()?;
        self.context.check_lent()?;
        session.check_cancelled()?;
        watch.before_commit(&Ready {
            destination: &target.destination,
            writer: Used::of(target.format),
            report: &report,
            inputs: flows.files().into_iter().chain(self.context.lent_files()).collect(),
            outputs: stage.ready(&staged)?,
        })?;
        let committed = stage.commit(&staged, request.commit)?;
        Ok(report.done(&written.lens, committed, started, session))
    }

    /// Reads the staged files back, and compares their rows with those that were sent.
    fn verify(
        &self,
        flows: &dyn Flows,
        stage: &Stage,
        files: &[String],
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let Self { target, session, .. } = *self;
        let entry = match files {
            [one] => Entry::File(one.clone()),
            _ => Entry::Folder,
        };
        let written = FileSource::at(stage.path(""), entry);
        let written = rows::open(&written, target.format, &[], &ReadContext::new(session, Purpose::COMPARE))?;
        let sent = schema(flows)?;
        let (compared, left_out) = compared_types(&sent, &written.set.schema());
        let not_compared =
            |name| format!("column {name:?} was not verified: it is read back as another type");
        notes.extend(left_out.iter().map(not_compared));
        // Rows that are dealt over several files come back in another order.
        let ordered = files.len() == 1;
        let mut checksums = [RowsChecksum::default(); 2];
        let back = Through { rows: &written, steps: &[], session };
        for (sum, flows) in checksums.iter_mut().zip([flows, &back]) {
            flows.flow(&mut |flow| {
                *sum = checksum(flow, &compared, ordered)?;
                Ok(())
            })?;
        }
        let [sent, found] = checksums;
        if sent.rows != found.rows {
            let error = Error::verification("what was written has another number of records");
            return Err(error.expected(sent.rows).found(found.rows));
        }
        if sent != found {
            return Err(Error::verification("what was written are not the records that were read"));
        }
        written.close()
    }
}
