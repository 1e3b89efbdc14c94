//! The chunks of an array become the tiles of a tensor. Uncompressed chunks become file ranges,
//! which the host copies.

use crate::codec::{Chain, Chunk};
use crate::encoding::Encoding;
use crate::shard::Index;
use crate::span::Span;
use crate::store::Store;
use crate::{dtype, zarr2, zarr3};
use std::sync::Arc;
use tensorferry_sdk::{
    CatalogSink, Context, Edges, Error, Grid, Limits, Loss, LossKind, Order, Result, Severity, Source,
    Storage, StorageId, TensorId, Tiles, UniqueNames, element_count,
};

/// Maximum number of chunks in one array.
const MAX_CHUNKS: u64 = 1 << 24;
/// Maximum size of an array's description in bytes. Descriptions from tensorstore are shorter than
/// a thousand bytes.
const MAX_DESCRIPTION: u64 = 1 << 20;

/// Adds arrays to a catalog as tensors.
pub(crate) struct Arrays<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) catalog: &'a mut dyn CatalogSink,
    pub(crate) context: &'a dyn Context,
    /// Chunks that are decoded on demand.
    pub(crate) encoded: Vec<Chunk>,
    names: UniqueNames,
    counted: ChunkTotals,
}

/// Totals for all arrays that have been added. They are limited, because a few bytes can claim
/// millions of chunks.
#[derive(Default)]
struct ChunkTotals {
    /// Number of existing chunks, plus the number of entries in shard indexes.
    chunks: u64,
    /// Number of missing chunks that were looked up or that have a position in a grid of tiles.
    absent: u64,
    /// Total size in bytes of the chunks in memory.
    held: u64,
    /// Number of bytes by which decoded chunks are larger than stored chunks.
    expanded: u64,
}

impl ChunkTotals {
    /// Maximum number of missing chunks, which is 16 per existing chunk plus 1/64 of the `entries`
    /// limit.
    const MAX_MISSING: (u64, u64) = (16, 64);

    fn count_chunk(&mut self, limits: &Limits) -> Result<()> {
        self.chunks += 1;
        if self.chunks > limits.entries {
            return Err(Error::limit("too many chunks")
                .expected(format!("at most {}", limits.entries))
                .hint("raise the limit with --limit entries=N"));
        }
        Ok(())
    }

    fn count_absent(&mut self, count: u64, limits: &Limits) -> Result<()> {
        self.absent = self.absent.saturating_add(count);
        let (times, share) = Self::MAX_MISSING;
        let max = (limits.entries / share).saturating_add(times.saturating_mul(self.chunks));
        if self.absent <= max {
            return Ok(());
        }
        let error = Error::limit("too many missing chunks").hint("raise the limit with --limit entries=N");
        Err(error.expected(format!("at most {max}")).found(self.absent))
    }

    fn count_inline(&mut self, span: &Span, limits: &Limits) -> Result<()> {
        self.held = self.held.saturating_add(span.inline_bytes().len() as u64);
        if self.held <= limits.header_bytes {
            return Ok(());
        }
        let error = Error::limit("inline chunks take too many bytes");
        let error = error.hint("raise the limit with --limit header_bytes=N");
        Err(error.expected(format!("at most {}", limits.header_bytes)))
    }

    fn count_expanded(&mut self, len: u64, stored: u64, limits: &Limits) -> Result<()> {
        self.expanded = self.expanded.saturating_add(len.saturating_sub(stored));
        let max = limits.expanded_bytes;
        if self.expanded <= max {
            return Ok(());
        }
        Err(Error::limit("compressed chunks expand too much")
            .hint("raise the limit with --limit expanded_bytes=N")
            .expected(format!("at most {max} bytes more than stored"))
            .found(self.expanded))
    }
}

/// The chunks of one array that have been found.
struct FoundChunks<'e> {
    name: Arc<str>,
    encoding: &'e Encoding,
    tile: Vec<u64>,
    tile_bytes: u64,
    /// Number and storage of each tile that has been found.
    tiles: Vec<(u64, StorageId)>,
    /// Number of chunks that were looked up and have already been counted as missing.
    missed: u64,
}

