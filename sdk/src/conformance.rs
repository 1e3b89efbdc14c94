//! The tests that every format passes: the meaning of [`Format`],
//! [`TensorReader`](crate::TensorReader) and [`TensorWriter`](crate::TensorWriter) beyond their types.
//!
//! A plugin's author calls [`check`] from a test, with a few small files of the format. It panics at
//! the first rule that does not hold, and names the rule and the input. [`examine`] goes on and says of each rule whether it
//! held; `ferry plugin test` runs it over a built library, in whatever language that is. What a format is held to:
//!
//! - **description**: ids, suffixes and options are well formed, and capabilities are what
//!   [`Format::reader`] and [`Format::writer`] do;
//! - **reading**: each sample is recognised, reads the same every time, and holds the tensors that
//!   its author named; limits hold; no buffer is longer than the file that fills it;
//! - **damage**: a sample cut at any byte, or with any byte changed, is an error or a catalog, never a
//!   panic, and a cut one does not lose tensors in silence;
//! - **writing**: catalogs of every dtype, of scalars and empty tensors, odd names, views, blocks, both
//!   byte orders, encoded storages, ties, metadata and a tree are refused as usage or unsupported, or
//!   written; the same files each time, and in them the same encoded segments, whoever asks for them, when and how
//!   many at once; read back, they hold the same names, dtypes, shapes and bytes,
//!   and the ties, metadata and tree that the capabilities promise, or there is a loss that says
//!   otherwise.
//!
//! A format of records is held to the same, with rows for tensors, where the feature `records` is on:
//!
//! - **reading**: the splits together are all rows, in order, and as many as they say; a split may be
//!   asked again, several times at once; every batch has the set's schema, the columns that were asked
//!   for, and no more rows and bytes; lines and an index, where there are some, are of all rows;
//! - **damage**: as above; what is left of a cut file are its first rows;
//! - **writing**: rows of every Arrow type, with nulls, empty and nested lists, slices, odd names, without
//!   rows or columns. A piece depends on no other, the same rows give the same bytes in whatever batches,
//!   and what is read back are the same values, maybe in wider types: integers for booleans, bytes for
//!   strings, a value for a list of one. A column that is not so has a loss.
//!
//! A format that only reads is held to the first three, one that only writes to the first and to
//! what can be told of the last.
//!
//! # The rules
//! B is the boundary, D the description, R reading and W writing of tensors, S reading and T writing of rows. Numbers stay what
//! they are. B1 and B2 are what `ferry plugin test` adds.
//!
#![doc = include_str!("conformance/rules.md")]
//!
//! # An example
//!
//! ```
//! use tensorferry_sdk::*;
//!
//! /// A file is a tensor: its bytes.
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
//! // Cut at 3 places, 3 bytes changed in two ways.
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
use rules::{Broken, Rules, numbered};
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
    /// One file.
    #[must_use]
    pub fn file(name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self::set(Entry::File(name.to_owned()), BTreeMap::from([(name.to_owned(), bytes.into())]))
    }

    /// Several files, pointed at by `entry`.
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

    /// The same input, of which it is known that it holds tensors, or columns, of these names.
    #[must_use]
    pub fn holding(mut self, names: &[&str]) -> Self {
        self.holds.extend(names.iter().map(|&name| name.to_owned()));
        self
    }

    /// The same input, of which it is known that it holds so many rows.
    #[cfg(feature = "arrow-60")]
    #[must_use]
    pub fn of_rows(mut self, rows: u64) -> Self {
        self.rows = Some(rows);
        self
    }

    /// What a user would point at.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The files by their names.
    #[must_use]
    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    fn source(&self) -> MemorySource {
        MemorySource::new(self.entry.clone(), self.files.clone())
    }

    /// What it is called in a message.
    fn title(&self) -> String {
        match &self.entry {
            Entry::Folder => format!("folder of {}", self.files.len()),
            Entry::File(name) | Entry::Prefix(name) => name.clone(),
        }
    }

    /// The same, and which limits it is read under, where they are not the usual ones.
    fn under(&self, limits: &Limits) -> String {
        let usual = Limits::default();
        let changed = Limits::NAMES.iter().filter(|name| limits.get(name) != usual.get(name));
        let changed = changed.map(|name| format!(", with {name}={}", limits.get(name).unwrap_or_default()));
        self.title() + &changed.collect::<String>()
    }
}

/// How much was checked: a test asserts it, so that it cannot pass because nothing was there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Damaged inputs that were read.
    pub damaged: usize,
    /// Rows of the samples, each counted once.
    pub rows: u64,
    /// Catalogs, or tables of rows, that were written.
    pub written: usize,
    /// Those that the writer refused, each with its reason.
    pub refused: Vec<String>,
}

/// Holds a format to the rules.
///
/// # Panics
/// If a rule is broken: the message names it, and the input that shows it. Also if a format that
/// reads is given no sample.
#[must_use]
pub fn check(format: &dyn Format, samples: &[Sample]) -> Report {
    let rules = Rules::new(format, None);
    run(&rules, samples, &mut |broken| {
        let Broken { rule, found, .. } = broken;
        panic!("format {:?} breaks the rule \"{rule}\": {found}", rules.description.id)
    })
}

/// What became of each rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Examination {
    /// How much was checked.
    pub report: Report,
    /// Every rule that was asked for, in the order of its number.
    pub verdicts: Vec<Verdict>,
}

impl Examination {
    /// Whether every rule held.
    #[must_use]
    pub fn is_conformant(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.violations.is_empty())
    }
}

/// What became of a rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Verdict {
    /// Its number in the table of this module.
    pub number: &'static str,
    /// The rule, as a sentence.
    pub rule: &'static str,
    /// How often it was asked for.
    pub checks: u64,
    /// Where it was broken: the first of each part of the suite.
    pub violations: Vec<Violation>,
}

/// What broke a rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Violation {
    /// The input, and what was found.
    pub found: String,
    /// The files that show it, damaged as they were; `None` where it shows without any.
    pub input: Option<Sample>,
}

/// Looks at everything that [`check`] looks at, and goes on where a rule is broken: one part of the suite ends there (a
/// sample, a catalog that is written), the others do not.
#[must_use]
pub fn examine(format: &dyn Format, samples: &[Sample], observer: &dyn Observer) -> Examination {
    let rules = Rules::new(format, Some(observer));
    let mut violations: BTreeMap<&str, Vec<Violation>> = BTreeMap::new();
    let report = run(&rules, samples, &mut |Broken { rule, found, input }| {
        violations.entry(rule).or_default().push(Violation { found, input });
    });
    let mut asked = rules.asked();
    let mut verdict = |number, rule| {
        let checks = asked.remove(rule)?;
        Some(Verdict { number, rule, checks, violations: violations.remove(rule).unwrap_or_default() })
    };
    let mut verdicts: Vec<Verdict> = numbered().filter_map(|(number, rule)| verdict(number, rule)).collect();
    for rule in rules.asked().into_keys() {
        verdicts.extend(verdict("-", rule));
    }
    Examination { report, verdicts }
}

/// Runs the parts of the suite, one after the other.
fn run(rules: &Rules<'_>, samples: &[Sample], broken: &mut dyn FnMut(Broken)) -> Report {
    let mut report = Report::default();
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
            // What is wrong with a sound sample is wrong with all damaged ones.
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

/// Runs a part of the suite; whether it kept every rule.
type Part<'a> = &'a mut dyn FnMut(&mut dyn FnMut()) -> bool;
