//! `general.file_type`, a number that identifies the mix of tensor types in a file. The writer
//! derives the number from the tensors that it writes.
//!
//! Source: `llama_ftype` in llama.cpp's `include/llama.h`.

use crate::types::GgmlType;
use std::collections::HashMap;

/// File types for models with one tensor type. Tensors with one dimension, and tensors whose rows
/// are not whole blocks, may have a different type.
const SINGLE_TYPE: [(u32, &str); 15] = [
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (7, "Q8_0"),
    (8, "Q5_0"),
    (9, "Q5_1"),
    (18, "Q6_K"),
    (25, "IQ4_NL"),
    (32, "BF16"),
    (36, "TQ1_0"),
    (37, "TQ2_0"),
    (38, "MXFP4"),
    (39, "NVFP4"),
    (40, "Q1_0"),
];
/// File types of mixes that `llama-quantize` writes. The number does not determine the tensor types
/// in a mix.
const MIXED_TYPES: [std::ops::RangeInclusive<u32>; 2] = [10..=17, 19..=31];

/// Returns the file type for a model with this tensor type.
pub(crate) fn of_type(ggml_type: GgmlType) -> Option<u32> {
    SINGLE_TYPE.iter().find(|(_, name)| *name == ggml_type.name()).map(|(number, _)| *number)
}

/// Returns the name of the tensor type if the file type has only one. Otherwise, returns the file
/// type's number.
pub(crate) fn name(number: u32) -> String {
    SINGLE_TYPE
        .iter()
        .find(|(known, _)| *known == number)
        .map_or(number.to_string(), |(_, name)| (*name).to_owned())
}

/// Number of elements in a file for each tensor type.
pub(crate) struct TypeCounts {
    of: HashMap<&'static str, u64>,
    max: Option<GgmlType>,
}

impl TypeCounts {
    /// Counts the elements of tensors, which are passed as (type, rank, elements). Counts vectors
    /// only if there are no matrices.
    pub(crate) fn of(tensors: impl Iterator<Item = (GgmlType, usize, u64)> + Clone) -> Self {
        let has_matrices = tensors.clone().any(|(_, rank, _)| rank > 1);
        let (mut of, mut max) = (HashMap::new(), None);
        let mut greatest = 0;
        for (ggml_type, rank, elements) in tensors {
            if has_matrices && rank <= 1 {
                continue;
            }
            let all: &mut u64 = of.entry(ggml_type.name()).or_default();
            *all = all.saturating_add(elements);
            if *all > greatest {
                (greatest, max) = (*all, Some(ggml_type));
            }
        }
        Self { of, max }
    }

    /// Returns the type with the most elements.
    pub(crate) fn most_common(&self) -> Option<GgmlType> {
        self.max
    }

    /// Returns the file type that fits the tensors, or `None` if no file type fits. `requested` is
    /// the type that the user quantizes to. `declared` is the input's file type, which is kept if
    /// it still fits.
    pub(crate) fn file_type(&self, requested: Option<GgmlType>, declared: Option<u32>) -> Option<u32> {
        let Some(max) = self.max else { return declared };
        match (requested, declared) {
            (Some(requested), _) if requested == max => of_type(requested),
            (_, Some(declared)) if self.fits(declared, max) => Some(declared),
            _ => of_type(max),
        }
    }

    /// Returns whether a file type fits tensors that are mostly of type `max`.
    fn fits(&self, number: u32, max: GgmlType) -> bool {
        match SINGLE_TYPE.iter().find(|(known, _)| *known == number) {
            // In a small model, most elements may be embeddings, which may have a different type.
            Some((_, name)) if GgmlType::named(name).is_some() => self.of.contains_key(name),
            Some((_, name)) => *name == max.name(),
            None if MIXED_TYPES.iter().any(|mixed| mixed.contains(&number)) => {
                self.of.keys().any(|name| name.starts_with("IQ") || name.ends_with("_K"))
            }
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::Dtype;

    #[test]
    fn a_file_is_said_to_be_of_what_it_is_of() {
        let plain = |name: &str| GgmlType::Plain(Dtype::named(name).unwrap());
        let of = |name: &str| GgmlType::named(name).unwrap_or_else(|| plain(name));
        for (tensors, requested, declared, expected) in [
            // Element counts by matrix type, requested type, declared file type, and expected file
            // type.
            (&[("BF16", 9)][..], None, Some(0), Some(32)),
            (&[("F32", 9)], None, None, Some(0)),
            (&[("F16", 9), ("F32", 5)], None, Some(1), Some(1)),
            (&[("Q8_0", 9)], Some("Q4_0"), Some(7), Some(7)),
            (&[("Q8_0", 9)], Some("Q8_0"), None, Some(7)),
            (&[("Q4_0", 9), ("F16", 5)], Some("Q4_0"), Some(1), Some(2)),
            (&[("F16", 9)], Some("Q4_0"), None, Some(1)),
            // The input's file type is kept if it still matches the tensors.
            (&[("Q8_0", 9), ("Q4_K", 5)], None, Some(15), Some(15)),
            (&[("Q6_K", 9), ("Q4_0", 5)], None, Some(2), Some(2)),
            (&[("F32", 9)], None, Some(15), Some(0)),
            (&[("Q8_0", 9), ("F32", 5)], None, Some(0), Some(7)),
            (&[("F32", 9)], None, Some(1024), Some(1024)),
            (&[], None, Some(1), Some(1)),
            // No file type fits.
            (&[("Q4_K", 9)], None, None, None),
            (&[("Q4_K", 9)], None, Some(1), None),
        ] {
            let all = tensors.iter().map(|(name, elements)| (of(name), 2, *elements));
            let elements =
                TypeCounts::of(all.chain([(plain("F64"), 1, 1000)]).filter(|_| !tensors.is_empty()));
            assert_eq!(
                elements.file_type(requested.map(of), declared),
                expected,
                "{tensors:?} {requested:?} {declared:?}"
            );
        }
    }
}
