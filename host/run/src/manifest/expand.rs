//! Expands the entries of a manifest to jobs: searches folders, applies defaults, and looks up
//! formats and steps.

mod checks;
mod datasets;
mod globs;
mod outputs;
mod settings;
mod zoos;

use super::mistakes::{Mistakes, suggest};
use super::types::{Entry, JobKeys, Located, Manifest, OptionTexts, Settings};
use super::{Expanded, TakeJob};
use crate::job::Job;
use crate::template::{Fields, fill};
use datasets::FoundDataset;
use outputs::Outputs;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use tensorferry::Registry;
use tensorferry::places::{InputFolder, is_url};
use tensorferry::request::{CommitOptions, InputRequest, LossPolicy, OutputRequest, Part, Request};
use tensorferry_core::read::folder::local_path;
use tensorferry_sdk::LossKind;
use tensorferry_sdk::{OptionKind, OptionSpec, Side};
use zoos::FoundZoo;

/// Passes the valid jobs to `take` one by one, in the manifest's order. Returns the settings that
/// the jobs share. The function finds all inputs before it passes the first job, because some
/// inputs may be outputs of other jobs.
pub(super) fn expand(
    manifest: &Manifest,
    path: &Path,
    registry: &Registry,
    mistakes: &mut Mistakes,
    take: &mut TakeJob<'_>,
) -> Expanded {
    let base = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let base = base.parent().unwrap_or(Path::new("/"));
    let mut run = manifest.run.clone();
    for path in [&mut run.journal, &mut run.report].into_iter().flatten() {
        *path = absolute(base, path);
    }
    let take = &mut |job| take(&run, job);
    let defaults = &manifest.defaults;
    let outputs = Outputs::of(manifest, base, registry.session());
    let mut expansion = Expansion {
        base,
        defaults,
        registry,
        mistakes,
        take,
        outputs,
        jobs: 0,
        left_out: None,
        notes: Vec::new(),
        seen: ExpandedJobs::default(),
        datasets: BTreeSet::new(),
    };
    expansion.check(&manifest.defaults);
    let mut zoos: Vec<_> = manifest.zoo.iter().filter_map(|entry| expansion.find_zoo(entry)).collect();
    let mut datasets: Vec<_> =
        manifest.dataset.iter().filter_map(|entry| expansion.find_dataset(entry)).collect();
    expansion.note_outputs(manifest, &zoos, &datasets);
    zoos.iter_mut().for_each(|zoo| expansion.leave_outputs_of_zoo(zoo));
    datasets.iter_mut().for_each(|dataset| expansion.leave_outputs_of_dataset(dataset));
    manifest.job.iter().for_each(|entry| expansion.job(entry));
    zoos.iter().for_each(|zoo| expansion.zoo(zoo));
    datasets.into_iter().for_each(|dataset| expansion.dataset(dataset));
    expansion.check_any();
    let notes = expansion.notes;
    Expanded { run, notes }
}

struct Expansion<'a> {
    /// The folder that contains the manifest.
    base: &'a Path,
    defaults: &'a Settings,
    registry: &'a Registry,
    mistakes: &'a mut Mistakes,
    take: &'a mut dyn FnMut(Job),
    outputs: Outputs,
    /// Number of jobs that have been passed to the caller so far.
    jobs: u64,
    /// The first entry that has files in its root but no jobs, and the reason why the files are
    /// left out.
    left_out: Option<(Range<usize>, String)>,
    /// Notes about the manifest.
    notes: Vec<String>,
    seen: ExpandedJobs,
    /// The names of the datasets.
    datasets: BTreeSet<String>,
}

/// The names and outputs of the jobs that have been created so far. The names and outputs are used
/// to find duplicates. Both are stored as digests, so that the digests of a million jobs fit in
/// memory.
#[derive(Default)]
struct ExpandedJobs {
    names: HashSet<Digest>,
    /// Digests of the outputs, each with the input of its job.
    outputs: HashMap<Digest, Box<str>>,
    /// Positions of the output keys in the manifest for which a duplicate has been reported.
    told: HashSet<usize>,
    /// Source and destination folders of the sidecar files that jobs copy.
    carried: HashSet<(PathBuf, PathBuf)>,
}

