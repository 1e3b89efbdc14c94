//! A verdict is what became of an output since its receipt was written, with every problem that was
//! found.

use crate::receipt::output_of;
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;
use tensorferry_sdk::Error;

/// What became of an output, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// All of it is what the receipt says.
    Ok,
    /// There is nothing to hold it against.
    NoReceipt,
    /// It cannot be looked at: the receipt is none, there is no plugin, a file cannot be read.
    Unreadable,
    /// A file is not there any more.
    Missing,
    /// Something else is there than the receipt says.
    Changed,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Self; 5] = [Self::Ok, Self::NoReceipt, Self::Unreadable, Self::Missing, Self::Changed];

    /// The verdict's words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NoReceipt => "no receipt",
            Self::Unreadable => "unreadable",
            Self::Missing => "missing",
            Self::Changed => "changed",
        }
    }
}

/// What was found of one output.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Its receipt.
    pub receipt: PathBuf,
    /// What became of it.
    pub verdict: Verdict,
    /// Everything that is not as the receipt says.
    pub problems: Vec<Problem>,
    /// Why it cannot be looked at.
    pub error: Option<Error>,
    /// Files that were compared.
    pub files: u64,
    /// Tensors that were compared.
    pub tensors: u64,
    /// Records that were compared.
    pub rows: u64,
    /// Columns and tensors that could not be compared, and why.
    pub left_out: Vec<String>,
    /// Bytes of the output's files, as the receipt has it.
    pub bytes: u64,
}

impl Checked {
    /// What was found, as a document.
    #[must_use]
    pub fn json(&self) -> Value {
        let problem = |problem: &Problem| {
            json!({
                "subject": problem.subject.word(),
                "name": problem.name,
                "what": problem.what,
                "expected": problem.expected,
                "found": problem.found,
            })
        };
        json!({
            "verdict": self.verdict.words(),
            "output": output_of(&self.receipt),
            "receipt": self.receipt,
            "files": self.files,
            "tensors": self.tensors,
            "records": self.rows,
            "not_compared": self.left_out,
            "bytes": self.bytes,
            "problems": self.problems.iter().map(problem).collect::<Vec<_>>(),
            "error": self.error.as_ref().map(ToString::to_string),
        })
    }
}

/// Something that is not as the receipt says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is.
    pub subject: Subject,
    /// Its name: a file's, or a tensor's.
    pub name: String,
    /// What is the matter with it.
    pub what: &'static str,
    /// What the receipt says.
    pub expected: Option<String>,
    /// What is there.
    pub found: Option<String>,
}

/// What a problem is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A file of the output.
    File,
    /// A tensor of the output.
    Tensor,
    /// A column of its records.
    Column,
    /// A file of the input.
    Source,
    /// The receipt itself, which contradicts itself.
    Receipt,
}

impl Subject {
    /// The subject's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Tensor => "tensor",
            Self::Column => "column",
            Self::Source => "source",
            Self::Receipt => "receipt",
        }
    }
}

/// The problem of what is gone.
pub const MISSING: &str = "is not there";

impl Problem {
    /// A problem without values.
    pub fn new(subject: Subject, name: impl Into<String>, what: &'static str) -> Self {
        Self { subject, name: name.into(), what, expected: None, found: None }
    }

    /// The same problem with what the receipt says and what was found.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "numbers and texts alike")]
    pub fn differs(mut self, expected: impl ToString, found: impl ToString) -> Self {
        self.expected = Some(expected.to_string());
        self.found = Some(found.to_string());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names come from files: quoted, so that a newline cannot forge a line.
        write!(f, "{} {:?} {}", self.subject.word(), self.name, self.what)?;
        match (&self.expected, &self.found) {
            (Some(expected), Some(found)) => write!(f, ": expected {expected}, found {found}"),
            _ => Ok(()),
        }
    }
}
