//! Tests folders that are one model or one table. After any change to the files, a folder must not
//! silently be read as a different model or table.

use crate::{drive_any, targets};

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_changed_sets() {
    drive_any("sets", &targets::sets::seeds());
}
