//! Folders that are one model or one table are never silently read as something else, for any
//! change to their files.

use crate::{drive_any, targets};

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_changed_sets() {
    drive_any("sets", &targets::sets::seeds());
}
