//! Reads numbers through a cast. Stored numbers are read in pieces that fit in the L2 cache, and
//! returned in their new dtype.

use super::{Cast, CastLosses};
use crate::gather::swap;
use std::ops::Range;
use tensorferry_core::context::windows::size;
use tensorferry_sdk::{ByteOrder, CastStorage, Error, Result, StorageId};

/// Number of stored bytes that are cast at a time.
const PIECE: usize = 128 << 10;

/// A callback that receives the stored bytes of a read, for example to compute digests.
pub struct ReadObserver<'a> {
    /// The range of bytes that this reader owns, in the storage that is read. The reader owns a
    /// number if the range contains the number's first byte.
    pub owned: Range<u64>,
    /// The function that receives the stored bytes of the `owned` range. Its arguments are the
    /// storage, the offset in the storage, and the bytes.
    pub see: &'a mut dyn FnMut(StorageId, u64, &[u8]) -> Result<()>,
}

/// The conversion of numbers from their stored dtype to the dtype in which they are read.
pub struct CastChain {
    /// The storage that contains the stored numbers.
    pub of: StorageId,
    /// Number of bytes of a stored number.
    pub(crate) from_width: u64,
    /// Number of bytes of a number after the cast.
    pub(crate) to_width: u64,
    /// Number of bytes that are reversed together in the storage; 1 if no bytes are reversed.
    pub swap_unit: u32,
    start: u64,
    casts: Vec<&'static Cast>,
}

impl CastChain {
    /// Returns the conversion for a cast storage, or an error if the values of a dtype in the chain
    /// are not numbers.
    pub fn of(cast: &CastStorage, byte_order: ByteOrder) -> Result<Self> {
        let casts = cast.dtypes.windows(2).map(|pair| Cast::between(pair[0], pair[1]));
        let stored = cast.dtypes.first().and_then(|dtype| dtype.info());
        let stored = stored.ok_or_else(|| Error::unsupported("a cast without a source dtype"))?;
        let (from_width, to_width) = cast.widths();
        Ok(Self {
            of: cast.of,
            from_width,
            to_width,
            swap_unit: if byte_order == ByteOrder::Big { stored.swap_unit() } else { 1 },
            start: cast.start,
            casts: casts.collect::<Result<_>>()?,
        })
    }

    /// Returns whether the conversion preserves every number.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.casts.iter().all(|cast| cast.is_exact())
    }

    /// Converts a number's offset in the cast storage to its offset in the underlying storage.
    #[must_use]
    pub fn below(&self, byte: u64) -> u64 {
        self.start + byte / self.to_width * self.from_width
    }

    /// Casts contiguous little-endian numbers, and returns how many numbers changed in each way.
    pub fn run(&self, from: &[u8], to: &mut [u8]) -> CastLosses {
        match &*self.casts {
            [cast] => cast.run(from, to),
            casts => self.run_all(casts, from, to),
        }
    }

    fn run_all(&self, casts: &[&Cast], from: &[u8], to: &mut [u8]) -> CastLosses {
        let count = to.len() / size(self.to_width);
        let mut lost = CastLosses::default();
        let mut numbers = from.to_vec();
        for cast in casts {
            let mut next = vec![0; count * cast.to_width];
            lost += cast.run(&numbers, &mut next);
            numbers = next;
        }
        to.copy_from_slice(&numbers);
        lost
    }

    /// Fills `buffer` with bytes of the cast storage that start at `offset`. `read_lying` reads
    /// bytes of the underlying storage. Returns the counts of changed numbers. Only numbers that
    /// the `observer` owns are counted.
    pub fn read(
        &self,
        mut read_lying: impl FnMut(u64, &mut [u8]) -> Result<()>,
        offset: u64,
        buffer: &mut [u8],
        observer: &mut ReadObserver<'_>,
    ) -> Result<CastLosses> {
        let end = offset + buffer.len() as u64;
        let numbers = offset / self.to_width..end.div_ceil(self.to_width);
        let at_once = (PIECE as u64 / self.from_width.max(self.to_width)).min(numbers.end - numbers.start);
        let mut stored = vec![0; size(at_once * self.from_width)];
        let mut cut = Vec::new();
        let mut lost = CastLosses::default();
        let mut first = numbers.start;
        while first < numbers.end {
            let piece = first..(first + at_once).min(numbers.end);
            let stored = &mut stored[..size((piece.end - piece.start) * self.from_width)];
            let from = self.start + piece.start * self.from_width;
            read_lying(from, stored)?;
            let owned = self.owned(&piece, &observer.owned);
            if !owned.is_empty() {
                let at = from + owned.start as u64 * self.from_width;
                (observer.see)(self.of, at, &stored[scaled(&owned, self.from_width)])?;
            }
            swap(stored, self.swap_unit);
            let (start, stop) = (piece.start * self.to_width, piece.end * self.to_width);
            if start >= offset && stop <= end {
                lost +=
                    self.cast_owned(stored, &mut buffer[size(start - offset)..size(stop - offset)], &owned);
            } else {
                // The requested range begins or ends inside a number, so the whole number is cast.
                cut.resize(size(stop - start), 0);
                lost += self.cast_owned(stored, &mut cut, &owned);
                let (from, to) = (start.max(offset), stop.min(end));
                buffer[size(from - offset)..size(to - offset)]
                    .copy_from_slice(&cut[size(from - start)..size(to - start)]);
            }
            first = piece.end;
        }
        Ok(lost)
    }

    /// Returns the indices of those numbers in a piece whose first byte is in the range `bytes` of
    /// the cast storage.
    fn owned(&self, piece: &Range<u64>, bytes: &Range<u64>) -> Range<usize> {
        let within = |byte: u64| byte.div_ceil(self.to_width).clamp(piece.start, piece.end) - piece.start;
        size(within(bytes.start))..size(within(bytes.end))
    }

    /// Casts a piece, and returns the counts of changed numbers. Only numbers in the range `owned`
    /// are counted.
    fn cast_owned(&self, stored: &[u8], to: &mut [u8], owned: &Range<usize>) -> CastLosses {
        let count = stored.len() / size(self.from_width);
        let mut part = |numbers: Range<usize>| {
            self.run(&stored[scaled(&numbers, self.from_width)], &mut to[scaled(&numbers, self.to_width)])
        };
        if owned.is_empty() {
            part(0..count);
            return CastLosses::default();
        }
        part(0..owned.start);
        part(owned.end..count);
        part(owned.clone())
    }
}

fn scaled(numbers: &Range<usize>, width: u64) -> Range<usize> {
    numbers.start * size(width)..numbers.end * size(width)
}
