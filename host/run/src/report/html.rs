//! Renders `report.html`, which is a summary of the run for people. The page is a single file, and
//! works without a network and with scripts disabled.
//!
//! The page shows strings from files, and these strings may be hostile. Therefore, each string is
//! escaped. The content security policy of the page permits only the page's own script and style.

mod jobs;
mod markup;
mod timeline;

use super::{BudgetSummary, JobFailure, JobState, JobSummary, Summary};
use crate::human::{bytes, count, rate, seconds};
use crate::losses::grouped;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use markup::Column::{Number, Text};
use markup::{close_table, escape, open_section, open_table, plural};
use sha2::Digest as _;
use std::collections::BTreeMap;
use std::fmt::Write;
use tensorferry::LossRecord;

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

/// Maximum number of failures that are shown at first. The user can expand the list.
const MAX_FAILURES: usize = 12;
/// Maximum number of loss groups to show. The job table lists each job's losses.
const MAX_LOSSES: usize = 100;
/// Maximum number of names that are shown for a group of losses.
const MAX_NAMED: usize = 3;

/// Renders the page.
#[must_use]
pub fn render(summary: &Summary) -> String {
    let mut page = String::with_capacity(64 << 10);
    head(&mut page, summary);
    totals(&mut page, summary);
    failures(&mut page, summary);
    losses(&mut page, summary);
    sizes(&mut page, summary);
    timeline::section(&mut page, summary);
    jobs::section(&mut page, summary);
    foot(&mut page, summary);
    page
}

fn head(page: &mut String, summary: &Summary) {
    let hash = STANDARD.encode(sha2::Sha256::digest(SCRIPT));
    let totals = &summary.totals;
    let asked = summary.jobs.len() as u64 - totals.left_out.min(summary.jobs.len() as u64);
    let well = totals.done + totals.unchanged;
    let (class, verdict) = if totals.failed > 0 {
        ("failed", format!("{} of {} failed", count(totals.failed), plural(asked, "job")))
    } else if well < asked || summary.interrupted {
        ("cancelled", format!("ended early: {} of {} done", count(well), plural(asked, "job")))
    } else {
        ("done", format!("all of {} done", plural(asked, "job")))
    };
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{verdict} – {manifest}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#jobs\">Skip to the jobs</a>\n\
         <header>\n<p class=\"kind\">ferry run</p>\n<h1>{manifest}</h1>\n\
         <p class=\"verdict {class}\">{}</p>\n\
         <p class=\"when\">Started {}, took {}; ferry {}; {} at a time{}, {}, {} of buffers</p>\n</header>\n<main>\n",
        capital(&verdict),
        time(&summary.started),
        seconds(summary.seconds),
        escape(&summary.ferry),
        plural(summary.budget.jobs, "job"),
        small_jobs(&summary.budget),
        plural(summary.budget.threads, "thread"),
        bytes(summary.budget.memory),
        manifest = escape(&summary.manifest),
    );
}

