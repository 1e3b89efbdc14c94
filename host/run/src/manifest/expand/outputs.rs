//! Records a manifest's outputs, so that one run's outputs do not become inputs of the next run.
//!
//! - A template may contain the path of a folder before its first field. If this folder is inside
//!   the root, it is not searched.
//! - In other folders, an input counts as an output in two cases. Either a different input of the
//!   manifest is written to the path of this input, or its own job writes to this path. In both
//!   cases, there must also be a receipt next to the input, unless the manifest's outputs have no
//!   receipts.
//! - A root may deliberately be inside an output folder: the root then contains the outputs of a
//!   different entry.

use super::{Digest, absolute, digest};
use crate::manifest::input_path::InputPath;
use crate::manifest::types::{Located, Manifest};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use tensorferry::Session;
use tensorferry::places::{InputFolder, is_url};

/// The folder that contains the outputs of a template, or the output of a single job.
struct OutputPlace {
    /// The template's text up to the last slash before its first field.
    text: String,
    /// The path of the folder in `text`, with links resolved.
    folder: String,
    /// The folder that contains the inputs of the manifest entry.
    root: String,
    /// Whether the output folder contains only outputs.
    is_theirs: bool,
    /// Whether the root of a manifest entry is this folder or is inside it. In this case, a search
    /// may find the outputs as inputs.
    is_near: bool,
}

/// The job that writes an output.
struct Writer {
    input: Digest,
    /// The position of the entry's output key in the manifest's text.
    at: usize,
    has_receipt: bool,
}

#[derive(Default)]
pub(super) struct Outputs {
    /// The output folders, keyed by the position of the output key in the manifest's text.
    places: BTreeMap<usize, OutputPlace>,
    /// The outputs that may be inside a root, keyed by a digest of their path.
    written: HashMap<Digest, Writer>,
    journal: Option<String>,
}

/// An input that a search found and that may be an output.
pub(super) struct Candidate<'a> {
    /// The path of the input's root, as returned by [`real_path`].
    pub(super) root: &'a str,
    pub(super) input: &'a InputPath,
    /// The output of the input's job, as returned by [`Outputs::path_of`].
    pub(super) output: Option<&'a str>,
    /// Paths in the root that have a receipt.
    pub(super) receipts: &'a HashSet<String>,
}

impl Outputs {
    /// Collects the folders of a manifest's outputs.
    pub(super) fn of(manifest: &Manifest, base: &Path, session: &Session) -> Self {
        let journal = manifest.run.journal.as_ref().map(|journal| absolute(base, journal));
        let mut outputs = Self { journal, ..Self::default() };
        let mut folders = Folders { session, known: HashMap::new() };
        let mut root_of = |root: &Located<String>| folders.real(&absolute(base, root.get_ref()));
        let zoos: Vec<(&_, String)> =
            manifest.zoo.iter().map(|zoo| (&zoo.own, root_of(&zoo.own.root))).collect();
        let datasets: Vec<(&_, String)> =
            manifest.dataset.iter().map(|dataset| (&dataset.own, root_of(&dataset.own.root))).collect();
        let roots: Vec<&str> =
            zoos.iter().map(|(_, root)| &**root).chain(datasets.iter().map(|(_, root)| &**root)).collect();
        if roots.is_empty() {
            return outputs;
        }
        let any_elsewhere = roots.iter().any(|root| is_url(root));
        let mut add =
            |output: &Located<String>, root: &dyn Fn(&mut Folders<'_>) -> String, is_template: bool| {
                let whole = output.get_ref();
                let (text, is_theirs) = fixed_folder(whole, is_template);
                if is_url(whole) && !any_elsewhere {
                    return;
                }
                let folder = folders.existing(&absolute(base, if text.is_empty() { "." } else { text }));
                if let Some(folder) = folder {
                    let is_near = roots.iter().any(|root| is_within(root, &folder));
                    let (text, root) = (text.to_owned(), root(&mut folders));
                    let place = OutputPlace { text, folder, root, is_theirs, is_near };
                    outputs.places.insert(output.span().start, place);
                }
            };
        for job in &manifest.job {
            let input = absolute(base, job.own.input.get_ref());
            let folder = input.trim_end_matches('/').rsplit_once('/').map_or("/", |(folder, _)| folder);
            add(&job.own.output, &|folders| folders.real(folder), false);
        }
        for (zoo, root) in &zoos {
            let of_rules = zoo.rule.iter().filter_map(|rule| rule.own.output.as_ref());
            of_rules.chain([&zoo.output]).for_each(|output| add(output, &|_| root.clone(), true));
        }
        for (dataset, root) in &datasets {
            add(&dataset.output, &|_| root.clone(), true);
        }
        outputs
    }

