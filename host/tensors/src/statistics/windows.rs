//! Processes the tensors of a catalog window by window, on all threads. The statistics of a
//! tensor's windows are joined in order, so that the result does not depend on the number of
//! threads.

use super::bins::Bins;
use super::histogram::BINS;
use super::kind::{ElementLoop, StatisticsKind};
use super::partial::PartialStatistics;
use super::texts::LengthCollector;
use super::{Numbers, Statistics};
use crate::logical::Logical;
use rayon::prelude::*;
use std::ops::Range;
use tensorferry_core::context::windows::{WINDOW_BYTES, size};
use tensorferry_sdk::{CatalogView, Context, Data, Error, Result, TensorId, element_count};

/// Number of windows that are processed before their results are joined.
const WINDOWS_PER_BATCH: u64 = 4096;

/// A tensor, and the method that computes its statistics.
pub(super) type StatisticsTarget = (TensorId, StatisticsKind);

/// Returns the statistics of some tensors, in order, with histograms if requested. Stored digests
/// are checked first.
pub fn statistics(
    logical: &Logical<'_>,
    wanted: &[StatisticsTarget],
    histograms: bool,
) -> Result<Vec<Statistics>> {
    let mut storages = Vec::new();
    for (id, _) in wanted {
        storages.extend(logical.storages_of(*id)?);
    }
    storages.sort_unstable();
    storages.dedup();
    logical.stored().check_digests(&storages)?;
    let (texts, numbers): (Vec<_>, Vec<_>) =
        (0..wanted.len()).partition(|&index| matches!(wanted[index].1.0, ElementLoop::Texts));
    let texts: Vec<(usize, Statistics)> = texts
        .into_par_iter()
        .map(|index| Ok((index, string_statistics(logical, wanted[index].0)?)))
        .collect::<Result<_>>()?;
    let stretches: Vec<StatisticsTarget> = numbers.iter().map(|&index| wanted[index]).collect();
    let partials =
        each_window(logical, &stretches, PartialStatistics::default, ElementLoop::add_to, |all, part| {
            all.merge(&part);
        })?;
    let mut found: Vec<Numbers> = partials.into_iter().map(PartialStatistics::finish).collect();
    if histograms {
        add_histograms(logical, &stretches, &mut found)?;
    }
    let numbers = numbers.into_iter().zip(found.into_iter().map(Statistics::Numbers));
    let mut all: Vec<(usize, Statistics)> = texts.into_iter().chain(numbers).collect();
    all.sort_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(_, found)| found).collect())
}

fn add_histograms(logical: &Logical<'_>, wanted: &[StatisticsTarget], found: &mut [Numbers]) -> Result<()> {
    let bins = |index: usize| Bins::of(wanted[index].1.0, &found[index]).map(|bins| (index, bins));
    let bins: Vec<(usize, Bins)> = (0..wanted.len()).filter_map(bins).collect();
    let again: Vec<StatisticsTarget> = bins.iter().map(|(index, _)| wanted[*index]).collect();
    let count = |kind: ElementLoop, bytes: &[u8], place: usize, counts: &mut [u64; BINS]| {
        bins[place].1.count(kind, bytes, counts);
    };
    let merge = |all: &mut [u64; BINS], part: [u64; BINS]| {
        all.iter_mut().zip(part).for_each(|(all, part)| *all += part);
    };
    let counts = each_window(logical, &again, || [0; BINS], count, merge)?;
    for ((index, bins), counts) in bins.iter().zip(counts) {
        found[*index].histogram = Some(Box::new(bins.finish(counts)));
    }
    Ok(())
}

impl ElementLoop {
    fn add_to(self, bytes: &[u8], _: usize, into: &mut PartialStatistics) {
        self.add(bytes, into);
    }
}

/// Calls `add` for every window of some numeric tensors, and joins the results for each tensor with
/// `merge`. `add` also receives the index of the tensor.
fn each_window<P: Send>(
    logical: &Logical<'_>,
    wanted: &[StatisticsTarget],
    empty: impl Fn() -> P + Sync,
    add: impl Fn(ElementLoop, &[u8], usize, &mut P) + Sync,
    merge: impl Fn(&mut P, P),
) -> Result<Vec<P>> {
    let session = logical.stored().session();
    let windows = Windows::of(logical, wanted)?;
    session.will_check(windows.bytes);
    let mut all: Vec<P> = wanted.iter().map(|_| empty()).collect();
    let mut start = 0;
    while start < windows.count() {
        let end = (start + WINDOWS_PER_BATCH).min(windows.count());
        let look = |buffer: &mut Vec<u8>, number: u64| {
            session.check_cancelled()?;
            let (place, range) = windows.get(number);
            let (id, StatisticsKind(kind)) = wanted[place];
            let mut part = empty();
            if is_whole(logical, id) {
                buffer.resize(size(range.end - range.start), 0);
                logical.read(id, range.start, buffer)?;
                add(kind, buffer, place, &mut part);
            } else {
                logical.each_piece(id, buffer, |bytes| add(kind, bytes, place, &mut part))?;
            }
            session.checked(range.end - range.start);
            Ok((place, part))
        };
        let parts: Vec<(usize, P)> =
            (start..end).into_par_iter().map_init(Vec::new, look).collect::<Result<_, Error>>()?;
        for (place, part) in parts {
            merge(&mut all[place], part);
        }
        start = end;
    }
    Ok(all)
}

