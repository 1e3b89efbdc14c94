//! Joins the parts of a tensor from all tensor-parallel ranks into one tensor, whose blocks are
//! read directly from the parts. The same rules also determine which regions of a whole tensor form
//! the part of a rank.

use std::collections::HashMap;
use tensorferry_sdk::{
    Block, Catalog, CatalogSink, Error, Region, Result, StorageId, StorageLocation, row_major_strides,
};
use tensorferry_torch_file::Location;

/// The rule for assembling the whole tensor from the rows or columns of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinRule {
    /// The parts are concatenated along this dimension.
    Along(usize),
    /// The whole tensor consists of the first halves of all parts, followed by the second halves of
    /// all parts.
    Halves,
    /// The parts contain rows of fused attention tensors, in the order that old versions of
    /// Megatron used.
    Fused {
        /// Number of heads in a part.
        heads: u64,
        /// Number of fused tensors: three for query, key and value, or two for key and value.
        fused: u64,
        /// Whether the heads of each fused tensor are contiguous, as in checkpoints older than
        /// version 1. Otherwise, the rows of each head are contiguous, and the fused tensors alternate
        /// row by row.
        heads_inside: bool,
    },
}

/// A range of rows in a part, and their position in the whole tensor.
struct Rows {
    from: u64,
    /// Distance between consecutive rows, measured in rows of the part.
    step: u64,
    count: u64,
    to: u64,
}

impl JoinRule {
    fn dim(self) -> usize {
        if let Self::Along(dim) = self { dim } else { 0 }
    }

    /// Returns the regions of a whole tensor that form a rank's part, in the order of their
    /// positions in that part. All parts have the same size. Fails if the size of the whole tensor
    /// is not divisible by the number of ranks.
    pub fn cut(self, shape: &[u64], ranks: u64, rank: u64) -> Result<Vec<Region>> {
        let dim = self.dim();
        let does_not_divide = |halves: u64| {
            Error::usage("the tensor cannot be split evenly among the tensor ranks")
                .expected(format!("a multiple of {} in dimension {dim}", ranks.saturating_mul(halves)))
                .found(format!("{shape:?}"))
        };
        let total = *shape.get(dim).ok_or_else(|| {
            Error::malformed("the tensor does not have the dimension along which it is split")
                .expected(format!("dimension {dim}"))
                .found(format!("{shape:?}"))
        })?;
        if !total.is_multiple_of(ranks) {
            return Err(does_not_divide(1));
        }
        let len = total / ranks;
        if self == Self::Halves && !len.is_multiple_of(2) {
            return Err(does_not_divide(2));
        }
        let mut pieces = rows(self, len, rank * len, total)?;
        pieces.sort_by_key(|rows| rows.from);
        let region = |rows: Rows| {
            if rows.step != 1 {
                return Err(Error::unsupported("ferry does not write old orders of fused attention"));
            }
            let mut region = Region::whole(shape);
            (region.origin[dim], region.shape[dim]) = (rows.to, rows.count);
            Ok(region)
        };
        pieces.into_iter().map(region).collect()
    }
}

/// Adds joined tensors to a catalog.
pub struct JoinedCatalog<'o> {
    /// Catalog with the tensors of the input files. The locations of parts refer to the storages of
    /// this catalog.
    pub collected: &'o Catalog,
    /// Catalog that receives the joined tensors.
    pub catalog: &'o mut dyn CatalogSink,
    declared: HashMap<StorageId, StorageId>,
}

impl<'o> JoinedCatalog<'o> {
    pub fn new(collected: &'o Catalog, catalog: &'o mut dyn CatalogSink) -> Self {
        Self { collected, catalog, declared: HashMap::new() }
    }

    /// Adds a tensor that is not split, so a single rank contains the whole tensor.
    pub fn whole(&mut self, name: &str, location: &Location) -> Result<()> {
        let location = self.translate(location)?;
        location.add(self.catalog, name).map(drop)
    }

    /// Adds a tensor that consists of parts. If `max` is set, only the first `max` rows are kept.
    /// Fails if the dtypes or the other dimensions of the parts differ.
    pub fn joined(
        &mut self,
        name: &str,
        parts: &[&Location],
        rule: JoinRule,
        max: Option<u64>,
    ) -> Result<()> {
        let dim = rule.dim();
        let mut shape = whole_shape(parts, dim)?;
        let (dtype, total) = (parts[0].dtype, shape[dim]);
        let width = dtype.info().and_then(|info| info.element_bytes()).map(i64::from);
        let width = width.ok_or_else(|| Error::unsupported("the elements of the parts share bytes"))?;
        let kept = max.unwrap_or(total).min(total);
        shape[dim] = kept;
        let (mut blocks, mut before) = (Vec::new(), 0);
        for part in parts {
            let part = self.translate(part)?;
            let len = part.shape[dim];
            let strides = part.strides.clone().unwrap_or_else(|| row_major_strides(&part.shape));
            for rows in rows(rule, len, before, total)? {
                let count = rows.count.min(kept.saturating_sub(rows.to));
                let Some((storage, start)) = part.start.filter(|_| count > 0) else { continue };
                let too_far = || Error::malformed("a part's extent does not fit in 64 bits");
                let signed = |number: u64| i64::try_from(number).map_err(|_| too_far());
                let skipped =
                    strides[dim].checked_mul(signed(rows.from)?).and_then(|bytes| bytes.checked_mul(width));
                let offset =
                    skipped.and_then(|skipped| start.checked_add_signed(skipped)).ok_or_else(too_far)?;
                let mut region = Region::whole(&part.shape);
                (region.origin[dim], region.shape[dim]) = (rows.to, count);
                let mut strides = strides.clone();
                strides[dim] = strides[dim].checked_mul(signed(rows.step)?).ok_or_else(too_far)?;
                blocks.push(Block { region, storage, offset, strides });
            }
            before += len;
        }
        self.catalog.tensor_of_blocks(name, dtype, &shape, blocks).map(drop)
    }

