#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::testing::{BlockBytes, TableBytes, change, handle, limits, table};
use tensorferry_proto::wire::put_varint;
use tensorferry_sdk::{ErrorKind, Limits, MemorySource, Result, Source};
use tensorferry_test_kit::random::Random;

type Entry = (Vec<u8>, Vec<u8>);

fn read_within(bytes: &[u8], limits: &Limits) -> Result<Vec<Entry>> {
    let source = MemorySource::file("t.index", bytes);
    let table = Table::open(&source, source.open("t.index")?, limits)?;
    let mut entries = Vec::new();
    table.for_each(&source, &mut |key, value, place| {
        assert_eq!(table.value(&source, place)?, value);
        entries.push((key.to_vec(), value.to_vec()));
        Ok(())
    })?;
    Ok(entries)
}

fn read(bytes: &[u8]) -> Result<Vec<Entry>> {
    read_within(bytes, &Limits::default())
}

fn error(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}

fn entries(count: usize) -> Vec<Entry> {
    (0..count).map(|i| (format!("layer_{i:04}/w").into_bytes(), vec![7; i % 5])).collect()
}

/// Returns a table with one data block.
fn of_block(block: &[u8]) -> Vec<u8> {
    let mut table = TableBytes::default();
    table.data(b"~", block, 0);
    table.finish()
}

#[test]
fn what_is_in_a_table_is_read() {
    for compression in [0, 1] {
        for (count, per_block) in [(1, 1), (40, 16), (40, 7), (40, 1), (40, 40)] {
            assert_eq!(read(&table(&entries(count), per_block, compression)).unwrap(), entries(count));
        }
    }
}

#[test]
fn keys_need_not_be_shared() {
    let mut block = BlockBytes::default();
    entries(9).iter().for_each(|(key, value)| block.entry_sharing(0, key, value));
    assert_eq!(read(&of_block(&block.finish())).unwrap(), entries(9));
}

#[test]
fn a_table_may_be_empty() {
    assert_eq!(read(&TableBytes::default().finish()).unwrap(), []);
    let mut block = BlockBytes::default();
    block.entry(b"not reached", b"");
    // LevelDB treats a block without restarts as empty, even if other bytes precede the restart
    // count.
    assert_eq!(read(&of_block(&block.finish_with(&[0]))).unwrap(), []);
    assert_eq!(read(&of_block(&BlockBytes::default().finish())).unwrap(), []);
}

#[test]
fn bytes_after_a_handle_are_left() {
    let mut table = TableBytes::default();
    let mut block = BlockBytes::default();
    block.entry(b"a", b"1");
    table.data(b"a", &block.finish(), 0);
    table.index[0].1.extend([1, 2, 3]);
    assert_eq!(read(&table.finish()).unwrap(), [(b"a".to_vec(), b"1".to_vec())]);
}

#[test]
fn what_is_no_table_is_refused() {
    assert!(error(b"").contains("too short"));
    assert!(error(&[0; 47]).contains("too short"));
    assert!(error(&[0; 48]).contains("magic"));
    let mut footer = [0xff; 48];
    footer[40..].copy_from_slice(&MAGIC.to_le_bytes());
    assert!(error(&footer).contains("two handles"));
}

#[test]
fn handles_stay_in_the_file() {
    for bad in [handle(1 << 40, 8), handle(u64::MAX, u64::MAX), handle(0, u64::MAX - 2), handle(0, 1 << 30)] {
        let mut table = TableBytes::default();
        table.index.push((b"k".to_vec(), bad));
        let error = error(&table.finish());
        assert!(error.contains("table block") && error.starts_with("t.index: "), "{error}");
    }
    let mut cut = TableBytes::default();
    cut.index.push((b"k".to_vec(), vec![0x80]));
    assert!(error(&cut.finish()).contains("no handle"));
    // Corrupts the handle of the index in the footer.
    let good = table(&entries(5), 3, 0);
    for bad in [handle(1 << 40, 8), handle(u64::MAX - 4, 100), handle(0, u64::MAX)] {
        let mut footer = [handle(0, 8), bad].concat();
        footer.resize(40, 0);
        let error = error(&[&good[..good.len() - 48], &footer, &good[good.len() - 8..]].concat());
        assert!(error.contains("the table index"), "{error}");
    }
}

#[test]
fn an_index_that_names_itself_ends() {
    let mut table = TableBytes::default();
    // The index follows the metaindex. The index consists of one entry of 6 bytes and 8 bytes of
    // restarts.
    table.index.push((b"z".to_vec(), handle(13, 14)));
    assert_eq!(read(&table.finish()).unwrap(), [(b"z".to_vec(), handle(13, 14))]);
}

#[test]
fn a_block_that_is_named_twice_is_found() {
    let mut table = TableBytes::default();
    let mut block = BlockBytes::default();
    block.entry(b"a", b"1");
    table.data(b"a", &block.finish(), 0);
    let first = table.index[0].1.clone();
    table.index.push((b"b".to_vec(), first));
    let error = error(&table.finish());
    assert!(error.contains("overlaps the previous block") && error.contains("tensor \"b\""), "{error}");
}

