//! `ferry check`.

use super::args::Check;
use super::diff::print;
use tensorferry_host::expected;
use tensorferry_host::inspect::inspect;
use tensorferry_host::part::Part;
use tensorferry_host::plugins::Plugins;
use tensorferry_host::run::Run;
use tensorferry_sdk::Result;

/// Whether the input is as expected.
pub(super) fn run(command: &Check, plugins: &Plugins, run: &Run) -> Result<bool> {
    let expected = expected::read(&command.against)?;
    let part = Part::parse(&command.part);
    let seen =
        inspect(&command.input, command.from.as_deref(), &command.reader.options, &part, plugins, run)?;
    let differences = expected::compare(&expected, &seen.catalog);
    print(&differences, seen.catalog.tensors().len(), command.json)?;
    seen.input.close()?;
    Ok(differences.is_empty())
}
