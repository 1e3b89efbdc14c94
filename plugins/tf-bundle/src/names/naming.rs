//! Chooses names for the converted tensors of a checkpoint.
//!
//! With `auto`, a tensor gets the full name of its variable. If several variables have the same
//! full name, each of their tensors gets its object path, or its key if another tensor has that
//! path. `auto` never fails. Each of the other schemes uses only one kind of name, and returns an
//! error if two tensors would get the same name.
//!
//! Each variable becomes a separate tensor, even if two variables have equal names and values. The
//! only exception is a variable that Keras's `ExportArchive` lists twice. Its two copies become a
//! single tensor ([`ObjectGraph::exported_twice`]).

use super::key_text::key_text;
use super::object_graph::{ObjectGraph, SavedValue};
use super::path::ATTRIBUTES;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use tensorferry_sdk::{Error, Result};

/// Maximum number of colliding names that an error lists.
const LISTED: usize = 10;
/// TensorFlow's default name for variables.
pub(super) const UNNAMED: &str = "Variable";

/// A variable of a checkpoint, with the properties that determine its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) key: Vec<u8>,
    /// TensorFlow's number for the dtype.
    pub(crate) dtype: i32,
    pub(crate) shape: Vec<i64>,
    /// The checksum in the checkpoint. The contents of two entries are compared only if their
    /// checksums are equal.
    pub(crate) checksum: u32,
}

/// The value of the option `-i names=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// The first unique name among the tensor's full name, path and key.
    Auto,
    Key,
    /// The full name of the variable.
    Full,
    /// The path of the object.
    Path,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedTensor {
    /// The name of the tensor, which is unique in the checkpoint.
    pub(crate) name: String,
    /// The indices of the tensor's variables. A tied tensor has several variables.
    pub(crate) keys: Vec<usize>,
    /// The full name of the tensor's variables.
    pub(crate) full_name: Option<String>,
    /// The path of the tensor's first variable.
    pub(crate) path: Option<String>,
    /// The optimizer that owns the tensor, as an index into [`ObjectGraph::optimizers`].
    pub(crate) optimizer: Option<usize>,
}

impl NamedTensor {
    fn new(place: usize, variable: &Variable, value: Option<&SavedValue<'_>>) -> Self {
        Self {
            name: String::new(),
            keys: vec![place],
            full_name: value.and_then(|value| value.full_name).map(str::to_owned),
            path: value.and_then(|value| value.path(&variable.key)).map(Cow::into_owned),
            optimizer: value.and_then(|value| value.optimizer),
        }
    }

    /// Returns the first key of the tensor as a string.
    fn key(&self, variables: &[Variable]) -> String {
        self.keys.first().map(|&first| key_text(&variables[first].key).into_owned()).unwrap_or_default()
    }
}

/// Returns the named tensors in the order of the variables. Without a graph, the keys are the
/// names. `same` receives the indices of two variables and returns whether their content is equal.
/// The function is called only for the two copies of an exported variable.
pub(crate) fn name(
    variables: &[Variable],
    graph: Option<&ObjectGraph<'_>>,
    scheme: Scheme,
    same: &mut dyn FnMut(usize, usize) -> Result<bool>,
) -> Result<Vec<NamedTensor>> {
    let each = variables.iter().enumerate().map(|(place, variable)| {
        NamedTensor::new(place, variable, graph.and_then(|graph| graph.find(&variable.key)))
    });
    let mut tensors: Vec<NamedTensor> = each.collect();
    if matches!(scheme, Scheme::Auto | Scheme::Full) {
        let firsts = first_by_full_name(&tensors);
        if let Some(graph) = graph {
            tie(&mut tensors, variables, graph, same)?;
        }
        if scheme == Scheme::Auto {
            choose(&mut tensors, &firsts, variables);
        }
        tensors.retain(|tensor| !tensor.keys.is_empty());
    }
    match scheme {
        Scheme::Auto => Ok(tensors),
        Scheme::Key => assign_unique_names(tensors, variables, "key", |_| None),
        Scheme::Full => assign_unique_names(tensors, variables, "full", |tensor| {
            tensor.full_name.as_ref().or(tensor.path.as_ref())
        }),
        Scheme::Path if graph.is_none() => {
            Err(Error::usage("names=path needs an object graph, but the checkpoint has none")
                .hint("pass -i names=auto, names=full or names=key"))
        }
        Scheme::Path => assign_unique_names(tensors, variables, "path", |tensor| tensor.path.as_ref()),
    }
}

/// Returns, for each tensor, the index of the first tensor with the same full name.
fn first_by_full_name<'a>(tensors: &'a [NamedTensor]) -> Vec<usize> {
    let mut firsts: HashMap<&str, usize> = HashMap::with_capacity(tensors.len());
    let first = |(place, tensor): (usize, &'a NamedTensor)| match &tensor.full_name {
        Some(name) => *firsts.entry(name).or_insert(place),
        None => place,
    };
    tensors.iter().enumerate().map(first).collect()
}

