//! A body comes in pieces, not slower than a least rate.

use crate::fault::{Fault, causes};
use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use std::time::{Duration, Instant};

/// Pieces of a file.
pub(crate) type Pieces = BoxStream<'static, Result<Bytes, Fault>>;

/// What is left of an answer.
#[derive(Debug)]
pub(crate) struct Body {
    response: reqwest::Response,
    least_rate: u64,
    time: Duration,
    since: Instant,
    bytes: u64,
}

/// How long the body of an error is waited for.
const TIME_OF_ERROR: Duration = Duration::from_secs(5);

impl Body {
    /// The body of a response; of fewer than `least_rate` bytes a second over `time` it fails.
    pub(crate) fn new(response: reqwest::Response, least_rate: u64, time: Duration) -> Self {
        Self { response, least_rate, time, since: Instant::now(), bytes: 0 }
    }

    /// How many bytes are to come, where that was said.
    pub(crate) fn len(&self) -> Option<u64> {
        let text = self.response.headers().get(reqwest::header::CONTENT_LENGTH)?;
        text.to_str().ok()?.trim().parse().ok()
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Fault> {
        let left = self.time.saturating_sub(self.since.elapsed());
        let piece = tokio::time::timeout(left, self.response.chunk()).await;
        if let Ok(Ok(Some(piece))) = &piece {
            self.bytes += piece.len() as u64;
        }
        let elapsed = self.since.elapsed();
        if piece.is_err() || elapsed >= self.time {
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            let rate = self.bytes as f64 / elapsed.as_secs_f64().max(0.001);
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            if piece.is_err() || rate < self.least_rate as f64 {
                return Err(Fault::passing(format!(
                    "{rate:.0} bytes a second, the least-rate is {}",
                    self.least_rate
                )));
            }
            (self.since, self.bytes) = (Instant::now(), 0);
        }
        match piece {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => {
                let error = error.without_url();
                Err(Fault::passing(format!("the connection was cut: {}", causes(&error))))
            }
            Err(_) => Ok(None),
        }
    }

    /// All of it, if that is no more than `most` bytes.
    pub(crate) async fn all(mut self, most: usize) -> Result<Bytes, Fault> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.piece().await? {
            if all.len() + piece.len() > most {
                let error = tensorferry_sdk::Error::limit("an answer is too long")
                    .expected(format!("at most {most} bytes"));
                return Err(Fault::last(error));
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    /// Its start, as far as it comes: of errors, which may have no end.
    pub(crate) async fn start(mut self, most: usize) -> Bytes {
        let mut start = BytesMut::new();
        let _ = tokio::time::timeout(TIME_OF_ERROR, async {
            while let Ok(Some(piece)) = self.piece().await {
                let left = most - start.len();
                start.extend_from_slice(&piece[..piece.len().min(left)]);
                if start.len() == most {
                    break;
                }
            }
        })
        .await;
        start.freeze()
    }

    /// Its pieces.
    pub(crate) fn pieces(self) -> Pieces {
        Box::pin(futures_util::stream::try_unfold(self, |mut body| async move {
            Ok(body.piece().await?.map(|piece| (piece, body)))
        }))
    }
}
