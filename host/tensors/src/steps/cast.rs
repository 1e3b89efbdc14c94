//! The step `cast` changes the dtype of tensors. The numbers are converted when the copy reads
//! them: see [`crate::cast`].

use super::dequantize::StoredCodes;
use super::model_facts::ModelFacts;
use super::selector::Selector;
use super::signature::{ArgumentSpec, CheckedSpec, Key, Signature};
use super::spec::Field;
use super::tensor_step::{Effects, TensorAction, TensorStep};
use crate::cast::{dtype_called, dtypes, is_castable, is_float};
use tensorferry_core::context::suggest::or_which;
use tensorferry_sdk::{Catalog, Dtype, Loss, LossKind, Result, Tensor, TensorId};

/// The signature of the step `cast`.
pub static CAST: Signature = Signature {
    name: "cast",
    summary: "convert tensors to a different dtype",
    details: "\
To a float: the nearest number, ties to even. Numbers that are too large become infinite, in F8_E4M3\n\
the largest number, and in the FNUZ dtypes NaN. To an integer: a float loses its fraction. Out of\n\
range, it becomes the nearest end, and NaN becomes zero. An integer keeps its low bits. The number of\n\
changed values is reported as a loss of kind `precision` for each tensor.\n\
Without only=, a cast to a float applies to floats, and a cast to an integer to integers and BOOL:\n\
cast:bf16 leaves counters and masks unchanged. Codes of quantized weights are refused, since they\n\
are not numbers without their scales: dequantize converts them to floats, and -i codes=numbers\n\
casts the codes themselves.",
    argument: ArgumentSpec::Required("DTYPE", "such as bf16, F8_E4M3 or float16"),
    keys: &[Key::optional("only", "floats|integers|any", "which of the selected tensors to cast, by dtype")],
    selects: true,
    examples: &["cast:bf16", "cast:f8_e4m3,where=*.weight,rank=2", "cast:f32,where=mask,only=any"],
};

/// The dtypes that the step casts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CastSelection {
    Floats,
    Integers,
    Any,
}

#[derive(Debug)]
struct CastStep {
    to: Dtype,
    only: CastSelection,
    selector: Selector,
}

pub(super) fn cast(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    let to = dtype(spec.required_argument()?)?;
    let only = match spec.one("only") {
        Some(field) => match field.text.as_str() {
            "floats" => CastSelection::Floats,
            "integers" => CastSelection::Integers,
            "any" => CastSelection::Any,
            other => {
                return Err(field.error(format!("expected floats, integers or any, found {other:?}")));
            }
        },
        None if is_float(to) => CastSelection::Floats,
        None => CastSelection::Integers,
    };
    Ok(Box::new(CastStep { to, only, selector: Selector::of(spec, None)? }))
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn dtype(field: &Field) -> Result<Dtype> {
    let names = || dtypes().filter_map(Dtype::info).map(|info| info.name());
    dtype_called(&field.text).ok_or_else(|| {
        let which = or_which(&field.text, names().collect::<Vec<_>>());
        field.error(format!("cannot cast to {:?}{which}", field.text))
    })
}

impl CastStep {
    fn is_about(&self, dtype: Dtype) -> bool {
        is_castable(dtype)
            && match self.only {
                CastSelection::Floats => is_float(dtype),
                CastSelection::Integers => !is_float(dtype),
                CastSelection::Any => true,
            }
    }
}

impl TensorStep for CastStep {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        let selected = self.selector.on(&catalog)?;
        let (mut casts, mut left, mut are_there) = (Vec::new(), Vec::new(), 0);
        for (id, tensor) in (0..).map(TensorId).zip(catalog.tensors()) {
            if !selected.has(tensor) {
                continue;
            }
            if tensor.dtype == self.to {
                are_there += 1;
            } else if self.is_about(tensor.dtype) {
                casts.push((id, self.to));
            } else {
                left.push(tensor);
            }
        }
        effects.touched += casts.len() + are_there;
        // If the step has no selector keys, it casts only floats, and users expect tensors of other
        // dtypes to remain unchanged. In this case, a note is added only if nothing is cast.
        if let Some(first) = left.first().filter(|_| casts.is_empty() || !self.selector.is_all()) {
            let count = left.len();
            let why = self.skip_reason(&catalog, first);
            effects.notes.push(format!("cast leaves {} unchanged: {why}", counted(count, "tensor")));
            effects.touched += count;
        } else if let Some(first) = left.iter().find(|tensor| tensor.dtype.info().is_none()) {
            let count = left.iter().filter(|tensor| tensor.dtype.info().is_none()).count();
            let why = self.skip_reason(&catalog, first);
            effects
                .notes
                .push(format!("cast leaves {} unchanged: {why}", counted(count, "quantized tensor")));
        }
        let cast = catalog.cast(&casts)?;
        effects.losses.extend(alias_losses(&catalog, &cast));
        Ok(cast)
    }

    fn apply_to(&self, catalog: Catalog, model: &ModelFacts<'_>, effects: &mut Effects) -> Result<Catalog> {
        self.check_codes(&catalog, &StoredCodes::of(model), effects)?;
        self.apply(catalog, effects)
    }
}

