//! `ferry check`: compares tensor names, dtypes and shapes with an expected list.

use super::args::Check;
use super::diff::print_differences;
use tensorferry::Session;

use tensorferry::Registry;
use tensorferry::compare::expected;
use tensorferry_sdk::{Purpose, Result};

/// Runs the command, and returns whether the input matches the expected list.
pub(super) fn run(command: &Check, registry: &Registry, _session: &Session) -> Result<bool> {
    let expected = expected::read(&command.against)?;
    let seen = registry.inspect(&command.input, command.reader.look(Purpose::SHOW))?;
    let differences = expected::compare(&expected, &seen.catalog);
    print_differences(&differences, seen.catalog.tensors().len(), command.json)?;
    seen.input.close()?;
    Ok(differences.is_empty())
}
