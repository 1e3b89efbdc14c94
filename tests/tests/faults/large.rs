//! Tests of files of several gigabytes.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use tensorferry_tests::Ferry;
use tensorferry_tests::bundle::{Bundle, Entry, dtype};
use tensorferry_tests::table::{Style, mask};

#[test]
#[ignore = "hashes ten gibibytes"]
fn a_tensor_of_five_gibibytes_is_read() {
    const LEN: u64 = 5 << 30;
    /// The SHA-256 digest of 5 GiB of zeros with the three marks below.
    const SHA256: &str = "b14ba3be23ad8c81e34997d067fcf426831346f6a45d2803f635ab457cf7996c";
    let ferry = Ferry::new();
    let mut bundle = Bundle::default();
    let marks: [(u64, &[u8]); 3] = [(0, b"first"), ((4 << 30) + 5, b"beyond"), (LEN - 4, b"last")];

    let zeros = vec![0; 1 << 20];
    let mut crc = 0;
    let mut at = 0;
    for (offset, mark) in marks.into_iter().chain([(LEN, &b""[..])]) {
        while at < offset {
            let len = (offset - at).min(zeros.len() as u64);
            crc = crc32c::crc32c_append(crc, &zeros[..usize::try_from(len).unwrap()]);
            at += len;
        }
        crc = crc32c::crc32c_append(crc, mark);
        at += mark.len() as u64;
    }
    let size = i64::try_from(LEN).unwrap();
    let shape = vec![5, 1 << 30];
    let large = Entry { dtype: dtype("U8").number, shape, size, masked_crc: mask(crc), ..Entry::default() };
    bundle.set("large", &large);
    // Add a tensor after the large one. Its offset does not fit in 32 bits.
    let tail = b"0123456789ab";
    let entry = bundle.numbers("tail", dtype("I32"), &[3], tail);
    bundle.set("tail", &Entry { offset: size, ..entry });
    bundle.write(ferry.home(), "m", &Style::default());
    let data = OpenOptions::new().write(true).open(ferry.at("m.data-00000-of-00001")).unwrap();
    data.set_len(0).unwrap();
    data.set_len(LEN).unwrap();
    for (offset, mark) in marks {
        data.write_all_at(mark, offset).unwrap();
    }
    data.write_all_at(tail, LEN).unwrap();

    bundle.expected.insert("large".into(), ("U8".into(), vec![5, 1 << 30], SHA256.into()));
    assert_eq!(ferry.tensors(&ferry.at("m")), bundle.expected);
    // Change one byte in the 5 GiB of zeros.
    data.write_all_at(b"?", (3 << 30) + 1).unwrap();
    let says = ["m.data-00000-of-00001", "large"];
    ferry.on("inspect", ferry.at("m"), &["--digest", "sha256"]).expect(3).says(&says);
}