/// Ties the two copies of each variable that an export lists twice, if the contents of the copies
/// are still equal. One tensor is assigned the keys of both copies, and the other tensor is left
/// without keys.
fn tie(
    tensors: &mut [NamedTensor],
    variables: &[Variable],
    graph: &ObjectGraph<'_>,
    same: &mut dyn FnMut(usize, usize) -> Result<bool>,
) -> Result<()> {
    let twice = graph.exported_twice();
    if twice.is_empty() {
        return Ok(());
    }
    let places: HashMap<&[u8], usize> =
        variables.iter().enumerate().map(|(place, variable)| (&*variable.key, place)).collect();
    for (one, other) in twice {
        let (Some(&one), Some(&other)) = (places.get(one.as_bytes()), places.get(other.as_bytes())) else {
            continue;
        };
        let (first, second) = (one.min(other), one.max(other));
        let (a, b) = (&variables[first], &variables[second]);
        if (a.dtype, a.checksum, &a.shape) == (b.dtype, b.checksum, &b.shape) && same(first, second)? {
            tensors[first].keys.push(second);
            tensors[second].keys.clear();
        }
    }
    Ok(())
}

/// Assigns the best unique name to each tensor: the full name if it is unique, otherwise the path
/// if it is unique, otherwise the key. Full names and paths that look like keys are never used, so
/// a tensor's key is always available. If a model tensor shares its full name only with optimizer
/// state, the model tensor gets that name.
fn choose(tensors: &mut [NamedTensor], firsts: &[usize], variables: &[Variable]) {
    // These keys come from a checkpoint without an object graph, so they do not look like object
    // keys.
    let plain = variables.iter().map(|variable| key_text(&variable.key));
    let plain: HashSet<Cow<'_, str>> = plain.filter(|key| !key.contains(ATTRIBUTES)).collect();
    let free = |name: &&str| !name.contains(ATTRIBUTES) && !plain.contains(*name);

    let mut holders = vec![(0, 0); tensors.len()];
    for (tensor, &first) in tensors.iter().zip(firsts).filter(|(tensor, _)| !tensor.keys.is_empty()) {
        holders[first].0 += 1;
        holders[first].1 += u32::from(tensor.optimizer.is_none());
    }
    let mut names: Vec<Option<&str>> = Vec::with_capacity(tensors.len());
    for (tensor, &first) in tensors.iter().zip(firsts) {
        let wins = match holders[first] {
            (1, _) => true,
            (_, of_the_model) => of_the_model == 1 && tensor.optimizer.is_none(),
        };
        names.push(tensor.full_name.as_deref().filter(|name| wins && free(name)));
    }

    let unnamed: Vec<usize> = (0..tensors.len())
        .filter(|&place| names[place].is_none() && !tensors[place].keys.is_empty())
        .collect();
    if !unnamed.is_empty() {
        let mut takers: HashMap<&str, u32> = names.iter().flatten().map(|name| (*name, 1)).collect();
        let path = |place: usize| tensors[place].path.as_deref().filter(free);
        for name in unnamed.iter().filter_map(|&place| path(place)) {
            *takers.entry(name).or_default() += 1;
        }
        for place in unnamed {
            names[place] = path(place).filter(|name| takers[name] == 1);
        }
    }

    let names: Vec<Option<String>> = names.into_iter().map(|name| name.map(str::to_owned)).collect();
    for (tensor, name) in tensors.iter_mut().zip(names) {
        tensor.name = name.unwrap_or_else(|| tensor.key(variables));
    }
}

/// Assigns each tensor the name that the scheme requires. If the tensor has no such name, assigns
/// its key.
fn assign_unique_names(
    mut tensors: Vec<NamedTensor>,
    variables: &[Variable],
    scheme: &str,
    wanted: impl Fn(&NamedTensor) -> Option<&String>,
) -> Result<Vec<NamedTensor>> {
    for tensor in &mut tensors {
        tensor.name = wanted(tensor).cloned().unwrap_or_else(|| tensor.key(variables));
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
    Err(Error::usage(format!("names={scheme} gives several tensors the same name: {}", listed.join(", ")))
        .hint("pass -i names=auto"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::testing::{Objects, variables};
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

    /// Returns the objects that Keras 3 saves in `model.export()`.
    fn exported() -> Objects {
        listed_twice(["variables", "_all_variables"])
    }

    fn listed_twice(lists: [&str; 2]) -> Objects {
        let mut objects = Objects::new();
        for list in lists {
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
    fn equal_content_ties_no_variables() {
        let mut objects = Objects::new();
        objects.variable(0, "a", "Variable");
        objects.variable(0, "b", "Variable");
        objects.variable(0, "c", "b");
        objects.variable(0, "d", "b");
        let expected = pairs(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
        assert_eq!(named(&objects, Scheme::Auto, true).unwrap(), expected);
        // The checkpoint contains two models.
        let names = named(&listed_twice(["one", "two"]), Scheme::Auto, true).unwrap();
        assert_eq!(names, pairs(&["one/0", "one/1", "two/0", "two/1"].map(|path| (path, 1))));
        // A name that occurs twice in a list does not identify a variable.
        let mut objects = exported();
        let list = objects.0.nodes[0].children[0].node_id.try_into().unwrap();
        objects.variable(list, "2", "dense/bias");
        let mut names = named(&objects, Scheme::Auto, true).unwrap();
        names.sort();
        let paths = ["_all_variables/1", "variables/1", "variables/2"].map(|path| (path, 1));
        assert_eq!(names, pairs(&[&paths[..1], &[("dense/kernel", 2)], &paths[1..]].concat()));
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
