//! A conversion, from what the user typed to a report: the way of the data, one call for each step.
//! Most inputs are one model; of a folder with several, each goes the same way, into one commit.
//!
//! ```text
//! input --open--> Source --probe--> Format --read--> Catalog --select--> Catalog
//!       --plan--> Layout --copy--> staged files + digests --seal--> verify --> commit --> Report
//! ```

use super::receipts::draft::{Conversion, TensorDigests, digests_of, draft};
use super::tensors_to_records;
use crate::bridge;
use crate::context::fault;
use crate::context::session::Session;
use crate::convert::models;
use crate::convert::report::Report;
use crate::convert::sidecars::{self, Sidecars};
use crate::convert::watch::{Ready, Watch};
use crate::formats::probe::probe;
use crate::formats::registry::Registry;
use crate::formats::used::UsedFormat;
use crate::publish::commit::{CommitOptions, check_free, recover_seeing};
use crate::publish::stage::{Stage, StagedFile};
use crate::publish::stale;
use crate::read::identity::FileIdentity;
use crate::read::losses;
use crate::read::model::Model;
use crate::read::part::Part;
use crate::read::source::FileSource;
use crate::read::unit::Unit;
use crate::receipt;
use crate::records::rows::holds_records;
use crate::steps;
use crate::steps::adapt::{Selected, select};
use crate::tensors::logical::Logical;
use crate::tensors::stored::Stored;
use crate::tensors::tally;
use crate::write::copy::copy;
use crate::write::plan::{Planned, plan};
use crate::write::seal::seal;
use crate::write::space::check_space;
use crate::write::target;
use crate::write::verify::verify;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tensorferry_sdk::{Content, Context, Entry, Layout, LossKind, Result, Role, Source};

/// What the user asked for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// INPUT.
    pub input: PathBuf,
    /// OUTPUT.
    pub output: PathBuf,
    /// `--from`.
    pub from: Option<String>,
    /// `--to`.
    pub to: Option<String>,
    /// `-i`.
    pub reader_options: Vec<(String, String)>,
    /// `-o`.
    pub writer_options: Vec<(String, String)>,
    /// `--part`.
    pub part: Part,
    /// `--step`.
    pub steps: Vec<String>,
    /// `--verify`.
    pub verify: bool,
    /// `--receipt`.
    pub receipt: bool,
    /// `--strict`.
    pub strict: bool,
    /// `--allow-loss`.
    pub allowed: Vec<LossKind>,
    /// Of a data set, the files that are the input.
    pub unit: Option<Unit>,
    /// Names beside an input file that go along with it: globs.
    pub carry: Vec<String>,
    /// `--dry-run`.
    pub dry_run: bool,
    /// `--force`, `--sync`.
    pub commit: CommitOptions,
}

impl Request {
    /// What the output goes by where its name leaves open whether it is a folder. A data set's template
    /// says it, however many files a unit has.
    fn entry<'a>(&self, source: &'a FileSource) -> &'a Entry {
        static FILE: Entry = Entry::File(String::new());
        if self.unit.is_some() { &FILE } else { source.entry() }
    }
}

