//! `ferry show` for tensors: reads and prints only the requested slices.

use super::array_text::{self, EDGE, Grid};
use super::float_text::scalar;
use super::index::{TensorSlice, apply_index};
use super::names::{TensorArgument, wanted};
use super::{json, words};
use crate::args::Show;
use crate::losses;
use crate::terminal::{self, printable};
use serde_json::json as document;
use std::fmt::Write;
use std::sync::Arc;
use tensorferry::Registry;

use tensorferry::inspect::FoundInput;
use tensorferry::steps::{self, ModelConfig, ModelFacts, READER_OPTION, apply_to, requested_dtype};
use tensorferry::values::{AxisSlice, Elements, Precision, has_values};
use tensorferry::{Model, OpenOptions, RegisteredFormat, Tensor, places};
use tensorferry_sdk::{Dtype, Error, Purpose, Result, Side};

pub(super) fn run(command: &Show, found: &FoundInput<'_>, registry: &Registry) -> Result<()> {
    let format = found.format;
    let options = reader_options(command, format)?;
    let mut model = open(command, found, options.clone(), registry)?;
    let mut requests = wanted(&model, &command.names)?;
    let mut read = 0;
    let stored: Vec<String> = requests.iter().map(|one| one.tensor.dtype_name().to_owned()).collect();
    if let Some(blocks) = requests.iter().find(|one| !has_values(one.tensor.dtype())) {
        // Opens the input again, so that quantized blocks are decoded to numbers.
        if !has_option(format) || options.iter().any(|(key, _)| key == READER_OPTION) {
            return Err(without_values(command, &blocks.tensor));
        }
        read += model.take_read();
        let options = [options, vec![(READER_OPTION.to_owned(), "f32".to_owned())]].concat();
        model = open(command, found, options, registry)?;
        requests = wanted(&model, &command.names)?;
        if let Some(blocks) = requests.iter().find(|one| !has_values(one.tensor.dtype())) {
            return Err(without_values(command, &blocks.tensor));
        }
    }
    losses::report(&[], &registry.session().take_notes(), false);
    let seen = requests
        .iter()
        .zip(stored)
        .map(|(one, stored)| SelectedTensor::of(one, stored))
        .collect::<Result<Vec<_>>>()?;
    if command.json {
        let values = seen.iter().map(|seen| seen.document()).collect::<Result<Vec<_>>>()?;
        read += model.take_read();
        let format = document!(format.description.id);
        let values = values.iter().map(|one| format!("    {one}")).collect::<Vec<_>>().join(",\n");
        terminal::print_document(&format!(
            "{{\n  \"format\": {format},\n  \"tensors\": [\n{values}\n  ],\n  \"read_bytes\": {read}\n}}\n"
        ))?;
    } else {
        let texts = seen.iter().map(|seen| seen.text(command)).collect::<Result<Vec<_>>>()?;
        terminal::print(&texts.join("\n"))?;
    }
    model.check_unchanged()
}

/// Opens the input as `inspect` does, and applies the steps.
fn open(
    command: &Show,
    found: &FoundInput<'_>,
    options: Vec<(String, String)>,
    registry: &Registry,
) -> Result<Model> {
    let session = registry.session();
    let look = command.reader.look(Purpose::SHOW);
    let mut inspected = registry.inspect_found(&found.with_options(options), look)?;
    if !command.step.is_empty() {
        let steps = steps::on_tensors(&command.step)?;
        let config = ModelConfig::read(&inspected.input.source).unwrap_or_default();
        let facts = ModelFacts { config, input: &inspected.input, session };
        let (catalog, effects) = apply_to(inspected.catalog.unpacked().0, &facts, &steps)?;
        losses::report(&effects.losses, &effects.notes, false);
        inspected.catalog = catalog;
    }
    // This session does not check for cancellation, because Ctrl-C ends the whole program.
    let session = Arc::new(session.child(session.threads, session.memory, None));
    Ok(Model::of(inspected, session, OpenOptions::new()))
}

