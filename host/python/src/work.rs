//! Runs long work on another thread. The calling thread waits without the GIL. At short intervals,
//! the calling thread checks for Ctrl-C and reports progress.

use crate::errors::OrRaise;
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use tensorferry::{Error, Result, Session};

/// Time between checks for Ctrl-C.
const STEP: Duration = Duration::from_millis(50);

/// Runs `work`, which stops when `session` is cancelled. `progress` is called with the bytes done,
/// the total bytes, and the stage. If `progress` or a signal handler raises an exception, the work
/// is cancelled, and the exception is raised when the work has ended. `progress` is also called
/// before the work starts, and once when all work is done. An exception in that last call is too
/// late to stop the work.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    session: &Session,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    if let Some(progress) = progress {
        tell(py, session, progress)?;
    }
    let (outcome, raised) = py.detach(|| {
        std::thread::scope(|scope| {
            let (send, done) = sync_channel(1);
            let name = "tensorferry".to_owned();
            let worker = std::thread::Builder::new().name(name);
            let started = worker.spawn_scoped(scope, move || {
                // The channel has no receiver only if the caller has panicked.
                let _ = send.send(work());
            });
            if let Err(error) = started {
                return (Err(Error::io(format!("cannot start a thread: {error}"))), None);
            }
            let mut raised = None;
            loop {
                match done.recv_timeout(STEP) {
                    Ok(outcome) => return (outcome, raised),
                    Err(RecvTimeoutError::Disconnected) => {
                        return (Err(Error::plugin("the engine panicked")), raised);
                    }
                    Err(RecvTimeoutError::Timeout) if raised.is_none() => {
                        raised = Python::attach(|py| look(py, session, progress)).err();
                        if raised.is_some() {
                            session.cancel();
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        })
    });
    if let Some(raised) = raised {
        return Err(raised);
    }
    let outcome = outcome.or_raise(py)?;
    if let Some(progress) = progress {
        tell(py, session, progress)?;
    }
    Ok(outcome)
}

fn look(py: Python<'_>, session: &Session, progress: Option<&Py<PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    progress.map_or(Ok(()), |progress| tell(py, session, progress))
}

/// Reports bytes read before copying, bytes copied, or bytes checked, like the progress bar of
/// `ferry`.
fn tell(py: Python<'_>, session: &Session, progress: &Py<PyAny>) -> PyResult<()> {
    let ((moved, to_move), (checked, to_check)) = (session.progress(), session.checks());
    let (stage, (done, of)) = if to_move == 0 && to_check == 0 {
        ("read", session.call())
    } else if moved < to_move || to_check == 0 {
        ("copy", (moved, to_move))
    } else {
        ("check", (checked, to_check))
    };
    progress.call1(py, (done, of.max(done), stage)).map(drop)
}
