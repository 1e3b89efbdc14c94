//! Prints the plan of `ferry run --dry-run` as text or JSON.

use crate::losses;
use crate::terminal::{self, printable};
use std::fmt::Write;
use tensorferry_run::{JobPlan, RunPlan};
use tensorferry_sdk::Result;

pub(super) fn print(plan: &RunPlan, notes: &[String], as_json: bool) -> Result<()> {
    if !as_json {
        return terminal::print(&text(plan));
    }
    let mut document = serde_json::to_value(plan).unwrap_or_default();
    document["event"] = "plan".into();
    document["notes"] = notes.into();
    terminal::print(&format!("{document}\n"))
}

fn text(plan: &RunPlan) -> String {
    let mut text = String::new();
    for job in &plan.jobs {
        add_job(&mut text, job);
    }
    for conflict in &plan.conflicts {
        let jobs = printable(&conflict.jobs.join(", "));
        let _ = writeln!(text, "conflict: {jobs}: {}", printable(&conflict.what));
    }
    for space in &plan.space {
        let verdict = if space.is_short() { ": not enough" } else { "" };
        let _ = writeln!(
            text,
            "space: {} needed, {} free at {}{verdict}",
            terminal::bytes(space.needed),
            terminal::bytes(space.free),
            terminal::shown(&space.folder)
        );
    }
    let count = |is: fn(&&JobPlan) -> bool| plan.jobs.iter().filter(is).count();
    let (runs, fails) = (count(|job| job.runs), count(|job| job.failure.is_some()));
    let _ = writeln!(
        text,
        "{}: {runs} would run{}, {} unchanged",
        terminal::counted(plan.jobs.len() as u64, "job"),
        if fails == 0 { String::new() } else { format!(", of which {fails} would fail") },
        plan.jobs.len() - runs,
    );
    text
}

fn add_job(text: &mut String, job: &JobPlan) {
    let name = printable(&job.name);
    if let Some(failure) = &job.failure {
        let _ = writeln!(text, "{name}: would fail: {}", printable(&failure.to_string()));
    } else if let Some(plan) = &job.output_plan {
        let from = plan.from.as_deref().map(|from| format!("{from} -> ")).unwrap_or_default();
        let to = plan.to.as_deref().unwrap_or_default();
        let size = terminal::bytes(plan.bytes);
        let output = printable(&job.output);
        let held = match (plan.tensors, plan.records) {
            (Some(tensors), _) => terminal::counted(tensors, "tensor"),
            (None, Some(records)) => terminal::counted(records, "record"),
            (None, None) => "records".to_owned(),
        };
        let _ = writeln!(text, "{name}: {from}{to}, {held}, {size}, to {output}");
        if let Some(account) = plan.account.as_ref().filter(|account| account.is_notable()) {
            let _ = writeln!(text, "  input: {}", printable(&account.line()));
        }
        for (word, line) in losses::lines(&plan.losses, false) {
            let _ = writeln!(text, "  {word}: {line}");
        }
    } else {
        let _ = writeln!(text, "{name}: would not run");
    }
    let _ = writeln!(text, "  because: {}", printable(&job.reason));
}
