//! Compares the slabs of a tensor with the definition of its elements, for every order of the axes
//! and several budgets.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use std::path::PathBuf;
use tensorferry_core::context::session::Session;
use tensorferry_core::read::input::TensorInput;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{
    CatalogBuilder, CatalogSink, DigestAlgorithm, Dtype, Edges, ErrorKind, Grid, Limits, MemorySource,
    Result, Storage, Tiles,
};

/// The layout of a tensor's tiles.
#[derive(Debug, Clone, Copy)]
struct Lie {
    order: Order,
    edges: Edges,
    byte_order: ByteOrder,
    /// One of every `absent` tiles is missing, and its elements are 7; 0 means that no tile is
    /// missing.
    absent: u64,
    /// The number of the tile that has a wrong digest.
    wrong: Option<u64>,
}

const PLAIN: Lie =
    Lie { order: Order::C, edges: Edges::Clipped, byte_order: ByteOrder::Little, absent: 0, wrong: None };

/// Returns a U32 tensor of this shape. Each element's value is its position.
fn catalog(shape: &[u64], tile: &[u64], lie: Lie) -> Catalog {
    let (source, limits) = (MemorySource::file("x", []), Limits::default());
    let mut builder = CatalogBuilder::new("made", &source, &limits);
    let bytes = |value: u32| match lie.byte_order {
        ByteOrder::Little => value.to_le_bytes(),
        ByteOrder::Big => value.to_be_bytes(),
    };
    let fill = builder.storage(Storage::inline(bytes(7)).byte_order(lie.byte_order)).unwrap();
    let tiles: u64 = shape.iter().zip(tile).map(|(len, tile)| len.div_ceil(*tile)).product();
    let listed = (0..tiles).map(|number| {
        if is_absent(number, lie) {
            return None;
        }
        let inside = tile_region(shape, tile, number);
        let stored = if lie.edges == Edges::Padded { tile.to_vec() } else { inside.shape.clone() };
        let mut values = Vec::new();
        for local in each_index(&stored, lie.order) {
            let is_inside = local.iter().zip(&inside.shape).all(|(at, len)| at < len);
            let at: Vec<u64> = local.iter().zip(&inside.origin).map(|(at, start)| at + start).collect();
            values.extend(bytes(if is_inside { place(&at, shape) } else { u32::MAX }));
        }
        let mut sum = DigestAlgorithm::CRC32C.start().unwrap();
        sum.update(&values);
        let mut digest = sum.digest();
        if lie.wrong == Some(number) {
            digest.value = [0; 4].into();
        }
        let storage = Storage::inline(values).digest(digest).byte_order(lie.byte_order);
        Some(builder.storage(storage).unwrap())
    });
    let tiles = Tiles::Listed(listed.collect());
    let grid = Grid { tile: tile.to_vec(), order: lie.order, edges: lie.edges, tiles, fill: Some(fill) };
    builder.tensor_of_tiles("t", Dtype::U32, shape, grid).unwrap();
    builder.finish().unwrap()
}

fn is_absent(number: u64, lie: Lie) -> bool {
    lie.absent > 0 && number % lie.absent == 1
}

/// Returns the region of a tile.
fn tile_region(shape: &[u64], tile: &[u64], mut number: u64) -> Region {
    let mut region = Region::whole(shape);
    for d in (0..shape.len()).rev() {
        let count = shape[d].div_ceil(tile[d]);
        region.origin[d] = number % count * tile[d];
        region.shape[d] = tile[d].min(shape[d] - region.origin[d]);
        number /= count;
    }
    region
}

/// Returns the indices of all elements in a box, in order.
fn each_index(shape: &[u64], order: Order) -> Vec<Vec<u64>> {
    let dims: Vec<usize> = fastest_first(shape.len(), order).collect();
    (0..shape.iter().product())
        .map(|mut number| {
            let mut at = vec![0; shape.len()];
            for &d in &dims {
                at[d] = number % shape[d];
                number /= shape[d];
            }
            at
        })
        .collect()
}

/// Returns the row-major position of an element.
fn place(at: &[u64], shape: &[u64]) -> u32 {
    u32::try_from(at.iter().zip(shape).fold(0, |place, (at, len)| place * len + at)).unwrap()
}

