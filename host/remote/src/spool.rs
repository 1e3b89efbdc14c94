//! A spool is an unnamed temporary file that contains a response body, for servers that do not
//! support range requests.

use crate::client::{Client, ClientRequest, ClientResponse};
use crate::fault::Fault;
use crate::settings::Settings;
use crate::version::Version;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use tensorferry_core::context::remote::{RemoteFile, RemoteStamp};
use tensorferry_sdk::{Error, Result};

/// The folder for spools, and their maximum size.
pub(crate) struct Spool {
    folder: PathBuf,
    most: u64,
}

impl Spool {
    pub(crate) fn new(settings: &Settings) -> Self {
        let folder = settings.text("spool-folder").map_or_else(std::env::temp_dir, PathBuf::from);
        Self { folder, most: settings.bytes("spool") }
    }

    /// Reads a body to its end. If the body is cut off, it is requested again from the beginning,
    /// because the server does not support range requests.
    pub(crate) async fn fill(
        self,
        client: &Client,
        response: ClientResponse,
        version: Version,
        request: ClientRequest,
        name: &str,
    ) -> Result<SpooledFile, Fault> {
        let mut response = Some(response);
        let mut retry_limits = client.retry_limits();
        let mut whole = request;
        whole.headers.remove(reqwest::header::RANGE);
        loop {
            let current = match response.take() {
                Some(response) => response,
                None => {
                    let response = client.request(&whole).await?;
                    if response.status != reqwest::StatusCode::OK {
                        return Err(crate::version::refusal(client, response, name).await);
                    }
                    version
                        .hold(name, &Version::of(&response, response.body.len().unwrap_or(version.len)))?;
                    response
                }
            };
            let expected = current.body.len();
            match self.write(current, expected, name).await {
                Ok((file, len)) => {
                    let stamp = Version { len, ..version }.stamp();
                    return Ok(SpooledFile { file, stamp, name: name.to_owned() });
                }
                Err(fault) => retry_limits.wait(fault.of(name)).await?,
            }
        }
    }

    async fn write(
        &self,
        response: ClientResponse,
        expected: Option<u64>,
        name: &str,
    ) -> Result<(File, u64), Fault> {
        let over = || {
            let error = Error::limit(
                "the file is longer than the setting spool allows, and its server does not support range requests",
            );
            Fault::permanent(error.file(name).expected(format!("at most {} bytes", self.most)))
        };
        if expected.is_some_and(|len| len > self.most) {
            return Err(over());
        }
        let cannot = |error: std::io::Error| {
            let folder = self.folder.display();
            Fault::permanent(Error::from(error).context(format!("spool folder {folder}")).file(name))
        };
        let mut file = tempfile::tempfile_in(&self.folder).map_err(cannot)?;
        let mut len = 0;
        let mut body = response.body;
        while let Some(piece) = body.piece().await? {
            len += piece.len() as u64;
            if len > self.most {
                return Err(over());
            }
            file.write_all(&piece).map_err(cannot)?;
        }
        match expected {
            Some(expected) if expected != len => {
                Err(Fault::transient(format!("the body ended after {len} of {expected} bytes")))
            }
            _ => Ok((file, len)),
        }
    }
}

/// A file whose content was read completely when it was opened. Its content therefore cannot
/// change.
pub(crate) struct SpooledFile {
    file: File,
    stamp: RemoteStamp,
    name: String,
}

impl SpooledFile {
    /// Returns the note that informs the user about the temporary file.
    pub(crate) fn note(&self, settings: &Settings) -> String {
        let (name, len, folder) = (&self.name, self.stamp.len, Spool::new(settings).folder);
        format!(
            "the server of {name} does not support range requests: all {len} bytes were read into a temporary file in {}",
            folder.display()
        )
    }
}

impl RemoteFile for SpooledFile {
    fn stamp(&self) -> &RemoteStamp {
        &self.stamp
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|error| Error::from(error).file(&self.name).offset(offset))
    }

    fn advise(&self, _: &[Range<u64>]) {}

    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}
