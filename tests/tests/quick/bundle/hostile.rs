//! Bundles that lie: about lengths, offsets, counts, checksums and each other. Each is refused with a
//! typed error that names the place, in bounded time and memory.

use tempfile::tempdir;
use tensorferry_tests::bundle::{Bundle, Entry, STRING, Slice, dtype, slice_key};
use tensorferry_tests::table::entry;
use tensorferry_tests::table::{Blocks, Handle, PLAIN, SNAPPY, Style, around, contents, table};
use tensorferry_tests::wire::varint;
use tensorferry_tests::{Ferry, args};

/// The index and the data files of a bundle, and what its refusal must say.
struct Case {
    name: &'static str,
    index: Vec<u8>,
    data: Vec<(String, Vec<u8>)>,
    says: Vec<&'static str>,
}

/// Reads each case, all of it; it must be refused.
fn all_are_refused(cases: &[Case]) {
    let ferry = Ferry::new();
    let mut wrong = Vec::new();
    for Case { name, index, data, says } in cases {
        let folder = tempdir().unwrap();
        let input = folder.path().join("m.index");
        std::fs::write(&input, index).unwrap();
        for (name, bytes) in data {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let inspect = args!["inspect", input, "--from", "tf-bundle"];
        let digest = args!["--digest", "sha256"];
        let outcome = ferry.run_bounded(inspect.into_iter().chain(digest));
        let is_refused = outcome.code == Some(3) && says.iter().all(|part| outcome.stderr.contains(part));
        if !is_refused {
            wrong.push(format!("{name}, which must say {says:?}: {outcome}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

/// Entries of a table that is sound but for what a case does to it.
fn sound() -> Bundle {
    let mut bundle = Bundle::default();
    bundle.numbers("a", dtype("F32"), &[2, 3], &[7; 24]);
    bundle.strings("s", &[2], &[b"one", b"three"]);
    bundle
}

/// A table instead of the sound one's.
fn index(name: &'static str, index: Vec<u8>, says: &[&'static str]) -> Case {
    Case { name, index, data: sound().data("m"), says: [&["m.index"], says].concat() }
}

/// A sound table of a bundle that a closure has made unsound.
fn altered(name: &'static str, says: &[&'static str], alter: impl FnOnce(&mut Bundle)) -> Case {
    let mut bundle = sound();
    alter(&mut bundle);
    Case { name, index: bundle.index(&Style::default()), data: bundle.data("m"), says: says.to_vec() }
}

#[test]
fn the_cases_are_made_from_a_sound_one() {
    let case = altered("sound", &[], |_| {});
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("m.index"), &case.index).unwrap();
    for (name, bytes) in &case.data {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    assert_eq!(Ferry::new().inspect(&folder.path().join("m"))["tensors"].as_array().unwrap().len(), 2);
}

/// The block of the sound bundle's table, without restarts and trailer.
fn entries() -> Vec<(Vec<u8>, Vec<u8>)> {
    let header = (Vec::new(), Bundle::header(1, 0, 1, 0));
    std::iter::once(header).chain(sound().entries).collect()
}

/// A table whose index points at its only data block `times` times.
fn looped(times: u32) -> Vec<u8> {
    let mut blocks = Blocks::default();
    let handle = blocks.push(&contents(&entries(), 16, true), PLAIN);
    let keys: Vec<[u8; 5]> =
        (0..times).map(|at| [&b"z"[..], &at.to_be_bytes()].concat().try_into().unwrap()).collect();
    let index: Vec<_> = keys.iter().map(|key| (key.as_slice(), handle)).collect();
    blocks.finish_with(&index, &Style::default())
}

/// A table whose index points at itself.
fn self_pointing() -> Vec<u8> {
    let mut blocks = Blocks::default();
    let metaindex = blocks.push(&contents(&[], 1, true), PLAIN);
    let offset = blocks.0.len() as u64;
    let index = |len| contents(&[(b"z".to_vec(), Handle { offset, len }.encoded())], 1, true);
    let len = index(0).len() as u64;
    assert_eq!(index(len).len() as u64, len);
    let handle = blocks.push(&index(len), PLAIN);
    blocks.finish(metaindex, handle)
}

/// A table whose index ends in the middle of a handle.
fn cut_handle() -> Vec<u8> {
    let mut blocks = Blocks::default();
    let metaindex = blocks.push(&contents(&[], 1, true), PLAIN);
    let index = blocks.push(&contents(&[(b"z".to_vec(), vec![0, 0x80])], 1, true), PLAIN);
    blocks.finish(metaindex, index)
}

/// A sound table with another footer.
fn with_footer(metaindex: Handle, index: Handle) -> Vec<u8> {
    let mut blocks = Blocks::default();
    blocks.push(&contents(&entries(), 16, true), PLAIN);
    blocks.finish(metaindex, index)
}

/// A table of one data block that is stored like this.
fn stored(stored: &[u8], kind: u8) -> Vec<u8> {
    let mut blocks = Blocks::default();
    let handle = blocks.push(stored, kind);
    blocks.finish_with(&[(b"z", handle)], &Style::default())
}

/// A data block of one entry with these lengths, after the header's.
fn block_of(shared: u64, unshared: u64, value: u64) -> Vec<u8> {
    let mut block = Vec::new();
    entry(&mut block, 0, b"", &Bundle::header(1, 0, 1, 0));
    for number in [shared, unshared, value] {
        varint(&mut block, number);
    }
    block.extend(b"key and value");
    block.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    block
}

fn flipped(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 0x40;
    bytes
}

#[test]
fn tables_that_lie_are_refused() {
    let good = table(&entries(), &Style::default());
    let block_len = contents(&entries(), 16, true).len();
    let far = Handle { offset: 1 << 40, len: 100 };
    let wrapping = Handle { offset: u64::MAX - 4, len: 100 };
    let endless = Handle { offset: 0, len: u64::MAX };
    let first = Handle { offset: 0, len: block_len as u64 };
    let claims = |len: u64| {
        let mut snappy = Vec::new();
        varint(&mut snappy, len);
        snappy.extend([0xfe, 0xff, 0xff]);
        snappy
    };
    let restarts = |count: u32| {
        let mut block = contents(&entries(), 16, true);
        let end = block.len() - 4;
        block[end..].copy_from_slice(&count.to_le_bytes());
        around(&block)
    };
    let unordered = |mut entries: Vec<(Vec<u8>, Vec<u8>)>| {
        entries.swap(1, 2);
        entries
    };
    let twice = |mut entries: Vec<(Vec<u8>, Vec<u8>)>| {
        entries.push(entries[2].clone());
        entries
    };
    let long_varint = {
        let mut block = block_of(0, 3, 3);
        block.splice(0..1, [0x80; 11]);
        block
    };
    let cases = [
        index("an empty file", Vec::new(), &[]),
        index("less than a footer", good[good.len() - 47..].to_vec(), &[]),
        index("no magic number", flipped(good.clone(), good.len() - 1), &["offset"]),
        index("only zeros", vec![0; 4096], &["offset"]),
        index(
            "a footer of varints without end",
            [&[0xff; 40], &good[good.len() - 8..]].concat(),
            &["offset"],
        ),
        index("the end is missing", good[..good.len() - 20].to_vec(), &[]),
        index("the start is missing", good[30..].to_vec(), &["block", "offset"]),
        index("a bit of a data block is flipped", flipped(good.clone(), 9), &["block", "offset 0"]),
        index("a bit of a type byte is flipped", flipped(good.clone(), block_len), &["block", "offset 0"]),
        index(
            "a bit of the index is flipped",
            flipped(good.clone(), good.len() - 48 - 8),
            &["block", "offset"],
        ),
        index("the index is beyond the end", with_footer(first, far), &["offset 1099511627776"]),
        index("the index's place wraps", with_footer(first, wrapping), &["offset"]),
        index("the index is longer than the file", with_footer(first, endless), &["offset"]),
        index(
            "a data block is beyond the end",
            Blocks::default().finish_with(&[(b"z", far)], &Style::default()),
            &["offset 1099511627776"],
        ),
        index(
            "a data block's place wraps",
            Blocks::default().finish_with(&[(b"z", wrapping)], &Style::default()),
            &["offset"],
        ),
        index(
            "a data block is longer than the file",
            Blocks::default().finish_with(&[(b"z", endless)], &Style::default()),
            &["offset"],
        ),
        index("a handle is cut short", cut_handle(), &["offset"]),
        index("the same block twice", looped(2), &["block", "found 0"]),
        index("the same block 100,000 times", looped(100_000), &["block", "found 0"]),
        index("an index that points at itself", self_pointing(), &[]),
        index("a block of another compression", stored(b"zstd?", 2), &["offset 0"]),
        index("snappy that is none", stored(b"\x20\xff\xff\xff\xff", SNAPPY), &["offset 0"]),
        index("snappy that claims 4 GiB", stored(&claims(u64::from(u32::MAX)), SNAPPY), &["offset 0"]),
        index("snappy that claims more than there can be", stored(&claims(1 << 60), SNAPPY), &["offset 0"]),
        index("snappy of nothing", stored(b"", SNAPPY), &["offset 0"]),
        index("a block of nothing", stored(b"", PLAIN), &["offset 0"]),
        index("a block of three bytes", stored(b"abc", PLAIN), &["offset 0"]),
        index("4 Gi restarts", restarts(u32::MAX), &["restarts"]),
        index("a quarter of 4 Gi restarts", restarts(1 << 30), &["restarts"]),
        index("a few restarts too many", restarts(u32::try_from(block_len / 4).unwrap()), &["restarts"]),
        index("more shared than the last key has", around(&block_of(1, 3, 3)), &["offset"]),
        index("a key without end", around(&block_of(0, u64::from(u32::MAX), 3)), &["offset"]),
        index("a value without end", around(&block_of(0, 3, u64::from(u32::MAX))), &["offset"]),
        index("lengths whose sum wraps", around(&block_of(0, u64::MAX, 4)), &["offset"]),
        index("a varint without end", around(&long_varint), &["offset"]),
        index("keys that fall", table(&unordered(entries()), &Style::default()), &["offset"]),
        index("a key twice", table(&twice(entries()), &Style::default()), &["offset"]),
        index("no header", table(&entries()[1..], &Style::default()), &["header"]),
    ];
    assert_eq!(cases.len(), 38);
    all_are_refused(&cases);
}

#[test]
fn headers_that_lie_are_refused() {
    let header = |name, says: &[&'static str], header: Vec<u8>| {
        altered(name, says, |bundle| bundle.header = Some(header))
    };
    let cases = [
        header("a header that is none", &["m.index", "header"], b"\xff\xff\xff".to_vec()),
        header("a reader of the future is needed", &["m.index", "version"], Bundle::header(1, 0, 9, 9)),
        header("an unknown byte order", &["m.index"], Bundle::header(1, 7, 1, 0)),
        header("fewer than no data files", &["m.index"], Bundle::header(-1, 0, 1, 0)),
    ];
    all_are_refused(&cases);
}

#[test]
fn entries_that_lie_are_refused() {
    let entry = |name, says: &[&'static str], alter: fn(&mut Entry)| {
        let says = [&["\"a\""], says].concat();
        altered(name, &says, |bundle| {
            let mut entry = bundle.numbers("a", dtype("F32"), &[2, 3], &[7; 24]);
            alter(&mut entry);
            bundle.set("a", &entry);
        })
    };
    let data = "m.data-00000-of-00001";
    let raw = |name, value: &'static [u8]| {
        altered(name, &["\"a\""], |bundle| drop(bundle.entries.insert(b"a".to_vec(), value.to_vec())))
    };
    let cases = [
        entry("a dtype of another width", &[], |entry| entry.dtype = 2),
        entry("a negative dimension", &["-3"], |entry| entry.shape = vec![2, -3]),
        entry("a product that wraps to the size", &[], |entry| entry.shape = vec![1 << 62, 4, 6]),
        entry("too many elements", &[], |entry| entry.shape = vec![3, 3]),
        entry("too few elements", &[], |entry| entry.shape = vec![3]),
        entry("a negative size", &[], |entry| entry.size = -24),
        entry("a size without end", &[], |entry| entry.size = i64::MAX),
        entry("a shape and a size without end", &[data], |entry| {
            entry.shape = vec![1 << 60];
            entry.size = 1 << 62;
        }),
        entry("an offset past the end", &[data, "offset 1048576"], |entry| entry.offset = 1 << 20),
        entry("an end past the end", &[data, "offset 60"], |entry| entry.offset = 60),
        entry("a negative offset", &[], |entry| entry.offset = -8),
        entry("an end that wraps", &[], |entry| entry.offset = i64::MAX - 3),
        entry("a negative data file", &[], |entry| entry.shard = -1),
        entry("a data file that is not there", &[], |entry| entry.shard = 1),
        entry("a data file without end", &[], |entry| entry.shard = i64::from(i32::MAX)),
        entry("another checksum", &[data, "offset"], |entry| entry.masked_crc ^= 1),
        entry("no checksum", &[data, "offset"], |entry| entry.masked_crc = 0),
        raw("a value that is no message", b"\xff\xff\xff"),
        raw("a value that ends in a field", b"\x08\x01\x12\x7f"),
        raw("a shape of unknown rank", b"\x08\x01\x12\x02\x18\x01\x28\x18"),
    ];
    all_are_refused(&cases);
}

#[test]
fn a_dtype_that_nobody_knows_is_a_loss_and_the_rest_is_read() {
    for (dtype, word) in [(99, "99"), (20, "DT_RESOURCE")] {
        let ferry = Ferry::new();
        let mut bundle = sound();
        bundle.set("t", &Entry { dtype, size: 8, ..Entry::default() });
        bundle.write(ferry.home(), "m", &Style::default());
        let document = ferry.inspect(&ferry.at("m"));
        assert_eq!(document["tensors"].as_array().unwrap().len(), 2);
        let losses = document["losses"].as_array().unwrap();
        assert!(losses.len() == 1 && losses[0]["kind"] == "tensor" && losses[0]["what"] == "t", "{document}");
        assert!(losses[0]["why"].as_str().unwrap().contains(word), "{document}");
    }
}

/// A tensor `t` of 6 x 4 bytes that consists of `slices`, of which `there` have entries.
fn slices(name: &'static str, slices: &[Slice], there: &[Slice]) -> Case {
    altered(name, &["\"t\""], |bundle| {
        let u8 = dtype("U8");
        for slice in there {
            let sizes = slice.iter().zip([6, 4]).map(|(part, size)| part.map_or(size, |(_, len)| len));
            let shape: Vec<i64> = sizes.map(|size| size.max(0)).collect();
            let bytes = vec![1; usize::try_from(shape.iter().product::<i64>()).unwrap()];
            let entry = bundle.numbers("slice", u8, &shape, &bytes);
            bundle.entries.remove(&b"slice"[..]);
            bundle.set(slice_key(b"t", slice), &entry);
        }
        bundle.set_sliced("t", u8.number, &[6, 4], slices);
    })
}

#[test]
fn slices_that_lie_are_refused() {
    let rows = |start, len| vec![Some((start, len)), None];
    let all = |name, parts: &[Slice]| slices(name, parts, parts);
    let halves = [rows(0, 3), rows(3, 3)];
    let another = |name, alter: fn(&mut Entry)| {
        let mut case = slices(name, &halves, &halves);
        let mut bundle = sound();
        for slice in &halves {
            let mut entry = bundle.numbers("slice", dtype("U8"), &[3, 4], &[1; 12]);
            bundle.entries.remove(&b"slice"[..]);
            if slice == &halves[1] {
                alter(&mut entry);
            }
            bundle.set(slice_key(b"t", slice), &entry);
        }
        bundle.set_sliced("t", dtype("U8").number, &[6, 4], &halves);
        case.index = bundle.index(&Style::default());
        case.data = bundle.data("m");
        case
    };
    let cases = [
        all("slices that overlap", &[rows(0, 4), rows(3, 3)]),
        all(
            "slices that overlap in a corner",
            &[rows(0, 3), vec![Some((3, 3)), Some((0, 2))], vec![Some((2, 4)), Some((2, 2))]],
        ),
        all("slices that leave a row out", &[rows(0, 2), rows(3, 3)]),
        all("slices that leave a corner out", &[rows(0, 5), vec![Some((5, 1)), Some((0, 3))]]),
        all("as many elements, some twice and some not at all", &[rows(0, 3), rows(2, 3)]),
        all("a slice past the end", &[rows(0, 3), rows(3, 4)]),
        all("a slice that wraps", &[rows(0, 3), rows(i64::MAX, 3)]),
        all("a slice that starts before the tensor", &[rows(0, 3), rows(-3, 3)]),
        all("a slice of a negative length", &[rows(0, 6), rows(0, -7)]),
        all("the same slice twice", &[rows(0, 6), rows(0, 6)]),
        slices("a slice that has no entry", &halves, &halves[..1]),
        slices("no slice has an entry", &halves, &[]),
        slices("a slice of another rank", &[vec![Some((0, 6))]], &[]),
        another("a slice of another dtype", |entry| entry.dtype = dtype("I8").number),
        another("a slice of another shape", |entry| entry.shape = vec![4, 3]),
        another("a slice of another size", |entry| entry.size = 11),
        another("a slice past the end of the file", |entry| entry.offset = 1 << 30),
        another("a slice of another checksum", |entry| entry.masked_crc ^= 1),
        another("a slice that is sliced", |entry| entry.slices = vec![vec![None, None]]),
    ];
    all_are_refused(&cases);
}

#[test]
fn strings_that_lie_are_refused() {
    let strings = |name, says: &[&'static str], count: i64, bytes: Vec<u8>| {
        let says = [&["\"t\""], says].concat();
        altered(name, &says, |bundle| {
            let offset = i64::try_from(bundle.shards[0].len()).unwrap();
            let size = i64::try_from(bytes.len()).unwrap();
            let shape = vec![count];
            bundle.shards[0].extend(bytes);
            bundle.set("t", &Entry { dtype: STRING, shape, offset, size, ..Entry::default() });
        })
    };
    let lens = |lens: &[u64], rest: &[u8]| {
        let mut bytes = Vec::new();
        lens.iter().for_each(|&len| varint(&mut bytes, len));
        [bytes, rest.to_vec()].concat()
    };
    let data = "m.data-00000-of-00001";
    let flipped = |name, at: usize| altered(name, &["\"s\"", data], |bundle| bundle.shards[0][24 + at] ^= 1);
    let cases = [
        strings("more lengths than bytes", &[data], 1 << 40, lens(&[1, 1], b"1234ab")),
        strings("a length without end", &[data], 2, lens(&[u64::MAX, 1], b"1234ab")),
        strings("lengths whose sum wraps", &[data], 2, lens(&[u64::MAX - 10, 20], b"1234ab")),
        strings("a varint without end", &[data], 2, vec![0xff; 16]),
        strings("nothing after the lengths", &[data], 2, lens(&[0, 0], b"")),
        strings("bytes that nobody claims", &[data], 1, lens(&[1], b"1234abcd")),
        // Of "s": two lengths, the checksum of the lengths, the bytes.
        flipped("a bit of a length is flipped", 0),
        flipped("a bit of the lengths' checksum is flipped", 3),
        flipped("a bit of a string is flipped", 7),
    ];
    all_are_refused(&cases);
}
