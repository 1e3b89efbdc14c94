//! The grids of the IQ types. A grid is a table whose entries are groups of 4 or 8 values.

use std::sync::LazyLock;

const GRIDS: &str = include_str!("grids.txt");

/// A grid whose entries have `N` values each.
pub(super) type Grid<const N: usize> = LazyLock<Vec<[i8; N]>>;

pub(super) static IQ2_XXS: Grid<8> = LazyLock::new(|| entries("IQ2_XXS", 256));
pub(super) static IQ2_XS: Grid<8> = LazyLock::new(|| entries("IQ2_XS", 512));
pub(super) static IQ2_S: Grid<8> = LazyLock::new(|| entries("IQ2_S", 1024));
pub(super) static IQ3_XXS: Grid<4> = LazyLock::new(|| entries("IQ3_XXS", 256));
pub(super) static IQ3_S: Grid<4> = LazyLock::new(|| entries("IQ3_S", 512));
pub(super) static IQ1: Grid<8> = LazyLock::new(|| entries("IQ1_S", 2048));

/// Parses one section of the embedded file. The section must have `count` entries.
fn entries<const N: usize>(name: &str, count: usize) -> Vec<[i8; N]> {
    let section = GRIDS.split("\n[").find_map(|section| section.strip_prefix(name)?.strip_prefix(']'));
    let mut lines = section.unwrap_or_default().lines();
    let facts = lines.next().unwrap_or_default().split_once("values=").map_or("", |(_, facts)| facts);
    let values: Vec<i8> = facts.split([',', ' ']).map_while(|value| value.parse().ok()).collect();
    let entry = |line: &str| {
        let mut entry = [0; N];
        for (number, digit) in entry.iter_mut().zip(line.bytes()) {
            *number = values.get(usize::from(digit.wrapping_sub(b'0'))).copied().unwrap_or_default();
        }
        entry
    };
    let mut entries: Vec<[i8; N]> = lines.map(entry).collect();
    entries.resize(count, [0; N]);
    entries
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use sha2::{Digest, Sha256};
    use std::fmt::Write;

    #[test]
    fn each_grid_has_its_digest() {
        fn check<const N: usize>(name: &str, grid: &Grid<N>) {
            let bytes: Vec<u8> = grid.iter().flatten().map(|number| number.cast_unsigned()).collect();
            let mut digest = String::new();
            Sha256::digest(bytes).iter().for_each(|byte| write!(digest, "{byte:02x}").unwrap());
            let section = format!("[{name}] entries={} elements={N} ", grid.len());
            let line = GRIDS.lines().find(|line| line.starts_with(&section)).unwrap();
            assert!(line.ends_with(&format!("sha256={digest}")), "{name}: {digest}");
        }
        check("IQ2_XXS", &IQ2_XXS);
        check("IQ2_XS", &IQ2_XS);
        check("IQ2_S", &IQ2_S);
        check("IQ3_XXS", &IQ3_XXS);
        check("IQ3_S", &IQ3_S);
        check("IQ1_S", &IQ1);
    }
}
