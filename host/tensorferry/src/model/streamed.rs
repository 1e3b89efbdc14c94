//! Streams a tensor to a writer window by window, in a session other than the model's.

use super::Tensor;
use std::sync::Arc;
use tensorferry_core::context::session::Session;
use tensorferry_sdk::{Result, TensorId};

impl Tensor {
    /// Returns a value that identifies the tensor and its model. Tensors that are tied in the input
    /// have the same identity.
    pub(crate) fn identity(&self) -> (usize, TensorId) {
        let opened = &self.model.opened;
        let ties = opened.ties.get_or_init(|| opened.catalog.ties());
        let first = ties.get(self.id.0 as usize).copied();
        (Arc::as_ptr(opened) as usize, first.unwrap_or(self.id))
    }

    /// Returns this tensor with a different session, in which the tensor is then read.
    pub(crate) fn with_session(&self, session: &Arc<Session>) -> Self {
        Self { model: self.model.with_session(session.clone()), id: self.id }
    }

    /// Passes the bytes that [`read`](Self::read) returns to `each`, window by window and in order.
    /// All work is done in the calling thread. At the end, compares the bytes with the checksums
    /// stored in the input.
    pub(crate) fn each_window(&self, each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let logical = self.model.logical().in_one_thread();
        let read = self.model.checked(|| {
            logical.each_window(self.id, each)?;
            self.model.compare(&logical, self.id)
        });
        read.map_err(|error| {
            let source = &self.model.opened.input.source;
            error.tensor(self.name()).file(source.entry_path().display().to_string())
        })
    }
}
