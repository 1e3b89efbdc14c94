//! Finds the chunks of a dataset. Chunks are separately stored tiles of the dataset. Their
//! locations are in an index, which is one of six kinds. A chunk that was never written is missing,
//! and its elements read as the fill value.

use super::file::File;
use super::filters::Filters;
use super::layout::Indexing;
use hdf5_reader::btree_v1::{BTreeV1Key, collect_btree_v1_leaves_storage};
use hdf5_reader::chunk_index::{
    ChunkEntry, collect_implicit_chunk_entries, collect_v2_chunk_entries_storage, single_chunk_entry,
};
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;
use hdf5_reader::messages::dataspace::UNLIMITED;
use std::sync::Arc;
use tensorferry_sdk::{Error, Limits, Result};
use tensorferry_zip::Extent;

/// Maximum length of a chunk in bytes. Real chunks are a few megabytes long.
const MAX_CHUNK: u64 = 256 << 20;
/// Number of chunks that are always allowed in an implicit index, even if the file is short.
const CHUNK_ALLOWANCE: u64 = 1 << 18;
/// Maximum number of dimensions that HDF5 allows.
const MAX_RANK: usize = 32;

/// The chunks of a dataset, with the properties that they share.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// Shape of a chunk.
    pub(crate) tile: Vec<u64>,
    /// Bytes per element.
    pub(crate) width: u32,
    /// Bytes per chunk.
    pub(crate) len: u64,
    pub(crate) fill: Vec<u8>,
    pub(crate) filters: Arc<Filters>,
    /// Number of chunks in the dataset, including missing chunks.
    pub(crate) count: u64,
    /// Existing chunks with their positions in the row-major order of all chunks, sorted by
    /// position.
    pub(crate) found: Vec<(u64, Chunk)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    /// Location of the chunk's bytes in the file.
    pub(crate) stored: Extent,
    /// Bit mask of the filters that were skipped for this chunk.
    pub(crate) mask: u32,
}

/// Location of a chunk index, and the dataset properties that are needed to read the index.
pub(crate) struct Index<'a> {
    pub(crate) address: u64,
    /// Shape of a chunk.
    pub(crate) dims: &'a [u32],
    pub(crate) indexing: Indexing,
    /// Maximum shape of the dataset.
    pub(crate) max: Option<&'a [u64]>,
    /// Whether chunks at the edges of the dataset are stored without filters.
    pub(crate) has_plain_edges: bool,
}

