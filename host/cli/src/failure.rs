//! A failure, as it is told: to a person on stderr, and with `--json` to a program on stdout.

use super::args::{Arguments, Command, PluginCommand};
use super::terminal;
use clap::CommandFactory;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::{Map, Value, json};
use tensorferry::suggest;
use tensorferry_run::hint::hint;
use tensorferry_sdk::Error;

/// Characters of a message or a name that a document has: what a file holds may be a megabyte.
const MOST_CHARACTERS: usize = 2_000;

/// Whether a command's answer is JSON.
pub(super) fn is_json(command: &Command) -> bool {
    match command {
        Command::Convert(command) => command.json,
        Command::Inspect(command) => command.json,
        Command::Show(command) => command.json,
        Command::Index(command) => command.json,
        Command::Diff(command) => command.json,
        Command::Check(command) => command.json,
        Command::Run(command) => command.json,
        Command::Plan(command) => command.json,
        Command::Work(command) => command.json,
        Command::Verify(command) => command.json,
        Command::Clean(command) => command.json,
        Command::Steps(command) => command.json,
        Command::Formats { json, .. }
        | Command::Plugin(PluginCommand::List { json } | PluginCommand::Check { json, .. }) => *json,
        Command::Plugin(PluginCommand::Test(command)) => command.json,
        Command::Cat(_)
        | Command::View(_)
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

pub(super) fn report(error: &Error, is_json: bool) {
    terminal::message("error", error);
    let hint = hint(error);
    if let Some(hint) = &hint {
        terminal::message("  hint", hint);
    }
    // A command prints one document: `verify` has printed its own.
    if is_json && !terminal::has_answered() {
        print(error, hint.as_deref());
    }
}

/// Ends the program as clap does for `mistake` in the arguments, or for help, which is none.
pub(super) fn refuse_arguments(mut mistake: clap::Error) -> ! {
    match mistake.kind() {
        // clap names all commands, those among them that are not for people.
        ErrorKind::MissingSubcommand => drop(mistake.remove(ContextKind::ValidSubcommand)),
        ErrorKind::InvalidSubcommand => name_nearest(&mut mistake),
        ErrorKind::UnknownArgument => name_flag(&mut mistake),
        _ => {}
    }
    if mistake.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let text = mistake.render().to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let tip = text.lines().find_map(|line| line.trim_start().strip_prefix("tip: "));
        print(&Error::usage(message), tip);
    }
    mistake.exit()
}

/// The command that is nearest to what was typed, where clap has several in no order.
fn name_nearest(mistake: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = mistake.get(ContextKind::InvalidSubcommand) else { return };
    let command = Arguments::command();
    let known = command.get_subcommands().filter(|known| !known.is_hide_set()).map(clap::Command::get_name);
    if let Some(near) = suggest(typed, known) {
        let near = ContextValue::Strings(vec![near.to_owned()]);
        mistake.insert(ContextKind::SuggestedSubcommand, near);
    }
}

/// What a flag of other programs is called here, instead of clap's guess; its other tip is how to name a file like that.
fn name_flag(mistake: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = mistake.get(ContextKind::InvalidArg) else { return };
    let tip = ELSEWHERE.iter().find(|(flag, _)| flag == typed).map(|(_, tip)| StyledStr::from(*tip));
    mistake.remove(ContextKind::Suggested);
    if let Some(tip) = tip {
        mistake.remove(ContextKind::SuggestedArg);
        mistake.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
}

/// What other programs call what ferry calls otherwise.
const ELSEWHERE: [(&str, &str); 6] = [
    ("--dtype", "--step cast:DTYPE gives tensors another dtype, as in --step cast:bf16"),
    ("--format", "--to FORMAT is what is written, --from FORMAT what is read"),
    ("--input", "INPUT and OUTPUT are named without a flag"),
    ("--output", "INPUT and OUTPUT are named without a flag"),
    ("--overwrite", "--force replaces an output that is there"),
    ("--workers", "--threads N is how many threads work at once"),
];

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
