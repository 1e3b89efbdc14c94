//! Checks a writer. The writer must produce the same files each time, and must keep all content or
//! report a loss.

use super::compare::CatalogRoundTrip;
use super::rules::Rules;
use super::test_catalogs::{self, TestCatalog};
use super::{ConformancePart, ConformanceReport, Sample, encoding};
use crate::memory::{self, MemoryOutput, MemoryView};
use crate::{
    Capabilities, Entry, ErrorKind, Limits, Loss, LossKind, MemoryContext, Result, Role, Target, TensorId,
};

pub(super) fn check(
    rules: &Rules<'_>,
    samples: &[Sample],
    report: &mut ConformanceReport,
    part: ConformancePart<'_>,
) {
    let (context, source) = (MemoryContext::default(), test_catalogs::source());
    let before = report.written;
    for catalog in test_catalogs::catalogs() {
        let TestCatalog { title, .. } = &catalog;
        part(&mut || {
            let view = rules.holds(catalog.view(&source, &context), "a test catalog is valid", title);
            check_view(rules, title, view, report);
        });
    }
    part(&mut || {
        let has_written = report.written > before;
        rules.require(has_written, "a writer writes something", || format!("{:?}", report.refused));
    });
    if !rules.description.capabilities.has(Capabilities::READ) {
        return;
    }
    for sample in samples {
        let (source, title) = (sample.source(), sample.title());
        part(&mut || {
            let view = rules.holds(rules.read(&source, &context), "a sample can be read", &title);
            check_view(rules, &title, view, report);
        });
    }
}

fn check_view(rules: &Rules<'_>, title: &str, view: MemoryView<'_>, report: &mut ConformanceReport) {
    let view = &view.reduced_to(rules.description.capabilities);
    let suffix = rules.description.suffixes.first().map_or("", String::as_str);
    for target in [Target::File(format!("sample{suffix}")), Target::Folder] {
        let (input, usual) = (format!("{title}, to {target:?}"), Limits::default());
        let written = write(rules, &input, view, &target, &usual);
        let again = write(rules, &input, view, &target, &usual);
        match (written, again) {
            (Ok(one), Ok(other)) => {
                let same = one.files == other.files && one.layout.losses() == other.layout.losses();
                rules.require(same, "the same catalog gives the same files and losses", || input.clone());
                check_omitted(rules, &input, view, &one);
                encoding::check(rules, &input, view, &target, &one);
                check_memory(rules, &input, view, &target, &one);
                if rules.description.capabilities.has(Capabilities::READ) {
                    read_back(rules, &input, view, &one, &target);
                }
                report.written += 1;
            }
            (Err(error), Err(_)) => {
                let fair = matches!(error.kind(), ErrorKind::Usage | ErrorKind::Unsupported);
                let rule = rules.rule_of(&error, "a catalog is refused with a usage or unsupported error");
                rules.require(fair, rule, || format!("{input}: {error}"));
                report.refused.push(format!("{input}: {error}"));
            }
            _ => rules.broken("the same catalog gives the same files and losses", &input),
        }
    }
}

fn write(
    rules: &Rules<'_>,
    input: &str,
    view: &MemoryView<'_>,
    target: &Target,
    limits: &Limits,
) -> Result<MemoryOutput> {
    let context = MemoryContext::new(limits.clone());
    rules.catch_panic(|| input.to_owned(), || memory::write(rules.format, &[], view, target, &context))
}

/// Checks a writer with a memory limit of zero. The writer must either fail with a limit error or
/// write the same files.
fn check_memory(
    rules: &Rules<'_>,
    input: &str,
    view: &MemoryView<'_>,
    target: &Target,
    before: &MemoryOutput,
) {
    let limits = Limits { memory_bytes: 0, ..Limits::default() };
    let reported = match write(rules, input, view, target, &limits) {
        Ok(written) if written.files == before.files => None,
        Ok(_) => Some("other bytes".to_owned()),
        Err(error) => Some(error).filter(|error| error.kind() != ErrorKind::Limit).map(|e| e.to_string()),
    };
    let rule = "with little memory, a writer fails with a limit error or writes the same files";
    rules.require(reported.is_none(), rule, || format!("{input}: {}", reported.unwrap_or_default()));
}

/// Checks that a loss is reported for every omitted tensor. The layout's checks should already
/// ensure this.
fn check_omitted(rules: &Rules<'_>, input: &str, view: &MemoryView<'_>, output: &MemoryOutput) {
    for &TensorId(index) in output.layout.omitted() {
        let name = &view.catalog().tensors()[index as usize].name;
        let reported = output.layout.losses().iter().any(|l| l.kind == LossKind::Tensor && &l.what == name);
        rules.require(reported, "an omitted tensor is reported as a loss", || format!("{input}: {name:?}"));
    }
}

fn read_back(
    rules: &Rules<'_>,
    input: &str,
    before: &MemoryView<'_>,
    output: &MemoryOutput,
    target: &Target,
) {
    let written = Sample::set(entry(output, target), output.files.clone());
    rules.set_input(&written);
    let source = written.source();
    let context = MemoryContext::default();
    let after = rules.catch_panic(|| input.to_owned(), || rules.read(&source, &context));
    let after = rules.holds(after, "a format reads what it writes", input);
    let losses: Vec<Loss> = output.layout.losses().iter().chain(after.catalog().losses()).cloned().collect();
    CatalogRoundTrip { input, before, after: &after, losses: &losses }.check(rules);
}

/// Returns the entry that a user would pass. The entry is the requested file, otherwise the index,
/// otherwise the folder.
fn entry(output: &MemoryOutput, target: &Target) -> Entry {
    let index =
        || output.layout.files().iter().find(|file| file.role == Role::Index).map(|file| file.path.clone());
    match target {
        Target::File(name) if output.files.contains_key(name) => Entry::File(name.clone()),
        Target::File(_) => index().map_or(Entry::Folder, Entry::File),
        Target::Folder => match output.files.keys().next() {
            Some(only) if output.files.len() == 1 => Entry::File(only.clone()),
            _ => Entry::Folder,
        },
    }
}
