//! Checks a reader with damaged inputs. The reader must promptly return an error or a catalog, and
//! must not panic.

use super::Sample;
use super::buffer_monitor::BufferMonitor;
use super::compare::names;
use super::rules::Rules;
use crate::{Limits, LossKind, MemoryContext, Result, StorageLocation};
use std::collections::BTreeSet;

/// Maximum number of damaged versions per file and kind of damage. Longer files are damaged at
/// evenly spaced positions.
const MAX_DAMAGED_VERSIONS: usize = 4096;
/// Maximum number of bytes to read from a damaged input's catalog, which may declare terabytes of
/// encoded data.
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// Truncates and changes each file of a sample, and returns the number of damaged inputs.
pub(super) fn check(rules: &Rules<'_>, sample: &Sample) -> usize {
    let whole = read(rules, sample, &|| sample.title()).unwrap_or_default();
    for_each_damaged(sample, |damaged, is_cut, input| {
        let found = read(rules, damaged, input);
        if is_cut {
            let missing = found.as_ref().ok().and_then(|found| whole.difference(found).next());
            rules.require(missing.is_none(), "a truncated file never loses tensors silently", || {
                format!("{}: {missing:?}", input())
            });
        }
    })
}

/// Calls `visit` with every damaged version of a sample. `visit` also receives whether a file was
/// truncated, and a description of the damage. Returns the number of damaged versions.
pub(super) fn for_each_damaged(sample: &Sample, visit: impl Fn(&Sample, bool, &dyn Fn() -> String)) -> usize {
    let mut count = 0;
    for (name, bytes) in &sample.files {
        for at in (0..bytes.len()).step_by(bytes.len().div_ceil(MAX_DAMAGED_VERSIONS).max(1)) {
            let cut = damaged(sample, name, bytes[..at].to_vec());
            visit(&cut, true, &|| format!("{}, {name} cut to {at} bytes", sample.title()));
            for change in [1 << (at % 8), 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                let input = || format!("{}, byte {at} of {name} xor {change:#04x}", sample.title());
                visit(&damaged(sample, name, changed), false, &input);
            }
            count += 3;
        }
    }
    count
}

fn damaged(sample: &Sample, name: &str, bytes: Vec<u8>) -> Sample {
    let mut other = sample.clone();
    other.files.insert(name.to_owned(), bytes);
    other
}

/// Probes an input, then reads its catalog and all of its tensors. Returns the names of all
/// tensors, including those that were reported as lost.
fn read(rules: &Rules<'_>, sample: &Sample, input: &dyn Fn() -> String) -> Result<BTreeSet<String>> {
    rules.set_input(sample);
    let limits = Limits { header_bytes: 16 << 20, expanded_bytes: MAX_BYTES, ..Limits::default() };
    let (monitor, context) = (BufferMonitor::new(sample.source()), MemoryContext::new(limits));
    let score = rules.catch_panic(input, || rules.format.probe(&monitor, &context));
    rules.holds(score, "probing fails only with I/O errors", &input());
    let found = rules.catch_panic(input, || {
        let view = rules.read(&monitor, &context)?;
        let catalog = view.catalog();
        let bounded = catalog.storages().iter().all(|storage| {
            !matches!(storage.location, StorageLocation::Encoded { .. }) || storage.len <= MAX_BYTES
        });
        for tensor in catalog.tensors() {
            if bounded && tensor.bytes <= MAX_BYTES {
                // A damaged tensor may be unreadable, but reading it must be safe.
                let _ = view.tensor_named(&tensor.name);
            }
        }
        let lost = catalog.losses().iter().filter(|loss| loss.kind == LossKind::Tensor);
        Ok(names(catalog).chain(lost.map(|loss| &loss.what)).cloned().collect())
    });
    rules.require(!monitor.has_oversized_buffer(), "no buffer is longer than its file", input);
    if let Err(error) = &found {
        rules.check_fault(error, &input());
    }
    found
}
