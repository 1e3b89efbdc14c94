//! Tests every structure that can grow, with each size that an older or newer side may declare. The
//! host and the plugins copy each other's structures in the same way, so each test covers both
//! sides.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::failure::class;
use crate::header::{OBJECTS, REQUESTS};
use std::collections::BTreeMap;

const WORD: usize = size_of::<u64>();
/// A word that the copying side never writes by itself. If the word appears in a copy, it was
/// copied from the other side.
const SET: u64 = 0x5555_5555_5555_5555;

/// Returns the size in bytes of each structure in the golden libraries. The sizes are computed from
/// the first part of the frozen dump.
fn frozen_sizes() -> BTreeMap<String, usize> {
    let (dump, _) = include_str!("../revision-1.0.txt").split_once('#').unwrap();
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for fact in dump.lines().filter_map(|line| line.strip_prefix("offset ")) {
        let (place, offset) = fact.split_once(' ').unwrap();
        let (name, field) = place.split_once('.').unwrap();
        let end = offset.parse::<usize>().unwrap() + size_of_field(dump, name, field);
        let last = ends.entry(name.to_owned()).or_default();
        *last = end.max(*last);
    }
    ends.into_iter().map(|(name, end)| (name, end.next_multiple_of(WORD))).collect()
}

fn size_of_field(dump: &str, name: &str, field: &str) -> usize {
    if name.ends_with("Table") {
        return WORD;
    }
    let start = format!("type {name}: ");
    let is_it = |fact: &&str| {
        fact.strip_suffix(';').and_then(|fact| fact.rsplit_once(' ')).is_some_and(|(_, it)| it == field)
    };
    let fact = dump.lines().filter_map(|line| line.strip_prefix(&start)).find(is_it);
    match fact.and_then(|fact| fact.split_once(' ')).map(|(kind, _)| kind).unwrap() {
        "uint8_t" => 1,
        "uint32_t" => 4,
        "uint64_t" | "int64_t" => 8,
        "FerryText" | "FerryBytes" | "FerryNumbers" | "FerryIds" | "FerryTexts" => 16,
        other => panic!("{name}.{field}: unknown length of {other}"),
    }
}

#[test]
fn every_structure_is_taken_at_every_size() {
    let frozen = frozen_sizes();
    let objects = OBJECTS.iter().map(|facts| (format!("{}Table", facts.name), facts));
    let requests = REQUESTS.iter().map(|facts| (facts.name.to_owned(), facts));
    let mut seen = 0;
    for (name, facts) in objects.chain(requests) {
        // A table without functions of its own contains only the slots that all tables begin with.
        let least = *frozen.get(&name).unwrap_or(&(3 * WORD));
        let own = facts.size / WORD;
        assert!(least <= facts.size && facts.size % WORD == 0, "{name}");
        // Test sizes up to this side's own size and beyond, as if a later revision had additional
        // slots.
        let tail = 5;
        for size in 0..=facts.size + tail * WORD {
            let mut words = vec![SET; own + tail];
            words[0] = size as u64;
            let taken = (facts.adopted)(&words);
            if size < least {
                let failure = taken.unwrap_err();
                assert_eq!(failure.class(), class::PLUGIN, "{name} of {size} bytes");
                let expected = [("expected", format!("at least {least} bytes")), ("found", size.to_string())];
                let expected = expected.map(|(detail, value)| (detail.to_owned(), value));
                assert_eq!(failure.details, expected, "{name} of {size} bytes");
                continue;
            }
            // A side copies only whole words.
            let there = (size / WORD).min(own);
            let expected: Vec<u64> = (0..own)
                .map(|word| if word == 0 { size as u64 } else { SET * u64::from(word < there) })
                .collect();
            assert_eq!(taken.unwrap(), expected, "{name} of {size} bytes");
            seen += 1;
        }
    }
    assert!(seen > 40 * OBJECTS.len(), "only {seen} sizes were checked");
    assert!(frozen.len() + 1 >= OBJECTS.len() + REQUESTS.len(), "{} structures are frozen", frozen.len());
}
