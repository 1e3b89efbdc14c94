//! Finds the keys under which a catalog's tensors are written. A tensor's name is looked up
//!
//! 1. in the key map that came with it, if it is the object graph that came with it that is followed;
//!    of another checkpoint this comes last;
//! 2. among the keys of the checkpoint that is followed;
//! 3. among the names that `names=auto` gives its tensors, which are full names where these are unique;
//! 4. among its full names, where one tensor alone has it;
//! 5. among its paths.
//!
//! What is followed is another checkpoint (`-o like=`), or the object graph that the tensors came with.

use super::key_map::KeyMap;
use super::key_text::key_text;
use super::naming::{NamedTensor, Variable};
use super::object_graph::ObjectGraph;
use std::borrow::Cow;
use std::collections::HashMap;
use std::slice;
use tensorferry_sdk::{Error, Result};

/// The keys and the names of the checkpoint that is followed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Followed<'a> {
    keys: Vec<&'a [u8]>,
    by_key: HashMap<Cow<'a, str>, usize>,
    by_name: HashMap<&'a str, &'a [usize]>,
    /// None where several tensors have the name.
    by_full_name: HashMap<&'a str, Option<Cow<'a, [usize]>>>,
    by_path: HashMap<Cow<'a, str>, usize>,
    /// Whether it has no keys but these.
    is_complete: bool,
}

impl<'a> Followed<'a> {
    /// A checkpoint: its variables, and the tensors that `names=auto` makes of them.
    pub(crate) fn checkpoint(
        variables: &'a [Variable],
        tensors: &'a [NamedTensor],
        graph: Option<&'a ObjectGraph<'_>>,
    ) -> Self {
        let mut followed = Self { is_complete: true, ..Self::default() };
        for Variable { key, .. } in variables {
            followed.add(key, graph.and_then(|graph| graph.find(key)?.path(key)));
        }
        for tensor in tensors {
            followed.by_name.insert(&tensor.name, &tensor.keys);
            if let Some(name) = &tensor.full_name {
                followed.add_full_name(name, Cow::Borrowed(&tensor.keys));
            }
        }
        followed
    }

    /// An object graph, whose variables are known by key, full name and path.
    pub(crate) fn graph(graph: &'a ObjectGraph<'_>) -> Self {
        let mut followed = Self::default();
        for (place, value) in graph.values().iter().enumerate() {
            followed.add(value.key.as_bytes(), value.path(value.key.as_bytes()));
            if let Some(name) = value.full_name {
                followed.add_full_name(name, Cow::Owned(vec![place]));
            }
        }
        followed
    }

    fn add(&mut self, key: &'a [u8], path: Option<Cow<'a, str>>) {
        let place = self.keys.len();
        self.keys.push(key);
        self.by_key.insert(key_text(key), place);
        if let Some(path) = path {
            self.by_path.entry(path).or_insert(place);
        }
    }

    fn add_full_name(&mut self, name: &'a str, keys: Cow<'a, [usize]>) {
        let known = self.by_full_name.entry(name);
        known.and_modify(|known| *known = None).or_insert(Some(keys));
    }

    /// The keys of a tensor by its name alone.
    fn named(&self, name: &str) -> Vec<Vec<u8>> {
        let by_full_name = || self.by_full_name.get(name).and_then(Option::as_deref);
        let by_path = || self.by_path.get(name).map(slice::from_ref);
        let places = self.by_key.get(name).map(slice::from_ref);
        let places =
            places.or_else(|| self.by_name.get(name).copied()).or_else(by_full_name).or_else(by_path);
        places.unwrap_or_default().iter().map(|&place| self.keys[place].to_vec()).collect()
    }

    fn allows(&self, key: &[u8]) -> bool {
        !self.is_complete || self.by_key.contains_key(&key_text(key))
    }
}

