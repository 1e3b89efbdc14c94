//! Tensors that are written as they are read: a window at a time, by a session that is not the model's.

use super::Tensor;
use std::sync::Arc;
use tensorferry_core::context::session::Session;
use tensorferry_sdk::{Result, TensorId};

impl Tensor {
    /// Which tensor it is, of which model: the same for those that are one in the input.
    pub(crate) fn identity(&self) -> (usize, TensorId) {
        let opened = &self.model.opened;
        let ties = opened.ties.get_or_init(|| opened.catalog.ties());
        let first = ties.get(self.id.0 as usize).copied();
        (Arc::as_ptr(opened) as usize, first.unwrap_or(self.id))
    }

    /// The same tensor, read in another session.
    pub(crate) fn with_session(&self, session: &Arc<Session>) -> Self {
        Self { model: self.model.with_session(session.clone()), id: self.id }
    }

    /// Gives the bytes that [`read`](Self::read) gives to `each`, in order, in windows, in this thread; at the end they
    /// are compared with the checksums that the format keeps of them.
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
