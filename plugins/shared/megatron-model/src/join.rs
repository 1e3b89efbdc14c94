//! Makes one tensor of the tensor ranks' parts: blocks that are read where the parts lie. And the other way: which regions of
//! a tensor are a rank's part, by the same rows.

use std::collections::HashMap;
use tensorferry_sdk::{
    Block, Catalog, CatalogSink, Error, Place, Region, Result, StorageId, row_major_strides,
};
use tensorferry_torch_file::Location;

/// How the rows or columns of parts go into the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// Side by side, along this dimension.
    Along(usize),
    /// Rows, of each part's first half, then of each part's second.
    Halves,
    /// Rows of fused attention in an old order: for each part, its heads, how many tensors are fused, and whether
    /// the heads lie inside the fused ones (before version 1) or around their rows.
    Fused {
        /// Of a part.
        heads: u64,
        /// Three of query, key and value, two of key and value.
        fused: u64,
        /// Whether a fused tensor's heads follow one another.
        heads_inside: bool,
    },
}

/// Rows of a part, and where they go in the whole.
struct Rows {
    from: u64,
    /// From one to the next, in the part.
    step: u64,
    count: u64,
    to: u64,
}

impl Joint {
    fn dim(self) -> usize {
        if let Self::Along(dim) = self { dim } else { 0 }
    }

    /// The regions of a tensor that are one rank's part, in the part's order, where each rank has as much.
    ///
    /// # Errors
    /// Usage: a size that does not divide over the ranks; malformed: none along the dimension.
    pub fn cut(self, shape: &[u64], ranks: u64, rank: u64) -> Result<Vec<Region>> {
        let dim = self.dim();
        let does_not_divide = |halves: u64| {
            Error::usage("the tensor does not divide over the tensor ranks")
                .expected(format!("a multiple of {} in dimension {dim}", ranks.saturating_mul(halves)))
                .found(format!("{shape:?}"))
        };
        let total = *shape.get(dim).ok_or_else(|| {
            Error::malformed("no dimension that it is cut along")
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
                return Err(Error::unsupported("an old order of fused attention is not written"));
            }
            let mut region = Region::whole(shape);
            (region.origin[dim], region.shape[dim]) = (rows.to, rows.count);
            Ok(region)
        };
        pieces.into_iter().map(region).collect()
    }
}

/// Puts joined tensors into a catalog.
pub struct Output<'o> {
    /// What was found in the files, which locations are in.
    pub collected: &'o Catalog,
    /// What tensors are put into.
    pub catalog: &'o mut dyn CatalogSink,
    declared: HashMap<StorageId, StorageId>,
}

impl<'o> Output<'o> {
    /// Nothing so far.
    pub fn new(collected: &'o Catalog, catalog: &'o mut dyn CatalogSink) -> Self {
        Self { collected, catalog, declared: HashMap::new() }
    }

    /// Adds a tensor that one rank has whole.
    ///
    /// # Errors
    /// What the catalog's checks say.
    pub fn whole(&mut self, name: &str, location: &Location) -> Result<()> {
        let location = self.located(location)?;
        location.add(self.catalog, name).map(drop)
    }

