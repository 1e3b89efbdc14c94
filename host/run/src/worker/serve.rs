//! The code that runs in a worker process. The worker receives tasks from the runner and performs
//! them. The worker ends when the runner ends.

use super::perform::perform;
use super::pipe::RunnerPipe;
use super::protocol::{WorkerEvent, WorkerTask};
use crate::platform::{limit_memory, offer_to_kill};
use crate::report::JobFailure;
use rustix::process::getppid;
use tensorferry::{Registry, Session};
use tensorferry_core::platform::end_with_parent;
use tensorferry_sdk::{Error, Result};

/// Performs the jobs that arrive on the standard input until the input ends. `runner` is the
/// process that started this process. This process ends when the runner ends.
pub fn serve(registry: &Registry, session: &Session, runner: u32) -> Result<()> {
    end_with(runner)?;
    // If the system runs out of memory, the kernel should kill a worker process and not the runner.
    offer_to_kill();
    let pipe = RunnerPipe::take()?;
    // The threads are reused if the next job needs the same number.
    let mut threads = session.child(session.threads, session.memory, None).of_many_jobs();
    while let Some(task) = pipe.receive::<WorkerTask>()? {
        let share = &task.share;
        if threads.threads != share.threads {
            threads = threads.child(share.threads, session.memory, None);
        }
        limit_memory(task.limit);
        let mut session = threads.child(share.threads, share.memory, share.rate);
        session.links = task.job.links();
        let registry = registry.clone().with_session(session);
        let done = registry.session().install(|| perform(&task, &registry, &pipe));
        let failed = |error| WorkerEvent::Failed { failure: within_limit(&error, task.limit) };
        pipe.send(&done.unwrap_or_else(failed))?;
    }
    Ok(())
}

/// Converts an error to a failure. If the memory limit is too low, the first symptom is often that
/// threads cannot be started. For this error, the limit is added to the failure as a detail.
fn within_limit(error: &Error, limit: u64) -> JobFailure {
    let mut failure = JobFailure::of(error);
    if error.message().starts_with("cannot start threads") {
        failure.details.push(("memory limit".to_owned(), format!("{} MiB", limit >> 20)));
    }
    failure
}

/// Makes this process end when its runner ends.
pub(crate) fn end_with(runner: u32) -> Result<()> {
    end_with_parent()?;
    let parent = getppid().map(|pid| pid.as_raw_pid());
    if parent.and_then(|pid| u32::try_from(pid).ok()) != Some(runner) {
        // The runner ended before this process requested the signal, so the signal will not be
        // sent.
        return Err(Error::cancelled("the runner has ended"));
    }
    Ok(())
}
