//! Publication takes an output from its plan to where the user wants it: it is written into a stage, checked,
//! given a receipt and committed. Tensors and records go the same way.

use crate::context::ConversionContext;
use crate::earlier;
use crate::receipt::{self, Receipt};
use crate::report::Report;
use crate::watch::Ready;
use crate::write::space::check_space;
use std::path::{Path, PathBuf};
use tensorferry_core::context::fault;
use tensorferry_core::formats::used::UsedFormat;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_publish::output_bytes::FileShape;
use tensorferry_publish::remote::folder::is_refusal;
use tensorferry_publish::stage::{FileKind, StagedFile};
use tensorferry_publish::staging::{OutputPlace, Staging};
use tensorferry_publish::stale::{self, SearchedFolder, StaleFiles};
use tensorferry_sdk::{Context, Error, Result, Role};

/// What has been planned and can be written: tensors with the files that go along, or records.
pub trait PlannedOutput {
    /// Its files, but for a receipt; of those that are named as they are written, one until they are.
    fn files(&self) -> Vec<StagedFile>;

    /// Whether files are named as they are written.
    fn is_named_late(&self) -> bool {
        false
    }

    /// The names, as patterns, of files of an older output that this one makes stale.
    fn superseded(&self) -> Vec<(&str, Role)>;

    /// Whether the input is read from the file at this path.
    fn reads_from(&self, path: &Path) -> bool;

    /// How many bytes will be moved, as the progress counts them.
    fn bytes(&self) -> u64;

    /// How long the output will be, where that is known.
    fn known_len(&self) -> Option<u64>;

    /// Writes the files; gives their lengths, in the order of [`files`](Self::files).
    fn write(&mut self, stage: &dyn Staging, report: &mut Report) -> Result<Vec<u64>>;

    /// Takes the digests of the content that was read, if that has not been done on the way.
    fn digest(&mut self) -> Result<()>;

    /// Reads what was written back and compares it with what was read.
    fn verify(&self, stage: &dyn Staging, report: &mut Report) -> Result<()>;

    /// The receipt of what was read and written.
    fn receipt(&self, stage: &dyn Staging, report: &Report) -> Result<Receipt>;
}

/// An output that is written and checked, and only has to become visible.
pub struct StagedOutput<'a> {
    context: &'a ConversionContext<'a>,
    stage: Box<dyn Staging>,
    files: Vec<StagedFile>,
    lens: Vec<u64>,
    report: Report,
    /// Files of an earlier output that are proven to be ours, and what they were then.
    proven: Vec<(String, FileIdentity)>,
}

/// Writes an output into a stage beside its destination, with all that was asked for: verified, with a receipt.
pub fn stage<'a>(
    context: &'a ConversionContext<'a>,
    output: &mut dyn PlannedOutput,
    mut report: Report,
) -> Result<StagedOutput<'a>> {
    let asked = &context.request.output;
    let destination = &context.target.destination;
    let receipt = receipt::name_for(destination);
    let mut files = output.files();
    let place = OutputPlace::of(destination, context.session)?;

    let mut recovered = context.recovered.borrow_mut();
    recovered.append(place.recover()?);
    report.recovered(recovered.clone());
    drop(recovered);
    let names = files.iter().map(|file| file.path.as_str());
    let names = names.chain(asked.receipt.map(|_| receipt.as_str()));
    place.check_free(names, asked.commit.force)?;
    if let (OutputPlace::Local(destination), Some(len)) = (&place, output.known_len()) {
        check_space(&destination.folder, len)?;
    }
    let older = older_receipt(context, &place, &receipt);
    let mut proven = Vec::new();
    let stale = stale_files(context, output, &place, &files, older.clone())?;
    if asked.verify || asked.receipt.is_some() {
        refuse_to_replace_inputs(context, output, &place, &files)?;
    }
    let mut stage = place.begin(asked.commit.force)?;
    if !output.is_named_late() {
        let stale = with_earlier(context, output, &place, &files, stale, &mut proven)?;
        replace(context, &mut *stage, stale)?;
    }
    context.watch.begun(output.bytes());

    let lens = output.write(&*stage, &mut report)?;
    if output.is_named_late() {
        files = output.files();
        place.check_free(files.iter().map(|file| file.path.as_str()), asked.commit.force)?;
        let stale = stale_files(context, output, &place, &files, older)?;
        let stale = with_earlier(context, output, &place, &files, stale, &mut proven)?;
        replace(context, &mut *stage, stale)?;
    }
    stage.finish(context.session)?;
    fault::reach("sealed")?;
    if asked.receipt.is_some() {
        output.digest()?;
    }
    let receipt_file = asked.receipt.map(|_| StagedFile::new(&*receipt, FileKind::Receipt));
    if asked.verify || asked.receipt.is_some() {
        if stage.is_remote() {
            context.watch.before_visible(stage.ready(&files)?)?;
        }
        // The receipt, too: that of an older output goes first.
        stage.make_readable(&files.iter().cloned().chain(receipt_file.clone()).collect::<Vec<_>>())?;
    }
    if asked.verify {
        output.verify(&*stage, &mut report)?;
        fault::reach("verified")?;
    }
    if let Some(file) = receipt_file {
        let text = output.receipt(&*stage, &report)?.text()?;
        stage.create(&receipt, FileShape::of_len(text.len() as u64))?.write_all_at(&text, 0)?;
        stage.finish(context.session)?;
        // The last thing to become visible, and of an older output the first that goes.
        files.push(file);
    }
    Ok(StagedOutput { context, stage, files, lens, report, proven })
}

