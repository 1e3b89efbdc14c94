//! Formats sizes in human-readable form.

/// Formats bytes in decimal units: `1.50 GB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut scaled = count as f64;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{scaled:.2} {}", UNITS[unit]) }
}
