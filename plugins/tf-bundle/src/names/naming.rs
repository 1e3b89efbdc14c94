//! A naming gives each tensor of a checkpoint the name under which it is converted.
//!
//! `auto` prefers the variable's full name. Where several variables have one full name, and all are
//! the same to the byte, they are one tied tensor: `model.export()` of Keras 3 saves each variable
//! twice. Where they differ, each takes its object path, and where that is taken, its key. It never
//! fails. The other schemes force one kind of name; a collision is then the user's to solve.
//!
//! Variables that nobody named are all called `Variable`. That two of them hold the same, such as
//! zeros, is chance: they are never tied.

use super::key_text::key_text;
use super::object_graph::{ObjectGraph, Value};
use std::collections::{BTreeMap, HashMap};
use tensorferry_sdk::{Error, Result};

/// How many colliding names an error lists.
const LISTED: usize = 10;
/// What TensorFlow calls a variable that nobody named.
const UNNAMED: &str = "Variable";

/// One entry of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    /// Its key.
    pub(crate) key: Vec<u8>,
    /// TensorFlow's number for its dtype.
    pub(crate) dtype: i32,
    /// Its dimensions.
    pub(crate) shape: Vec<i64>,
    /// The checksum that the checkpoint gives for it: entries that differ here need no comparison.
    pub(crate) checksum: u32,
}

/// What the user asked for: `-i names=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// The best name that is free.
    Auto,
    /// The key.
    Key,
    /// The variable's full name.
    Full,
    /// The object's path.
    Path,
}

impl Scheme {
    /// The option's words.
    pub(crate) const WORDS: [&str; 4] = ["auto", "key", "full", "path"];

    /// The scheme of this word.
    pub(crate) fn named(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "key" => Some(Self::Key),
            "full" => Some(Self::Full),
            "path" => Some(Self::Path),
            _ => None,
        }
    }
}

/// A tensor with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedTensor {
    /// Unique.
    pub(crate) name: String,
    /// The variables that hold it, by their places: several, if it is one tied tensor.
    pub(crate) keys: Vec<usize>,
    /// The full name of its variables.
    pub(crate) full_name: Option<String>,
    /// The path of the first.
    pub(crate) path: Option<String>,
    /// The optimizer whose state it is, by its place among [`ObjectGraph::optimizers`].
    pub(crate) optimizer: Option<usize>,
}

impl NamedTensor {
    fn new(place: usize, variable: &Variable, value: Option<&Value<'_>>) -> Self {
        Self {
            name: key_text(&variable.key).into_owned(),
            keys: vec![place],
            full_name: value.and_then(|value| value.full_name).map(str::to_owned),
            path: value.and_then(|value| value.path(&variable.key)),
            optimizer: value.and_then(|value| value.optimizer),
        }
    }
}

/// Names the variables, in their order. `same` says whether two, given by their places, have the same
/// content. Without a graph the keys are the names.
///
/// # Errors
/// Usage, if a forced scheme gives two tensors one name, or needs a graph that is not there; whatever
/// `same` gives.
pub(crate) fn name(
    variables: &[Variable],
    graph: Option<&ObjectGraph<'_>>,
    scheme: Scheme,
    same: &mut dyn FnMut(usize, usize) -> Result<bool>,
) -> Result<Vec<NamedTensor>> {
    let each = variables.iter().enumerate().map(|(place, variable)| {
        NamedTensor::new(place, variable, graph.and_then(|graph| graph.find(&variable.key)))
    });
    let tensors: Vec<NamedTensor> = each.collect();
    match scheme {
        Scheme::Auto => Ok(choose(tie(tensors, variables, same)?)),
        Scheme::Key => Ok(tensors),
        Scheme::Full => {
            let tensors = tie(tensors, variables, same)?;
            force(tensors, "full", |tensor| tensor.full_name.as_ref().or(tensor.path.as_ref()))
        }
        Scheme::Path if graph.is_none() => {
            Err(Error::usage("names=path needs an object graph, and the checkpoint has none")
                .expected("names=auto, names=full or names=key"))
        }
        Scheme::Path => force(tensors, "path", |tensor| tensor.path.as_ref()),
    }
}

