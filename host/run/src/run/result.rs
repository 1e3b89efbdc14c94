//! Determines the result of a job for the report, the events and the journal. Also determines the
//! exit code for all jobs.

use super::Run;
use super::decide::Decision;
use crate::events::Event;
use crate::exit::{ENVIRONMENT, INTERRUPTED, REFUSED, TRANSIENT};
use crate::human::quoted;
use crate::job::Job;
use crate::journal::Record;
use crate::pool::FinishedJob;
use crate::report::{JobFailure, JobState, JobSummary};
use crate::worker::JobOutcome;
use tensorferry_convert::receipt::now;

/// Returns the result of a job before it runs. If the job does not have to run, this result is
/// final.
pub(super) fn before(job: &Job, decision: Option<&Decision<'_>>) -> JobSummary {
    let (state, earlier) = match decision {
        None => (JobState::LeftOut, None),
        Some(Decision::Run(_)) => (JobState::Cancelled, None),
        Some(Decision::Unchanged(commit)) => (JobState::Unchanged, Some(commit.made.summary.clone())),
    };
    JobSummary {
        state,
        reason: decision.map(Decision::reason),
        name: job.name.clone(),
        input: job.input().to_owned(),
        output: job.output().to_owned(),
        ..earlier.unwrap_or_default()
    }
}

/// Returns the result of a job that has run, and writes it to the journal.
pub(super) fn after(job: &Job, finished: FinishedJob, key: Option<String>, run: &Run<'_>) -> JobSummary {
    let (journal, started) = (&run.journal, run.started);
    let output = job.output();
    let mut summary = JobSummary {
        name: job.name.clone(),
        input: job.input().to_owned(),
        output: output.to_owned(),
        from: job.request.input.format.clone(),
        to: job.request.output.format.clone(),
        ..JobSummary::default()
    };
    match finished.outcome {
        JobOutcome::Done { summary: done, outputs, .. } => {
            // At this point, the output exists, and its commit is in the journal. The job counts as
            // done even if its completion cannot be recorded. If the journal cannot be written, the
            // run ends at the next record.
            let _ = journal.append_done(output, key, outputs);
            summary = JobSummary { output: output.to_owned(), ..*done };
        }
        JobOutcome::Failed(mut failure) => {
            let manifest = run.options.manifest.display().to_string();
            failure.retry =
                Some(format!("ferry run {} --only {}", quoted(&manifest), quoted(&job.name)).into());
            let reason = failure.to_string();
            let _ = journal.append(&Record::Failed { at: now(), output: output.to_owned(), reason });
            summary.state = JobState::Failed;
            summary.failure = Some(failure);
        }
        JobOutcome::Cancelled | JobOutcome::Scanned(_) => summary.state = JobState::Cancelled,
    }
    summary.attempts = finished.attempts;
    summary.started = finished.began.map(|began| began.duration_since(started).as_secs_f64());
    summary.seconds = finished.began.map_or(0.0, |began| finished.ended.duration_since(began).as_secs_f64());
    summary
}

pub(super) fn event(summary: &JobSummary) -> Event<'_> {
    match summary.state {
        JobState::Failed => Event::JobFailed(summary),
        JobState::Cancelled => Event::JobCancelled { name: &summary.name },
        _ => Event::JobDone(summary),
    }
}

pub(super) fn exit_code(jobs: &[JobSummary], interrupted: bool) -> u8 {
    let failures: Vec<&JobFailure> = jobs.iter().filter_map(|job| job.failure.as_ref()).collect();
    if interrupted {
        INTERRUPTED
    } else if failures.is_empty() {
        0
    } else if failures.iter().all(|failure| failure.is_transient()) {
        // All failures are temporary, so the same run may succeed later.
        TRANSIENT
    } else if failures.iter().all(|failure| failure.is_transient() || failure.is_of_environment()) {
        // The inputs are not at fault. The cause is, for example, a full disk or a broken plugin.
        ENVIRONMENT
    } else {
        REFUSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_of_a_run() {
        let failed = |code| JobSummary {
            state: JobState::Failed,
            failure: Some(JobFailure { exit_code: code, ..JobFailure::default() }),
            ..JobSummary::default()
        };
        let of = |jobs: Vec<JobSummary>| exit_code(&jobs, false);
        assert_eq!(of(vec![JobSummary::default()]), 0);
        assert_eq!(of(vec![failed(Some(75))]), 75);
        assert_eq!(of(vec![failed(Some(75)), failed(Some(2))]), 3);
        assert_eq!(of(vec![failed(Some(75)), failed(Some(5))]), 5);
        assert_eq!(of(vec![failed(Some(5)), failed(Some(3))]), 3);
        assert_eq!(of(vec![failed(None)]), 3);
    }
}