/// The keys of each tensor; none for one that is not known. No two tensors have a key in common.
///
/// # Errors
/// Usage, if two names lead to one key.
pub(crate) fn resolve(names: &[&str], map: &KeyMap, followed: &Followed<'_>) -> Result<Vec<Vec<Vec<u8>>>> {
    let find = |name: &&str| {
        let mapped = map.keys_of(name).unwrap_or_default().iter();
        let mapped = || mapped.filter(|key| followed.allows(key)).cloned().collect::<Vec<_>>();
        // A checkpoint that is followed goes by its own names: `model.export()` of Keras 3 numbers the
        // variables anew each time, so that the same key may be another variable's.
        let [first, then] = if followed.is_complete {
            [followed.named(name), mapped()]
        } else {
            [mapped(), followed.named(name)]
        };
        if first.is_empty() { then } else { first }
    };
    let resolved: Vec<Vec<Vec<u8>>> = names.iter().map(find).collect();
    let mut claimed: HashMap<&[u8], &str> = HashMap::with_capacity(names.len());
    for (name, keys) in names.iter().zip(&resolved) {
        for key in keys {
            if let Some(other) = claimed.insert(key, name).filter(|other| other != name) {
                return Err(Error::usage(format!(
                    "two tensors stand for one key of the checkpoint, {:?}; leave one of them out",
                    key_text(key)
                ))
                .tensor(*name)
                .found(format!("{other:?} too")));
            }
        }
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::naming::{Scheme, name};
    use super::*;
    use crate::testing::{Objects, variables};
    use tensorferry_sdk::Limits;

    fn exported() -> Objects {
        let mut objects = Objects::new();
        for list in ["variables", "_all_variables"] {
            let list = objects.child(0, list);
            objects.variable(list, "0", "dense/kernel");
            objects.variable(list, "1", "total");
        }
        objects
    }

    fn texts(keys: &[Vec<u8>]) -> Vec<String> {
        keys.iter().map(|key| key_text(key).into_owned()).collect()
    }

    #[test]
    fn every_kind_of_name_leads_to_its_keys() {
        let objects = exported();
        let graph = ObjectGraph::new(&objects.0, &Limits::default()).unwrap();
        let keys: Vec<&str> = graph.values().iter().map(|value| value.key).collect();
        let mut variables = variables(&keys);
        variables[1].checksum = 7;
        let tensors = name(&variables, Some(&graph), Scheme::Auto, &mut |_, _| Ok(true)).unwrap();
        let followed = Followed::checkpoint(&variables, &tensors, Some(&graph));
        let mut map = KeyMap::default();
        map.add("renamed", [keys[1].as_bytes(), b"gone"]);
        map.add("lost", [&b"gone"[..]]);
        let names = ["renamed", "lost", "dense/kernel", "_all_variables/1", "total"];
        let resolved = resolve(&names, &map, &followed).unwrap();
        let resolved: Vec<Vec<String>> = resolved.iter().map(|keys| texts(keys)).collect();
        let expected: [&[&str]; 5] = [&[keys[1]], &[], &[keys[0], keys[2]], &[keys[3]], &[]];
        assert_eq!(resolved, expected);

        let followed = Followed::graph(&graph);
        let resolved = resolve(&["lost", keys[3], "dense/kernel"], &map, &followed).unwrap();
        assert_eq!(
            resolved.iter().map(|keys| texts(keys)).collect::<Vec<_>>(),
            [vec!["gone"], vec![keys[3]], vec![]]
        );
    }

    #[test]
    fn two_tensors_with_one_key_are_named() {
        let variables = variables(&["w"]);
        let tensors = name(&variables, None, Scheme::Auto, &mut |_, _| Ok(true)).unwrap();
        let followed = Followed::checkpoint(&variables, &tensors, None);
        let mut map = KeyMap::default();
        map.add("v", [&b"w"[..]]);
        let error = resolve(&["v", "w"], &map, &followed).unwrap_err().to_string();
        assert!(error.contains("tensor \"w\"") && error.contains("\"v\" too"), "{error}");
    }
}
