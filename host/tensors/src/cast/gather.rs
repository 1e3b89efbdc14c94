//! Gathers elements through a cast. The elements are first gathered in their stored dtype, and then
//! cast. Each element of the destination is therefore cast and counted once, even if a source tile
//! also contains unneeded elements.

use super::{CastChain, CastLosses};
use crate::gather::{Scratch, StridedCopy, Tile, swap};
use tensorferry_core::context::windows::size;
use tensorferry_sdk::Result;

impl CastChain {
    /// Converts a copy from the cast storage to the equivalent copy from the underlying storage,
    /// with the sizes and offsets of stored elements.
    #[must_use]
    pub fn rescaled(&self, copy: &StridedCopy) -> StridedCopy {
        copy.rescaled(self.to_width, self.from_width, |byte| self.below(byte))
    }

    /// Copies one tile of a copy from [`rescaled`](Self::rescaled). `read_lying` reads bytes of the
    /// underlying storage. `write` receives an offset and cast bytes, in which each group of
    /// `swap_unit` bytes is reversed. Returns how many values changed in each way.
    pub fn copy_tile(
        &self,
        tile: &Tile<'_>,
        swap_unit: u32,
        buffers: (&mut Scratch, &mut Vec<u8>),
        read_lying: impl FnMut(u64, &mut [u8]) -> Result<()>,
        mut write: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<CastLosses> {
        let (scratch, cast) = buffers;
        let mut lost = CastLosses::default();
        let scaled = |bytes: u64| bytes / self.from_width * self.to_width;
        tile.copy(scratch, self.swap_unit, read_lying, |to, numbers| {
            let len = size(scaled(numbers.len() as u64));
            if cast.len() < len {
                cast.resize(len, 0);
            }
            let cast = &mut cast[..len];
            lost += self.run(numbers, cast);
            swap(cast, swap_unit);
            write(scaled(to), cast)
        })?;
        Ok(lost)
    }
}
