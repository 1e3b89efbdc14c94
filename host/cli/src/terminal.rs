//! Prints output for the user. The result of a command is printed to stdout, and everything else to
//! stderr.

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tensorferry::{Session, places};
pub(super) use tensorferry_run::human::{bytes, counted, grouped, quoted};
use tensorferry_sdk::{Error, Result};

/// Sets whether the output is colored. The setting also applies to clap's output.
pub(super) fn choose_colors(choice: clap::ColorChoice) {
    match choice {
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
    }
    .write_global();
}

/// Returns the style of the leading word of a line. All styles are readable on dark and light
/// backgrounds.
fn style(word: &str) -> Style {
    match word {
        "error" | "failed" | "lost" => AnsiColor::Red.on_default().bold(),
        "changed" => AnsiColor::Yellow.on_default().bold(),
        "note" | "hint" => AnsiColor::Cyan.on_default().bold(),
        "equal" | "ok" | "within" | "conformant" => AnsiColor::Green.on_default().bold(),
        "different" | "over" | "missing" | "unreadable" | "not" => AnsiColor::Red.on_default().bold(),
        _ => Style::new().bold(),
    }
}

/// Prints a line to stderr, as in `error: ...` or `note: ...`.
pub(super) fn message(word: &str, text: &dyn Display) {
    let text = text.to_string();
    let lines: Vec<String> = text.lines().map(printable).collect();
    let style = style(word.trim_start());
    // A write error is ignored, because stderr may be closed.
    let _ = writeln!(anstream::stderr(), "{style}{word}:{style:#} {}", lines.join("\n"));
}

/// Prints the result of a command, which is text or JSON. Control characters other than line breaks
/// and tabs are escaped as in JSON. The escapes do not change any JSON value.
pub(super) fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(escaped(text).as_bytes()).and_then(|()| std::io::stdout().flush()) {
        // The reader of the pipe has exited, as in `ferry inspect ... | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::from),
    }
}

/// Prints text that begins with a verdict, such as `equal:`. If the terminal supports color, the
/// verdict is colored. The verdict ends at a colon, at two spaces, or at the end of the line.
pub(super) fn print_verdict(text: &str) -> Result<()> {
    let text = escaped(text);
    let end = [":", "  ", "\n"].into_iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    let (verdict, rest) = text.split_at(end);
    let style = style(verdict.split(' ').next().unwrap_or_default());
    let mut stdout = anstream::stdout();
    match write!(stdout, "{style}{verdict}{style:#}{rest}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::from),
    }
}

/// Prints the result of a command, either as a JSON document or as text that begins with a verdict.
pub(super) fn answer_verdict<D: Serialize>(
    as_json: bool,
    document: impl FnOnce() -> D,
    text: impl FnOnce() -> String,
) -> Result<()> {
    if as_json { print_json(&document()) } else { print_verdict(&text()) }
}

/// Prints the result of a command, either as a JSON document or as text.
pub(super) fn answer<D: Serialize>(
    as_json: bool,
    document: impl FnOnce() -> D,
    text: impl FnOnce() -> String,
) -> Result<()> {
    if as_json { print_json(&document()) } else { print(&text()) }
}

/// Prints the result of a command. If `is_taken` is true, standard output already contains data, so
/// text is printed to stderr.
pub(super) fn answer_outside_data<D: Serialize>(
    is_taken: bool,
    as_json: bool,
    document: impl FnOnce() -> D,
    text: impl FnOnce() -> String,
) -> Result<()> {
    if is_taken {
        let _ = std::io::stderr().write_all(text().as_bytes());
        return Ok(());
    }
    answer(as_json, document, text)
}

static HAS_ANSWERED: AtomicBool = AtomicBool::new(false);

/// Returns whether the program has printed a JSON document.
pub(super) fn has_answered() -> bool {
    HAS_ANSWERED.load(Ordering::Relaxed)
}

/// Prints the result of a command as a JSON document.
pub(super) fn print_json(document: &impl Serialize) -> Result<()> {
    HAS_ANSWERED.store(true, Ordering::Relaxed);
    let mut pieces = PiecedOutput(Vec::with_capacity(PIECE));
    let written = serde_json::to_writer_pretty(&mut pieces, document).map_err(std::io::Error::from);
    written.and_then(|()| pieces.write_all(b"\n")).and_then(|()| pieces.flush()).map_err(Error::from)
}

/// A writer that prints bytes in pieces of a limited size.
struct PiecedOutput(Vec<u8>);

const PIECE: usize = 64 << 10;

impl Write for PiecedOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.extend_from_slice(bytes);
        if self.0.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    /// The buffer never ends in the middle of a character, because serde_json splits strings only
    /// at ASCII characters.
    fn flush(&mut self) -> std::io::Result<()> {
        let piece = std::str::from_utf8(&self.0).map_err(std::io::Error::other)?;
        print(piece).map_err(|error| std::io::Error::other(error.to_string()))?;
        self.0.clear();
        Ok(())
    }
}

/// Prints the result of a command as a JSON document that is already serialized.
pub(super) fn print_document(text: &str) -> Result<()> {
    HAS_ANSWERED.store(true, Ordering::Relaxed);
    print(text)
}

/// Escapes characters that are not printable. Names come from files, so they must not be able to
/// control the terminal or to disguise text.
pub(super) fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if steers(c) { c.escape_default().collect() } else { vec![c] }).collect()
}

