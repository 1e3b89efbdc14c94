//! Functions for parts of the page: escaped text, headings and table headers.

use crate::human::count;
use std::fmt::{self, Write};

/// Escapes text for use between tags or in a quoted attribute. A name can then neither become
/// markup nor be invisible.
pub(super) fn escape(text: &str) -> Escaped<'_> {
    Escaped(text)
}

#[derive(Clone, Copy)]
pub(super) struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// Returns whether a character is invisible, or changes the direction of the characters around it.
/// <https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters>
fn steers(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{ffff}')
}

/// Starts a section with its heading.
pub(super) fn open_section(page: &mut String, id: &str, heading: &str) {
    let _ = writeln!(page, "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{heading}</h2>");
}

/// Starts a section's table in a scrollable region. `table` is the text that follows `<table` in
/// the opening tag.
pub(super) fn open_table(page: &mut String, section: &str, table: &str, columns: &[(&str, Column)]) {
    let _ = write!(
        page,
        "<div class=\"scroll\" role=\"region\" aria-labelledby=\"{section}\" tabindex=\"0\">\n<table{table}\n<thead><tr>"
    );
    for (name, column) in columns {
        let class = if matches!(column, Column::Number) { " class=\"n\"" } else { "" };
        let _ = write!(page, "<th scope=\"col\"{class}>{name}</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
}

#[derive(Clone, Copy)]
pub(super) enum Column {
    Text,
    Number,
}

pub(super) fn close_table(page: &mut String) {
    page.push_str("</tbody>\n</table>\n</div>\n");
}

/// Formats a number and a noun: `1 job`, `2 jobs`.
pub(super) fn plural(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_markup_and_nothing_hides() {
        assert_eq!(
            escape("<script>alert(\"a\" & 'b')</script>").to_string(),
            "&lt;script&gt;alert(&quot;a&quot; &amp; &#39;b&#39;)&lt;/script&gt;"
        );
        assert_eq!(escape("a\u{202e}b\nc\0d").to_string(), "a\\u{202e}b\\u{a}c\\u{0}d");
        assert_eq!(escape("Größe 漢字").to_string(), "Größe 漢字");
    }
}
