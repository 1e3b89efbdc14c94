//! Compares two inputs of tensors, or two inputs of records.

use crate::comparison::{CompareRequest, ComparisonResult, Differences};
use crate::inspect::{InspectOptions, Inspected, inspect_found, temporary};
use crate::record_support::RecordSupport;
use crate::sides::{options_of, with_dequantize};
use crate::{models, steps};
use std::collections::HashMap;
use std::mem::take;
use std::path::Path;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::registry::{Formats, holds_records};
use tensorferry_core::read::folder::shown;
use tensorferry_core::read::input::TensorInput;
use tensorferry_core::read::part::{self, Part};
use tensorferry_core::read::record_files::{self, FoundInput, InputChoice};
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Capabilities, Catalog, Dtype, Error, Purpose, Result, Tensor};
use tensorferry_tensors::diff::{diff, diff_attributes, diff_metadata, worst_first};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::steps::dequantize::{StoredCodes, requested_dtype};
use tensorferry_tensors::steps::model_config::ModelConfig;
use tensorferry_tensors::steps::{ModelFacts, apply_to};
use tensorferry_tensors::stored::Stored;

/// Returns the error for a folder that contains no model itself but has models in its sub-folders.
fn of_several(path: &Path, registry: &Formats, session: &Session) -> Option<Error> {
    let root = path.is_dir().then(|| FileSource::open(path, session))?.ok()?;
    let folders = models::folders(&root, registry, session).ok()?;
    let error =
        Error::usage("a folder of several models").file(shown(path)).hint("compare the models one by one");
    (!folders.is_empty()).then(|| error.found(folders.join(", ")))
}

pub fn compare(
    request: &CompareRequest<'_>,
    registry: &Formats,
    session: &Session,
    records: &dyn RecordSupport,
) -> Result<ComparisonResult> {
    let choice = InputChoice {
        from: None,
        options: request.options,
        part: request.part,
        losses: Some(request.losses),
    };
    let found = |path: &Path| {
        record_files::find(path, choice, registry, session)
            .map_err(|error| of_several(path, registry, session).unwrap_or(error))
    };
    let found = [found(request.a)?, found(request.b)?];
    // If one side contains tensors, or if the request has a part or a tolerance, records are
    // converted to tensors before the comparison.
    let has_part = *request.part != Part::Whole && !found.iter().any(|found| found.is_split);
    let as_tensors = has_part || request.tolerance.is_some() || request.max_diff.is_some();
    if !as_tensors && found.iter().all(|found| holds_records(&found.format.description)) {
        return records.compare(request, found, session);
    }
    let steps = steps::parse(request.steps, records)?;
    let dequantize = requested_dtype(steps.iter().map(|step| &step.spec))?;
    let steps = steps::on_tensors(steps)?;
    let [a, b] = &found;
    let (mut a, a_has_part) = open(a, request, dequantize, session, records)?;
    let (mut b, b_has_part) = open(b, request, None, session, records)?;
    if !a_has_part && !b_has_part {
        // Neither input has the part. This call therefore returns the error for the missing part.
        part::take(a.input.catalog.clone(), request.part, true)?;
    }
    // A format that lacks a packed dtype stores such tensors with a different dtype. The different
    // dtype does not count as a difference, so the original dtype is restored on both sides.
    b.catalog = b.catalog.unpacked().0;
    let facts = facts(&a.input, session);
    let (catalog, effects) = apply_to(a.catalog.unpacked().0, &facts, &steps)?;
    let of_b = StoredCodes::of(&self::facts(&b.input, session));
    check_codes(request, [(&catalog, &StoredCodes::of(&facts)), (&b.catalog, &of_b)])?;
    drop(facts);
    a.catalog = catalog;
    let losses = [take(&mut a.losses), take(&mut b.losses), effects.losses].concat();
    request.losses.check(&losses)?;
    check_options(request.options, &[&a, &b])?;
    let (of_a, of_b) = (
        Logical::new(Stored::new(&a.input, &a.catalog, session, temporary())),
        Logical::new(Stored::new(&b.input, &b.catalog, session, temporary())),
    );
    let mut differences = diff(&of_a, &of_b, request.tolerance)?;
    // A format that cannot store attributes or metadata loses or changes them. The conversion has
    // already reported this, so attributes and metadata are compared only if both formats can store
    // them.
    let keep =
        |capability| [&a, &b].iter().all(|seen| seen.input.format.description.capabilities.has(capability));
    if keep(Capabilities::ATTRIBUTES) {
        differences.extend(diff_attributes(&a.catalog, &b.catalog));
    }
    if keep(Capabilities::METADATA | Capabilities::VALUES) {
        differences.extend(diff_metadata(&a.catalog, &b.catalog));
    }
    worst_first(&mut differences, request.max_diff.is_some_and(|limit| limit.is_relative));
    let tensors = a.catalog.tensors().len();
    drop((of_a, of_b));
    a.input.close()?;
    b.input.close()?;
    let differences = Differences::Tensors(differences, tensors);
    Ok(ComparisonResult { differences, losses, notes: effects.notes })
}

