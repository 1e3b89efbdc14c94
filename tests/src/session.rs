//! A session: shell commands and their output, in the form that pages show:
//!
//! ```text
//! $ ferry cat people.jsonl --rows :1
//! {"name":"Ada","age":36}
//!
//! $ ferry cat people.json
//! error: people.json: no such file or folder; did you mean "./people.jsonl"?
//! [exit code 2]
//! ```
//!
//! All commands run in one shell, in order, so that `cd` affects the commands after it. The output
//! is compared exactly, except for durations and the folder's path.

use crate::Outcome;
use std::fmt::Write as _;

/// The home folder that pages show in place of the test's folder.
pub const HOME: &str = "/home/ada";

/// Marks the end of a command's output in the output of the shell. The exit code follows it.
const END: char = '\u{1e}';

/// A command and its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The typed text. Lines after the first follow the shell's `>` prompt.
    pub typed: String,
    /// The output, including messages. If the exit code is not 0, the output ends with `[exit code
    /// N]`.
    pub printed: String,
}

/// Parses the commands of a session and their outputs.
pub fn parse(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), line.strip_prefix("> "), entries.last_mut()) {
            (Some(typed), ..) => entries.push(Entry { typed: typed.to_owned(), printed: String::new() }),
            (_, Some(typed), Some(entry)) if entry.printed.is_empty() => {
                write!(entry.typed, "\n{typed}").unwrap();
            }
            (.., Some(entry)) => writeln!(entry.printed, "{line}").unwrap(),
            (.., None) => panic!("{line:?} is before the first command"),
        }
    }
    entries.iter_mut().for_each(|entry| entry.printed.truncate(entry.printed.trim_end().len()));
    entries
}

/// Renders a session in the form that a page shows, with an empty line after each output.
pub fn render(entries: &[Entry]) -> String {
    let mut text = String::new();
    for Entry { typed, printed } in entries {
        writeln!(text, "$ {}", typed.replace('\n', "\n> ")).unwrap();
        if !printed.is_empty() {
            write!(text, "{printed}\n\n").unwrap();
        }
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// Returns a script that runs these commands. It marks the end of each output, so that [`printed`]
/// can separate the outputs.
pub fn script<'a>(commands: impl IntoIterator<Item = &'a str>) -> String {
    let mut script = "exec 2>&1\n".to_owned();
    for typed in commands {
        writeln!(script, "{typed}\nprintf '\\036%s\\n' $?").unwrap();
    }
    script
}

/// Returns the output and the exit code of each command of a [`script`].
pub fn printed(outcome: &Outcome) -> Vec<(String, i32)> {
    let mut outputs = Vec::new();
    let mut rest = &*outcome.stdout;
    while let Some((printed, after)) = rest.split_once(END) {
        let (code, after) = after.split_once('\n').unwrap();
        outputs.push((printed.to_owned(), code.parse().unwrap()));
        rest = after;
    }
    assert!(rest.is_empty() && outcome.code == Some(0), "the shell ended early: {outcome}");
    outputs
}

/// Returns an entry with a new output. If only times differ, keeps the existing output.
#[must_use]
pub fn renewed(entry: &Entry, output: &str, code: i32) -> Entry {
    let mut printed = output.trim_end().to_owned();
    if code != 0 {
        write!(printed, "\n[exit code {code}]").unwrap();
    }
    let printed = printed.trim_start_matches('\n').to_owned();
    let same = without_times(&printed) == without_times(&entry.printed);
    Entry { typed: entry.typed.clone(), printed: if same { entry.printed.clone() } else { printed } }
}

/// Replaces durations (` in 0.01 s`, `"seconds": 0.01`), times (`at 2026-01-31T12:00:00Z`) and free
/// space (`1 kB needed, 5.00 GB free`) with three dots.
fn without_times(text: &str) -> String {
    let line = |line: &str| {
        let mut shown = String::new();
        // The unit may also change.
        let (line, free) = line.split_once("B free ").unwrap_or((line, ""));
        let line =
            if free.is_empty() { line } else { line.rsplit_once(' ').map_or(line, |(number, _)| number) };
        for word in line.split_inclusive(' ') {
            let is_time = [" in ", "\"seconds\": ", " at ", " since ", " needed, "]
                .iter()
                .any(|before| shown.ends_with(before))
                && word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
            if is_time {
                let end = word.trim_end_matches([' ', ',']).len();
                write!(shown, "...{}", &word[end..]).unwrap();
            } else {
                shown.push_str(word);
            }
        }
        shown + free + "\n"
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_and_written_as_it_stands() {
        let page = "$ mkdir a\n$ cd a\n$ printf 'x\n> y'\nx\n\ny\n\n$ false\n[exit code 1]\n";
        let entries = parse(page);
        assert_eq!(entries.len(), 4);
        assert_eq!(entries[2].typed, "printf 'x\ny'");
        assert_eq!(entries[2].printed, "x\n\ny");
        assert_eq!(render(&entries), page);
    }

    #[test]
    fn only_times_may_differ() {
        let entry = |printed: &str| Entry { typed: "x".to_owned(), printed: printed.to_owned() };
        let kept = entry("wrote a in b: 2 tensors in 0.01 s, verified");
        assert_eq!(renewed(&kept, "wrote a in b: 2 tensors in 12.5 s, verified\n", 0), kept);
        let now = "wrote a in b: 3 tensors in 0.01 s, verified";
        assert_eq!(renewed(&kept, now, 0).printed, now);
        for (kept, now) in [
            ("  \"seconds\": 0.25,", "  \"seconds\": 1e-2,"),
            ("done at 2026-01-31T12:00:00Z", "done at 2027-01-31T12:00:00Z"),
        ] {
            assert_eq!(renewed(&entry(kept), now, 0).printed, kept);
        }
        assert_eq!(renewed(&kept, &kept.printed, 3).printed, format!("{}\n[exit code 3]", kept.printed));
    }
}