    /// Returns the folders of outputs that are inside a root, as paths relative to the root.
    /// Folders that also contain the inputs of these outputs are not included.
    pub(super) fn folders_below(&self, root: &str) -> HashSet<String> {
        let is_theirs = |place: &&OutputPlace| place.is_theirs && !is_within(&place.root, &place.folder);
        let theirs = self.places.values().filter(is_theirs);
        theirs.filter_map(|place| below(&place.folder, root)).map(str::to_owned).collect()
    }

    /// Returns whether inputs found in a root may be outputs.
    pub(super) fn may_be_in(&self, root: &str) -> bool {
        let overlap = |place: &OutputPlace| {
            is_within(root, &place.folder) || (!place.is_theirs && is_within(&place.folder, root))
        };
        self.journal.is_some() || self.places.values().any(overlap)
    }

    /// Returns whether a search may find outputs as inputs. `at` is the position of their output
    /// key in the manifest.
    pub(super) fn is_near(&self, at: usize) -> bool {
        self.places.get(&at).is_some_and(|place| place.is_near)
    }

    /// Returns the path of an output. `at` is the position of its output key in the manifest, and
    /// `filled` is the template with its fields filled in. Returns `None` if a search cannot find
    /// the output as an input.
    pub(super) fn path_of(&self, at: usize, filled: &str) -> Option<String> {
        let place = self.places.get(&at)?;
        Some(below_folder(&place.folder, filled.strip_prefix(&place.text)?))
    }

    /// Records that a job writes an output. `at` is the position of the output key in the manifest.
    pub(super) fn add(&mut self, at: usize, input: &str, output: &str, has_receipt: bool) {
        let input = digest(input);
        if input != digest(output) {
            self.written.entry(digest(output)).or_insert(Writer { input, at, has_receipt });
        }
    }

    /// Returns whether an input is an output of an earlier run, or is inside such an output.
    pub(super) fn has(&self, candidate: &Candidate<'_>) -> bool {
        let Candidate { root, input, output, receipts } = candidate;
        if input.is_root {
            return false;
        }
        let own = below_folder(root, &input.path);
        if self.journal.as_ref() == Some(&own) {
            return true;
        }
        let folders = input.path.match_indices('/').map(|(end, _)| &input.path[..end]);
        folders.chain([&*input.path]).chain(input.whole.as_deref()).any(|path| {
            let whole = below_folder(root, path);
            let has_receipt = receipts.contains(path) || receipts.contains(&format!("{path}/receipt"));
            if has_receipt && output.is_some_and(|output| output == whole) {
                return true;
            }
            let writer = self.written.get(&digest(&whole));
            let writer = writer.filter(|writer| writer.input != digest(&own) && !self.feeds(writer, root));
            // If each of two inputs is converted to the other's path, only a receipt shows which of
            // them is an output.
            writer.is_some_and(|writer| {
                has_receipt
                    || (!writer.has_receipt && !output.is_some_and(|output| digest(output) == writer.input))
            })
        })
    }

    /// Returns whether a root is inside the output folder of an entry whose inputs are outside this
    /// folder.
    fn feeds(&self, writer: &Writer, root: &str) -> bool {
        let place = self.places.get(&writer.at);
        place.is_some_and(|place| is_within(root, &place.folder) && !is_within(&place.root, &place.folder))
    }
}

/// Returns a folder's path with links resolved. For a remote folder, returns its URL.
pub(super) fn real_path(folder: &InputFolder) -> Option<String> {
    let path = if folder.is_local() { folder.path().canonicalize().ok()? } else { folder.path().to_owned() };
    Some(path.to_str()?.trim_end_matches('/').to_owned())
}

/// Resolved paths of folders, keyed by their paths in the manifest. Each path is resolved only
/// once, because many outputs of a manifest may be in the same folder.
struct Folders<'a> {
    session: &'a Session,
    known: HashMap<String, Option<String>>,
}

impl Folders<'_> {
    /// Returns the path of a folder with links resolved, if the folder exists.
    fn existing(&mut self, path: &str) -> Option<String> {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let folder = InputFolder::at(Path::new(path), self.session).ok();
        let found = folder.and_then(|folder| real_path(&folder));
        self.known.insert(path.to_owned(), found.clone());
        found
    }

    fn real(&mut self, path: &str) -> String {
        self.existing(path).unwrap_or_else(|| path.to_owned())
    }
}

/// Returns the folder in a template before its first field, and whether this folder contains only
/// outputs. A template without fields is the path of a single output or of a folder for all
/// outputs.
fn fixed_folder(text: &str, is_template: bool) -> (&str, bool) {
    if is_template && is_folder(text) {
        return (text.trim_end_matches('/'), true);
    }
    let field = text.find(['{', '}']).filter(|_| is_template);
    let folder = match text[..field.unwrap_or(text.len())].rfind('/') {
        Some(0) => "/",
        Some(end) => &text[..end],
        None => "",
    };
    (folder, field.is_some())
}