/// Collects the data about an input that steps can use in addition to its tensors. An invalid
/// configuration counts as an empty one.
fn facts<'a>(input: &'a TensorInput, session: &'a Session) -> ModelFacts<'a> {
    ModelFacts { config: ModelConfig::read(&input.source).unwrap_or_default(), input, session }
}

/// Returns an error if codes of quantized weights would be compared with other numbers, or with a
/// tolerance.
fn check_codes(request: &CompareRequest<'_>, sides: [(&Catalog, &StoredCodes); 2]) -> Result<()> {
    const STEPS: [&str; 2] = ["--step dequantize", "this input as the first one, with --step dequantize"];
    let [a, b] = sides;
    let compares_numbers = request.tolerance.is_some() || request.max_diff.is_some();
    for (((catalog, codes), (other, other_codes)), step) in [(a, b), (b, a)].into_iter().zip(STEPS) {
        let by_name: HashMap<&str, &Tensor> = match codes.is_empty() {
            true => continue,
            false => other.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor)).collect(),
        };
        for tensor in catalog.tensors().iter().filter(|tensor| codes.has(tensor)) {
            let Some(other) = by_name.get(tensor.name.as_str()) else { continue };
            if compares_numbers || !other_codes.has(other) {
                return Err(codes.error(tensor, step));
            }
        }
    }
    Ok(())
}

/// Opens an input and selects the requested part if the input has this part. Otherwise the input
/// may be the result of converting only that part, so the whole input is compared. Also returns
/// whether the input has the part.
fn open(
    found: &FoundInput<'_>,
    request: &CompareRequest<'_>,
    dequantize: Option<Option<Dtype>>,
    session: &Session,
    records: &dyn RecordSupport,
) -> Result<(Inspected, bool)> {
    let look = |part| InspectOptions { from: None, options: &[], part, purpose: Purpose::COMPARE };
    if found.is_split {
        return Ok((inspect_found(found, look(request.part), session, records)?, true));
    }
    let description = &found.format.description;
    let options = options_of(description, &found.options);
    let found = &found.with_options(with_dequantize(dequantize, &found.source, description, &options)?);
    let whole = inspect_found(found, look(&Part::Whole), session, records)?;
    match request.part {
        Part::Path(path) if !part::has(&whole.input.catalog, path) => Ok((whole, false)),
        Part::Whole => Ok((whole, true)),
        part => Ok((inspect_found(found, look(part), session, records)?, true)),
    }
}

/// Returns an error for an option that neither input supports.
fn check_options(options: &[(String, String)], inputs: &[&Inspected]) -> Result<()> {
    for option in options {
        let one = std::slice::from_ref(option);
        if inputs.iter().all(|seen| options_of(&seen.input.format.description, one).is_empty()) {
            return Err(Error::usage(format!("neither input has the option -i {}", option.0)));
        }
    }
    Ok(())
}
