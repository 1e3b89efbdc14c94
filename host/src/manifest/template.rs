//! A template is a zoo's output: a path in which `{path}`, `{parent}`, `{stem}`, `{name}` and `{zoo}` stand
//! for what each model has.

use super::models::Found;

/// What a template may name.
pub(super) const FIELDS: [&str; 5] = ["path", "parent", "stem", "name", "zoo"];

/// Fills a template in. `{{` and `}}` are braces.
///
/// # Errors
/// The name in the braces that nothing has, or nothing where a brace is not closed.
pub(super) fn fill(template: &str, model: &Found, zoo: &str) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        if from.starts_with("{{") || from.starts_with("}}") {
            filled.push_str(&from[..1]);
            rest = &from[2..];
            continue;
        }
        let end = from.find('}').filter(|_| from.starts_with('{')).ok_or_else(String::new)?;
        let field = &from[1..end];
        filled.push_str(match field {
            "path" => model.bare(),
            "parent" => model.parent(),
            "stem" => model.stem(),
            "name" => model.name(),
            "zoo" => zoo,
            _ => return Err(field.to_owned()),
        });
        rest = &from[end + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn fields_are_the_model_s() {
        let model = Found::file("org/bert/model.v1.safetensors", "org/bert/model.v1");
        let fill = |template| fill(template, &model, "hub");
        assert_eq!(fill("out/{path}.pt").unwrap(), "out/org/bert/model.v1.pt");
        assert_eq!(fill("{zoo}/{parent}/{{{stem}}}").unwrap(), "hub/org/bert/{model.v1}");
        assert_eq!(fill("{name}/").unwrap(), "model.v1.safetensors/");
        assert_eq!(fill("{what}").unwrap_err(), "what");
        assert_eq!(fill("{path").unwrap_err(), "");
        assert_eq!(fill("}").unwrap_err(), "");
    }
}
