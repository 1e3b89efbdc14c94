#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::report::Totals;
use tensorferry::inspect::AccountRecord;

const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(1)> \" onload=\"x' & \u{202e}gnp\n\0";

/// Creates the summary of a run of `count` jobs in all states. If `hostile` is true, every string
/// in the summary is hostile.
fn summary(count: usize, hostile: bool) -> Summary {
    let name = |text: &str| if hostile { format!("{text}{HOSTILE}") } else { text.to_owned() };
    let job = |index: usize| {
        let state = JobState::ALL[index % JobState::ALL.len()];
        let ran = matches!(state, JobState::Done | JobState::Failed);
        JobSummary {
            name: name(&format!("zoo/model-{index:05}")),
            input: name("/zoo/in"),
            output: name("/zoo/out"),
            from: Some(name("torch")),
            to: Some(name("safetensors")),
            state,
            reason: Some(name("its input changed")),
            failure: (state == JobState::Failed).then(|| JobFailure {
                exit_code: Some(3),
                kind: name("malformed"),
                message: name("the pickle ends early"),
                details: vec![(name("file"), name("a.pt")), (name("offset"), name("12"))],
                retry: Some(name("ferry run zoo.toml --only x").into()),
                ..JobFailure::default()
            }),
            attempts: 2,
            started: ran.then_some(index as f64 * 0.1),
            seconds: 0.35,
            bytes_in: 1 << 20,
            bytes_out: 1 << 19,
            tensors: Some(12),
            account: Some(AccountRecord {
                counts: [("not_examined".to_owned(), 1)].into(),
                samples: [("not_examined".to_owned(), vec![name("README")])].into(),
                ..AccountRecord::default()
            }),
            losses: vec![
                LossRecord {
                    kind: name("state").into(),
                    severity: name("lost").into(),
                    asked: false,
                    what: name("epoch").into(),
                    why: name("flat").into()
                };
                25
            ],
            notes: vec![name("a note")],
            verified: Some(12),
            receipt: Some(name("/zoo/out.ferry.json")),
            ..JobSummary::default()
        }
    };
    let jobs: Vec<JobSummary> = (0..count).map(job).collect();
    Summary {
        ferry: name("0.1.0"),
        manifest: name("/zoo/zoo.toml"),
        started: name("2026-11-21T17:20:00Z"),
        seconds: count as f64 * 0.1 + 0.25,
        totals: Totals::of(&jobs),
        budget: BudgetSummary { jobs: 4, small_jobs: 32, threads: 4, memory: 1 << 30 },
        jobs,
        ..Summary::default()
    }
}

/// The tags and the text of a page.
struct Page {
    tags: Vec<String>,
    text: String,
}

/// Parses a page. Checks that tags are closed in the right order and that every attribute is
/// quoted.
fn walk(page: &str) -> Page {
    const VOID: [&str; 2] = ["meta", "input"];
    const RAW: [&str; 2] = ["style", "script"];
    let mut walked = Page { tags: Vec::new(), text: String::new() };
    let mut open: Vec<String> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap();
    while let Some((text, tail)) = rest.split_once('<') {
        assert!(!text.contains('>'), "unescaped: {text}");
        walked.text += text;
        let (tag, tail) = tail.split_once('>').unwrap();
        rest = tail;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed out of order");
            continue;
        }
        let (name, attributes) = tag.split_once([' ', '/']).unwrap_or((tag, ""));
        assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric()), "{tag}");
        assert!(attributes.matches('"').count().is_multiple_of(2), "{tag}");
        walked.tags.push(tag.to_owned());
        if RAW.contains(&name) {
            rest = rest.split_once(&format!("</{name}>")).unwrap().1;
        } else if !VOID.contains(&name) && !tag.ends_with('/') {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    walked
}

#[test]
fn a_page_is_well_formed_and_has_every_job() {
    for count in [0, 1, 3, 400] {
        let page = render(&summary(count, false));
        let walked = walk(&page);
        let rows = walked.tags.iter().filter(|tag| tag.starts_with("tr id=\"job-")).count();
        assert_eq!(rows, count);
        for index in 0..count {
            assert!(walked.text.contains(&format!("zoo/model-{index:05}")), "{index}");
        }
    }
    let page = walk(&render(&summary(400, false))).text;
    for part in
        ["80 of 320 jobs failed", "the pickle ends early", "ferry run zoo.toml --only x", "68 more failures"]
    {
        assert!(page.contains(part), "no {part}");
    }
}

#[test]
fn a_page_needs_nothing_else() {
    let page = render(&summary(12, false));
    for part in ["http:", "https:", "src=", "url(", "@import", "<link", "<iframe"] {
        assert!(!page.contains(part), "{part}");
    }
    let hash = STANDARD.encode(sha2::Sha256::digest(
        page.split("<script>").nth(1).unwrap().split("</script>").next().unwrap(),
    ));
    assert!(page.contains(&format!("script-src 'sha256-{hash}'")));
}

#[test]
fn names_are_no_markup() {
    let page = render(&summary(12, true));
    let walked = walk(&page);
    assert_eq!(page.matches("<script").count(), 1);
    let plain: Vec<String> = walk(&render(&summary(12, false))).tags;
    assert_eq!(walked.tags.len(), plain.len(), "a name became a tag");
    for (tag, plain) in walked.tags.iter().zip(&plain) {
        assert_eq!(tag.matches('"').count(), plain.matches('"').count(), "a name became an attribute: {tag}");
    }
    assert!(!page.contains(['\0', '\u{202e}']));
}

#[test]
fn numbers_that_are_none_do_no_harm() {
    let mut summary = summary(5, false);
    for (job, seconds) in summary.jobs.iter_mut().zip([f64::NAN, f64::INFINITY, -1.0, 1e300, 0.0]) {
        job.state = JobState::Done;
        job.started = Some(seconds);
        job.seconds = seconds;
        job.bytes_in = u64::MAX;
    }
    summary.seconds = f64::NAN;
    walk(&render(&summary));
}
