//! An array: its chunks become the tiles of a tensor. What is not compressed lies in the files, for the host to copy.

use crate::codec::{Chain, Chunk};
use crate::encoding::Encoding;
use crate::span::Span;
use crate::store::Store;
use crate::{dtype, zarr2, zarr3};
use std::sync::Arc;
use tensorferry_sdk::{
    CatalogSink, Context, Edges, Error, Grid, Order, Result, Source, Storage, StorageId, TensorId, Tiles,
    crc32c, element_count,
};

/// Chunks of one array.
const MOST_CHUNKS: u64 = 1 << 24;

/// Reads arrays into a catalog.
pub(crate) struct Arrays<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) catalog: &'a mut dyn CatalogSink,
    pub(crate) context: &'a dyn Context,
    /// What is decoded when it is read.
    pub(crate) encoded: Vec<Chunk>,
    /// All chunks so far.
    pub(crate) chunks: u64,
}

impl Arrays<'_> {
    /// Describes the array at a key as a tensor; none, if there is no array.
    pub(crate) fn add(&mut self, store: &Store<'_>, key: &str, name: &str) -> Result<Option<TensorId>> {
        let limits = self.context.limits();
        let (span, parse): (Span, fn(&[u8]) -> Result<Encoding>) =
            if let Some(span) = store.get(&format!("{key}/.zarray"))? {
                (span, zarr2::parse)
            } else if let Some(span) = store.get(&format!("{key}/zarr.json"))? {
                (span, zarr3::parse)
            } else {
                return Ok(None);
            };
        let at = |error: Error| match &span {
            Span::File { file, offset, .. } if !error.details().any(|(name, _)| name == "file") => {
                error.file(self.source.name(*file)).offset(*offset).tensor(name)
            }
            _ => error.tensor(name),
        };
        let encoding = span.bytes(self.source, limits).and_then(|bytes| parse(&bytes)).map_err(at)?;
        let counts = counts(&encoding).map_err(at)?;
        let source = self.source;
        self.describe(store, key, name, &encoding, &counts).map(Some).map_err(|error| {
            let error = error.tensor(name);
            let has_file = error.details().any(|(name, _)| name == "file");
            match &span {
                Span::File { file, .. } if !has_file => error.file(source.name(*file)),
                _ => error,
            }
        })
    }

    fn describe(
        &mut self,
        store: &Store<'_>,
        key: &str,
        name: &str,
        encoding: &Encoding,
        counts: &[u64],
    ) -> Result<TensorId> {
        let Encoding { shape, dtype, .. } = encoding;
        let tile = encoding.layers.tiles.last().cloned().unwrap_or_default();
        let bytes_of = |shape: &[u64]| {
            let info = dtype.info().ok_or_else(|| Error::plugin("a dtype without facts"))?;
            info.bytes_of(element_count(shape)?)
        };
        let tile_bytes = bytes_of(&tile)?;
        bytes_of(shape)?;
        if shape.contains(&0) {
            let storage = self.catalog.storage(Storage::inline(Vec::new()))?;
            return self.catalog.tensor(name, *dtype, shape, storage, 0);
        }
        let total: u64 = shape.iter().zip(&tile).map(|(len, tile)| len.div_ceil(*tile)).product();
        let mut tiles: Vec<Option<StorageId>> = vec![None; usize::try_from(total).unwrap_or(usize::MAX)];
        let array: Arc<str> = name.into();
        let mut place = vec![0; shape.len()];
        for number in 0..counts.iter().product::<u64>() {
            if number.is_multiple_of(1 << 10) {
                self.context.check_cancelled()?;
            }
            let mut rest = number;
            for dim in (0..place.len()).rev() {
                place[dim] = rest % counts[dim];
                rest /= counts[dim];
            }
            let Some(span) = store.get(&format!("{key}/{}", encoding.keys.of(&place)))? else { continue };
            let start: Vec<u64> =
                place.iter().zip(&encoding.layers.tiles[0]).map(|(at, tile)| at * tile).collect();
            self.layer(&span, encoding, 0, &start, &mut |this, span, start| {
                // In elements from the tensor's start: chunks of a shard may lie past its end.
                let mut index = 0;
                for dim in 0..start.len() {
                    if start[dim] >= shape[dim] {
                        return Ok(());
                    }
                    index = index * shape[dim].div_ceil(tile[dim]) + start[dim] / tile[dim];
                }
                let storage = this.chunk(span, encoding, tile_bytes, &array)?;
                if let Some(tile) = usize::try_from(index).ok().and_then(|index| tiles.get_mut(index)) {
                    *tile = Some(storage);
                }
                Ok(())
            })?;
        }
        if let ([Some(only)], true) = (&*tiles, tile == *shape && encoding.order == Order::C) {
            return self.catalog.tensor(name, *dtype, shape, *only, 0);
        }
        let fill = if tiles.contains(&None) {
            Some(self.catalog.storage(Storage::inline(dtype::fill(&encoding.fill, *dtype)?))?)
        } else {
            None
        };
        if let ([None], [], Some(fill)) = (&*tiles, &**shape, fill) {
            return self.catalog.tensor(name, *dtype, shape, fill, 0);
        }
        let grid =
            Grid { tile, order: encoding.order, edges: Edges::Padded, tiles: Tiles::Listed(tiles), fill };
        self.catalog.tensor_of_tiles(name, *dtype, shape, grid)
    }

    /// Gives each chunk in a chunk of this layer to `each`, with where it begins.
    fn layer(
        &mut self,
        span: &Span,
        encoding: &Encoding,
        layer: usize,
        start: &[u64],
        each: &mut dyn FnMut(&mut Self, &Span, &[u64]) -> Result<()>,
    ) -> Result<()> {
        let Some(&at_start) = encoding.layers.index_at_start.get(layer) else {
            return each(self, span, start);
        };
        let (outer, inner) = (&encoding.layers.tiles[layer], &encoding.layers.tiles[layer + 1]);
        let counts: Vec<u64> = outer.iter().zip(inner).map(|(outer, inner)| outer / inner).collect();
        let count: u64 = counts.iter().product();
        let file = |error: Error| match span {
            Span::File { file, .. } => error.file(self.source.name(*file)),
            Span::Inline(_) => error,
        };
        let index_len = count * 16 + 4;
        let index_at = if at_start { Some(0) } else { span.len().checked_sub(index_len) };
        let index = index_at.and_then(|at| span.part(at, index_len));
        let index = index.ok_or_else(|| {
            let error = Error::malformed("a shard is shorter than its index");
            file(error.expected(format!("{index_len} bytes")).found(span.len()))
        })?;
        let index = index.bytes(self.source, self.context.limits())?;
        let (entries, stored) =
            index.split_last_chunk::<4>().ok_or_else(|| Error::plugin("an index of no bytes"))?;
        let (stored, computed) = (u32::from_le_bytes(*stored), crc32c(entries));
        if stored != computed {
            let error = Error::malformed("the crc32c of a shard's index is wrong");
            return Err(file(error.expected(format!("{stored:#010x}")).found(format!("{computed:#010x}"))));
        }
        for (number, entry) in (0..).zip(entries.chunks_exact(16)) {
            let (offset, len) = entry.split_at(8);
            let [offset, len] =
                [offset, len].map(|half| u64::from_le_bytes(half.try_into().unwrap_or_default()));
            if (offset, len) == (u64::MAX, u64::MAX) {
                continue;
            }
            let before = if at_start { span.len() } else { span.len() - index_len };
            let fits = offset
                .checked_add(len)
                .is_some_and(|end| end <= before && (!at_start || offset >= index_len));
            let part = span.part(offset, len).filter(|_| fits).ok_or_else(|| {
                let error = Error::malformed("a shard's chunk reaches past the shard or into its index");
                file(error.offset(offset).found(format!("{len} bytes")))
            })?;
            let mut rest: u64 = number;
            let mut place = start.to_vec();
            for dim in (0..place.len()).rev() {
                place[dim] = place[dim].saturating_add(rest % counts[dim] * inner[dim]);
                rest /= counts[dim];
            }
            self.layer(&part, encoding, layer + 1, &place, each)?;
        }
        Ok(())
    }

    /// A chunk's storage.
    fn chunk(&mut self, span: &Span, encoding: &Encoding, bytes: u64, array: &Arc<str>) -> Result<StorageId> {
        self.chunks += 1;
        if self.chunks > self.context.limits().entries {
            return Err(Error::limit("too many chunks"));
        }
        let storage = if encoding.chain != Chain::default() {
            let handle = self.encoded.len() as u64;
            self.encoded.push(Chunk {
                span: span.clone(),
                chain: encoding.chain,
                len: bytes,
                array: array.clone(),
            });
            Storage::encoded(handle, bytes)
        } else if span.len() != bytes {
            let error = Error::malformed("a chunk is not as long as its shape");
            let error = error.expected(format!("{bytes} bytes")).found(span.len());
            return Err(match span {
                Span::File { file, offset, .. } => error.file(self.source.name(*file)).offset(*offset),
                Span::Inline(_) => error,
            });
        } else {
            match span {
                Span::File { file, offset, len } => Storage::file(*file, *offset, *len),
                Span::Inline(bytes) => Storage::inline(bytes.clone()),
            }
        };
        self.catalog.storage(storage.byte_order(encoding.byte_order))
    }
}

