//! Checks a reader with damaged inputs: an error or a catalog, at once, and no panic.

use super::Sample;
use super::compare::names;
use super::rules::Rules;
use super::watched::Watched;
use crate::{Limits, LossKind, MemoryContext, Place, Result};
use std::collections::BTreeSet;

/// Damages per file and sort: a longer file is damaged at places that lie evenly in it.
const MOST: usize = 4096;
/// A catalog of damaged bytes may claim terabytes of encoded data; this much is read of it.
pub(super) const MOST_BYTES: u64 = 1 << 20;

/// Cuts and changes each file of a sample; how many inputs that made.
pub(super) fn check(rules: &Rules<'_>, sample: &Sample) -> usize {
    let whole = read(rules, sample, &|| sample.title()).unwrap_or_default();
    each(sample, |damaged, is_cut, input| {
        let found = read(rules, damaged, input);
        if is_cut {
            let missing = found.as_ref().ok().and_then(|found| whole.difference(found).next());
            rules.require(missing.is_none(), "a file that ends too early loses no tensor in silence", || {
                format!("{}: {missing:?}", input())
            });
        }
    })
}

/// Has `look` take every damaged form of a sample, whether a file of it was cut, and words for it; how many
/// they were.
pub(super) fn each(sample: &Sample, look: impl Fn(&Sample, bool, &dyn Fn() -> String)) -> usize {
    let mut count = 0;
    for (name, bytes) in &sample.files {
        for at in (0..bytes.len()).step_by(bytes.len().div_ceil(MOST).max(1)) {
            let cut = damaged(sample, name, bytes[..at].to_vec());
            look(&cut, true, &|| format!("{}, {name} cut to {at} bytes", sample.title()));
            for change in [1 << (at % 8), 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                let input = || format!("{}, byte {at} of {name} xor {change:#04x}", sample.title());
                look(&damaged(sample, name, changed), false, &input);
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

/// Probes and reads an input and what it holds; the names of its tensors, and of those it gave up.
fn read(rules: &Rules<'_>, sample: &Sample, input: &dyn Fn() -> String) -> Result<BTreeSet<String>> {
    rules.look_at(sample);
    let limits = Limits { header_bytes: 16 << 20, expanded_bytes: MOST_BYTES, ..Limits::default() };
    let (watched, context) = (Watched::new(sample.source()), MemoryContext::new(limits));
    let score = rules.calm(input, || rules.format.probe(&watched, &context));
    rules.holds(score, "probing fails by i/o alone", &input());
    let found = rules.calm(input, || {
        let view = rules.read(&watched, &context)?;
        let catalog = view.catalog();
        let bounded = catalog
            .storages()
            .iter()
            .all(|storage| !matches!(storage.place, Place::Encoded { .. }) || storage.len <= MOST_BYTES);
        for tensor in catalog.tensors() {
            if bounded && tensor.bytes <= MOST_BYTES {
                // Whether they can be had is the input's affair; that asking is safe is the format's.
                let _ = view.tensor_named(&tensor.name);
            }
        }
        let lost = catalog.losses().iter().filter(|loss| loss.kind == LossKind::Tensor);
        Ok(names(catalog).chain(lost.map(|loss| &loss.what)).cloned().collect())
    });
    rules.require(!watched.allocated_by_claim(), "no buffer is longer than its file", input);
    if let Err(error) = &found {
        rules.blames_input(error, &input());
    }
    found
}
