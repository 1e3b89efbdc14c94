//! Parses and creates the names of shards. A shard is one of the files of a set, such as
//! `model-00002-of-00005.safetensors`.

/// Usual minimum number of digits in a shard name.
const DIGITS: usize = 5;

/// A parsed shard name.
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
    /// Prefix that all names in the set share.
    pub stem: &'a str,
    /// Number of the shard. Some formats count from 0, others from 1.
    pub number: u64,
    /// Number of shards in the set.
    pub count: u64,
    /// Suffix that all names in the set share, which may be empty.
    pub ending: &'a str,
    /// Number of digits in the shard number and in the shard count.
    digits: (usize, usize),
}

impl<'a> ShardName<'a> {
    /// Parses a file name. Returns `None` if it is not the name of a shard.
    #[must_use]
    pub fn parse(name: &'a str) -> Option<Self> {
        Self::parse_short(name, DIGITS)
    }

    /// Parses a file name like [`parse`](Self::parse), but accepts numbers with at least `min`
    /// digits.
    #[must_use]
    pub fn parse_short(name: &'a str, min: usize) -> Option<Self> {
        let (before, after) = name.rsplit_once("-of-")?;
        let (stem, number) = before.rsplit_once('-')?;
        let (count, ending) = after.split_at(after.bytes().take_while(u8::is_ascii_digit).count());
        let value = |text: &str| {
            let is_number = text.len() >= min && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_number)
        };
        let digits = (number.len(), count.len());
        Some(Self { stem, number: value(number)?, count: value(count)?, ending, digits })
    }

    /// Returns whether the two names are shards of the same set.
    #[must_use]
    pub fn is_of_set(&self, other: &ShardName<'_>) -> bool {
        (self.stem, self.count, self.digits.1, self.ending)
            == (other.stem, other.count, other.digits.1, other.ending)
    }

    /// Returns the name with each digit of the shard number replaced by a `?`.
    #[must_use]
    pub fn pattern(&self) -> String {
        let Self { stem, count, digits: (number, width), ending, .. } = self;
        format!("{stem}-{}-of-{count:0width$}{ending}", "?".repeat(*number))
    }

    /// Returns the name of shard `number` out of `count`.
    #[must_use]
    pub fn format(stem: &str, number: u64, count: u64, ending: &str) -> String {
        format!("{stem}-{number:0DIGITS$}-of-{count:0DIGITS$}{ending}")
    }

    /// Returns the names of all shards in a set, numbered from 0.
    #[must_use]
    pub fn set(stem: &str, count: u32, ending: &str) -> Vec<String> {
        (0..count).map(|number| Self::format(stem, number.into(), count.into(), ending)).collect()
    }

    /// Returns a glob that matches the shards of all sets with this stem and ending. Returns `None`
    /// if the stem contains special characters of globs.
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
