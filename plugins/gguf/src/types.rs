//! ggml's tensor types: plain numbers, which have a dtype in the SDK, and quantized blocks.

use tensorferry_sdk::{CatalogSink, Dtype, DtypeInfo, Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GgmlType {
    Plain(Dtype),
    Blocks(&'static BlockType),
}

/// A type of quantized block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BlockType {
    code: u32,
    /// Name in ggml's enumeration of types.
    pub(crate) name: &'static str,
    /// Number of values per block.
    pub(crate) elements: u32,
    /// Number of bytes per block.
    pub(crate) bytes: u32,
}

const PLAIN: [(u32, Dtype); 8] = [
    (0, Dtype::F32),
    (1, Dtype::F16),
    (24, Dtype::I8),
    (25, Dtype::I16),
    (26, Dtype::I32),
    (27, Dtype::I64),
    (28, Dtype::F64),
    (30, Dtype::BF16),
];

const fn blocks(code: u32, name: &'static str, elements: u32, bytes: u32) -> BlockType {
    BlockType { code, name, elements, bytes }
}

/// All block types except Q8_1. Q8_1 is an intermediate form whose length differs between gguf-py
/// and ggml.
const BLOCKS: [BlockType; 26] = [
    blocks(2, "Q4_0", 32, 18),
    blocks(3, "Q4_1", 32, 20),
    blocks(6, "Q5_0", 32, 22),
    blocks(7, "Q5_1", 32, 24),
    blocks(8, "Q8_0", 32, 34),
    blocks(10, "Q2_K", 256, 84),
    blocks(11, "Q3_K", 256, 110),
    blocks(12, "Q4_K", 256, 144),
    blocks(13, "Q5_K", 256, 176),
    blocks(14, "Q6_K", 256, 210),
    blocks(15, "Q8_K", 256, 292),
    blocks(16, "IQ2_XXS", 256, 66),
    blocks(17, "IQ2_XS", 256, 74),
    blocks(18, "IQ3_XXS", 256, 98),
    blocks(19, "IQ1_S", 256, 50),
    blocks(20, "IQ4_NL", 32, 18),
    blocks(21, "IQ3_S", 256, 110),
    blocks(22, "IQ2_S", 256, 82),
    blocks(23, "IQ4_XS", 256, 136),
    blocks(29, "IQ1_M", 256, 56),
    blocks(34, "TQ1_0", 256, 54),
    blocks(35, "TQ2_0", 256, 66),
    blocks(39, "MXFP4", 32, 17),
    blocks(40, "NVFP4", 64, 36),
    blocks(41, "Q1_0", 128, 18),
    blocks(42, "Q2_0", 64, 18),
];

/// Codes of types that ggml has removed.
const REMOVED: [u32; 8] = [4, 5, 31, 32, 33, 36, 37, 38];
const Q8_1: u32 = 9;

impl GgmlType {
    pub(crate) fn of_code(code: u32) -> Result<Self> {
        let plain = PLAIN.iter().find(|(known, _)| *known == code).map(|&(_, dtype)| Self::Plain(dtype));
        let found = plain.or_else(|| BLOCKS.iter().find(|blocks| blocks.code == code).map(Self::Blocks));
        found.ok_or_else(|| {
            let why = match code {
                Q8_1 => "a tensor has the type Q8_1, which is not allowed in files",
                _ if REMOVED.contains(&code) => "a tensor has a type that ggml has removed",
                _ => "a tensor has an unknown type",
            };
            Error::malformed(why).expected("a ggml type, 0 to 42").found(code)
        })
    }

    /// Returns the block type with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        BLOCKS.iter().find(|blocks| blocks.name == name).map(Self::Blocks)
    }

    /// Returns the type that stores numbers of this dtype unchanged.
    pub(crate) fn of_dtype(dtype: Dtype, info: &DtypeInfo) -> Option<Self> {
        if dtype.info().is_some() {
            return PLAIN.iter().any(|&(_, known)| known == dtype).then_some(Self::Plain(dtype));
        }
        let blocks = BLOCKS.iter().find(|blocks| blocks.name == info.name())?;
        let same = (blocks.elements, blocks.bytes) == (info.block_elements(), info.block_bytes());
        same.then_some(Self::Blocks(blocks))
    }

    /// Returns the code of the type in files.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Plain(dtype) => {
                PLAIN.iter().find(|&&(_, known)| known == dtype).map_or(0, |&(code, _)| code)
            }
            Self::Blocks(blocks) => blocks.code,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain(dtype) => dtype.info().map_or("", DtypeInfo::name),
            Self::Blocks(blocks) => blocks.name,
        }
    }

    /// Returns the numbers of elements and bytes in a block.
    pub(crate) fn block(self) -> (u64, u64) {
        match self {
            Self::Plain(dtype) => (1, dtype.info().map_or(1, |info| info.block_bytes().into())),
            Self::Blocks(blocks) => (blocks.elements.into(), blocks.bytes.into()),
        }
    }

    /// Returns the length in bytes of a tensor with this row-major shape. The size must fit into
    /// ggml's signed integers, even if a dimension is zero.
    pub(crate) fn bytes_of(self, shape: &[u64]) -> Result<u64> {
        let (elements, bytes) = self.block();
        let row = shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(elements) {
            return Err(Error::malformed("the rows of a tensor are not whole blocks")
                .expected(format!("a multiple of {elements} elements of {}", self.name()))
                .found(row));
        }
        let all = shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(dim.max(1)));
        let fits = all.and_then(|all| all.checked_mul(bytes)).filter(|&len| i64::try_from(len).is_ok());
        fits.ok_or_else(|| {
            Error::malformed("the length of a tensor does not fit in 63 bits")
                .found(format!("shape {shape:?}"))
        })?;
        Ok(shape.iter().product::<u64>() / elements * bytes)
    }

    /// Declares the dtype in a catalog. Blocks cannot be byte-swapped in equal units, because their
    /// fields have different widths.
    pub(crate) fn declare(self, catalog: &mut dyn CatalogSink) -> Result<Dtype> {
        match self {
            Self::Plain(dtype) => Ok(dtype),
            Self::Blocks(blocks) => {
                catalog.dtype(&DtypeInfo::extension(blocks.name, blocks.elements, blocks.bytes, 1)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_code_is_known_removed_or_refused() {
        let (mut known, mut refused) = (0, 0);
        for code in 0..44 {
            match GgmlType::of_code(code) {
                Ok(found) => {
                    assert_eq!(found.code(), code);
                    known += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert_eq!((known, refused), (PLAIN.len() + BLOCKS.len(), REMOVED.len() + 2));
    }

    #[test]
    fn rows_are_whole_blocks_and_lengths_fit() {
        let q4 = GgmlType::of_code(2).unwrap();
        assert_eq!(q4.bytes_of(&[3, 64]).unwrap(), 3 * 2 * 18);
        assert_eq!(q4.bytes_of(&[0, 32]).unwrap(), 0);
        assert!(q4.bytes_of(&[64, 33]).is_err());
        assert!(q4.bytes_of(&[]).is_err());
        let f32 = GgmlType::Plain(Dtype::F32);
        assert_eq!(f32.bytes_of(&[]).unwrap(), 4);
        assert!(f32.bytes_of(&[1 << 40, 1 << 40]).is_err());
        assert!(f32.bytes_of(&[1 << 40, 1 << 40, 0]).is_err());
    }
}