fn expected(shape: &[u64], tile: &[u64], lie: Lie, part: &TensorPart) -> Vec<u8> {
    let region = part.region.clone().unwrap_or_else(|| Region::whole(shape));
    let counts: Vec<u64> = shape.iter().zip(tile).map(|(len, tile)| len.div_ceil(*tile)).collect();
    let mut bytes = Vec::new();
    for local in each_index(&region.shape, part.order) {
        let at: Vec<u64> = local.iter().zip(&region.origin).map(|(at, start)| at + start).collect();
        let of: Vec<u64> = at.iter().zip(tile).map(|(at, tile)| at / tile).collect();
        let value = if is_absent(place(&of, &counts).into(), lie) { 7 } else { place(&at, shape) };
        bytes.extend(match part.byte_order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
    }
    bytes
}

/// Copies a part in slabs of `bytes` each. Returns the result, the number of slabs, and the length
/// of the longest write.
fn copied(catalog: Catalog, part: &TensorPart, bytes: usize) -> Result<(Vec<u8>, usize, usize)> {
    let input = TensorInput::in_memory(FileSource::of_files(PathBuf::new(), vec![String::new()]), catalog);
    let session = Session::new(1, 1 << 20);
    let spill = Box::new(|| tempfile::tempfile().map_err(Error::from));
    let stored = Stored::new(&input, &input.catalog, &session, spill);
    let slabs = Slabs::of_at_least(1, &input.catalog, part, bytes)?.unwrap();
    let width = u64::from(slabs.width);
    let mut output = vec![0xee; size(slabs.region.shape.iter().product::<u64>() * width)];
    let mut written = vec![false; output.len()];
    let (mut buffers, mut longest) = (SlabBuffers::default(), 0);
    for number in 0..slabs.count() {
        slabs.copy(number, &stored, DigestPolicy::Checked, &mut buffers, &mut |to, run| {
            let range = size(to)..size(to) + run.len();
            assert!(!written[range.clone()].contains(&true), "written twice at {to}");
            written[range.clone()].fill(true);
            output[range].copy_from_slice(run);
            longest = longest.max(run.len());
            Ok(())
        })?;
        assert!(buffers.slab.len() <= bytes.max(4), "a slab of {} bytes", buffers.slab.len());
    }
    assert!(!written.contains(&false));
    Ok((output, slabs.count(), longest))
}

#[test]
fn slabs_equal_the_definition_in_every_order_and_budget() {
    let shapes: [(&[u64], &[u64]); 4] =
        [(&[300], &[3]), (&[37, 23], &[4, 3]), (&[9, 10, 11], &[2, 3, 4]), (&[5, 1, 40, 6], &[2, 1, 3, 2])];
    let mut cases = 0;
    for (shape, tile) in shapes {
        let inner = Region {
            origin: shape.iter().map(|len| len / 7).collect(),
            shape: shape.iter().map(|len| (len - len / 7).div_ceil(2).max(len * 5 / 6 - len / 7)).collect(),
        };
        for order in [Order::C, Order::Fortran] {
            for (edges, byte_order, absent) in [
                (Edges::Clipped, ByteOrder::Little, 0),
                (Edges::Padded, ByteOrder::Big, 0),
                (Edges::Clipped, ByteOrder::Big, 3),
            ] {
                let lie = Lie { order, edges, byte_order, absent, wrong: None };
                let whole = TensorPart::whole(tensorferry_sdk::TensorId(0));
                for (region, to) in [(None, Order::C), (None, Order::Fortran), (Some(&inner), Order::C)] {
                    let part = TensorPart { region: region.cloned(), order: to, ..whole.clone() };
                    for bytes in [4, 30, 200, 1 << 20] {
                        let (found, _, _) = copied(catalog(shape, tile, lie), &part, bytes).unwrap();
                        assert!(
                            found == expected(shape, tile, lie, &part),
                            "{shape:?} in {tile:?}, {lie:?}, {part:?}, {bytes}"
                        );
                        cases += 1;
                    }
                }
            }
        }
    }
    assert_eq!(cases, 4 * 2 * 3 * 3 * 4);
}

#[test]
fn a_cast_of_tiles_is_read_slab_by_slab() {
    let (shape, tile) = (&[40, 50][..], &[3, 4][..]);
    let cast = catalog(shape, tile, PLAIN).cast(&[(tensorferry_sdk::TensorId(0), Dtype::U16)]).unwrap();
    let part = TensorPart::whole(tensorferry_sdk::TensorId(0));
    let expected: Vec<u8> = (0..2000_u16).flat_map(u16::to_le_bytes).collect();
    for bytes in [2, 100, 1 << 20] {
        assert!(copied(cast.clone(), &part, bytes).unwrap().0 == expected, "{bytes}");
    }
    let wrong = catalog(shape, tile, Lie { wrong: Some(17), ..PLAIN });
    let wrong = wrong.cast(&[(tensorferry_sdk::TensorId(0), Dtype::U16)]).unwrap();
    assert_eq!(copied(wrong, &part, 1 << 20).unwrap_err().kind(), ErrorKind::Malformed);
}

#[test]
fn runs_are_as_long_as_the_budget_allows() {
    let part = TensorPart::whole(tensorferry_sdk::TensorId(0));
    let of = |bytes| {
        let (_, count, longest) = copied(catalog(&[64, 64], &[4, 4], PLAIN), &part, bytes).unwrap();
        (count, longest)
    };
    // With these budgets, a slab covers the whole tensor, two tile rows, one tile row, a quarter of
    // a tile row, and half a tile.
    assert_eq!(of(64 * 64 * 4), (1, 64 * 64 * 4));
    assert_eq!(of(8 * 64 * 4), (8, 8 * 64 * 4));
    assert_eq!(of(4 * 64 * 4 + 5), (16, 4 * 64 * 4));
    assert_eq!(of(4 * 16 * 4), (64, 16 * 4));
    assert_eq!(of(2 * 4 * 4), (512, 4 * 4));
}

#[test]
fn a_wrong_digest_is_found_where_the_tile_is_read() {
    let part = TensorPart::whole(tensorferry_sdk::TensorId(0));
    let wrong = |number| catalog(&[30, 30], &[3, 3], Lie { wrong: Some(number), ..PLAIN });
    for number in [0, 50, 99] {
        let error = copied(wrong(number), &part, 500).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains("crc32c"), "{error}");
    }
    // If no slab reads a tile completely, slabs do not check the tile's digest. Code that reads
    // whole storages checks this digest.
    assert!(copied(wrong(50), &part, 12).is_ok());
    let catalog = wrong(50);
    let input = TensorInput::in_memory(FileSource::of_files(PathBuf::new(), vec![String::new()]), catalog);
    let session = Session::new(1, 1 << 20);
    let spill = Box::new(|| tempfile::tempfile().map_err(Error::from));
    let stored = Stored::new(&input, &input.catalog, &session, spill);
    let checked = |bytes| Slabs::of(&input.catalog, &part, bytes).unwrap().unwrap().checked(&stored).count();
    assert_eq!((checked(12), checked(500)), (0, 100));
}

