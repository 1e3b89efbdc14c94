//! The name of a shard, one of the files that a set is split into: `model-00002-of-00005.safetensors`.

/// How many digits a number in a name has at least, as everybody writes it.
const DIGITS: usize = 5;

/// A shard's name, taken apart.
///
/// ```
/// use tensorferry_sdk::ShardName;
///
/// let shard = ShardName::parse("data-00002-of-00005.gz").unwrap();
/// assert_eq!((shard.stem, shard.number, shard.count, shard.ending), ("data", 2, 5, ".gz"));
/// assert_eq!(shard.pattern(), "data-?????-of-00005.gz");
/// assert_eq!(ShardName::format("data", 2, 5, ".gz"), "data-00002-of-00005.gz");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardName<'a> {
    /// What all names of the set begin with.
    pub stem: &'a str,
    /// The shard's number: formats count from 0 or from 1.
    pub number: u64,
    /// How many shards there are.
    pub count: u64,
    /// What all names of the set end with, or nothing.
    pub ending: &'a str,
    /// How many digits the number and the count have.
    digits: (usize, usize),
}

impl<'a> ShardName<'a> {
    /// Takes a name apart; `None`, if it is not a shard's.
    #[must_use]
    pub fn parse(name: &'a str) -> Option<Self> {
        Self::parse_short(name, DIGITS)
    }

    /// As [`parse`](Self::parse), where numbers may be as short as `least` digits.
    #[must_use]
    pub fn parse_short(name: &'a str, least: usize) -> Option<Self> {
        let (before, after) = name.rsplit_once("-of-")?;
        let (stem, number) = before.rsplit_once('-')?;
        let (count, ending) = after.split_at(after.bytes().take_while(u8::is_ascii_digit).count());
        let value = |text: &str| {
            let is_number = text.len() >= least && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_number)
        };
        let digits = (number.len(), count.len());
        Some(Self { stem, number: value(number)?, count: value(count)?, ending, digits })
    }

    /// Whether both are shards of one set.
    #[must_use]
    pub fn is_of_set(&self, other: &ShardName<'_>) -> bool {
        (self.stem, self.count, self.digits.1, self.ending)
            == (other.stem, other.count, other.digits.1, other.ending)
    }

    /// The set's name, with `?` for the digits of the number.
    #[must_use]
    pub fn pattern(&self) -> String {
        let Self { stem, count, digits: (number, width), ending, .. } = self;
        format!("{stem}-{}-of-{count:0width$}{ending}", "?".repeat(*number))
    }

    /// The name of one shard of `count`.
    #[must_use]
    pub fn format(stem: &str, number: u64, count: u64, ending: &str) -> String {
        format!("{stem}-{number:0DIGITS$}-of-{count:0DIGITS$}{ending}")
    }

    /// The names of all shards of a set, numbered from 0.
    #[must_use]
    pub fn set(stem: &str, count: u32, ending: &str) -> Vec<String> {
        (0..count).map(|number| Self::format(stem, number.into(), count.into(), ending)).collect()
    }

    /// A glob for the shards of all sets of a stem and an ending, whatever their count; `None`, where it
    /// would take the stem for more than a name.
    #[must_use]
    pub fn glob(stem: &str, ending: &str) -> Option<String> {
        let digits = "[0-9]".repeat(DIGITS);
        let is_plain = !stem.contains(['*', '?', '[', ']', '{', '}', '\\']);
        is_plain.then(|| format!("{stem}-{digits}-of-{digits}{ending}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart() {
        let name = ShardName { stem: "a-b", number: 2, count: 12, ending: ".x.gz", digits: (5, 5) };
        assert_eq!(ShardName::parse("a-b-00002-of-00012.x.gz"), Some(name));
        assert_eq!(ShardName::format("a-b", 2, 12, ".x.gz"), "a-b-00002-of-00012.x.gz");
        for other in ["a-2-of-3", "a.x", "00001-of-00002", "a-+0001-of-00002", "a-00001-of-x00002"] {
            assert_eq!(ShardName::parse(other), None, "{other}");
        }
        assert_eq!(ShardName::parse("a-0002-of-0012"), None);
        assert!(ShardName::parse_short("a-0002-of-0012", 4).is_some());
    }

    #[test]
    fn a_set_is_known_by_all_but_the_number() {
        let is_of_set = |other: &str| {
            let shards = ShardName::parse("d-00000-of-00002.x").zip(ShardName::parse(other));
            shards.is_some_and(|(shard, other)| shard.is_of_set(&other))
        };
        assert!(is_of_set("d-00001-of-00002.x"));
        for other in ["e-00001-of-00002.x", "d-00001-of-00003.x", "d-00001-of-000002.x", "d-00001-of-00002"] {
            assert!(!is_of_set(other), "{other}");
        }
        assert_eq!(ShardName::glob("a*", ""), None);
    }
}