/// Returns the input options. If a step needs decoded blocks, adds the option that decodes them.
fn reader_options(command: &Show, format: &RegisteredFormat) -> Result<Vec<(String, String)>> {
    let mut options = command.reader.reader.options.clone();
    let steps = steps::parse(&command.step)?;
    if let Some(to) = requested_dtype(steps.iter().map(|step| &step.spec))?
        && has_option(format)
        && !options.iter().any(|(key, _)| key == READER_OPTION)
    {
        let name =
            to.unwrap_or(Dtype::F32).info().map_or("f32".to_owned(), |info| info.name().to_lowercase());
        options.push((READER_OPTION.to_owned(), name));
    }
    Ok(options)
}

fn has_option(format: &RegisteredFormat) -> bool {
    format.description.options.iter().any(|option| option.side == Side::Reader && option.key == READER_OPTION)
}

fn without_values(command: &Show, tensor: &Tensor) -> Error {
    let problem =
        Error::unsupported(format!("blocks of {} must be dequantized to be shown", tensor.dtype_name()));
    let input = places::shown(&command.input);
    problem.tensor(tensor.name()).hint(format!("run `ferry show {input} NAME --step dequantize:f32`"))
}

/// A tensor, and the part of the tensor that is shown.
struct SelectedTensor<'a> {
    wanted: &'a TensorArgument,
    taken: TensorSlice,
    /// The dtype in the input, if it differs from the dtype of the shown values.
    stored: Option<String>,
}

impl<'a> SelectedTensor<'a> {
    fn of(wanted: &'a TensorArgument, stored: String) -> Result<Self> {
        let taken = apply_index(wanted.index.as_deref(), wanted.tensor.shape());
        let taken = taken.map_err(|error| error.tensor(wanted.tensor.name()))?;
        let stored = Some(stored).filter(|stored| stored != wanted.tensor.dtype_name());
        Ok(Self { wanted, taken, stored })
    }

    /// Formats all values as JSON.
    fn document(&self) -> Result<String> {
        let tensor = &self.wanted.tensor;
        let elements = tensor.elements(&self.taken.axes)?;
        let mut facts = document!({
            "name": tensor.name(),
            "dtype": tensor.dtype_name(),
            "shape": tensor.shape(),
            "slice": self.wanted.index.as_ref().map(|index| format!("[{index}]")),
            "slice_shape": self.taken.shape(),
        });
        if let Some(stored) = &self.stored {
            facts["stored_dtype"] = document!(stored);
        }
        let facts = facts.to_string();
        let values = json::values(&elements, &self.taken.shape());
        Ok(format!("{}, \"values\": {values}}}", facts.trim_end_matches('}')))
    }

    fn text(&self, command: &Show) -> Result<String> {
        let width = command.width.unwrap_or_else(|| terminal::columns_or(75));
        let shape = self.taken.shape();
        let mut text = self.header(&shape);
        let threshold = if command.all { u64::MAX } else { command.threshold };
        let grid = self.grid(&shape, threshold, command.precision)?;
        let _ = writeln!(text, "{}", array_text::text(&grid, width));
        Ok(text)
    }

    /// Formats the header line of a tensor, as in `layers.0.w[0:3]: F32 [3, 8] of [16, 8]`.
    fn header(&self, shape: &[u64]) -> String {
        let tensor = &self.wanted.tensor;
        let index = self.wanted.index.as_ref().map_or(String::new(), |index| format!("[{index}]"));
        let of = if shape == tensor.shape() { String::new() } else { format!(" of {:?}", tensor.shape()) };
        let stored = self.stored.as_ref().map_or(String::new(), |stored| format!(", stored as {stored}"));
        format!(
            "{}{}: {} {shape:?}{of}{stored}\n",
            printable(tensor.name()),
            printable(&index),
            tensor.dtype_name()
        )
    }

