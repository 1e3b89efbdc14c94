//! `ferry clean`: ends uploads that nobody completes any more.

use super::args::Clean;
use super::terminal;
use serde_json::json;
use tensorferry::Session;
use tensorferry::places::{place_of, shown};
use tensorferry_sdk::{Error, Result};

pub(super) fn run(command: &Clean, session: &Session) -> Result<()> {
    let found = place_of(&command.url, session)?;
    let (place, mut prefix) = found.ok_or_else(|| {
        Error::usage("what dead runs left on this machine, the next run there removes")
            .file(shown(&command.url))
            .expected("the URL of a store")
    })?;
    if !prefix.is_empty() && command.url.as_os_str().as_encoded_bytes().ends_with(b"/") {
        prefix.push('/');
    }
    let ended = place.end_uploads(&prefix, command.older_than)?;
    if command.json {
        return terminal::print_json(&json!({ "ended": ended }));
    }
    let lines = ended.iter().map(|url| format!("ended the upload of {url}\n"));
    let text: String = lines.collect();
    terminal::print(if ended.is_empty() { "no upload is that old\n" } else { &text })
}
