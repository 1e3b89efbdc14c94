//! Statistics of complex numbers. The statistics are computed from the magnitudes, which equal the
//! results of `numpy.abs` for the numbers as complex F64. A number counts as NaN if one of its
//! parts is NaN, and otherwise as infinite if one of its parts is infinite.

use super::floats::{BLOCK, FloatFacts, by_number};
use super::partial::PartialStatistics;

/// Iterates over the magnitudes of complex numbers of `width` bytes each. `read` decodes one part
/// of a number.
pub(super) fn magnitudes(
    bytes: &[u8],
    width: usize,
    read: fn(&[u8]) -> f64,
) -> impl Iterator<Item = f64> + '_ {
    bytes.chunks_exact(width).map(move |number| {
        let (real, imaginary) = number.split_at(width / 2);
        let (real, imaginary) = (read(real), read(imaginary));
        if real.is_nan() || imaginary.is_nan() { f64::NAN } else { libm::hypot(real, imaginary) }
    })
}

/// Adds contiguous complex numbers to the statistics. A number counts as subnormal or saturated if
/// its real or imaginary part is subnormal or saturated.
pub(super) fn add(
    bytes: &[u8],
    width: usize,
    read: fn(&[u8]) -> f64,
    facts: FloatFacts,
    into: &mut PartialStatistics,
) {
    for bytes in bytes.chunks(BLOCK * width) {
        // The limits of the float dtype apply to the parts of complex numbers and not to their
        // magnitudes.
        let none = FloatFacts { least_normal: 0.0, largest: f64::INFINITY };
        by_number(magnitudes(bytes, width, read), none, into);
        for number in bytes.chunks_exact(width) {
            let (real, imaginary) = number.split_at(width / 2);
            let parts = [read(real), read(imaginary)];
            if parts.iter().all(|part| part.is_finite()) {
                let is_any =
                    |test: fn(f64, FloatFacts) -> bool| parts.iter().any(|&part| test(part.abs(), facts));
                into.subnormals += u64::from(is_any(|size, facts| size != 0.0 && size < facts.least_normal));
                into.saturated += u64::from(is_any(|size, facts| size >= facts.largest));
            }
        }
    }
}