    /// Converts a location in the collected catalog to a location in the output catalog.
    fn translate(&mut self, location: &Location) -> Result<Location> {
        let Some((id, offset)) = location.start else { return Ok(location.clone()) };
        let known = self.declared.get(&id).copied();
        let id = match known {
            Some(known) => known,
            None => {
                let storage = self.collected.storage(id);
                let storage = storage.ok_or_else(|| Error::plugin("unknown storage"))?;
                // Only the reader that declared an encoded storage can decode it.
                if matches!(storage.location, StorageLocation::Encoded { .. }) {
                    return Err(Error::unsupported(
                        "the tensor's values are computed from other values, as in conjugates",
                    ));
                }
                let declared = self.catalog.storage(storage.clone())?;
                self.declared.insert(id, declared);
                declared
            }
        };
        Ok(Location { start: Some((id, offset)), ..location.clone() })
    }
}

/// Returns the shape of the tensor that results from joining parts along a dimension.
fn whole_shape(parts: &[&Location], dim: usize) -> Result<Vec<u64>> {
    let first = parts.first().ok_or_else(|| Error::plugin("the tensor has no parts"))?;
    let mut shape = first.shape.clone();
    let mut total = Some(0_u64);
    for (rank, part) in parts.iter().enumerate() {
        let others = |shape: &[u64]| {
            shape.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, n)| *n).collect::<Vec<_>>()
        };
        if part.dtype != first.dtype
            || part.shape.len() != shape.len()
            || others(&part.shape) != others(&shape)
        {
            return Err(Error::malformed(format!(
                "the part of tensor rank {rank} does not match that of the first rank"
            ))
            .expected(describe_location(first))
            .found(describe_location(part)));
        }
        let len = part.shape.get(dim).ok_or_else(|| {
            Error::malformed("a part does not have the dimension along which it is split")
                .expected(format!("dimension {dim}"))
                .found(describe_location(part))
        })?;
        total = total.and_then(|total| total.checked_add(*len));
    }
    shape[dim] = total.ok_or_else(|| Error::malformed("the size does not fit in 64 bits"))?;
    Ok(shape)
}

/// Formats a tensor's dtype and shape for messages.
#[must_use]
pub fn describe_location(location: &Location) -> String {
    format!("{} {:?}", location.dtype.info().map_or("?", |info| info.name()), location.shape)
}

/// Returns the positions of a part's rows in the whole tensor. `len` is the number of rows in the
/// part, and `before` is the total number of rows in the preceding parts.
fn rows(rule: JoinRule, len: u64, before: u64, total: u64) -> Result<Vec<Rows>> {
    Ok(match rule {
        JoinRule::Along(_) => vec![Rows { from: 0, step: 1, count: len, to: before }],
        JoinRule::Halves => {
            if !len.is_multiple_of(2) {
                return Err(Error::malformed("a gated part cannot be split into halves")
                    .expected("an even length")
                    .found(len));
            }
            let half = |from, to| Rows { from, step: 1, count: len / 2, to };
            vec![half(0, before / 2), half(len / 2, total / 2 + before / 2)]
        }
        JoinRule::Fused { heads, fused, heads_inside } => {
            let groups = heads.checked_mul(fused).filter(|groups| *groups > 0 && len.is_multiple_of(*groups));
            let size = len
                / groups.ok_or_else(|| {
                    Error::malformed("the rows cannot be split evenly among the heads")
                        .expected(format!("a multiple of {heads} heads x {fused}"))
                        .found(len)
                })?;
            let mut all = Vec::new();
            for head in 0..if size == 0 { 0 } else { heads } {
                for tensor in 0..fused {
                    let to = before + (head * fused + tensor) * size;
                    let (from, step) = match heads_inside {
                        true => ((tensor * heads + head) * size, 1),
                        false => (head * fused * size + tensor, fused),
                    };
                    all.push(Rows { from, step, count: size, to });
                }
            }
            all
        }
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn origins(rule: JoinRule, shape: &[u64], ranks: u64) -> Vec<Vec<Vec<u64>>> {
        let cut = |rank| rule.cut(shape, ranks, rank).unwrap();
        (0..ranks).map(|rank| cut(rank).into_iter().map(|region| region.origin).collect()).collect()
    }

    #[test]
    fn a_rank_has_what_joining_takes_from_it() {
        assert_eq!(origins(JoinRule::Along(1), &[3, 4], 2), [[[0, 0]], [[0, 2]]]);
        assert_eq!(origins(JoinRule::Halves, &[8, 1], 2), [[[0, 0], [4, 0]], [[2, 0], [6, 0]]]);
        for (rule, shape) in
            [(JoinRule::Along(0), [5, 4]), (JoinRule::Halves, [6, 4]), (JoinRule::Along(1), [4, 5])]
        {
            let error = rule.cut(&shape, 2, 0).unwrap_err();
            assert!(error.to_string().contains("cannot be split evenly"), "{error}");
        }
        assert!(JoinRule::Along(1).cut(&[4], 2, 0).is_err());
    }
}
