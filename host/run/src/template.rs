//! Fills in templates. A template is a path with fields such as `{path}` and `{stem}`.

/// The names of a template's fields, with their values for one input.
pub type Fields = Vec<(&'static str, String)>;

/// Fills in the fields of a template. `{{` and `}}` are replaced by single braces. The error is the
/// name of an unknown field, or an empty string if a brace is not closed.
pub fn fill(template: &str, fields: &Fields) -> Result<String, String> {
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
        let known = fields.iter().find(|(name, _)| *name == field);
        filled.push_str(&known.ok_or_else(|| field.to_owned())?.1);
        rest = &from[end + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}