/// Converts. `watch` is told how many bytes there will be, before the first one moves, and asked
/// before the output becomes visible.
///
/// # Errors
/// Whatever is wrong; nothing of the output is left then.
pub fn convert(
    request: &Request,
    registry: &Registry,
    session: &Session,
    watch: &dyn Watch,
) -> Result<Report> {
    let started = Instant::now();
    let steps = steps::parse(&request.steps)?;
    let source =
        request.unit.as_ref().map_or_else(|| FileSource::open(&request.input), |unit| Ok(unit.source()))?;
    let folder = source.folder().to_owned();
    let target = target::resolve(registry, &request.output, request.to.as_deref(), request.entry(&source))?;
    let writes_records = holds_records(&target.format.description);
    let (models, steps) = match probe(registry, &source, request.from.as_deref(), session) {
        Ok(format) if holds_records(&format.description) && writes_records => {
            return super::records::convert(&source, format, &target, request, registry, session, watch);
        }
        Ok(format) if holds_records(&format.description) => {
            let divided = bridge::steps::to_tensors(steps)?;
            (vec![models::of_records(&source, format, &divided, &target, request, session)?], divided.tensors)
        }
        // Whatever probing finds wrong, reading says of the models that there are.
        probed if writes_records => {
            let divided = bridge::steps::to_records(steps)?;
            let models = models::read(&source, probed, registry, &target, request, session)?;
            let asked =
                tensors_to_records::Asked { request, divided: &divided, folder: &folder, target: &target };
            return tensors_to_records::convert(models, &asked, registry, session, watch, started);
        }
        probed => (models::read(&source, probed, registry, &target, request, session)?, steps),
    };
    let selected: Vec<Selected> = models
        .iter()
        .map(|model| select(&model.input.catalog, &request.part, &steps, &target.format.description))
        .collect::<Result<_>>()?;

    let stored: Vec<Stored<'_>> = models
        .iter()
        .zip(&selected)
        .map(|(model, selected)| Stored::new(&model.input, &selected.catalog, session, target.spill()))
        .collect();
    let logical: Vec<Logical<'_>> =
        selected.iter().zip(&stored).map(|(s, stored)| Logical::new(&s.catalog, stored)).collect();
    let planned: Vec<Planned> = models
        .iter()
        .zip(&logical)
        .map(|(model, logical)| plan(&target, &request.writer_options, model, logical))
        .collect::<Result<_>>()?;
    let layouts: Vec<&Layout> = planned.iter().map(|planned| &planned.layout).collect();
    let mut sidecars = sidecars::find(&folder, &models, &request.carry, registry, &target, &layouts)?;
    for (model, logical) in models.iter().zip(&logical) {
        sidecars.follow_casts(&folder, model, logical.catalog())?;
    }
    let lost = models.iter().zip(&selected).zip(&planned).flat_map(|((model, selected), planned)| {
        selected.losses.iter().chain(&planned.losses).map(|loss| model.place(loss))
    });
    let lost = lost.chain(sidecars.losses().iter().cloned()).collect();
    let mut report = Report::new(request, &target, lost, &logical, &layouts);
    report.notes.extend(selected.iter().flat_map(|selected| selected.notes.iter().cloned()));
    report.notes.extend_from_slice(sidecars.notes());
    report.notes.extend(bridge::advice(&models, &planned, &logical));
    report.readers = UsedFormat::all(models.iter().map(|model| &model.input.format));
    losses::check(&report.losses, request.strict, &request.allowed)?;
    if request.dry_run {
        report.notes.extend(tally::foresee(&logical)?);
        return Ok(report.planned(&target.target, &layouts, started, session));
    }

    let mut staged = staged_files(&layouts, &sidecars);
    let patterns = layouts.iter().flat_map(|layout| layout.superseded());
    let patterns = patterns.map(|(pattern, role)| (pattern.as_str(), *role));
    let mut stale = stale::Search::new(&target.destination.folder, patterns, &staged)?;
    let recovered = recover_seeing(&target.destination, &mut |folder, name| stale.see(folder, name))?;
    report.recovered(recovered.clone());
    let names = layouts.iter().flat_map(|layout| layout.files()).map(|file| file.path.as_str());
    let receipt = receipt::name_for(&target.destination);
    let names = names.chain(sidecars.names()).chain(request.receipt.then_some(receipt.as_str()));
    check_free(&target.destination, names, request.commit.force)?;
    let bytes = layouts.iter().map(|layout| layout.copied_bytes()).sum();
    check_space(&target.destination.folder, bytes)?;
    let older = older_receipt(request, &target.destination.folder.join(&receipt), &receipt, session);
    let is_input = |path: &Path| models.iter().any(|model| model.input.source.has_opened(path));
    let stale = stale.find(&recovered, older, request.commit.force, is_input, session)?;
    let mut stage = Stage::begin(&target.destination)?;
    stage.supersede(stale)?;
    watch.begun(bytes);
    let mut lens = Vec::new();
    for ((Planned { layout, plan, .. }, logical), model) in planned.iter().zip(&logical).zip(&models) {
        let files = create_files(&stage, layout)?;
        let copied = copy(layout, &**plan, logical, &files, request.commit.sync)?;
        fault::reach("copied")?;
        report.losses.extend(copied.losses.iter().map(|loss| model.place(loss)));
        losses::check(&report.losses, request.strict, &request.allowed)?;
        lens.extend(seal(layout, &**plan, &copied, &files)?);
    }
    lens.extend(sidecars.copy(&folder, &stage, session)?);
    fault::reach("sealed")?;
    let digests =
        if request.receipt { logical.iter().map(digests_of).collect::<Result<_>>()? } else { Vec::new() };
    if request.verify {
        for (index, ((model, logical), layout)) in models.iter().zip(&logical).zip(&layouts).enumerate() {
            let known = digests.get(index).map(|known: &TensorDigests| &*known.content);
            let verified = verify(&stage, &target, model, logical, layout, known, session)?;
            report.verified = Some(report.verified.unwrap_or(0) + verified);
        }
        fault::reach("verified")?;
    }
    if request.receipt {
        let conversion = Conversion {
            request,
            registry,
            target: &target,
            models: &models,
            logical: &logical,
            layouts: &layouts,
            digests: &digests,
            sidecars: &sidecars,
            folder: &folder,
            stage: &stage,
            report: &report,
        };
        draft(&conversion, session)?.write(&stage.create(&receipt, None)?)?;
        // The last thing to become visible, and of an older output the first that goes.
        staged.push(StagedFile { path: receipt, index: true });
    }
    drop(planned);
    target.format.check_faults()?;
    drop(stored);
    let mut inputs: Vec<(PathBuf, FileIdentity)> = models.iter().flat_map(Model::files).collect();
    inputs.extend(sidecars.files(&folder)?);
    models.into_iter().try_for_each(Model::close)?;
    session.check_cancelled()?;
    watch.before_commit(&Ready {
        destination: &target.destination,
        writer: UsedFormat::of(target.format),
        report: &report,
        inputs,
        outputs: stage.ready(&staged)?,
    })?;
    let committed = stage.commit(&staged, request.commit)?;
    Ok(report.done(&lens, committed, started, session))
}

/// An older output's receipt that goes, since the new output gets none. What is no receipt is somebody else's
/// file.
pub(crate) fn older_receipt(
    request: &Request,
    path: &Path,
    name: &str,
    session: &Session,
) -> Option<StagedFile> {
    let is_stale = !request.receipt && receipt::Receipt::is_at(path, &session.limits);
    is_stale.then(|| StagedFile { path: name.to_owned(), index: true })
}

fn create_files(stage: &Stage, layout: &Layout) -> Result<Vec<File>> {
    let create = |file: &tensorferry_sdk::OutputFile| {
        let known = matches!(file.content, Content::Copied(_)).then_some(file.len);
        stage.create(&file.path, known)
    };
    layout.files().iter().map(create).collect()
}

fn staged_files(layouts: &[&Layout], sidecars: &Sidecars) -> Vec<StagedFile> {
    let output = |file: &tensorferry_sdk::OutputFile| StagedFile {
        path: file.path.clone(),
        index: file.role == Role::Index,
    };
    let sidecar = |name: &str| StagedFile { path: name.to_owned(), index: false };
    let files = layouts.iter().flat_map(|layout| layout.files()).map(output);
    files.chain(sidecars.names().map(sidecar)).collect()
}