    /// Adds a tensor of parts; of its rows no more than `most`, where that is said.
    ///
    /// # Errors
    /// Malformed: parts of two dtypes, or that differ along another dimension, or that do not divide.
    pub fn joined(&mut self, name: &str, parts: &[&Location], joint: Joint, most: Option<u64>) -> Result<()> {
        let dim = joint.dim();
        let mut shape = whole_shape(parts, dim)?;
        let (dtype, total) = (parts[0].dtype, shape[dim]);
        let width = dtype.info().and_then(|info| info.element_bytes()).map(i64::from);
        let width = width.ok_or_else(|| Error::unsupported("parts whose elements share bytes"))?;
        let kept = most.unwrap_or(total).min(total);
        shape[dim] = kept;
        let (mut blocks, mut before) = (Vec::new(), 0);
        for part in parts {
            let part = self.located(part)?;
            let len = part.shape[dim];
            let strides = part.strides.clone().unwrap_or_else(|| row_major_strides(&part.shape));
            for rows in rows(joint, len, before, total)? {
                let count = rows.count.min(kept.saturating_sub(rows.to));
                let Some((storage, start)) = part.start.filter(|_| count > 0) else { continue };
                let too_far = || Error::malformed("a part's extent does not fit 64 bits");
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

    /// The location among the catalog's own storages.
    fn located(&mut self, location: &Location) -> Result<Location> {
        let Some((id, offset)) = location.start else { return Ok(location.clone()) };
        let known = self.declared.get(&id).copied();
        let id = match known {
            Some(known) => known,
            None => {
                let storage = self.collected.storage(id);
                let storage = storage.ok_or_else(|| Error::plugin("a storage that was not found"))?;
                // Its handle would be one of the finder's.
                if matches!(storage.place, Place::Encoded { .. }) {
                    return Err(Error::unsupported(
                        "a tensor whose values are made of others, as conjugates are",
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

/// The shape of parts side by side.
fn whole_shape(parts: &[&Location], dim: usize) -> Result<Vec<u64>> {
    let first = parts.first().ok_or_else(|| Error::plugin("a tensor without parts"))?;
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
                "tensor rank {rank}'s part does not fit beside the first rank's"
            ))
            .expected(said(first))
            .found(said(part)));
        }
        let len = part.shape.get(dim).ok_or_else(|| {
            Error::malformed("a part without the dimension that it is cut along")
                .expected(format!("dimension {dim}"))
                .found(said(part))
        })?;
        total = total.and_then(|total| total.checked_add(*len));
    }
    shape[dim] = total.ok_or_else(|| Error::malformed("a size that does not fit 64 bits"))?;
    Ok(shape)
}

/// A tensor's dtype and shape, for people.
#[must_use]
pub fn said(location: &Location) -> String {
    format!("{} {:?}", location.dtype.info().map_or("?", |info| info.name()), location.shape)
}

/// The rows of a part that has `len`, and as many of other parts before it.
fn rows(joint: Joint, len: u64, before: u64, total: u64) -> Result<Vec<Rows>> {
    Ok(match joint {
        Joint::Along(_) => vec![Rows { from: 0, step: 1, count: len, to: before }],
        Joint::Halves => {
            if !len.is_multiple_of(2) {
                return Err(Error::malformed("a gated part has no two halves")
                    .expected("an even length")
                    .found(len));
            }
            let half = |from, to| Rows { from, step: 1, count: len / 2, to };
            vec![half(0, before / 2), half(len / 2, total / 2 + before / 2)]
        }
        Joint::Fused { heads, fused, heads_inside } => {
            let groups = heads.checked_mul(fused).filter(|groups| *groups > 0 && len.is_multiple_of(*groups));
            let size = len
                / groups.ok_or_else(|| {
                    Error::malformed("the rows do not divide over the heads")
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

    fn origins(joint: Joint, shape: &[u64], ranks: u64) -> Vec<Vec<Vec<u64>>> {
        let cut = |rank| joint.cut(shape, ranks, rank).unwrap();
        (0..ranks).map(|rank| cut(rank).into_iter().map(|region| region.origin).collect()).collect()
    }

    #[test]
    fn a_rank_has_what_joining_takes_from_it() {
        assert_eq!(origins(Joint::Along(1), &[3, 4], 2), [[[0, 0]], [[0, 2]]]);
        assert_eq!(origins(Joint::Halves, &[8, 1], 2), [[[0, 0], [4, 0]], [[2, 0], [6, 0]]]);
        for (joint, shape) in [(Joint::Along(0), [5, 4]), (Joint::Halves, [6, 4]), (Joint::Along(1), [4, 5])]
        {
            let error = joint.cut(&shape, 2, 0).unwrap_err();
            assert!(error.to_string().contains("does not divide"), "{error}");
        }
        assert!(Joint::Along(1).cut(&[4], 2, 0).is_err());
    }
}
