//! Uploads an object in parts while the object is being written. A small object is buffered
//! instead, and uploaded as a whole.

mod complete;
mod parts;

use super::request_options::RequestOptions;
use super::store_error::StoreError;
use super::{Store, location};
use crate::budget::{MAX_PARTS, Reservation};
use crate::runtime::{Engine, Process};
use crate::settings::Scope;
use bytes::Bytes;
use complete::Completion;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{MultipartId, PutPayload};
use parts::{Parts, split};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tensorferry_core::context::remote::{Condition, NewObject, RemoteUpload};
use tensorferry_sdk::{Error, Result};
use tokio::task::AbortHandle;

/// Time limit for aborting a failed upload. If the abort takes longer, the upload remains in the
/// store until `ferry clean` aborts it.
const END_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Upload(Arc<UploadContext>);

struct UploadContext {
    engine: Arc<Engine>,
    process: Arc<Process>,
    store: Arc<dyn Store>,
    scope: Scope,
    location: Path,
    url: String,
    /// The ID that the store assigned to the upload, once the upload has been created.
    id: tokio::sync::Mutex<Option<MultipartId>>,
    state: Mutex<UploadState>,
    /// Signals that a part has been uploaded or has failed.
    turn: Condvar,
}

struct UploadState {
    parts: Parts,
    sent: BTreeMap<usize, Option<PartId>>,
    on_their_way: usize,
    tasks: Vec<AbortHandle>,
    error: Option<Error>,
    /// The whole content of the object, if it is small.
    small: Option<(Bytes, Option<Reservation>)>,
    is_visible: bool,
}

impl Upload {
    pub(super) fn begin(
        engine: &Arc<Engine>,
        store: Arc<dyn Store>,
        scope: Scope,
        (path, url): (&str, String),
        object: &NewObject,
    ) -> Result<Self> {
        let process = engine.process()?;
        let parts = Parts::new(process.budget.part_bytes(object.len), object.len, &object.late);
        Ok(Self(Arc::new(UploadContext {
            engine: Arc::clone(engine),
            process,
            store,
            scope,
            location: location(path)?,
            url,
            id: tokio::sync::Mutex::default(),
            state: Mutex::new(UploadState {
                parts,
                sent: BTreeMap::new(),
                on_their_way: 0,
                tasks: Vec::new(),
                error: None,
                small: None,
                is_visible: false,
            }),
            turn: Condvar::new(),
        })))
    }

    fn write(&self, offset: u64, bytes: &[u8], is_late: bool) -> Result<()> {
        let sending = &self.0;
        let range = offset..offset + bytes.len() as u64;
        let part_bytes = sending.state()?.parts.part_bytes;
        let mut rest = bytes;
        for (number, at) in split(part_bytes, range) {
            let piece;
            (piece, rest) = rest.split_at(usize::try_from(at.end - at.start).unwrap_or(rest.len()));
            sending.put(number, at, piece, is_late).map_err(|error| error.file(&*sending.url))?;
        }
        Ok(())
    }
}

impl UploadContext {
    /// Locks the state. Returns the error if the upload has failed.
    fn state(&self) -> Result<MutexGuard<'_, UploadState>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.error {
            None => Ok(state),
            Some(error) => Err(error.clone()),
        }
    }

    fn put(self: &Arc<Self>, number: usize, at: Range<u64>, bytes: &[u8], is_late: bool) -> Result<()> {
        if number as u64 >= MAX_PARTS {
            let most = self.state()?.parts.part_bytes * MAX_PARTS;
            return Err(Error::limit(
                "the object is too long for an upload whose length is not known in advance",
            )
            .expected(format!("at most {most} bytes"))
            .hint("write several files"));
        }
        let mut state = self.state()?;
        if !state.parts.is_open(number) && !state.sent.contains_key(&number) {
            let len = state.parts.part_len(number);
            drop(state);
            let memory = self.process.budget.take(len, &self.engine.cancelled)?;
            state = self.state()?;
            // Another thread may have started the part while this thread waited for memory.
            if !state.parts.is_open(number) && !state.sent.contains_key(&number) {
                state.parts.begin(number, memory)?;
            }
        }
        state.parts.put(number, at.start, bytes, is_late)?;
        self.go_on(&mut state, number)
    }

    /// Uploads a part if the part is complete. If memory is short and the part waits for late
    /// bytes, moves the part to a file.
    fn go_on(self: &Arc<Self>, state: &mut UploadState, number: usize) -> Result<()> {
        let is_small = state.parts.len.is_some_and(|len| len <= state.parts.part_bytes);
        if is_small {
            return Ok(());
        }
        if state.parts.is_whole(number) && !state.parts.is_spilled(number) {
            if let Some((bytes, held)) = state.parts.take(number, None)? {
                self.send(state, number, bytes.into(), held);
            }
        } else if state.parts.waits_for_late(number) && self.process.budget.is_tight() {
            state.parts.spill(number)?;
        }
        Ok(())
    }

    fn send(self: &Arc<Self>, state: &mut UploadState, number: usize, bytes: Bytes, mut held: Reservation) {
        held.mark_uploading();
        state.on_their_way += 1;
        state.sent.insert(number, None);
        let sending = Arc::clone(self);
        let task = self.process.handle.spawn(async move {
            let part = sending.part(number, bytes).await;
            drop(held);
            let mut state = sending.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.on_their_way -= 1;
            match part {
                Ok(part) => {
                    state.sent.insert(number, Some(part));
                }
                Err(error) => {
                    state.error.get_or_insert(error);
                }
            }
            sending.turn.notify_all();
        });
        state.tasks.push(task.abort_handle());
    }

    async fn part(&self, number: usize, bytes: Bytes) -> Result<PartId> {
        let _turn = self.process.sending.acquire().await;
        let mut retry_limits = self.process.client.retry_limits();
        loop {
            let error = match self.part_once(number, bytes.clone()).await {
                Ok(part) => return Ok(part),
                Err(error) => error,
            };
            // This loop retries requests whose response was cut off. The client has already retried
            // requests that received no response.
            match self.store_error(&error) {
                store_error if store_error.is_transient() => {
                    retry_limits.wait(store_error.fault()).await.map_err(|fault| fault.error)?;
                }
                _ => return Err(self.error(&error)),
            }
        }
    }

    async fn part_once(&self, number: usize, bytes: Bytes) -> Result<PartId, object_store::Error> {
        let id = self.begun().await?;
        let payload = PutPayload::from_bytes(bytes);
        RequestOptions::default().of(self.store.put_part(&self.location, &id, number, payload)).await
    }

    /// Returns the ID that the store assigned to the upload. The first call creates the upload.
    async fn begun(&self) -> Result<MultipartId, object_store::Error> {
        let mut id = self.id.lock().await;
        if let Some(id) = &*id {
            return Ok(id.clone());
        }
        let begun = RequestOptions::default().of(self.store.create_multipart(&self.location)).await?;
        Ok(id.insert(begun).clone())
    }

    fn store_error(&self, error: &object_store::Error) -> StoreError {
        StoreError::of(error, &self.process.client).of_file(&self.url)
    }

    fn error(&self, error: &object_store::Error) -> Error {
        let store_error = self.store_error(error);
        match store_error.status() {
            Some(404) if !store_error.is_of_bucket() => {
                Error::transient("the upload was aborted by another process").file(&*self.url)
            }
            _ => store_error.error(),
        }
    }

    /// Waits until no more parts are being uploaded.
    fn land(&self) -> Result<MutexGuard<'_, UploadState>> {
        let mut state = self.state()?;
        while state.on_their_way > 0 {
            if (self.engine.cancelled)() {
                return Err(Error::cancelled("interrupted during an upload").file(&*self.url));
            }
            state = self
                .turn
                .wait_timeout(state, crate::cache::CANCEL_CHECK_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if let Some(error) = &state.error {
                return Err(error.clone());
            }
        }
        Ok(state)
    }
}

