//! Computes the values of conjugate and negated views. torch does not store these values, but sets
//! a flag on the view.

use super::StoredView;
use tensorferry_sdk::{ByteSink, Context, Dtype, DtypeInfo, Result, Source};

/// A view, and the operations to apply to its values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Signs {
    pub(crate) stored: StoredView,
    pub(crate) conjugate: bool,
    pub(crate) negative: bool,
}

/// The type of the numbers in an element. A complex element consists of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberKind {
    Float,
    Complex,
    Integer,
}

impl Signs {
    /// Returns the length in bytes of the computed values, or the reason why they cannot be
    /// computed.
    pub(crate) fn check(&self) -> std::result::Result<u64, String> {
        let unknown = || "conjugate and negative bits are undefined for its dtype".to_owned();
        let kind = self.kind().ok_or_else(unknown)?;
        if self.conjugate && kind != NumberKind::Complex {
            return Err(unknown());
        }
        self.stored.bytes().map_err(|error| error.to_string())
    }

    pub(super) fn decode(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        self.stored.stream(source, context, &mut |values| {
            self.apply(values);
            output.write(values)
        })
    }

    fn apply(&self, values: &mut [u8]) {
        let Some((kind, info)) = self.kind().zip(self.stored.dtype.info()) else { return };
        for (index, part) in values.chunks_exact_mut(DtypeInfo::swap_unit(info).max(1) as usize).enumerate() {
            let imaginary = kind == NumberKind::Complex && index % 2 == 1;
            // Conjugation flips the sign of the imaginary part. If the view is also negated, the
            // two changes cancel out for this part.
            if self.negative == (self.conjugate && imaginary) {
                continue;
            }
            if kind == NumberKind::Integer {
                let mut carry = true;
                for byte in part {
                    (*byte, carry) = (!*byte).overflowing_add(carry.into());
                }
            } else if let Some(last) = part.last_mut() {
                *last ^= 0x80;
            }
        }
    }

    fn kind(&self) -> Option<NumberKind> {
        Some(match self.stored.dtype {
            Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 => NumberKind::Float,
            Dtype::C32 | Dtype::BC32 | Dtype::C64 | Dtype::C128 => NumberKind::Complex,
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => NumberKind::Integer,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::lazy::stored::tests::view;
    use tensorferry_sdk::{ByteOrder, MemoryContext, MemorySource};

    fn decode(stored: &[u8], view: &Signs) -> Vec<u8> {
        let source = MemorySource::file("x", stored);
        let mut made = Vec::new();
        view.decode(&source, &mut made, &MemoryContext::default()).unwrap();
        made
    }

    fn negated(dtype: Dtype, len: u64, size: &[u64], stride: &[u64]) -> Signs {
        let stored = view(dtype, len, size, stride);
        Signs { stored, conjugate: false, negative: true }
    }

    #[test]
    fn rows_are_gathered_and_negated() {
        let stored: Vec<u8> = [1_i16, 2, 3, 4, 5, 6].iter().flat_map(|v| v.to_be_bytes()).collect();
        let mut transposed = negated(Dtype::I16, 12, &[3, 2], &[1, 3]);
        transposed.stored.byte_order = ByteOrder::Big;
        let made: Vec<u8> = [-1_i16, -4, -2, -5, -3, -6].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(decode(&stored, &transposed), made);
        assert_eq!(decode(&[255, 255], &negated(Dtype::I16, 2, &[4], &[0])), [1, 0, 1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn a_negated_conjugate_changes_its_real_part() {
        let stored: Vec<u8> = [1_f32, 2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        for (conjugate, negative, expected) in
            [(true, false, [1_f32, -2.0]), (false, true, [-1.0, -2.0]), (true, true, [-1.0, 2.0])]
        {
            let view = Signs { conjugate, negative, ..negated(Dtype::C64, 8, &[], &[]) };
            let expected: Vec<u8> = expected.iter().flat_map(|v| v.to_le_bytes()).collect();
            assert_eq!(decode(&stored, &view), expected);
        }
    }

    #[test]
    fn bits_without_a_meaning_are_noticed() {
        assert!(negated(Dtype::BOOL, 1, &[1], &[1]).check().is_err());
        assert!(Signs { conjugate: true, ..negated(Dtype::F32, 4, &[1], &[1]) }.check().is_err());
    }
}
