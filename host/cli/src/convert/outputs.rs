//! Derives output paths for several inputs from a template.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use tensorferry::Registry;
use tensorferry_run::template::{Fields, fill};
use tensorferry_sdk::file_name::strip_suffix;
use tensorferry_sdk::{Error, Result, Side};

/// Returns each input with its output path. A template that is a folder means `FOLDER/{stem}` with
/// the extension of the format `to`.
pub(super) fn of(
    inputs: &[PathBuf],
    template: &str,
    to: Option<&str>,
    registry: &Registry,
) -> Result<Vec<(PathBuf, PathBuf)>> {
    let template = match template {
        folder if folder.ends_with('/') || Path::new(folder).is_dir() => in_folder(folder, to, registry)?,
        template => template.to_owned(),
    };
    let mut taken: HashMap<PathBuf, &Path> = HashMap::new();
    let mut pairs = Vec::new();
    for input in inputs {
        let output = PathBuf::from(filled(&template, &fields(input, registry))?);
        if let Some(other) = taken.insert(output.clone(), input) {
            let (first, second, output) = (other.display(), input.display(), output.display());
            let error = Error::usage(format!("{first} and {second} have the same output, {output}"));
            return Err(error.hint("use {stem}, {name} or {parent} in the template of -O to separate them"));
        }
        pairs.push((input.clone(), output));
    }
    Ok(pairs)
}

fn in_folder(folder: &str, to: Option<&str>, registry: &Registry) -> Result<String> {
    let to = to.ok_or_else(|| {
        Error::usage(format!("-O {folder} is a folder, and the output format is unknown"))
            .hint("pass --to FORMAT, or a template with an extension, such as -O 'out/{stem}.safetensors'")
    })?;
    let format = registry.format(to, Side::Writer)?;
    let ending = format.description.suffixes.first().map_or("", String::as_str);
    let folder = folder.trim_end_matches('/').replace('{', "{{").replace('}', "}}");
    Ok(format!("{folder}/{{stem}}{ending}"))
}

/// Returns whether a string is a single, normal path component.
fn is_name(text: &str) -> bool {
    matches!(Path::new(text).components().collect::<Vec<_>>()[..], [Component::Normal(name)] if name == text)
}

/// Returns the template fields of an input. `{name}` is the file name of the input, and `{parent}`
/// is its folder. `{stem}` is the file name without the extension of the input's format. If only
/// dots would remain, `{stem}` keeps the extension.
fn fields(input: &Path, registry: &Registry) -> Fields {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map_or(String::new(), |part| part.to_string_lossy().into_owned())
    };
    let name = text(input.file_name());
    let formats = registry.formats().iter();
    let endings = formats.flat_map(|format| format.description.suffixes.iter());
    let stems = endings.filter_map(|ending| strip_suffix(&name, ending));
    let stem = stems.filter(|stem| is_name(stem)).min_by_key(|stem| stem.len()).unwrap_or(&name).to_owned();
    let parent = text(input.parent().map(Path::as_os_str));
    let parent = if parent.is_empty() { ".".to_owned() } else { parent };
    [("stem", stem), ("name", name), ("parent", parent)].into()
}

fn filled(template: &str, fields: &Fields) -> Result<String> {
    // A template that starts with `{parent}` puts each output next to its input. With any other
    // template, each output must be inside the folder that the template names.
    let is_below = !template.starts_with("{parent}");
    let leaves = |(field, text): &&(&str, String)| match *field {
        "parent" => {
            is_below
                && Path::new(text)
                    .components()
                    .any(|it| matches!(it, Component::ParentDir | Component::RootDir))
        }
        _ => !is_name(text),
    };
    let is_used = |(field, _): &&(&str, String)| template.contains(&format!("{{{field}}}"));
    if let Some((field, text)) = fields.iter().filter(is_used).find(leaves) {
        let message = format!("-O {template}: {{{field}}} is {text:?}, which is outside the output folder");
        return Err(Error::usage(message).hint("use {stem} or {name}, and pass inputs as plain file names"));
    }
    fill(template, fields).map_err(|field| {
        let message = match &*field {
            "" => format!("-O {template}: a brace is not closed"),
            field => format!("-O {template}: unknown field {{{field}}}"),
        };
        Error::usage(message).hint("use {stem}, {name} or {parent}; write a literal brace as {{ or }}")
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn no_field_leaves_the_output_s_folder() {
        let registry = Registry::new().with_all(tensorferry_sdk::memory::formats());
        let ending =
            registry.formats().iter().find_map(|it| it.description.suffixes.first().cloned()).unwrap();
        let of = |input: &str, template: &str| {
            let found = of(&[PathBuf::from(input)], template, None, &registry)?;
            Ok::<_, Error>(found[0].1.display().to_string())
        };
        let dots = format!("a/..{ending}");
        assert_eq!(of(&dots, "out/{stem}/w").unwrap(), format!("out/..{ending}/w"));
        for (input, template) in [
            ("..", "out/{stem}/w"),
            ("a/..", "out/{name}/w"),
            ("../../a/x.pt", "out/{parent}/{name}"),
            ("/etc/x.pt", "out/{parent}/{name}"),
        ] {
            let error = of(input, template).unwrap_err().to_string();
            assert!(error.contains("outside the output folder"), "{error}");
        }
        assert_eq!(of("../a/x.pt", "{parent}/{name}.z").unwrap(), "../a/x.pt.z");
        assert_eq!(of("a/b/x.pt", "out/{parent}/{name}").unwrap(), "out/a/b/x.pt");
    }

    #[test]
    fn each_input_has_an_output_of_its_own() {
        let registry = Registry::new();
        let inputs = ["a/x.pt", "b/y.pt"].map(PathBuf::from);
        let of = |template, to| of(&inputs, template, to, &registry);
        let outputs = of("{parent}/{name}.z", None).unwrap();
        let outputs: Vec<&Path> = outputs.iter().map(|(_, output)| output.as_path()).collect();
        assert_eq!(outputs, [Path::new("a/x.pt.z"), Path::new("b/y.pt.z")]);
        let refused = |template| of(template, None).unwrap_err().to_string();
        assert!(refused("one").contains("a/x.pt and b/y.pt have the same output"));
        assert!(refused("{what}").contains("unknown field {what}"));
        assert!(refused("{stem").contains("not closed"));
        assert!(refused("out/").contains("output format is unknown"));
    }
}