/// Returns the maximum number of concurrent small jobs as text. Returns an empty string unless this
/// number is higher than the maximum number of other jobs.
fn small_jobs(budget: &BudgetSummary) -> String {
    let more = budget.small_jobs > budget.jobs;
    if more { format!(" (or {} small ones)", budget.small_jobs) } else { String::new() }
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Formats a time so that both people and programs can read it, as in `2026-11-21 17:20:00 UTC`.
fn time(rfc3339: &str) -> String {
    let shown = rfc3339.replace('T', " ").replace('Z', " UTC");
    format!("<time datetime=\"{}\">{}</time>", escape(rfc3339), escape(&shown))
}

fn totals(page: &mut String, summary: &Summary) {
    let totals = &summary.totals;
    open_section(page, "totals", "Totals");
    shares(page, summary);
    page.push_str("<dl class=\"tiles\">\n");
    let mut tile = |name: &str, value: &str, note: &str| {
        let note = if note.is_empty() { String::new() } else { format!("<dd class=\"note\">{note}</dd>") };
        let _ = writeln!(page, "<div><dt>{name}</dt><dd>{value}</dd>{note}</div>");
    };
    let rate = |count: u64| rate(count, summary.seconds);
    tile("Read", &bytes(totals.bytes_in), &format!("{} a second", bytes(rate(totals.bytes_in))));
    tile("Written", &bytes(totals.bytes_out), &format!("{} a second", bytes(rate(totals.bytes_out))));
    if totals.tensors > 0 || totals.records == 0 {
        tile("Tensors", &count(totals.tensors), "");
    }
    if totals.records > 0 {
        tile("Records", &count(totals.records), &format!("{} a second", count(rate(totals.records))));
    }
    let verified = summary.jobs.iter().filter(|job| job.verified.is_some()).count() as u64;
    tile("Read back and compared", &plural(verified, "job"), "");
    tile("Losses", &count(totals.losses), "");
    page.push_str("</dl>\n</section>\n");
}

/// Renders the number of jobs in each state, as a bar and a legend.
fn shares(page: &mut String, summary: &Summary) {
    let total = summary.jobs.len().max(1) as f64;
    let there = || JobState::ALL.into_iter().filter(|state| summary.totals.count(*state) > 0);
    page.push_str("<div class=\"shares\" aria-hidden=\"true\">");
    for state in there() {
        let percent = summary.totals.count(state) as f64 * 100.0 / total;
        let _ = write!(page, "<span class=\"{}\" style=\"flex-grow:{percent:.3}\"></span>", class(state));
    }
    page.push_str("</div>\n<ul class=\"key\">\n");
    for state in there() {
        let number = count(summary.totals.count(state));
        let _ =
            writeln!(page, "<li><span class=\"dot {}\"></span>{number} {}</li>", class(state), state.word());
    }
    page.push_str("</ul>\n");
}

/// Returns the CSS class of a state.
fn class(state: JobState) -> &'static str {
    match state {
        JobState::LeftOut => "left-out",
        state => state.word(),
    }
}

fn failures(page: &mut String, summary: &Summary) {
    let failed: Vec<(usize, &JobSummary)> =
        summary.jobs.iter().enumerate().filter(|(_, job)| job.state == JobState::Failed).collect();
    if failed.is_empty() {
        return;
    }
    let number = count(failed.len() as u64);
    open_section(page, "failures", &format!("Failures <span class=\"count\">{number}</span>"));
    let (shown, rest) = failed.split_at(failed.len().min(MAX_FAILURES));
    for (index, job) in shown {
        failure(page, *index, job);
    }
    if !rest.is_empty() {
        let _ = writeln!(page, "<details>\n<summary>{}</summary>", plural(rest.len() as u64, "more failure"));
        for (index, job) in rest {
            failure(page, *index, job);
        }
        page.push_str("</details>\n");
    }
    page.push_str("</section>\n");
}

fn failure(page: &mut String, index: usize, job: &JobSummary) {
    let unknown = JobFailure { message: "unknown reason".to_owned(), ..JobFailure::default() };
    let failure = job.failure.as_ref().unwrap_or(&unknown);
    let _ = write!(
        page,
        "<article class=\"failure\">\n<h3><a href=\"#job-{index}\">{}</a></h3>\n<p class=\"why\">",
        escape(&job.name)
    );
    if !failure.kind.is_empty() {
        let _ = write!(page, "<strong>{}</strong>: ", escape(&failure.kind));
    }
    let _ = write!(page, "{}</p>\n<dl class=\"facts\">\n", escape(&failure.message));
    let mut fact = |name: &str, value: &str| {
        let _ = writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
    };
    failure.details.iter().for_each(|(name, value)| fact(name, value));
    fact("input", &job.input);
    fact("output", &job.output);
    match (failure.exit_code, failure.signal) {
        (_, Some(signal)) => fact("ended by", &format!("signal {signal}")),
        (Some(code), None) => fact("exit code", &code.to_string()),
        (None, None) => {}
    }
    if job.attempts > 1 {
        fact("attempts", &job.attempts.to_string());
    }
    page.push_str("</dl>\n");
    if let Some(hint) = &failure.hint {
        let _ = writeln!(page, "<p class=\"hint\">{}</p>", escape(hint));
    }
    if let Some(retry) = &failure.retry {
        let _ = writeln!(page, "<p class=\"retry\">Retry: <code>{}</code></p>", escape(retry));
    }
    page.push_str("</article>\n");
}

