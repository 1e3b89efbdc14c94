//! The name of a shard: `BASE-00003-of-00010`, perhaps with an ending.

/// A shard's name, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardName<'a> {
    /// What all shards of the set start with.
    pub(crate) base: &'a str,
    /// Its number, from 0.
    pub(crate) number: u64,
    /// How many there are.
    pub(crate) count: u64,
    /// How many digits the numbers have.
    digits: (usize, usize),
    /// What all of them end with: `.gz`, `.tfrecord`, mostly nothing.
    ending: &'a str,
}

impl<'a> ShardName<'a> {
    /// Takes a name apart, if it is a shard's.
    pub(crate) fn parse(name: &'a str) -> Option<Self> {
        let (rest, after) = name.rsplit_once("-of-")?;
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (count, ending) = after.split_at(digits);
        let (base, number) = rest.rsplit_once('-')?;
        let is_number = |text: &str| text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(count) || !is_number(number) || !(ending.is_empty() || ending.starts_with('.')) {
            return None;
        }
        let digits = (number.len(), count.len());
        let (number, count) = (number.parse().ok()?, count.parse().ok()?);
        (number < count).then_some(Self { base, number, count, digits, ending })
    }

    /// Whether both are shards of one set.
    pub(crate) fn is_of(self, other: ShardName<'_>) -> bool {
        (self.base, self.count, self.digits, self.ending)
            == (other.base, other.count, other.digits, other.ending)
    }

    /// The set's name, with `?` for the digits of the number.
    pub(crate) fn pattern(&self) -> String {
        let Self { base, count, digits: (number, width), ending, .. } = self;
        format!("{base}-{}-of-{count:0width$}{ending}", "?".repeat(*number))
    }
}