/// Makes one tensor of variables that have one full name, if all of them hold the same. What an
/// optimizer keeps is never tied to what the model has: either may be left out.
fn tie(
    mut tensors: Vec<NamedTensor>,
    variables: &[Variable],
    same: &mut dyn FnMut(usize, usize) -> Result<bool>,
) -> Result<Vec<NamedTensor>> {
    let mut firsts = HashMap::new();
    let mut first_of: Vec<usize> = (0..tensors.len()).collect();
    for (place, tensor) in tensors.iter().enumerate() {
        if let Some(name) = tensor.full_name.as_deref().filter(|&name| name != UNNAMED) {
            first_of[place] = *firsts.entry((name, tensor.optimizer)).or_insert(place);
        }
    }
    let mut all_same = vec![true; tensors.len()];
    for (place, &first) in first_of.iter().enumerate() {
        if place != first && all_same[first] {
            let (a, b) = (&variables[first], &variables[place]);
            let alike = a.dtype == b.dtype && a.shape == b.shape && a.checksum == b.checksum;
            all_same[first] = alike && same(first, place)?;
        }
    }
    for (place, &first) in first_of.iter().enumerate() {
        if place != first && all_same[first] {
            tensors[first].keys.push(place);
            tensors[place].keys.clear();
        }
    }
    tensors.retain(|tensor| !tensor.keys.is_empty());
    Ok(tensors)
}

/// Gives each tensor the best name that is free. Those that collide all take their next one, until
/// none do; the last one is the key, and keys are unique. In the first round the model's tensor keeps
/// a name that it shares with what optimizers keep.
fn choose(mut tensors: Vec<NamedTensor>) -> Vec<NamedTensor> {
    let candidates: Vec<Vec<&str>> = tensors
        .iter()
        .map(|tensor| {
            let better = [tensor.path.as_deref(), tensor.full_name.as_deref()];
            std::iter::once(&*tensor.name).chain(better.into_iter().flatten()).collect()
        })
        .collect();
    // The best of the first so many candidates is the name.
    let mut left: Vec<usize> = candidates.iter().map(Vec::len).collect();
    let mut is_first_round = true;
    loop {
        let mut holders: HashMap<&str, (u32, u32)> = HashMap::with_capacity(tensors.len());
        for ((names, &left), tensor) in candidates.iter().zip(&left).zip(&tensors) {
            let (all, of_the_model) = holders.entry(names[left - 1]).or_default();
            *all += 1;
            *of_the_model += u32::from(tensor.optimizer.is_none());
        }
        let mut has_changed = false;
        for ((names, left), tensor) in candidates.iter().zip(&mut left).zip(&tensors) {
            let (all, of_the_model) = holders[names[*left - 1]];
            let keeps = all == 1 || (is_first_round && of_the_model == 1 && tensor.optimizer.is_none());
            if !keeps && *left > 1 {
                *left -= 1;
                has_changed = true;
            }
        }
        if !has_changed && !is_first_round {
            break;
        }
        is_first_round = false;
    }
    let names: Vec<String> =
        candidates.iter().zip(left).map(|(names, left)| names[left - 1].to_owned()).collect();
    for (tensor, name) in tensors.iter_mut().zip(names) {
        tensor.name = name;
    }
    tensors
}

