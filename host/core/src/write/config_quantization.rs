//! What a model folder's `config.json` says of quantised weights, which is untrue once they are dequantised: the entries
//! `quantization_config` and MLX's `quantization` go, and the dtype is the new one. The rest of the file stays as it is,
//! byte for byte.

use super::config_dtype::collect;
use crate::read::entries::Entries;
use crate::steps::model_config::KEYS;
use crate::tensors::cast::torch_name;
use serde_json::value::RawValue;
use std::ops::Range;
use tensorferry_sdk::Dtype;

/// The text of a configuration after its weights became `dtype`, and the change in words; `None` if it said nothing else,
/// or is no JSON.
#[must_use]
pub fn edit(text: &str, dtype: Dtype) -> Option<(String, String)> {
    let now = torch_name(dtype)?;
    let mut ranges = Vec::new();
    entries_of(text, text, 0, &mut ranges).ok()?;
    let mut said = Vec::new();
    collect(text, text, 0, &mut said).ok()?;
    let names_none = said.is_empty();
    let mut changes: Vec<(Range<usize>, &str)> = said
        .iter()
        .filter(|said| said.dtype != now)
        .map(|said| (said.at..said.at + said.dtype.len(), now))
        .collect();
    let gone: Vec<String> = ranges.iter().map(|range| text[range.clone()].to_owned()).collect();
    let entry = format!("\"torch_dtype\": \"{now}\"");
    for (number, range) in ranges.into_iter().enumerate() {
        if number == 0 && names_none {
            changes.push((range, &entry));
        } else {
            changes.push((with_comma(text, range), ""));
        }
    }
    if changes.is_empty() {
        return None;
    }
    let key = |entry: &String| entry.split('"').nth(1).unwrap_or_default().to_owned();
    let gone: Vec<String> = gone.iter().map(key).collect();
    let mut says = format!("the dtype is {now:?} now");
    if !gone.is_empty() {
        says = format!("{} is gone, and {says}", gone.join(" and "));
    }
    changes.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut edited = text.to_owned();
    for (range, text) in changes {
        edited.replace_range(range, text);
    }
    Some((edited, says))
}

/// Where the entries of an object lie that say how weights were quantised, and those of the models in it.
fn entries_of(
    file: &str,
    object: &str,
    depth: usize,
    found: &mut Vec<Range<usize>>,
) -> serde_json::Result<()> {
    let Entries(entries): Entries<&RawValue> = serde_json::from_str(object)?;
    for (key, value) in &entries {
        let value = value.get();
        let at = value.as_ptr() as usize - file.as_ptr() as usize;
        if KEYS.contains(&&**key) {
            let quoted = format!("\"{key}\"");
            // Between a key and its value stands nothing but a colon.
            if let Some(start) = file[..at].rfind(&quoted) {
                found.push(start..at + value.len());
            }
        } else if key == "text_config" && value.starts_with('{') && depth == 0 {
            entries_of(file, value, depth + 1, found)?;
        }
    }
    Ok(())
}

/// An entry with the comma that goes with it, and the space up to the next one.
fn with_comma(text: &str, entry: Range<usize>) -> Range<usize> {
    let after = text[entry.end..].trim_start();
    if let Some(rest) = after.strip_prefix(',') {
        return entry.start..text.len() - rest.trim_start().len();
    }
    let before = text[..entry.start].trim_end();
    before.strip_suffix(',').map_or(entry.clone(), |before| before.len()..entry.end)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_was_said_of_quantised_weights_goes() {
        let of = |text: &str| edit(text, Dtype::BF16).unwrap().0;
        let first =
            "{\n  \"quantization_config\": {\"a\": [1, {\"b\": 2}]},\n  \"torch_dtype\": \"float16\"\n}";
        assert_eq!(of(first), "{\n  \"torch_dtype\": \"bfloat16\"\n}");
        let last = "{\"dtype\": \"float16\", \"x\": 1.0e5,\n \"quantization_config\" : {}\n}";
        assert_eq!(of(last), "{\"dtype\": \"bfloat16\", \"x\": 1.0e5\n}");
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
        let value: serde_json::Value = serde_json::from_str(&edited).unwrap();
        assert_eq!(value, serde_json::json!({"a": "quantization_config", "torch_dtype": "float32", "b": []}));
        assert!(says.contains("quantization_config is gone"), "{says}");
    }
}
