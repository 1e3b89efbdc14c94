//! The result of checking an output against its receipt, with all problems that were found.

use crate::receipt::output_of;
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;
use tensorferry_sdk::Error;

/// The state of an output compared with its receipt, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The output matches its receipt.
    Ok,
    /// The output has no receipt.
    NoReceipt,
    /// The output cannot be checked: the receipt is invalid, a plugin is missing, or a file cannot
    /// be read.
    Unreadable,
    /// A file of the output is missing.
    Missing,
    /// Some content differs from the receipt.
    Changed,
}

impl Verdict {
    pub const ALL: [Self; 5] = [Self::Ok, Self::NoReceipt, Self::Unreadable, Self::Missing, Self::Changed];

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

/// The result of checking one output.
#[derive(Debug, Clone)]
pub struct VerifyResult {
    pub receipt: PathBuf,
    pub verdict: Verdict,
    /// All differences between the output and the receipt.
    pub problems: Vec<Problem>,
    /// The reason why the output cannot be checked.
    pub error: Option<Error>,
    pub files: u64,
    pub tensors: u64,
    pub rows: u64,
    /// Columns and tensors that could not be compared, each with the reason.
    pub left_out: Vec<String>,
    /// Total size of the output's files according to the receipt.
    pub bytes: u64,
}

impl VerifyResult {
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub subject: Subject,
    /// The name of the file, tensor or column that has the problem.
    pub name: String,
    /// The problem, worded to follow the subject and the name in a sentence.
    pub what: &'static str,
    /// The value in the receipt.
    pub expected: Option<String>,
    /// The value that was found in the output.
    pub found: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The problem is in a file of the output.
    File,
    /// The problem is in a tensor of the output.
    Tensor,
    /// The problem is in a column of the output's records.
    Column,
    /// The problem is in a file of the input.
    Source,
    /// The receipt contradicts itself.
    Receipt,
}

impl Subject {
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

pub const MISSING: &str = "is missing";

impl Problem {
    /// Creates a problem without an expected and a found value.
    pub fn new(subject: Subject, name: impl Into<String>, what: &'static str) -> Self {
        Self { subject, name: name.into(), what, expected: None, found: None }
    }

    /// Adds the value in the receipt and the value that was found.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "callers pass numbers and strings")]
    pub fn differs(mut self, expected: impl ToString, found: impl ToString) -> Self {
        self.expected = Some(expected.to_string());
        self.found = Some(found.to_string());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names are from untrusted files. Quotation marks ensure that a newline in a name cannot
        // imitate an output line.
        write!(f, "{} {:?} {}", self.subject.word(), self.name, self.what)?;
        match (&self.expected, &self.found) {
            (Some(expected), Some(found)) => write!(f, ": expected {expected}, found {found}"),
            _ => Ok(()),
        }
    }
}
