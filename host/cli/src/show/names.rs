//! Resolves an argument `NAME[INDEX]` to tensors. `NAME` is the name of a tensor, or a pattern that
//! matches a few tensors.

use super::index::{is_index, split};
use globset::Glob;
use tensorferry::{Model, Tensor, suggest};
use tensorferry_sdk::{Error, Result};

/// Maximum number of tensors that a pattern may match.
const MAX_MATCHED: usize = 16;
/// Maximum number of suggestions for an unknown name.
const MAX_SUGGESTED: usize = 5;

/// A tensor, and the index that follows the tensor's name in the argument.
pub(super) struct TensorArgument {
    pub(super) tensor: Tensor,
    pub(super) index: Option<String>,
}

/// Returns the tensors that the arguments name. If the input has only one tensor, the arguments may
/// omit its name.
pub(super) fn wanted(model: &Model, given: &[String]) -> Result<Vec<TensorArgument>> {
    let mut tensors = model.tensors();
    if let (1, Some(only)) = (tensors.len(), tensors.next()) {
        let of = |index: Option<&str>| {
            vec![TensorArgument { tensor: only.clone(), index: index.map(str::to_owned) }]
        };
        match given {
            [] => return Ok(of(None)),
            [text] if model.tensor(text).is_err() => {
                if let Some(("", index)) = split(text) {
                    return Ok(of(Some(index)));
                }
            }
            _ => {}
        }
    }
    if given.is_empty() {
        let names: Vec<String> =
            model.tensors().take(MAX_SUGGESTED).map(|one| format!("{:?}", one.name())).collect();
        let hint = if names.is_empty() {
            "the input has no tensors".to_owned()
        } else {
            format!("name a tensor, such as {}", names.join(", "))
        };
        return Err(Error::usage("the input has several tensors, and none is named").hint(hint));
    }
    let found = given.iter().map(|text| of_text(model, text)).collect::<Result<Vec<_>>>()?;
    Ok(found.into_iter().flatten().collect())
}

fn of_text(model: &Model, text: &str) -> Result<Vec<TensorArgument>> {
    let one = |name: &str, index: Option<&str>| {
        let tensor = model.tensor(name).ok()?;
        Some(vec![TensorArgument { tensor, index: index.map(str::to_owned) }])
    };
    if let Some(found) = one(text, None) {
        return Ok(found);
    }
    let indexed = split(text);
    if let Some(found) = indexed.and_then(|(name, index)| one(name, Some(index))) {
        return Ok(found);
    }
    // The brackets may be part of a pattern, as in `w[0-3]`, or an index after a pattern, as in
    // `*.w[0:3]`.
    let indexed = indexed.filter(|(name, index)| !name.is_empty() && is_index(index));
    let patterns = indexed.map(|(name, index)| (name, Some(index))).into_iter().chain([(text, None)]);
    for (pattern, index) in patterns {
        let matched = matching(model, pattern);
        if matched.len() > MAX_MATCHED {
            let names: Vec<String> =
                matched.iter().take(MAX_SUGGESTED).map(|one| format!("{:?}", one.name())).collect();
            let count = matched.len();
            let problem =
                format!("{pattern} matches {count} tensors; `ferry show` prints at most {MAX_MATCHED}");
            return Err(Error::usage(problem).hint(format!("name one, such as {}", names.join(", "))));
        }
        if !matched.is_empty() {
            let index = |_: &Tensor| index.map(str::to_owned);
            return Ok(matched
                .into_iter()
                .map(|tensor| TensorArgument { index: index(&tensor), tensor })
                .collect());
        }
    }
    Err(unknown(model, indexed.map_or(text, |(name, _)| name)))
}

fn matching(model: &Model, pattern: &str) -> Vec<Tensor> {
    let Ok(glob) = Glob::new(pattern) else { return Vec::new() };
    let glob = glob.compile_matcher();
    model.tensors().filter(|tensor| glob.is_match(tensor.name())).collect()
}

/// Suggests the name that is most similar to `name`, and names that contain `name`.
fn unknown(model: &Model, name: &str) -> Error {
    let catalog = model.catalog();
    let names = || catalog.tensors().iter().map(|tensor| tensor.name.as_str());
    let mut near: Vec<&str> = suggest(name, names()).into_iter().collect();
    let holding =
        names().filter(|known| name.len() > 1 && known.contains(name) && near.first() != Some(known));
    let rest: Vec<&str> = holding.take(MAX_SUGGESTED - near.len()).collect();
    near.extend(rest);
    let near: Vec<String> = near.into_iter().map(|near| format!("{near:?}")).collect();
    let meant = match &*near {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        many => format!("; did you mean one of {}?", many.join(", ")),
    };
    let problem = Error::usage(format!("no tensor of this name{meant}")).tensor(name);
    if near.is_empty() { problem.hint("run `ferry inspect --all` to list the names") } else { problem }
}
