//! Expanding makes jobs of a manifest's entries: zoos and data sets are searched, defaults filled in, formats, options and
//! steps looked up, and every output is one job's alone.

mod datasets;

use super::Loaded;
use super::mistakes::{Mistakes, suggest};
use super::models::{Found, Names, find};
use super::template::{Fields, fill, of_model};
use super::types::{JobEntry, Manifest, OptionText, Settings, Span, ZooEntry};
use crate::job::{Care, Conversion, Job, Timeout};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use tensorferry::engine::formats::registry::{RegisteredFormat, Registry};
use tensorferry::engine::steps;
use tensorferry::engine::write::target;
use tensorferry_sdk::{Entry, LossKind, OptionKind, OptionSpec, Options, Side};
use toml::Spanned;

type OptionTexts = BTreeMap<Spanned<String>, OptionText>;

/// The jobs, as far as they could be made out.
pub(super) fn expand(
    manifest: &Manifest,
    path: &Path,
    registry: &Registry,
    mistakes: &mut Mistakes,
) -> Loaded {
    let base = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let base = base.parent().unwrap_or(Path::new("/")).to_owned();
    let mut expansion = Expansion {
        base: &base,
        registry,
        mistakes,
        jobs: Vec::new(),
        datasets: BTreeSet::new(),
        notes: Vec::new(),
    };
    expansion.check(&manifest.defaults);
    for entry in &manifest.job {
        expansion.job(entry, &manifest.defaults);
    }
    for entry in &manifest.zoo {
        expansion.zoo(entry, &manifest.defaults);
    }
    for entry in &manifest.dataset {
        expansion.dataset(entry, &manifest.defaults);
    }
    expansion.check_apart();
    let Expansion { jobs, notes, .. } = expansion;
    let jobs = jobs.into_iter().map(|(job, _)| job).collect();
    let mut run = manifest.run.clone();
    for path in [&mut run.journal, &mut run.report].into_iter().flatten() {
        *path = below(&base, path);
    }
    Loaded { jobs, run, notes }
}

struct Expansion<'a> {
    base: &'a Path,
    registry: &'a Registry,
    mistakes: &'a mut Mistakes,
    /// With the place of what says their output.
    jobs: Vec<(Job, Range<usize>)>,
    datasets: BTreeSet<String>,
    notes: Vec<String>,
}

