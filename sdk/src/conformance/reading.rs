//! Checks a reader with valid inputs.

use super::Sample;
use super::buffer_monitor::BufferMonitor;
use super::compare::{names, same_catalog};
use super::rules::Rules;
use crate::{
    Catalog, Entry, Error, ErrorKind, Limits, LossKind, MemoryContext, MemorySource, Result, Score, Source,
};

pub(super) fn check(rules: &Rules<'_>, sample: &Sample) {
    rules.set_input(sample);
    let title = sample.title();
    let source = sample.source();
    let context = MemoryContext::default();
    let score = rules.catch_panic(|| title.clone(), || rules.format.probe(&source, &context));
    let score = rules.holds(score, "probing fails only with I/O errors", &title);
    rules.require(recognizes(rules, &source, score), "a format recognizes its own files", || title.clone());

    let catalog = rules.holds(read(rules, sample, &Limits::default()), "a sample can be read", &title);
    for name in &sample.holds {
        let there = names(&catalog).any(|tensor| tensor == name)
            || catalog.losses().iter().any(|loss| loss.kind == LossKind::Tensor && &loss.what == name);
        rules.require(there, "no tensor is dropped silently", || format!("{title}: {name:?}"));
    }
    let again = rules.holds(read(rules, sample, &Limits::default()), "a sample can be read twice", &title);
    rules.require(same_catalog(&catalog, &again), "the same input gives the same catalog", || title.clone());
    check_bytes(rules, &source, &title);
    check_limits(rules, sample, &catalog);
}

/// Returns whether a format recognizes a source, by its score or by its declared magic.
pub(super) fn recognizes(rules: &Rules<'_>, source: &MemorySource, score: Option<Score>) -> bool {
    let magic = &rules.description.magic;
    match (score, source.entry()) {
        (Some(score), _) => score != Score::NO,
        (None, Entry::File(name)) if !magic.is_empty() => source
            .open(name)
            .is_ok_and(|file| magic.iter().any(|magic| magic.is_in(source, file) == Ok(true))),
        (None, _) => true,
    }
}

/// Reads a sample and checks the lengths of the reader's buffers.
fn read(rules: &Rules<'_>, sample: &Sample, limits: &Limits) -> Result<Catalog> {
    let title = || sample.under(limits);
    let (monitor, context) = (BufferMonitor::new(sample.source()), MemoryContext::new(limits.clone()));
    let catalog =
        rules.catch_panic(title, || rules.read(&monitor, &context).map(|view| view.catalog().clone()));
    rules.require(!monitor.has_oversized_buffer(), "no buffer is longer than its file", title);
    catalog
}

fn check_bytes(rules: &Rules<'_>, source: &MemorySource, title: &str) {
    let context = MemoryContext::default();
    let view = rules.holds(rules.read(source, &context), "a sample can be read", title);
    for name in names(view.catalog()) {
        let bytes = rules.catch_panic(|| format!("{title}: {name:?}"), || view.tensor_named(name));
        rules.holds(bytes, "the tensors of a sample can be read", title);
    }
}

/// Checks a reader with very low limits. The reader must either fail with a limit error or return
/// the same catalog.
fn check_limits(rules: &Rules<'_>, sample: &Sample, whole: &Catalog) {
    let tight = [
        Limits { header_bytes: 0, ..Limits::default() },
        Limits { header_bytes: 64, ..Limits::default() },
        Limits { entries: 0, ..Limits::default() },
        Limits { nodes: 0, ..Limits::default() },
        Limits { nesting: 0, ..Limits::default() },
        Limits { name_bytes: 0, ..Limits::default() },
        Limits { expanded_bytes: 0, ..Limits::default() },
        Limits { memory_bytes: 0, ..Limits::default() },
        Limits { tensors: 0, ..Limits::default() },
    ];
    let over = |error: &Error| matches!(error.kind(), ErrorKind::Limit | ErrorKind::Malformed);
    for limits in &tight {
        let input = || sample.under(limits);
        match read(rules, sample, limits) {
            Ok(catalog) => {
                rules.require(same_catalog(&catalog, whole), "a limit never drops content silently", input);
            }
            Err(error) => {
                let rule = rules.rule_of(&error, "an input that exceeds a limit is a limit error");
                rules.require(over(&error), rule, || format!("{}: {error}", input()));
            }
        }
    }
    if let Some(fewer) = (whole.tensors().len() as u64).checked_sub(1) {
        let limits = Limits { tensors: fewer, ..Limits::default() };
        let refused = read(rules, sample, &limits).err().is_some_and(|e| e.kind() == ErrorKind::Limit);
        rules.require(refused, "a reader returns the errors of its sink", || {
            format!("{}: one tensor too many", sample.title())
        });
    }
}
