//! Lists a model's content that other formats cannot store, according to the capabilities of the
//! formats' writers. This module does not plan conversions. `ferry convert --dry-run` reports what
//! each tensor loses.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use tensorferry::Registry;
use tensorferry::inspect::of_state;
use tensorferry::inspect::part::take;
use tensorferry::request::Part;
use tensorferry_sdk::{Capabilities, Catalog, LossKind, listed};

/// Maximum number of names to list in the line for one loss.
const MAX_NAMED: usize = 6;

/// Returns the losses that a conversion to each other tensor format would cause.
pub(super) fn losses(catalog: &Catalog, own: &str, registry: &Registry) -> Vec<Value> {
    let holds = ModelContent::of(catalog);
    let others = registry.formats().iter().filter(|format| {
        format.description.capabilities.has(Capabilities::WRITE) && *format.description.id != *own
    });
    let line = |description: &tensorferry_sdk::Description| {
        json!({
            "format": description.id,
            "title": description.title,
            "losses": holds.lost_to(description.capabilities),
        })
    };
    others.map(|format| line(&format.description)).collect()
}

/// A model's content, without the tensor values.
struct ModelContent {
    state: Vec<String>,
    metadata: Vec<String>,
    values: Vec<String>,
    ties: Vec<String>,
    attributes: Vec<String>,
    dtypes: BTreeSet<String>,
}

impl ModelContent {
    fn of(catalog: &Catalog) -> Self {
        let part = take(catalog.clone(), &Part::Auto, true);
        let state = match &part {
            Ok((part, left_out)) => {
                let of_part = of_state(part, false);
                let all = left_out.iter().chain(&of_part).filter(|loss| loss.kind == LossKind::State);
                all.map(|loss| loss.what.clone()).collect()
            }
            Err(_) => of_state(catalog, false).into_iter().map(|loss| loss.what).collect(),
        };
        let tensors = catalog.tensors();
        let again = catalog.ties().into_iter().enumerate().filter(|(at, first)| first.0 as usize != *at);
        let metadata = catalog.metadata();
        Self {
            state,
            metadata: metadata.keys().cloned().collect(),
            values: metadata
                .iter()
                .filter(|(_, value)| value.as_text().is_none())
                .map(|(key, _)| key.clone())
                .collect(),
            ties: again.map(|(at, _)| tensors[at].name.clone()).collect(),
            attributes: tensors
                .iter()
                .filter(|it| !it.attributes.is_empty())
                .map(|it| it.name.clone())
                .collect(),
            dtypes: tensors
                .iter()
                .filter(|tensor| tensor.dtype.info().is_none())
                .filter_map(|tensor| Some(catalog.dtype_info(tensor.dtype)?.name().to_owned()))
                .collect(),
        }
    }

    /// Lists the content that a writer with these capabilities cannot store.
    fn lost_to(&self, writer: Capabilities) -> Vec<String> {
        let keeps_metadata = writer.has(Capabilities::METADATA);
        let dtypes: Vec<String> = self.dtypes.iter().cloned().collect();
        let packed = "custom dtypes, written as U8 and described in the metadata";
        let unknown = "custom dtypes, which may be rejected";
        let all = [
            ("state", &self.state, !writer.has(Capabilities::TREE)),
            ("metadata", &self.metadata, !keeps_metadata),
            (
                "types of metadata values, written as JSON",
                &self.values,
                keeps_metadata && !writer.has(Capabilities::VALUES),
            ),
            ("tied tensors, written several times", &self.ties, !writer.has(Capabilities::TIES)),
            ("attributes of tensors", &self.attributes, !writer.has(Capabilities::ATTRIBUTES)),
            (if keeps_metadata { packed } else { unknown }, &dtypes, !writer.has(Capabilities::DTYPES)),
        ];
        let lost = all.into_iter().filter(|(_, names, is_lost)| *is_lost && !names.is_empty());
        lost.map(|(what, names, _)| line(what, names)).collect()
    }
}

/// Formats the line for one loss, such as `metadata: a, b and 4 more`.
fn line(what: &str, names: &[String]) -> String {
    let short = |name: &String| name.chars().take(80).collect::<String>();
    format!("{what}: {}", listed(names.iter().map(short), MAX_NAMED))
}