/// Returns whether a tensor's bytes are contiguous. Tensors that are not contiguous are read in
/// their stored order, because the order does not affect the statistics.
fn is_whole(logical: &Logical<'_>, id: TensorId) -> bool {
    logical.catalog().tensor(id).is_none_or(|tensor| matches!(tensor.data, Data::Whole { .. } | Data::Empty))
}

/// The windows of some tensors. Each window contains whole elements of one tensor.
struct Windows {
    /// For each tensor, three values: the number of windows before the tensor's first window, the
    /// tensor's size in bytes, and the size of its windows in bytes.
    tensors: Vec<(u64, u64, u64)>,
    count: u64,
    bytes: u64,
}

impl Windows {
    fn of(logical: &Logical<'_>, wanted: &[StatisticsTarget]) -> Result<Self> {
        let mut windows = Self { tensors: Vec::with_capacity(wanted.len()), count: 0, bytes: 0 };
        for &(id, _) in wanted {
            let tensor = logical.tensor(id);
            let unit = u64::from(logical.dtype_info(tensor.dtype)?.block_bytes().max(1));
            let window = if is_whole(logical, id) {
                (WINDOW_BYTES as u64 / unit).max(1) * unit
            } else {
                tensor.bytes.max(1)
            };
            windows.tensors.push((windows.count, tensor.bytes, window));
            windows.count += tensor.bytes.div_ceil(window);
            windows.bytes = windows.bytes.saturating_add(tensor.bytes);
        }
        Ok(windows)
    }

    fn count(&self) -> u64 {
        self.count
    }

    /// Returns the tensor and the byte range for the window with this number.
    fn get(&self, number: u64) -> (usize, Range<u64>) {
        let place = self.tensors.partition_point(|(before, ..)| *before <= number) - 1;
        let (before, bytes, window) = self.tensors[place];
        let start = (number - before) * window;
        (place, start..(start + window).min(bytes))
    }
}

/// Returns the statistics of the strings of a tensor.
fn string_statistics(logical: &Logical<'_>, id: TensorId) -> Result<Statistics> {
    let tensor = logical.tensor(id);
    logical.stored().session().will_check(tensor.bytes);
    let mut lengths = LengthCollector::default();
    logical.each_window(id, |bytes| {
        lengths.add(bytes);
        logical.stored().session().checked(bytes.len() as u64);
        Ok(())
    })?;
    let elements = element_count(tensor.shape)?;
    if !lengths.is_whole() || lengths.found.count != elements {
        return Err(Error::malformed("the number of strings does not match the shape")
            .tensor(tensor.name)
            .expected(elements)
            .found(lengths.found.count));
    }
    Ok(Statistics::Texts(lengths.found))
}

/// Returns the number of indices in a tensor's first dimension at which all elements are zero.
/// Returns `None` for a dtype whose elements share bytes.
pub fn rows_of_zeros(logical: &Logical<'_>, id: TensorId) -> Result<Option<u64>> {
    let tensor = logical.tensor(id);
    let Some(rows) = tensor.shape.first().copied().filter(|rows| *rows > 0) else { return Ok(None) };
    let Some(width) = logical.dtype_info(tensor.dtype)?.element_bytes() else { return Ok(None) };
    let is_signed = StatisticsKind::is_float(tensor.dtype);
    let (row, width) = (tensor.bytes / rows, size(width.into()));
    logical.stored().session().will_check(tensor.bytes);
    let (mut of_zeros, mut left, mut is_zero) = (0, row, true);
    logical.each_window(id, |mut bytes| {
        logical.stored().session().checked(bytes.len() as u64);
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(size(left).min(bytes.len()));
            is_zero = is_zero && are_zeros(part, width, is_signed);
            (bytes, left) = (rest, left - part.len() as u64);
            if left == 0 {
                of_zeros += u64::from(is_zero);
                (left, is_zero) = (row, true);
            }
        }
        Ok(())
    })?;
    Ok(Some(of_zeros))
}

/// Returns whether all elements are zero. Ignores the sign bit of floats, which is in the last
/// byte.
fn are_zeros(bytes: &[u8], width: usize, is_signed: bool) -> bool {
    if !is_signed {
        return bytes.iter().all(|byte| *byte == 0);
    }
    bytes.chunks_exact(width).all(|number| {
        number.split_last().is_some_and(|(last, rest)| last & 0x7f == 0 && rest.iter().all(|byte| *byte == 0))
    })
}
