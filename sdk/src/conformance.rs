//! The conformance suite contains the tests that every format must pass. The tests define the
//! semantics of [`Format`], [`TensorReader`](crate::TensorReader) and
//! [`TensorWriter`](crate::TensorWriter) beyond their types.
//!
//! The author of a plugin calls [`check`] from a test, with a few small files of the format.
//! [`check`] panics at the first broken rule, with a message that includes the rule and the input.
//! [`examine`] continues after a violation, and reports the result of each rule. `ferry plugin
//! test` runs [`examine`] on a built library, in any language. The suite checks:
//!
//! - **description**: Ids, suffixes and options must be well formed. The capabilities must match
//!   the behavior of [`Format::reader`] and [`Format::writer`].
//! - **reading**: Each sample must be recognized, must give the same result every time, and must
//!   contain the tensors that its author named. Limits must be enforced. No buffer may be longer
//!   than the file that fills it.
//! - **damage**: Wherever a sample is truncated, and whichever byte is changed, the reader must
//!   return an error or a catalog, and must never panic. Truncated samples must not lose tensors
//!   silently.
//! - **writing**: The writer must write each test catalog, or refuse it with a usage or unsupported
//!   error. The catalogs contain every dtype, scalars, empty tensors, odd names, views, blocks,
//!   both byte orders, encoded storages, ties, metadata and a tree. Writing must produce the same
//!   files each time. The bytes of a segment must not depend on when, in which order, or on how
//!   many threads segments are encoded. The files must contain the same names, dtypes, shapes and
//!   bytes when they are read back. The files must also contain the ties, metadata and tree that
//!   the capabilities promise. A reported loss permits a difference.
//!
//! If the feature `records` is enabled, record formats are checked in the same way, with rows
//! instead of tensors:
//!
//! - **reading**: Together, the splits must contain all rows in order, and as many rows as
//!   declared. It must be possible to read a split several times, even concurrently. Every batch
//!   must have the schema of the set and the requested columns, and at most the requested rows and
//!   bytes. JSON lines and an index, if any, must cover all rows.
//! - **damage**: The rules are the same as for tensors. In addition, a truncated file must yield
//!   only the first rows of the original file.
//! - **writing**: The test tables contain every Arrow type, nulls, empty and nested lists, slices
//!   and odd names. Some tables have no rows or no columns. A piece must not depend on other
//!   pieces, and the same rows must produce the same bytes however they are divided into batches.
//!   The same values must be read back, possibly in wider types: integers for booleans, bytes for
//!   strings, a single value for a list of one. Any other difference must be reported as a loss
//!   that names the column.
//!
//! A format that can only read must pass the first three groups. A format that can only write must
//! pass the first group, and the checks in the last group that do not need a reader.
//!
//! # The rules
//! The number of a rule starts with the letter of its part. B stands for the boundary, and D for
//! the description. R and W stand for reading and writing tensors, and S and T for reading and
//! writing rows. The number of a rule never changes. Only `ferry plugin test` checks B1 and B2.
#![doc = include_str!("conformance/rules.md")]
//!
//! # An example
//!
//! ```
//! use tensorferry_sdk::*;
//!
//! /// A file is one tensor of bytes.
//! struct Raw;
//!
//! impl Format for Raw {
//!     fn describe(&self) -> Description {
//!         Description::new("raw", "bytes")
//!             .suffixes([".raw"])
//!             .capabilities(Capabilities::READ)
//!     }
//!
//!     fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
//!         Ok(Box::new(Raw))
//!     }
//! }
//!
//! impl TensorReader for Raw {
//!     fn read(
//!         &self,
//!         source: &dyn Source,
//!         catalog: &mut dyn CatalogSink,
//!         _context: &dyn Context,
//!     ) -> Result<Box<dyn TensorDecoder>> {
//!         let file = source.open(source.entry().name())?;
//!         let len = source.len(file);
//!         let storage = catalog.storage(Storage::file(file, 0, len))?;
//!         catalog.tensor("bytes", Dtype::U8, &[len], storage, 0)?;
//!         Ok(Box::new(NothingEncoded))
//!     }
//! }
//!
//! let report = conformance::check(&Raw, &[conformance::Sample::file("a.raw", *b"abc").holding(&["bytes"])]);
//! // The file is truncated at 3 positions, and each of its 3 bytes is changed in two ways.
//! assert_eq!(report.damaged, 9);
//! ```

mod buffer_monitor;
mod compare;
mod damage;
mod description;
mod encoding;
mod preset;
mod reading;
#[cfg(feature = "arrow-60")]
mod records;
mod rules;
mod test_catalogs;
mod writing;

pub use preset::Preset;
pub use rules::Observer;

use crate::{Capabilities, Entry, Format, Limits, MemorySource};
use rules::{Rules, ViolationPanic, numbered_rules};
use std::collections::BTreeMap;

/// A small input of a format. A sample should be only a few kilobytes long, because every byte of
/// it is damaged in turn.
#[derive(Debug, Clone)]
pub struct Sample {
    entry: Entry,
    files: BTreeMap<String, Vec<u8>>,
    holds: Vec<String>,
    #[cfg(feature = "arrow-60")]
    rows: Option<u64>,
}

impl Sample {
    /// Creates a sample of one file.
    #[must_use]
    pub fn file(name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self::set(Entry::File(name.to_owned()), BTreeMap::from([(name.to_owned(), bytes.into())]))
    }

    /// Creates a sample of several files. `entry` is the input that a user would pass.
    #[must_use]
    pub fn set(entry: Entry, files: BTreeMap<String, Vec<u8>>) -> Self {
        Self {
            entry,
            files,
            holds: Vec::new(),
            #[cfg(feature = "arrow-60")]
            rows: None,
        }
    }