#[test]
fn few_tiles_are_planned_one_by_one() {
    let few = catalog(&[7, 9], &[1, 1], PLAIN);
    let part = TensorPart::whole(tensorferry_sdk::TensorId(0));
    assert!(Slabs::of(&few, &part, 100).unwrap().is_none());
    let many = catalog(&[8, 9], &[1, 1], PLAIN);
    assert!(Slabs::of(&many, &part, 100).unwrap().is_some());
    let corner = Region { origin: vec![0, 0], shape: vec![7, 9] };
    let part = TensorPart { region: Some(corner), ..part };
    assert!(Slabs::of(&many, &part, 100).unwrap().is_none());
}

/// Returns a U32 tensor of 600 rows in which each element's value is its position. The tensor
/// consists of blocks with the specified numbers of columns.
fn columns(widths: &[u64], is_turned: bool) -> Catalog {
    let (source, limits) = (MemorySource::file("x", []), Limits::default());
    let mut builder = CatalogBuilder::new("made", &source, &limits);
    let shape = [600, widths.iter().sum()];
    let mut start = 0;
    let blocks = widths.iter().map(|&width| {
        let region = Region { origin: vec![0, start], shape: vec![600, width] };
        start += width;
        let order = if is_turned { Order::Fortran } else { Order::C };
        let values = each_index(&region.shape, order)
            .into_iter()
            .flat_map(|at| place(&[at[0], at[1] + region.origin[1]], &shape).to_le_bytes());
        let storage = builder.storage(Storage::inline(values.collect::<Vec<u8>>())).unwrap();
        let strides = if is_turned { vec![1, 600] } else { vec![width.cast_signed(), 1] };
        Block { region, storage, offset: 0, strides }
    });
    let blocks = blocks.collect();
    builder.tensor_of_blocks("t", Dtype::U32, &shape, blocks).unwrap();
    builder.finish().unwrap()
}

#[test]
fn rows_that_lie_in_pieces_are_put_together() {
    let part = TensorPart::whole(tensorferry_sdk::TensorId(0));
    let expected: Vec<u8> = (0..600_u32 * 1000).flat_map(u32::to_le_bytes).collect();
    for bytes in [3000, 10_000, 1 << 20, 1 << 23] {
        let (found, _, longest) = copied(columns(&[500, 1, 499], false), &part, bytes).unwrap();
        assert!(found == expected, "{bytes}");
        // A slab contains as many whole rows as fit in a window.
        let rows = bytes.min(WINDOW_BYTES) / 4000 * 4000;
        assert_eq!(longest, if rows == 0 { 3000 } else { rows });
    }
    let region = Some(Region { origin: vec![17, 400], shape: vec![583, 550] });
    let part = TensorPart { region, ..part };
    let at = |row: u32| (row * 1000 + 400..row * 1000 + 950).flat_map(u32::to_le_bytes);
    let expected: Vec<u8> = (17..600).flat_map(at).collect();
    for bytes in [3000, 1 << 20] {
        assert!(copied(columns(&[500, 1, 499], false), &part, bytes).unwrap().0 == expected, "{bytes}");
    }
}

#[test]
fn what_is_not_in_short_runs_is_no_slab() {
    let part = TensorPart::whole(tensorferry_sdk::TensorId(0));
    let is_taken = |catalog: Catalog| Slabs::of(&catalog, &part, 1 << 20).unwrap().is_some();
    assert!(is_taken(columns(&[500, 500], false)));
    // Slabs are not used for a single block, a transposed block, less than a window of bytes, or
    // runs that are already long enough.
    assert!(!is_taken(columns(&[1000], false)));
    assert!(!is_taken(columns(&[500, 500], true)));
    assert!(!is_taken(columns(&[200, 200], false)));
    assert!(!is_taken(columns(&[5000, 5000], false)));
}