/// Returns whether an output template is a folder for all models. Such a template has no fields and
/// no file ending.
pub(super) fn is_folder(output: &str) -> bool {
    let last = output.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    !output.contains(['{', '}']) && (output.ends_with('/') || !last.trim_start_matches('.').contains('.'))
}

/// Appends a relative path to a folder. Empty components and `.` are removed.
fn below_folder(folder: &str, name: &str) -> String {
    let parts = name.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.fold(folder.to_owned(), |path, part| path + "/" + part)
}

/// Returns the path of a folder relative to `folder`, if `folder` contains it.
fn below<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    path.strip_prefix(folder)?.strip_prefix('/')
}

fn is_within(path: &str, folder: &str) -> bool {
    path == folder || below(path, folder).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_s_folder_stands_before_its_first_field() {
        for (text, expected) in [
            ("out/{path}.pt", ("out", true)),
            ("out/st-{path}.pt", ("out", true)),
            ("{path}.pt", ("", true)),
            ("/{path}.pt", ("/", true)),
            ("s3://bucket/{path}.pt", ("s3://bucket", true)),
            ("out/v1.5/", ("out/v1.5", true)),
            ("out", ("out", true)),
            ("out/one.pt", ("out", false)),
        ] {
            assert_eq!(fixed_folder(text, true), expected, "{text}");
        }
        assert_eq!(fixed_folder("out/{x}/one.pt", false), ("out/{x}", false));
        assert_eq!(fixed_folder("out/bert/", false), ("out/bert", false));
    }

    fn place(folder: &str, root: &str) -> OutputPlace {
        let (folder, root) = (folder.to_owned(), root.to_owned());
        OutputPlace { text: String::new(), folder, root, is_theirs: true, is_near: true }
    }

    /// Returns whether the input `/m/PATH` counts as a recorded output. `output` is the path to
    /// which the input's own job writes.
    fn is_output(outputs: &Outputs, path: &str, output: &str, receipts: &[&str]) -> bool {
        let receipts = receipts.iter().map(|&path| path.to_owned()).collect();
        let input = InputPath::file(path.to_owned(), path.to_owned());
        outputs.has(&Candidate { root: "/m", input: &input, output: Some(output), receipts: &receipts })
    }

    #[test]
    fn an_output_is_known_by_its_place_and_receipt() {
        let mut outputs = Outputs { places: [(1, place("/m", "/m"))].into(), ..Outputs::default() };
        outputs.add(1, "/m/a.bin", "/m/a.st", true);
        outputs.add(1, "/m/d.bin", "/m/d", true);
        assert!(is_output(&outputs, "a.st", "/m/a.st", &["a.st"]));
        assert!(!is_output(&outputs, "a.st", "/m/a.st", &[]), "somebody else's");
        assert!(!is_output(&outputs, "a.bin", "/m/a.st", &["a.st"]));
        assert!(is_output(&outputs, "d/model.st", "/m/d/model.st.st", &["d/receipt"]));
        // The input from which this output was made has been removed.
        assert!(is_output(&outputs, "b.st", "/m/b.st", &["b.st"]));
        // The receipt is for a different path, so this is an ordinary input.
        assert!(!is_output(&outputs, "c.pt", "/m/c.st", &["c.pt"]));
    }

    #[test]
    fn without_receipts_the_place_is_enough() {
        let mut outputs = Outputs { places: [(1, place("/m", "/m"))].into(), ..Outputs::default() };
        outputs.add(1, "/m/a.bin", "/m/a.st", false);
        outputs.add(1, "/m/b.st", "/m/b.bin", false);
        assert!(is_output(&outputs, "a.st", "/m/a.st.st", &[]));
        outputs.add(1, "/m/b.bin", "/m/b.st", false);
        assert!(is_output(&outputs, "a.st", "/m/a.st", &[]) && !is_output(&outputs, "c.st", "/m/c.st", &[]));
        assert!(
            !is_output(&outputs, "b.st", "/m/b.bin", &[]) && !is_output(&outputs, "b.bin", "/m/b.st", &[])
        );
        assert!(is_output(&outputs, "b.st", "/m/b.bin", &["b.st"]));
    }

    #[test]
    fn a_root_of_outputs_is_meant() {
        let mut outputs = Outputs { places: [(1, place("/m", "/elsewhere"))].into(), ..Outputs::default() };
        outputs.add(1, "/elsewhere/a.bin", "/m/a.st", true);
        assert!(!is_output(&outputs, "a.st", "/n/a.gguf", &["a.st"]));
        let outputs =
            Outputs { places: [(1, place("/m/st", "/m")), (2, place("/n", "/m"))].into(), ..outputs };
        assert_eq!(outputs.folders_below("/m"), ["st".to_owned()].into());
        assert_eq!(outputs.folders_below("/m/st"), HashSet::new());
    }
}
