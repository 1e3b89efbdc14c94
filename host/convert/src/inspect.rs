//! Opens an input and selects a part of it, for commands that write no output.

use crate::record_support::RecordSupport;
use crate::{models, steps};
use std::path::Path;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::registry::{Formats, holds_records};
use tensorferry_core::read::input::{self, TensorInput};
use tensorferry_core::read::part::{self, Part};
use tensorferry_core::read::record_files::{self, FoundInput, InputChoice};
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Catalog, Error, Loss, Purpose, Result};
use tensorferry_tensors::steps::apply;
use tensorferry_tensors::stored::Spill;

/// An input and its selected part.
pub struct Inspected {
    pub input: TensorInput,
    pub catalog: Catalog,
    /// Losses that the reader reported, and losses caused by `--part auto`.
    pub losses: Vec<Loss>,
}

#[derive(Debug, Clone, Copy)]
pub struct InspectOptions<'a> {
    pub from: Option<&'a str>,
    pub options: &'a [(String, String)],
    pub part: &'a Part,
    pub purpose: Purpose,
}

impl<'a> InspectOptions<'a> {
    #[must_use]
    pub fn choice(&self) -> InputChoice<'a> {
        let Self { from, options, part, .. } = *self;
        InputChoice { from, options, part, losses: None }
    }
}

/// Opens and reads an input. Records are converted to tensors.
pub fn inspect(
    path: &Path,
    look: InspectOptions<'_>,
    registry: &Formats,
    session: &Session,
    records: &dyn RecordSupport,
) -> Result<Inspected> {
    inspect_found(&record_files::find(path, look.choice(), registry, session)?, look, session, records)
}

/// Reads an input whose format and files are known. Applies the steps that the reader requests, as
/// [`inspect`] does.
pub fn inspect_found(
    found: &FoundInput<'_>,
    look: InspectOptions<'_>,
    session: &Session,
    records: &dyn RecordSupport,
) -> Result<Inspected> {
    let FoundInput { source, format, options, is_split, .. } = found;
    let context = found.reading(session, look.purpose);
    let input = if holds_records(&format.description) {
        records.as_tensors(source, format, options, &context, session)?
    } else {
        input::read(source, format, options, &context)?
    };
    let part = if *is_split { &Part::Whole } else { look.part };
    let (mut catalog, left_out) = part::take(input.catalog.clone(), part, true)?;
    let mut losses: Vec<Loss> = input.catalog.losses().iter().cloned().chain(left_out).collect();
    if !holds_records(&format.description) {
        let is_read = |name: &str| input.source.is_open(name);
        losses.extend_from_slice(context.take_account(source, &format.description, &is_read)?);
        losses.extend(context.unfollowed(&input.source));
    }
    let of_reader = steps::of_format(input.catalog.steps())?;
    if !of_reader.is_empty() {
        let (stepped, effects) = apply(catalog.unpacked().0, &of_reader)?;
        catalog = stepped;
        losses.extend(effects.losses);
    }
    Ok(Inspected { input, catalog, losses })
}

/// Opens and reads the models in the sub-folders of a folder that does not contain a model itself.
/// Returns each model with the name of its folder.
pub fn inspect_below(
    root: &Path,
    look: InspectOptions<'_>,
    registry: &Formats,
    session: &Session,
    records: &dyn RecordSupport,
) -> Result<Vec<(String, Inspected)>> {
    let root = FileSource::open(root, session)?;
    let looked_at = |folder: String| {
        let found = record_files::find_from(root.in_folder(&folder), look.choice(), registry, session)?;
        Ok((folder, inspect_found(&found, look, session, records)?))
    };
    models::folders(&root, registry, session)?.into_iter().map(looked_at).collect()
}

/// Returns storage for temporary files in the system's default folder, because the commands that
/// use it have no output folder.
#[must_use]
pub fn temporary() -> Spill {
    Box::new(|| tempfile::tempfile().map_err(Error::from))
}
