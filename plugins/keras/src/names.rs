//! Derives the names of variables from their layers. The names of layers are in attributes of the
//! file. The layer's class and the variable's index determine the name of a variable, because the
//! variables of a built-in Keras layer are in a fixed order.

use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The variables of each layer class, in order. If a variable exists only with an option of the
/// layer, the entry specifies the option.
const VARIABLES: &[(&[&str], &[(&str, Option<&str>)])] = &[
    (
        &[
            "Dense",
            "Conv1D",
            "Conv2D",
            "Conv3D",
            "Conv1DTranspose",
            "Conv2DTranspose",
            "Conv3DTranspose",
            "DepthwiseConv1D",
            "DepthwiseConv2D",
        ],
        &[("kernel", None), ("bias", Some("use_bias"))],
    ),
    (&["EinsumDense"], &[("kernel", None), ("bias", Some("bias_axes"))]),
    (&["Embedding", "ReversibleEmbedding"], &[("embeddings", None), ("reverse_embeddings", None)]),
    (
        &["SeparableConv1D", "SeparableConv2D"],
        &[("depthwise_kernel", None), ("pointwise_kernel", None), ("bias", Some("use_bias"))],
    ),
    (
        &["BatchNormalization"],
        &[
            ("gamma", Some("scale")),
            ("beta", Some("center")),
            ("moving_mean", None),
            ("moving_variance", None),
        ],
    ),
    (&["LayerNormalization", "GroupNormalization"], &[("gamma", Some("scale")), ("beta", Some("center"))]),
    (&["RMSNormalization", "AdditiveAttention"], &[("scale", None)]),
    (
        &["LSTMCell", "GRUCell", "SimpleRNNCell"],
        &[("kernel", None), ("recurrent_kernel", None), ("bias", Some("use_bias"))],
    ),
    (&["PReLU"], &[("alpha", None)]),
    (&["Normalization"], &[("mean", None), ("variance", None), ("count", None)]),
];
/// The first variables of every optimizer. Each further variable of the optimizer corresponds to a
/// variable of the model, in the model's order.
const OPTIMIZER: &[&str] = &["iteration", "learning_rate"];

/// A layer in a configuration.
struct Layer<'a> {
    class: &'a str,
    config: &'a Value,
}

/// The information that is needed to derive the names of variables.
pub(crate) struct LayerNames<'a> {
    layer_names: &'a HashMap<String, String>,
    layers: HashMap<&'a str, Layer<'a>>,
    /// Number of variables in each group `vars`.
    counts: HashMap<&'a str, usize>,
    /// Groups of quantized layers. Quantized layers have additional variables in a different order.
    quantized: HashSet<&'a str>,
}

impl<'a> LayerNames<'a> {
    pub(crate) fn new(
        layer_names: &'a HashMap<String, String>,
        config: Option<&'a Value>,
        paths: impl Iterator<Item = &'a str>,
        narrow: impl Iterator<Item = &'a str>,
    ) -> Self {
        let mut counts = HashMap::new();
        for (group, _) in paths.filter_map(|path| path.rsplit_once('/')) {
            *counts.entry(group).or_default() += 1;
        }
        let quantized = narrow.filter_map(|path| Some(path.rsplit_once('/')?.0)).collect();
        Self { layer_names, layers: layers(config), counts, quantized }
    }

    /// Returns the name of the variable at a path. Returns the path itself if it is not in a group
    /// `vars`, or if the layer is quantized.
    pub(crate) fn of(&self, path: &str) -> String {
        let variable = path.rsplit_once('/').and_then(|(group, number)| {
            let object = group.strip_suffix("vars")?;
            let object = object.strip_suffix('/').or(object.is_empty().then_some(""))?;
            Some((group, object, number.parse::<usize>().ok()?))
        });
        let variable = variable.filter(|(group, ..)| !self.quantized.contains(group));
        let Some((group, object, index)) = variable else { return path.to_owned() };
        let count = self.counts.get(group).copied().unwrap_or(0);
        let ends = object.match_indices('/').map(|(end, _)| end).chain([object.len()]);
        let mut parts: Vec<&str> = Vec::new();
        for object in ends.filter_map(|end| object.get(..end)).filter(|object| !object.is_empty()) {
            parts.extend(self.layer_names.get(object).map(|name| &**name));
        }
        let own = self.layer_names.get(object).map(|name| &**name);
        let last = object.rsplit('/').next().unwrap_or(object);
        if own.is_none() {
            parts.push(last);
        }
        let name = match object {
            "optimizer" => OPTIMIZER.get(index).copied(),
            _ => self.variable(own, last, count, index),
        };
        let number = index.to_string();
        parts.push(name.unwrap_or(&number));
        parts.join("/")
    }

