//! `ferry clean`: aborts unfinished uploads in an object store.

use super::args::Clean;
use super::terminal;
use serde_json::json;
use tensorferry::Session;
use tensorferry::places::{place_of, shown};
use tensorferry_sdk::{Error, Result};

pub(super) fn run(command: &Clean, session: &Session) -> Result<()> {
    let found = place_of(&command.url, session)?;
    let (place, mut prefix) = found.ok_or_else(|| {
        Error::usage(format!("{} is not the URL of an object store", shown(&command.url)))
            .hint("pass a URL such as s3://bucket/prefix; on this machine, the next run removes leftover files itself")
    })?;
    if !prefix.is_empty() && command.url.as_os_str().as_encoded_bytes().ends_with(b"/") {
        prefix.push('/');
    }
    let ended = place.end_uploads(&prefix, command.older_than)?;
    if command.json {
        return terminal::print_json(&json!({ "ended": ended }));
    }
    let lines = ended.iter().map(|url| format!("aborted the upload of {url}\n"));
    let text: String = lines.collect();
    terminal::print(if ended.is_empty() { "no unfinished uploads are that old\n" } else { &text })
}
