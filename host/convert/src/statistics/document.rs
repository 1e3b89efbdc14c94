//! Statistics as JSON. Infinities and NaN are written as strings.

use super::{Finding, ModelStatistics, TensorStatistics};
use serde_json::{Value, json};
use tensorferry_tensors::statistics::{Number, Numbers, Statistics, Texts};

impl ModelStatistics {
    #[must_use]
    pub fn findings_json(&self) -> Value {
        self.findings.iter().map(Finding::json).collect()
    }
}

impl Finding {
    #[must_use]
    pub fn json(&self) -> Value {
        let mut record = json!({ "kind": self.kind.word(), "tensors": self.tensors, "what": self.what });
        let layers = self.layers();
        if !layers.is_empty() {
            record["layers"] = json!(layers);
        }
        record
    }
}

impl TensorStatistics {
    #[must_use]
    pub fn json(&self) -> Value {
        let mut record = match &self.found {
            Ok(Statistics::Numbers(numbers)) => of_numbers(numbers),
            Ok(Statistics::Texts(texts)) => of_texts(texts),
            Err(problem) => json!({ "problem": problem }),
        };
        if self.is_dequantized {
            record["dequantized"] = true.into();
        }
        record
    }
}

fn of_numbers(numbers: &Numbers) -> Value {
    let mut record = json!({
        "count": numbers.count,
        "finite": numbers.finite,
        "min": numbers.min.map(number),
        "max": numbers.max.map(number),
        "mean": numbers.mean.map(float),
        "std": numbers.deviation.map(float),
        "zeros": numbers.zeros,
        "nan": numbers.nan,
        "posinf": numbers.positive_infinities,
        "neginf": numbers.negative_infinities,
        "subnormals": numbers.subnormals,
        "saturated": numbers.saturated,
    });
    if let Some(rows) = numbers.zero_rows {
        record["zero_rows"] = rows.into();
    }
    if let Some(histogram) = &numbers.histogram {
        record["histogram"] =
            json!({ "edges": histogram.edges.to_vec(), "counts": histogram.counts.to_vec() });
    }
    record
}

fn of_texts(texts: &Texts) -> Value {
    json!({
        "count": texts.count,
        "empty": texts.empty,
        "min_length": (texts.count > 0).then_some(texts.shortest),
        "max_length": (texts.count > 0).then_some(texts.longest),
        "mean_length": texts.mean(),
        "total_length": texts.total,
    })
}

/// Converts a number to JSON. 64-bit integers remain exact.
fn number(number: Number) -> Value {
    match number {
        Number::Float(number) => float(number),
        Number::Integer(number) => i64::try_from(number)
            .map(Value::from)
            .or_else(|_| u64::try_from(number).map(Value::from))
            .unwrap_or_else(|_| Value::from(number.to_string())),
    }
}

fn float(number: f64) -> Value {
    if number.is_finite() { json!(number) } else { Value::from(number.to_string()) }
}
