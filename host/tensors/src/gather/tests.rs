//! Compares the results of tiled copies with the definition of a gather, element by element.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_range_loop,
    reason = "small numbers, and one index into several lists"
)]
use super::*;
use proptest::prelude::*;
use tensorferry_sdk::StorageId;

/// Gathers element by element, according to the definition.
fn plainly(block: &Block, region: &Region, order: Order, width: usize, source: &[u8]) -> Vec<u8> {
    let count: u64 = region.shape.iter().product();
    let mut output = vec![0xee; count as usize * width];
    for linear in 0..count {
        let mut rest = linear;
        let mut local = vec![0; region.shape.len()];
        for d in (0..local.len()).rev() {
            local[d] = rest % region.shape[d];
            rest /= region.shape[d];
        }
        let place = match order {
            Order::C => linear,
            Order::Fortran => local.iter().zip(&region.shape).rev().fold(0, |sum, (i, len)| sum * len + i),
        };
        let mut from = block.offset.cast_signed();
        let mut inside = true;
        for d in 0..local.len() {
            let global = local[d] + region.origin[d];
            let Some(i) = global.checked_sub(block.region.origin[d]) else {
                inside = false;
                break;
            };
            inside &= i < block.region.shape[d];
            from += i.cast_signed() * block.strides[d] * width as i64;
        }
        if inside {
            let (from, to) = (from as usize, place as usize * width);
            output[to..to + width].copy_from_slice(&source[from..from + width]);
        }
    }
    output
}

fn tiled(block: &Block, region: &Region, order: Order, width: u32, source: &[u8], tile: usize) -> Vec<u8> {
    let count: u64 = region.shape.iter().product();
    let mut output = vec![0xee; count as usize * width as usize];
    let Some(copy) = StridedCopy::new(block, region, order, width) else { return output };
    let mut scratch = Scratch::default();
    for tile in copy.tiles(tile).iter() {
        let read = |offset: u64, buffer: &mut [u8]| {
            buffer.copy_from_slice(&source[offset as usize..offset as usize + buffer.len()]);
            Ok::<_, ()>(())
        };
        let write = |offset: u64, bytes: &[u8]| {
            output[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
            Ok(())
        };
        tile.copy(&mut scratch, 1, read, write).unwrap();
    }
    output
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn tiles_equal_the_definition(
        shape in proptest::collection::vec(1_u64..7, 0..5),
        permutation in any::<u64>(),
        gaps in proptest::collection::vec(0_i64..3, 5),
        negative in any::<u8>(),
        broadcast in any::<u8>(),
        cut in any::<u64>(),
        fortran in any::<bool>(),
        width in prop_oneof![Just(1_u32), Just(2), Just(3), Just(4), Just(8), Just(16)],
        tile in 1_usize..400,
    ) {
        let rank = shape.len();
        // The strides correspond to a random order of the dimensions. Some strides leave gaps, some
        // are negative, and some are zero.
        let mut order: Vec<usize> = (0..rank).collect();
        let mut seed = permutation;
        for i in (1..rank).rev() { order.swap(i, (seed % (i as u64 + 1)) as usize); seed /= 7; }
        let mut strides = vec![0_i64; rank];
        let (mut step, mut lowest) = (1_i64, 0_i64);
        for &d in &order {
            if broadcast >> d & 3 == 3 { continue; }
            strides[d] = step + gaps[d];
            step = strides[d] * shape[d] as i64;
            if negative >> d & 1 == 1 { strides[d] = -strides[d]; lowest += (shape[d] as i64 - 1) * strides[d]; }
        }
        let offset = (-lowest).cast_unsigned() * u64::from(width);
        let source: Vec<u8> = (0..(step * 2 + 8) * i64::from(width)).map(|i| (i * 7 + i / 251) as u8).collect();
        let block = Block { region: Region::whole(&shape), storage: StorageId(0), offset, strides };
        let mut region = Region::whole(&shape);
        for d in 0..rank {
            let start = (cut >> (d * 6)) % shape[d];
            region.origin[d] = start;
            region.shape[d] = 1 + (cut >> (d * 6 + 3)) % (shape[d] - start);
        }
        let order = if fortran { Order::Fortran } else { Order::C };
        prop_assert_eq!(
            tiled(&block, &region, order, width, &source, tile),
            plainly(&block, &region, order, width as usize, &source)
        );
    }
}

#[test]
fn a_plain_tensor_is_one_run() {
    let shape = [3, 4, 5];
    let block = Block {
        region: Region::whole(&shape),
        storage: StorageId(0),
        offset: 8,
        strides: tensorferry_sdk::row_major_strides(&shape),
    };
    let copy = StridedCopy::new(&block, &Region::whole(&shape), Order::C, 4).unwrap();
    assert_eq!((copy.runs(), copy.run, copy.from, copy.to), (1, 240, 8, 0));
}

#[test]
fn tiles_of_a_transposition_are_long_on_both_sides() {
    let shape = [1 << 14, 1 << 14];
    let block =
        Block { region: Region::whole(&shape), storage: StorageId(0), offset: 0, strides: vec![1, 1 << 14] };
    let copy = StridedCopy::new(&block, &Region::whole(&shape), Order::C, 4).unwrap();
    assert_eq!(copy.tile_lens(4 << 20), [1 << 10, 1 << 10]);
}

#[test]
fn a_view_that_was_cut_is_one_gather_again() {
    let block = |origin: u64, len: u64, offset: u64, stride: i64| Block {
        region: Region { origin: vec![origin], shape: vec![len] },
        storage: StorageId(0),
        offset,
        strides: vec![stride],
    };
    let copy = |block: &Block, elements: u64| {
        StridedCopy::new(block, &Region::whole(&[elements]), Order::C, 4).unwrap()
    };
    // A transposed matrix that is reshaped to a vector has one block per row.
    let rows = (0..100).map(|row| copy(&block(row * 50, 50, row * 4, 100), 5000)).collect();
    let whole = Region::whole(&[100, 50]);
    let turned = Block { region: whole.clone(), storage: StorageId(0), offset: 0, strides: vec![1, 100] };
    assert_eq!(StridedCopy::joined(rows), [StridedCopy::new(&turned, &whole, Order::C, 4).unwrap()]);
    // A three-dimensional tensor whose blocks may be in any order.
    let mut planes: Vec<_> =
        (0..12).map(|row| copy(&block(row * 5, 5, row / 4 * 4 + row % 4 * 60, 12), 60)).collect();
    planes.reverse();
    let shape = [3, 4, 5];
    let turned =
        Block { region: Region::whole(&shape), storage: StorageId(0), offset: 0, strides: vec![1, 15, 12] };
    assert_eq!(
        StridedCopy::joined(planes),
        [StridedCopy::new(&turned, &Region::whole(&shape), Order::C, 4).unwrap()]
    );
    // Unevenly spaced blocks are not joined.
    let uneven =
        vec![copy(&block(0, 2, 0, 3), 6), copy(&block(2, 2, 40, 3), 6), copy(&block(4, 2, 44, 3), 6)];
    assert_eq!(StridedCopy::joined(uneven).len(), 2);
}
