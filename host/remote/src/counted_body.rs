//! A request body that reports its progress, so that a slow upload is not mistaken for a stalled
//! one.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Maximum number of bytes that are passed to the connection at a time.
const PIECE: usize = 256 << 10;

pub(crate) struct CountedBody {
    rest: Bytes,
    taken: Arc<AtomicU64>,
}

impl CountedBody {
    /// Returns the body, and a counter for the bytes that the connection has accepted.
    pub(crate) fn new(bytes: Bytes) -> (Self, Arc<AtomicU64>) {
        let taken = Arc::<AtomicU64>::default();
        (Self { rest: bytes, taken: Arc::clone(&taken) }, taken)
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let len = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(len);
        self.taken.fetch_add(len as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
