//! Creates heat maps of matrices. A heat map contains at most 64 by 64 evenly spaced values, which
//! are read as a slice. Each cell is one byte: 0 means NaN, and 1 to 255 represent the range
//! between two bounds. About 1% of the values may be outside the bounds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use tensorferry::Session;
use tensorferry::inspect::{InspectOptions, Inspected, part, temporary};
use tensorferry::statistics::ModelStatistics;
use tensorferry::steps::READER_OPTION;
use tensorferry::values::{
    AxisSlice, Elements, Logical, Stored, bits, decode, has_values, read_slice, unpacked,
};
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::input::{self, TensorInput};
use tensorferry_sdk::{
    Catalog, CatalogBytes, CatalogView, Error, OptionSpec, Purpose, Result, Side, Tensor, TensorId,
};

/// Maximum number of rows, and of columns, in a heat map.
const MAX_CELLS: u64 = 64;
/// Maximum number of heat maps in a page file. Each takes about 6 kB.
const MAX_MAPS: usize = 128;
/// Maximum size in bytes of a row of packed elements, because such a row can only be read as a
/// whole. A matrix with longer rows has no heat map.
const MAX_ROW_LENGTH: u64 = 16 << 20;

/// The input from which heat maps are read: a model whose tensors can be read as numbers.
pub(crate) struct Heats<'a> {
    input: Source<'a>,
    catalog: Catalog,
    by_name: HashMap<String, TensorId>,
    session: &'a Session,
}

/// The inspected input, or the same input opened again so that its quantized blocks are decoded to
/// numbers.
enum Source<'a> {
    Inspected(&'a TensorInput),
    Dequantized(Box<TensorInput>),
}

impl<'a> Heats<'a> {
    /// Prepares an inspected input for reading heat maps. `look` contains the inspection options.
    pub(crate) fn open(
        inspected: &'a Inspected,
        look: InspectOptions<'_>,
        session: &'a Session,
    ) -> Result<Self> {
        let own = &inspected.input;
        let is_option = |spec: &OptionSpec| spec.side == Side::Reader && spec.key == READER_OPTION;
        let is_told = look.options.iter().any(|(key, _)| key == READER_OPTION);
        let may_be_told = own.format.description.options.iter().any(is_option) && !is_told;
        let (input, catalog) = if may_be_told && own.catalog.tensors().iter().any(|it| !has_values(it.dtype))
        {
            let options = [look.options, &[(READER_OPTION.to_owned(), "f32".to_owned())]].concat();
            let context = ReadContext::new(session, Purpose::SHOW);
            let input = input::read(&own.source, &own.format, &options, &context)?;
            let (catalog, _) = part::take(input.catalog.clone(), look.part, true)?;
            (Source::Dequantized(Box::new(input)), catalog)
        } else {
            (Source::Inspected(own), inspected.catalog.clone())
        };
        let catalog = catalog.unpacked().0;
        let by_name = (0..).map(TensorId).zip(catalog.tensors());
        let by_name = by_name.map(|(id, tensor)| (tensor.name.clone(), id)).collect();
        Ok(Self { input, catalog, by_name, session })
    }

    fn logical(&self) -> Logical<'_> {
        let input = match &self.input {
            Source::Inspected(input) => *input,
            Source::Dequantized(input) => input,
        };
        Logical::new(Stored::new(input, &self.catalog, self.session, temporary()))
    }

    /// Returns the heat map of a tensor. Returns `None` if the tensor is not a matrix of numbers.
    pub(crate) fn of(&self, name: &str) -> Result<Option<Value>> {
        let Some(&id) = self.by_name.get(name) else { return Ok(None) };
        heat(&self.logical(), id)
    }

    /// Returns the heat maps for a page file, keyed by the index of the tensor in `shown`. Only
    /// matrices with statistics are included: first those with findings, then the largest.
    pub(crate) fn chosen(
        &self,
        shown: &Catalog,
        statistics: &ModelStatistics,
    ) -> Result<BTreeMap<usize, Value>> {
        let found = statistics.findings.iter().flat_map(|finding| &finding.tensors).map(String::as_str);
        let found: HashSet<&str> = found.collect();
        let taken =
            statistics.tensors.iter().flat_map(|it| it.parts.iter().chain([&it.name])).map(String::as_str);
        let taken: HashSet<&str> = taken.collect();
        let mut matrices: Vec<(usize, &Tensor)> = shown.tensors().iter().enumerate().collect();
        matrices.retain(|(_, tensor)| tensor.shape.len() == 2 && taken.contains(tensor.name.as_str()));
        matrices.sort_by_key(|(at, tensor)| {
            (!found.contains(tensor.name.as_str()), std::cmp::Reverse(tensor.bytes), *at)
        });
        let logical = self.logical();
        let mut maps = BTreeMap::new();
        for (at, tensor) in matrices {
            if maps.len() == MAX_MAPS {
                break;
            }
            if let Some(&id) = self.by_name.get(&tensor.name)
                && let Some(map) = heat(&logical, id)?
            {
                maps.insert(at, map);
            }
        }
        Ok(maps)
    }
}

fn heat(logical: &Logical<'_>, id: TensorId) -> Result<Option<Value>> {
    let Some(tensor) = logical.catalog().tensor(id) else { return Ok(None) };
    let [rows, columns] = tensor.shape[..] else { return Ok(None) };
    if rows == 0 || columns == 0 {
        return Ok(None);
    }
    let axes = [rows, columns].map(axis);
    let Some(values) = values(logical, id, tensor, axes)? else { return Ok(None) };
    let Some((low, high)) = bounds(&values) else { return Ok(None) };
    let cells: Vec<u8> = values.iter().map(|&value| cell(value, low, high)).collect();
    let clipped = values.iter().filter(|value| **value < low || **value > high).count();
    Ok(Some(json!({
        "rows": axes[0].len, "columns": axes[1].len, "steps": axes.map(|axis| axis.step),
        "low": low, "high": high, "clipped": clipped, "cells": STANDARD.encode(cells),
    })))
}

