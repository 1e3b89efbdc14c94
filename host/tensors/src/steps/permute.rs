//! The step `transpose` swaps the last two dimensions, and `permute` reorders all dimensions. The
//! copy then reorders the bytes.

use super::rebuild::{StepTensor, rebuild, unchanged};
use super::selector::Selector;
use super::signature::{ArgumentSpec, CheckedSpec, Signature};
use super::spec::Field;
use super::tensor_step::{Effects, TensorAction, TensorStep};
use super::view;
use tensorferry_sdk::{Catalog, Data, Error, Result, Tensor};

pub(super) static TRANSPOSE: Signature = Signature {
    name: "transpose",
    summary: "swap the last two dimensions",
    details: "Transposes a matrix, or each matrix of a stack. A tensor with fewer dimensions is an error: pass\n\
              rank=2 to select only matrices.",
    argument: ArgumentSpec::None,
    keys: &[],
    selects: true,
    examples: &["transpose,where=*/kernel,rank=2"],
};

pub(super) static PERMUTE: Signature = Signature {
    name: "permute",
    summary: "reorder the dimensions",
    details: "Give the order as letters, one per dimension, before and after; or as the numbers of the old\n\
              dimensions in their new order, counted from 0, as in numpy.transpose.",
    argument: ArgumentSpec::Required("ORDER", "such as hwio->oihw, which is the same as 3x2x0x1"),
    keys: &[],
    selects: true,
    examples: &["permute:hwio->oihw,where=conv*/kernel", "permute:3x2x0x1,where=conv*/kernel"],
};

/// The new order of the dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DimensionOrder {
    LastTwo,
    Axes(Vec<usize>),
}

#[derive(Debug)]
struct Permute {
    order: DimensionOrder,
    selector: Selector,
}

pub(super) fn transpose(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    Ok(Box::new(Permute { order: DimensionOrder::LastTwo, selector: Selector::of(spec, None)? }))
}

pub(super) fn permute(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    let order = order(spec.required_argument()?)?;
    Ok(Box::new(Permute { order, selector: Selector::of(spec, None)? }))
}

fn order(field: &Field) -> Result<DimensionOrder> {
    let wrong = |why: &str| field.error(format!("{why}: {:?}", field.text));
    let axes: Vec<usize> = match field.text.split_once("->") {
        Some((before, after)) => {
            let (before, after): (Vec<char>, Vec<char>) =
                (before.trim().chars().collect(), after.trim().chars().collect());
            if before.len() != after.len() {
                return Err(wrong("the number of dimensions differs before and after the arrow"));
            }
            let place = |letter: &char| before.iter().position(|other| other == letter);
            let axes: Option<Vec<usize>> = after.iter().map(place).collect();
            axes.ok_or_else(|| wrong("a letter after the arrow does not appear before it"))?
        }
        None => {
            field.numbers()?.into_iter().map(|axis| usize::try_from(axis).unwrap_or(usize::MAX)).collect()
        }
    };
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if axes.is_empty() || !sorted.iter().copied().eq(0..axes.len()) {
        return Err(wrong("each dimension must appear once"));
    }
    Ok(DimensionOrder::Axes(axes))
}

impl Permute {
    fn axes(&self, tensor: &Tensor) -> Result<Vec<usize>> {
        let rank = tensor.shape.len();
        let wrong = |expected: String| {
            Error::usage(
                "wrong number of dimensions: pass rank= to select tensors by their number of dimensions",
            )
            .tensor(&tensor.name)
            .expected(expected)
            .found(format!("shape {:?}", tensor.shape))
        };
        match &self.order {
            DimensionOrder::LastTwo if rank < 2 => Err(wrong("2 or more".to_owned())),
            DimensionOrder::LastTwo => {
                let mut axes: Vec<usize> = (0..rank).collect();
                axes.swap(rank - 2, rank - 1);
                Ok(axes)
            }
            DimensionOrder::Axes(axes) if axes.len() == rank => Ok(axes.clone()),
            DimensionOrder::Axes(axes) => Err(wrong(axes.len().to_string())),
        }
    }
}

impl TensorStep for Permute {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        let selected = self.selector.on(&catalog)?;
        let turn = |mut new: StepTensor| {
            if selected.has(&new.tensor) {
                effects.touched += 1;
                let axes = self.axes(&new.tensor)?;
                let shape = axes.iter().map(|&axis| new.tensor.shape[axis]).collect();
                if !axes.is_sorted() {
                    effects.leave_attributes(&new.tensor);
                    new.tensor.attributes.clear();
                    let turned = new.tensor.blocks().map(|block| view::permute(&block, &axes));
                    new.tensor.data = Data::Blocks(turned.collect());
                }
                new.tensor.shape = shape;
            }
            Ok(new)
        };
        let tensors = unchanged(&catalog).map(turn).collect::<Result<_>>()?;
        rebuild(catalog, tensors, effects)
    }
}
