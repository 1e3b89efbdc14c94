//! A sparse tensor is values and where they belong: tensors of their own, put together by a layout.

use super::{counts, wrong_count, wrong_kind};
use crate::pickle::{Graph, ValueId};
use tensorferry_sdk::Result;

/// A sparse tensor's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sparse {
    /// How the parts describe it.
    pub layout: Layout,
    /// The tensors of indices, under the names that torch's methods give them.
    pub indices: Vec<(&'static str, ValueId)>,
    /// The tensor of values.
    pub values: ValueId,
    /// The shape of what they describe.
    pub size: Vec<u64>,
    /// Whether no place is named twice, where the file says so.
    pub is_coalesced: Option<bool>,
}

/// How the parts of a sparse tensor describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// By the coordinates of each value.
    Coo,
    /// By rows.
    Csr,
    /// By columns.
    Csc,
    /// By rows of blocks.
    Bsr,
    /// By columns of blocks.
    Bsc,
}

impl Layout {
    const ALL: [Self; 5] = [Self::Coo, Self::Csr, Self::Csc, Self::Bsr, Self::Bsc];

    /// Torch's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Coo => "torch.sparse_coo",
            Self::Csr => "torch.sparse_csr",
            Self::Csc => "torch.sparse_csc",
            Self::Bsr => "torch.sparse_bsr",
            Self::Bsc => "torch.sparse_bsc",
        }
    }

    /// Whether rows are what is compressed.
    #[must_use]
    pub(crate) fn is_by_rows(self) -> bool {
        matches!(self, Self::Csr | Self::Bsr)
    }

    /// Whether values are blocks.
    #[must_use]
    pub(crate) fn is_of_blocks(self) -> bool {
        matches!(self, Self::Bsr | Self::Bsc)
    }
}

impl Sparse {
    /// `_rebuild_sparse_tensor(layout, parts)`; or why it is lost.
    pub(super) fn of(graph: &Graph, arguments: &[ValueId]) -> Result<std::result::Result<Self, String>> {
        let name = "_rebuild_sparse_tensor";
        let &[layout, parts] = arguments else { return Err(wrong_count(name, arguments)) };
        let layout_name = match graph.plain_call(layout, "torch.serialization", "_get_layout") {
            Some(&[text]) => graph.text(text),
            _ => None,
        };
        let layout_name = layout_name.ok_or_else(|| wrong_kind(name, "a layout"))?;
        let Some(layout) = Layout::ALL.into_iter().find(|layout| layout.name() == layout_name) else {
            return Ok(Err(format!("its layout {layout_name:.80} is not known")));
        };
        let parts = graph.tuple(parts).ok_or_else(|| wrong_kind(name, "a tuple of parts"))?;
        let (indices, values, size, is_coalesced) = match (layout, parts) {
            (Layout::Coo, &[indices, values, size, ref rest @ ..]) if rest.len() <= 1 => {
                let is_coalesced = rest.first().and_then(|&flag| graph.bool(flag));
                (vec![("indices", indices)], values, size, is_coalesced)
            }
            (Layout::Csr | Layout::Bsr, &[rows, columns, values, size]) => {
                (vec![("crow_indices", rows), ("col_indices", columns)], values, size, None)
            }
            (Layout::Csc | Layout::Bsc, &[columns, rows, values, size]) => {
                (vec![("ccol_indices", columns), ("row_indices", rows)], values, size, None)
            }
            _ => return Err(wrong_count(name, parts)),
        };
        let size =
            counts(graph, size).ok_or_else(|| wrong_kind(name, "a tuple of sizes that are not negative"))?;
        Ok(Ok(Self { layout, indices, values, size, is_coalesced }))
    }
}
