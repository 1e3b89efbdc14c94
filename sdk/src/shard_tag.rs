//! A tag in the names of a set's data files tells them from those of every other set in the same folder: a set that is
//! found by its index is then replaced by replacing the index alone.

use crate::{OptionSpec, Options, Result, Side, TypedOption};

const DECLARED: TypedOption<Option<String>> = TypedOption::text(
    Side::Writer,
    ShardTag::OPTION,
    "what names of data files have in them beside their numbers: r and eight hexadecimal digits; over an older set in an \
     object store they get a new one, so that both sets are whole until the index is replaced",
);
/// How many digits a tag has.
const DIGITS: usize = 8;

/// What the names of a set's data files have in them beside their numbers, if anything. A writer whose index names its
/// files freely declares it, and a host that replaces such a set where nothing can be renamed sets it.
///
/// ```
/// use tensorferry_sdk::{Options, Side, ShardTag};
///
/// # fn main() -> tensorferry_sdk::Result<()> {
/// let given = [(ShardTag::OPTION.to_owned(), ShardTag::text(0xabc))];
/// let tag = ShardTag::of(&Options::check(&[ShardTag::spec()], Side::Writer, &given)?)?;
/// assert_eq!(format!("model{}-00001-of-00002", tag.behind("-")), "model-r00000abc-00001-of-00002");
/// assert_eq!(ShardTag::stem_without("model-r00000abc"), "model");
/// assert_eq!(ShardTag::default().behind("-"), "");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardTag(Option<u32>);

impl ShardTag {
    /// The option's name.
    pub const OPTION: &str = "shard_tag";

    /// What a writer declares.
    #[must_use]
    pub fn spec() -> OptionSpec {
        DECLARED.spec()
    }

    /// The tag that a writer was told.
    ///
    /// # Errors
    /// Usage, for a text that is no tag: names of other sets might look like it.
    pub fn of(options: &Options) -> Result<Self> {
        let Some(text) = DECLARED.get(options)? else { return Ok(Self(None)) };
        let refused = || DECLARED.refuse(format!("r and {DIGITS} hexadecimal digits"), &text);
        number(&text).map(|number| Self(Some(number))).ok_or_else(refused)
    }

    /// The tag of a number, as the option has it.
    #[must_use]
    pub fn text(number: u32) -> String {
        format!("r{number:0DIGITS$x}")
    }

    /// The tag behind a separator; without one, nothing.
    #[must_use]
    pub fn behind(self, separator: &str) -> String {
        self.0.map_or_else(String::new, |number| format!("{separator}{}", Self::text(number)))
    }

    /// A glob for all tags.
    #[must_use]
    pub fn glob() -> String {
        format!("r{}", "[0-9a-f]".repeat(DIGITS))
    }

    /// What stands before a tag and its dash at the end of a shard's stem; of one without, all of it.
    #[must_use]
    pub fn stem_without(stem: &str) -> &str {
        let parts = stem.rsplit_once('-').filter(|(_, tag)| number(tag).is_some());
        parts.map_or(stem, |(before, _)| before)
    }
}

/// The number of a tag.
fn number(tag: &str) -> Option<u32> {
    let digits = tag.strip_prefix('r').filter(|digits| digits.len() == DIGITS)?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.bytes().all(is_digit).then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_what_looks_like_no_other_name_is_a_tag() {
        let tag = |text: &str| {
            let given = [(ShardTag::OPTION.to_owned(), text.to_owned())];
            ShardTag::of(&Options::check(&[ShardTag::spec()], Side::Writer, &given).unwrap())
        };
        assert_eq!(tag("r0123abcd"), Ok(ShardTag(Some(0x0123_abcd))));
        assert_eq!(ShardTag::text(0x0123_abcd), "r0123abcd");
        for other in ["", "r", "0123abcd", "20240115", "r0123abc", "r0123abcde", "r0123ABCD", "r+123abcd"] {
            assert_eq!(tag(other).unwrap_err().kind(), crate::ErrorKind::Usage, "{other}");
            let stem = format!("model-{other}");
            assert_eq!(ShardTag::stem_without(&stem), stem);
        }
        assert_eq!(ShardTag::of(&Options::default()), Ok(ShardTag::default()));
    }
}
