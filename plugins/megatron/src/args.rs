//! Parses the plain values among the arguments of a run. Megatron pickles the arguments as an
//! `argparse.Namespace`, which ferry treats as plain data.

use std::collections::BTreeMap;
use tensorferry_sdk::{Error, Result, Value};
use tensorferry_torch_file::Budget;
use tensorferry_torch_file::pickle::{self, Graph, ValueId};

/// Maximum number of items in a list. Longer lists, such as dataset paths, are ignored.
const MAX_ITEMS: usize = 64;

/// Arguments that determine how to join the ranks, and must be the same on all ranks.
const DECIDING: [&str; 15] = [
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "virtual_pipeline_model_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "kv_channels",
    "swiglu",
    "padded_vocab_size",
    "untie_embeddings_and_output_weights",
    "num_experts",
];

/// The plain values among the arguments, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Args(BTreeMap<String, Value>);

impl Args {
    /// Empty arguments, for a file that does not contain any.
    pub(crate) const NONE: Self = Self(BTreeMap::new());

    /// Returns the dict of attributes if the value is a namespace, and the value itself otherwise.
    pub(crate) fn entries(graph: &Graph, value: ValueId) -> ValueId {
        let called = graph.called(value);
        let namespace = called.filter(|(global, _)| matches!(&*global.name, "Namespace" | "SimpleNamespace"));
        namespace.and_then(|(_, call)| call.state).unwrap_or(value)
    }

    /// Reads the plain values in a namespace or dict. For any other value, the result is empty.
    pub(crate) fn read(graph: &Graph, value: ValueId, budget: &mut Budget) -> Result<Self> {
        let mut args = BTreeMap::new();
        for (key, value) in graph.entries(Self::entries(graph, value)).unwrap_or_default() {
            let Some(key) = graph.text(key) else { continue };
            if let Some(value) = plain(graph, value, budget, true)? {
                args.insert(budget.name(key)?, value);
            }
        }
        Ok(Self(args))
    }

    /// Returns a non-negative integer argument.
    pub(crate) fn count(&self, key: &str) -> Option<u64> {
        u64::try_from(self.0.get(key)?.root().as_int()?).ok()
    }

    /// Returns whether the arguments declare only one tensor rank, one pipeline stage and one
    /// expert rank.
    pub(crate) fn declares_one_rank(&self) -> bool {
        let is_one = |key, unsaid| self.count(key).or(unsaid) == Some(1);
        let tensor = ["tensor_model_parallel_size", "model_parallel_size"];
        tensor.into_iter().any(|key| is_one(key, None))
            && ["pipeline_model_parallel_size", "expert_model_parallel_size"]
                .into_iter()
                .all(|key| is_one(key, Some(1)))
    }

    /// Returns a boolean argument.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.0.get(key)?.root().as_bool()
    }

    /// Returns whether MLPs are gated, or `None` if this does not follow from the arguments.
    pub(crate) fn gated(&self) -> Option<bool> {
        let gates = ["swiglu", "quick_geglu", "geglu", "gated_linear_unit"].map(|key| self.flag(key));
        let has_gate = self.0.get("glu_activation").is_some_and(|value| value.as_text().is_some());
        if has_gate || gates.contains(&Some(true)) { Some(true) } else { self.flag("swiglu") }
    }

    /// Returns all arguments as one mapping, or `None` if there are none.
    pub(crate) fn value(&self) -> Result<Option<Value>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        Value::map(self.0.iter().map(|(key, value)| (Value::text(key), value.clone()))).map(Some)
    }

    /// Checks that another rank has the same values for the arguments that determine how to join
    /// ranks.
    pub(crate) fn check_same(&self, other: &Self) -> Result<()> {
        let different = DECIDING.into_iter().find(|&key| self.0.get(key) != other.0.get(key));
        let said = |args: &Self, key| args.0.get(key).map_or_else(|| "nothing".to_owned(), Value::json);
        different.map_or(Ok(()), |key| {
            Err(Error::malformed(format!("the rank's {key} argument differs from the first rank's"))
                .expected(said(self, key))
                .found(said(other, key)))
        })
    }
}

fn plain(graph: &Graph, value: ValueId, budget: &mut Budget, lists: bool) -> Result<Option<Value>> {
    Ok(match graph.value(value) {
        pickle::Value::Bool(flag) => Some(Value::bool(*flag)),
        pickle::Value::Int(int) => Some(Value::int(*int)),
        pickle::Value::Float(float) => Some(Value::float(*float)),
        pickle::Value::Text(text) => match text.as_str() {
            Some(text) => Some(Value::text(&budget.name(text)?)),
            None => None,
        },
        // The global is usually a dtype, such as `torch.bfloat16`.
        pickle::Value::Global(_) => {
            let path = graph.global(value).map(pickle::Global::path);
            path.map(|path| budget.name(&path)).transpose()?.map(|path| Value::text(&path))
        }
        _ if lists => match graph.sequence(value).filter(|items| items.len() <= MAX_ITEMS) {
            Some(items) => {
                let mut values = Vec::with_capacity(items.len());
                for &item in items {
                    values.extend(plain(graph, item, budget, false)?);
                }
                if values.len() == items.len() { Some(Value::list(values)?) } else { None }
            }
            None => None,
        },
        _ => None,
    })
}