impl<'a> Arrays<'a> {
    pub(crate) fn new(
        source: &'a dyn Source,
        catalog: &'a mut dyn CatalogSink,
        context: &'a dyn Context,
    ) -> Self {
        Self {
            source,
            catalog,
            context,
            encoded: Vec::new(),
            names: UniqueNames::default(),
            counted: ChunkTotals::default(),
        }
    }

    /// Returns a unique name for an array in an item. If another tensor already has the original
    /// name, the function reports a loss.
    pub(crate) fn name(&mut self, item: &str, key: &str) -> Result<String> {
        self.names.take_for(self.catalog, prefixed(item, key))
    }

    /// Adds the array at a key to the catalog as a tensor. Returns `None` if the store does not
    /// contain the array. If `stores_all` is set, the writer stored all chunks, and a missing chunk
    /// is an error.
    pub(crate) fn add(
        &mut self,
        store: &Store<'_>,
        key: &str,
        name: &str,
        stores_all: bool,
    ) -> Result<Option<TensorId>> {
        let limits = self.context.limits();
        let (span, parse): (Span, fn(&[u8], &Limits) -> Result<Encoding>) =
            if let Some(span) = store.get(&format!("{key}/.zarray"))? {
                (span, zarr2::parse)
            } else if let Some(span) = store.get(&format!("{key}/zarr.json"))? {
                (span, zarr3::parse)
            } else {
                return Ok(None);
            };
        let source = self.source;
        let at = |error: Error| match &span {
            Span::File { file, offset, .. } if !error.details().any(|(name, _)| name == "file") => {
                error.file(source.name(*file)).offset(*offset).tensor(name)
            }
            _ => error.tensor(name),
        };
        if span.len() > MAX_DESCRIPTION {
            let error = Error::limit("the array's description is too long").found(span.len());
            return Err(at(error.expected(format!("at most {MAX_DESCRIPTION} bytes"))));
        }
        let encoding = span.bytes(source, limits).and_then(|bytes| parse(&bytes, limits)).map_err(at)?;
        let counts = counts(&encoding).map_err(at)?;
        // Without a fill value, the writer cannot have omitted any chunk.
        let stores_all = stores_all || encoding.fill.is_null();
        self.describe(store, key, name, &encoding, &counts, stores_all).map(Some).map_err(|error| {
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
        stores_all: bool,
    ) -> Result<TensorId> {
        let Encoding { shape, dtype, .. } = encoding;
        let tile = encoding.layers.tiles.last().cloned().unwrap_or_default();
        let bytes_of = |shape: &[u64]| {
            let info = dtype.info().ok_or_else(|| Error::plugin("the dtype has no description"))?;
            info.bytes_of(element_count(shape)?)
        };
        let tile_bytes = bytes_of(&tile)?;
        bytes_of(shape)?;
        if shape.contains(&0) {
            let storage = self.catalog.storage(Storage::inline(Vec::new()))?;
            return self.catalog.tensor(name, *dtype, shape, storage, 0);
        }
        let total: u64 = shape.iter().zip(&tile).map(|(len, tile)| len.div_ceil(*tile)).product();
        let mut found =
            FoundChunks { name: name.into(), encoding, tile, tile_bytes, tiles: Vec::new(), missed: 0 };
        for number in 0..counts.iter().product::<u64>() {
            if number.is_multiple_of(1 << 10) {
                self.context.check_cancelled()?;
            }
            let place = grid_position(number, counts);
            let chunk = format!("{key}/{}", encoding.keys.of(&place));
            let Some(span) = store.get(&chunk)? else {
                if stores_all {
                    return Err(Error::malformed("a chunk of the array is missing").expected(chunk));
                }
                self.counted.count_absent(1, self.context.limits())?;
                found.missed += 1;
                continue;
            };
            self.counted.count_inline(&span, self.context.limits())?;
            let start: Vec<u64> =
                place.iter().zip(&encoding.layers.tiles[0]).map(|(at, tile)| at * tile).collect();
            self.layer(&span, 0, &start, &mut found)?;
        }
        self.tensor(found, total, stores_all)
    }

    /// Adds the tensor that consists of these chunks to the catalog.
    fn tensor(&mut self, found: FoundChunks<'_>, total: u64, stores_all: bool) -> Result<TensorId> {
        let FoundChunks { name, encoding, mut tile, tiles, missed, .. } = found;
        let Encoding { shape, dtype, order, .. } = encoding;
        if let (&[(_, only)], 1, true) = (&*tiles, total, tile == *shape && *order == Order::C) {
            return self.catalog.tensor(&name, *dtype, shape, only, 0);
        }
        let absent = total.saturating_sub(tiles.len() as u64);
        let fill = if absent > 0 {
            if stores_all {
                return Err(Error::malformed("a shard of the array lacks some of its chunks")
                    .expected(format!("{total} chunks"))
                    .found(tiles.len()));
            }
            self.report_missing_chunks(&name, absent, total)?;
            Some(self.catalog.storage(Storage::inline(dtype::fill(&encoding.fill, *dtype)?))?)
        } else {
            None
        };
        if let ([], [], Some(fill)) = (&*tiles, &**shape, fill) {
            return self.catalog.tensor(&name, *dtype, shape, fill, 0);
        }
        let listed = if tiles.is_empty() {
            // If no chunk exists, a single tile with the shape of the tensor has the same effect.
            tile.clone_from(shape);
            vec![None]
        } else {
            self.counted.count_absent(absent.saturating_sub(missed), self.context.limits())?;
            let mut listed = vec![None; usize::try_from(total).unwrap_or(usize::MAX)];
            for (number, storage) in tiles {
                if let Some(tile) = usize::try_from(number).ok().and_then(|number| listed.get_mut(number)) {
                    *tile = Some(storage);
                }
            }
            listed
        };
        let grid = Grid { tile, order: *order, edges: Edges::Padded, tiles: Tiles::Listed(listed), fill };
        self.catalog.tensor_of_tiles(&name, *dtype, shape, grid)
    }

    /// Reports missing chunks as a loss. The chunks may have been lost, or the writer may have
    /// omitted them because they contain only the fill value.
    fn report_missing_chunks(&mut self, name: &str, absent: u64, total: u64) -> Result<()> {
        let why = format!(
            "{absent} of its {total} chunks are missing and are read as the fill value; writers may leave out such chunks"
        );
        self.catalog.loss(Loss::new(LossKind::Tensor, name, why).severity(Severity::Changed))
    }

    /// Adds the chunks inside a chunk of this layer. `start` is the position of the outer chunk in
    /// the tensor.
    fn layer(&mut self, span: &Span, layer: usize, start: &[u64], found: &mut FoundChunks<'_>) -> Result<()> {
        let layers = &found.encoding.layers;
        let Some(&at_start) = layers.index_at_start.get(layer) else {
            return self.tile(span, start, found);
        };
        let (outer, inner) = (&layers.tiles[layer], &layers.tiles[layer + 1]);
        let counts: Vec<u64> = outer.iter().zip(inner).map(|(outer, inner)| outer / inner).collect();
        let index = Index::of(span, counts.iter().product(), at_start, self.source, self.context)?;
        for (number, entry) in (0..).zip(index.chunks()) {
            if number % (1 << 10) == 0 {
                self.context.check_cancelled()?;
            }
            self.counted.count_chunk(self.context.limits())?;
            let Some(part) = entry else { continue };
            let place = grid_position(number, &counts);
            let place = place.iter().zip(inner).zip(start);
            let start: Vec<u64> =
                place.map(|((at, inner), start)| start.saturating_add(at * inner)).collect();
            self.layer(&part, layer + 1, &start, found)?;
        }
        Ok(())
    }

    /// Adds an innermost chunk as a tile, unless the chunk starts past the end of the tensor.
    fn tile(&mut self, span: &Span, start: &[u64], found: &mut FoundChunks<'_>) -> Result<()> {
        // `start` counts elements. The last chunks of a shard may start past the end of the tensor.
        let (shape, mut number) = (&found.encoding.shape, 0);
        for ((start, len), tile) in start.iter().zip(shape).zip(&found.tile) {
            if start >= len {
                return Ok(());
            }
            number = number * len.div_ceil(*tile) + start / tile;
        }
        let storage = self.chunk(span, found)?;
        found.tiles.push((number, storage));
        Ok(())
    }

    /// Adds the storage of a chunk to the catalog.
    fn chunk(&mut self, span: &Span, found: &FoundChunks<'_>) -> Result<StorageId> {
        let (encoding, bytes, limits) = (found.encoding, found.tile_bytes, self.context.limits());
        self.counted.count_chunk(limits)?;
        let storage = if encoding.chain != Chain::default() {
            self.counted.count_expanded(bytes, span.len(), limits)?;
            let handle = self.encoded.len() as u64;
            self.encoded.push(Chunk {
                span: span.clone(),
                chain: encoding.chain,
                len: bytes,
                array: found.name.clone(),
            });
            Storage::encoded(handle, bytes)
        } else if span.len() != bytes {
            let error = Error::malformed("the length of a chunk does not match its shape");
            let error = error.expected(format!("{bytes} bytes")).found(span.len());
            return Err(match span {
                Span::File { file, offset, .. } => error.file(self.source.name(*file)).offset(*offset),
                Span::Inline { .. } => error,
            });
        } else {
            match span {
                Span::File { file, offset, len } => Storage::file(*file, *offset, *len),
                Span::Inline { .. } => Storage::inline(span.inline_bytes()),
            }
        };
        self.catalog.storage(storage.byte_order(encoding.byte_order))
    }
}

/// Returns the position of a chunk in the grid. `counts` contains the number of chunks along each
/// dimension.
fn grid_position(number: u64, counts: &[u64]) -> Vec<u64> {
    let (mut rest, mut place) = (number, vec![0; counts.len()]);
    for dim in (0..place.len()).rev() {
        place[dim] = rest % counts[dim];
        rest /= counts[dim];
    }
    place
}

/// Checks the chunk shapes of all layers. Returns the number of chunks in the first layer along
/// each dimension.
fn counts(encoding: &Encoding) -> Result<Vec<u64>> {
    let shape = &encoding.shape;
    element_count(shape)?;
    let mut outer: Option<&Vec<u64>> = None;
    for tile in &encoding.layers.tiles {
        if tile.len() != shape.len() {
            let error = Error::malformed("the rank of a chunk differs from the rank of the array");
            return Err(error.expected(shape.len()).found(tile.len()));
        }
        if tile.contains(&0) {
            return Err(Error::malformed("a chunk has a dimension of 0").found(format!("{tile:?}")));
        }
        element_count(tile)?;
        if let Some(outer) = outer
            && outer.iter().zip(tile).any(|(outer, inner)| outer % inner != 0)
        {
            let error = Error::malformed("a shard does not consist of whole chunks");
            return Err(error.expected(format!("parts of {outer:?}")).found(format!("{tile:?}")));
        }
        // For the first layer, `counts` contains the numbers of shards. For the other layers, it
        // contains the numbers of chunks inside all shards.
        let counts = shape.iter().zip(tile).map(|(len, tile)| len.div_ceil(*tile));
        let total = counts.clone().try_fold(1_u64, u64::checked_mul).filter(|total| *total <= MAX_CHUNKS);
        total.ok_or_else(|| {
            Error::limit("the array has too many chunks").expected(format!("at most {MAX_CHUNKS}"))
        })?;
        if let Some(outer) = outer {
            let inner: u64 =
                outer.iter().zip(tile).map(|(outer, inner)| outer / inner).fold(1, u64::saturating_mul);
            if inner > MAX_CHUNKS {
                return Err(
                    Error::limit("a shard has too many chunks").expected(format!("at most {MAX_CHUNKS}"))
                );
            }
        }
        outer = Some(tile);
    }
    let tile = encoding.layers.tiles.first().ok_or_else(|| Error::plugin("no chunks"))?;
    Ok(shape.iter().zip(tile).map(|(len, tile)| len.div_ceil(*tile)).collect())
}

/// Returns the name for an array in an item. The name might not be unique.
pub(crate) fn prefixed(item: &str, key: &str) -> String {
    if item.is_empty() { key.to_owned() } else { format!("{item}.{key}") }
}
