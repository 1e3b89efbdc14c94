//! Findings are suspicious values in a model's statistics.

use super::TensorStatistics;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};
use tensorferry_sdk::{CatalogView, Dtype, Result, TensorId};
use tensorferry_tensors::content::{self, Algorithm, ContentDigest};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::statistics::{Number, Numbers, Statistics, StatisticsKind, rows_of_zeros};

/// Maximum share of zero rows that is not reported. A small share of zero rows may be padding, for
/// example of a vocabulary.
const MAX_DEAD_ROWS: f64 = 0.01;
/// Maximum share of F8 values that equal the largest number of the dtype and are not reported. A
/// few such values are normal, because scales are chosen so that the largest weight becomes that
/// number.
const MAX_SATURATED_F8: f64 = 0.001;
/// Maximum share of subnormals that is not reported. Weights around zero contain some subnormals by
/// chance. F16 weights contain more, because the smallest normal number of F16 is 6e-5.
const MAX_SUBNORMAL: f64 = 0.01;
const MAX_SUBNORMAL_F16: f64 = 0.05;
/// If an F16 tensor contains infinities and numbers that are at least this large, its values
/// exceeded the dtype's limit of 65504.
const NEAR_LIMIT_F16: f64 = 32752.0;
/// Minimum size in bytes of tensors that are compared with each other. Smaller tensors, such as
/// counters or frequencies, are often equal.
const MIN_EQUAL: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    Nan,
    Infinite,
    /// Some values are at or beyond the limit of their dtype.
    Clipped,
    /// All values of a tensor are zero.
    AllZero,
    /// All values of a weight are equal, or many of its rows are zero.
    Dead,
    /// Several tensors are equal but stored separately.
    Equal,
    /// Many numbers of a tensor are so small that they have lost precision.
    Subnormal,
}

impl FindingKind {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Nan => "nan",
            Self::Infinite => "infinite",
            Self::Clipped => "clipped",
            Self::AllZero => "all_zero",
            Self::Dead => "dead",
            Self::Equal => "equal",
            Self::Subnormal => "subnormal",
        }
    }

    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Nan => "NaN",
            Self::Infinite => "infinite",
            Self::Clipped => "clipped",
            Self::AllZero => "all zero",
            Self::Dead => "dead",
            Self::Equal => "equal, not tied",
            Self::Subnormal => "subnormal",
        }
    }
}

/// A suspicious observation about one tensor, or about several tensors together.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub kind: FindingKind,
    pub tensors: Vec<String>,
    pub what: String,
}

impl Finding {
    /// Returns the layer numbers in the names of the tensors.
    #[must_use]
    pub fn layers(&self) -> Vec<u64> {
        let mut layers: Vec<u64> = self.tensors.iter().filter_map(|name| layer(name)).collect();
        layers.sort_unstable();
        layers.dedup();
        layers
    }
}

/// Returns the first number between dots or slashes in a name.
fn layer(name: &str) -> Option<u64> {
    name.split(['.', '/']).find_map(|part| part.parse().ok())
}

/// Counts the rows that contain only zeros, if the tensor has enough zeros for at least one such
/// row.
pub(super) fn count_rows(
    logical: &Logical<'_>,
    wanted: &[(TensorId, StatisticsKind)],
    found: &mut [Statistics],
) -> Result<()> {
    let rows = wanted.par_iter().zip(&*found).map(|((id, _), found)| {
        let tensor = logical.tensor(*id);
        let Some(numbers) = found.numbers() else { return Ok(None) };
        let row: u64 = tensor.shape.iter().skip(1).fold(1, |product, len| product.saturating_mul(*len));
        let may_have = tensor.shape.len() > 1 && StatisticsKind::is_float(tensor.dtype);
        if !may_have || numbers.zeros < row.max(1) || numbers.zeros == numbers.count {
            return Ok(None);
        }
        rows_of_zeros(logical, *id)
    });
    let rows: Vec<Option<u64>> = rows.collect::<Result<_>>()?;
    for (found, rows) in found.iter_mut().zip(rows) {
        if let Statistics::Numbers(numbers) = found {
            numbers.zero_rows = rows;
        }
    }
    Ok(())
}

/// Returns the findings about these tensors, sorted by kind and then by the input's order.
pub(super) fn of(
    logical: &Logical<'_>,
    ids: &[TensorId],
    tensors: &[TensorStatistics],
) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (&id, tensor) in ids.iter().zip(tensors) {
        // Tied tensors are reported under their first name only.
        if logical.tied_to(id) == id
            && let Ok(Statistics::Numbers(numbers)) = &tensor.found
        {
            let found = of_tensor(logical.tensor(id).dtype, &tensor.shape, numbers);
            let tensors = || vec![tensor.name.clone()];
            findings.extend(found.into_iter().map(|(kind, what)| Finding { kind, tensors: tensors(), what }));
        }
    }
    findings.extend(equal(logical, ids, tensors)?);
    findings.sort_by_key(|finding| finding.kind);
    Ok(findings)
}