    /// Sets the names of the tensors or columns that the sample must contain.
    #[must_use]
    pub fn holding(mut self, names: &[&str]) -> Self {
        self.holds.extend(names.iter().map(|&name| name.to_owned()));
        self
    }

    /// Sets the number of rows that the sample must contain.
    #[cfg(feature = "arrow-60")]
    #[must_use]
    pub fn of_rows(mut self, rows: u64) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Returns the input that a user would pass.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Returns the files by name.
    #[must_use]
    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    fn source(&self) -> MemorySource {
        MemorySource::new(self.entry.clone(), self.files.clone())
    }

    /// Returns the name of the sample for messages.
    fn title(&self) -> String {
        match &self.entry {
            Entry::Folder => format!("folder of {}", self.files.len()),
            Entry::File(name) | Entry::Prefix(name) => name.clone(),
        }
    }

    /// Returns the name of the sample. The name includes the limits if they are not the defaults.
    fn under(&self, limits: &Limits) -> String {
        let usual = Limits::default();
        let changed = Limits::NAMES.iter().filter(|name| limits.get(name) != usual.get(name));
        let changed = changed.map(|name| format!(", with {name}={}", limits.get(name).unwrap_or_default()));
        self.title() + &changed.collect::<String>()
    }
}

/// Counts of what the suite checked. Assert these numbers in a test, so that the test cannot pass
/// without checking anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConformanceReport {
    /// Number of damaged inputs that were read.
    pub damaged: usize,
    /// Number of rows in all samples. Each row is counted once.
    pub rows: u64,
    /// Number of catalogs or tables of rows that were written.
    pub written: usize,
    /// Catalogs or tables that the writer refused, each with the reason.
    pub refused: Vec<String>,
}

/// Checks a format against all rules.
///
/// # Panics
/// Panics if a rule is broken. The message contains the rule and the input. Also panics if the
/// format can read and `samples` is empty.
#[must_use]
pub fn check(format: &dyn Format, samples: &[Sample]) -> ConformanceReport {
    let rules = Rules::new(format, None);
    run(&rules, samples, &mut |broken| {
        let ViolationPanic { rule, found, .. } = broken;
        panic!("format {:?} breaks the rule \"{rule}\": {found}", rules.description.id)
    })
}

/// The results of all rules.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Examination {
    /// Counts of what the suite checked.
    pub report: ConformanceReport,
    /// Results of all rules that were checked, ordered by number.
    pub verdicts: Vec<RuleResult>,
}

impl Examination {
    /// Returns whether the format follows every rule.
    #[must_use]
    pub fn is_conformant(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.violations.is_empty())
    }
}

/// The result of one rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuleResult {
    /// Number of the rule in the table of this module.
    pub number: &'static str,
    /// The rule as a sentence.
    pub rule: &'static str,
    /// Number of times that the rule was checked.
    pub checks: u64,
    /// The first violation in each part of the suite.
    pub violations: Vec<Violation>,
}

/// A violation of a rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Violation {
    /// The input, and a description of the violation.
    pub found: String,
    /// Files that reproduce the violation, including any damage. `None` if no files are needed.
    pub input: Option<Sample>,
}

/// Checks the same rules as [`check`], but continues after a violation. A violation ends only the
/// part of the suite in which it occurred. A part is, for example, one sample or one catalog to
/// write.
#[must_use]
pub fn examine(format: &dyn Format, samples: &[Sample], observer: &dyn Observer) -> Examination {
    let rules = Rules::new(format, Some(observer));
    let mut violations: BTreeMap<&str, Vec<Violation>> = BTreeMap::new();
    let report = run(&rules, samples, &mut |ViolationPanic { rule, found, input }| {
        violations.entry(rule).or_default().push(Violation { found, input });
    });
    let mut requested = rules.requested();
    let mut verdict = |number, rule| {
        let checks = requested.remove(rule)?;
        Some(RuleResult { number, rule, checks, violations: violations.remove(rule).unwrap_or_default() })
    };
    let mut verdicts: Vec<RuleResult> =
        numbered_rules().filter_map(|(number, rule)| verdict(number, rule)).collect();
    for rule in rules.requested().into_keys() {
        verdicts.extend(verdict("-", rule));
    }
    Examination { report, verdicts }
}

/// Runs the parts of the suite in order.
fn run(rules: &Rules<'_>, samples: &[Sample], broken: &mut dyn FnMut(ViolationPanic)) -> ConformanceReport {
    let mut report = ConformanceReport::default();
    let can = |capability| rules.description.capabilities.has(capability);
    let mut part = |run: &mut dyn FnMut()| match rules.part(run) {
        Ok(()) => true,
        Err(found) => {
            broken(*found);
            false
        }
    };
    part(&mut || {
        description::check(rules);
        let has_samples = !rules.description.reads() || !samples.is_empty();
        rules.require(has_samples, "a format that reads is checked with samples", || "none".into());
    });
    if can(Capabilities::READ) {
        for sample in samples {
            // If the sample itself fails, all of its damaged versions would fail too.
            if part(&mut || reading::check(rules, sample)) {
                part(&mut || report.damaged += damage::check(rules, sample));
            }
        }
    }
    if can(Capabilities::WRITE) {
        writing::check(rules, samples, &mut report, &mut part);
    }
    #[cfg(feature = "arrow-60")]
    records::check(rules, samples, &mut report, &mut part);
    report
}

/// A closure that runs a part of the suite, and returns whether the format followed all rules in
/// that part.
type ConformancePart<'a> = &'a mut dyn FnMut(&mut dyn FnMut()) -> bool;
