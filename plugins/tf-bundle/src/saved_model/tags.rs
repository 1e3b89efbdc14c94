//! Tags describe the purpose of a graph in a SavedModel, such as `serve` or `serve,gpu`. To choose
//! a graph, the user specifies all of its tags, in any order.

use std::collections::BTreeSet;
use tensorferry_sdk::{Error, Result};

/// Returns the index of the graph with the requested tags. If no tags are requested, returns the
/// only graph.
pub(super) fn choose(graphs: &[Vec<String>], wanted: Option<&[String]>) -> Result<usize> {
    let sets: Vec<BTreeSet<&str>> =
        graphs.iter().map(|tags| tags.iter().map(String::as_str).collect()).collect();
    let Some(first) = sets.first() else {
        return Err(Error::malformed("the SavedModel contains no graph"));
    };
    let listed = || {
        let texts: BTreeSet<String> = sets.iter().map(join).collect();
        texts.into_iter().collect::<Vec<_>>().join(", ")
    };
    match wanted {
        None if sets.iter().all(|set| set == first) => Ok(0),
        None => Err(Error::usage(format!("the SavedModel contains several graphs: {}", listed()))
            .hint("choose one with -i tags=TAGS")),
        Some(wanted) => {
            let wanted: BTreeSet<&str> =
                wanted.iter().map(String::as_str).filter(|tag| !tag.is_empty()).collect();
            // If several graphs match, this expression selects the first one, as TensorFlow does.
            sets.iter().position(|set| *set == wanted).ok_or_else(|| {
                let wanted = join(&wanted);
                Error::usage(format!("no graph of the SavedModel has exactly {wanted}, only {}", listed()))
            })
        }
    }
}

fn join(tags: &BTreeSet<&str>) -> String {
    let tags: Vec<&str> = tags.iter().copied().collect();
    format!("tags={}", tags.join(","))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    fn sets(sets: &[&[&str]]) -> Vec<Vec<String>> {
        sets.iter().map(|tags| strings(tags)).collect()
    }

    fn strings(tags: &[&str]) -> Vec<String> {
        tags.iter().map(|&tag| tag.to_owned()).collect()
    }

    #[test]
    fn tags_are_compared_as_sets() {
        let graphs = sets(&[&["train"], &["serve"], &["serve", "gpu"]]);
        assert_eq!(choose(&graphs, Some(&strings(&["gpu", "serve"]))).unwrap(), 2);
        assert_eq!(choose(&graphs, Some(&strings(&["serve"]))).unwrap(), 1);
        for wanted in [Some(strings(&["gpu"])), Some(strings(&[""])), None] {
            let error = choose(&graphs, wanted.as_deref()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains("tags=gpu,serve, tags=serve, tags=train"), "{error}");
        }
    }

    #[test]
    fn the_only_one_needs_no_choice() {
        assert_eq!(choose(&sets(&[&["serve"]]), None).unwrap(), 0);
        assert_eq!(choose(&sets(&[&[]]), Some(&strings(&[""]))).unwrap(), 0);
        assert_eq!(choose(&sets(&[&["a", "b"], &["b", "a"]]), None).unwrap(), 0);
        assert_eq!(choose(&[], None).unwrap_err().kind(), ErrorKind::Malformed);
    }
}
