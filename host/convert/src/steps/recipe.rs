//! A recipe is a named list of steps in a TOML file.
//!
//! ```toml
//! summary = "remove a prefix from names that start with it"
//! details = "Other names are unchanged."
//! inverse = "add-prefix"
//!
//! [parameters.prefix]
//! default = "module."
//! help = "prefix of the names"
//!
//! [[steps]]
//! step = "rename"
//! arg = "^{{re:prefix}}"
//! to = ""
//! ```
//!
//! Each step is a string or a table, as in [`Spec`], and may be another recipe. In an argument or a
//! value, `{{NAME}}` is replaced by the parameter NAME, which is passed as a key of the recipe
//! (`strip-prefix,prefix=net.`). `{{re:NAME}}` is replaced by a regular expression that matches the
//! parameter. A parameter without a default is required. `inverse` names the recipe for the
//! opposite direction. Recipes in `recipes/` are built in. `@PATH` refers to a user's own file.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use tensorferry_core::context::regular_file;
use tensorferry_core::context::suggest::or_which;
use tensorferry_sdk::{Error, Result};
use tensorferry_tensors::steps::spec::{Field, Spec};

const BUILT_IN: &[(&str, &str)] = &[
    ("add-prefix", include_str!("recipes/add-prefix.toml")),
    ("bert-from-tf", include_str!("recipes/bert-from-tf.toml")),
    ("bert-to-tf", include_str!("recipes/bert-to-tf.toml")),
    ("flax-to-torch", include_str!("recipes/flax-to-torch.toml")),
    ("keras-to-torch", include_str!("recipes/keras-to-torch.toml")),
    ("llama-from-ggml", include_str!("recipes/llama-from-ggml.toml")),
    ("llama-from-megatron", include_str!("recipes/llama-from-megatron.toml")),
    ("llama-to-ggml", include_str!("recipes/llama-to-ggml.toml")),
    ("llama-to-megatron", include_str!("recipes/llama-to-megatron.toml")),
    ("qwen-from-ggml", include_str!("recipes/qwen-from-ggml.toml")),
    ("qwen-to-ggml", include_str!("recipes/qwen-to-ggml.toml")),
    ("strip-prefix", include_str!("recipes/strip-prefix.toml")),
    ("strip-wrappers", include_str!("recipes/strip-wrappers.toml")),
    ("torch-to-flax", include_str!("recipes/torch-to-flax.toml")),
    ("torch-to-keras", include_str!("recipes/torch-to-keras.toml")),
];

/// Maximum size of a recipe file.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub summary: String,
    /// A detailed explanation for users.
    #[serde(default)]
    pub details: String,
    /// The name of the recipe for the opposite direction.
    pub inverse: Option<String>,
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    pub steps: Vec<Spec>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The default value of the parameter. A parameter without a default is required.
    pub default: Option<String>,
    pub help: String,
}

/// Returns the names of the built-in recipes.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// Returns the recipe with this name or in this file, or `None` if the recipe does not exist.
pub fn find(name: &str) -> Result<Option<Recipe>> {
    if let Some(path) = name.strip_prefix('@') {
        return read(path).map(Some);
    }
    let built_in = BUILT_IN.iter().find(|(built_in, _)| *built_in == name);
    built_in.map(|(name, text)| parse(text).map_err(|error| error.context(name))).transpose()
}

fn read(path: &str) -> Result<Recipe> {
    let failed = |error: std::io::Error| Error::from(error).file(path);
    let mut text = String::new();
    let read = regular_file::open(Path::new(path))
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::usage("the recipe file does not exist").file(path))
        }
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(Error::usage("the recipe is not UTF-8 text").file(path))
        }
        Err(error) => Err(failed(error)),
        Ok(len) if len as u64 > MAX_BYTES => Err(Error::limit("the recipe file is too long")
            .file(path)
            .expected(format!("at most {MAX_BYTES} bytes"))),
        Ok(_) => parse(&text).map_err(|error| error.file(path)),
    }
}

fn parse(text: &str) -> Result<Recipe> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        let (line, column) =
            (before.lines().count().max(1), before.lines().last().map_or(0, |line| line.chars().count()) + 1);
        Error::usage(format!("line {line}, column {column}: {}", error.message()))
    })
}

/// Returns the steps of a recipe with its parameters filled in, or `None` if the recipe does not
/// exist.
pub fn steps(spec: &Spec) -> Result<Option<Vec<Spec>>> {
    let Some(recipe) = find(&spec.name)? else { return Ok(None) };
    if let Some(argument) = &spec.argument {
        return Err(argument.error("a recipe takes nothing after a colon: pass its parameters as KEY=VALUE"));
    }
    let parameters = recipe.fill(spec)?;
    let fill = |(number, step): (usize, &Spec)| {
        let filled = substitute(step, &parameters);
        filled.map_err(|error| error.context(format!("step {number} of {} ({step})", spec.name)))
    };
    (1..).zip(&recipe.steps).map(fill).collect::<Result<_>>().map(Some)
}

impl Recipe {
    fn fill(&self, spec: &Spec) -> Result<BTreeMap<&str, String>> {
        let mut values = BTreeMap::new();
        for (key, value) in &spec.options {
            let Some((name, _)) = self.parameters.get_key_value(key) else {
                let known: Vec<&str> = self.parameters.keys().map(String::as_str).collect();
                let which = if known.is_empty() { "; it has none".to_owned() } else { or_which(key, known) };
                return Err(value.error(format!("{} has no parameter {key:?}{which}", spec.name)));
            };
            if values.insert(name.as_str(), value.text.clone()).is_some() {
                return Err(value.error(format!("{key}= is given twice")));
            }
        }
        for (name, parameter) in &self.parameters {
            if !values.contains_key(name.as_str()) {
                let default = parameter.default.clone();
                let missing = || Error::usage(format!("expected {name}=: {}", parameter.help));
                values.insert(name, default.ok_or_else(missing)?);
            }
        }
        Ok(values)
    }
}

fn substitute(step: &Spec, parameters: &BTreeMap<&str, String>) -> Result<Spec> {
    let fill = |field: &Field| -> Result<Field> {
        let mut text = String::new();
        let mut rest = field.text.as_str();
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").ok_or_else(|| field.error("expected }} after {{"))?;
            let (escapes, name) = name.strip_prefix("re:").map_or((false, name), |name| (true, name));
            let value = parameters.get(name);
            let which = || or_which(name, parameters.keys().copied().collect::<Vec<_>>());
            let value = value
                .ok_or_else(|| field.error(format!("the recipe has no parameter {name:?}{}", which())))?;
            text += before;
            text += &if escapes { regex_syntax::escape(value) } else { value.clone() };
            rest = after;
        }
        Ok(Field { text: text + rest, column: field.column })
    };
    let options = step.options.iter().map(|(key, value)| Ok((key.clone(), fill(value)?)));
    Ok(Spec {
        name: step.name.clone(),
        argument: step.argument.as_ref().map(fill).transpose()?,
        options: options.collect::<Result<_>>()?,
    })
}
