//! Formats the test results for each rule as text or JSON.

use crate::args::TestPlugin;
use crate::terminal::{self, counted, printable};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Maximum number of characters of a violation in the text output.
const MAX_CHARACTERS: usize = 400;
/// Maximum number of violations listed per rule in the text output. The JSON document lists all
/// violations.
const MAX_VIOLATIONS: usize = 3;

/// The JSON document that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct TestDocument {
    pub(super) library: PathBuf,
    pub(super) name: String,
    pub(super) version: String,
    #[serde(rename = "conformant")]
    pub(super) is_conformant: bool,
    pub(super) formats: Vec<Format>,
}

/// The results for a format.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Format {
    pub(super) id: String,
    pub(super) samples: Vec<PathBuf>,
    /// Number of damaged inputs that the library read.
    pub(super) damaged: usize,
    /// Number of rows in the samples.
    pub(super) rows: u64,
    /// Number of catalogs or tables that the library wrote.
    pub(super) written: usize,
    /// For each catalog or table that the writer rejected, its reason.
    pub(super) refused: Vec<String>,
    pub(super) rules: Vec<Rule>,
}

/// The results for a rule.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Rule {
    pub(super) number: String,
    pub(super) rule: String,
    pub(super) held: bool,
    /// Number of checks of this rule.
    pub(super) checks: u64,
    pub(super) violations: Vec<Violation>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Violation {
    pub(super) found: String,
    /// The saved input with which the violation can be reproduced, if it was saved.
    pub(super) kept: Option<PathBuf>,
}

impl Rule {
    /// Creates the result of a rule that the library complies with.
    pub(super) fn held(number: &str, rule: &str) -> Self {
        let (number, rule) = (number.to_owned(), rule.to_owned());
        Self { number, rule, held: true, checks: 1, violations: Vec::new() }
    }

    /// Creates the result of a rule with one violation.
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

impl TestDocument {
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
                for violation in rule.violations.iter().take(MAX_VIOLATIONS) {
                    let found: String = violation.found.chars().take(MAX_CHARACTERS).collect();
                    let _ = writeln!(text, "          {}", printable(&found));
                    let see = see(command, &format.id, violation.kept.as_deref());
                    let _ = writeln!(text, "          see it: {see}");
                }
                if let Some(more @ 1..) = rule.violations.len().checked_sub(MAX_VIOLATIONS) {
                    let _ = writeln!(text, "          and {more} more (--json lists all)");
                }
            }
            broken += format.rules.iter().filter(|rule| !rule.held).count();
            all += format.rules.len();
        }
        let _ = match broken {
            0 => writeln!(text, "conformant: all {all} checked rules hold"),
            1 => writeln!(text, "not conformant: 1 of {all} rules is broken"),
            _ => writeln!(text, "not conformant: {broken} of {all} rules are broken"),
        };
        text
    }
}

/// Returns the command that reproduces a violation.
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
