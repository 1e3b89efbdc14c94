//! Reading through a cast: the numbers as they lie come in pieces that stay in the L2 cache, and leave
//! in their new dtype.

use super::{Cast, CastLosses};
use crate::gather::swap;
use std::ops::Range;
use tensorferry_core::context::windows::size;
use tensorferry_sdk::{ByteOrder, CastStorage, Error, Result, StorageId};

/// Bytes, as they lie, that are cast at once.
const PIECE: usize = 128 << 10;

/// Who is shown the bytes that a read goes over, as they lie in their storage: digests are taken of them.
pub struct ReadObserver<'a> {
    /// The part of the range that this reader answers for, in bytes of the storage that it reads: a
    /// number belongs to who has its first byte.
    pub owned: Range<u64>,
    /// Is given the bytes behind that part as they lie: their storage, where they begin in it, and they.
    pub see: &'a mut dyn FnMut(StorageId, u64, &[u8]) -> Result<()>,
}

/// The way of numbers from where they lie to the dtype that they are read in.
pub struct CastChain {
    /// The storage where they lie.
    pub of: StorageId,
    /// Bytes of a number there.
    pub(crate) from_width: u64,
    /// Bytes of a number as it is read.
    pub(crate) to_width: u64,
    /// Bytes to reverse together there; 1: none.
    pub swap_unit: u32,
    start: u64,
    casts: Vec<&'static Cast>,
}

impl CastChain {
    /// The way to a cast storage.
    ///
    /// # Errors
    /// Unsupported, if a dtype on it has no numbers.
    pub fn of(cast: &CastStorage, byte_order: ByteOrder) -> Result<Self> {
        let casts = cast.dtypes.windows(2).map(|pair| Cast::between(pair[0], pair[1]));
        let lying = cast.dtypes.first().and_then(|dtype| dtype.info());
        let lying = lying.ok_or_else(|| Error::unsupported("a cast from no dtype"))?;
        let (from_width, to_width) = cast.widths();
        Ok(Self {
            of: cast.of,
            from_width,
            to_width,
            swap_unit: if byte_order == ByteOrder::Big { lying.swap_unit() } else { 1 },
            start: cast.start,
            casts: casts.collect::<Result<_>>()?,
        })
    }

    /// Whether no number can be lost on it.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.casts.iter().all(|cast| cast.is_exact())
    }

    /// Where a number lies: its byte in the cast storage as a byte of the one below.
    #[must_use]
    pub fn below(&self, byte: u64) -> u64 {
        self.start + byte / self.to_width * self.from_width
    }

    /// Casts numbers that lie side by side, little-endian; says what they lost.
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

    /// Fills `buffer` from `offset` bytes into the cast storage. `read_lying` reads bytes of the storage where
    /// the numbers lie. Says what was lost of the numbers that `observer` owns.
    ///
    /// # Errors
    /// Whatever `read_lying` and `observer` give.
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
        let mut lying = vec![0; size(at_once * self.from_width)];
        let mut cut = Vec::new();
        let mut lost = CastLosses::default();
        let mut first = numbers.start;
        while first < numbers.end {
            let piece = first..(first + at_once).min(numbers.end);
            let lying = &mut lying[..size((piece.end - piece.start) * self.from_width)];
            let from = self.start + piece.start * self.from_width;
            read_lying(from, lying)?;
            let owned = self.owned(&piece, &observer.owned);
            if !owned.is_empty() {
                let at = from + owned.start as u64 * self.from_width;
                (observer.see)(self.of, at, &lying[scaled(&owned, self.from_width)])?;
            }
            swap(lying, self.swap_unit);
            let (start, stop) = (piece.start * self.to_width, piece.end * self.to_width);
            if start >= offset && stop <= end {
                lost +=
                    self.cast_owned(lying, &mut buffer[size(start - offset)..size(stop - offset)], &owned);
            } else {
                // The range cuts a number: it is cast whole.
                cut.resize(size(stop - start), 0);
                lost += self.cast_owned(lying, &mut cut, &owned);
                let (from, to) = (start.max(offset), stop.min(end));
                buffer[size(from - offset)..size(to - offset)]
                    .copy_from_slice(&cut[size(from - start)..size(to - start)]);
            }
            first = piece.end;
        }
        Ok(lost)
    }

    /// Which of a piece's numbers begin in `bytes` of the cast storage.
    fn owned(&self, piece: &Range<u64>, bytes: &Range<u64>) -> Range<usize> {
        let within = |byte: u64| byte.div_ceil(self.to_width).clamp(piece.start, piece.end) - piece.start;
        size(within(bytes.start))..size(within(bytes.end))
    }

    /// Casts a piece, and counts what is lost of some of its numbers.
    fn cast_owned(&self, lying: &[u8], to: &mut [u8], owned: &Range<usize>) -> CastLosses {
        let count = lying.len() / size(self.from_width);
        let mut part = |numbers: Range<usize>| {
            self.run(&lying[scaled(&numbers, self.from_width)], &mut to[scaled(&numbers, self.to_width)])
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
