//! A picture of a terminal, which is an SVG of a [session](crate::session) for web pages.
//!
//! The picture follows the reader's light or dark color scheme. The picture looks the same in any
//! monospaced font, because each line has a fixed width.

use std::fmt::Write as _;

/// Width of a character in tenths of a pixel.
const COLUMN: usize = 78;
const LINE: usize = 19;
const MARGIN: usize = 18;
/// Height of the window's title bar, above the first line.
const BAR: usize = 34;

const STYLE: &str = "\
  .window { fill: #f6f8fa; stroke: #d0d7de } .bar { fill: #d0d7de }
  text { fill: #1f2328; font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; white-space: pre }
  .typed { font-weight: bold } .prompt { fill: #1a7f37 } .quiet { fill: #59636e }
  @media (prefers-color-scheme: dark) {
    .window { fill: #151b23; stroke: #3d444d } .bar { fill: #3d444d }
    text { fill: #e6edf3 } .prompt { fill: #3fb950 } .quiet { fill: #9198a1 }
  }
";

/// Returns a picture of the session as SVG.
pub fn svg(session: &str) -> String {
    let lines: Vec<&str> = session.trim_end().lines().collect();
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let commands: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("$ ")).collect();
    let (width, height) = (2 * MARGIN + (columns * COLUMN).div_ceil(10), BAR + lines.len() * LINE + MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">ferry in a terminal</title>\n\
         <desc id=\"desc\">These commands, and what they print: {}</desc>\n\
         <style>\n{STYLE}</style>\n\
         <rect class=\"window\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n",
        escaped(&commands.join("; ")),
        width - 1,
        height - 1,
    );
    for dot in 0..3 {
        writeln!(svg, "<circle class=\"bar\" cx=\"{}\" cy=\"18\" r=\"5\"/>", MARGIN + 5 + dot * 18).unwrap();
    }
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let y = BAR + (index + 1) * LINE - 5;
        match line.strip_prefix("$ ") {
            Some(typed) => {
                svg += &text("prompt", 0, y, "$");
                svg += &text("typed", 2, y, typed);
            }
            None => {
                let indent = line.len() - line.trim_start().len();
                svg += &text(if indent > 0 { "quiet" } else { "said" }, indent, y, line.trim_start());
            }
        }
    }
    svg + "</svg>\n"
}

fn text(class: &str, column: usize, y: usize, text: &str) -> String {
    let tenths = |number: usize| format!("{}.{}", number / 10, number % 10);
    let (x, length) = (tenths(MARGIN * 10 + column * COLUMN), tenths(text.chars().count() * COLUMN));
    format!(
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\" \
         xml:space=\"preserve\">{}</text>\n",
        escaped(text)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
