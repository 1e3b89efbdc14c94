//! A failure, as it is told: to a person on stderr, and with `--json` to a program on stdout.

use super::args::{Command, PluginCommand};
use super::terminal;
use serde_json::{Map, Value, json};
use tensorferry_run::hint::hint;
use tensorferry_sdk::Error;

/// Characters of a message or a name that a document has: what a file holds may be a megabyte.
const MOST_CHARACTERS: usize = 2_000;

/// Whether a command's answer is JSON.
pub(super) fn is_json(command: &Command) -> bool {
    match command {
        Command::Convert(command) => command.json,
        Command::Inspect(command) => command.json,
        Command::Index(command) => command.json,
        Command::Diff(command) => command.json,
        Command::Check(command) => command.json,
        Command::Run(command) => command.json,
        Command::Verify(command) => command.json,
        Command::Steps(command) => command.json,
        Command::Formats { json, .. }
        | Command::Plugin(PluginCommand::List { json } | PluginCommand::Check { json, .. }) => *json,
        Command::Plugin(PluginCommand::Test(command)) => command.json,
        Command::Cat(_)
        | Command::Job { .. }
        | Command::ScanPlugins { .. }
        | Command::ExaminePlugin { .. }
        | Command::Plugin(
            PluginCommand::New(_)
            | PluginCommand::Install { .. }
            | PluginCommand::Remove { .. }
            | PluginCommand::Trust { .. },
        )
        | Command::Recover { .. }
        | Command::Man
        | Command::Completions { .. } => false,
    }
}

/// Tells of a failure.
pub(super) fn tell(error: &Error, is_json: bool) {
    terminal::message("error", error);
    // One document is one answer: `verify` has given its own.
    if is_json && !terminal::has_answered() {
        print(error, hint(error.kind()));
    }
}

/// Ends the program as clap does for `mistake` in the arguments, or for help, which is none.
pub(super) fn refuse_arguments(mistake: &clap::Error) -> ! {
    if mistake.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let text = mistake.render().to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let tip = text.lines().find_map(|line| line.trim_start().strip_prefix("tip: "));
        print(&Error::usage(message), tip);
    }
    mistake.exit()
}

/// One line, as the lines of `run` are.
fn print(error: &Error, hint: Option<&str>) {
    let _ = terminal::print(&format!("{}\n", document(error, hint)));
}

pub(super) fn document(error: &Error, hint: Option<&str>) -> Value {
    let short = |text: &str| text.chars().take(MOST_CHARACTERS).collect::<String>();
    let keys = ["file", "tensor", "record", "column", "offset", "expected", "found", "hint"];
    let mut fields: Map<String, Value> = keys.map(|key| (key.to_owned(), Value::Null)).into_iter().collect();
    fields.insert("kind".to_owned(), error.kind().word().into());
    fields.insert("message".to_owned(), short(error.message()).into());
    fields.insert("hint".to_owned(), hint.into());
    for (name, value) in error.details() {
        let number = matches!(name, "record" | "offset").then(|| value.parse::<u64>().ok()).flatten();
        fields.insert(name.to_owned(), number.map_or_else(|| short(&value).into(), Value::from));
    }
    json!({ "error": fields })
}
