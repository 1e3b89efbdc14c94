//! Scans the parts of an input on several threads, and keeps the results in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use tensorferry_sdk::{Context, Result};

/// Scans the parts of an input, and returns the results in order. If a part fails, the parts that
/// have not been started are skipped.
pub fn scan_all<P: Sync, F: Send>(
    parts: &[P],
    context: &dyn Context,
    scan: impl Fn(&P) -> Result<F> + Sync,
) -> Vec<Result<F>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(index) else { return done };
            let found = scan(part);
            if found.is_err() {
                // This prevents further parts from being started. All earlier parts have already
                // been started, so the results contain the earliest error.
                next.fetch_max(parts.len(), Ordering::Relaxed);
            }
            done.push((index, found));
        }
    };
    let threads = context.threads().clamp(1, parts.len().max(1));
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, found)| found).collect()
}
