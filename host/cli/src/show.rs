//! `ferry show`: prints tensor values or table rows.

mod array_text;
mod float_text;
mod index;
mod json;
mod names;
pub(crate) mod records;
mod table;
mod tensors;
mod words;

use super::args::Show;
use super::pipes;
use tensorferry::formats::holds_records;
use tensorferry::{Registry, Session, places};

use tensorferry_sdk::{Error, Purpose, Result};

pub(super) fn run(command: &Show, registry: &Registry, session: &Session) -> Result<()> {
    let input = pipes::input(&command.input)?;
    let look = command.reader.look(Purpose::SHOW);
    let found = registry.find(&input.path, look.choice())?;
    if holds_records(&found.format.description) {
        return records::run(command, &found, session);
    }
    let of_records = [("--rows", command.rows.is_some()), ("--columns", !command.columns.is_empty())];
    if let Some((flag, _)) = of_records.iter().find(|(_, is_there)| *is_there) {
        let problem = format!("{flag} needs a dataset, and the input contains tensors");
        let error = Error::usage(problem).file(places::shown(&command.input));
        return Err(error.hint("name a tensor with a slice instead, as in 'NAME[0:10]'"));
    }
    tensors::run(command, &found, registry)
}
