//! Builds the page document of one or more models. A page may have a hundred thousand tensors, so
//! the document stores them as columns. For each tensor, it contains a few numbers and the part of
//! the name that differs from the previous name.

use super::tensor_locations::TensorLocations;
use super::{format_losses, js_integer, truncated};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use tensorferry::describe::ModelDescription;
use tensorferry::inspect::{Inspected, outline};
use tensorferry::statistics::{Finding, ModelStatistics};
use tensorferry::{LossRecord, Registry};
use tensorferry_page::shared_beginnings;
use tensorferry_sdk::Value as MetadataValue;

/// Maximum number of characters of a metadata value. The metadata value of a tokenizer may be
/// several megabytes long.
const MAX_VALUE_CHARACTERS: usize = 2_000;
/// Maximum number of items of a list in the model's state.
const MAX_ITEMS: usize = 200;
/// Maximum number of values in the model's whole state.
const MAX_STATE: usize = 100_000;
/// Maximum number of tensors with a histogram. The other statistics are included for all tensors.
const MAX_HISTOGRAMS: usize = 10_000;

/// A model, and all data that a page shows for the model.
pub(crate) struct ModelPage<'a> {
    /// Subfolder that contains the model, if the input contains several models.
    pub(crate) folder: Option<&'a str>,
    pub(crate) inspected: &'a Inspected,
    pub(crate) description: &'a ModelDescription,
    /// The description of the model, as lines of the form `key: value`.
    pub(crate) facts: Vec<String>,
    /// The statistics. Present only with `--stats`.
    pub(crate) statistics: Option<&'a ModelStatistics>,
    /// The digest of each tensor. Present only with `--digest`.
    pub(crate) digests: Option<Vec<String>>,
    /// Heat maps, keyed by the index of the tensor.
    pub(crate) heats: BTreeMap<usize, Value>,
}

