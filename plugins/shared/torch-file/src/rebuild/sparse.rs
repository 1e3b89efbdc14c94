//! A sparse tensor consists of values and their positions. The values and the positions are stored
//! in separate tensors. The layout determines how positions are stored.

use super::{counts, wrong_count, wrong_kind};
use crate::pickle::{Graph, ValueId};
use tensorferry_sdk::Result;

/// The parts of a sparse tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sparse {
    pub layout: Layout,
    /// Tensors of indices, each with the name of the torch method that returns this tensor.
    pub indices: Vec<(&'static str, ValueId)>,
    /// Tensor of values.
    pub values: ValueId,
    /// Shape of the dense tensor.
    pub size: Vec<u64>,
    /// Whether each position occurs only once; `None` if the file does not contain this
    /// information.
    pub is_coalesced: Option<bool>,
}

/// The layout of a sparse tensor, which determines how positions are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All coordinates of each value are stored.
    Coo,
    /// The positions are compressed by rows.
    Csr,
    /// The positions are compressed by columns.
    Csc,
    /// The positions are those of blocks, compressed by rows of blocks.
    Bsr,
    /// The positions are those of blocks, compressed by columns of blocks.
    Bsc,
}

impl Layout {
    const ALL: [Self; 5] = [Self::Coo, Self::Csr, Self::Csc, Self::Bsr, Self::Bsc];

    /// Returns the name of the layout in torch.
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

    /// Returns whether the positions are compressed by rows.
    #[must_use]
    pub(crate) fn is_by_rows(self) -> bool {
        matches!(self, Self::Csr | Self::Bsr)
    }

    /// Returns whether the values in this layout are blocks.
    #[must_use]
    pub(crate) fn is_of_blocks(self) -> bool {
        matches!(self, Self::Bsr | Self::Bsc)
    }
}

impl Sparse {
    /// Parses `_rebuild_sparse_tensor(layout, parts)`. If the tensor is lost, returns the reason.
    pub(super) fn of(graph: &Graph, arguments: &[ValueId]) -> Result<std::result::Result<Self, String>> {
        let name = "_rebuild_sparse_tensor";
        let &[layout, parts] = arguments else { return Err(wrong_count(name, arguments)) };
        let layout_name = match graph.plain_call(layout, "torch.serialization", "_get_layout") {
            Some(&[text]) => graph.text(text),
            _ => None,
        };
        let layout_name = layout_name.ok_or_else(|| wrong_kind(name, "a layout"))?;
        let Some(layout) = Layout::ALL.into_iter().find(|layout| layout.name() == layout_name) else {
            return Ok(Err(format!("its layout {layout_name:.80} is unknown")));
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