/// The digest of a string.
type Digest = [u8; 16];

fn digest(text: &str) -> Digest {
    blake3::hash(text.as_bytes()).as_bytes().first_chunk().copied().unwrap_or_default()
}

impl Expansion<'_> {
    fn job(&mut self, entry: &Entry<JobKeys>) {
        let own = &entry.own;
        self.check(&entry.settings);
        let settings = entry.settings.merged_over(self.defaults);
        let Some(input) = self.input(&own.input) else { return };
        let output = absolute(self.base, own.output.get_ref());
        let request = self.request(&settings, &input, &output);
        let at = own.output.span();
        let name = own.name.clone().unwrap_or_else(|| own.output.get_ref().clone());
        self.check_sides(&request, &settings, &at);
        self.push(Job { name, request, policy: settings.policy() }, &at);
    }

    fn request(&self, settings: &Settings, input: &str, output: &str) -> Request {
        let options = |given: &Option<OptionTexts>, side| {
            let pair = |key: &String, value: &str| (key.clone(), self.option_value(key, value, side));
            let pairs = given
                .iter()
                .flatten()
                .flat_map(|(key, values)| values.0.iter().map(move |value| pair(key.get_ref(), value)));
            pairs.collect()
        };
        let id = |id: &Option<Located<String>>| id.as_ref().map(|id| id.get_ref().clone());
        let allowed = settings.allow_loss.iter().flatten();
        Request {
            input: InputRequest {
                path: input.into(),
                format: id(&settings.from),
                options: options(&settings.input_options, Side::Reader),
                part: settings.part.as_deref().map_or(Part::Auto, Part::parse),
                allow_empty: settings.allow_empty.unwrap_or(false),
                companions: settings
                    .companions
                    .as_ref()
                    .map(|globs| globs.iter().map(|glob| glob.get_ref().clone()).collect()),
                ..InputRequest::default()
            },
            steps: settings.steps.iter().flatten().map(|step| step.get_ref().0.clone()).collect(),
            output: OutputRequest {
                path: output.into(),
                format: id(&settings.to),
                options: options(&settings.output_options, Side::Writer),
                verify: settings.verify.unwrap_or(false),
                receipt: settings.receipt(),
                // Files are synced, because the journal's `done` record must still be correct after
                // a power failure.
                commit: CommitOptions { force: false, sync: true },
                earlier: Vec::new(),
            },
            losses: LossPolicy {
                strict: settings.strict.unwrap_or(false),
                allowed: allowed.filter_map(|word| LossKind::named(word.get_ref())).collect(),
            },
            dry_run: false,
        }
    }

    /// Returns the value of an option. If the value is the path of an additional input, it is
    /// resolved relative to the manifest, like all paths.
    fn option_value(&self, key: &str, value: &str, side: Side) -> String {
        let mut declared = self.registry.formats().iter().flat_map(|format| &format.description.options);
        let is_path = |option: &OptionSpec| {
            option.key == key && option.side == side && option.kind == OptionKind::Source
        };
        if declared.any(is_path) { absolute(self.base, value) } else { value.to_owned() }
    }

    fn filled(&mut self, output: &Located<String>, fields: &Fields) -> Option<String> {
        let (message, suggestion) = match fill(output.get_ref(), fields) {
            Ok(filled) => return Some(filled),
            Err(field) if field.is_empty() => (
                "unmatched brace in the template".to_owned(),
                Some("write {{ or }} for a literal brace".to_owned()),
            ),
            Err(field) => {
                let known = fields.iter().map(|(name, _)| *name);
                (format!("unknown field {{{field}}} in the template"), suggest(&field, known))
            }
        };
        self.mistakes.add(&output.span(), message, suggestion);
        None
    }

    /// Records the outputs that a search may also find as inputs.
    fn note_outputs(&mut self, manifest: &Manifest, zoos: &[FoundZoo<'_>], datasets: &[FoundDataset<'_>]) {
        for job in &manifest.job {
            let (at, output) = (job.own.output.span().start, job.own.output.get_ref());
            if let Some(path) = self.outputs.path_of(at, output) {
                let settings = job.settings.merged_over(self.defaults);
                let input = absolute(self.base, job.own.input.get_ref());
                self.outputs.add(at, &input, &path, settings.receipt().is_some());
            }
        }
        zoos.iter().for_each(|zoo| self.note_outputs_of_zoo(zoo));
        datasets.iter().for_each(|dataset| self.note_outputs_of_dataset(dataset));
    }

    /// Records the reason why an entry has no inputs left.
    fn nothing_left(&mut self, at: Range<usize>, why: String) {
        self.left_out.get_or_insert((at, why));
    }

    /// Checks that the manifest has at least one job.
    fn check_any(&mut self) {
        if self.jobs == 0
            && self.mistakes.is_empty()
            && let Some((at, why)) = self.left_out.take()
        {
            self.mistakes.add(&at, why, None);
        }
    }

    /// Passes a job to `take`. `at` is the position of the manifest key that contains the job's
    /// output.
    fn push(&mut self, job: Job, at: &Range<usize>) {
        self.check_unique(&job, at);
        self.jobs += 1;
        (self.take)(job);
    }

    /// Checks that no earlier job has the same name or output.
    fn check_unique(&mut self, job: &Job, at: &Range<usize>) {
        if !self.seen.names.insert(digest(&job.name)) {
            let suggestion = Some("set a different `name` for each".to_owned());
            self.mistakes.add(at, format!("two jobs have the name {:?}", job.name), suggestion);
        }
        let (input, output) = (job.input(), job.output().trim_end_matches('/'));
        // Duplicate outputs are reported only once for each output template.
        if let Some(other) = self.seen.outputs.insert(digest(output), input.into())
            && self.seen.told.insert(at.start)
        {
            let suggestion = "{path} and {name} together are unique; {stem} may not be";
            let message = format!("two jobs write {output}: from {other} and from {input}");
            self.mistakes.add(at, message, Some(suggestion.to_owned()));
        }
    }

    /// Checks that no two models in one folder copy the same companions to the same folder.
    fn check_companions(&mut self, job: &Job, at: &Range<usize>) {
        let (input, output) = (job.input(), job.output());
        let parent_of = |path| Path::new(path).parent().unwrap_or(Path::new("/"));
        let to = if output.ends_with('/') { Path::new(output) } else { parent_of(output) };
        let from = parent_of(input);
        if job.request.input.companions.as_ref().is_none_or(Vec::is_empty)
            || to.as_os_str().is_empty()
            || self.seen.carried.insert((from.to_owned(), to.to_owned()))
        {
            return;
        }
        let (from, to) = (from.display(), to.display());
        let message = format!("several models of {from} would copy its `companions` to {to}");
        self.mistakes.add(at, message, Some("give each model its own output folder: {path}/".to_owned()));
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Makes a path in the manifest absolute. A trailing `/` is kept.
fn absolute(base: &Path, path: &str) -> String {
    if is_url(path) {
        return path.to_owned();
    }
    let whole = base.join(local_path(Path::new(path)));
    let mut tidy = String::new();
    for part in whole.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir)) {
        tidy.push('/');
        tidy.push_str(&part.as_os_str().to_string_lossy());
    }
    if path.ends_with('/') {
        tidy.push('/');
    }
    tidy
}

/// Describes the contents of a folder in which no models were found.
fn describe_contents(folder: &InputFolder) -> String {
    let entries = folder.entries("", "", u64::MAX).unwrap_or_default();
    let names: Vec<String> = entries.into_iter().take(5).map(|entry| entry.name).collect();
    if names.is_empty() { "it is empty".to_owned() } else { format!("it holds {}", names.join(", ")) }
}

/// Suggests an existing folder whose name is similar to the last component of the path.
fn suggest_folder(path: &Path) -> Option<String> {
    let entries = std::fs::read_dir(path.parent()?).ok()?.flatten().filter(|entry| entry.path().is_dir());
    let names: Vec<String> = entries.map(|entry| file_name(&entry.path())).collect();
    suggest(&file_name(path), names.iter().map(String::as_str))
}
