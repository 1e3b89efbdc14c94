//! Runs the SDK's conformance suite on this format.

use crate::aggregate;
use tensorferry_orbax::Orbax;
use tensorferry_sdk::Entry;
use tensorferry_sdk::conformance::{Sample, check};
use tensorferry_test_kit::fixtures::{cases, files_below};

#[test]
fn orbax_conforms() {
    // The samples contain only a few arrays, because the suite damages every file in many ways.
    let sample = |case: &str, entry: &str, kept: &[&str], name: &str| {
        let mut files = files_below(&cases("orbax", case)[0].join(entry));
        files.retain(|name, _| kept.is_empty() || kept.iter().any(|kept| name.starts_with(kept)));
        Sample::set(Entry::Folder, files).holding(&[name])
    };
    let samples = [
        sample("minimal_writer_zarr2", "ckpt", &[], "params.b"),
        sample("ocdbt_minimal_writer", "db", &[], "w"),
        sample("zarr2_compressors", "z", &["c_blosc/"], "c_blosc"),
        sample("pytree_zarr3", "ckpt", &["np_array/"], "np_array"),
        Sample::set(Entry::Folder, aggregate::files()).holding(&["params.b", "params.w"]),
        Sample::set(Entry::Folder, aggregate::typed_key().files).holding(&["rng"]),
    ];
    let report = check(&Orbax, &samples);
    assert!(report.damaged > 1000 && report.written > 20, "{report:?}");
    // Refusals to write to a file are ignored, because a checkpoint can only be written to a
    // folder.
    let others = report.refused.iter().filter(|refused| !refused.contains(", to File("));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new());
}
