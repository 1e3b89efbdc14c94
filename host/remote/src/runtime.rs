//! The engine that all servers and stores of one `Remotes` share. The engine owns the transfer
//! thread, the client and the cache. These resources belong to one process. A forked child starts
//! its own resources, because it cannot use the threads and connections of its parent.

use crate::budget::Budget;
use crate::cache::{CANCEL_CHECK_INTERVAL, Cache, Cancelled};
use crate::client::Client;
use crate::notes::Notes;
use crate::renewal::{Keys, Renewal};
use crate::settings::Settings;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{Error, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

pub(crate) struct Engine {
    pub(crate) settings: Settings,
    pub(crate) cancelled: Cancelled,
    pub(crate) renewal: Renewal,
    pub(crate) notes: Notes,
    memory: u64,
    process: Mutex<Option<(u32, Arc<Process>)>>,
    next_file: AtomicU64,
}

/// The resources that belong to one process.
pub(crate) struct Process {
    pub(crate) client: Client,
    pub(crate) cache: Arc<Cache>,
    /// The memory budget for uploads.
    pub(crate) budget: Arc<Budget>,
    /// Limits the number of concurrent uploads.
    pub(crate) sending: Semaphore,
    pub(crate) keys: Arc<Keys>,
    pub(crate) handle: Handle,
    openings: Arc<Semaphore>,
    /// Ends the transfer thread when this value is dropped.
    _stop: oneshot::Sender<()>,
}

/// Maximum number of files that are being opened in advance at any one time. The first 128 KiB of
/// each file are kept. With this limit, a hundred shards are opened in two rounds.
const MAX_OPENINGS: usize = 64;

/// A permit to open a file in advance.
pub(crate) type OpeningPermit = OwnedSemaphorePermit;

impl Engine {
    pub(crate) fn new(settings: Settings, memory: u64, cancelled: Cancelled) -> Self {
        let (process, next_file) = (Mutex::new(None), AtomicU64::new(0));
        let (renewal, notes) = (Renewal::default(), Notes::default());
        Self { settings, cancelled, renewal, notes, memory, process, next_file }
    }

    /// Returns the resources of the current process. The first call in a process creates them.
    pub(crate) fn process(&self) -> Result<Arc<Process>> {
        let id = std::process::id();
        let mut known = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, process)) = known.as_ref().filter(|(of, _)| *of == id) {
            return Ok(Arc::clone(process));
        }
        let process = Arc::new(self.start()?);
        // The parent's resources are not dropped, because that would wake a thread that does not
        // exist in this process, and close the parent's connections.
        std::mem::forget(known.replace((id, Arc::clone(&process))));
        Ok(process)
    }

    fn start(&self) -> Result<Process> {
        let client = Client::new(&self.settings)?;
        let cannot = |error: std::io::Error| Error::io(format!("cannot start the transfer thread: {error}"));
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(cannot)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("transfers".into());
        thread.spawn(move || runtime.block_on(async { drop(stopped.await) })).map_err(cannot)?;
        let parallel = self.settings.count("parallel");
        let cache = Cache::new(self.memory, parallel, client.clone(), handle.clone());
        let (budget, sending) = (Budget::new(self.memory), Semaphore::new(parallel));
        let openings = Arc::new(Semaphore::new(MAX_OPENINGS));
        let keys = Arc::default();
        Ok(Process { client, cache, budget, sending, handle, keys, openings, _stop: stop })
    }

    pub(crate) fn next_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Removes from the cache a file that will not be read again.
    pub(crate) fn forget(&self, file: u64) {
        let known = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, process)) = known.as_ref().filter(|(of, _)| *of == std::process::id()) {
            process.cache.end(file);
        }
    }

    /// Runs `work` on the transfer thread as soon as a permit is available. `work` receives the
    /// permit, and releases the permit by dropping it. The work is optional, so it is skipped if it
    /// cannot be started.
    pub(crate) fn begin<F: Future<Output = ()> + Send + 'static>(
        &self,
        work: impl FnOnce(OpeningPermit) -> F + Send + 'static,
    ) {
        let Ok(process) = self.process() else { return };
        let openings = Arc::clone(&process.openings);
        process.handle.spawn(async move {
            if let Ok(turn) = openings.acquire_owned().await {
                work(turn).await;
            }
        });
    }

    /// Runs `work` on the transfer thread and waits until it ends, even if the user cancels the
    /// run. Use this function for work that must not be interrupted and that always ends.
    pub(crate) fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let (send, receive) = sync_channel(1);
        self.process()?.handle.spawn(async move { drop(send.send(work.await)) });
        receive.recv().map_err(|_| Error::io("the transfer thread has ended"))
    }

    /// Runs `work` on the transfer thread and waits until it ends. If the user cancels the run,
    /// aborts the work.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let process = self.process()?;
        let (send, receive) = sync_channel(1);
        let task = process.handle.spawn(async move { drop(send.send(work.await)) });
        loop {
            match receive.recv_timeout(CANCEL_CHECK_INTERVAL) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::io("the transfer thread has ended"));
                }
                Err(RecvTimeoutError::Timeout) if (self.cancelled)() => {
                    task.abort();
                    return Err(Error::cancelled("interrupted while waiting for a server"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
