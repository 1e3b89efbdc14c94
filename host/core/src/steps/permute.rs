//! `transpose` exchanges the last two dimensions, `permute` brings them all in another order. The bytes are
//! brought in order by the copy.

use super::kind::{Argument, Given, Kind};
use super::rebuild::{Made, rebuild, unchanged};
use super::selector::Selector;
use super::spec::{Field, Spec};
use super::view::permute;
use super::{Action, Said, TensorStep};
use tensorferry_sdk::{Catalog, Data, Error, Result, Tensor};

pub(super) static TRANSPOSE: Kind = Kind {
    name: "transpose",
    summary: "exchange the last two dimensions",
    details: "A matrix is transposed; of a stack of matrices, each is. A tensor with fewer dimensions is a mistake:\n\
              rank=2 takes matrices alone.",
    argument: Argument::None,
    keys: &[],
    selects: true,
    examples: &["transpose,where=*/kernel,rank=2"],
    make: |given| make(given, Order::LastTwo),
};

pub(super) static PERMUTE: Kind = Kind {
    name: "permute",
    summary: "bring the dimensions in another order",
    details: "The order is told by letters, one for each dimension, before and after; or by numbers: which of\n\
              the old dimensions, counted from 0, stands first, second, and so on, as numpy.transpose has it.",
    argument: Argument::Required("ORDER", "such as hwio->oihw, which is also 3x2x0x1"),
    keys: &[],
    selects: true,
    examples: &["permute:hwio->oihw,where=conv*/kernel", "permute:3x2x0x1,where=conv*/kernel"],
    make: |given| {
        let order = order(given.required_argument()?)?;
        make(given, order)
    },
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
    selectors: Vec<(String, Field)>,
}

fn make(given: &Given<'_>, order: Order) -> Result<Action> {
    let selector = Selector::of(given, None)?;
    Ok(Action::Tensor(Box::new(Permute { order, selector, selectors: given.selectors() })))
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
    fn apply(&self, catalog: Catalog, said: &mut Said) -> Result<Catalog> {
        let selected = self.selector.on(&catalog)?;
        let turn = |mut made: Made| {
            if selected.has(&made.tensor) {
                said.touched += 1;
                let axes = self.axes(&made.tensor)?;
                let blocks = catalog.blocks(&made.tensor);
                made.tensor.shape = axes.iter().map(|&axis| made.tensor.shape[axis]).collect();
                if !axes.is_sorted() {
                    made.tensor.data =
                        Data::Blocks(blocks.iter().map(|block| permute(block, &axes)).collect());
                }
            }
            Ok(made)
        };
        let made = unchanged(&catalog).map(turn).collect::<Result<_>>()?;
        rebuild(catalog, made, said)
    }

    fn inverse(&self) -> Result<Vec<Spec>> {
        let mut spec = match &self.order {
            Order::LastTwo => Spec::new("transpose"),
            Order::Axes(axes) => {
                let back =
                    (0..axes.len()).map(|old| axes.iter().position(|&axis| axis == old).unwrap_or(old));
                let back: Vec<String> = back.map(|axis| axis.to_string()).collect();
                Spec::new("permute").argument(back.join("x"))
            }
        };
        spec.options.clone_from(&self.selectors);
        Ok(vec![spec])
    }
}