impl CastStep {
    /// Returns an error if codes would be cast, because codes are not numbers without their scales.
    /// Adds a note if scales are cast.
    fn check_codes(&self, catalog: &Catalog, codes: &StoredCodes, effects: &mut Effects) -> Result<()> {
        let selected = self.selector.on(catalog)?;
        let is_cast =
            |tensor: &&Tensor| selected.has(tensor) && tensor.dtype != self.to && self.is_about(tensor.dtype);
        let step = self.dequantize();
        if let Some(tensor) = catalog.tensors().iter().filter(is_cast).find(|tensor| codes.has(tensor)) {
            return Err(codes.error(tensor, &format!("--step {step}")));
        }
        let scales =
            catalog.tensors().iter().filter(is_cast).filter(|tensor| codes.has_scale(tensor)).count();
        if scales > 0 {
            effects.notes.push(format!(
                "cast changes {scales} scales of {} weights but not their codes; use --step {step} to convert the weights",
                codes.method()
            ));
        }
        Ok(())
    }

    /// Returns the `dequantize` step that converts quantized weights to floats.
    fn dequantize(&self) -> String {
        let name = |dtype: Dtype| dtype.info().map_or(String::new(), |info| info.name().to_lowercase());
        match self.to {
            Dtype::F32 | Dtype::F16 | Dtype::BF16 => format!("dequantize:{}", name(self.to)),
            _ => "dequantize".to_owned(),
        }
    }

    /// Returns the reason why a selected tensor is not cast.
    fn skip_reason(&self, catalog: &Catalog, tensor: &Tensor) -> String {
        let dtype = catalog.dtype_info(tensor.dtype).map_or("of a format-specific dtype", |info| info.name());
        let step = format!("cannot be cast; --step {} converts it to floats", self.dequantize());
        let why = match self.only {
            _ if tensor.dtype.info().is_none() => &*step,
            _ if !is_castable(tensor.dtype) => "cannot be cast",
            CastSelection::Floats => "is not a float; only=any casts other dtypes too",
            _ => "is not an integer; only=any casts other dtypes too",
        };
        format!("{:?} is {dtype}, which {why}", tensor.name)
    }
}

/// Returns a loss for each tensor that is no longer tied after the step.
fn alias_losses(before: &Catalog, after: &Catalog) -> Vec<Loss> {
    let (ties, still) = (before.ties(), after.ties());
    let mut losses = Vec::new();
    for ((tensor, &first), &now) in before.tensors().iter().zip(&ties).zip(&still) {
        let Some(other) = before.tensor(first).filter(|_| still[first.0 as usize] != now) else { continue };
        let why = format!("tied to {:?}, but only one of them is cast", other.name);
        losses.push(Loss::new(LossKind::Alias, &tensor.name, why));
    }
    losses
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::steps::tests::run;
    use tensorferry_sdk::{CatalogBuilder, CatalogSink, FileId, Limits, MemorySource, Storage};

    fn catalog() -> Catalog {
        let source = MemorySource::file("x", vec![0; 96]);
        let limits = Limits::default();
        let mut b = CatalogBuilder::new("test", &source, &limits);
        let s = b.storage(Storage::file(FileId(0), 0, 96)).unwrap();
        b.tensor("a.weight", Dtype::F32, &[4], s, 0).unwrap();
        b.tensor("tied.weight", Dtype::F32, &[4], s, 0).unwrap();
        b.tensor("steps", Dtype::I64, &[], s, 16).unwrap();
        b.tensor("packed.weight", Dtype::F4, &[8], s, 32).unwrap();
        b.finish().unwrap()
    }

    fn cast(spec: &str) -> Result<(Catalog, Effects)> {
        run(catalog(), &[spec])
    }

    fn dtypes_of((catalog, _): &(Catalog, Effects)) -> Vec<&str> {
        catalog.tensors().iter().map(|tensor| tensor.dtype.info().unwrap().name()).collect()
    }

    #[test]
    fn a_cast_to_a_float_is_about_floats() {
        let stepped = cast("cast:bf16").unwrap();
        assert_eq!(dtypes_of(&stepped), ["BF16", "BF16", "I64", "F4"]);
        assert_eq!(stepped.0.ties()[1], TensorId(0));
        let Effects { losses, notes, .. } = &stepped.1;
        assert!(losses.is_empty() && notes.is_empty(), "{:?}", stepped.1);
        assert_eq!(dtypes_of(&cast("cast:i32").unwrap()), ["F32", "F32", "I32", "F4"]);
        assert_eq!(dtypes_of(&cast("cast:float16,only=any").unwrap()), ["F16", "F16", "F16", "F4"]);
        assert_eq!(dtypes_of(&cast("cast:f32").unwrap()), ["F32", "F32", "I64", "F4"]);
    }

    #[test]
    fn what_is_selected_and_not_cast_is_said() {
        for (spec, says) in [
            ("cast:bf16,where=*.weight", "1 tensor unchanged: \"packed.weight\" is F4"),
            ("cast:bf16,where=steps", "only=any"),
            ("cast:bf16,where=packed*", "cannot be cast"),
            ("cast:bf16,where=nothing", "no such tensor"),
        ] {
            let notes = cast(spec).unwrap().1.notes;
            assert!(notes.len() == 1 && notes[0].contains(says), "{spec}: {notes:?}");
        }
        for (spec, says) in [
            ("cast:f4", "cannot cast to \"f4\""),
            ("cast:bf61", "BF16"),
            ("cast:bf16,only=ints", "expected floats, integers or any"),
            ("cast", "cast:DTYPE"),
        ] {
            let error = cast(spec).unwrap_err();
            assert_eq!(error.kind(), tensorferry_sdk::ErrorKind::Usage, "{spec}: {error}");
            assert!(error.to_string().contains(says), "{spec}: {error}");
        }
    }

    #[test]
    fn a_tie_that_is_cast_in_part_is_a_loss() {
        let losses = cast("cast:f16,where=a.*").unwrap().1.losses;
        assert_eq!(losses.len(), 1);
        assert_eq!((losses[0].kind, &*losses[0].what), (LossKind::Alias, "tied.weight"));
    }
}
