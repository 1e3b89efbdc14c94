//! The pipe between a worker process and its runner: the standard input and output of the process.

use super::protocol::WorkerEvent;
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::Mutex;
use tensorferry_sdk::{Error, Result};

/// The connection to the runner. Other output of the process, such as output from plugins, is
/// redirected to the standard error.
pub(super) struct RunnerPipe {
    input: Mutex<BufReader<File>>,
    output: Mutex<File>,
}

impl RunnerPipe {
    pub(super) fn take() -> Result<Self> {
        let failed = |e: std::io::Error| Error::from(e).context("cannot communicate with the runner");
        let own = |fd| rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|e| failed(e.into()));
        let (input, output) = (own(stdin())?, own(stdout())?);
        let nothing = File::open("/dev/null").map_err(failed)?;
        dup2_stdin(nothing).map_err(|e| failed(e.into()))?;
        dup2_stdout(stderr()).map_err(|e| failed(e.into()))?;
        Ok(Self { input: Mutex::new(BufReader::new(input.into())), output: Mutex::new(output.into()) })
    }

    /// Receives a JSON document. Returns `None` if the runner sends no more documents.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let mut line = String::new();
        let mut input = self.input.lock().map_err(|_| Error::io("the runner's pipe"))?;
        if input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        serde_json::from_str(&line)
            .map(Some)
            .map_err(|e| Error::io(format!("invalid message from the runner: {e}")))
    }

    pub(super) fn send(&self, event: &WorkerEvent) -> Result<()> {
        let mut line = serde_json::to_vec(event).map_err(|e| Error::io(e.to_string()))?;
        line.push(b'\n');
        let mut output = self.output.lock().map_err(|_| Error::io("the runner's pipe"))?;
        Ok(output.write_all(&line)?)
    }
}
