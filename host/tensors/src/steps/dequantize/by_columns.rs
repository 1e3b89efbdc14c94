//! Weights from GPTQ and AWQ. Their packed words are ordered by columns (`[in, out]`), whereas the
//! dequantized weight has the shape `[out, in]`.
//!
//! ```text
//! GPTQ  qweight I32 [in * bits / 32, out]   a stream of bits down each column, the low ones first
//! AWQ   qweight I32 [in, out / 8]           eight columns in a word, in the order 0 2 4 6 1 3 5 7
//! both  qzeros  I32 [groups, out * bits / 32], scales F16 [groups, out]
//!       W[out, in] = (q - z) * scale of the input's group
//! ```
//! Sources: `GPTQModel`'s `qlinear/torch.py` (`gptq` stores each zero point minus one, and
//! `gptq_v2` stores it unchanged) and `AutoAWQ`'s `utils/packing_utils.py`.

use super::computed::{Method, Weight};
use super::layers::{Extent, Layer, Layers, matrix, shaped};
use super::scheme::{Packings, WordPacking};
use std::ops::Range;
use std::sync::Arc;
use tensorferry_core::context::windows::size;
use tensorferry_sdk::{Dtype, Error, ReadStorage, Result};

/// For each of the eight columns in an AWQ word, the position of the column's code.
const AWQ_PLACES: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
/// Maximum number of inputs in a layer that stores the group of each input. The groups are kept in
/// memory.
const MAX_INPUTS: u64 = 1 << 20;

/// The order of the codes in packed words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordOrder {
    Gptq,
    Awq,
}

/// A weight whose packed words are ordered by columns.
#[derive(Debug)]
struct ColumnPackedWeight {
    order: WordOrder,
    packing: WordPacking,
    words: Extent,
    zeros: Extent,
    scales: Extent,
    inputs: u64,
    outputs: u64,
    groups: u64,
    /// The index of each input's group, if the inputs of a group are not consecutive.
    groups_of: Option<Arc<Vec<u32>>>,
    /// Number of consecutive inputs in a group.
    group: u64,
}

/// Returns all weights of a GPTQ model.
pub(super) fn gptq<'a>(layers: &'a Layers<'a>, packings: &Packings) -> Result<Vec<Weight<'a>>> {
    weights(layers, |layer, start| of_gptq(layer, start, packings.of(start)?))
}

/// Returns all weights of an AWQ model, version `gemm`.
pub(super) fn awq<'a>(layers: &'a Layers<'a>, packings: &Packings) -> Result<Vec<Weight<'a>>> {
    weights(layers, |layer, start| of_awq(layer, start, packings.of(start)?))
}

fn weights<'a>(
    layers: &'a Layers<'a>,
    method: impl Fn(&mut Layer<'a>, &str) -> Result<ColumnPackedWeight>,
) -> Result<Vec<Weight<'a>>> {
    let weight = |start: &str| {
        let mut layer = layers.layer(format!("{start}.weight"), &format!("{start}.qweight"))?;
        let method = method(&mut layer, start)?;
        let shape = vec![method.outputs, method.inputs];
        Ok(Weight { layer, shape, is_turned: false, method: Box::new(method) })
    };
    layers.ending(".qweight").into_iter().map(weight).collect()
}

fn of_gptq(layer: &mut Layer<'_>, start: &str, packing: WordPacking) -> Result<ColumnPackedWeight> {
    let words = layer.needed(&format!("{start}.qweight"))?;
    let (zeros, scales) =
        (layer.needed(&format!("{start}.qzeros"))?, layer.needed(&format!("{start}.scales"))?);
    let [rows, outputs] = matrix(words)?;
    let wide = u64::from(packing.bits);
    let inputs = rows * 32 / wide;
    if inputs * wide != rows * 32 || (outputs * wide) % 32 != 0 || outputs == 0 || inputs == 0 {
        return Err(shaped(words, format!("whole words of {} bits", packing.bits)));
    }
    let [groups, _] = matrix(scales)?;
    let mut groups_of = None;
    let group = packing.group.unwrap_or(inputs);
    if groups > inputs {
        return Err(shaped(scales, format!("at most {inputs} groups, one for each input")));
    }
    if let Some(indices) = layer.part(&format!("{start}.g_idx")) {
        if indices.shape != [inputs] || inputs > MAX_INPUTS {
            return Err(shaped(indices, format!("[{inputs}], at most {MAX_INPUTS}")));
        }
        layer.extent_of(indices, &[Dtype::I32])?;
        let bytes = layer.bytes(indices, 4 * inputs)?;
        let found: Vec<u32> = bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        if let Some(place) = found.iter().position(|found| u64::from(*found) >= groups) {
            return Err(Error::malformed("an input's group does not exist")
                .tensor(&indices.name)
                .offset(4 * place as u64)
                .expected(format!("0 to {}", groups.saturating_sub(1)))
                .found(found[place].cast_signed()));
        }
        let follows = |(place, found): (u64, &u32)| place / group == u64::from(*found);
        groups_of = (!(0..).zip(&found).all(follows)).then(|| Arc::new(found));
    }
    if groups_of.is_none() && inputs.div_ceil(group) != groups {
        return Err(shaped(
            scales,
            format!("{} rows, for {inputs} inputs in groups of {group}", inputs.div_ceil(group)),
        ));
    }
    let method = ColumnPackedWeight {
        order: WordOrder::Gptq,
        packing,
        words: layer.extent_of(words, &[Dtype::I32])?,
        zeros: layer.extent_of(zeros, &[Dtype::I32])?,
        scales: layer.extent_of(scales, &[Dtype::F16, Dtype::BF16, Dtype::F32])?,
        inputs,
        outputs,
        groups,
        groups_of,
        group,
    };
    if zeros.shape != [groups, outputs * wide / 32] {
        return Err(shaped(zeros, format!("[{groups}, {}]", outputs * wide / 32)));
    }
    if scales.shape != [groups, outputs] {
        return Err(shaped(scales, format!("[{groups}, {outputs}]")));
    }
    Ok(method)
}