impl RemoteUpload for Upload {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes, false)
    }

    fn write_late(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes, true)
    }

    fn ends_at(&self, len: u64) -> Result<()> {
        let mut state = self.0.state()?;
        state.parts.len = Some(len);
        match state.parts.count().checked_sub(1) {
            Some(last) => self.0.go_on(&mut state, last),
            None => Ok(()),
        }
    }

    fn bytes(&self) -> u64 {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.parts.len.unwrap_or(state.parts.end)
    }

    fn finish(&self) -> Result<()> {
        let sending = &self.0;
        let mut state = sending.state()?;
        let len = *{
            let end = state.parts.end;
            state.parts.len.get_or_insert(end)
        };
        if state.small.is_some() {
            return Ok(());
        }
        let hole = |number: usize, parts: &Parts| {
            Error::plugin("bytes of the output were never written")
                .file(&*sending.url)
                .offset(number as u64 * parts.part_bytes)
        };
        if len == 0 {
            state.small = Some((Bytes::new(), None));
            return Ok(());
        }
        let missing = (0..state.parts.count())
            .find(|number| !state.sent.contains_key(number) && !state.parts.is_whole(*number));
        if let Some(number) = missing {
            return Err(hole(number, &state.parts));
        }
        while let Some(number) = state.parts.first_open() {
            let memory = match state.parts.is_spilled(number) {
                false => None,
                true => {
                    let bytes = state.parts.part_len(number);
                    drop(state);
                    let memory = sending.process.budget.take_or_wait(bytes, &sending.engine.cancelled)?;
                    state = sending.state()?;
                    Some(memory)
                }
            };
            let taken = state.parts.take(number, memory)?;
            let Some((bytes, mut held)) = taken else { return Err(hole(number, &state.parts)) };
            if state.parts.count() == 1 && held.keep(bytes.len() as u64) {
                state.small = Some((bytes.into(), Some(held)));
            } else {
                sending.send(&mut state, number, bytes.into(), held);
            }
        }
        drop(state);
        sending.land().map(drop)
    }

    fn commit(&self, condition: &Condition) -> Result<Option<String>> {
        self.finish()?;
        let complete = Completion::of(&self.0, condition.clone())?;
        let sending = Arc::clone(&self.0);
        // Once the completion has started, it is not interrupted, because its outcome would be
        // unknown.
        let note = self.0.engine.run_to_end(async move {
            let done = complete.run(&sending).await;
            sending.state.lock().unwrap_or_else(PoisonError::into_inner).is_visible = done.is_ok();
            done
        })??;
        Ok(note)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let sending = Arc::clone(&self.0);
        let mut state = sending.state.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = std::mem::take(&mut state.tasks);
        if state.is_visible || tasks.is_empty() {
            return;
        }
        drop(state);
        let engine = Arc::clone(&sending.engine);
        // Errors cannot be reported here. If the upload remains in the store, `ferry clean` aborts
        // it.
        let _ = engine.run_to_end(async move {
            // If the upload is being created at this moment, wait for its ID. Without the ID, the
            // upload cannot be aborted.
            let id = tokio::time::timeout(END_TIMEOUT, sending.id.lock()).await;
            tasks.iter().for_each(AbortHandle::abort);
            let Some(id) = id.ok().and_then(|id| id.clone()) else { return };
            let end = RequestOptions::default().of(sending.store.abort_multipart(&sending.location, &id));
            drop(tokio::time::timeout(END_TIMEOUT, end).await);
        });
    }
}
