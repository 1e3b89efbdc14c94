//! Fetches pages of files. If a read waits for a page, the page is fetched immediately. Other pages
//! are fetched in advance, within the memory budget.

use crate::body::Pieces;
use crate::client::Client;
use crate::fault::{Fault, Remedy};
use crate::pages::{Content, FetchId, FileId, Pages, PlannedFetch};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tensorferry_sdk::{Error, Result};
use tokio::runtime::Handle;

/// A source of a file's bytes. The source returns only bytes from the file version that was opened.
/// If the server returns anything else, the source returns a fault.
pub(crate) trait Origin: Send + Sync + 'static {
    /// Returns the name of the file for messages to the user.
    fn name(&self) -> &str;

    fn len(&self) -> u64;

    /// Returns the bytes of a range. Fewer bytes than requested may be returned.
    fn get<'a>(&'a self, client: &'a Client, range: Range<u64>) -> BoxFuture<'a, Result<Pieces, Fault>>;

    /// Checks that the file has not changed since it was opened.
    fn check<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<(), Fault>>;
}

/// A function that returns whether the user has canceled the run.
pub(crate) type Cancelled = Arc<dyn Fn() -> bool + Send + Sync>;

/// Time between checks for cancellation.
pub(crate) const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// If a response body is cut off after at least this many bytes, the request counts as progress,
/// and the retry limits are reset.
const MIN_PROGRESS: u64 = 256 << 10;

/// The pages of a process, and the tasks that fill them.
pub(crate) struct Cache {
    state: Mutex<CacheState>,
    changed: Condvar,
    handle: Handle,
    client: Client,
    parallel: usize,
    next_fetch: AtomicU64,
}

struct CacheState {
    pages: Pages,
    origins: HashMap<FileId, Arc<dyn Origin>>,
    /// Number of prefetches that are running.
    ahead: usize,
    /// The errors of failed fetches, for the reads that are waiting for these fetches.
    failed: HashMap<FetchId, Error>,
}

