//! Gathering through a cast: elements are brought in order as they lie, and cast then. So each element
//! of the destination is cast, and counted, once; a tile of the source may hold others beside them.

use super::{CastChain, CastLosses};
use crate::gather::{Scratch, StridedCopy, Tile, swap};
use tensorferry_core::context::windows::size;
use tensorferry_sdk::Result;

impl CastChain {
    /// A copy from the cast storage as one from the storage below it, between elements as they lie.
    #[must_use]
    pub fn rescaled(&self, copy: &StridedCopy) -> StridedCopy {
        copy.rescaled(self.to_width, self.from_width, |byte| self.below(byte))
    }

    /// Does a tile of such a copy: takes bytes of the storage where the numbers lie from `read_lying`, and
    /// gives `write` the bytes of the new dtype, each `swap_unit` of them reversed, and where they go. Says
    /// what was lost.
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
