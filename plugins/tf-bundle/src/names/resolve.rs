//! Finds the checkpoint keys for the tensors of a catalog. The *reference checkpoint* provides the
//! keys. It is either the template (`-o like=`) or the object graph in the tensors' metadata. The
//! name of a tensor is looked up in this order:
//!
//! 1. in the key map of the tensors' metadata, if the reference is the object graph in the same
//!    metadata;
//! 2. among the keys of the reference checkpoint;
//! 3. among the names that `names=auto` gives the tensors of the reference checkpoint, which are
//!    the full names if those are unique;
//! 4. among the full names in the reference checkpoint, if only one tensor has the name;
//! 5. among the paths in the reference checkpoint;
//! 6. in the key map, if the reference is a different checkpoint.
//!
//! A key with an [ordinal](super::ordinal) may belong to a different variable in a different
//! checkpoint. If both the tensor and the key have full names, ferry compares the full names. If
//! the full names do not identify a single variable, ferry rejects the tensor.

use super::key_map::KeyMap;
use super::key_text::key_text;
use super::listed::{listed, sentences};
use super::naming::{NamedTensor, UNNAMED, Variable};
use super::object_graph::{ObjectGraph, SavedValue};
use super::ordinal::{has_ordinal, is_in_mixed_list, pattern};
use std::borrow::Cow;
use std::collections::HashMap;
use std::slice;
use tensorferry_sdk::{Error, Result};

/// The keys and the names of the reference checkpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReferenceCheckpoint<'a> {
    keys: Vec<&'a [u8]>,
    by_key: HashMap<Cow<'a, str>, usize>,
    by_name: HashMap<&'a str, &'a [usize]>,
    /// The keys for each full name, or `None` if several tensors have that name.
    by_full_name: HashMap<&'a str, Option<Cow<'a, [usize]>>>,
    by_path: HashMap<Cow<'a, str>, usize>,
    /// The full name of each key's variable, unless it is the default name.
    full_names: Vec<Option<&'a str>>,
    /// The keys with ordinals, by pattern and full name.
    by_pattern: HashMap<(String, &'a str), Vec<usize>>,
    origin: Origin<'a>,
    /// Whether the listed keys are the only keys of the reference checkpoint.
    is_complete: bool,
}

/// The source that describes the tensors' original variables.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Origin<'a> {
    /// The object graph of the reference checkpoint itself, in which a key always belongs to the
    /// same variable.
    #[default]
    Same,
    /// A different object graph.
    Graph(&'a ObjectGraph<'a>),
    /// The original variables are unknown.
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Resolved<'a> {
    /// The keys of each tensor. The list is empty if the tensor is unknown.
    pub(crate) keys: Vec<Vec<Vec<u8>>>,
    /// Names of tensors whose match cannot be confirmed, because they have no full names and their
    /// keys are positions in lists.
    pub(crate) unconfirmed: Vec<&'a str>,
}

/// The result of matching a tensor to a different checkpoint.
enum Match {
    Keys(Vec<usize>),
    /// Keys of variables with full names, which could not be compared because the tensor has no
    /// full name.
    Unconfirmed(Vec<usize>),
    /// The reason why the match is ambiguous.
    Ambiguous(String),
}

impl<'a> ReferenceCheckpoint<'a> {
    /// Creates a reference from the variables of a checkpoint, and from the tensors that
    /// `names=auto` creates for these variables.
    pub(crate) fn checkpoint(
        variables: &'a [Variable],
        tensors: &'a [NamedTensor],
        graph: Option<&'a ObjectGraph<'_>>,
        origin: Origin<'a>,
    ) -> Self {
        let mut followed = Self { is_complete: true, origin, ..Self::default() };
        for Variable { key, .. } in variables {
            followed.add(key, graph.and_then(|graph| graph.find(key)));
        }
        for tensor in tensors {
            followed.by_name.insert(&tensor.name, &tensor.keys);
            if let Some(name) = &tensor.full_name {
                followed.add_full_name(name, Cow::Borrowed(&tensor.keys));
            }
        }
        followed
    }

    /// Creates a reference from an object graph. Its variables can be found by key, full name and
    /// path.
    pub(crate) fn graph(graph: &'a ObjectGraph<'_>) -> Self {
        let mut followed = Self::default();
        for (place, value) in graph.values().iter().enumerate() {
            followed.add(value.key.as_bytes(), Some(value));
            if let Some(name) = value.full_name {
                followed.add_full_name(name, Cow::Owned(vec![place]));
            }
        }
        followed
    }

