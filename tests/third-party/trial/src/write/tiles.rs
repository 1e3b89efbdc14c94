//! The writer for `data=tiles` divides every tensor into a grid with one order of elements. It
//! encodes the tiles individually and in parallel. It stores every fourth tile unchanged, with a
//! length that is known in advance. The offsets of the other tiles are known when all tiles are
//! encoded.

use super::grid::{Tile, tiles};
use super::{
    DATA_HEADER_LEN, add_tensor, data_header, data_path, file_name, index_path, new_index, place_in, room,
    seal_index,
};
use crate::codec;
use crate::index::{DataFile, Index, Stored};
use tensorferry_sdk::{
    ByteSink, CatalogView, Context, DeferredId, DigestAlgorithm, DigestId, Digests, Encoded, EncodedId,
    Error, LayoutSink, Order, OutputId, Region, Result, Role, SealSink, Target, TensorPlan, TensorWriter,
};

pub(super) struct Writer {
    pub(super) files: u64,
    pub(super) pieces: u64,
}

struct TiledFile {
    id: OutputId,
    header: DeferredId,
    /// The length of the file. A segment that has not been encoded yet counts as one byte.
    end: u64,
}

/// A tile that becomes one storage.
struct EncodedTile {
    tile: Tile,
    segment: EncodedId,
    crc: DigestId,
    is_plain: bool,
}

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let path = index_path(target);
        let mut index = new_index(catalog)?;
        let mut files = Vec::new();
        for number in 0..self.files {
            let name = data_path(path, number);
            let id = layout.file(&name, Role::Data)?;
            files.push(TiledFile { id, header: layout.deferred(id, DATA_HEADER_LEN)?, end: DATA_HEADER_LEN });
            index.files.push(DataFile { name: file_name(&name), len: 0 });
        }
        let mut all: Vec<EncodedTile> = Vec::new();
        for id in catalog.tensor_ids() {
            context.check_cancelled()?;
            let first = catalog.tied_to(id);
            if first != id {
                layout.alias(id, first)?;
                let place = place_in(&index, catalog, first)?;
                index.aliases.push((catalog.tensor(id).name.to_owned(), place));
                continue;
            }
            let mut blocks = Vec::new();
            for mut tile in tiles(catalog, id, self.pieces)? {
                // All tiles of a tensor have the same order, so that they form a grid.
                if tile.part.region.is_some() {
                    tile.part.order = if id.0.is_multiple_of(2) { Order::C } else { Order::Fortran };
                }
                let number = all.len() % files.len();
                let file = &mut files[number];
                let is_plain = all.len() % 4 == 3;
                let region =
                    tile.part.region.clone().unwrap_or_else(|| Region::whole(catalog.tensor(id).shape));
                let mut holds = Encoded::region(id, region);
                if is_plain {
                    holds = holds.of_len(tile.len);
                }
                let (segment, offset) = layout.encoded(file.id, holds)?;
                file.end = offset + if is_plain { tile.len } else { 1 };
                let crc = layout.digest(file.id, offset..file.end, DigestAlgorithm::CRC32C)?;
                index.storages.push(Stored {
                    file: u32::try_from(number).unwrap_or(u32::MAX),
                    offset: 0,
                    stored_len: 0,
                    len: tile.len,
                    is_encoded: !is_plain,
                    byte_order: tile.part.byte_order,
                    crc: 0,
                });
                blocks.push(tile.clone().block(catalog, all.len())?);
                all.push(EncodedTile { tile, segment, crc, is_plain });
            }
            add_tensor(&mut index, catalog, id, blocks)?;
        }
        let mut bodies = Vec::new();
        for file in &files {
            bodies.push(layout.digest(file.id, DATA_HEADER_LEN..file.end, DigestAlgorithm::CRC32C)?);
        }
        let index_file = layout.late_file(path, Role::Index)?;
        Ok(Box::new(Plan { index, index_file, files, bodies, tiles: all }))
    }
}

struct Plan {
    index: Index,
    index_file: OutputId,
    files: Vec<TiledFile>,
    /// The digest of the bytes after the header, for each file.
    bodies: Vec<DigestId>,
    tiles: Vec<EncodedTile>,
}

impl TensorPlan for Plan {
    fn encode(
        &self,
        id: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<Vec<u8>> {
        let tile = self.tiles.get(id.0 as usize).ok_or_else(|| Error::plugin(format!("no tile {}", id.0)))?;
        let Tile { part, len } = &tile.tile;
        let mut bytes = room(*len, context)?;
        catalog.read_region(part, &mut bytes)?;
        output.write(&if tile.is_plain { bytes } else { codec::encode(&bytes) })?;
        Ok(Vec::new())
    }

    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        let mut index = self.index.clone();
        for ((data, file), &body) in index.files.iter_mut().zip(&self.files).zip(&self.bodies) {
            data.len = digests.file_len(file.id)?;
            output.deferred(file.header, &data_header(Some(digests.crc(body)?)))?;
        }
        for (stored, tile) in index.storages.iter_mut().zip(&self.tiles) {
            let place = digests.encoded(tile.segment)?;
            (stored.offset, stored.stored_len) = (place.offset, place.len);
            stored.crc = digests.crc(tile.crc)?;
        }
        seal_index(&index, self.index_file, output)
    }
}
