//! Tests that a copy without changes takes no space on a file system that shares blocks between
//! files.

use std::process::Command;
use tensorferry_tests::Ferry;
use tensorferry_tests::disk::is_left_out;
use tensorferry_tests::ferry::run;
use tensorferry_tests::model::Model;

/// A script that creates an XFS file system in a sparse file and mounts it in a separate mount
/// namespace. It prints the space that the conversion takes.
const SCRIPT: &str = r#"
set -e
truncate -s 1G "$1/disk.img"
mkfs.xfs -q -m reflink=1 "$1/disk.img"
mount -o loop "$1/disk.img" "$1/disk"
cp "$1/model.safetensors" "$1/disk/"
sync "$1/disk"
used() { df --output=used -B1 "$1/disk" | tail -n 1; }
before=$(used "$1")
"$2" --plugin-dir "$3" convert "$1/disk/model.safetensors" "$1/disk/copy.safetensors" >&2
sync "$1/disk"
after=$(used "$1")
cmp "$1/disk/model.safetensors" "$1/disk/copy.safetensors"
echo $((after - before))
"#;

#[test]
#[ignore = "needs root and mkfs.xfs: mounts a file system"]
fn blocks_are_shared() {
    if is_left_out() {
        return;
    }
    let ferry = Ferry::new();
    std::fs::create_dir(ferry.at("disk")).unwrap();
    let [made, model] = ferry.paths(["made.safetensors", "model.safetensors"]);
    Model::of_size(64 << 20, 20, 5).write(&made).unwrap();
    // Write the tensors in ferry's order, so that the copy has the same bytes.
    let _ = ferry.convert(&made, &model, &[]);
    let program = ferry.command(["formats"]).get_program().to_owned();
    let mut script = Command::new("unshare");
    script.args(["--mount", "sh", "-c", SCRIPT, "sh"]).arg(ferry.home()).arg(program);
    let outcome = run(script.arg(ferry.plugin_folder())).expect(0);
    let taken: i64 = outcome.stdout.trim().parse().unwrap();
    assert!(taken < 4 << 20, "{taken} bytes for a copy of 64 MiB");
}
