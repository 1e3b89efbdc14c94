//! `ferry man`: prints a manual page that is generated from the help of the program and its
//! commands.

use super::args::Arguments;
use super::terminal;
use clap::CommandFactory;
use clap_mangen::Man;
use tensorferry_sdk::{Error, Result};

pub(super) fn run() -> Result<()> {
    let program = Arguments::command();
    let mut page = Vec::new();
    let whole = Man::new(program.clone()).section("1");
    whole.render(&mut page)?;
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("ferry {}", command.get_name()).to_uppercase();
        page.extend(format!(".SH \"{name}\"\n").into_bytes());
        let of_command = Man::new(command.clone());
        of_command.render_description_section(&mut page)?;
        of_command.render_options_section(&mut page)?;
    }
    let page = String::from_utf8(page).map_err(|_| Error::io("the help text is not UTF-8"))?;
    terminal::print(&page)
}