/// Returns the document for a page of models. If `is_live` is true, the page requests the values of
/// a tensor from a server.
pub(crate) fn models(title: &str, shown: &[ModelPage<'_>], is_live: bool, registry: &Registry) -> Value {
    let models: Vec<Value> = shown.iter().map(|one| model(one, registry)).collect();
    json!({ "kind": "model", "version": env!("CARGO_PKG_VERSION"), "title": title, "live": is_live, "models": models })
}

fn model(shown: &ModelPage<'_>, registry: &Registry) -> Value {
    let Inspected { input, catalog, losses } = shown.inspected;
    let locations = TensorLocations::of(shown.inspected);
    let mut dtypes = ValueIndex::default();
    let mut shapes = ValueIndex::default();
    // The dtype with the most bytes is assigned the first color.
    let mut by_size: Vec<_> = shown.description.count.dtypes.iter().collect();
    by_size.sort_by_key(|(_, count)| std::cmp::Reverse(count.bytes));
    for (name, _) in &by_size {
        dtypes.of((*name).clone());
    }
    let name_of = |dtype| catalog.dtype_info(dtype).map_or("?", |info| info.name()).to_owned();
    let tensors = catalog.tensors();
    let of_dtype: Vec<usize> = tensors.iter().map(|tensor| dtypes.of(name_of(tensor.dtype))).collect();
    let of_shape: Vec<usize> = tensors.iter().map(|tensor| shapes.of(tensor.shape.clone())).collect();
    let ties = catalog.ties().into_iter().enumerate().filter(|(at, first)| first.0 as usize != *at);
    let tied: BTreeMap<usize, u32> = ties.map(|(at, first)| (at, first.0)).collect();
    let attributed = tensors.iter().enumerate().filter(|(_, tensor)| !tensor.attributes.is_empty());
    let attributes: BTreeMap<usize, Map<String, Value>> = attributed
        .map(|(at, tensor)| {
            (
                at,
                tensor
                    .attributes
                    .iter()
                    .map(|(key, value)| (key.clone(), value_text(value).0.into()))
                    .collect(),
            )
        })
        .collect();
    let by_name: HashMap<&str, usize> =
        tensors.iter().enumerate().map(|(at, tensor)| (tensor.name.as_str(), at)).collect();
    let globals = catalog.globals();
    json!({
        "folder": shown.folder,
        "format": input.format.description.id,
        "format_title": input.format.description.title,
        "parameters": js_integer(shown.description.count.parameters),
        "bytes": js_integer(tensors.iter().map(|tensor| tensor.bytes).fold(0, u64::saturating_add)),
        "facts": shown.facts.iter().filter_map(|line| line.split_once(": ")).collect::<Vec<_>>(),
        "files": locations.files,
        "dtypes": dtypes.all,
        "dtype_sizes": by_size.iter().map(|(name, count)| {
            json!({ "dtype": name, "tensors": count.tensors, "bytes": js_integer(count.bytes) })
        }).collect::<Vec<_>>(),
        "shapes": shapes.all.iter().map(|shape| shape.iter().map(|dim| js_integer(*dim)).collect()).collect::<Vec<Vec<_>>>(),
        "tensors": {
            "names": shared_beginnings(tensors.iter().map(|tensor| tensor.name.as_str())),
            "dtype": of_dtype,
            "shape": of_shape,
            "bytes": tensors.iter().map(|tensor| js_integer(tensor.bytes)).collect::<Vec<_>>(),
            "file": locations.of.iter().map(|location| location.map_or(Value::from(-1), |(file, _)| file.into())).collect::<Vec<_>>(),
            "offset": locations.of.iter().map(|location| location.map(|(_, offset)| js_integer(offset))).collect::<Vec<_>>(),
            "tied": tied,
            "attributes": attributes,
            "digest": shown.digests,
        },
        "weights": weights(shown),
        "stats": shown.statistics.map(|statistics| by_number(statistics, &by_name)),
        "heat": shown.heats,
        "findings": shown.statistics.map(|statistics| statistics.findings.iter().map(finding).collect::<Vec<_>>()),
        "notes": shown.statistics.map(|statistics| &statistics.notes),
        "metadata": catalog.metadata().iter().map(|(key, value)| {
            let (text, len) = value_text(value);
            json!([key, text, len])
        }).collect::<Vec<_>>(),
        "state": outline::json(catalog).map(|state| without_tensors(json!(state.within(MAX_STATE)))),
        "globals": globals.iter().take(1000).collect::<Vec<_>>(),
        "losses": losses.iter().map(LossRecord::of).collect::<Vec<_>>(),
        "elsewhere": format_losses::losses(catalog, &input.format.description.id, registry),
    })
}

/// Distinct values, each numbered in order of its first appearance.
struct ValueIndex<T> {
    all: Vec<T>,
    of: HashMap<T, usize>,
}

impl<T> Default for ValueIndex<T> {
    fn default() -> Self {
        Self { all: Vec::new(), of: HashMap::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> ValueIndex<T> {
    fn of(&mut self, thing: T) -> usize {
        let next = self.all.len();
        let number = *self.of.entry(thing.clone()).or_insert(next);
        if number == next {
            self.all.push(thing);
        }
        number
    }
}

/// Formats a value as a string or as JSON, shortened for a page. Also returns the number of
/// characters of the unshortened value.
fn value_text(value: &MetadataValue) -> (String, usize) {
    match value.as_text() {
        Some(text) => truncated(text, MAX_VALUE_CHARACTERS),
        None => truncated(&value.json(), MAX_VALUE_CHARACTERS),
    }
}

/// Returns the weights that consist of several tensors, with their statistics.
fn weights(shown: &ModelPage<'_>) -> Vec<Value> {
    let of_weights = shown.statistics.iter().flat_map(|statistics| &statistics.tensors);
    let stats: HashMap<&str, Value> = of_weights
        .filter(|tensor| !tensor.parts.is_empty())
        .map(|tensor| (tensor.name.as_str(), compact(tensor.json())))
        .collect();
    let weight = |weight| {
        let mut record = json!(weight);
        record["stats"] = record["name"].as_str().and_then(|name| stats.get(name)).cloned().into();
        record
    };
    shown.description.weights.iter().map(weight).collect()
}

/// Returns the statistics, keyed by tensor index. If a tensor is part of a weight, its entry
/// contains only the name of the weight.
fn by_number(statistics: &ModelStatistics, by_name: &HashMap<&str, usize>) -> BTreeMap<usize, Value> {
    let mut all = BTreeMap::new();
    for tensor in &statistics.tensors {
        let parts = tensor.parts.iter().filter_map(|part| by_name.get(part.as_str()));
        all.extend(parts.map(|&at| (at, json!({ "part_of": tensor.name }))));
    }
    for tensor in &statistics.tensors {
        if let Some(&at) = by_name.get(tensor.name.as_str()) {
            let mut stats = compact(tensor.json());
            if let Some(stats) = stats.as_object_mut().filter(|_| at >= MAX_HISTOGRAMS) {
                stats.remove("histogram");
            }
            all.insert(at, stats);
        }
    }
    all
}

/// Reduces the size of a tensor's statistics, because a page may contain a hundred thousand of
/// them. Removes counts that are zero. Keeps only the first and last edge of a histogram, because
/// its bins are equally wide. Removes the histogram if all values are equal.
pub(crate) fn compact(mut stats: Value) -> Value {
    let is_one = stats.get("min") == stats.get("max");
    let Some(found) = stats.as_object_mut() else { return stats };
    found.retain(|key, value| {
        !matches!(key.as_str(), "zeros" | "nan" | "posinf" | "neginf" | "subnormals" | "saturated")
            || *value != 0
    });
    found.remove("finite");
    if is_one {
        found.remove("histogram");
    }
    if let Some(histogram) = found.get_mut("histogram") {
        let edges = histogram["edges"].as_array().cloned().unwrap_or_default();
        let [from, to] = [edges.first(), edges.last()].map(|edge| edge.cloned().unwrap_or_default());
        *histogram = json!({ "from": from, "to": to, "counts": histogram["counts"].take() });
    }
    stats
}

fn finding(finding: &Finding) -> Value {
    let mut record = finding.json();
    record["title"] = finding.kind.title().into();
    record
}

/// Replaces the tensor names in each branch of the state with the number of those tensors. The page
/// shows the names in its tree of tensors.
fn without_tensors(state: Value) -> Value {
    let is_tensor =
        |value: &Value| value.as_object().is_some_and(|it| it.len() == 1 && it.contains_key("tensor"));
    let count_text =
        |count: usize| if count == 1 { "1 tensor".to_owned() } else { format!("{count} tensors") };
    match state {
        Value::Object(entries) if !entries.contains_key("tensor") || entries.len() > 1 => {
            let (tensors, others): (Vec<_>, Vec<_>) =
                entries.into_iter().partition(|(_, value)| is_tensor(value));
            let mut kept: Map<String, Value> =
                others.into_iter().map(|(key, value)| (key, without_tensors(value))).collect();
            match tensors.len() {
                0 => {}
                1..=4 => kept.extend(tensors),
                count => drop(kept.insert("(tensors)".to_owned(), count_text(count).into())),
            }
            kept.into()
        }
        Value::Array(items) => {
            let count = items.len();
            if count > 4 && items.iter().all(is_tensor) {
                return count_text(count).into();
            }
            let mut kept: Vec<Value> = items.into_iter().take(MAX_ITEMS).map(without_tensors).collect();
            if count > MAX_ITEMS {
                kept.push(format!("... and {} more", count - MAX_ITEMS).into());
            }
            kept.into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_short() {
        let edges: Vec<usize> = (0..=64).collect();
        let stats = json!({ "count": 9, "finite": 9, "min": 0, "max": 64, "nan": 0, "zeros": 2, "histogram": { "edges": edges, "counts": [9] } });
        let expected = json!({ "count": 9, "min": 0, "max": 64, "zeros": 2, "histogram": { "from": 0, "to": 64, "counts": [9] } });
        assert_eq!(compact(stats), expected);
        let same = json!({ "min": 1.0, "max": 1.0, "histogram": { "edges": edges, "counts": [9] } });
        assert_eq!(compact(same), json!({ "min": 1.0, "max": 1.0 }));
        assert_eq!(compact(json!({ "problem": "why" })), json!({ "problem": "why" }));
    }

    #[test]
    fn state_counts_the_tensors_that_stand_elsewhere() {
        let tensor = |name: &str| json!({ "tensor": name });
        let many: Map<String, Value> = (0..9).map(|n| (n.to_string(), tensor("w"))).collect();
        let state = json!({ "epoch": 7, "one": tensor("a"), "many": many, "list": vec![tensor("b"); 5], "long": vec![0; 300] });
        let found = without_tensors(state);
        assert_eq!(found["epoch"], 7);
        assert_eq!(found["one"], tensor("a"));
        assert_eq!(found["many"], json!({ "(tensors)": "9 tensors" }));
        assert_eq!(found["list"], "5 tensors");
        assert_eq!(found["long"][200], "... and 100 more");
    }
}