impl Chunks {
    /// Finds the chunks of a dataset with this shape.
    pub(crate) fn read(
        mut self,
        file: &File<'_>,
        shape: &[u64],
        index: &Index<'_>,
        limits: &Limits,
    ) -> Result<Self> {
        let rank = shape.len();
        if rank == 0 || rank > MAX_RANK || self.tile.len() != rank || self.tile.contains(&0) {
            return Err(Error::malformed("the chunks do not match their dataset")
                .expected(format!("chunks of {rank} dimensions"))
                .found(format!("{:?}", self.tile)));
        }
        let len = self.tile.iter().try_fold(u64::from(self.width), |len, &dim| len.checked_mul(dim));
        let max = MAX_CHUNK.min(limits.memory_bytes.max(1 << 20));
        self.len = len.filter(|&len| len <= max).ok_or_else(|| {
            Error::limit("a chunk is too large")
                .expected(format!("at most {max} bytes"))
                .found(format!("{:?} elements of {} bytes", self.tile, self.width))
        })?;
        let counts: Vec<u64> = shape.iter().zip(&self.tile).map(|(len, tile)| len.div_ceil(*tile)).collect();
        let count = counts.iter().try_fold(1_u64, |count, &more| count.checked_mul(more));
        // An implicit index is the only kind that does not store an address per chunk, so its size
        // does not bound the number of chunks. In real files, each chunk is longer than an address
        // of 8 bytes.
        let max = match index.indexing {
            Indexing::Implicit => limits.entries.min(CHUNK_ALLOWANCE.saturating_add(file.len() / 8)),
            _ => limits.entries,
        };
        self.count = count.filter(|&count| count <= max).ok_or_else(|| {
            Error::limit("too many chunks")
                .expected(format!("at most {max}"))
                .hint("pass --limit entries=N to raise the limit")
                .found(format!("{counts:?}"))
        })?;
        for entry in self.entries(file, shape, index)? {
            let malformed = |why: &str| {
                let error = Error::malformed(format!("a chunk {why}")).found(format!("{:?}", entry.offsets));
                file.at(error, entry.address)
            };
            if entry.offsets.len() < rank {
                return Err(malformed("has fewer dimensions than its dataset"));
            }
            let offsets = &entry.offsets[..rank];
            // This chunk is a remnant: the dataset was made smaller after the chunk was written.
            if offsets.iter().zip(shape).any(|(offset, len)| offset >= len) {
                continue;
            }
            let mut place = 0;
            for ((offset, tile), count) in offsets.iter().zip(&self.tile).zip(&counts) {
                if offset % tile != 0 {
                    return Err(malformed("does not start at a chunk boundary"));
                }
                place = place * count + offset / tile;
            }
            if file.is_undefined(entry.address) {
                continue;
            }
            let is_edge = || {
                offsets.iter().zip(&self.tile).zip(shape).any(|((offset, tile), len)| tile > &(len - offset))
            };
            let mask = if index.has_plain_edges && is_edge() { u32::MAX } else { entry.filter_mask };
            let is_plain = self.filters.are_skipped(mask);
            let stored = if is_plain { self.len } else { entry.size };
            if is_plain && entry.size != 0 && entry.size != self.len {
                return Err(malformed("without filters has the wrong length")
                    .expected(format!("{} bytes", self.len))
                    .found(format!("{} bytes", entry.size)));
            }
            let chunk = Chunk { stored: file.extent(entry.address, stored)?, mask };
            self.found.push((place, chunk));
        }
        self.found.sort_unstable_by_key(|(place, _)| *place);
        if let Some(twice) = self.found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let error = Error::malformed("a chunk is stored twice").found(format!("number {}", twice[0].0));
            return Err(file.at(error, index.address));
        }
        Ok(self)
    }

    fn entries(&self, file: &File<'_>, shape: &[u64], index: &Index<'_>) -> Result<Vec<ChunkEntry>> {
        let (os, ls, rank) = (file.offset_size, file.length_size, shape.len());
        let storage = file.storage();
        let &Index { address, dims, indexing, max, .. } = index;
        let ndims = u32::try_from(rank).unwrap_or(u32::MAX);
        // In fixed arrays and implicit indexes, chunks are numbered as if the dataset had its
        // maximum size.
        let grid = max.filter(|max| max.len() == rank).unwrap_or(shape);
        if matches!(indexing, Indexing::Implicit | Indexing::FixedArray)
            && grid.iter().zip(shape).any(|(max, len)| max < len || *max == UNLIMITED)
        {
            let error =
                Error::malformed("the chunk index needs a fixed number of chunks, which the dataset lacks");
            return Err(
                file.at(error.expected(format!("{shape:?} or more")).found(format!("{grid:?}")), address)
            );
        }
        let entries = match indexing {
            Indexing::BTree1 => {
                collect_btree_v1_leaves_storage(storage, address, os, ls, Some(ndims), dims, None)
                    .map(|leaves| leaves.into_iter().filter_map(from_leaf).collect())
            }
            Indexing::Single { stored, mask } => Ok(vec![single_chunk_entry(address, stored, mask, rank)]),
            Indexing::Implicit => {
                let width = self.width as usize;
                let last: Vec<u64> =
                    shape.iter().zip(&self.tile).map(|(len, tile)| (len - 1) / tile).collect();
                let there = Some((&*vec![0; rank], &*last));
                collect_implicit_chunk_entries(address, grid, dims, width, there, file.len())
            }
            Indexing::FixedArray => {
                collect_fixed_array_chunk_entries_storage(storage, address, os, ls, grid, dims, None)
            }
            Indexing::ExtensibleArray => collect_extensible_array_chunk_entries_storage(
                storage, address, os, ls, shape, max, dims, None,
            ),
            Indexing::BTree2 => collect_v2_chunk_entries_storage(storage, address, os, ls, ndims, dims, None),
        };
        file.parsed(entries, "a chunk index", address)
    }
}

fn from_leaf((key, address): (BTreeV1Key, u64)) -> Option<ChunkEntry> {
    match key {
        BTreeV1Key::RawData { chunk_size, filter_mask, offsets } => {
            Some(ChunkEntry { address, size: chunk_size.into(), filter_mask, offsets })
        }
        // This key is from a B-tree that contains links instead of chunks.
        BTreeV1Key::Group { .. } => None,
    }
}
