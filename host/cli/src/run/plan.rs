//! The plan of `ferry run --dry-run`, for people and for programs.

use super::super::terminal::{self, printable};
use std::fmt::Write;
use tensorferry_run::dry_run::{Plan, Planned};
use tensorferry_run::exit::REFUSED;
use tensorferry_run::in_one_line;
use tensorferry_sdk::Result;

/// Prints it; gives the exit code.
pub(super) fn tell(plan: &Plan, json: bool) -> Result<u8> {
    if json {
        let mut document = serde_json::to_value(plan).unwrap_or_default();
        document["event"] = "plan".into();
        terminal::print(&format!("{document}\n"))?;
    } else {
        terminal::print(&text(plan))?;
    }
    let is_short = plan.space.iter().any(|space| space.needed > space.free);
    Ok(match () {
        () if !plan.conflicts.is_empty() => 2,
        () if plan.jobs.iter().any(|job| job.failure.is_some()) => REFUSED,
        () if is_short => 5,
        () => 0,
    })
}

fn text(plan: &Plan) -> String {
    let mut text = String::new();
    for job in &plan.jobs {
        add_job(&mut text, job);
    }
    for conflict in &plan.conflicts {
        let _ = writeln!(
            text,
            "conflict: {}: {}",
            printable(&conflict.jobs.join(", ")),
            printable(&conflict.what)
        );
    }
    for space in &plan.space {
        let verdict = if space.needed > space.free { ": NOT ENOUGH" } else { "" };
        let _ = writeln!(
            text,
            "space: {} needed, {} free at {}{verdict}",
            terminal::bytes(space.needed),
            terminal::bytes(space.free),
            printable(&space.folder.display().to_string())
        );
    }
    let count = |is: fn(&&Planned) -> bool| plan.jobs.iter().filter(is).count();
    let (runs, fails) = (count(|job| job.runs), count(|job| job.failure.is_some()));
    let _ = writeln!(
        text,
        "{} jobs: {runs} would run{}, {} unchanged",
        plan.jobs.len(),
        if fails == 0 { String::new() } else { format!(" and {fails} of them fail") },
        plan.jobs.len() - runs,
    );
    text
}

fn add_job(text: &mut String, job: &Planned) {
    let name = printable(&job.job);
    if let Some(failure) = &job.failure {
        let _ = writeln!(text, "{name}: would fail: {}", printable(&in_one_line(failure)));
    } else if let Some(summary) = &job.summary {
        let from = summary.from.as_deref().map(|from| format!("{from} -> ")).unwrap_or_default();
        let to = summary.to.as_deref().unwrap_or_default();
        let size = terminal::bytes(summary.bytes);
        let output = printable(&job.output);
        let held = match (summary.tensors, summary.records) {
            (Some(tensors), _) => format!("{tensors} tensors"),
            (None, Some(records)) => format!("{records} records"),
            (None, None) => "records".to_owned(),
        };
        let _ = writeln!(text, "{name}: {from}{to}, {held}, {size}, to {output}");
        for loss in &summary.losses {
            let _ = writeln!(text, "  loss: {} {:?}: {}", loss.kind, loss.what, printable(&loss.why));
        }
    } else {
        let _ = writeln!(text, "{name}: would not run");
    }
    let _ = writeln!(text, "  because: {}", printable(&job.reason));
}
