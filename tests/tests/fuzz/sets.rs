//! Folders that are one model or one table are never read as something else in silence, whatever becomes of their files.

use crate::{drive_any, targets};

#[test]
#[ignore = "fuzzes for two seconds a target"]
fn survives_changed_sets() {
    drive_any("sets", &targets::sets::seeds());
}
