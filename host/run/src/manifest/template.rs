//! The output template of a zoo or a dataset: a path with fields such as `{path}` and `{stem}`.

use super::dataset_files::GroupFiles;
use super::input_path::InputPath;
use crate::template::Fields;

pub(super) fn of_model(model: &InputPath, zoo: &str) -> Fields {
    let mut fields = of_file(model);
    fields.push(("zoo", zoo.to_owned()));
    fields
}

/// Returns the fields of a group: the fields of its first file, and the group's number.
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::template::fill;

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
