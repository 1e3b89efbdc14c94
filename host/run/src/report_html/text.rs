//! Text in a page: escaped, so that no name can be markup, and printable, so that none can hide.

use crate::human::count;
use std::fmt;

/// Text that stands between tags or in a quoted attribute.
pub(super) fn text(text: &str) -> Text<'_> {
    Text(text)
}

#[derive(Clone, Copy)]
pub(super) struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                letter if letter.is_control() || steers(letter) => {
                    write!(f, "{}", letter.escape_unicode())?;
                }
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

/// Whether a character changes how its neighbours are shown: the direction of writing, or that nothing
/// is shown at all. <https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters>
fn steers(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{ffff}')
}

/// `1 job`, `2 jobs`.
pub(super) fn plural(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_markup_and_nothing_hides() {
        assert_eq!(
            text("<script>alert(\"a\" & 'b')</script>").to_string(),
            "&lt;script&gt;alert(&quot;a&quot; &amp; &#39;b&#39;)&lt;/script&gt;"
        );
        assert_eq!(text("a\u{202e}b\nc\0d").to_string(), "a\\u{202e}b\\u{a}c\\u{0}d");
        assert_eq!(text("Größe 漢字").to_string(), "Größe 漢字");
    }
}
