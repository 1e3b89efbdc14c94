//! Syncs the output's files during the copy, so that the disk and the processor work in parallel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tensorferry_publish::output_bytes::OutputBytes;
use tensorferry_sdk::Result;

/// Pause between two passes over the files.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs the copy while a second thread repeatedly syncs the data of the copied files.
pub(super) fn alongside(files: &[OutputBytes], copy: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let syncing = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for file in files {
                    if let Some(file) = file.local()? {
                        file.sync_data()?;
                    }
                }
                thread::park_timeout(PAUSE);
            }
            Ok(())
        });
        let end = EndOnDrop(&done);
        let copied = copy();
        drop(end);
        let synced: Result<()> = syncing.join().unwrap_or(Ok(()));
        copied.and(synced)
    })
}

/// Stops the syncing thread even if the copy panics. Otherwise the thread scope would wait for the
/// syncing thread forever.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