    /// Returns the name of a variable in a built-in Keras layer. The configuration determines the
    /// layer's class. Without a configuration, the group's name determines the class, because Keras
    /// names the groups of layers in a list after their classes.
    fn variable(&self, own: Option<&str>, last: &str, count: usize, index: usize) -> Option<&'static str> {
        let layer = own.and_then(|own| self.layers.get(own));
        let (_, all) = VARIABLES.iter().find(|(classes, _)| {
            classes.iter().any(|class| layer.map_or_else(|| is_called(last, class), |l| l.class == *class))
        })?;
        let has = |option: Option<&str>| {
            let declared = option.and_then(|option| layer?.config.get(option));
            declared.is_none_or(|declared| declared.as_bool().unwrap_or(!declared.is_null()))
        };
        // Without a configuration, the file does not show which optional variables exist. If some
        // variables are missing, the names are certain only for the variables before the first
        // optional one.
        let sure = all.iter().take_while(|(_, option)| option.is_none()).count();
        if layer.is_none() && count != all.len() && index >= sure {
            return None;
        }
        all.iter().filter(|(_, option)| has(*option)).nth(index).map(|(name, _)| *name)
    }
}

/// Returns whether a group is named after a class: `batch_normalization_1` is named after
/// `BatchNormalization`.
fn is_called(group: &str, class: &str) -> bool {
    let stem = match group.rsplit_once('_') {
        Some((stem, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => group,
    };
    let letters = |text: &str| text.replace('_', "").to_ascii_lowercase();
    letters(stem) == letters(class) || letters(group) == letters(class)
}

/// Returns the layers in a configuration, by name. If different layers have the same name, the
/// result does not contain the name.
fn layers(config: Option<&Value>) -> HashMap<&str, Layer<'_>> {
    let mut found: HashMap<&str, Option<Layer<'_>>> = HashMap::new();
    let mut open: Vec<&Value> = config.into_iter().collect();
    while let Some(value) = open.pop() {
        if let (Some(class), Some(config)) =
            (value.get("class_name").and_then(Value::as_str), value.get("config"))
            && let Some(name) = config.get("name").and_then(Value::as_str)
        {
            let layer = Layer { class, config };
            let entry = found.entry(name);
            entry
                .and_modify(|known| {
                    if known.as_ref().is_some_and(|known| known.class != class || known.config != config) {
                        *known = None;
                    }
                })
                .or_insert(Some(layer));
        }
        match value {
            Value::Array(values) => open.extend(values),
            Value::Object(entries) => open.extend(entries.values()),
            _ => {}
        }
    }
    found.into_iter().filter_map(|(name, layer)| Some((name, layer?))).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn of(config: &str, names: &[(&str, &str)], paths: &[&str]) -> Vec<String> {
        let config: Value = serde_json::from_str(config).unwrap();
        let names = names.iter().map(|(path, name)| ((*path).to_owned(), (*name).to_owned())).collect();
        let own = LayerNames::new(&names, Some(&config), paths.iter().copied(), std::iter::empty());
        paths.iter().map(|path| own.of(path)).collect()
    }

    #[test]
    fn a_quantized_layer_has_variables_in_an_order_of_its_own() {
        let names = [("d".to_owned(), "n".to_owned())].into();
        let paths = ["d/vars/0", "d/vars/1"];
        let own = LayerNames::new(&names, None, paths.into_iter(), paths.into_iter().take(1));
        assert_eq!(paths.map(|path| own.of(path)), paths);
        let config = r#"{"class_name":"EinsumDense","config":{"name":"n","bias_axes":null}}"#;
        assert_eq!(of(config, &[("d", "n")], &paths), ["n/kernel", "n/1"]);
    }

    #[test]
    fn layers_and_their_order_name_variables() {
        let names = [("layers/sequential", "encoder"), ("layers/sequential/layers/dense", "e1")];
        let paths = ["layers/sequential/layers/dense/vars/0", "layers/sequential/layers/dense/vars/1"];
        assert_eq!(of("{}", &names, &paths), ["encoder/e1/kernel", "encoder/e1/bias"]);
        assert_eq!(of("{}", &names, &["optimizer/vars/0", "plain"]), ["optimizer/iteration", "plain"]);
    }

    #[test]
    fn what_a_layer_does_not_have_moves_the_rest_up() {
        let config = r#"{"class_name":"BatchNormalization","config":{"name":"bn","scale":false}}"#;
        let names = [("layers/batch_normalization", "bn")];
        let paths = ["layers/batch_normalization/vars/0", "layers/batch_normalization/vars/1"];
        assert_eq!(of(config, &names, &paths), ["bn/beta", "bn/moving_mean"]);
        // The layer class has four possible variables, and the file does not show which two of them
        // exist.
        assert_eq!(of("{}", &names, &paths), ["bn/0", "bn/1"]);
    }
}