    fn add(&mut self, key: &'a [u8], value: Option<&'a SavedValue<'_>>) {
        let place = self.keys.len();
        self.keys.push(key);
        self.by_key.insert(key_text(key), place);
        if let Some(path) = value.and_then(|value| value.path(key)) {
            self.by_path.entry(path).or_insert(place);
        }
        let full_name = value.and_then(saved_name);
        self.full_names.push(full_name);
        if let Some(full_name) = full_name.filter(|_| self.is_complete && has_ordinal(key))
            && let Some(pattern) = pattern(key)
        {
            self.by_pattern.entry((pattern, full_name)).or_default().push(place);
        }
    }

    fn add_full_name(&mut self, name: &'a str, keys: Cow<'a, [usize]>) {
        let known = self.by_full_name.entry(name);
        known.and_modify(|known| *known = None).or_insert(Some(keys));
    }

    /// Returns the keys that match a tensor's name, without considering its original keys.
    fn named(&self, name: &str) -> Vec<usize> {
        let by_full_name = || self.by_full_name.get(name).and_then(Option::as_deref);
        let by_path = || self.by_path.get(name).map(slice::from_ref);
        let places = self.by_key.get(name).map(slice::from_ref);
        let places =
            places.or_else(|| self.by_name.get(name).copied()).or_else(by_full_name).or_else(by_path);
        places.unwrap_or_default().to_vec()
    }

    /// Matches a tensor to keys in a different checkpoint, by the tensor's name or by its original
    /// keys.
    fn find(&self, name: &str, own_keys: &[Vec<u8>]) -> Match {
        let mut found = self.named(name);
        if found.is_empty() {
            found = own_keys.iter().filter_map(|key| self.by_key.get(&key_text(key)).copied()).collect();
        }
        let is_full_name =
            |name| !found.is_empty() && found.iter().all(|&at| self.full_names[at] == Some(name));
        let own_keys: Vec<&[u8]> = match own_keys {
            [] => vec![name.as_bytes()],
            keys => keys.iter().map(Vec::as_slice).collect(),
        };
        let mut keys = own_keys.iter().copied().chain(found.iter().map(|&at| self.keys[at]));
        if is_full_name(name) || !keys.any(has_ordinal) {
            return Match::Keys(found);
        }

        let theirs: Vec<&str> = found.iter().filter_map(|&at| self.full_names[at]).collect();
        let full_name = match self.origin {
            Origin::Same => return Match::Keys(found),
            Origin::Graph(graph) => own_keys.iter().find_map(|key| saved_name(graph.find(key)?)),
            Origin::Unknown => None,
        };
        let Some(full_name) = full_name else {
            return if theirs.is_empty() { Match::Keys(found) } else { Match::Unconfirmed(found) };
        };
        // Only Keras's mixed lists have an unreliable order. The program determines the order of
        // its own lists.
        if is_full_name(full_name) && !found.iter().any(|&at| is_in_mixed_list(self.keys[at])) {
            return Match::Keys(found);
        }
        let alike = own_keys.iter().filter_map(|key| self.by_pattern.get(&(pattern(key)?, full_name)));
        let mut alike: Vec<&[usize]> = alike.map(Vec::as_slice).collect();
        alike.sort_unstable();
        alike.dedup();
        if !alike.is_empty() && alike.iter().all(|keys| keys.len() == 1) {
            return Match::Keys(alike.concat());
        }
        match self.by_full_name.get(full_name) {
            Some(Some(keys)) if alike.is_empty() => Match::Keys(keys.to_vec()),
            Some(_) => {
                let several = self.keys.iter().zip(&self.full_names);
                let several = several.filter(|(_, other)| **other == Some(full_name));
                let several: Vec<_> = several.map(|(key, _)| key_text(key)).collect();
                Match::Ambiguous(format!(
                    "{name:?} has the full name {full_name:?}, like {}",
                    listed(&several)
                ))
            }
            None if theirs.is_empty() => Match::Keys(found),
            None => Match::Ambiguous(format!(
                "{name:?} has the full name {full_name:?}, but its key belongs to {}",
                listed(&theirs)
            )),
        }
    }
}

/// Returns the full name of a value's variable, unless it is TensorFlow's default name.
fn saved_name<'a>(value: &SavedValue<'a>) -> Option<&'a str> {
    value.full_name.filter(|&name| name != UNNAMED)
}

