//! Checks that encoded segments always have the same bytes. The bytes must not depend on the order
//! of encoding, the number of repetitions or the thread.

use super::rules::Rules;
use crate::memory::{MemoryOutput, MemoryView};
use crate::{
    EncodedId, LayoutBuilder, MemoryContext, Options, PlacedEncoded, Result, Side, Target, TensorPlan,
};

/// Number of threads that encode concurrently.
const THREADS: usize = 4;

/// Encodes every segment of a layout again, on several threads and in different orders. Compares
/// the bytes with `output`.
pub(super) fn check(
    rules: &Rules<'_>,
    input: &str,
    view: &MemoryView<'_>,
    target: &Target,
    output: &MemoryOutput,
) {
    if output.layout.encoded().is_empty() {
        return;
    }
    let context = MemoryContext::default();
    let plan = rules.holds(plan(rules, view, target, &context), "planning again gives the same plan", input);
    let encode = |thread: usize| {
        let segments = output.layout.encoded();
        for place in 0..segments.len() {
            let place = if thread.is_multiple_of(2) { place } else { segments.len() - 1 - place };
            let mut bytes = Vec::new();
            let id = EncodedId(u32::try_from(place).unwrap_or(u32::MAX));
            let note = rules.catch_panic(|| input.to_owned(), || plan.encode(id, view, &mut bytes, &context));
            rules.holds(note, "a segment can be encoded at any time", input);
            let same = bytes == written(output, &segments[place]);
            rules.require(same, "a segment is encoded to the same bytes each time", || {
                format!("{input}: segment {place}")
            });
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || encode(thread))).collect();
        // If a rule was broken on a thread, resume that thread's panic here.
        for thread in threads {
            if let Err(payload) = thread.join() {
                std::panic::resume_unwind(payload);
            }
        }
    });
}

fn plan(
    rules: &Rules<'_>,
    view: &MemoryView<'_>,
    target: &Target,
    context: &MemoryContext,
) -> Result<Box<dyn TensorPlan>> {
    let options = Options::check(&rules.description.options, Side::Writer, &[])?;
    let mut layout = LayoutBuilder::new(view, context);
    rules.format.writer(&options)?.plan(view, target, &mut layout, context)
}

fn written<'a>(output: &'a MemoryOutput, placed: &PlacedEncoded) -> &'a [u8] {
    let file = &output.layout.files()[placed.file.0 as usize];
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    &output.files[&file.path][at(placed.range.start)..at(placed.range.end)]
}
