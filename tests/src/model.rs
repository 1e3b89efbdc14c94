//! Models that are created without a framework, as safetensors files with random content.
//!
//! A file contains the header's length as a u64, the header as JSON, and the bytes of the tensors
//! (<https://github.com/huggingface/safetensors#format>).

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;
use tensorferry_test_kit::random::Random;

/// Tensors: name, dtype, shape, bytes.
pub type Tensors<'a> = &'a [(&'a str, &'a str, &'a [u64], &'a [u8])];

/// Returns the bytes of a safetensors file with these tensors.
pub fn safetensors(tensors: Tensors<'_>) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend(*bytes);
        entries.push(entry(name, dtype, shape, start as u64, data.len() as u64));
    }
    [header(&entries), data].concat()
}

fn entry(name: &str, dtype: &str, shape: &[u64], start: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#)
}

/// Returns the header's length and JSON, with the same padding as in the library, so that the data
/// is aligned.
fn header(entries: &[String]) -> Vec<u8> {
    let mut json = format!("{{{}}}", entries.join(","));
    json.extend(std::iter::repeat_n(' ', json.len().next_multiple_of(8) - json.len()));
    [&(json.len() as u64).to_le_bytes(), json.as_bytes()].concat()
}

/// The description of a model.
#[derive(Debug, Clone)]
pub struct Model {
    /// The name, dtype, shape and length in bytes of each tensor, in the order of the file.
    pub tensors: Vec<(String, &'static str, Vec<u64>, u64)>,
    /// The seed of the values.
    pub seed: u64,
    /// Whether the values look like weights, with magnitudes from 2^-15 to 2^-7 and both signs.
    /// Otherwise, all bits are random.
    pub weights: bool,
}

impl Model {
    /// Describes a model of about `bytes` bytes in `count` tensors with sizes as in a transformer.
    /// Most bytes are in matrices, and one tensor in three is a short vector.
    pub fn of_size(bytes: u64, count: u64, seed: u64) -> Self {
        let matrices = (count - count / 3).max(1);
        let rows = (bytes / matrices / 2 / 1024).max(1);
        let tensors = (0..count).map(|index| {
            let name = format!("model.layers.{}.part_{}.weight", index / 9, index % 9);
            if index % 3 == 2 && count >= 3 {
                (name, "F32", vec![1024], 4096)
            } else {
                (name, "BF16", vec![rows, 1024], rows * 2048)
            }
        });
        Self { tensors: tensors.collect(), seed, weights: false }
    }

    /// Describes a model of about `bytes` bytes in `count` F32 tensors of the same size, with
    /// values that look like weights.
    pub fn of_weights(bytes: u64, count: u64, seed: u64) -> Self {
        let rows = (bytes / count / 4096).max(1);
        let tensors = (0..count)
            .map(|index| (format!("layer.{index:03}.weight"), "F32", vec![rows, 1024], rows * 4096));
        Self { tensors: tensors.collect(), seed, weights: true }
    }

    /// Describes a model with `count` tensors of `bytes` bytes each.
    pub fn uniform(count: u64, bytes: u64, seed: u64) -> Self {
        let tensors = (0..count).map(|index| (format!("layer.{index:03}.weight"), "U8", vec![bytes], bytes));
        Self { tensors: tensors.collect(), seed, weights: false }
    }

    /// Describes a model with `count` tensors of one element.
    pub fn of_scalars(count: u64, seed: u64) -> Self {
        let tensors = (0..count).map(|index| (format!("layer.{index:06}.scale"), "F32", vec![1], 4));
        Self { tensors: tensors.collect(), seed, weights: false }
    }

    /// Writes the model as one file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut entries = Vec::with_capacity(self.tensors.len());
        let mut start = 0;
        for (name, dtype, shape, bytes) in &self.tensors {
            let end = start + bytes;
            entries.push(entry(name, dtype, shape, start, end));
            start = end;
        }
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        file.write_all(&header(&entries))?;
        let mut random = Random::new(self.seed);
        let mut buffer = vec![0; 1 << 20];
        while start > 0 {
            let len = start.min(1 << 20);
            let part = &mut buffer[..usize::try_from(len).unwrap_or(0)];
            random.fill(part);
            if self.weights {
                // Keep the sign and the low bits of the exponent.
                part.iter_mut().skip(3).step_by(4).for_each(|byte| *byte = *byte & 0x83 | 0x38);
            }
            file.write_all(part)?;
            start -= len;
        }
        file.flush()
    }
}
