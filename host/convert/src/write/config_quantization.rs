//! Updates a model folder's `config.json` after its weights are dequantized: removes the entries
//! `quantization_config` and MLX's `quantization`, and sets the new dtype.

use super::config_document::{ConfigDocument, Entry, Field};
use super::config_dtype::{dtype_name, rename_dtype};
use tensorferry_sdk::Dtype;
use tensorferry_tensors::cast::torch_name;
use tensorferry_tensors::steps::model_config::KEYS;

/// Returns the new text of a configuration after the model's weights were decoded to `dtype`, and a
/// description of the change. Returns `None` if no change is needed, or if `text` is not a JSON
/// object.
#[must_use]
pub fn edit(text: &str, dtype: Dtype) -> Option<(String, String)> {
    let now = torch_name(dtype)?;
    let mut document = ConfigDocument::parse(text)?;
    let (mut gone, mut names_one, mut has_changed) = (Vec::new(), false, false);
    document.each(|entries| names_one |= entries.iter().any(|entry| dtype_name(entry).is_some()));
    document.each(|entries| {
        let mut place = None;
        let mut number = 0;
        entries.retain(|entry| {
            let is_gone = KEYS.contains(&&*entry.key);
            if is_gone {
                gone.push(entry.key.clone());
                place = place.or(Some(number));
            }
            number += 1;
            !is_gone
        });
        for entry in entries.iter_mut() {
            has_changed |= rename_dtype(entry, now).is_some();
        }
        if let (Some(place), false) = (place, names_one) {
            let value = Field::Text(format!("\"{now}\"").into());
            entries.insert(place, Entry { key: "torch_dtype".to_owned(), value });
            names_one = true;
        }
    });
    let says = format!("the dtype is now {now:?}");
    match &*gone {
        [] if !has_changed => None,
        [] => Some((document.text(), says)),
        _ => {
            gone.dedup();
            Some((document.text(), format!("removed {}; {says}", gone.join(" and "))))
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_was_said_of_quantized_weights_goes() {
        let of = |text: &str| edit(text, Dtype::BF16).unwrap().0;
        let first =
            "{\n  \"quantization_config\": {\"a\": [1, {\"b\": 2}]},\n  \"torch_dtype\": \"float16\"\n}";
        assert_eq!(of(first), "{\n  \"torch_dtype\": \"bfloat16\"\n}");
        let last = "{\"dtype\": \"float16\", \"x\": 1.0e5, \"quantization_config\" : {}}\n";
        assert_eq!(of(last), "{\"dtype\": \"bfloat16\", \"x\": 1.0e5}\n");
        let alone = "{\"quantization_config\": {\"dtype\": \"float32\"}}";
        assert_eq!(of(alone), "{\"torch_dtype\": \"bfloat16\"}");
        let both = "{\"quantization\": {\"bits\": 4}, \"quantization_config\": {\"bits\": 4}, \"y\": 1}";
        assert_eq!(of(both), "{\"torch_dtype\": \"bfloat16\", \"y\": 1}");
        let nested = "{\"text_config\": {\"quantization_config\": {}, \"dtype\": \"bfloat16\"}}";
        assert_eq!(of(nested), "{\"text_config\": {\"dtype\": \"bfloat16\"}}");
        for same in ["{\"dtype\": \"bfloat16\"}", "{}", "not JSON", "[]"] {
            assert_eq!(edit(same, Dtype::BF16), None, "{same}");
        }
    }

    #[test]
    fn what_is_edited_is_still_json() {
        let text = "{\"a\": \"quantization_config\", \"quantization_config\": {\"quantization_config\": 1}, \"b\": []}";
        let (edited, says) = edit(text, Dtype::F32).unwrap();
        let value: Value = serde_json::from_str(&edited).unwrap();
        assert_eq!(value, json!({"a": "quantization_config", "torch_dtype": "float32", "b": []}));
        assert!(says.contains("removed quantization_config"), "{says}");
    }

    #[test]
    fn keys_go_wherever_they_stand() {
        let keys = ["quantization", "quantization_config", "torch_dtype", "x"];
        // Test every combination of keys in every order, in the main object and in the
        // configuration for a part of the model.
        for code in 0..5_usize.pow(4) {
            let chosen: Vec<&str> =
                (0..4).filter_map(|digit| keys.get(code / 5_usize.pow(digit) % 5)).copied().collect();
            let mut is_once = chosen.clone();
            is_once.sort_unstable();
            is_once.dedup();
            if is_once.len() < chosen.len() {
                continue;
            }
            let entry = |key: &&str| match *key {
                "torch_dtype" => "\"torch_dtype\": \"float16\"".to_owned(),
                "x" => "\"x\": {\"a\": \"},{\"}".to_owned(),
                key => format!("\"{key}\": {{\"bits\": [4]}}"),
            };
            let inner: Vec<String> = chosen.iter().map(entry).collect();
            for text in [
                format!("{{{}}}", inner.join(", ")),
                format!("{{\n  {}\n}}\n", inner.join(",\n  ")),
                format!("{{\"text_config\": {{{}}}, \"y\": 1}}", inner.join(", ")),
            ] {
                let edited = edit(&text, Dtype::F16).map_or(text.clone(), |(edited, _)| edited);
                let (found, mut right): (Value, Value) =
                    (serde_json::from_str(&edited).unwrap(), serde_json::from_str(&text).unwrap());
                let has_text_config = right.get("text_config").is_some();
                let object = if has_text_config { &mut right["text_config"] } else { &mut right };
                let object = object.as_object_mut().unwrap();
                let is_gone =
                    object.remove("quantization").is_some() | object.remove("quantization_config").is_some();
                if is_gone {
                    object.insert("torch_dtype".to_owned(), json!("float16"));
                }
                assert_eq!(found, right, "{text}");
            }
        }
    }
}
