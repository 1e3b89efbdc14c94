//! A conversion, from what the user typed to a report: the way of the data, one call for each step.
//!
//! ```text
//! input --open--> Source --probe--> Format --read--> Catalog --select--> Catalog
//!       --plan--> Layout --copy--> staged files + digests --seal--> verify --> commit --> Report
//! ```

use crate::commit::{CommitOptions, StagedFile, check_free, recover};
use crate::copy::copy;
use crate::errand::{Errand, purpose};
use crate::fault;
use crate::input;
use crate::logical::Logical;
use crate::losses;
use crate::part::Part;
use crate::plan::{Planned, plan};
use crate::plugins::Plugins;
use crate::probe::probe;
use crate::report::Report;
use crate::run::Run;
use crate::seal::seal;
use crate::select::select;
use crate::sidecars::{self, Sidecars};
use crate::sides::check_sides;
use crate::source::FileSource;
use crate::space::check_space;
use crate::stage::Stage;
use crate::stored::Stored;
use crate::target;
use crate::verify::verify;
use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;
use tensorferry_sdk::{Content, Context, Layout, LossKind, Result, Role, Source};

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
    /// `--verify`.
    pub verify: bool,
    /// `--strict`.
    pub strict: bool,
    /// `--allow-loss`.
    pub allowed: Vec<LossKind>,
    /// `--dry-run`.
    pub dry_run: bool,
    /// `--force`, `--sync`.
    pub commit: CommitOptions,
}

/// Converts. `begun` is told how many bytes there will be, before the first one moves.
///
/// # Errors
/// Whatever is wrong; nothing of the output is left then.
pub fn convert(request: &Request, plugins: &Plugins, run: &Run, begun: &dyn Fn(u64)) -> Result<Report> {
    let started = Instant::now();
    let source = FileSource::open(&request.input)?;
    let format = probe(plugins, &source, request.from.as_deref(), run)?;
    let target = target::resolve(plugins, &request.output, request.to.as_deref(), source.entry())?;
    check_sides(request, &format.description, &target.format.description)?;
    let errand = Errand::new(run, purpose(&format.description, &target.format.description))
        .with_new_output(target.is_new_folder());
    let input = input::read(source, format, &request.reader_options, &errand)?;
    let selected = select(&input.catalog, &request.part, &target.format.description)?;

    let stored = Stored::new(&input, &selected.catalog, run, target.spill());
    let logical = Logical::new(&selected.catalog, &stored);
    let Planned { layout, plan, losses } = plan(&target, &request.writer_options, &logical, &errand)?;
    let sidecars = sidecars::find(&input.source, plugins, &target, &layout)?;
    let losses = selected.losses.iter().chain(&losses).chain(sidecars.losses()).cloned();
    let mut report = Report::new(request, &target, losses, &logical, &layout);
    losses::check(&report.losses, request.strict, &request.allowed)?;
    if request.dry_run {
        return Ok(report.planned(&layout, started, run));
    }

    report.recovered(recover(&target.destination)?);
    let names = layout.files().iter().map(|file| file.path.as_str()).chain(sidecars.names());
    check_free(&target.destination, names, request.commit.force)?;
    check_space(&target.destination.folder, layout.copied_bytes())?;
    let stage = Stage::begin(&target.destination)?;
    let files = create_files(&stage, &layout)?;
    begun(layout.copied_bytes());
    let copied = copy(&layout, &*plan, &logical, &files, request.commit.sync)?;
    fault::reach("copied")?;
    let mut lens = seal(&layout, &*plan, &copied, &files)?;
    lens.extend(sidecars.copy(&input.source, &stage, run)?);
    fault::reach("sealed")?;
    if request.verify {
        report.verified = Some(verify(&stage, &target, &logical, &layout, run)?);
        fault::reach("verified")?;
    }
    drop((plan, files));
    target.format.format.faults().check()?;
    drop(stored);
    input.close()?;
    errand.check_lent()?;
    run.check_cancelled()?;
    let committed = stage.commit(&staged_files(&layout, &sidecars), request.commit)?;
    Ok(report.done(&lens, committed, started, run))
}

fn create_files(stage: &Stage, layout: &Layout) -> Result<Vec<File>> {
    let create = |file: &tensorferry_sdk::OutputFile| {
        let known = matches!(file.content, Content::Copied(_)).then_some(file.len);
        stage.create(&file.path, known)
    };
    layout.files().iter().map(create).collect()
}

fn staged_files(layout: &Layout, sidecars: &Sidecars) -> Vec<StagedFile> {
    let output = |file: &tensorferry_sdk::OutputFile| StagedFile {
        path: file.path.clone(),
        index: file.role == Role::Index,
    };
    let sidecar = |name: &str| StagedFile { path: name.to_owned(), index: false };
    layout.files().iter().map(output).chain(sidecars.names().map(sidecar)).collect()
}