/// Gives each tensor the one name that the scheme wants, or its key where there is none.
fn force(
    mut tensors: Vec<NamedTensor>,
    scheme: &str,
    wanted: impl Fn(&NamedTensor) -> Option<&String>,
) -> Result<Vec<NamedTensor>> {
    for tensor in &mut tensors {
        if let Some(name) = wanted(tensor).cloned() {
            tensor.name = name;
        }
    }
    let mut holders: BTreeMap<&str, u32> = BTreeMap::new();
    for tensor in &tensors {
        *holders.entry(&tensor.name).or_default() += 1;
    }
    holders.retain(|_, count| *count > 1);
    if holders.is_empty() {
        return Ok(tensors);
    }
    let mut listed: Vec<String> =
        holders.iter().take(LISTED).map(|(name, count)| format!("{name:?} for {count}")).collect();
    if holders.len() > LISTED {
        listed.push(format!("and {} more", holders.len() - LISTED));
    }
    Err(Error::usage(format!("names={scheme} gives several tensors one name; names=auto does not"))
        .found(listed.join(", ")))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{Objects, variables};
    use super::*;
    use tensorferry_sdk::{ErrorKind, Limits};

    fn named(objects: &Objects, scheme: Scheme, same: bool) -> Result<Vec<(String, usize)>> {
        let graph = ObjectGraph::new(&objects.0, &Limits::default()).unwrap();
        let keys: Vec<&str> = graph.values().iter().map(|value| value.key).collect();
        let tensors = name(&variables(&keys), Some(&graph), scheme, &mut |_, _| Ok(same))?;
        Ok(tensors.into_iter().map(|tensor| (tensor.name, tensor.keys.len())).collect())
    }

    fn pairs(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
        expected.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
    }

    /// As `model.export()` of Keras 3 saves it.
    fn exported() -> Objects {
        let mut objects = Objects::new();
        for list in ["variables", "_all_variables"] {
            let list = objects.child(0, list);
            for (place, name) in ["dense/kernel", "dense/bias"].into_iter().enumerate() {
                objects.variable(list, &place.to_string(), name);
            }
        }
        objects
    }

    #[test]
    fn what_is_saved_twice_is_one_tied_tensor() {
        let expected = pairs(&[("dense/kernel", 2), ("dense/bias", 2)]);
        assert_eq!(named(&exported(), Scheme::Auto, true).unwrap(), expected);
        assert_eq!(named(&exported(), Scheme::Full, true).unwrap(), expected);
    }

    #[test]
    fn equal_full_names_of_different_content_take_paths() {
        let names = named(&exported(), Scheme::Auto, false).unwrap();
        let paths = ["variables/0", "variables/1", "_all_variables/0", "_all_variables/1"];
        assert_eq!(names, pairs(&paths.map(|path| (path, 1))));
        let error = named(&exported(), Scheme::Full, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(r#""dense/bias" for 2, "dense/kernel" for 2"#), "{error}");
    }

    #[test]
    fn unnamed_variables_are_not_tied() {
        let mut objects = Objects::new();
        objects.variable(0, "a", "Variable");
        objects.variable(0, "b", "Variable");
        assert_eq!(named(&objects, Scheme::Auto, true).unwrap(), pairs(&[("a", 1), ("b", 1)]));
    }

    #[test]
    fn the_model_keeps_a_name_that_its_optimizer_has_too() {
        let mut objects = Objects::new();
        objects.variable(0, "a", "w");
        let optimizer = objects.child(0, "optimizer");
        objects.variable(optimizer, "iter", "w");
        let names = named(&objects, Scheme::Auto, true).unwrap();
        assert_eq!(names, pairs(&[("w", 1), ("optimizer/iter", 1)]));
    }

    #[test]
    fn auto_finds_free_names_whatever_collides() {
        let mut objects = Objects::new();
        objects.variable(0, "a", "b");
        objects.variable(0, "b", "a");
        objects.variable(0, "c", "a/.ATTRIBUTES/VARIABLE_VALUE");
        objects.variable(0, "d", "a");
        let names = named(&objects, Scheme::Auto, false).unwrap();
        let unique: std::collections::HashSet<_> = names.iter().map(|(name, _)| name).collect();
        assert_eq!(unique.len(), 4, "{names:?}");
    }

    #[test]
    fn without_a_graph_keys_are_names() {
        let variables = variables(&["bert/w", "bert/w/Adam"]);
        for scheme in [Scheme::Auto, Scheme::Key, Scheme::Full] {
            let tensors = name(&variables, None, scheme, &mut |_, _| Ok(true)).unwrap();
            assert_eq!(tensors[1].name, "bert/w/Adam");
        }
        let error = name(&variables, None, Scheme::Path, &mut |_, _| Ok(true)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
    }
}