#[test]
fn keys_increase() {
    let within = |keys: &[&[u8]]| {
        let mut block = BlockBytes::default();
        keys.iter().for_each(|key| block.entry(key, b""));
        error(&of_block(&block.finish()))
    };
    for keys in [[&b"b"[..], b"a"], [b"a", b"a"], [b"ab", b"a"], [b"", b""]] {
        let error = within(&keys);
        assert!(error.contains("not greater") && error.contains("offset 0"), "{error}");
    }
    // The keys are out of order across the boundary of two blocks.
    for second in [&b"b"[..], b"a"] {
        let mut table = TableBytes::default();
        for key in [&b"b"[..], second] {
            let mut block = BlockBytes::default();
            block.entry(key, b"");
            table.data(key, &block.finish(), 0);
        }
        // The keys in the index increase, so only the keys in the blocks are in the wrong order.
        table.index[0].0 = b"b".to_vec();
        table.index[1].0 = b"c".to_vec();
        assert!(error(&table.finish()).contains("not greater"));
    }
}

#[test]
fn restarts_fit() {
    let with = |restarts: &[u32]| {
        let mut block = BlockBytes::default();
        block.entry(b"a", b"1");
        error(&of_block(&block.finish_with(restarts)))
    };
    assert!(with(&[u32::MAX]).contains("restarts"));
    assert!(with(&[0, 4]).contains("restarts"));
    assert!(with(&[5, 1]).contains("first restart"));
    for short in [&b""[..], b"abc"] {
        assert!(error(&of_block(short)).contains("too short"));
    }
}

#[test]
fn entries_stay_in_their_block() {
    let of_entry = |entry: &[u8]| {
        let mut block = BlockBytes::default();
        block.entry(b"abc", b"1");
        let whole = [&block.finish_with(&[])[..], entry, &[0, 0, 0, 0, 1, 0, 0, 0]].concat();
        error(&of_block(&whole))
    };
    assert!(of_entry(&[4, 1, 0, b'x']).contains("shares more"));
    assert!(of_entry(&[0, 2, 0, b'x']).contains("past the end"));
    assert!(of_entry(&[0, 1, 1, b'x']).contains("past the end"));
    assert!(of_entry(&[0, 1]).contains("truncated"));
    for lengths in [[0, u64::from(u32::MAX), 0], [0, 1, u64::from(u32::MAX)], [0, u64::MAX, 4]] {
        let mut entry = Vec::new();
        lengths.iter().for_each(|len| put_varint(&mut entry, *len));
        let error = of_entry(&[&entry[..], b"x"].concat());
        assert!(error.contains("after key \"abc\""), "{error}");
    }
    let error = of_entry(&[0xff, 0xff, 0xff, 0xff, 0xff]);
    assert!(error.contains("truncated") && error.contains("after key \"abc\""), "{error}");
}

#[test]
fn keys_that_share_all_but_everything_are_refused() {
    let of_keys = |count: u32| {
        let mut block = BlockBytes::default();
        let long = vec![b'k'; 60_000];
        block.entry(&[&long[..], &[0; 4]].concat(), b"1");
        for number in 1..count {
            block.entry_sharing(60_000, &[&long[..], &number.to_be_bytes()].concat(), b"1");
        }
        read(&of_block(&block.finish()))
    };
    assert_eq!(of_keys(60).unwrap().len(), 60);
    // A table of 100 kB whose decoded keys use 600 MB.
    assert_eq!(of_keys(10_000).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn every_flipped_bit_of_a_block_is_found() {
    let good = table(&entries(5), 3, 0);
    let data = good.len() - 48;
    for at in 0..data {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        let is_unnoticed = read(&bad).is_ok();
        // Readers ignore the metaindex.
        assert!(!is_unnoticed || at > data / 2, "byte {at}");
    }
}

#[test]
fn compression_is_known_and_bounded() {
    let stored = |stored: &[u8], compression: u8| {
        let mut table = TableBytes::default();
        let handle = table.stored_block(stored, compression);
        table.index.push((b"k".to_vec(), handle));
        table.finish()
    };
    assert_eq!(read(&stored(b"abc", 2)).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(error(&stored(b"\x05", 1)).contains("snappy"));
    assert_eq!(read(&stored(b"", 1)).unwrap_err().kind(), ErrorKind::Malformed);
    let claiming = |len: u64| {
        let mut claim = Vec::new();
        put_varint(&mut claim, len);
        stored(&claim, 1)
    };
    assert!(error(&claiming(0xffff_fff0)).contains("claims more"));
    assert_eq!(read(&claiming(1 << 60)).unwrap_err().kind(), ErrorKind::Malformed);
    // Snappy's format allows this expansion ratio, but the configured limit does not.
    let zeros = snap::raw::Encoder::new().compress_vec(&[0; 100_000]).unwrap();
    let small = limits(|limits| limits.header_bytes = 50_000);
    let error = read_within(&stored(&zeros, 1), &small).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn mutations_do_not_panic() {
    let good = table(&entries(30), 7, 1);
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let mut bad = good.clone();
        for _ in 0..=random.below(3) {
            change(&mut random, &mut bad);
        }
        bad.truncate(bad.len() - if random.below(4) == 0 { random.below(bad.len()) } else { 0 });
        let _ = read(&bad);
    }
}