fn of_awq(layer: &mut Layer<'_>, start: &str, packing: WordPacking) -> Result<ColumnPackedWeight> {
    let words = layer.needed(&format!("{start}.qweight"))?;
    let (zeros, scales) =
        (layer.needed(&format!("{start}.qzeros"))?, layer.needed(&format!("{start}.scales"))?);
    let [inputs, columns] = matrix(words)?;
    let outputs = columns * 8;
    let group = packing.group.unwrap_or(inputs);
    let groups = inputs.div_ceil(group.max(1));
    if inputs == 0 || outputs == 0 {
        return Err(shaped(words, "at least one word"));
    }
    if scales.shape != [groups, outputs] {
        return Err(shaped(
            scales,
            format!("[{groups}, {outputs}], for {inputs} inputs in groups of {group}"),
        ));
    }
    if zeros.shape != [groups, columns] {
        return Err(shaped(zeros, format!("[{groups}, {columns}]")));
    }
    Ok(ColumnPackedWeight {
        order: WordOrder::Awq,
        packing,
        words: layer.extent_of(words, &[Dtype::I32])?,
        zeros: layer.extent_of(zeros, &[Dtype::I32])?,
        scales: layer.extent_of(scales, &[Dtype::F16, Dtype::BF16, Dtype::F32])?,
        inputs,
        outputs,
        groups,
        groups_of: None,
        group,
    })
}

/// A rectangle of words from a matrix, in row-major order.
struct WordRectangle {
    words: Vec<u32>,
    width: usize,
}

impl WordRectangle {
    fn read(
        at: Extent,
        read: &ReadStorage<'_>,
        rows: Range<u64>,
        columns: Range<u64>,
        of_columns: u64,
    ) -> Result<Self> {
        let (height, width) = (rows.end - rows.start, columns.end - columns.start);
        let mut bytes = vec![0; size(height * width * 4)];
        if width == of_columns {
            read(at.storage, at.offset + rows.start * width * 4, &mut bytes)?;
        } else {
            for (row, part) in rows.zip(bytes.chunks_exact_mut(size(width * 4))) {
                read(at.storage, at.offset + (row * of_columns + columns.start) * 4, part)?;
            }
        }
        let words = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        Ok(Self { words, width: size(width) })
    }

    fn get(&self, row: usize, column: usize) -> u32 {
        self.words[row * self.width + column]
    }
}

impl ColumnPackedWeight {
    /// Returns the scales and zero points for some outputs and some groups. The values for one
    /// output are consecutive.
    fn scales_and_zeros(
        &self,
        read: &ReadStorage<'_>,
        outputs: &Range<u64>,
        groups: &Range<u64>,
    ) -> Result<Vec<(f32, f32)>> {
        let (bits, wide) = (self.packing.bits, u64::from(self.packing.bits));
        let (count, width) = (size(groups.end - groups.start), size(outputs.end - outputs.start));
        let columns = outputs.start * wide / 32..(outputs.end * wide).div_ceil(32);
        let zeros =
            WordRectangle::read(self.zeros, read, groups.clone(), columns.clone(), self.outputs * wide / 32)?;
        let mask = u32::MAX >> (32 - bits);
        let mut pairs = vec![(0.0, 0.0); count * width];
        for (number, group) in groups.clone().enumerate() {
            let first = group * self.outputs;
            let scales = self.scales.floats(read, first + outputs.start..first + outputs.end)?;
            for (place, (output, scale)) in outputs.clone().zip(scales).enumerate() {
                let zero = match self.order {
                    WordOrder::Gptq => {
                        let bit = output * wide - columns.start * 32;
                        let word =
                            |at: usize| if at < zeros.width { u64::from(zeros.get(number, at)) } else { 0 };
                        let both = word(size(bit / 32)) | word(size(bit / 32) + 1) << 32;
                        low_half(both >> (bit % 32))
                    }
                    WordOrder::Awq => {
                        zeros.get(number, size(output / 8 - columns.start)) >> awq_shift(output)
                    }
                };
                let zero = ((zero & mask) + self.packing.zero_offset) & mask;
                pairs[place * count + number] = (scale, number_of(zero));
            }
        }
        Ok(pairs)
    }
}

