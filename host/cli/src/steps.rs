//! `ferry steps`: lists conversion steps and recipes, or explains one.

use super::args::Steps;
use super::terminal::{self, quoted};
use serde_json::{Value, json};
use std::fmt::Write;
use tensorferry::or_which;
use tensorferry::steps::recipe::{self, Recipe};
use tensorferry::steps::{ArgumentSpec, Key, Occurrence, SELECTOR_KEYS, Signature, signatures};
use tensorferry_sdk::{Error, Result};

pub(super) fn run(command: &Steps) -> Result<()> {
    let Some(name) = &command.name else {
        return if command.json {
            terminal::print_json(&everything()?)
        } else {
            terminal::print(&overview()?)
        };
    };
    if let Some(kind) = signatures().into_iter().find(|kind| kind.name == name) {
        return terminal::answer(command.json, || kind_record(kind), || text_of_kind(kind));
    }
    let names: Vec<&str> = signatures().into_iter().map(|kind| kind.name).chain(recipe::names()).collect();
    let unknown = || Error::usage(format!("unknown step or recipe {name:?}{}", or_which(name, names)));
    let recipe = recipe::find(name)?.ok_or_else(unknown)?;
    terminal::answer(command.json, || recipe_record(name, &recipe), || text_of_recipe(name, &recipe))
}

fn overview() -> Result<String> {
    let mut text = "Steps (run `ferry steps NAME` for details):\n".to_owned();
    for kind in signatures() {
        let _ = writeln!(text, "  {:16} {}", kind.name, kind.summary);
        if let Some(example) = kind.examples.first() {
            let _ = writeln!(text, "  {:16} --step {}", "", quoted(example));
        }
    }
    text += "\nRecipes:\n";
    for name in recipe::names() {
        let summary = recipe::find(name)?.map(|recipe| recipe.summary).unwrap_or_default();
        let _ = writeln!(text, "  {name:16} {summary}");
    }
    text += "\nMost steps take keys that select tensors; a tensor must match all of them:\n";
    text += &text_of_keys(SELECTOR_KEYS.iter());
    text += "\nA step is NAME[:ARG][,KEY=VALUE]...; put a field that contains a comma in double quotes.\n";
    Ok(text)
}

fn text_of_keys<'a>(keys: impl Iterator<Item = &'a Key>) -> String {
    let line = |key: &Key| {
        let many = if matches!(key.count, Occurrence::Any | Occurrence::Some) { " (repeatable)" } else { "" };
        let spelled = format!("{}={}", key.name, key.value);
        format!("  {spelled:24} {}{many}\n", key.help)
    };
    keys.map(line).collect()
}

fn text_of_kind(kind: &Signature) -> String {
    let argument = match kind.argument {
        ArgumentSpec::None => String::new(),
        ArgumentSpec::Optional(word, _) => format!("[:{word}]"),
        ArgumentSpec::Required(word, _) => format!(":{word}"),
    };
    let keys = if kind.keys.is_empty() && !kind.selects { "" } else { "[,KEY=VALUE]..." };
    let mut text = format!("{}{argument}{keys}\n  {}\n", kind.name, kind.summary);
    for line in kind.details.lines() {
        let _ = writeln!(text, "  {line}");
    }
    if let ArgumentSpec::Optional(word, help) | ArgumentSpec::Required(word, help) = kind.argument {
        let _ = writeln!(text, "\n  {word:24} {help}");
    }
    if !kind.keys.is_empty() {
        let _ = write!(text, "\n{}", text_of_keys(kind.keys.iter()));
    }
    if kind.selects {
        let _ = write!(text, "\nOnly tensors:\n{}", text_of_keys(SELECTOR_KEYS.iter()));
    }
    text += "\nExamples:\n";
    for example in kind.examples {
        let _ = writeln!(text, "  --step {}", quoted(example));
    }
    text
}

fn text_of_recipe(name: &str, recipe: &Recipe) -> String {
    let mut text = format!("{name}\n  {}\n", recipe.summary);
    for line in recipe.details.trim().lines() {
        let _ = writeln!(text, "  {line}");
    }
    if let Some(inverse) = &recipe.inverse {
        let _ = writeln!(text, "  Inverse: {inverse}");
    }
    if !recipe.parameters.is_empty() {
        text.push('\n');
    }
    for (name, parameter) in &recipe.parameters {
        let default =
            parameter.default.as_ref().map(|value| format!(" [default: {value}]")).unwrap_or_default();
        let _ = writeln!(text, "  {:24} {}{default}", format!("{name}=TEXT"), parameter.help);
    }
    text += "\nSteps:\n";
    for step in &recipe.steps {
        let _ = writeln!(text, "  {step}");
    }
    text
}

fn everything() -> Result<Value> {
    let recipes = recipe::names().filter_map(|name| {
        let recipe = recipe::find(name).transpose()?;
        Some(recipe.map(|recipe| recipe_record(name, &recipe)))
    });
    Ok(json!({
        "steps": signatures().into_iter().map(kind_record).collect::<Vec<_>>(),
        "recipes": recipes.collect::<Result<Vec<_>>>()?,
        "selectors": SELECTOR_KEYS.iter().map(key_record).collect::<Vec<_>>(),
    }))
}

fn kind_record(kind: &Signature) -> Value {
    let argument = match kind.argument {
        ArgumentSpec::None => Value::Null,
        ArgumentSpec::Optional(word, help) => json!({ "value": word, "help": help, "required": false }),
        ArgumentSpec::Required(word, help) => json!({ "value": word, "help": help, "required": true }),
    };
    json!({
        "name": kind.name,
        "summary": kind.summary,
        "details": kind.details,
        "argument": argument,
        "keys": kind.keys.iter().map(key_record).collect::<Vec<_>>(),
        "selects": kind.selects,
        "examples": kind.examples,
    })
}

fn key_record(key: &Key) -> Value {
    json!({
        "key": key.name,
        "value": key.value,
        "help": key.help,
        "required": matches!(key.count, Occurrence::One | Occurrence::Some),
        "repeats": matches!(key.count, Occurrence::Any | Occurrence::Some),
    })
}

fn recipe_record(name: &str, recipe: &Recipe) -> Value {
    let parameter = |(name, parameter): (&String, &recipe::Parameter)| json!({ "key": name, "default": parameter.default, "help": parameter.help });
    json!({
        "name": name,
        "summary": recipe.summary,
        "details": recipe.details.trim(),
        "inverse": recipe.inverse,
        "parameters": recipe.parameters.iter().map(parameter).collect::<Vec<_>>(),
        "steps": recipe.steps,
    })
}