fn of_tensor(dtype: Dtype, shape: &[u64], numbers: &Numbers) -> Vec<(FindingKind, String)> {
    let Numbers { count, finite, zeros, .. } = *numbers;
    let mut found = Vec::new();
    if numbers.nan > 0 {
        found.push((FindingKind::Nan, format!("{} of {count} values are not a number", numbers.nan)));
    }
    let infinities = numbers.infinities();
    if infinities > 0 {
        found.push((FindingKind::Infinite, format!("{infinities} of {count} values are infinite")));
    }
    if finite == 0 {
        return found;
    }
    let share = |part: u64| part as f64 / finite as f64;
    let largest =
        [numbers.min, numbers.max].into_iter().flatten().map(|n| n.as_f64().abs()).fold(0.0, f64::max);
    let may_be_saturated = match dtype {
        Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16 => 0.0,
        Dtype::F8_E4M3 | Dtype::F8_E5M2 | Dtype::F8_E4M3FNUZ | Dtype::F8_E5M2FNUZ | Dtype::F8_E4M3B11FNUZ => {
            MAX_SATURATED_F8
        }
        // In tensors of smaller dtypes, values at the largest number are normal.
        _ => 1.0,
    };
    if share(numbers.saturated) > may_be_saturated {
        let what = format!("{} of {count} values are the largest number of the dtype", numbers.saturated);
        found.push((FindingKind::Clipped, what));
    } else if dtype == Dtype::F16 && infinities > 0 && largest >= NEAR_LIMIT_F16 {
        let what = format!("{infinities} infinities and values up to {largest}: the limit of F16 is 65504");
        found.push((FindingKind::Clipped, what));
    }
    if !StatisticsKind::is_float(dtype) {
        return found;
    }
    if zeros == count {
        found.push((FindingKind::AllZero, format!("all {count} values are zero")));
    } else if shape.len() > 1 && finite == count && count > 1 && numbers.min == numbers.max {
        let value = numbers.min.map_or(0.0, Number::as_f64);
        found.push((FindingKind::Dead, format!("all {count} values are {value}")));
    } else if let (Some(of_zeros @ 2..), [rows, ..]) = (numbers.zero_rows, shape)
        && of_zeros as f64 > *rows as f64 * MAX_DEAD_ROWS
    {
        found.push((FindingKind::Dead, format!("{of_zeros} of {rows} rows are zero")));
    }
    let may_be_subnormal = match dtype {
        Dtype::F64 | Dtype::F32 | Dtype::BF16 => MAX_SUBNORMAL,
        Dtype::F16 => MAX_SUBNORMAL_F16,
        _ => 1.0,
    };
    let others = finite - zeros;
    if others > 0 && numbers.subnormals as f64 > others as f64 * may_be_subnormal {
        let what = format!("{} of {others} nonzero values are subnormal", numbers.subnormals);
        found.push((FindingKind::Subnormal, what));
    }
    found
}

/// The properties by which candidates for equal tensors are grouped.
#[derive(PartialEq, Eq, Hash)]
struct EqualityKey<'a> {
    dtype: Dtype,
    shape: &'a [u64],
    numbers: [u64; 6],
}

/// Finds groups of equal weights in different storages. Only tensors with equal statistics are
/// hashed.
fn equal(logical: &Logical<'_>, ids: &[TensorId], tensors: &[TensorStatistics]) -> Result<Vec<Finding>> {
    let mut alike: HashMap<EqualityKey<'_>, Vec<TensorId>> = HashMap::new();
    for (&id, tensor) in ids.iter().zip(tensors) {
        let Ok(Statistics::Numbers(numbers)) = &tensor.found else { continue };
        let dtype = logical.tensor(id).dtype;
        let is_plain = numbers.min == numbers.max || numbers.count < MIN_EQUAL || tensor.shape.len() < 2;
        if is_plain || !StatisticsKind::is_float(dtype) || logical.tied_to(id) != id {
            continue;
        }
        let bits = |number: Option<f64>| number.unwrap_or(0.0).to_bits();
        let [min, max] = [numbers.min, numbers.max].map(|number| bits(number.map(Number::as_f64)));
        let numbers = [min, max, bits(numbers.mean), bits(numbers.deviation), numbers.zeros, numbers.nan];
        alike.entry(EqualityKey { dtype, shape: &tensor.shape, numbers }).or_default().push(id);
    }
    let candidates: Vec<TensorId> = alike.into_values().filter(|ids| ids.len() > 1).flatten().collect();
    let session = logical.stored().session();
    session.will_check(candidates.iter().map(|id| logical.tensor(*id).bytes).sum());
    let digests: Vec<(ContentDigest, TensorId)> = candidates
        .into_par_iter()
        .map(|id| Ok((content::tensor(logical, id, Algorithm::Blake3)?, id)))
        .collect::<Result<_>>()?;
    let mut groups: BTreeMap<ContentDigest, Vec<TensorId>> = BTreeMap::new();
    for (digest, id) in digests {
        groups.entry(digest).or_default().push(id);
    }
    let mut groups: Vec<Vec<TensorId>> = groups.into_values().filter(|ids| ids.len() > 1).collect();
    groups.iter_mut().for_each(|ids| ids.sort_unstable());
    groups.sort_unstable();
    let finding = |ids: Vec<TensorId>| {
        let tensors: Vec<String> = ids.iter().map(|id| logical.tensor(*id).name.to_owned()).collect();
        let what = format!("{} tensors contain the same {} bytes", ids.len(), logical.tensor(ids[0]).bytes);
        Finding { kind: FindingKind::Equal, tensors, what }
    };
    Ok(groups.into_iter().map(finding).collect())
}
