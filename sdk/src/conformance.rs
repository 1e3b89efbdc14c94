//! The tests that every format must pass. They define the meaning of [`Format`],
//! [`TensorReader`](crate::TensorReader) and [`TensorWriter`](crate::TensorWriter) beyond their
//! types.
//!
//! The author of a plugin calls [`check`] from a test, with a few small files of the format. It
//! panics at the first broken rule; the message names the rule and the input. [`examine`] continues
//! and reports for each rule whether it held. `ferry plugin test` runs it on a built library, in
//! any language. The suite checks:
//!
//! - **description**: ids, suffixes and options are well formed, and the capabilities match what
//!   [`Format::reader`] and [`Format::writer`] do;
//! - **reading**: each sample is recognized, reads the same every time, and contains the tensors
//!   that its author named; limits are enforced; no buffer is longer than the file that fills it;
//! - **damage**: a sample that is cut at any byte, or has any byte changed, gives an error or a
//!   catalog, never a panic; a cut sample does not lose tensors silently;
//! - **writing**: catalogs of every dtype, of scalars and empty tensors, odd names, views, blocks,
//!   both byte orders, encoded storages, ties, metadata and a tree are written, or refused as usage
//!   or unsupported. Writing gives the same files each time. Segments have the same bytes
//!   regardless of when, in which order and on how many threads they are encoded. When read back,
//!   the files contain the same names, dtypes, shapes and bytes, and the ties, metadata and tree
//!   that the capabilities promise, unless a loss reports otherwise.
//!
//! A format of records is checked in the same way, with rows instead of tensors, if the feature
//! `records` is enabled:
//!
//! - **reading**: the splits together contain all rows, in order, and as many as declared; a split
//!   can be read several times, even at the same time; every batch has the schema of the set, the
//!   requested columns, and at most the requested rows and bytes; JSON lines and an index, if any,
//!   cover all rows;
//! - **damage**: as above; the rows of a cut file are its first rows;
//! - **writing**: rows of every Arrow type, with nulls, empty and nested lists, slices, odd names,
//!   without rows or columns. A piece does not depend on others, and the same rows give the same
//!   bytes regardless of how they are split into batches. The same values are read back, possibly
//!   in wider types: integers for booleans, bytes for strings, a single value for a list of one.
//!   Any other difference must be reported as a loss of the column.
//!
//! A format that only reads must pass the first three groups. A format that only writes must pass
//! the first group, and the checks of the last group that do not need reading.
//!
//! # The rules
//! Rules are numbered by part: B for the boundary, D for the description, R for reading and W for
//! writing tensors, S for reading and T for writing rows. Numbers never change. Only `ferry plugin
//! test` checks B1 and B2.
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
//! // Cut at 3 places, and 3 bytes changed in two ways each.
//! assert_eq!(report.damaged, 9);
//! ```

mod compare;
mod damage;
mod declared;
mod encoding;
mod made;
mod preset;
mod reading;
#[cfg(feature = "arrow-60")]
mod records;
mod rules;
mod watched;
mod writing;

pub use preset::Preset;
pub use rules::Observer;

use crate::{Capabilities, Entry, Format, Limits, MemorySource};
use rules::{Rules, Violated, numbered};
use std::collections::BTreeMap;

/// A small input of a format: a few kilobytes, so that every byte of it can be damaged.
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

    /// Creates a sample of several files, which a user would name by `entry`.
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

    /// Sets the names of tensors, or columns, that the sample must contain.
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

    /// Returns the entry that a user would name.
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

    /// Returns the name of the sample in messages.
    fn title(&self) -> String {
        match &self.entry {
            Entry::Folder => format!("folder of {}", self.files.len()),
            Entry::File(name) | Entry::Prefix(name) => name.clone(),
        }
    }

    /// Returns the title with the limits, if they are not the default.
    fn under(&self, limits: &Limits) -> String {
        let usual = Limits::default();
        let changed = Limits::NAMES.iter().filter(|name| limits.get(name) != usual.get(name));
        let changed = changed.map(|name| format!(", with {name}={}", limits.get(name).unwrap_or_default()));
        self.title() + &changed.collect::<String>()
    }
}

/// The numbers of checks. Assert them in a test, so that the test cannot pass because nothing was
/// checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConformanceReport {
    /// Damaged inputs that were read.
    pub damaged: usize,
    /// Rows of the samples, each counted once.
    pub rows: u64,
    /// Catalogs, or tables of rows, that were written.
    pub written: usize,
    /// Catalogs or tables that the writer refused, each with its reason.
    pub refused: Vec<String>,
}

/// Checks a format against all rules.
///
/// # Panics
/// Panics if a rule is broken; the message names the rule and the input. Also panics if a format
/// that reads is given no sample.
#[must_use]
pub fn check(format: &dyn Format, samples: &[Sample]) -> ConformanceReport {
    let rules = Rules::new(format, None);
    run(&rules, samples, &mut |broken| {
        let Violated { rule, found, .. } = broken;
        panic!("format {:?} breaks the rule \"{rule}\": {found}", rules.description.id)
    })
}

/// The results of all rules.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Examination {
    /// Number of checks.
    pub report: ConformanceReport,
    /// Results of all rules that were checked, ordered by number.
    pub verdicts: Vec<RuleResult>,
}

impl Examination {
    /// Returns whether every rule held.
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
    /// How often the rule was checked.
    pub checks: u64,
    /// The first violation in each part of the suite.
    pub violations: Vec<Violation>,
}

/// A violation of a rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Violation {
    /// The input, and what was found.
    pub found: String,
    /// Files that show the violation, including any damage, or `None` if no files are needed.
    pub input: Option<Sample>,
}

/// Checks the same rules as [`check`], but continues after a violation. A violation ends only the
/// part of the suite in which it occurred: one sample, or one catalog that is written.
#[must_use]
pub fn examine(format: &dyn Format, samples: &[Sample], observer: &dyn Observer) -> Examination {
    let rules = Rules::new(format, Some(observer));
    let mut violations: BTreeMap<&str, Vec<Violation>> = BTreeMap::new();
    let report = run(&rules, samples, &mut |Violated { rule, found, input }| {
        violations.entry(rule).or_default().push(Violation { found, input });
    });
    let mut requested = rules.requested();
    let mut verdict = |number, rule| {
        let checks = requested.remove(rule)?;
        Some(RuleResult { number, rule, checks, violations: violations.remove(rule).unwrap_or_default() })
    };
    let mut verdicts: Vec<RuleResult> =
        numbered().filter_map(|(number, rule)| verdict(number, rule)).collect();
    for rule in rules.requested().into_keys() {
        verdicts.extend(verdict("-", rule));
    }
    Examination { report, verdicts }
}

/// Runs the parts of the suite, one after the other.
fn run(rules: &Rules<'_>, samples: &[Sample], broken: &mut dyn FnMut(Violated)) -> ConformanceReport {
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
        declared::check(rules);
        let has_samples = !rules.description.reads() || !samples.is_empty();
        rules.require(has_samples, "a format that reads is checked with samples", || "none".into());
    });
    if can(Capabilities::READ) {
        for sample in samples {
            // If the sample itself fails, all damaged versions of it would fail too.
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

/// Runs a part of the suite, and returns whether all rules held.
type ConformancePart<'a> = &'a mut dyn FnMut(&mut dyn FnMut()) -> bool;
