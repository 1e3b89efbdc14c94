//! Prints failures to stderr and, with `--json`, a document to stdout.

use super::args::{Arguments, Command, PluginCommand};
use super::{habits, terminal};
use clap::CommandFactory;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::{Map, Value, json};
use tensorferry::suggest;
use tensorferry_run::exit::exit_code;
use tensorferry_run::hint::hint;
use tensorferry_sdk::Error;

/// Maximum number of characters of a string in a JSON document. Values from files may be several
/// megabytes long.
const MAX_CHARACTERS: usize = 2_000;

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
        Command::Doctor { json }
        | Command::Formats { json, .. }
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
    // A command prints only one JSON document. `verify` has already printed its own document at
    // this point.
    if is_json && !terminal::has_answered() {
        print(error, hint.as_deref());
    }
}

/// Exits as clap does after an argument error or for `--help`.
pub(super) fn refuse_arguments(mut mistake: clap::Error) -> ! {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(error) = habits::answer(&arguments, &mistake) {
        report(&error, arguments.iter().any(|argument| argument == "--json"));
        std::process::exit(i32::from(exit_code(error.kind())));
    }
    match mistake.kind() {
        // Without this call, clap would also list the internal commands.
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

/// Suggests only the most similar command. clap would suggest several commands in an arbitrary
/// order.
fn name_nearest(mistake: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = mistake.get(ContextKind::InvalidSubcommand) else { return };
    let command = Arguments::command();
    let known = command.get_subcommands().filter(|known| !known.is_hide_set()).map(clap::Command::get_name);
    if let Some(near) = suggest(typed, known) {
        let near = ContextValue::Strings(vec![near.to_owned()]);
        mistake.insert(ContextKind::SuggestedSubcommand, near);
    }
}

/// If an unknown flag is a flag of a different program, suggests ferry's equivalent instead of the
/// flag that clap considers similar.
fn name_flag(mistake: &mut clap::Error) {
    let Some(ContextValue::String(typed)) = mistake.get(ContextKind::InvalidArg) else { return };
    let tip = FOREIGN_FLAGS.iter().find(|(flag, _)| flag == typed).map(|(_, tip)| StyledStr::from(*tip));
    mistake.remove(ContextKind::Suggested);
    if let Some(tip) = tip {
        mistake.remove(ContextKind::SuggestedArg);
        mistake.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
}

/// Flags of other programs, and the equivalent in ferry.
const FOREIGN_FLAGS: [(&str, &str); 6] = [
    ("--dtype", "convert dtypes with --step cast:DTYPE, as in --step cast:bf16"),
    ("--format", "set the output format with --to FORMAT, and the input format with --from FORMAT"),
    ("--input", "pass INPUT and OUTPUT without a flag"),
    ("--output", "pass INPUT and OUTPUT without a flag"),
    ("--overwrite", "overwrite an existing output with --force"),
    ("--workers", "set the number of threads with --threads N"),
];

fn print(error: &Error, hint: Option<&str>) {
    let _ = terminal::print(&format!("{}\n", document(error, hint)));
}

pub(super) fn document(error: &Error, hint: Option<&str>) -> Value {
    let short = |text: &str| text.chars().take(MAX_CHARACTERS).collect::<String>();
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
