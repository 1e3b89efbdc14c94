//! Counts the markers of `language.toml` in documents, comments and messages.

use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use tensorferry_tests::files::files_below;
use tensorferry_tests::workspace::root;

#[derive(Deserialize)]
struct Language {
    budget: BTreeMap<String, usize>,
    marker: Vec<Marker>,
}

#[derive(Deserialize)]
struct Marker {
    name: String,
    pattern: String,
    /// A match of `pattern` does not count if this pattern matches the same text.
    unless: Option<String>,
    /// A match of `pattern` does not count if this pattern matches the text after it.
    unless_followed_by: Option<String>,
}

/// Folders without prose from this project.
const SKIPPED: [&str; 9] =
    ["target", "fixtures", "golden", "seeds", "third_party", "node_modules", "__pycache__", "dist", ".git"];
const FOLDERS: [&str; 5] = ["host", "plugins", "proto", "sdk", "tests"];

static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`[^`\n]*`").unwrap());
static FENCE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?s)```.*?```|<!--.*?-->").unwrap());
static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap());
static STRING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\.)*)""#).unwrap());

/// Returns the prose of a file as groups of lines.
fn prose(path: &Path, text: &str) -> Vec<(String, Vec<String>)> {
    let folder = path.iter().next().and_then(|part| part.to_str()).unwrap_or_default();
    let is_test = folder == "tests" || path.iter().any(|part| part == "tests") || path.ends_with("tests.rs");
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => {
            let group = match path.components().count() {
                1 => "root documents",
                _ if path.starts_with("host/docs") => "guide",
                _ => "other documents",
            };
            let text = FENCE
                .replace_all(text, |fence: &regex::Captures<'_>| "\n".repeat(fence[0].matches('\n').count()));
            vec![(group.to_owned(), text.lines().map(plain).collect())]
        }
        Some("rs") => {
            let (mut comments, mut messages) = (Vec::new(), Vec::new());
            for line in text.lines().take_while(|line| line.trim() != "#[cfg(test)]") {
                match line.trim_start().strip_prefix("//") {
                    Some(comment) => comments.push(plain(comment.trim_start_matches(['/', '!']))),
                    None if !is_test => {
                        let strings = STRING.captures_iter(line).map(|found| found[1].to_owned());
                        messages.extend(strings.filter(|text| text.split_whitespace().count() >= 4));
                    }
                    None => {}
                }
            }
            let group = format!("comments: {}", if is_test { "tests" } else { folder });
            vec![(group, comments), ("messages".to_owned(), messages)]
        }
        Some("py" | "pyi") => vec![("python".to_owned(), python(text))],
        _ => Vec::new(),
    }
}

/// Returns the comments and docstrings of a Python source.
fn python(text: &str) -> Vec<String> {
    let mut is_docstring = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let quotes = line.matches("\"\"\"").count();
        if let Some(comment) = line.trim_start().strip_prefix('#') {
            lines.push(plain(comment));
        } else if is_docstring || quotes > 0 {
            lines.push(plain(line));
        }
        is_docstring ^= quotes % 2 == 1;
    }
    lines
}

/// Returns a line without code and link targets.
fn plain(line: &str) -> String {
    LINK.replace_all(&CODE.replace_all(line, "CODE"), "$1").trim_start().to_owned()
}

fn has(pattern: Option<&Regex>, text: &str) -> bool {
    pattern.is_some_and(|pattern| pattern.is_match(text))
}

#[test]
fn the_words_are_those_of_the_field() {
    let language: Language = toml::from_str(include_str!("language.toml")).unwrap();
    let regex = |pattern: &String| Regex::new(pattern).unwrap();
    let markers: Vec<_> = language
        .marker
        .iter()
        .map(|marker| {
            let [unless, after] = [&marker.unless, &marker.unless_followed_by].map(|p| p.as_ref().map(regex));
            (&marker.name, regex(&marker.pattern), unless, after)
        })
        .collect();
    let below = FOLDERS.iter().flat_map(|folder| {
        files_below(&root().join(folder)).into_iter().map(move |file| Path::new(folder).join(file))
    });
    let documents = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().into());
    let documents =
        documents.filter(|path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "md"));
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut files = 0;
    for path in below.chain(documents) {
        if path.iter().any(|part| SKIPPED.iter().any(|skipped| part == *skipped)) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for (group, lines) in prose(&path, &text) {
            files += 1;
            for line in lines {
                for (name, pattern, unless, after) in &markers {
                    let places = pattern.find_iter(&line).filter(|place| {
                        !has(unless.as_ref(), place.as_str()) && !has(after.as_ref(), &line[place.end()..])
                    });
                    let texts = places.map(|_| format!("{}: {name}: {line}", path.display()));
                    found.entry(group.clone()).or_default().extend(texts);
                }
            }
        }
    }
    assert!(files > 1_500, "{files}");
    let mut problems = String::new();
    for (group, lines) in found {
        let (count, budget) = (lines.len(), language.budget[&group]);
        if count > budget {
            problems += &format!("{group}: {count} markers, at most {budget}:\n{}\n", lines.join("\n"));
        } else if count < budget {
            problems += &format!("{group}: only {count} markers: lower its budget in language.toml\n");
        }
    }
    assert!(problems.is_empty(), "{problems}");
}