/// Returns the keys of each tensor. No key is assigned to two tensors.
pub(crate) fn resolve<'a>(
    names: &[&'a str],
    map: &KeyMap,
    followed: &ReferenceCheckpoint<'_>,
) -> Result<Resolved<'a>> {
    let keys_at = |places: &[usize]| places.iter().map(|&at| followed.keys[at].to_vec()).collect::<Vec<_>>();
    let mut resolved: Vec<Vec<Vec<u8>>> = Vec::with_capacity(names.len());
    let (mut unconfirmed, mut unclear) = (Vec::new(), Vec::new());
    for &name in names {
        let own_keys = map.keys_of(name).unwrap_or_default();
        resolved.push(if followed.is_complete {
            match followed.find(name, own_keys) {
                Match::Keys(places) => keys_at(&places),
                Match::Unconfirmed(places) => {
                    unconfirmed.push(name);
                    keys_at(&places)
                }
                Match::Ambiguous(why) => {
                    unclear.push(why);
                    Vec::new()
                }
            }
        } else if own_keys.is_empty() {
            keys_at(&followed.named(name))
        } else {
            own_keys.to_vec()
        });
    }
    if !unclear.is_empty() {
        let message = "these tensors match no variables of -o like=, either by full names or by keys with positions in lists";
        return Err(Error::usage(format!("{message}: {}", sentences(&unclear)))
            .hint("name the tensors by the full names of the variables, if these are unique"));
    }
    let mut claimed: HashMap<&[u8], &str> = HashMap::with_capacity(names.len());
    for (name, keys) in names.iter().zip(&resolved) {
        for key in keys {
            if let Some(other) = claimed.insert(key, name).filter(|other| other != name) {
                let key = key_text(key);
                return Err(Error::usage(format!("the tensor maps to the same key {key:?} as {other:?}"))
                    .tensor(*name)
                    .hint("drop one of the two tensors"));
            }
        }
    }
    Ok(Resolved { keys: resolved, unconfirmed })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::naming::{Scheme, name};
    use super::*;
    use crate::testing::{Objects, variables};
    use tensorferry_sdk::{ErrorKind, Limits};

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
        let followed = ReferenceCheckpoint::checkpoint(&variables, &tensors, Some(&graph), Origin::Same);
        let mut map = KeyMap::default();
        map.add("renamed", [keys[1].as_bytes(), b"gone"]);
        map.add("lost", [&b"gone"[..]]);
        let names = ["renamed", "lost", "dense/kernel", "_all_variables/1", "total"];
        let resolved = resolve(&names, &map, &followed).unwrap().keys;
        let resolved: Vec<Vec<String>> = resolved.iter().map(|keys| texts(keys)).collect();
        let expected: [&[&str]; 5] = [&[keys[1]], &[], &[keys[0], keys[2]], &[keys[3]], &[]];
        assert_eq!(resolved, expected);

        let followed = ReferenceCheckpoint::graph(&graph);
        let resolved = resolve(&["lost", keys[3], "dense/kernel"], &map, &followed).unwrap().keys;
        assert_eq!(
            resolved.iter().map(|keys| texts(keys)).collect::<Vec<_>>(),
            [vec!["gone"], vec![keys[3]], vec![]]
        );
    }

    #[test]
    fn two_tensors_with_one_key_are_named() {
        let variables = variables(&["w"]);
        let tensors = name(&variables, None, Scheme::Auto, &mut |_, _| Ok(true)).unwrap();
        let followed = ReferenceCheckpoint::checkpoint(&variables, &tensors, None, Origin::Same);
        let mut map = KeyMap::default();
        map.add("v", [&b"w"[..]]);
        let error = resolve(&["v", "w"], &map, &followed).unwrap_err().to_string();
        assert!(error.contains("tensor \"w\"") && error.contains("as \"v\""), "{error}");
    }

    /// Returns the objects of a program that trains variables with these full names. The keys of
    /// the variables are positions in a list.
    fn trained(full_names: &[&str]) -> Objects {
        let mut objects = Objects::new();
        let optimizer = objects.child(0, "optimizer");
        let list = objects.child(optimizer, "_trainable_variables");
        for (place, full_name) in full_names.iter().enumerate() {
            let node = objects.child(list, &place.to_string());
            objects.value(node, &trained_key(place), full_name);
        }
        objects
    }

    fn trained_key(place: usize) -> String {
        format!("optimizer/_trainable_variables/{place}/.ATTRIBUTES/VARIABLE_VALUE")
    }

    /// Resolves tensors whose names are keys of `own`. Returns their keys in `like` and the
    /// unconfirmed names.
    fn followed(
        own: Option<&Objects>,
        like: &Objects,
        names: &[&str],
        map: &KeyMap,
    ) -> Result<(Vec<Vec<String>>, Vec<String>)> {
        let limits = Limits::default();
        let graph = ObjectGraph::new(&like.0, &limits)?;
        let own = own.map(|own| ObjectGraph::new(&own.0, &limits)).transpose()?;
        let keys: Vec<&str> = graph.values().iter().map(|value| value.key).collect();
        let variables = variables(&keys);
        let tensors = name(&variables, Some(&graph), Scheme::Auto, &mut |_, _| Ok(false))?;
        let origin = own.as_ref().map_or(Origin::Unknown, Origin::Graph);
        let followed = ReferenceCheckpoint::checkpoint(&variables, &tensors, Some(&graph), origin);
        let resolved = resolve(names, map, &followed)?;
        let unconfirmed = resolved.unconfirmed.iter().map(|&name| name.to_owned()).collect();
        Ok((resolved.keys.iter().map(|keys| texts(keys)).collect(), unconfirmed))
    }

    #[test]
    fn a_place_is_another_variables_where_the_order_is_another() {
        let (own, like) = (trained(&["b/w", "a/w", "Variable"]), trained(&["a/w", "b/w", "Variable"]));
        let keys: Vec<String> = (0..3).map(trained_key).collect();
        let (zero, one) = (vec![keys[0].clone()], vec![keys[1].clone()]);
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        let expected = vec![one.clone(), zero.clone(), vec![keys[2].clone()]];
        let found = followed(Some(&own), &like, &names, &KeyMap::default()).unwrap();
        assert_eq!(found, (expected, Vec::new()));
        // The user chose these names, and the key map contains the keys.
        let mut map = KeyMap::default();
        map.add("mine", [keys[0].as_bytes()]);
        let (found, _) = followed(Some(&own), &like, &["mine", "a/w"], &map).unwrap();
        assert_eq!(found, [one.clone(), zero.clone()]);
        // The original variables are unknown.
        let (found, unconfirmed) = followed(None, &like, &names, &KeyMap::default()).unwrap();
        assert_eq!((&found[0], &*unconfirmed), (&zero, &keys[..2]));
    }

    #[test]
    fn a_variable_that_is_listed_twice_keeps_its_lists() {
        let exported = |lists: [[&str; 2]; 2]| {
            let mut objects = Objects::new();
            for (list, names) in ["variables", "_all_variables"].into_iter().zip(lists) {
                let node = objects.child(0, list);
                for (place, full_name) in names.into_iter().enumerate() {
                    let node = objects.child(node, &place.to_string());
                    objects.value(node, &format!("{list}/{place}/.ATTRIBUTES/VARIABLE_VALUE"), full_name);
                }
            }
            objects
        };
        let (own, like) = (exported([["a", "b"], ["a", "b"]]), exported([["a", "b"], ["b", "a"]]));
        let key = |list: &str, place: u32| format!("{list}/{place}/.ATTRIBUTES/VARIABLE_VALUE");
        let names = [key("variables", 0), key("_all_variables", 0), key("_all_variables", 1)];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (found, _) = followed(Some(&own), &like, &names, &KeyMap::default()).unwrap();
        assert_eq!(found, [[names[0]], [names[2]], [names[1]]]);
    }

    #[test]
    fn what_full_names_do_not_tell_is_refused() {
        let refused = |own: &[&str], like: &[&str]| {
            let names = [trained_key(0)];
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let error =
                followed(Some(&trained(own)), &trained(like), &names, &KeyMap::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            error.to_string()
        };
        let other = refused(&["b/w"], &["a/w"]);
        assert!(
            other.contains(&format!(
                r#"{:?} has the full name "b/w", but its key belongs to "a/w""#,
                trained_key(0)
            )),
            "{other}"
        );
        let several = refused(&["m/w", "x"], &["m/w", "m/w"]);
        assert!([0, 1].iter().all(|&place| several.contains(&trained_key(place))), "{several}");
        assert!(several.contains(r#"has the full name "m/w", like"#), "{several}");
    }

    #[test]
    fn lists_of_the_program_itself_have_its_order() {
        let layers = |full_names: [&str; 2]| {
            let mut objects = Objects::new();
            let list = objects.child(0, "layers");
            for (place, full_name) in full_names.into_iter().enumerate() {
                let layer = objects.child(list, &place.to_string());
                let node = objects.child(layer, "w");
                objects.value(node, &format!("layers/{place}/w/.ATTRIBUTES/VARIABLE_VALUE"), full_name);
            }
            objects
        };
        let name = "layers/1/w/.ATTRIBUTES/VARIABLE_VALUE";
        let find = |own, like| followed(Some(&layers(own)), &layers(like), &[name], &KeyMap::default());
        assert_eq!(find(["w", "w"], ["w", "w"]).unwrap().0, [[name]]);
        // The program now contains an additional layer before this one.
        let first = "layers/0/w/.ATTRIBUTES/VARIABLE_VALUE";
        assert_eq!(find(["x/w", "y/w"], ["y/w", "z/w"]).unwrap().0, [[first]]);
    }
}
