//! What became of each rule, for people and for programs.

use crate::args::TestPlugin;
use crate::terminal::{self, counted, printable};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Characters of what was found that a line has.
const MOST_CHARACTERS: usize = 400;
/// Violations of one rule that are shown; a document has all.
const MOST_VIOLATIONS: usize = 3;

/// The whole answer.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    pub(super) library: PathBuf,
    pub(super) name: String,
    pub(super) version: String,
    #[serde(rename = "conformant")]
    pub(super) is_conformant: bool,
    pub(super) formats: Vec<Format>,
}

/// What became of a format.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Format {
    pub(super) id: String,
    pub(super) samples: Vec<PathBuf>,
    /// Damaged inputs that were read.
    pub(super) damaged: usize,
    /// Rows of the samples.
    pub(super) rows: u64,
    /// Catalogs, or tables of rows, that were written.
    pub(super) written: usize,
    /// Those that the writer refused, each with its reason.
    pub(super) refused: Vec<String>,
    pub(super) rules: Vec<Rule>,
}

/// What became of a rule.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Rule {
    pub(super) number: String,
    pub(super) rule: String,
    pub(super) held: bool,
    /// How often it was asked for.
    pub(super) checks: u64,
    pub(super) violations: Vec<Violation>,
}

/// What broke it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Violation {
    pub(super) found: String,
    /// What a user points at to see it, if it was kept.
    pub(super) kept: Option<PathBuf>,
}

impl Rule {
    /// A rule that held.
    pub(super) fn held(number: &str, rule: &str) -> Self {
        let (number, rule) = (number.to_owned(), rule.to_owned());
        Self { number, rule, held: true, checks: 1, violations: Vec::new() }
    }

    /// A rule that was broken once.
    pub(super) fn broken(number: &str, rule: &str, found: String, kept: Option<PathBuf>) -> Self {
        let violations = vec![Violation { found, kept }];
        Self { number: number.to_owned(), rule: rule.to_owned(), held: false, checks: 1, violations }
    }
}

impl Format {
    pub(super) fn is_conformant(&self) -> bool {
        self.rules.iter().all(|rule| rule.held)
    }
}

impl Document {
    pub(super) fn text(&self, command: &TestPlugin) -> String {
        let mut text = String::new();
        let (mut broken, mut all) = (0, 0);
        for format in &self.formats {
            let damaged = counted(format.damaged as u64, "damaged input");
            let written = counted(format.written as u64, "output");
            let _ = writeln!(
                text,
                "{} {}, format {}: {}, {damaged}, {written} written, {} refused",
                printable(&self.name),
                printable(&self.version),
                printable(&format.id),
                counted(format.samples.len() as u64, "sample"),
                format.refused.len(),
            );
            for rule in &format.rules {
                let word = if rule.held { "held  " } else { "BROKEN" };
                let _ = writeln!(text, "  {word}  {:4}  {}", rule.number, rule.rule);
                for violation in rule.violations.iter().take(MOST_VIOLATIONS) {
                    let found: String = violation.found.chars().take(MOST_CHARACTERS).collect();
                    let _ = writeln!(text, "          {}", printable(&found));
                    let see = see(command, &format.id, violation.kept.as_deref());
                    let _ = writeln!(text, "          see it: {see}");
                }
                if let Some(more @ 1..) = rule.violations.len().checked_sub(MOST_VIOLATIONS) {
                    let _ = writeln!(text, "          and {more} more (--json lists all)");
                }
            }
            broken += format.rules.iter().filter(|rule| !rule.held).count();
            all += format.rules.len();
        }
        let _ = match broken {
            0 => writeln!(text, "conformant: all {all} checked rules hold"),
            1 => writeln!(text, "not conformant: 1 rule of {all} is broken"),
            _ => writeln!(text, "not conformant: {broken} rules of {all} are broken"),
        };
        text
    }
}

/// The command line that shows a violation.
fn see(command: &TestPlugin, format: &str, kept: Option<&Path>) -> String {
    let quoted = |path: &Path| terminal::quoted(&path.display().to_string());
    let library = &command.library;
    if let Some(kept) = kept {
        let folder =
            library.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        return format!("ferry --plugin-dir {} inspect --from {format} {}", quoted(folder), quoted(kept));
    }
    let samples: String = command.samples.iter().map(|sample| format!(" {}", quoted(sample))).collect();
    let keep = if command.keep.is_some() { "" } else { " --keep broken" };
    format!("ferry plugin test {}{samples}{keep}", quoted(library))
}
