//! Tests that the guide's commands work as described, that every page is in the book, and that
//! every link has a target.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::files_below;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::guide::{Chapter, WITH_COMPILERS, WITH_PYTHON, chapters, clone, folder};
use tensorferry_tests::{Ferry, workspace};

#[test]
fn every_command_prints_what_stands_below_it() {
    let chapters = chapters().into_iter().filter(|name| {
        let name = name.as_str();
        !WITH_PYTHON.contains(&name) && !WITH_COMPILERS.contains(&name)
    });
    let chapters: Vec<Chapter> = chapters.map(|name| Chapter::read(&name)).collect();
    let commands: usize = chapters.iter().map(|chapter| chapter.commands().len()).sum();
    let with_commands = Mutex::new(chapters.iter().filter(|chapter| !chapter.commands().is_empty()));
    // Run the chapters in parallel, because the commands mostly wait for the disk.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = with_commands.lock().unwrap().next();
                    let Some(chapter) = next else { break };
                    let ferry = Ferry::new();
                    let clone = clone(ferry.home());
                    chapter.check(&clone, |script| run(ferry.shell(script).current_dir(&clone)));
                }
            });
        }
    });
    assert!(commands > 60, "only {commands} commands");
}

#[test]
fn the_readmes_first_command_converts() {
    let readme = std::fs::read_to_string(workspace::root().join("README.md")).unwrap();
    let mut commands = readme.lines().filter_map(|line| line.strip_prefix("cargo run --release -- "));
    let ferry = Ferry::new();
    let clone = clone(ferry.home());
    let command = commands.next().expect("the README has a first command");
    run(ferry.shell(&format!("ferry {command}")).current_dir(&clone)).expect(0);
    assert!(ferry.equal(&clone.join("model.safetensors"), &case("torch", "zip_module_state_dict").input()));
    assert_eq!(commands.next(), None);
}

#[test]
fn every_page_is_in_the_book() {
    let listed: BTreeSet<String> = chapters().into_iter().collect();
    let pages = files_below(&folder()).into_iter().map(|file| file.display().to_string());
    let pages: BTreeSet<String> =
        pages.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
    assert_eq!(pages, listed);
    assert!(pages.len() > 15, "{pages:?}");
    let others = WITH_PYTHON.iter().chain(&WITH_COMPILERS);
    others.for_each(|name| assert!(listed.contains(*name), "{name} is not a chapter"));
}

#[test]
fn every_format_has_a_place_in_it() {
    let commands: BTreeSet<String> =
        chapters().iter().flat_map(|name| Chapter::read(name).commands()).collect();
    let formats = Ferry::new().run(["formats", "--json"]).expect(0).json();
    let ids: Vec<&str> =
        formats["formats"].as_array().unwrap().iter().map(|format| format["id"].as_str().unwrap()).collect();
    assert!(ids.len() > 20, "{ids:?}");
    for id in ids {
        assert!(commands.contains(&format!("ferry formats {id}")), "no page shows `ferry formats {id}`");
    }
}

/// The documents in the root, and the maximum size of each in bytes, which keeps them short.
const ROOT_DOCUMENTS: [(&str, usize); 5] = [
    ("README.md", 5 << 10),
    ("ARCHITECTURE.md", 10 << 10),
    ("SECURITY.md", 4 << 10),
    ("CHANGELOG.md", 3 << 10),
    ("CONTRIBUTING.md", 16 << 10),
];

#[test]
fn the_root_documents_are_short() {
    for (name, max) in ROOT_DOCUMENTS {
        let bytes = std::fs::read(workspace::root().join(name)).unwrap().len();
        assert!(bytes <= max, "{name} has {bytes} bytes, more than {max}: move details next to the code");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let (mut links, mut dead) = (0, Vec::new());
    let pages = chapters().into_iter().map(|name| (folder().join(&name), name));
    let documents = ROOT_DOCUMENTS.map(|(name, _)| (workspace::root().join(name), name.to_owned()));
    for (path, name) in pages.chain(documents) {
        for target in links_of(&with_includes(&path)) {
            links += 1;
            if !leads_somewhere(&path, &target) {
                dead.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
    assert!(links >= 35, "only {links} links");
}

/// Returns a page with its includes expanded, as in mdBook. Panics if an included file is missing.
fn with_includes(page: &Path) -> String {
    let text = std::fs::read_to_string(page).unwrap();
    let line = |line: &str| match line.strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}")) {
        Some(file) => {
            let (file, anchor) = file.split_once(':').unwrap_or((file, ""));
            let path = page.parent().unwrap().join(file);
            let text = std::fs::read_to_string(&path);
            let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if anchor.is_empty() {
                return text;
            }
            let begin = format!("<!-- ANCHOR: {anchor} -->\n");
            let (_, from) = text.split_once(&begin).unwrap_or_else(|| panic!("{file} has no {anchor}"));
            let end = format!("<!-- ANCHOR_END: {anchor} -->\n");
            from.split_once(&end).unwrap_or_else(|| panic!("{anchor} does not end in {file}")).0.to_owned()
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Returns the targets of `[text](target)` and `src="target"`, outside fenced blocks and code.
fn links_of(text: &str) -> Vec<String> {
    let mut is_fenced = false;
    let mut links = Vec::new();
    for line in text.lines() {
        is_fenced ^= line.starts_with("```");
        if is_fenced {
            continue;
        }
        // Text between backquotes is code.
        let prose: String =
            line.split('`').enumerate().filter(|(at, _)| at % 2 == 0).map(|(_, text)| text).collect();
        links.extend(
            prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to.to_owned()),
        );
        links.extend(
            prose
                .split("src=\"")
                .skip(1)
                .filter_map(|rest| rest.split_once('"'))
                .map(|(to, _)| to.to_owned()),
        );
    }
    links
}

/// Tests that the cookbook contains every job in its list, and that the README links to the
/// cookbook.
#[test]
fn each_job_is_one_click_from_the_readme() {
    let readme = std::fs::read_to_string(workspace::root().join("README.md")).unwrap();
    let cookbook = folder().join("cookbook.md");
    let targets = links_of(&readme);
    assert!(targets.iter().any(|target| workspace::root().join(target) == cookbook), "{targets:?}");
    let text = std::fs::read_to_string(&cookbook).unwrap();
    let jobs = text.split("\n### ").skip(1).map(|job| job.split_once(". ").unwrap());
    let numbers: Vec<&str> = jobs.clone().map(|(number, _)| number).collect();
    assert_eq!(numbers, (1..=42).map(|number| number.to_string()).collect::<Vec<_>>());
    for (number, job) in jobs {
        assert!(job.contains("```") || job.contains("]("), "job {number} has neither a command nor a link");
    }
}

fn leads_somewhere(page: &Path, target: &str) -> bool {
    if target.starts_with("https://") {
        return true;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    let is_heading = |line: &str| line.starts_with('#') && slug(line.trim_start_matches('#')) == heading;
    path.exists() && (heading.is_empty() || with_includes(&path).lines().any(is_heading))
}

/// Returns mdBook's anchor for a heading.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
