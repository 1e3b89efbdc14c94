//! Formats the description of a model, which is printed between the sizes and the list of tensors.

use crate::terminal::bytes;
use tensorferry::describe::{ModelDescription, Pipeline, Tokenizer};
use tensorferry_run::human::short;

/// Returns the lines that describe a model. Returns no lines if nothing is known about the model.
pub(super) fn lines(model: &ModelDescription) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |key: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("{key}: {value}")));
    };
    say("name", model.name.clone());
    say("architecture", model.architecture.clone());
    say("library", model.library.clone());
    say("file type", model.file_type.map(|it| it.name.map_or_else(|| it.number.to_string(), str::to_owned)));
    say("quantization", model.quantization.as_ref().map(quantized));
    let problem = model.quantization.as_ref().and_then(|found| found.problem.as_ref());
    say("cannot dequantize", problem.cloned());
    if let Some(adapter) = &model.adapter {
        let numbers: Vec<String> = adapter.ranks.iter().map(u64::to_string).collect();
        let rank = if numbers.is_empty() { String::new() } else { format!(", rank {}", numbers.join(", ")) };
        let alpha = adapter.alpha.map_or(String::new(), |alpha| format!(", alpha {alpha}"));
        say("adapter", Some(format!("{}{rank}{alpha}", adapter.method)));
        let base = adapter.base_model.clone();
        say("base model", Some(base.unwrap_or_else(|| "unknown".to_owned())));
        let targets: Vec<&str> = adapter.targets.iter().map(String::as_str).collect();
        say("targets", (!targets.is_empty()).then(|| targets.join(", ")));
    }
    if let Some(file) = &model.single_file {
        for held in &file.models {
            let count = short(held.parameters);
            say(held.role, Some(format!("{count} parameters in {}*", held.prefix)));
        }
    }
    say("tokenizer", model.tokenizer.as_ref().map(tokenizer));
    lines
}

fn quantized(found: &tensorferry::describe::Quantization) -> String {
    let mut said = vec![found.method.clone()];
    said.extend(found.variant.clone());
    if found.weights > 0 {
        let weights = if found.weights == 1 { "weight" } else { "weights" };
        said.push(format!("{} {weights} with {} parameters", found.weights, short(found.parameters)));
    }
    said.extend(found.bits_per_weight.map(|bits| format!("{bits} bits per weight")));
    said.join(", ")
}

/// Describes a tokenizer on one line.
pub(super) fn tokenizer(found: &Tokenizer) -> String {
    let mut said = Vec::new();
    said.extend(found.class.clone());
    said.extend(found.model.clone());
    said.extend(found.tokens.map(|count| format!("{count} tokens")));
    said.join(", ")
}

/// Describes a pipeline. The descriptions of its models follow the pipeline's description.
pub(super) fn pipeline(found: &Pipeline) -> String {
    let mut text = format!("{} ({})\n", found.class, found.library);
    for component in &found.components {
        let missing = if component.is_there { "" } else { ", missing" };
        text += &format!("  {}: {} of {}{missing}\n", component.name, component.class, component.library);
    }
    text.push('\n');
    text
}

/// Describes a folder with a tokenizer but no model.
pub(super) fn only_tokenizer(path: &str, found: &Tokenizer) -> String {
    let mut text = format!("{path} (a tokenizer without a model)\n");
    let said = tokenizer(found);
    if !said.is_empty() {
        text += &format!("  {said}\n");
    }
    text += &format!("  {}\n", found.files.join(", "));
    text
}

/// Lists the names of a weight's parts, without the prefix that they share with the weight's name.
pub(super) fn parts(name: &str, parts: &[String]) -> String {
    let start = name.strip_suffix("weight").unwrap_or(name);
    let short = |part: &String| {
        let rest = part.strip_prefix(start).filter(|rest| !rest.is_empty()).unwrap_or(part);
        rest.trim_start_matches('.').to_owned()
    };
    parts.iter().map(short).collect::<Vec<_>>().join(" + ")
}

/// Formats the size of a model. If the model is quantized, also formats the number of bits per
/// parameter.
pub(super) fn sizes(model: &ModelDescription, stored: u64) -> String {
    let bits = model.count.bits_per_parameter.filter(|_| model.is_quantized());
    let bits = bits.map_or(String::new(), |bits| format!(", {bits} bits per parameter"));
    format!("{}{bits}", bytes(stored))
}
