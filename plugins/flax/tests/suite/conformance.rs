//! Runs the SDK's conformance suite on this format.

use std::fs;
use tensorferry_flax::Flax;
use tensorferry_sdk::conformance::{Sample, check};
use tensorferry_sdk::{Dtype, Storage};
use tensorferry_test_kit::fixtures::cases;
use tensorferry_test_kit::tensors::write_file;

#[test]
fn flax_conforms() {
    let fixture = |case: &str, file: &str| fs::read(cases("flax", case)[0].join(file)).unwrap();
    let own = write_file(
        &Flax,
        |catalog| {
            let storage = catalog.storage(Storage::inline([5; 24]))?;
            catalog.tensor("a.x", Dtype::F32, &[2, 3], storage, 0)?;
            catalog.tensor("a.y", Dtype::U8, &[], storage, 3).map(drop)
        },
        &[("chunk_size", "10")],
        "own.msgpack",
    );
    let samples = [
        Sample::file("own.msgpack", own.unwrap().files.remove("own.msgpack").unwrap())
            .holding(&["a.x", "a.y"]),
        Sample::file("x.msgpack", fixture("bare_array", "x.msgpack")).holding(&[""]),
        Sample::file("state.msgpack", fixture("scalars_and_containers", "state.msgpack"))
            .holding(&["list.0"]),
        Sample::file("checkpoint_1", fixture("train_state", "checkpoint_1")).holding(&["params.dense.bias"]),
    ];
    let report = check(&Flax, &samples);
    assert!(report.damaged > 1000 && report.written > 50, "{report:?}");
    assert_eq!(report.refused, Vec::<String>::new());
}