    /// Reads all values. If there are more than `threshold`, reads only those at the ends of each
    /// axis.
    fn grid(&self, shape: &[u64], threshold: u64, precision: usize) -> Result<Grid> {
        let count = shape.iter().fold(1_u64, |product, &len| product.saturating_mul(len));
        let is_summary = count > threshold && !shape.contains(&0);
        // The ranges of indices to be read on each axis.
        let mut stretches: Vec<Vec<AxisSlice>> = self.taken.axes.iter().map(|axis| vec![*axis]).collect();
        let mut axes = Vec::new();
        for &axis in &self.taken.kept {
            let slice = self.taken.axes[axis];
            let has_gap = is_summary && slice.len > 2 * EDGE;
            if has_gap {
                stretches[axis] = vec![slice.part(0, EDGE), slice.part(slice.len - EDGE, slice.len)];
            }
            let shown = stretches[axis].iter().map(|stretch| stretch.len).sum::<u64>();
            axes.push((usize::try_from(shown).unwrap_or(usize::MAX), has_gap));
        }
        let elements = self.gathered(&stretches)?;
        let words = match (&elements, &*axes) {
            (Elements::Float(values, precision), []) => {
                values.iter().map(|value| scalar(*value, *precision)).collect()
            }
            (Elements::Complex(values, precision), []) => {
                values.iter().map(|(re, im)| complex(*re, *im, *precision)).collect()
            }
            (Elements::Bool(values), []) => {
                values.iter().map(|value| if *value { "True" } else { "False" }.to_owned()).collect()
            }
            _ => words::words(&elements, precision),
        };
        Ok(Grid { axes, words })
    }

    /// Reads every combination of the ranges of all axes, and joins the results in row-major order.
    fn gathered(&self, stretches: &[Vec<AxisSlice>]) -> Result<Elements> {
        let tensor = &self.wanted.tensor;
        let Some(cut) = stretches.iter().position(|of_axis| of_axis.len() > 1) else {
            let axes: Vec<AxisSlice> = stretches.iter().map(|of_axis| of_axis[0]).collect();
            return tensor.elements(&axes);
        };
        let before: u64 = stretches[..cut].iter().map(|of_axis| of_axis[0].len).product();
        let mut parts = Vec::new();
        for stretch in &stretches[cut] {
            let mut one = stretches.to_vec();
            one[cut] = vec![*stretch];
            parts.push(self.gathered(&one)?);
        }
        Ok(interleaved(parts, usize::try_from(before).unwrap_or(usize::MAX)))
    }
}

/// Joins parts of an axis. Each part consists of `rows` runs of equal length. The result contains
/// the first run of each part, then the second run of each part, and so on.
fn interleaved(parts: Vec<Elements>, rows: usize) -> Elements {
    let mut parts = parts.into_iter();
    let Some(mut all) = parts.next() else { return Elements::Integer(Vec::new()) };
    for part in parts {
        all = match (all, part) {
            (Elements::Bool(a), Elements::Bool(b)) => Elements::Bool(runs(&a, &b, rows)),
            (Elements::Integer(a), Elements::Integer(b)) => Elements::Integer(runs(&a, &b, rows)),
            (Elements::Float(a, precision), Elements::Float(b, _)) => {
                Elements::Float(runs(&a, &b, rows), precision)
            }
            (Elements::Complex(a, precision), Elements::Complex(b, _)) => {
                Elements::Complex(runs(&a, &b, rows), precision)
            }
            (Elements::Text(a), Elements::Text(b)) => Elements::Text(runs(&a, &b, rows)),
            // All parts of a tensor have the same kind of elements, so this case does not occur.
            (all, _) => all,
        };
    }
    all
}

fn runs<T: Clone>(a: &[T], b: &[T], rows: usize) -> Vec<T> {
    let (of_a, of_b) = (a.len() / rows.max(1), b.len() / rows.max(1));
    let run = |row: usize| [&a[row * of_a..(row + 1) * of_a], &b[row * of_b..(row + 1) * of_b]].concat();
    (0..rows).flat_map(run).collect()
}

/// Formats a single complex number, as in `(1+2j)` or `2j`.
fn complex(re: f64, im: f64, precision: Precision) -> String {
    let part = |value: f64| scalar(value, precision).trim_end_matches(".0").to_owned();
    if re == 0.0 && !re.is_sign_negative() {
        return format!("{}j", part(im));
    }
    let sign = if im.is_sign_negative() && !im.is_nan() { "" } else { "+" };
    format!("({}{sign}{}j)", part(re), part(im))
}