/// Escapes control characters as JSON does, except for line breaks and tabs.
fn escaped(text: &str) -> Cow<'_, str> {
    let is_raw = |(at, c): &(usize, char)| match c {
        '\n' | '\t' => false,
        // A carriage return inside a line would cause the terminal to overwrite the line.
        '\r' => !text[at + 1..].starts_with('\n'),
        c => steers(*c),
    };
    // Most text is plain ASCII. A scan of the bytes detects this quickly.
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'));
    if is_plain || !text.char_indices().any(|found| is_raw(&found)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for found in text.char_indices() {
        if is_raw(&found) {
            let units = found.1.encode_utf16(&mut [0; 2]).to_vec();
            units.iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        } else {
            escaped.push(found.1);
        }
    }
    Cow::Owned(escaped)
}

/// Prints complete lines of text to a terminal. Control characters are escaped as in [`print`].
#[derive(Default)]
pub(super) struct TerminalLines(Vec<u8>);

impl Write for TerminalLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.extend_from_slice(bytes);
        if let Some(end) = self.0.iter().rposition(|&byte| byte == b'\n') {
            let lines: Vec<u8> = self.0.drain(..=end).collect();
            std::io::stdout().write_all(escaped(&String::from_utf8_lossy(&lines)).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let rest = std::mem::take(&mut self.0);
        std::io::stdout().write_all(escaped(&String::from_utf8_lossy(&rest)).as_bytes())?;
        std::io::stdout().flush()
    }
}

/// Returns whether a character controls the terminal or changes how other characters look (Unicode
/// categories Cc, Cf, Zl and Zp). Such characters are control characters, direction marks,
/// invisible characters, line and paragraph separators, and tags.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Formats a path for display to the user.
pub(super) fn shown(path: &Path) -> String {
    printable(&places::shown(path))
}

/// Returns the width of the terminal, or 100 if stdout is not a terminal.
pub(super) fn columns() -> usize {
    columns_or(100)
}

/// Returns the width of the terminal, or `usual` if stdout is not a terminal.
pub(super) fn columns_or(usual: usize) -> usize {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    size.map_or(usual, |(width, _)| usize::from(width.0)).max(40)
}

/// Wraps text at word boundaries. Each line has at most `columns` characters.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the width of a column that contains these strings. The width is at most 60.
pub(super) fn width(texts: &[String]) -> usize {
    texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).min(60)
}

/// If stderr is a terminal, shows a progress bar with bytes, rate and remaining time while `work`
/// runs. `work` receives a function to which it passes the number of bytes to copy. The stages of
/// the work have separate bars: long plugin calls, reading rows, and hashing or comparing.
pub(super) fn with_progress<T>(session: &Session, quiet: bool, work: impl FnOnce(&dyn Fn(u64)) -> T) -> T {
    if quiet || !std::io::stderr().is_terminal() {
        return work(&|_| ());
    }
    // The units are the same as in the summary. The numbers next to the bar occupy at most 49
    // columns.
    let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| width.0);
    let width = width.saturating_sub(50).clamp(10, 40);
    let style = format!(
        "{{prefix}}{{bar:{width}}} {{decimal_bytes}}/{{decimal_total_bytes}}  {{decimal_bytes_per_sec}}  {{eta}} left"
    );
    let style = ProgressStyle::with_template(&style).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
    // The counters of the session include earlier conversions, but each bar must start at zero.
    let before = [session.checks(), session.reads()];
    let since = |(done, expected): (u64, u64), before: (u64, u64)| {
        (done.saturating_sub(before.0), expected.saturating_sub(before.1))
    };
    let (done, to_copy) = (AtomicBool::new(false), AtomicU64::new(0));
    // Number of bytes that were read as rows before copying started. These rows become tensors.
    let rows_before = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut shown = "";
            while !done.load(Ordering::Relaxed) {
                let (checked, to_check) = since(session.checks(), before[0]);
                let (read, to_read) = since(session.reads(), before[1]);
                // If the output contains rows, the bar shows the number of bytes of rows that have
                // been read.
                let is_rows = to_read > rows_before.load(Ordering::Relaxed);
                let moved = session.moved.load(Ordering::Relaxed);
                let to_move = if is_rows { 0 } else { to_copy.load(Ordering::Relaxed) };
                let (stage, (at, of)) = if read < to_read || (is_rows && to_check == 0) {
                    ("reading ", (read, to_read))
                } else if to_move == 0 && to_check == 0 {
                    ("reading ", session.call())
                } else if moved < to_move || to_check == 0 {
                    ("", (moved, to_move))
                } else {
                    ("checking ", (checked, to_check))
                };
                // If the total of a stage is unknown, no bar is shown.
                if of > 0 && stage != shown {
                    bar.reset();
                    bar.set_prefix(stage);
                    shown = stage;
                }
                if of > 0 {
                    // The length of encoded data is not known in advance, so the position may
                    // exceed the expected length.
                    bar.set_length(of.max(at));
                    bar.set_position(at);
                }
                std::thread::park_timeout(Duration::from_millis(100));
            }
            bar.finish_and_clear();
        });
        let result = work(&|total| {
            rows_before.store(since(session.reads(), before[1]).1, Ordering::Relaxed);
            to_copy.store(total, Ordering::Relaxed);
        });
        done.store(true, Ordering::Relaxed);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_steers_a_terminal_is_escaped_and_lines_stay() {
        assert_eq!(escaped("a,b\r\n1\t2\n"), "a,b\r\n1\t2\n");
        assert_eq!(escaped("\u{1b}[2Ja\rb\u{9b}1m\u{202e}"), "\\u001b[2Ja\\u000db\\u009b1m\\u202e");
        assert_eq!(escaped("\u{e0001}"), "\\udb40\\udc01");
    }
}
