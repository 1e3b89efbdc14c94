//! Recognizes arguments in the style of other programs. The error for such arguments suggests the
//! equivalent ferry command.

use super::terminal::quoted;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::path::Path;
use tensorferry_sdk::Error;

/// Parts of the names of llama.cpp quantizations that ferry cannot write, because they need an
/// importance matrix or mix several types.
const LLAMA_TYPES: [&str; 4] = ["_k", "iq", "q2", "q3"];

/// Returns an error with a hint if the arguments have a well-known meaning in another program.
/// `arguments` does not include the program name.
pub(super) fn answer(arguments: &[String], mistake: &clap::Error) -> Option<Error> {
    let text = |kind| match mistake.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match mistake.kind() {
        ErrorKind::InvalidSubcommand => unknown_command(arguments, text(ContextKind::InvalidSubcommand)?),
        ErrorKind::ValueValidation => {
            let (flag, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
            let is_output = flag.starts_with("--output-option") && !value.contains('=');
            is_output.then(|| of_output(arguments, value))
        }
        ErrorKind::UnknownArgument if text(ContextKind::InvalidArg)?.starts_with("--quantize") => {
            Some(of_quantize(arguments))
        }
        _ => None,
    }
}

/// Handles `ferry version`, `ferry model.bin` and `ferry model.bin model.safetensors`.
fn unknown_command(arguments: &[String], first: &str) -> Option<Error> {
    let (options, words) = arguments.split_at(arguments.iter().position(|argument| argument == first)?);
    let unknown = Error::usage(format!("{first:?} is not a command"));
    if first == "version" {
        return Some(unknown.hint("run `ferry --version`"));
    }
    let is_path = Path::new(first).exists() || first.contains(['.', '/']);
    let command =
        if words.iter().filter(|word| !word.starts_with('-')).count() == 1 { "inspect" } else { "convert" };
    let (options, words) = (options.iter().map(String::as_str), words.iter().map(String::as_str));
    let words = ["ferry"].into_iter().chain(options).chain([command]).chain(words);
    is_path.then(|| unknown.hint(format!("run `{}`", line(words))))
}

/// Handles `ferry convert model.bin -o model.safetensors`.
fn of_output(arguments: &[String], output: &str) -> Error {
    let attached = format!("-o{output}");
    let is_option = |argument: &str| {
        [output, "-o", "--output-option", &*attached].contains(&argument)
            || argument.strip_prefix("--output-option=") == Some(output)
    };
    let others = arguments.iter().map(String::as_str).filter(|argument| !is_option(argument));
    let error = Error::usage(format!("-o sets an output option as KEY=VALUE, not the output {output:?}"));
    if !output.contains(['.', '/']) {
        return error.hint("run `ferry formats ID` for the options of a format");
    }
    error.hint(format!("run `{}`", line(["ferry"].into_iter().chain(others).chain([output]))))
}

/// Handles `--quantize q8_0`.
fn of_quantize(arguments: &[String]) -> Error {
    let place = arguments.iter().position(|argument| argument.starts_with("--quantize"));
    let words = place.map(|place| &arguments[place..]).unwrap_or_default();
    let value = match words {
        [flag, ..] if flag.contains('=') => flag.split_once('=').map(|(_, value)| value),
        [_, value, ..] => Some(value.as_str()),
        _ => None,
    };
    let value = value.unwrap_or("q8_0").to_ascii_lowercase();
    let error = Error::usage("there is no flag --quantize");
    if LLAMA_TYPES.iter().any(|part| value.contains(part)) {
        let hint = format!(
            "convert to GGUF first, then run llama.cpp's `llama-quantize model.gguf {}`",
            value.to_uppercase()
        );
        return error.hint(hint);
    }
    error.hint(format!("pass -o quantize={value} when the output is GGUF"))
}

fn line<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(quoted).collect::<Vec<_>>().join(" ")
}
