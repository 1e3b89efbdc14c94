//! Renders the table of all jobs. The table is readable without the script, which only adds sorting
//! and filtering.

use super::super::{JobState, JobSummary, Summary};
use super::class;
use super::markup::{Column, close_table, escape, open_table, plural};
use crate::human::{bytes, count, seconds};
use std::fmt::Write;

/// Maximum number of losses and notes that are shown for a job. `report.json` contains all losses
/// and notes.
const MAX_LISTED: usize = 20;

pub(super) fn section(page: &mut String, summary: &Summary) {
    page.push_str("<section aria-labelledby=\"jobs\">\n<h2 id=\"jobs\" tabindex=\"-1\">Jobs</h2>\n");
    controls(page, summary);
    let texts = ["Job", "State", "From", "To"].map(|name| (name, Column::Text));
    let numbers =
        ["Read", "Written", "Tensors", "Began", "Took", "Losses"].map(|name| (name, Column::Number));
    let columns = [&texts[..], &numbers[..]].concat();
    let table = " id=\"table\">\n<caption class=\"hidden\">All jobs of the run</caption>";
    open_table(page, "jobs", table, &columns);
    for (index, job) in summary.jobs.iter().enumerate() {
        row(page, index, job);
    }
    close_table(page);
    page.push_str("</section>\n");
}

/// Renders the controls for filtering, which are hidden until the script runs.
fn controls(page: &mut String, summary: &Summary) {
    page.push_str(
        "<form class=\"controls\" id=\"controls\" role=\"search\" hidden>\n\
         <label>Filter <input type=\"search\" id=\"filter\" placeholder=\"name, path, format, reason\" autocomplete=\"off\"></label>\n\
         <fieldset><legend class=\"hidden\">States</legend>\n",
    );
    for state in JobState::ALL {
        let there = summary.totals.count(state);
        if there > 0 {
            let _ = writeln!(
                page,
                "<label><input type=\"checkbox\" name=\"state\" value=\"{}\" checked> {} <small>{}</small></label>",
                class(state),
                state.word(),
                count(there)
            );
        }
    }
    page.push_str("</fieldset>\n<output id=\"shown\" aria-live=\"polite\"></output>\n</form>\n");
}

/// Renders a row. If the text of a cell cannot be used for sorting, the cell also contains a sort
/// value.
fn row(page: &mut String, index: usize, job: &JobSummary) {
    let _ = write!(page, "<tr id=\"job-{index}\" class=\"{}\"><th scope=\"row\">", class(job.state));
    details(page, job);
    let _ = write!(page, "</th><td><span class=\"state\">{}</span></td>", job.state.word());
    for format in [&job.from, &job.to] {
        let _ = write!(page, "<td>{}</td>", escape(format.as_deref().unwrap_or("")));
    }
    let mut number = |value: Option<f64>, shown: &str| {
        let value = value.filter(|value| value.is_finite());
        let (value, shown) = value.map_or((String::new(), ""), |value| (value.to_string(), shown));
        let _ = write!(page, "<td class=\"n\" data-v=\"{value}\">{shown}</td>");
    };
    let some = |bytes: u64| (bytes > 0).then_some(bytes as f64);
    number(some(job.bytes_in), &bytes(job.bytes_in));
    number(some(job.bytes_out), &bytes(job.bytes_out));
    let held = job.tensors.or(job.records);
    number(held.map(|held| held as f64), &held.map(count).unwrap_or_default());
    number(job.started, &job.started.map(seconds).unwrap_or_default());
    let took = job.started.map(|_| job.seconds);
    number(took, &took.map(seconds).unwrap_or_default());
    number(some(job.losses.len() as u64), &count(job.losses.len() as u64));
    page.push_str("</tr>\n");
}

/// Renders the job's name, and details that do not fit in the other cells.
fn details(page: &mut String, job: &JobSummary) {
    let _ = write!(page, "<details><summary>{}</summary><dl class=\"facts\">", escape(&job.name));
    let mut fact = |name: &str, value: &str| {
        let _ = write!(page, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
    };
    fact("input", &job.input);
    fact("output", &job.output);
    if let Some(receipt) = &job.receipt {
        fact("receipt", receipt);
    }
    if let Some(reason) = &job.reason {
        fact("why", reason);
    }
    if let Some(failure) = &job.failure {
        fact("failed", &format!("{}: {}", failure.kind, failure.message));
    }
    if let Some(tensors) = job.verified {
        fact("read back and compared", &plural(tensors, "tensor"));
    }
    if let (Some(records), Some(_)) = (job.records, job.tensors) {
        fact("records", &count(records));
    }
    if job.attempts > 1 {
        fact("attempts", &count(job.attempts.into()));
    }
    if let Some(account) = &job.account {
        fact("input's entries", &account.line());
    }
    page.push_str("</dl>");
    let losses = job.losses.iter();
    list(page, "Losses", losses.map(|l| format!("{}: {} {}: {}", l.severity, l.kind, l.what, l.why)));
    list(page, "Notes", job.notes.iter().cloned());
    page.push_str("</details>");
}

fn list(page: &mut String, title: &str, lines: impl ExactSizeIterator<Item = String>) {
    let total = lines.len();
    if total == 0 {
        return;
    }
    let _ = write!(page, "<p>{title}</p><ul>");
    for line in lines.take(MAX_LISTED) {
        let _ = write!(page, "<li>{}</li>", escape(&line));
    }
    if total > MAX_LISTED {
        let _ = write!(page, "<li>{} more in report.json</li>", count((total - MAX_LISTED) as u64));
    }
    page.push_str("</ul>");
}