impl Expansion<'_> {
    fn job(&mut self, entry: &JobEntry, defaults: &Settings) {
        let own = &entry.own;
        self.check(&entry.settings);
        let settings = merged(&[defaults, &entry.settings]);
        let conversion = Conversion {
            input: below(self.base, own.input.get_ref()),
            output: below(self.base, own.output.get_ref()),
            ..self.conversion(&settings)
        };
        let at = own.output.span();
        let name = own.name.clone().unwrap_or_else(|| own.output.get_ref().clone());
        self.check_sides(&conversion, &settings, &at);
        self.jobs.push((Job { name, conversion, care: care(&settings) }, at));
    }

    fn zoo(&mut self, entry: &ZooEntry, defaults: &Settings) {
        let own = &entry.own;
        self.check(&entry.settings);
        entry.rule.iter().for_each(|rule| self.check(&rule.settings));
        let root = below(self.base, own.root.get_ref());
        let root = Path::new(&root);
        if !root.is_dir() {
            let message = format!("the root {} is no folder", root.display());
            self.mistakes.add(&own.root.span(), message, nearby(root));
            return;
        }
        let found = Names::of(self.registry).and_then(|names| find(root, &names, own.models));
        let models = match found {
            Ok(models) => models,
            Err(error) => return self.mistakes.add(&own.root.span(), error.to_string(), None),
        };
        if models.is_empty() {
            let message = "there is no model below the root";
            self.mistakes.add(&own.root.span(), message, Some(endings(&own.root, self.base)));
        }
        let include = own.include.as_ref().map(|globs| self.used(globs, &models, "model"));
        let models = self.left(models, include.as_ref(), own.exclude.as_ref());
        let rules: Vec<Option<GlobSet>> = entry
            .rule
            .iter()
            .map(|rule| self.used(std::slice::from_ref(&rule.own.matches), &models, "model"))
            .collect();
        let zoo = own.name.clone().unwrap_or_else(|| file_name(root));
        let sidecars: Vec<String> = own.sidecars.iter().map(|glob| glob.get_ref().clone()).collect();
        own.sidecars.iter().for_each(|glob| drop(self.glob(glob)));
        let mut checked: Vec<Option<usize>> = Vec::new();
        for model in &models {
            let rule = rules.iter().position(|glob| glob.as_ref().is_some_and(|glob| model.is_meant(glob)));
            let of_rule = rule.map(|rule| &entry.rule[rule]);
            let output = of_rule.and_then(|rule| rule.own.output.as_ref()).unwrap_or(&own.output);
            let none = Settings::default();
            let settings = merged(&[defaults, &entry.settings, of_rule.map_or(&none, |rule| &rule.settings)]);
            let Some(filled) = self.filled(output, &of_model(model, &zoo)) else { return };
            let conversion = Conversion {
                input: if model.is_root { root.to_owned() } else { root.join(&model.path) }
                    .display()
                    .to_string(),
                output: below(self.base, &filled),
                carry: if model.is_folder { Vec::new() } else { sidecars.clone() },
                ..self.conversion(&settings)
            };
            // Once for each rule: what is wrong is wrong for every model.
            if !checked.contains(&rule) {
                self.check_sides(&conversion, &settings, &output.span());
                checked.push(rule);
            }
            let name = format!("{zoo}/{}", model.path);
            self.jobs.push((Job { name, conversion, care: care(&settings) }, output.span()));
        }
    }

    /// What settings say of a conversion.
    fn conversion(&self, settings: &Settings) -> Conversion {
        let options = |given: &Option<OptionTexts>, side| {
            let pairs = given.iter().flatten();
            pairs
                .map(|(key, value)| (key.get_ref().clone(), self.value(key.get_ref(), &value.0, side)))
                .collect()
        };
        let id = |id: &Option<Spanned<String>>| id.as_ref().map(|id| id.get_ref().clone());
        Conversion {
            from: id(&settings.from),
            to: id(&settings.to),
            reader_options: options(&settings.reader, Side::Reader),
            writer_options: options(&settings.writer, Side::Writer),
            part: settings.part.clone().unwrap_or_else(|| "auto".to_owned()),
            steps: settings.steps.iter().flatten().map(|step| step.get_ref().0.clone()).collect(),
            strict: settings.strict.unwrap_or(false),
            allow_loss: settings.allow_loss.iter().flatten().map(|word| word.get_ref().clone()).collect(),
            ..Conversion::default()
        }
    }

    /// An option's value; one that is another input's path is relative to the manifest, as all paths are.
    fn value(&self, key: &str, value: &str, side: Side) -> String {
        let mut declared = self.registry.formats().iter().flat_map(|format| &format.description.options);
        let is_path = |option: &OptionSpec| {
            option.key == key && option.side == side && option.kind == OptionKind::Source
        };
        if declared.any(is_path) { below(self.base, value) } else { value.to_owned() }
    }

    /// What is included and not excluded.
    fn left(
        &mut self,
        all: Vec<Found>,
        include: Option<&Option<GlobSet>>,
        exclude: Option<&Vec<Spanned<String>>>,
    ) -> Vec<Found> {
        let exclude: Option<GlobSet> = exclude.and_then(|globs| {
            let globs: Option<Vec<_>> = globs.iter().map(|glob| self.glob(glob)).collect();
            set(globs?)
        });
        all.into_iter()
            .filter(|found| match include {
                None => true,
                Some(globs) => globs.as_ref().is_some_and(|globs| found.is_meant(globs)),
            })
            .filter(|found| !exclude.as_ref().is_some_and(|globs| found.is_meant(globs)))
            .collect()
    }

    /// A set of globs of which each means some model or file.
    fn used(&mut self, globs: &[Spanned<String>], models: &[Found], noun: &str) -> Option<GlobSet> {
        let mut all = Vec::new();
        for text in globs {
            let glob = self.glob(text)?;
            let one = set(vec![glob.clone()])?;
            if !models.is_empty() && !models.iter().any(|model| model.is_meant(&one)) {
                let paths = models.iter().map(|model| model.path.as_str());
                let suggestion =
                    close_glob(text.get_ref(), models).or_else(|| suggest(text.get_ref(), paths));
                self.mistakes.add(
                    &text.span(),
                    format!("{:?} matches no {noun}", text.get_ref()),
                    suggestion,
                );
            }
            all.push(glob);
        }
        set(all)
    }

    fn glob(&mut self, text: &Spanned<String>) -> Option<globset::Glob> {
        match GlobBuilder::new(text.get_ref()).literal_separator(true).build() {
            Ok(glob) => Some(glob),
            Err(error) => {
                self.mistakes.add(&text.span(), format!("not a glob: {}", error.kind()), None);
                None
            }
        }
    }

    fn filled(&mut self, output: &Spanned<String>, fields: &Fields) -> Option<String> {
        match fill(output.get_ref(), fields) {
            Ok(filled) => Some(filled),
            Err(field) if field.is_empty() => {
                self.mistakes.add(&output.span(), "a brace stands alone", Some("write {{ or }}".to_owned()));
                None
            }
            Err(field) => {
                let suggestion = suggest(&field, fields.iter().map(|(name, _)| *name));
                self.mistakes.add(&output.span(), format!("a template has no {{{field}}}"), suggestion);
                None
            }
        }
    }

    /// What can be looked up without an input.
    fn check(&mut self, settings: &Settings) {
        for (id, side, verb) in
            [(&settings.from, Side::Reader, "reads"), (&settings.to, Side::Writer, "writes")]
        {
            let Some(id) = id else { continue };
            if self.registry.format(id.get_ref(), side).is_err() {
                let able = self.registry.formats().iter().filter(|f| f.description.has(side));
                let suggestion = suggest(id.get_ref(), able.map(|format| format.description.id.as_str()));
                self.mistakes.add(&id.span(), format!("no format {verb} {:?}", id.get_ref()), suggestion);
            }
        }
        for step in settings.steps.iter().flatten() {
            if let Err(error) = steps::parse(std::slice::from_ref(&step.get_ref().0)) {
                let message = error.message();
                let message = message.strip_prefix("step 1 ").unwrap_or(message);
                self.mistakes.add(&step.span(), format!("the step {message}"), None);
            }
        }
        for word in settings.allow_loss.iter().flatten() {
            if LossKind::named(word.get_ref()).is_none() {
                let suggestion = suggest(word.get_ref(), LossKind::ALL.iter().map(|kind| kind.word()));
                self.mistakes.add(&word.span(), format!("no kind of loss {:?}", word.get_ref()), suggestion);
            }
        }
    }

    /// The output's format and the options of both sides.
    fn check_sides(&mut self, conversion: &Conversion, settings: &Settings, at: &Range<usize>) {
        let input =
            if Path::new(&conversion.input).is_dir() { Entry::Folder } else { Entry::File(String::new()) };
        let (registry, to) = (self.registry, conversion.to.as_deref());
        let is_known = |id: &Option<Spanned<String>>, side| {
            id.as_ref().is_none_or(|id| registry.format(id.get_ref(), side).is_ok())
        };
        if is_known(&settings.to, Side::Writer) {
            match target::resolve(registry, Path::new(&conversion.output), to, &input) {
                Ok(resolved) => {
                    self.options(settings.writer.as_ref(), &[resolved.format], Side::Writer);
                }
                Err(error) => {
                    let details: Vec<String> = error
                        .details()
                        .filter(|(name, _)| *name == "expected")
                        .map(|(_, text)| text)
                        .collect();
                    let suggestion = details.first().map(|ids| ids.replace("--to with", "say to ="));
                    let message = error.message().split(": say which").next().unwrap_or_default();
                    self.mistakes.add(at, message, suggestion);
                }
            }
        }
        if is_known(&settings.from, Side::Reader) {
            let readers: Vec<&RegisteredFormat> = match &settings.from {
                Some(id) => registry.format(id.get_ref(), Side::Reader).into_iter().collect(),
                None => registry.formats().iter().collect(),
            };
            self.options(settings.reader.as_ref(), &readers, Side::Reader);
        }
    }

    /// Each option must be one of some of the formats, and its value one that such a format takes.
    fn options(&mut self, given: Option<&OptionTexts>, formats: &[&RegisteredFormat], side: Side) {
        for (key, value) in given.into_iter().flatten() {
            let specs = || formats.iter().flat_map(|f| &f.description.options).filter(|o| o.side == side);
            let named: Vec<&OptionSpec> = specs().filter(|option| option.key == *key.get_ref()).collect();
            if named.is_empty() {
                let (of, ids) = match (side, formats) {
                    (Side::Reader, [one]) => ("reader", one.description.id.as_str()),
                    (Side::Reader, _) => ("reader", "any format"),
                    (Side::Writer, _) => {
                        ("writer", formats.first().map_or("", |f| f.description.id.as_str()))
                    }
                };
                let suggestion = suggest(key.get_ref(), specs().map(|option| option.key.as_str()));
                let message = format!("the {of} of {ids} has no option {:?}", key.get_ref());
                self.mistakes.add(&key.span(), message, suggestion);
                continue;
            }
            let one = [(key.get_ref().clone(), value.0.clone())];
            let errors = named.iter().map(|spec| Options::check(&[(*spec).clone()], side, &one));
            let errors: Vec<_> = errors.collect();
            if let Some(Err(error)) = errors.iter().find(|_| errors.iter().all(Result::is_err)) {
                self.mistakes.add(&key.span(), error.to_string(), None);
            }
        }
    }

    /// Names and outputs are each one job's.
    fn check_apart(&mut self) {
        let mut names: HashMap<&str, usize> = HashMap::new();
        let mut outputs: HashMap<&str, usize> = HashMap::new();
        let mut told = HashSet::new();
        for (index, (job, at)) in self.jobs.iter().enumerate() {
            if names.insert(&job.name, index).is_some() {
                let suggestion = Some("give each a name of its own".to_owned());
                self.mistakes.add(at, format!("two jobs are called {:?}", job.name), suggestion);
            }
            let output = job.conversion.output.trim_end_matches('/');
            // Once for each template.
            if let Some(other) = outputs.insert(output, index).filter(|_| told.insert(at.start)) {
                let other = &self.jobs[other].0.conversion.input;
                self.mistakes.add(
                    at,
                    format!("two jobs write {output}: of {other} and of {}", job.conversion.input),
                    Some("{path} and {name} together tell models apart; {stem} alone may not".to_owned()),
                );
            }
        }
        self.check_sidecars();
    }

    /// Models of one folder would carry the same files to the same place.
    fn check_sidecars(&mut self) {
        let mut places: HashMap<(&Path, &Path), &str> = HashMap::new();
        for (job, at) in &self.jobs {
            let Conversion { input, output, carry, .. } = &job.conversion;
            let is_folder = output.ends_with('/');
            let to = if is_folder {
                Path::new(output)
            } else {
                Path::new(output).parent().unwrap_or(Path::new("/"))
            };
            let from = Path::new(input).parent().unwrap_or(Path::new("/"));
            if carry.is_empty() || to.as_os_str().is_empty() {
                continue;
            }
            if places.insert((from, to), input).is_some() {
                let message = format!(
                    "several models of {} would carry its sidecars to {}",
                    from.display(),
                    to.display()
                );
                let suggestion = "give each model an output folder: {path}/".to_owned();
                self.mistakes.add(at, message, Some(suggestion));
            }
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A path of the manifest as an absolute one; a `/` at its end stays.
fn below(base: &Path, path: &str) -> String {
    let whole = base.join(path);
    let mut tidy = String::new();
    for part in whole.components() {
        match part {
            std::path::Component::RootDir | std::path::Component::CurDir => {}
            other => {
                tidy.push('/');
                tidy.push_str(&other.as_os_str().to_string_lossy());
            }
        }
    }
    if path.ends_with('/') {
        tidy.push('/');
    }
    tidy
}

/// Later ones come before earlier ones, key by key; of `in` and `out`, option by option.
fn merged(all: &[&Settings]) -> Settings {
    let mut merged = Settings::default();
    for &next in all {
        let Settings {
            from,
            to,
            reader,
            writer,
            part,
            steps,
            verify,
            receipt,
            strict,
            allow_loss,
            force,
            retries,
            retry_wait,
            memory_limit,
            timeout,
        } = next.clone();
        let over = |own: &mut Option<BTreeMap<_, _>>, new: Option<BTreeMap<_, _>>| {
            if let Some(new) = new {
                own.get_or_insert_default().extend(new);
            }
        };
        over(&mut merged.reader, reader);
        over(&mut merged.writer, writer);
        merged.from = from.or(merged.from);
        merged.to = to.or(merged.to);
        merged.part = part.or(merged.part);
        merged.steps = steps.or(merged.steps);
        merged.verify = verify.or(merged.verify);
        merged.receipt = receipt.or(merged.receipt);
        merged.strict = strict.or(merged.strict);
        merged.allow_loss = allow_loss.or(merged.allow_loss);
        merged.force = force.or(merged.force);
        merged.retries = retries.or(merged.retries);
        merged.retry_wait = retry_wait.or(merged.retry_wait);
        merged.memory_limit = memory_limit.or(merged.memory_limit);
        merged.timeout = timeout.or(merged.timeout);
    }
    merged
}

fn care(settings: &Settings) -> Care {
    let standard = Care::default();
    Care {
        verify: settings.verify.unwrap_or(standard.verify),
        receipt: settings.receipt.unwrap_or(standard.receipt),
        force: settings.force.unwrap_or(standard.force),
        memory: settings.memory_limit.map(|size| size.0),
        timeout: match settings.timeout {
            None => Timeout::BySize,
            Some(Span(None)) => Timeout::Never,
            Some(Span(Some(time))) => Timeout::After(time),
        },
        retries: settings.retries.unwrap_or(standard.retries),
        retry_wait: settings.retry_wait.and_then(|span| span.0).unwrap_or(standard.retry_wait),
    }
}

fn set(globs: Vec<globset::Glob>) -> Option<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(glob);
    }
    set.build().ok()
}

