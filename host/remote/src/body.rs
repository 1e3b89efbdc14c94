//! A response body that is read in pieces. Reading fails if the body arrives too slowly.

use crate::fault::{Fault, causes};
use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use std::time::{Duration, Instant};

pub(crate) type Pieces = BoxStream<'static, Result<Bytes, Fault>>;

/// The part of a response body that has not been read yet.
#[derive(Debug)]
pub(crate) struct Body {
    response: reqwest::Response,
    min_rate: u64,
    time: Duration,
    since: Instant,
    bytes: u64,
}

/// Time limit for reading the body of an error response.
const ERROR_TIMEOUT: Duration = Duration::from_secs(5);

impl Body {
    /// Wraps the body of a response. Reading fails if fewer than `min_rate` bytes per second
    /// arrive over the period `time`.
    pub(crate) fn new(response: reqwest::Response, min_rate: u64, time: Duration) -> Self {
        Self { response, min_rate, time, since: Instant::now(), bytes: 0 }
    }

    /// Returns the number of bytes that remain, if the server has sent the length.
    pub(crate) fn len(&self) -> Option<u64> {
        let text = self.response.headers().get(reqwest::header::CONTENT_LENGTH)?;
        text.to_str().ok()?.trim().parse().ok()
    }

    /// Returns the next piece, or `None` at the end of the body.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Fault> {
        let left = self.time.saturating_sub(self.since.elapsed());
        let piece = tokio::time::timeout(left, self.response.chunk()).await;
        if let Ok(Ok(Some(piece))) = &piece {
            self.bytes += piece.len() as u64;
        }
        let elapsed = self.since.elapsed();
        if piece.is_err() || elapsed >= self.time {
            #[expect(clippy::cast_precision_loss, reason = "the rate is only displayed")]
            let rate = self.bytes as f64 / elapsed.as_secs_f64().max(0.001);
            #[expect(clippy::cast_precision_loss, reason = "the rate is only displayed")]
            if piece.is_err() || rate < self.min_rate as f64 {
                return Err(Fault::transient(format!(
                    "{rate:.0} bytes per second, below the setting min-rate of {}",
                    self.min_rate
                )));
            }
            (self.since, self.bytes) = (Instant::now(), 0);
        }
        match piece {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => {
                let error = error.without_url();
                Err(Fault::transient(format!("the connection was lost: {}", causes(&error))))
            }
            Err(_) => Ok(None),
        }
    }

    /// Reads the whole body. Fails if the body has more than `most` bytes.
    pub(crate) async fn all(mut self, most: usize) -> Result<Bytes, Fault> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.piece().await? {
            if all.len() + piece.len() > most {
                let error = tensorferry_sdk::Error::limit("the response is too long")
                    .expected(format!("at most {most} bytes"));
                return Err(Fault::permanent(error));
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    /// Reads up to `most` bytes from the start of the body, and ignores errors. This function is
    /// for error responses, whose bodies may be endless.
    pub(crate) async fn start(mut self, most: usize) -> Bytes {
        let mut start = BytesMut::new();
        let _ = tokio::time::timeout(ERROR_TIMEOUT, async {
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

    pub(crate) fn pieces(self) -> Pieces {
        Box::pin(futures_util::stream::try_unfold(self, |mut body| async move {
            Ok(body.piece().await?.map(|piece| (piece, body)))
        }))
    }
}