fn losses(page: &mut String, summary: &Summary) {
    let of_jobs = summary.jobs.iter().flat_map(|job| job.losses.iter().map(move |loss| (job, loss)));
    let groups = grouped(of_jobs, |(_, loss)| loss);
    if groups.is_empty() {
        return;
    }
    open_section(page, "losses", "Losses");
    page.push_str("<p>Losses by reason. The table of jobs lists them by job.</p>\n");
    let columns = [
        ("How bad", Text),
        ("Kind", Text),
        ("Why", Text),
        ("Losses", Number),
        ("Jobs", Number),
        ("Such as", Text),
    ];
    open_table(page, "losses", ">", &columns);
    for group in groups.iter().take(MAX_LOSSES) {
        let such = |(job, loss): &(&JobSummary, &LossRecord<'_>)| {
            format!("<li>{} <small>in {}</small></li>", escape(&loss.what), escape(&job.name))
        };
        let (_, first) = group[0];
        let jobs = group.chunk_by(|(a, _), (b, _)| std::ptr::eq(*a, *b)).count();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><th scope=\"row\">{}</th><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td><ul class=\"such\">{}</ul></td></tr>",
            escape(&first.severity),
            escape(&first.kind),
            escape(&first.why),
            count(group.len() as u64),
            count(jobs as u64),
            group.iter().take(MAX_NAMED).map(such).collect::<String>(),
        );
    }
    close_table(page);
    if groups.len() > MAX_LOSSES {
        let _ = writeln!(page, "<p>{} more reasons are in report.json.</p>", groups.len() - MAX_LOSSES);
    }
    page.push_str("</section>\n");
}

/// Renders the total sizes of inputs and outputs by format.
fn sizes(page: &mut String, summary: &Summary) {
    let mut by_formats: BTreeMap<(&str, &str), (u64, u64, u64)> = BTreeMap::new();
    for job in summary.jobs.iter().filter(|job| matches!(job.state, JobState::Done | JobState::Unchanged)) {
        let formats = (job.from.as_deref().unwrap_or("?"), job.to.as_deref().unwrap_or("?"));
        let (jobs, before, after) = by_formats.entry(formats).or_default();
        *jobs += 1;
        *before = before.saturating_add(job.bytes_in);
        *after = after.saturating_add(job.bytes_out);
    }
    let Some(widest) = by_formats.values().map(|(_, before, after)| *before.max(after)).max() else { return };
    let widest = widest.max(1) as f64;
    open_section(page, "sizes", "Sizes before and after");
    let columns = [
        ("From", Text),
        ("To", Text),
        ("Jobs", Number),
        ("Before", Number),
        ("After", Number),
        ("Change", Number),
        ("<span class=\"hidden\">As bars</span>", Text),
    ];
    open_table(page, "sizes", " class=\"sizes\">", &columns);
    for ((from, to), (jobs, before, after)) in &by_formats {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"bars\" aria-hidden=\"true\">\
             <span class=\"before\" style=\"width:{:.2}%\"></span><span class=\"after\" style=\"width:{:.2}%\"></span></td></tr>",
            escape(from),
            escape(to),
            count(*jobs),
            bytes(*before),
            bytes(*after),
            change(*before, *after),
            *before as f64 * 100.0 / widest,
            *after as f64 * 100.0 / widest,
        );
    }
    close_table(page);
    page.push_str("</section>\n");
}

fn change(before: u64, after: u64) -> String {
    if before == 0 {
        return "–".to_owned();
    }
    let percent = (after as f64 / before as f64 - 1.0) * 100.0;
    if percent.abs() < 0.05 { "±0 %".to_owned() } else { format!("{percent:+.1} %").replace('-', "−") }
}

fn foot(page: &mut String, summary: &Summary) {
    let _ = write!(
        page,
        "</main>\n<footer>\n<p>All data for programs: <code>report.json</code>. \
         Check the outputs against their receipts: <code>ferry verify OUTPUT</code>. \
         Check them without ferry's code, with the frameworks' own readers: <code>python check.py</code>.</p>\n\
         <p>Written by ferry {}.</p>\n</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&summary.ferry),
    );
}

#[cfg(test)]
mod tests;
