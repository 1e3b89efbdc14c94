//! Tests reads from local servers that behave like real servers.

mod faults;
mod http;
mod hub;
mod object;
mod redirects;
mod secrets;
mod upload;

use crate::{Remotes, Settings};
use std::sync::Arc;
use tensorferry_core::context::remote::{Remote, RemoteFile, RemotePlace};
use tensorferry_sdk::Result;

/// Returns remotes with short time limits.
fn remotes(pairs: &[&str]) -> Remotes {
    remotes_with(8 << 20, pairs)
}

fn remotes_with(memory: u64, pairs: &[&str]) -> Remotes {
    let quick = ["retries=4", "retry-time=5", "min-rate-time=0.2", "answer-timeout=2"];
    let pairs: Vec<&str> = quick.iter().chain(pairs).copied().collect();
    Remotes::new(Settings::with_environment(&pairs, []).unwrap(), memory)
}

fn place(remotes: &Remotes, url: &str) -> (Arc<dyn RemotePlace>, String) {
    remotes.place(url).unwrap().unwrap()
}

fn open(remotes: &Remotes, url: &str) -> Result<Arc<dyn RemoteFile>> {
    let (place, path) = remotes.place(url)?.unwrap();
    place.open(&path)
}

fn read(file: &dyn RemoteFile, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut buffer = vec![0; len];
    file.read_at(offset, &mut buffer)?;
    Ok(buffer)
}

/// Reads a whole file in windows, as the copy stage of a conversion does.
fn read_whole(file: &dyn RemoteFile) -> Result<Vec<u8>> {
    let len = file.stamp().len;
    let mut bytes = Vec::new();
    for start in (0..len).step_by(1 << 20) {
        bytes.extend(read(file, start, usize::try_from((1 << 20).min(len - start)).unwrap())?);
    }
    Ok(bytes)
}
