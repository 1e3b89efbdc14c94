//! Blocks of big-endian files: their scales are turned round, and nothing else, so that no swap of units reads them.
//!
//! Read are the types that `gguf_convert_endian.py` of llama.cpp writes: nobody says what others would look like.

use tensorferry_sdk::{ByteSink, Context, EncodedStorage, FileId, Result, Source};

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// The blocks of a tensor.
pub(crate) struct BigEndianBlocks {
    pub(crate) file: FileId,
    /// The first block's place in the file.
    pub(crate) offset: u64,
    /// The bytes of all.
    pub(crate) bytes: u64,
    /// The bytes of one.
    pub(crate) block: u32,
    /// Where each has scales, of two bytes.
    pub(crate) scales: &'static [usize],
}

/// Where the blocks of a type have scales of two bytes; `None`, if such files do not have the type.
pub(crate) fn scales(name: &str) -> Option<&'static [usize]> {
    match name {
        "MXFP4" | "NVFP4" => Some(&[]),
        "Q4_0" | "Q8_0" => Some(&[0]),
        "Q4_K" => Some(&[0, 2]),
        "Q6_K" => Some(&[208]),
        _ => None,
    }
}

impl EncodedStorage for BigEndianBlocks {
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        let block = self.block as usize;
        let mut buffer = vec![0; PIECE / block * block];
        let (mut at, end) = (self.offset, self.offset + self.bytes);
        while at < end {
            context.check_cancelled()?;
            let len = usize::try_from(end - at).map_or(buffer.len(), |left| left.min(buffer.len()));
            let piece = &mut buffer[..len];
            source.read_at(self.file, at, piece)?;
            for block in piece.chunks_exact_mut(block) {
                self.scales.iter().for_each(|&scale| block.swap(scale, scale + 1));
            }
            output.write(piece)?;
            at += len as u64;
        }
        Ok(())
    }
}
