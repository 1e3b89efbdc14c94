//! On a file system that shares blocks between files, a copy that changes nothing takes no room.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::Command;
use tempfile::tempdir;
use tensorferry_tests::Ferry;
use tensorferry_tests::model::Model;

/// Makes an XFS in a sparse file and mounts it in a mount namespace of its own; prints the blocks that
/// the conversion took.
const SCRIPT: &str = r#"
set -e
truncate -s 1G "$1/disk.img"
mkfs.xfs -q -m reflink=1 "$1/disk.img" && mount -o loop "$1/disk.img" "$1/disk" || exit 99
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
fn blocks_are_shared() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    std::fs::create_dir(folder.path().join("disk")).unwrap();
    let [made, model] = ["made", "model"].map(|name| folder.path().join(name).with_extension("safetensors"));
    Model::of_size(64 << 20, 20, 5).write(&made).unwrap();
    // As ferry orders it: then the copy is the same file.
    let _ = ferry.convert(&made, &model, &[]);
    let program = ferry.command(["formats"]).get_program().to_owned();
    let mut script = Command::new("unshare");
    script.args(["--mount", "sh", "-c", SCRIPT, "sh"]).arg(folder.path());
    let output = script.arg(program).arg(ferry.plugin_folder()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(99) || said.starts_with("unshare") {
        eprintln!("no XFS can be made and mounted here, so that sharing blocks is not tried: {said}");
        return;
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    let taken: i64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    assert!(taken < 4 << 20, "{taken} bytes for a copy of 64 MiB");
}
