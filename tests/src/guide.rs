//! The guide in `host/docs`, which is a book. The tests run all of its commands.
//!
//! A chapter is Markdown. [`Chapter::parse`] accepts only these forms of fenced blocks:
//!
//! | After the fence | Content | Test |
//! |---|---|---|
//! | `console` | a [session]: commands and their output | the output is compared |
//! | `console picture=FILE.svg` | the same, also shown as a [picture] | the picture is compared too |
//! | `sh` | commands whose output does not matter | each must end with exit code 0 |
//! | `LANGUAGE file=NAME` | a file, written to the current folder of the shell | the commands that read it |
//! | `text` | anything but commands | no line may look like a command |
//!
//! All commands of a chapter run in one shell, which starts in a copy of the repository's root.

use crate::workspace::{root, workspace};
use crate::{Outcome, picture, session};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Commands that are not run again, because the build for the tests has already run them. Each is
/// listed with its chapter.
const BUILT: [(&str, &str); 3] = [
    ("first-conversion.md", "cargo build --release"),
    ("python.md", "pip install ./host/python"),
    ("ray.md", "pip install './host/python[ray]'"),
];

/// The chapters that need the Python package. Separate tests run these chapters and the chapters
/// that build plugins.
pub const WITH_PYTHON: [&str; 2] = ["python.md", "ray.md"];
/// The chapters that build plugins, which separate tests run.
pub const WITH_COMPILERS: [&str; 1] = ["plugins.md"];

/// Returns the folder of the chapters.
pub fn folder() -> PathBuf {
    root().join("host/docs/src")
}

/// Returns the names of all chapters in `SUMMARY.md`.
pub fn chapters() -> Vec<String> {
    let summary = std::fs::read_to_string(folder().join("SUMMARY.md")).unwrap();
    let links = summary.lines().filter_map(|line| line.split_once("](")?.1.strip_suffix(')'));
    links.map(str::to_owned).collect()
}

#[derive(Debug, Clone)]
pub enum Piece {
    /// Lines outside fenced blocks.
    Prose(String),
    /// A fenced block.
    Fence {
        /// The text after the opening backticks: `console`, `toml file=zoo.toml`.
        info: String,
        /// The lines in the block.
        body: String,
    },
}

/// A page of the book.
#[derive(Debug, Clone)]
pub struct Chapter {
    /// The file, relative to the book's `src`.
    pub name: String,
    /// The parts of the chapter, in order.
    pub pieces: Vec<Piece>,
}

impl Chapter {
    /// Reads the chapter in this file.
    pub fn read(name: &str) -> Self {
        let path = folder().join(name);
        let text = std::fs::read_to_string(&path);
        Self::parse(name, &text.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    /// Parses a page. Panics if a fenced block has a form that no test would check.
    pub fn parse(name: &str, text: &str) -> Self {
        let mut pieces = vec![Piece::Prose(String::new())];
        let mut is_open = false;
        for line in text.lines() {
            let fence = line.trim_start().strip_prefix("```");
            assert!(!line.starts_with(' ') || fence.is_none(), "{name}: a fence is indented: {line}");
            match (fence, pieces.last_mut()) {
                (Some(""), _) if is_open => {
                    is_open = false;
                    pieces.push(Piece::Prose(String::new()));
                }
                (Some(info), _) => {
                    assert!(!is_open, "{name}: a fence inside a fence: {line}");
                    is_open = true;
                    pieces.push(Piece::Fence { info: info.to_owned(), body: String::new() });
                }
                (None, Some(Piece::Prose(text) | Piece::Fence { body: text, .. })) => {
                    *text += line;
                    text.push('\n');
                }
                (None, None) => unreachable!("there is always a piece"),
            }
        }
        assert!(!is_open, "{name}: the last fence is not closed");
        let chapter = Self { name: name.to_owned(), pieces };
        chapter.fences().for_each(|(info, body)| chapter.form(info, body));
        chapter
    }

    /// Panics if a block does not have one of the forms that are tested.
    fn form(&self, info: &str, body: &str) {
        let Self { name, .. } = self;
        let is_command = |line: &&str| {
            let line = line.trim_start();
            ["$ ", "ferry ", "cargo "].iter().any(|start| line.starts_with(start))
        };
        match info.split(' ').collect::<Vec<_>>()[..] {
            ["console"] => assert!(!session::parse(body).is_empty(), "{name}: an empty session"),
            ["console", picture] => assert!(picture.starts_with("picture="), "{name}: ```{info}"),
            ["sh"] => assert!(!body.trim().is_empty(), "{name}: a block without commands"),
            ["text"] => {
                let command = body.lines().find(is_command);
                assert!(command.is_none(), "{name}: {command:?} is in a block that is not run");
            }
            [_, file] if file.starts_with("file=") => {}
            _ => panic!("{name}: a block in a form that is not tested: ```{info}"),
        }
    }

    fn fences(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Fence { info, body } => Some((&**info, &**body)),
            Piece::Prose(_) => None,
        })
    }

