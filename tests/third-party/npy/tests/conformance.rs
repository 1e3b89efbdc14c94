//! The SDK's conformance suite over both formats.

use ferry_npy::{Npy, Npz};
use tensorferry_sdk::conformance::{Preset, Sample, check};
use tensorferry_sdk::memory::{MemoryView, write};
use tensorferry_sdk::{Format, MemoryContext, MemorySource, Side, Target};

/// Three bytes, as numpy writes them.
fn array() -> Vec<u8> {
    let dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{dict:117}\n").into_bytes());
    bytes.extend([1, 2, 3]);
    bytes
}

/// The array in an archive.
fn archive() -> Vec<u8> {
    let (source, context) = (MemorySource::file("a.npy", array()), MemoryContext::default());
    let made = MemoryView::read(&Npy, &[], &source, &context)
        .and_then(|view| write(&Npz, &[], &view, &Target::File("a.npz".to_owned()), &context));
    made.unwrap_or_else(|error| panic!("{error}")).files.remove("a.npz").unwrap_or_default()
}

fn conforms(format: &dyn Format, sample: Sample) {
    let report = check(format, &[sample.holding(&["a"])]);
    assert!(report.damaged > 0 && report.written > 0, "{report:?}");
}

#[test]
fn npy_conforms() {
    conforms(&Npy, Sample::file("a.npy", array()));
}

#[test]
fn npz_conforms() {
    conforms(&Npz, Sample::file("a.npz", archive()));
}

#[test]
fn deflated_npz_conforms() {
    conforms(&Preset::new(Npz).with(Side::Writer, "compress", "deflate"), Sample::file("a.npz", archive()));
}
