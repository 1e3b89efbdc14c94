//! A template is the output of a zoo or a data set: a path with fields such as `{path}` and `{stem}` in it.

use super::dataset_files::GroupFiles;
use super::input_path::InputPath;

/// The fields of a template, and their values for one model or file group.
pub(super) type Fields = Vec<(&'static str, String)>;

pub(super) fn of_model(model: &InputPath, zoo: &str) -> Fields {
    let mut fields = of_file(model);
    fields.push(("zoo", zoo.to_owned()));
    fields
}

/// The fields of a group: its first file's, and the group's number.
pub(super) fn of_group(group: &GroupFiles, dataset: &str) -> Fields {
    let mut fields = of_file(&group.files[0]);
    fields.extend([("group", format!("{:05}", group.number)), ("dataset", dataset.to_owned())]);
    fields
}

fn of_file(file: &InputPath) -> Fields {
    [("path", file.bare.as_str()), ("parent", file.parent()), ("stem", file.stem()), ("name", file.name())]
        .map(|(field, text)| (field, text.to_owned()))
        .into()
}

/// Fills a template in. `{{` and `}}` are braces.
///
/// # Errors
/// The unknown name in the braces, or an empty text where a brace is not closed.
pub(super) fn fill(template: &str, fields: &Fields) -> Result<String, String> {
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn file(path: &str, suffix: &str) -> InputPath {
        InputPath::file(path.to_owned(), path.strip_suffix(suffix).unwrap().to_owned())
    }

    #[test]
    fn fields_are_the_model_s() {
        let model = file("org/bert/model.v1.safetensors", ".safetensors");
        let fill = |template| fill(template, &of_model(&model, "hub"));
        assert_eq!(fill("out/{path}.pt").unwrap(), "out/org/bert/model.v1.pt");
        assert_eq!(fill("{zoo}/{parent}/{{{stem}}}").unwrap(), "hub/org/bert/{model.v1}");
        assert_eq!(fill("{name}/").unwrap(), "model.v1.safetensors/");
        assert_eq!(fill("{what}").unwrap_err(), "what");
        assert_eq!(fill("{path").unwrap_err(), "");
        assert_eq!(fill("}").unwrap_err(), "");
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for (path, bare) in [("a/..-00001-of-00001.x", "a/.."), ("..x", "."), (".x", ""), ("a/.x", "a/")] {
            let model = InputPath::file(path.to_owned(), bare.to_owned());
            let name = path.rsplit('/').next().unwrap();
            assert_eq!(fill("out/{stem}.pt", &of_model(&model, "hub")).unwrap(), format!("out/{name}.pt"));
            assert_eq!(fill("out/{path}.pt", &of_model(&model, "hub")).unwrap(), format!("out/{path}.pt"));
        }
    }

    #[test]
    fn fields_are_the_first_file_s_of_a_group() {
        let files = vec![file("train/a.rec", ".rec"), file("train/b.rec", ".rec")];
        let group = GroupFiles { files, number: 7 };
        let fill = |template| fill(template, &of_group(&group, "coco"));
        assert_eq!(fill("{dataset}/{parent}/part-{group}.x").unwrap(), "coco/train/part-00007.x");
        assert_eq!(fill("{path}").unwrap(), "train/a");
        assert_eq!(fill("{zoo}").unwrap_err(), "zoo");
    }
}