/// Returns the position, in bits, of an output's codes in AWQ words.
fn awq_shift(output: u64) -> u32 {
    4 * AWQ_PLACES[size(output % 8)]
}

/// Converts a code of at most 8 bits to a number.
fn number_of(code: u32) -> f32 {
    f32::from(code.to_le_bytes()[0])
}

/// Returns the low half of two words.
#[expect(clippy::cast_possible_truncation, reason = "the other half is not needed")]
fn low_half(words: u64) -> u32 {
    words as u32
}

impl Method for ColumnPackedWeight {
    fn fill(
        &self,
        read: &ReadStorage<'_>,
        outputs: Range<u64>,
        inputs: Range<u64>,
        values: &mut [f32],
    ) -> Result<()> {
        let (bits, wide) = (self.packing.bits, u64::from(self.packing.bits));
        let groups = match self.groups_of {
            Some(_) => 0..self.groups,
            None => inputs.start / self.group..inputs.end.div_ceil(self.group),
        };
        let pairs = self.scales_and_zeros(read, &outputs, &groups)?;
        let count = size(groups.end - groups.start);
        let (rows, columns, of_columns) = match self.order {
            WordOrder::Gptq => {
                (inputs.start * wide / 32..(inputs.end * wide).div_ceil(32), outputs.clone(), self.outputs)
            }
            WordOrder::Awq => (inputs.clone(), outputs.start / 8..outputs.end.div_ceil(8), self.outputs / 8),
        };
        let strip = WordRectangle::read(self.words, read, rows.clone(), columns.clone(), of_columns)?;
        let width = size(inputs.end - inputs.start);
        let mask = u32::MAX >> (32 - bits);
        let mut codes = vec![0_f32; width];
        for ((place, output), values) in outputs.clone().enumerate().zip(values.chunks_exact_mut(width)) {
            match self.order {
                WordOrder::Awq => {
                    let (column, shift) = (size(output / 8 - columns.start), awq_shift(output));
                    for (row, code) in codes.iter_mut().enumerate() {
                        *code = number_of(strip.get(row, column) >> shift & mask);
                    }
                }
                WordOrder::Gptq if 32 % bits == 0 => {
                    let per_word = size(32 / wide);
                    let skipped = size(inputs.start) % per_word;
                    let mut at = 0;
                    for row in 0..size(rows.end - rows.start) {
                        let mut word = strip.get(row, place);
                        let from = if row == 0 { skipped } else { 0 };
                        if row == 0 {
                            word >>= low_half(inputs.start * wide % 32);
                        }
                        let until = (at + per_word - from).min(width);
                        for code in &mut codes[at..until] {
                            *code = number_of(word & mask);
                            word >>= bits;
                        }
                        at = until;
                    }
                }
                WordOrder::Gptq => {
                    for (input, code) in inputs.clone().zip(&mut codes) {
                        let bit = input * wide - rows.start * 32;
                        let row = size(bit / 32);
                        let low = u64::from(strip.get(row, place)) >> (bit % 32);
                        let crosses = bit % 32 + wide > 32;
                        let high =
                            if crosses { u64::from(strip.get(row + 1, place)) << (32 - bit % 32) } else { 0 };
                        *code = number_of(low_half(low | high) & mask);
                    }
                }
            }
            let pairs = &pairs[place * count..][..count];
            match &self.groups_of {
                Some(groups_of) => {
                    let groups_of = &groups_of[size(inputs.start)..size(inputs.end)];
                    for ((value, code), group) in values.iter_mut().zip(&codes).zip(groups_of) {
                        let (scale, zero) = pairs[*group as usize];
                        *value = scale * (code - zero);
                    }
                }
                None => {
                    let (mut at, mut input) = (0, inputs.start);
                    for &(scale, zero) in pairs {
                        let until = (at + size((input / self.group + 1) * self.group - input)).min(width);
                        for (value, code) in values[at..until].iter_mut().zip(&codes[at..until]) {
                            *value = scale * (code - zero);
                        }
                        input += (until - at) as u64;
                        at = until;
                    }
                }
            }
        }
        Ok(())
    }

    fn columns(&self) -> u64 {
        self.inputs
    }

    fn parts(&self) -> Vec<Extent> {
        vec![self.words, self.zeros, self.scales]
    }
}
