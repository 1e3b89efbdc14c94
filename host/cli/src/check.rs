//! `ferry check`.

use super::args::Check;
use super::diff::print;
use tensorferry::engine::context::session::Session;
use tensorferry::engine::convert::inspect::{Look, inspect};
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::read::part::Part;
use tensorferry::engine::tensors::expected;
use tensorferry_sdk::{Purpose, Result};

/// Whether the input is as expected.
pub(super) fn run(command: &Check, registry: &Registry, session: &Session) -> Result<bool> {
    let expected = expected::read(&command.against)?;
    let part = Part::parse(&command.part);
    let look = Look {
        from: command.from.as_deref(),
        options: &command.reader.options,
        part: &part,
        purpose: Purpose::SHOW,
    };
    let seen = inspect(&command.input, look, registry, session)?;
    let differences = expected::compare(&expected, &seen.catalog);
    print(&differences, seen.catalog.tensors().len(), command.json)?;
    seen.input.close()?;
    Ok(differences.is_empty())
}
