//! `transpose` exchanges the last two dimensions, `permute` brings them all in another order. The bytes are
//! brought in order by the copy.

use super::rebuild::{StepTensor, rebuild, unchanged};
use super::selector::Selector;
use super::signature::{Argument, CheckedSpec, Signature};
use super::spec::Field;
use super::tensor_step::{Effects, TensorAction, TensorStep};
use super::view;
use tensorferry_sdk::{Catalog, Data, Error, Result, Tensor};

pub(super) static TRANSPOSE: Signature = Signature {
    name: "transpose",
    summary: "exchange the last two dimensions",
    details: "A matrix is transposed; of a stack of matrices, each is. A tensor with fewer dimensions is a mistake:\n\
              rank=2 takes matrices alone.",
    argument: Argument::None,
    keys: &[],
    selects: true,
    examples: &["transpose,where=*/kernel,rank=2"],
};

pub(super) static PERMUTE: Signature = Signature {
    name: "permute",
    summary: "bring the dimensions in another order",
    details: "The order is told by letters, one for each dimension, before and after; or by numbers: which of\n\
              the old dimensions, counted from 0, stands first, second, and so on, as numpy.transpose has it.",
    argument: Argument::Required("ORDER", "such as hwio->oihw, which is also 3x2x0x1"),
    keys: &[],
    selects: true,
    examples: &["permute:hwio->oihw,where=conv*/kernel", "permute:3x2x0x1,where=conv*/kernel"],
};

/// Which old dimension stands where.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Order {
    LastTwo,
    Axes(Vec<usize>),
}

#[derive(Debug)]
struct Permute {
    order: Order,
    selector: Selector,
}

pub(super) fn transpose(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    Ok(Box::new(Permute { order: Order::LastTwo, selector: Selector::of(spec, None)? }))
}

pub(super) fn permute(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    let order = order(spec.required_argument()?)?;
    Ok(Box::new(Permute { order, selector: Selector::of(spec, None)? }))
}

fn order(field: &Field) -> Result<Order> {
    let wrong = |why: &str| field.error(format!("{why}: {:?}", field.text));
    let axes: Vec<usize> = match field.text.split_once("->") {
        Some((before, after)) => {
            let (before, after): (Vec<char>, Vec<char>) =
                (before.trim().chars().collect(), after.trim().chars().collect());
            if before.len() != after.len() {
                return Err(wrong("there are not as many dimensions after the arrow as before it"));
            }
            let place = |letter: &char| before.iter().position(|other| other == letter);
            let axes: Option<Vec<usize>> = after.iter().map(place).collect();
            axes.ok_or_else(|| wrong("a letter after the arrow is not before it"))?
        }
        None => {
            field.numbers()?.into_iter().map(|axis| usize::try_from(axis).unwrap_or(usize::MAX)).collect()
        }
    };
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if axes.is_empty() || !sorted.iter().copied().eq(0..axes.len()) {
        return Err(wrong("each dimension has to be there once"));
    }
    Ok(Order::Axes(axes))
}

impl Permute {
    fn axes(&self, tensor: &Tensor) -> Result<Vec<usize>> {
        let rank = tensor.shape.len();
        let wrong = |expected: String| {
            Error::usage(
                "the tensor has other dimensions; rank= takes those of one number of dimensions alone",
            )
            .tensor(&tensor.name)
            .expected(expected)
            .found(format!("shape {:?}", tensor.shape))
        };
        match &self.order {
            Order::LastTwo if rank < 2 => Err(wrong("2 or more".to_owned())),
            Order::LastTwo => {
                let mut axes: Vec<usize> = (0..rank).collect();
                axes.swap(rank - 2, rank - 1);
                Ok(axes)
            }
            Order::Axes(axes) if axes.len() == rank => Ok(axes.clone()),
            Order::Axes(axes) => Err(wrong(axes.len().to_string())),
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