/// How many chunks with keys there are along each dimension, once all shapes are known to fit.
fn counts(encoding: &Encoding) -> Result<Vec<u64>> {
    let shape = &encoding.shape;
    element_count(shape)?;
    let mut outer: Option<&Vec<u64>> = None;
    for tile in &encoding.layers.tiles {
        if tile.len() != shape.len() {
            let error = Error::malformed("chunks of another rank than their array");
            return Err(error.expected(shape.len()).found(tile.len()));
        }
        if tile.contains(&0) {
            return Err(Error::malformed("a chunk's edge is 0").found(format!("{tile:?}")));
        }
        element_count(tile)?;
        if let Some(outer) = outer
            && outer.iter().zip(tile).any(|(outer, inner)| outer % inner != 0)
        {
            let error = Error::malformed("a shard is not made of whole chunks");
            return Err(error.expected(format!("parts of {outer:?}")).found(format!("{tile:?}")));
        }
        // Of shards, and of all chunks.
        let counts = shape.iter().zip(tile).map(|(len, tile)| len.div_ceil(*tile));
        let total = counts.clone().try_fold(1_u64, u64::checked_mul).filter(|total| *total <= MOST_CHUNKS);
        total.ok_or_else(|| {
            Error::limit("an array of too many chunks").expected(format!("at most {MOST_CHUNKS}"))
        })?;
        if let Some(outer) = outer {
            let inner: u64 =
                outer.iter().zip(tile).map(|(outer, inner)| outer / inner).fold(1, u64::saturating_mul);
            if inner > MOST_CHUNKS {
                return Err(
                    Error::limit("a shard of too many chunks").expected(format!("at most {MOST_CHUNKS}"))
                );
            }
        }
        outer = Some(tile);
    }
    let tile = encoding.layers.tiles.first().ok_or_else(|| Error::plugin("no chunks"))?;
    Ok(shape.iter().zip(tile).map(|(len, tile)| len.div_ceil(*tile)).collect())
}