impl Cache {
    pub(crate) fn new(budget: u64, parallel: usize, client: Client, handle: Handle) -> Arc<Self> {
        // Half of the budget is for pages in transit, and the other half is for pages that are
        // being read.
        let block = (budget / (2 * parallel as u64)).clamp(1 << 20, 32 << 20);
        let pages = Pages::new(budget, block);
        let state = CacheState { pages, origins: HashMap::new(), ahead: 0, failed: HashMap::new() };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            handle,
            client,
            parallel,
            next_fetch: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a file with the cache. `start` contains the first bytes of the file, if they have
    /// already been received.
    pub(crate) fn begin(&self, file: FileId, origin: &Arc<dyn Origin>, start: &[u8]) {
        let mut state = self.lock();
        if state.origins.contains_key(&file) {
            return;
        }
        state.origins.insert(file, Arc::clone(origin));
        state.pages.begin(file, origin.len());
        let planned = PlannedFetch { file, range: 0..start.len() as u64 };
        if !start.is_empty() && state.pages.make_room(planned.range.end) {
            for (at, len) in state.pages.reserve(&planned, FetchId::MAX) {
                let range = at..at + len;
                let bytes = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
                let bytes = bytes.and_then(|(from, to)| start.get(from..to)).unwrap_or_default().to_vec();
                state.pages.fill(file, at, bytes);
                state.pages.may_go(file, at);
            }
        }
    }

    /// Removes a file from the cache.
    pub(crate) fn end(&self, file: FileId) {
        let mut state = self.lock();
        state.pages.end(file);
        state.origins.remove(&file);
    }

    /// Records which ranges of a file will be read next.
    pub(crate) fn advise(self: &Arc<Self>, file: FileId, ranges: &[Range<u64>]) {
        let mut state = self.lock();
        state.pages.advise(file, ranges);
        self.pump(&mut state);
    }

    /// If the fault reports that the file has changed, makes all further reads of the file fail.
    pub(crate) fn note(&self, file: FileId, fault: &Fault) {
        if fault.remedy == Remedy::Changed {
            self.lock().pages.fail(file, &fault.error);
        }
    }

    pub(crate) fn read(
        self: &Arc<Self>,
        file: FileId,
        offset: u64,
        buffer: &mut [u8],
        cancelled: &Cancelled,
    ) -> Result<()> {
        let range = offset..offset + buffer.len() as u64;
        let (mut at, mut filled) = (offset, 0);
        let mut state = self.lock();
        state.pages.note_begin(file, &range);
        self.pump(&mut state);
        let mut awaited = None;
        while at < range.end {
            if let Some(error) = state.pages.failed(file) {
                return Err(error.clone());
            }
            let Some((start, page)) = state.pages.at(file, at) else {
                // If the fetch that this read waited for has failed, the read returns the error of
                // the fetch. A failed prefetch is not reported here, because the read fetches the
                // page again.
                if let Some(error) = awaited.take().and_then(|fetch| state.failed.get(&fetch).cloned()) {
                    return Err(error);
                }
                let demand = state.pages.demand(file, at, range.end);
                let demand = demand.ok_or_else(|| Error::io("read from a closed file, or past its end"))?;
                self.fetch(&mut state, &demand, false);
                continue;
            };
            match &page.content {
                Content::Present(bytes) => {
                    let (bytes, len) = (Arc::clone(bytes), page.len);
                    let from = usize::try_from(at - start).unwrap_or(usize::MAX);
                    let count = usize::try_from((start + len).min(range.end) - at).unwrap_or(usize::MAX);
                    drop(state);
                    buffer[filled..filled + count].copy_from_slice(&bytes[from..from + count]);
                    drop(bytes);
                    (at, filled, awaited) = (at + count as u64, filled + count, None);
                    state = self.lock();
                    state.pages.note_read(file, start, count as u64);
                    self.pump(&mut state);
                }
                Content::Pending(fetch) => {
                    awaited = Some(*fetch);
                    page.waiting += 1;
                    state = self
                        .changed
                        .wait_timeout(state, CANCEL_CHECK_INTERVAL)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                    if let Some((now, page)) = state.pages.at(file, at)
                        && now == start
                    {
                        page.waiting = page.waiting.saturating_sub(1);
                    }
                    if cancelled() {
                        return Err(Error::cancelled("interrupted while reading a file"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Starts as many planned fetches as the limits allow.
    fn pump(self: &Arc<Self>, state: &mut CacheState) {
        while state.ahead < self.parallel {
            let Some(next) = state.pages.next() else { break };
            if !state.pages.make_room(next.range.end - next.range.start) {
                break;
            }
            state.pages.begin_next(&next);
            self.fetch(state, &next, true);
        }
    }

    fn fetch(self: &Arc<Self>, state: &mut CacheState, planned: &PlannedFetch, is_ahead: bool) {
        let Some(origin) = state.origins.get(&planned.file).map(Arc::clone) else { return };
        let fetch = self.next_fetch.fetch_add(1, Ordering::Relaxed);
        let pages = state.pages.reserve(planned, fetch);
        state.ahead += usize::from(is_ahead);
        let (cache, planned) = (Arc::clone(self), planned.clone());
        self.handle.spawn(async move {
            let mut guard =
                FetchGuard { cache: &cache, planned: &planned, fetch, pages: &pages, is_ahead, fault: None };
            guard.fault = cache.fill(&*origin, &planned, fetch, &pages).await.err();
        });
    }

    /// Fetches consecutive pages. If a body is cut off, the fetch continues with a new request.
    async fn fill(
        self: &Arc<Self>,
        origin: &dyn Origin,
        planned: &PlannedFetch,
        fetch: FetchId,
        pages: &[(u64, u64)],
    ) -> Result<(), Fault> {
        let (file, end) = (planned.file, planned.range.end);
        let mut pages = pages.iter();
        let Some(mut page) = pages.next().copied() else { return Ok(()) };
        let mut buffer = self.lock().pages.buffer(page.1);
        let mut retry_limits = self.client.retry_limits();
        let (mut at, mut renewed) = (planned.range.start, planned.range.start);
        loop {
            let mut pieces = match origin.get(&self.client, at..end).await {
                Ok(pieces) => pieces,
                // The client has already retried requests that the server rejected because it was
                // busy.
                Err(fault) => {
                    retry_limits.wait(fault.of(origin.name())).await?;
                    continue;
                }
            };
            let fault = loop {
                let mut piece = match pieces.next().await {
                    Some(Ok(piece)) => piece,
                    Some(Err(fault)) => break fault.of(origin.name()),
                    None => {
                        let missing = format!("the body ended {} bytes early", end - at);
                        break Fault::transient(missing).of(origin.name());
                    }
                };
                while !piece.is_empty() {
                    let wanted = usize::try_from(page.1).unwrap_or(usize::MAX) - buffer.len();
                    let part = piece.split_to(piece.len().min(wanted));
                    buffer.extend_from_slice(&part);
                    at += part.len() as u64;
                    if buffer.len() as u64 == page.1 {
                        let mut state = self.lock();
                        state.pages.fill(file, page.0, std::mem::take(&mut buffer));
                        self.changed.notify_all();
                        let Some(next) = pages.next().copied() else { return Ok(()) };
                        page = next;
                        // The file was closed during the fetch, so nothing waits for these bytes.
                        if !state.pages.is_coming(file, page.0, fetch) {
                            return Ok(());
                        }
                        buffer = state.pages.buffer(page.1);
                    }
                }
            };
            if at - renewed >= MIN_PROGRESS {
                retry_limits.renew();
                renewed = at;
            }
            retry_limits.wait(fault).await?;
        }
    }
}

/// Records the end of a fetch when this value is dropped, whether the fetch succeeded, failed or
/// was canceled.
struct FetchGuard<'a> {
    cache: &'a Arc<Cache>,
    planned: &'a PlannedFetch,
    fetch: FetchId,
    pages: &'a [(u64, u64)],
    is_ahead: bool,
    fault: Option<Fault>,
}

impl Drop for FetchGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        state.ahead -= usize::from(self.is_ahead);
        state.pages.give_up(self.planned.file, self.fetch, self.pages);
        match self.fault.take() {
            Some(fault) if fault.remedy == Remedy::Changed => {
                state.pages.fail(self.planned.file, &fault.error);
            }
            Some(fault) if !self.is_ahead => {
                // A read does not remove the error that it returns, because several reads may wait
                // for the same fetch. Therefore, the map is cleared when it becomes large.
                if state.failed.len() > 1024 {
                    state.failed.clear();
                }
                state.failed.insert(self.fetch, fault.error);
            }
            _ => {}
        }
        self.cache.changed.notify_all();
        self.cache.pump(&mut state);
    }
}