/// Returns evenly spaced indices along an axis.
fn axis(len: u64) -> AxisSlice {
    let step = len.div_ceil(MAX_CELLS).max(1);
    AxisSlice { start: 0, step: i64::try_from(step).unwrap_or(i64::MAX), len: len.div_ceil(step) }
}

/// Reads the values of a slice in row-major order. Returns `None` if the values are not numbers.
fn values(
    logical: &Logical<'_>,
    id: TensorId,
    tensor: &Tensor,
    axes: [AxisSlice; 2],
) -> Result<Option<Vec<f64>>> {
    let info = logical.dtype_info(tensor.dtype)?;
    let count = axes[0].len * axes[1].len;
    let bytes = if let Some(bits) = bits(tensor.dtype) {
        match packed(logical, id, tensor, axes, bits)? {
            Some(codes) => codes,
            None => return Ok(None),
        }
    } else {
        let (Some(width), Some(_)) = (info.element_bytes(), decode(tensor.dtype, &[])) else {
            return Ok(None);
        };
        let mut bytes = vec![0; usize::try_from(count * u64::from(width)).unwrap_or(0)];
        read_slice(logical, id, &axes, &mut bytes)?;
        bytes
    };
    Ok(match decode(tensor.dtype, &bytes) {
        Some(Elements::Bool(values)) => {
            Some(values.iter().map(|value| f64::from(u8::from(*value))).collect())
        }
        Some(Elements::Integer(values)) => Some(values.iter().map(|value| *value as f64).collect()),
        Some(Elements::Float(values, _)) => Some(values),
        // The magnitude of a complex number. The statistics use the same value.
        Some(Elements::Complex(values, _)) => {
            Some(values.iter().map(|(re, im)| libm::hypot(*re, *im)).collect())
        }
        Some(Elements::Text(_)) | None => None,
    })
}

/// Reads elements that are smaller than a byte, and returns one code for each element in a separate
/// byte.
fn packed(
    logical: &Logical<'_>,
    id: TensorId,
    tensor: &Tensor,
    axes: [AxisSlice; 2],
    bits: u32,
) -> Result<Option<Vec<u8>>> {
    let [rows, columns] = axes;
    let info = logical.dtype_info(tensor.dtype)?;
    let (elements, block) = (u64::from(info.block_elements()), u64::from(info.block_bytes()));
    let width = tensor.shape[1];
    if width / elements * block > MAX_ROW_LENGTH {
        return Ok(None);
    }
    let mut codes = Vec::new();
    let mut bytes = Vec::new();
    for row in 0..rows.len {
        let first = rows.index(row) * width;
        let start = first / elements;
        let end = (first + width).div_ceil(elements);
        let len = usize::try_from((end - start) * block).map_err(|_| Error::limit("a row is too long"))?;
        bytes.resize(len, 0);
        logical.read_tensor(id, start * block, &mut bytes)?;
        let at = |place| first + columns.index(place) - start * elements;
        codes.extend((0..columns.len).flat_map(|place| unpacked(&bytes, bits, at(place), 1)));
    }
    Ok(Some(codes))
}

/// Returns the range of the color scale. The range is symmetric around zero if there are negative
/// numbers. About 1% of the values may be outside the range. Otherwise, a single outlier could give
/// all other values the same color.
fn bounds(values: &[f64]) -> Option<(f64, f64)> {
    let mut finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    let (&least, &greatest) = (finite.first()?, finite.last()?);
    let mut sizes: Vec<f64> = finite.iter().map(|value| value.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let most = sizes[(sizes.len() - 1) * 99 / 100];
    if least < 0.0 {
        let most = if most > 0.0 { most } else { -least };
        return Some((-most, most));
    }
    let low = finite[finite.len() / 100];
    Some(if most > low { (low, most) } else { (least, greatest) })
}

fn cell(value: f64, low: f64, high: f64) -> u8 {
    if value.is_nan() {
        return 0;
    }
    // Dividing both operands by two avoids an overflow for the largest numbers.
    let share = if high > low { (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) } else { 0.5 };
    let place = (share.clamp(0.0, 1.0) * 254.0).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 254")]
    let place = place as u8;
    place + 1
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_map_has_few_cells() {
        for (len, step, count) in
            [(1, 1, 1), (64, 1, 64), (65, 2, 33), (4096, 64, 64), (u64::MAX, 1 << 58, 64)]
        {
            let axis = axis(len);
            assert_eq!((axis.step, axis.len), (step, count), "{len}");
            assert!(axis.index(axis.len - 1) < len);
        }
    }

    #[test]
    fn colours_lie_around_zero_and_an_outlier_is_beyond() {
        let mut values: Vec<f64> = (0..200).map(|n| f64::from(n) / 100.0 - 1.0).collect();
        values.extend([1e30, f64::NAN, f64::INFINITY]);
        let (low, high) = bounds(&values).unwrap();
        assert!(low == -high && (0.9..=1.0).contains(&high), "{low} {high}");
        assert_eq!(
            [f64::NAN, -9.0, low, 0.0, high, f64::INFINITY].map(|value| cell(value, low, high)),
            [0, 1, 1, 128, 255, 255]
        );
        assert_eq!(bounds(&[2.0, 2.0]), Some((2.0, 2.0)));
        assert_eq!(cell(2.0, 2.0, 2.0), 128);
        assert_eq!(bounds(&[f64::NAN]), None);
        assert_eq!(cell(f64::MAX, -f64::MAX, f64::MAX), 255);
    }
}
