//! A tag in the names of a set's data files distinguishes them from the files of every other set in
//! the same folder. If readers find the files through an index, replacing only the index then
//! replaces the whole set.

use crate::{OptionSpec, Options, Result, Side, TypedOption};

const DECLARED: TypedOption<Option<String>> = TypedOption::text(
    Side::Writer,
    ShardTag::OPTION,
    "tag in data file names: r and 8 hex digits; set automatically if needed",
);
/// Number of hexadecimal digits in a tag.
const DIGITS: usize = 8;

/// An optional tag in the names of a set's data files, in addition to the shard numbers. Writers
/// declare the option if their index may contain arbitrary file names. A host sets the tag when it
/// replaces a set in a place where files cannot be renamed, such as an object store. The old set
/// and the new set then coexist until the index is replaced.
///
/// ```
/// use tensorferry_sdk::{Options, Side, ShardTag};
///
/// # fn main() -> tensorferry_sdk::Result<()> {
/// let given = [(ShardTag::OPTION.to_owned(), ShardTag::text(0xabc))];
/// let tag = ShardTag::of(&Options::check(&[ShardTag::spec()], Side::Writer, &given)?)?;
/// assert_eq!(format!("model{}-00001-of-00002", tag.with_separator("-")), "model-r00000abc-00001-of-00002");
/// assert_eq!(ShardTag::stem_without("model-r00000abc"), "model");
/// assert_eq!(ShardTag::default().with_separator("-"), "");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardTag(Option<u32>);

impl ShardTag {
    /// The key of the tag option.
    pub const OPTION: &str = "shard_tag";

    /// Returns the declaration of the tag option.
    #[must_use]
    pub fn spec() -> OptionSpec {
        DECLARED.spec()
    }

    /// Returns the tag in the options of a writer.
    ///
    /// # Errors
    /// Returns a usage error if the value is not a valid tag, because other values could be
    /// mistaken for parts of other names.
    pub fn of(options: &Options) -> Result<Self> {
        let Some(text) = DECLARED.get(options)? else { return Ok(Self(None)) };
        let refused = || DECLARED.refuse(format!("r and {DIGITS} hexadecimal digits"), &text);
        number(&text).map(|number| Self(Some(number))).ok_or_else(refused)
    }

    /// Returns the option value for the tag with this number.
    #[must_use]
    pub fn text(number: u32) -> String {
        format!("r{number:0DIGITS$x}")
    }

    /// Returns the separator followed by the tag, or an empty string if there is no tag.
    #[must_use]
    pub fn with_separator(self, separator: &str) -> String {
        self.0.map_or_else(String::new, |number| format!("{separator}{}", Self::text(number)))
    }

    /// Returns a glob that matches every tag.
    #[must_use]
    pub fn glob() -> String {
        format!("r{}", "[0-9a-f]".repeat(DIGITS))
    }

    /// Returns the stem of a shard name without a dash and a tag at its end.
    #[must_use]
    pub fn stem_without(stem: &str) -> &str {
        let parts = stem.rsplit_once('-').filter(|(_, tag)| number(tag).is_some());
        parts.map_or(stem, |(before, _)| before)
    }
}

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
