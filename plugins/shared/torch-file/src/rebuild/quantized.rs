//! A quantized tensor is a view of integers. There is one scale and one zero point for all
//! integers, or a scale and a zero point for each channel.

use super::view::View;
use super::{wrong_count, wrong_kind};
use crate::pickle::{Graph, Value, ValueId};
use tensorferry_sdk::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
pub struct Quantized {
    /// The integers.
    pub view: View,
    /// The scheme that maps the integers to numbers.
    pub scheme: Scheme,
}

/// The scheme that maps integers to the numbers that they represent.
#[derive(Debug, Clone, PartialEq)]
pub enum Scheme {
    /// The number is `(integer - zero_point) * scale`.
    PerTensor { scale: f64, zero_point: i64 },
    /// The number is `(integer - zero_point) * scale`, with a scale and a zero point for each index
    /// of a dimension.
    PerChannel {
        scales: ChannelNumbers,
        zero_points: ChannelNumbers,
        /// Whether lists of scales and zero points become F32 tensors. Otherwise, scales become F64
        /// and zero points become I64. Scales and zero points that are tensors keep their dtype.
        is_float: bool,
        /// The dimension whose indices are the channels.
        axis: usize,
    },
}

/// The scales or zero points of channels.
#[derive(Debug, Clone, PartialEq)]
pub enum ChannelNumbers {
    Tensor(ValueId),
    /// A list of numbers, from which torch creates a tensor of F64, F32 or I64.
    List(Vec<f64>),
}

impl Quantized {
    /// Parses `_rebuild_qtensor(storage, offset, size, stride, parameters, requires_grad, hooks)`.
    /// If the tensor is lost, returns the reason.
    pub(super) fn of(graph: &Graph, arguments: &[ValueId]) -> Result<std::result::Result<Self, String>> {
        let name = "_rebuild_qtensor";
        let Some((place, &[parameters, requires_grad, _hooks])) = arguments.split_first_chunk::<4>() else {
            return Err(wrong_count(name, arguments));
        };
        let mut view = View::at(graph, name, place)?;
        view.requires_grad =
            graph.bool(requires_grad).ok_or_else(|| wrong_kind(name, "a bool for requires_grad"))?;
        let unknown = || wrong_kind(name, "a scheme with its scales and zero points");
        let Some((&scheme, parameters)) = graph.tuple(parameters).and_then(<[_]>::split_first) else {
            return Err(unknown());
        };
        let scheme = graph.global(scheme).filter(|global| &*global.module == "torch").ok_or_else(unknown)?;
        let scheme = match (&*scheme.name, parameters) {
            ("per_tensor_affine", &[scale, zero_point]) => {
                let (scale, zero_point) =
                    graph.float(scale).zip(graph.int(zero_point)).ok_or_else(unknown)?;
                Scheme::PerTensor { scale, zero_point }
            }
            ("per_channel_affine" | "per_channel_affine_float_qparams", &[scales, zero_points, axis]) => {
                let (scales, zero_points) = ChannelNumbers::of(graph, scales)
                    .zip(ChannelNumbers::of(graph, zero_points))
                    .ok_or_else(unknown)?;
                let rank = view.size.len();
                let axis = graph.int(axis).ok_or_else(unknown)?;
                let axis = usize::try_from(axis).ok().filter(|&axis| axis < rank).ok_or_else(|| {
                    Error::malformed("the axis of a quantized tensor is out of range")
                        .expected(format!("0 to {}", rank.saturating_sub(1)))
                        .found(axis)
                })?;
                let is_float = scheme.name.ends_with("_float_qparams");
                Scheme::PerChannel { scales, zero_points, is_float, axis }
            }
            (other, _) => return Ok(Err(format!("its scheme torch.{other} is unknown"))),
        };
        Ok(Ok(Self { view, scheme }))
    }
}

impl ChannelNumbers {
    fn of(graph: &Graph, id: ValueId) -> Option<Self> {
        match graph.value(id) {
            Value::List(items) => {
                items.iter().map(|&item| graph.float(item)).collect::<Option<_>>().map(Self::List)
            }
            Value::Call(_) => Some(Self::Tensor(id)),
            _ => None,
        }
    }
}