    /// Returns the content of a file that the chapter shows. Panics if the chapter does not show
    /// this file.
    pub fn file(&self, name: &str) -> &str {
        let is_it = |info: &str| info.split_once(" file=").is_some_and(|(_, file)| file == name);
        let file = self.fences().find(|(info, _)| is_it(info));
        file.unwrap_or_else(|| panic!("{} has no file {name}", self.name)).1
    }

    /// Returns the lines outside fenced blocks.
    pub fn prose(&self) -> impl Iterator<Item = &str> {
        let prose = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Prose(text) => Some(text.lines()),
            Piece::Fence { .. } => None,
        });
        prose.flatten()
    }

    /// Returns all commands of the chapter, in order.
    pub fn commands(&self) -> Vec<String> {
        let of = |(info, body): (&str, &str)| match info.split(' ').next() {
            Some("console") => session::parse(body).into_iter().map(|entry| entry.typed).collect(),
            Some("sh") => body.lines().map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        self.fences().flat_map(of).collect()
    }

    /// Runs the commands with `shell`, which runs a script in `clone`, and compares their output
    /// with the chapter. If `FERRY_TEST_WRITE_GUIDE` is set, the output is written to the chapter
    /// instead.
    pub fn check(&self, clone: &Path, shell: impl FnOnce(&str) -> Outcome) {
        let outcome = shell(&session::script(self.script().iter().map(String::as_str)));
        let mut outputs = session::printed(&outcome).into_iter();
        let home = clone.parent().expect("the clone is in a home folder").display().to_string();
        let mut now = self.clone();
        for piece in &mut now.pieces {
            let Piece::Fence { info, body } = piece else { continue };
            match info.split(' ').collect::<Vec<_>>()[..] {
                ["console", ..] => {
                    let mut entries = session::parse(body);
                    for entry in &mut entries {
                        let (output, code) = outputs.next().expect("each command was run");
                        let output = output
                            .replace(&home, session::HOME)
                            .replace(&root().display().to_string(), "/home/ada/tensorferry");
                        *entry = session::renewed(entry, &output, code);
                    }
                    *body = session::render(&entries);
                }
                ["text"] => {}
                _ => {
                    let (output, code) = outputs.next().expect("each block was run");
                    assert_eq!(code, 0, "{}: {body}{output}", self.name);
                }
            }
        }
        keep(&folder().join(&self.name), &now.text());
        for (info, body) in now.fences() {
            if let Some((_, picture)) = info.split_once("picture=") {
                keep(&folder().join(picture), &picture::svg(body));
            }
        }
    }

    /// Returns the parts of the script for the shell. Each command of a session is a part. Every
    /// other block that runs commands or writes a file is also a part.
    fn script(&self) -> Vec<String> {
        let mut script = Vec::new();
        for (info, body) in self.fences() {
            match info.split(' ').collect::<Vec<_>>()[..] {
                ["console", ..] => script.extend(session::parse(body).into_iter().map(|entry| entry.typed)),
                ["text"] => {}
                ["sh"] => {
                    let lines = body.lines().filter(|line| !BUILT.contains(&(&*self.name, line)));
                    script.push(format!("{{ set -e\n{}\nset +e; }}", lines.collect::<Vec<_>>().join("\n")));
                }
                _ => {
                    let file = info.split_once("file=").expect("all other forms have a file").1;
                    script.push(format!(
                        "mkdir -p \"$(dirname '{file}')\"\ncat > '{file}' <<'END OF FILE'\n{body}END OF FILE"
                    ));
                }
            }
        }
        script
    }

    fn text(&self) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Prose(text) => text.clone(),
            Piece::Fence { info, body } => format!("```{info}\n{body}```\n"),
        });
        pieces.collect()
    }
}

/// Creates a folder of links to the repository's contents, which represents a clone that a user has
/// built.
pub fn clone(home: &Path) -> PathBuf {
    let clone = home.join("tensorferry");
    std::fs::create_dir_all(clone.join("target")).unwrap();
    // Only these entries are linked, because a user may have left files in the root, such as the
    // output of the README's first command.
    for name in ["Cargo.lock", "Cargo.toml", "README.md", "host", "plugins", "proto", "sdk", "tests"] {
        symlink(root().join(name), clone.join(name)).unwrap();
    }
    let programs = workspace().program.parent().expect("a program is in a folder");
    symlink(programs, clone.join("target/release")).unwrap();
    clone
}

/// Compares a file with its expected content, or writes the file.
fn keep(path: &Path, text: &str) {
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    if kept == text {
        return;
    }
    if std::env::var_os("FERRY_TEST_WRITE_GUIDE").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let different = text.lines().zip(kept.lines()).find(|(now, kept)| now != kept);
    let (now, kept) = different.unwrap_or((&text[text.len().min(kept.len())..], ""));
    panic!("{}: FERRY_TEST_WRITE_GUIDE=1 updates it\n now: {now}\nkept: {kept}", path.display());
}
