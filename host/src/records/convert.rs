//! A conversion of records, from an opened source to a report.

use super::content::{self, Content};
use super::digest::{RowHasher, hashed};
use super::flow::Flow;
use super::rows::{self, Rows};
use super::steps::{self, Origin};
use super::write::{Written, write};
use crate::commit::{Identity, Recovered, StagedFile, check_free, recover};
use crate::convert::Request;
use crate::errand::{Errand, purpose};
use crate::fault;
use crate::losses;
use crate::plugins::{LoadedFormat, Plugins};
use crate::receipt::{self, RowsConversion, draft_rows};
use crate::report::Report;
use crate::run::Run;
use crate::sides::check_sides;
use crate::source::FileSource;
use crate::stage::Stage;
use crate::stale;
use crate::steps::{Step, parse};
use crate::target::Resolved;
use crate::watch::{Ready, Used, Watch};
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
    format: &LoadedFormat,
    target: &Resolved<'_>,
    request: &Request,
    plugins: &Plugins,
    run: &Run,
    watch: &dyn Watch,
) -> Result<Report> {
    let started = Instant::now();
    check_sides(request, &format.description, &target.format.description)?;
    let given = &request.reader_options;
    let options =
        request.unit.as_ref().map_or_else(|| given.clone(), |unit| unit.reader_options(format, given));
    let steps = parse(&request.steps)?;
    steps::check(&steps)?;
    let recovered = RefCell::default();
    let read = |purpose| {
        let errand = Errand::new(run, purpose).with_new_output(target.is_new_folder());
        let rows = rows::open(source, format, &options, &errand)?;
        let bytes = rows.set.splits().iter().map(|split| split.bytes).sum();
        let through = Through { rows: &rows, steps: &steps, run };
        let target = Destined { target, request, plugins, errand: &errand, run, recovered: &recovered };
        let report = target.write(&through, bytes, watch, started)?;
        rows.close()?;
        Ok(report)
    };
    let purpose = purpose(&format.description, &target.format.description);
    // Steps that leave rows unread would leave a guess unproven.
    if request.dry_run || !steps.iter().all(|step| steps::check_row_wise(step).is_ok()) {
        return read(purpose);
    }
    rows::read_once(purpose, run, read)
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
    ///
    /// # Errors
    /// A plugin error, if a reader cannot tell.
    fn losses(&self) -> Result<Vec<Loss>>;

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
    steps: &'a [Step],
    run: &'a Run,
}

impl Flows for Through<'_> {
    fn flow(&self, body: &mut dyn FnMut(&mut dyn Flow) -> Result<()>) -> Result<()> {
        std::thread::scope(|scope| {
            body(&mut *steps::make(scope, Origin::Rows(self.rows), self.steps, self.run)?)
        })
    }

    fn readers(&self) -> Vec<Used> {
        vec![Used::of(self.rows.format)]
    }

    fn rows(&self) -> Option<u64> {
        steps::count(self.steps, self.rows.known_records())
    }

    fn losses(&self) -> Result<Vec<Loss>> {
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
    pub(crate) plugins: &'a Plugins,
    pub(crate) errand: &'a Errand<'a>,
    pub(crate) run: &'a Run,
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
        let Self { target, request, run, .. } = *self;
        let options =
            Options::check(&target.format.description.options, Side::Writer, &request.writer_options)?;
        let writer = target.format.format.record_writer(&options)?;
        let schema = schema(flows)?;
        let mut planned = Vec::new();
        let plan = writer.plan(&schema, flows.rows(), &target.target, &mut planned, self.errand)?;
        if self.errand.purpose() == Purpose::ONCE && flows.rows().is_none() && plan.files().len() > 1 {
            return Err(Error::unsupported("rows that are not counted, where each file gets as many"));
        }
        let lost = || Ok::<_, Error>([flows.losses()?, planned.clone()].concat());
        let mut report = Report::of_records(request, target, lost()?);
        report.readers = flows.readers();
        losses::check(&report.losses, request.strict, &request.allowed)?;
        if request.dry_run {
            return Ok(report.planned_records(plan.files(), flows.rows(), started, run));
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
        let stale = stale.find(&recovered, &[], older, request.commit.force, run)?;
        let mut stage = Stage::begin_after(recovered, &target.destination)?;
        stage.supersede(stale)?;
        let columns = hashed(&schema).into_iter().flatten().collect();
        let mut hasher = request.receipt.then(|| RowHasher::new(columns, plan.files().len()));
        watch.begun(bytes);
        let mut written = Written::default();
        flows.flow(&mut |flow| {
            written = write(flow, &*plan, flows.rows(), hasher.as_mut(), &stage, run)?;
            Ok(())
        })?;
        fault::reach("copied")?;
        report.losses = [lost()?, written.losses].concat();
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
                plugins: self.plugins,
                target,
                readers: &report.readers,
                source: flows.source(),
                lent: &self.errand.lent(),
                stage: &stage,
                files: plan.files(),
                schema: &schema,
                hasher,
                report: &report,
            };
            draft_rows(&conversion, run)?.write(&stage.create(&receipt, None)?)?;
            // The last thing to become visible, and of an older output the first that goes.
            staged.push(StagedFile { path: receipt, index: true });
        }
        drop(plan);
        drop(writer);
        target.format.format.faults().check()?;
        flows.check_unchanged()?;
        self.errand.check_lent()?;
        run.check_cancelled()?;
        watch.before_commit(&Ready {
            destination: &target.destination,
            writer: Used::of(target.format),
            report: &report,
            inputs: flows.files().into_iter().chain(self.errand.lent_files()).collect(),
            outputs: stage.ready(&staged)?,
        })?;
        let committed = stage.commit(&staged, request.commit)?;
        Ok(report.done(&written.lens, committed, started, run))
    }

    /// Reads the staged files back, and compares their rows with those that were sent.
    fn verify(
        &self,
        flows: &dyn Flows,
        stage: &Stage,
        files: &[String],
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let Self { target, run, .. } = *self;
        let entry = match files {
            [one] => Entry::File(one.clone()),
            _ => Entry::Folder,
        };
        let written = FileSource::at(stage.path(""), entry);
        let written = rows::open(&written, target.format, &[], &Errand::new(run, Purpose::COMPARE))?;
        let sent = schema(flows)?;
        let (compared, left_out) = content::compared(&sent, &written.set.schema());
        let not_compared =
            |name| format!("column {name:?} was not verified: it is read back as another type");
        notes.extend(left_out.iter().map(not_compared));
        // Rows that are dealt over several files come back in another order.
        let ordered = files.len() == 1;
        let mut contents = [Content::default(); 2];
        let back = Through { rows: &written, steps: &[], run };
        for (content, flows) in contents.iter_mut().zip([flows, &back]) {
            flows.flow(&mut |flow| {
                *content = content::content(flow, &compared, ordered)?;
                Ok(())
            })?;
        }
        let [sent, found] = contents;
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