/// Files of an older output, `older` among them.
fn stale_files(
    context: &ConversionContext<'_>,
    output: &dyn PlannedOutput,
    place: &OutputPlace<'_>,
    files: &[StagedFile],
    older: Option<StagedFile>,
) -> Result<StaleFiles> {
    let folder = match place {
        OutputPlace::Local(destination) => {
            SearchedFolder::Local(&destination.folder, context.session.folders())
        }
        OutputPlace::Remote(folder) => SearchedFolder::Remote(folder),
    };
    let search = stale::Search::new(folder, output.superseded(), files)?;
    let found = search.find(older, context.request.output.commit.force, |path| output.reads_from(path));
    match (found, place) {
        (Err(error), OutputPlace::Remote(_)) if is_refusal(error.kind()) => {
            context.session.note(&format!("older files of such an output were not looked for: {error}"));
            Ok(StaleFiles::default())
        }
        (found, _) => found,
    }
}

/// The stale files with those of an earlier output that the new one does not bring, whatever their names; `proven`: what is known of these.
fn with_earlier(
    context: &ConversionContext<'_>,
    output: &dyn PlannedOutput,
    place: &OutputPlace<'_>,
    files: &[StagedFile],
    mut stale: StaleFiles,
    proven: &mut Vec<(String, FileIdentity)>,
) -> Result<StaleFiles> {
    let is_settled = |name: &str| {
        files.iter().any(|file| file.path == name)
            || stale.has(name)
            || output.reads_from(&place.path_of(name))
    };
    let found = earlier::find(context, place, &is_settled)?;
    for (file, identity) in found.proven {
        proven.push((file.path.clone(), identity));
        stale.gone.push(file);
    }
    found.unproven.into_iter().for_each(|name| stale.keep(name));
    Ok(stale)
}

/// An object that is read may be replaced when it has been read, and not before what replaces it was compared with it.
fn refuse_to_replace_inputs(
    context: &ConversionContext<'_>,
    output: &dyn PlannedOutput,
    place: &OutputPlace<'_>,
    files: &[StagedFile],
) -> Result<()> {
    let OutputPlace::Remote(folder) = place else { return Ok(()) };
    let own = files.iter().map(|file| folder.url(&file.path)).find(|url| output.reads_from(url));
    own.map_or(Ok(()), |url| {
        Err(Error::usage("the input would be replaced before the output is verified, or its receipt written")
            .file(url.display().to_string())
            .expected(format!("another name than {}", context.target.output.display())))
    })
}

/// Has those files of an older output go that do, when the new ones come, and says what stays.
fn replace(context: &ConversionContext<'_>, stage: &mut dyn Staging, stale: StaleFiles) -> Result<()> {
    stale.note().iter().for_each(|note| context.session.note(note));
    stage.supersede(stale.gone)
}

/// The receipt of an older output, where the new one gets none. What is no receipt is somebody else's file.
fn older_receipt(context: &ConversionContext<'_>, place: &OutputPlace<'_>, name: &str) -> Option<StagedFile> {
    let limits = &context.session.limits;
    let is_there = || match place {
        OutputPlace::Local(destination) => Receipt::is_at(&destination.folder.join(name), limits),
        OutputPlace::Remote(folder) => {
            folder.read_small(name, limits.header_bytes).is_some_and(|text| Receipt::is_one(&text))
        }
    };
    let is_stale = context.request.output.receipt.is_none() && is_there();
    is_stale.then(|| StagedFile::new(name, FileKind::Receipt))
}

impl StagedOutput<'_> {
    /// Makes the output visible. `inputs`: every file that was read, and what it was then.
    pub fn commit(self, inputs: Vec<(PathBuf, FileIdentity)>) -> Result<Report> {
        let Self { context, mut stage, files, lens, report, proven } = self;
        context.session.check_cancelled()?;
        context.watch.before_commit(&Ready {
            destination: &context.target.destination,
            writer: UsedFormat::of(context.target.format),
            report: &report,
            inputs,
            outputs: stage.ready(&files)?,
        })?;
        let place = OutputPlace::of(&context.target.destination, context.session)?;
        for (name, identity) in proven {
            // Whoever wrote it since keeps it.
            if earlier::identity(context, &place, &name) != Some(identity) {
                stage.spare(&name);
            }
        }
        let committed = stage.commit(&files, context.request.output.commit)?;
        Ok(report.done(&lens, committed, context.started, context.session))
    }
}
