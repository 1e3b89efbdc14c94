//! Casts of one-byte dtypes with a table that contains the results for all 256 values.

use super::CastLosses;

/// A table of the results for all values of a one-byte dtype.
pub(super) struct Table {
    /// The bytes of all results, contiguous.
    cast: Vec<u8>,
    lost: [CastLosses; 256],
}

impl Table {
    /// Builds the table. For each value, `cast` returns the bytes of the result and the counts of
    /// changes.
    pub(super) fn new(cast: impl Fn(u8) -> (Vec<u8>, CastLosses)) -> Self {
        let (mut all, mut lost) = (Vec::new(), [CastLosses::default(); 256]);
        for (value, lost) in (0..=u8::MAX).zip(&mut lost) {
            let (bytes, of_value) = cast(value);
            all.extend(bytes);
            *lost = of_value;
        }
        Self { cast: all, lost }
    }

    /// Casts values. If `counts` is set, returns how many values changed in each way.
    pub(super) fn cast(&self, from: &[u8], to: &mut [u8], counts: bool) -> CastLosses {
        match self.cast.len() / 256 {
            1 => self.look_up::<1>(from, to),
            2 => self.look_up::<2>(from, to),
            4 => self.look_up::<4>(from, to),
            _ => self.look_up::<8>(from, to),
        }
        let mut lost = CastLosses::default();
        if counts {
            for value in from {
                lost += self.lost[usize::from(*value)];
            }
        }
        lost
    }

    fn look_up<const WIDTH: usize>(&self, from: &[u8], to: &mut [u8]) {
        let table = self.cast.as_chunks::<WIDTH>().0;
        for (value, to) in from.iter().zip(to.as_chunks_mut::<WIDTH>().0) {
            *to = table[usize::from(*value)];
        }
    }
}
