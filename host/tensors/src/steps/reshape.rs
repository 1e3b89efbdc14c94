//! The step `reshape` changes the dimensions of tensors. It does not change the order of the
//! elements.
//!
//! If the elements are stored in order, the tensor needs no additional blocks after reshaping.
//! Otherwise, it may need several blocks. For example, a transposed matrix that becomes a vector
//! needs one block per row.

use super::rebuild::{StepTensor, rebuild, unchanged};
use super::regroup::reshaped;
use super::selector::Selector;
use super::signature::{ArgumentSpec, CheckedSpec, Key, Signature};
use super::spec::Field;
use super::tensor_step::{Effects, TensorAction, TensorStep};
use super::view::{info_of, merge};
use tensorferry_sdk::{Catalog, Data, Error, Result, Tensor, element_count};

pub(super) static RESHAPE: Signature = Signature {
    name: "reshape",
    summary: "change the dimensions of tensors",
    details: "In SHAPE, such as 12x64x-1, one length may be -1, which stands for the rest; * is the old length at\n\
              the same position; an empty SHAPE is a scalar.",
    argument: ArgumentSpec::Required("SHAPE", "such as 12x64x-1"),
    keys: &[Key::optional("from", "SHAPE", "only tensors of this shape, where * is any length")],
    selects: true,
    examples: &["reshape:-1,where=*.bias,rank=2", "reshape:*x12x64,from=*x768,where=*.query.weight"],
};

/// Maximum number of dimensions in a shape that the user specifies.
const MAX_DIMENSIONS: usize = 64;

/// A length in a shape that the user specifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LenSpec {
    Is(u64),
    /// The dimension keeps its old length.
    Same,
    /// The length is the number of elements divided by the lengths of the other dimensions.
    Rest,
}

#[derive(Debug)]
struct Reshape {
    to: Vec<LenSpec>,
    from: Option<Vec<LenSpec>>,
    selector: Selector,
}

pub(super) fn reshape(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    let to = lens(spec.required_argument()?)?;
    if to.iter().filter(|len| **len == LenSpec::Rest).count() > 1 {
        return Err(spec.required_argument()?.error("-1 may appear only once"));
    }
    let from = spec.one("from").map(|field| match lens(field)? {
        lens if lens.contains(&LenSpec::Rest) => {
            Err(field.error("from= does not allow -1; use * for any length"))
        }
        lens => Ok(lens),
    });
    let selector = Selector::of(spec, None)?;
    Ok(Box::new(Reshape { to, from: from.transpose()?, selector }))
}

fn lens(field: &Field) -> Result<Vec<LenSpec>> {
    if field.text.is_empty() {
        return Ok(Vec::new());
    }
    let words: Vec<&str> = field.text.split('x').collect();
    if words.len() > MAX_DIMENSIONS {
        return Err(field.error(format!("more than {MAX_DIMENSIONS} dimensions")));
    }
    let len = |word: &str| match word {
        "*" => Ok(LenSpec::Same),
        "-1" => Ok(LenSpec::Rest),
        number => number
            .parse()
            .map(LenSpec::Is)
            .map_err(|_| field.error(format!("expected a shape such as 12x64x-1, found {:?}", field.text))),
    };
    words.into_iter().map(len).collect()
}

fn is_of(shape: &[u64], from: &[LenSpec]) -> bool {
    let is = |(len, of): (&u64, &LenSpec)| {
        matches!(of, LenSpec::Is(number) if number == len) || *of == LenSpec::Same
    };
    shape.len() == from.len() && shape.iter().zip(from).all(is)
}

impl Reshape {
    fn shape(&self, old: &[u64]) -> Result<Vec<u64>> {
        let wrong = |why: String| Error::usage(why).found(format!("shape {old:?}"));
        let mut shape = Vec::with_capacity(self.to.len());
        for (place, len) in self.to.iter().enumerate() {
            shape.push(match len {
                LenSpec::Is(len) => *len,
                LenSpec::Rest => 1,
                LenSpec::Same => {
                    let same = old.get(place).copied();
                    same.ok_or_else(|| wrong(format!("* refers to dimension {place}, which does not exist")))?
                }
            });
        }
        let elements = element_count(old)?;
        let known = element_count(&shape)?;
        if let Some(place) = self.to.iter().position(|len| *len == LenSpec::Rest) {
            let rest = elements.checked_div(known).filter(|rest| rest.checked_mul(known) == Some(elements));
            shape[place] = rest.ok_or_else(|| {
                wrong("the number of elements does not match the given dimensions".to_owned())
            })?;
        } else if known != elements {
            return Err(wrong(format!("the tensor has {elements} elements, but {shape:?} has {known}")));
        }
        Ok(shape)
    }

    fn reshape(&self, catalog: &Catalog, tensor: &mut Tensor) -> Result<()> {
        let shape = self.shape(&tensor.shape)?;
        if let Data::Blocks(_) | Data::Grid(_) = &tensor.data {
            let info = info_of(catalog, tensor)?;
            let mut new = Vec::new();
            for block in tensor.blocks() {
                reshaped(&block, &tensor.shape, &shape, &info, &mut new)?;
            }
            for axis in 0..shape.len() {
                new = if new.len() > 1 { merge(new, axis, &info) } else { new };
            }
            tensor.data = Data::Blocks(new);
        }
        tensor.shape = shape;
        Ok(())
    }
}

impl TensorStep for Reshape {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        let selected = self.selector.on(&catalog)?;
        let mut tensors: Vec<StepTensor> = unchanged(&catalog).collect();
        for StepTensor { tensor, .. } in &mut tensors {
            let is_of = self.from.as_ref().is_none_or(|from| is_of(&tensor.shape, from));
            if is_of && selected.has(tensor) {
                effects.touched += 1;
                let before = tensor.shape.clone();
                self.reshape(&catalog, tensor).map_err(|error| error.tensor(&tensor.name))?;
                if tensor.shape != before {
                    effects.leave_attributes(tensor);
                    tensor.attributes.clear();
                }
            }
        }
        rebuild(catalog, tensors, effects)
    }
}