/// The glob with another ending, if there are models that it would match then.
fn close_glob(glob: &str, models: &[Found]) -> Option<String> {
    let (start, ending) = glob.rsplit_once('.')?;
    let endings: Vec<&str> =
        models.iter().filter_map(|model| Some(model.name().rsplit_once('.')?.1)).collect();
    let best = tensorferry::engine::context::suggest::suggest(ending, endings.iter().copied())?;
    let tried = format!("{start}.{best}");
    let one = set(vec![GlobBuilder::new(&tried).literal_separator(true).build().ok()?])?;
    models.iter().any(|model| model.is_meant(&one)).then(|| format!("did you mean {tried:?}?"))
}

/// What a folder without models does hold.
fn endings(root: &Spanned<String>, base: &Path) -> String {
    let entries = std::fs::read_dir(below(base, root.get_ref())).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.truncate(5);
    if names.is_empty() { "it is empty".to_owned() } else { format!("it holds {}", names.join(", ")) }
}

/// A folder of nearly that name beside it.
fn nearby(path: &Path) -> Option<String> {
    let parent = path.parent()?;
    let entries = std::fs::read_dir(parent).ok()?.flatten().filter(|entry| entry.path().is_dir());
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    suggest(&file_name(path), names.iter().map(String::as_str))
}
