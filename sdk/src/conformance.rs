//! The tests that every format passes: the meaning of [`Format`],
//! [`TensorReader`](crate::TensorReader) and [`TensorWriter`](crate::TensorWriter) beyond their types.
//!
//! A plugin's author calls [`check`] from a test, with a few small files of the format. It panics at
//! the first rule that does not hold, and names the rule and the input. What it holds a format to:
//!
//! - **description**: ids, suffixes and options are well formed, and capabilities are what
//!   [`Format::reader`] and [`Format::writer`] do;
//! - **reading**: each sample is recognised, reads the same every time, and holds the tensors that
//!   its author named; limits hold; no buffer is longer than the file that fills it;
//! - **damage**: a sample cut at any byte, or with any byte changed, is an error or a catalog, never a
//!   panic, and a cut one does not lose tensors in silence;
//! - **writing**: catalogs of every dtype, of scalars and empty tensors, odd names, views, blocks, both
//!   byte orders, encoded storages, ties, metadata and a tree are refused as usage or unsupported, or
//!   written; the same files each time; read back, they hold the same names, dtypes, shapes and bytes,
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
mod made;
mod preset;
mod reading;
#[cfg(feature = "arrow-60")]
mod records;
mod rules;
mod watched;
mod writing;

pub use preset::Preset;

use crate::{Capabilities, Entry, Format, MemorySource};
use rules::Rules;
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
    let rules = Rules::new(format);
    let mut report = Report::default();
    declared::check(&rules);
    let can = |capability| rules.description.capabilities.has(capability);
    let reads = rules.description.reads();
    rules.require(!reads || !samples.is_empty(), "a format that reads is checked with samples", || {
        "none".into()
    });
    if can(Capabilities::READ) {
        for sample in samples {
            reading::check(&rules, sample);
            report.damaged += damage::check(&rules, sample);
        }
    }
    if can(Capabilities::WRITE) {
        writing::check(&rules, samples, &mut report);
    }
    #[cfg(feature = "arrow-60")]
    records::check(&rules, samples, &mut report);
    report
}
