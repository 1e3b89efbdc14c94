//! Drafting makes the receipt of a conversion, while its sources are open and its output is staged.
//!
//! What tensors an output is to hold is taken from what was read, not from what was written: so that a
//! receipt proves the writer too, the first time that it is verified.

use crate::context::loss::LossRecord;
use crate::context::session::Session;
use crate::convert::Request;
use crate::convert::report::Report;
use crate::convert::sidecars::Sidecars;
use crate::formats::registry::{RegisteredFormat, Registry};
use crate::publish::stage::Stage;
use crate::read::model::Model;
use crate::read::source::FileSource;
use crate::receipt::{
    FileRecord, Files, FormatRecord, InputRecord, LentRecord, ModelRecord, OutputRecord, Receipt,
    TensorRecord, VERSION, now,
};
use crate::tensors::content::{self, Algorithm, ContentDigest};
use crate::tensors::logical::Logical;
use crate::tensors::stored::hex;
use crate::write::target::Resolved;
use crate::write::verify::entry;
use std::path::Path;
use tensorferry_sdk::{CatalogView, Entry, Error, Layout, Result};

/// A conversion whose output is staged and not committed yet.
pub struct Conversion<'a> {
    /// What the user asked for.
    pub request: &'a Request,
    /// The plugins.
    pub registry: &'a Registry,
    /// What is written where.
    pub target: &'a Resolved<'a>,
    /// What is read.
    pub models: &'a [Model<'a>],
    /// What is written of it, for each model.
    pub logical: &'a [Logical<'a>],
    /// How, for each model.
    pub layouts: &'a [&'a Layout],
    /// The digests of its tensors, for each model.
    pub digests: &'a [TensorDigests],
    /// The files that go along.
    pub sidecars: &'a Sidecars,
    /// The input's folder.
    pub folder: &'a Path,
    /// Where the output's files lie.
    pub stage: &'a Stage,
    /// What is known of it so far.
    pub report: &'a Report,
}

/// The digests of a catalog's tensors, by their place.
#[derive(Debug, Clone, Default)]
pub struct TensorDigests {
    /// Content digests.
    pub content: Vec<ContentDigest>,
    /// SHA-256 of the logical bytes.
    pub sha256: Vec<ContentDigest>,
}

/// Hashes every tensor of a catalog, in one pass.
///
/// # Errors
/// As of [`content::each`].
pub fn digests_of(logical: &Logical<'_>) -> Result<TensorDigests> {
    let each = content::each(logical, [Algorithm::Blake3, Algorithm::Sha256])?;
    let (content, sha256) = each.into_iter().map(|[content, sha256]| (content, sha256)).unzip();
    Ok(TensorDigests { content, sha256 })
}

/// The receipt of a conversion.
///
/// # Errors
/// Whatever reading its files gives.
pub fn draft(conversion: &Conversion<'_>, session: &Session) -> Result<Receipt> {
    let Conversion { request, registry, target, report, .. } = conversion;
    let models = conversion.models.iter().enumerate();
    Ok(Receipt {
        models: models.map(|(index, model)| model_record(conversion, index, model)).collect::<Result<_>>()?,
        ..head(request, registry, target, report, files(conversion, session)?)
    })
}

/// What the receipts of tensors and of records have in common: all but the tensors and the records.
pub(super) fn head(
    request: &Request,
    registry: &Registry,
    target: &Resolved<'_>,
    report: &Report,
    (input, output): (InputRecord, Vec<FileRecord>),
) -> Receipt {
    Receipt {
        receipt: VERSION,
        ferry: env!("CARGO_PKG_VERSION").to_owned(),
        written: now(),
        input,
        part: request.part.to_string(),
        steps: request.steps.clone(),
        output: OutputRecord {
            format: format_record(registry, target.format),
            options: request.writer_options.clone(),
            files: output,
        },
        verified: report.verified,
        records: None,
        models: Vec::new(),
        losses: report.losses.iter().map(|loss| LossRecord::of(loss).into_owned()).collect(),
    }
}

/// Hashes the files of the input and of the output, all in one go.
fn files(conversion: &Conversion<'_>, session: &Session) -> Result<(InputRecord, Vec<FileRecord>)> {
    let Conversion { request, models, layouts, sidecars, stage, folder, .. } = conversion;
    let mut files = Files::default();
    let carried = FileSource::at((*folder).to_owned(), Entry::Folder);
    let mut own = 0;
    for model in *models {
        for name in model.input.source.opened() {
            let recorded = model.path_of(name);
            files.add_source(&model.input.source, name, recorded)?;
            own += 1;
        }
    }
    for name in sidecars.names() {
        files.add_source(&carried, name, name.to_owned())?;
        own += 1;
    }
    let lent: Vec<_> = models.iter().flat_map(|model| model.context.lent()).collect();
    for source in &lent {
        for name in source.opened() {
            files.add_source(source, name, name.to_owned())?;
        }
    }
    let written = layouts.iter().flat_map(|layout| layout.files()).map(|file| file.path.as_str());
    for name in written.chain(sidecars.names()) {
        files.add_path(stage.path(name), name.to_owned())?;
    }
    let mut records = files.digest(session)?.into_iter();
    let mut of_input: Vec<FileRecord> = records.by_ref().take(own).collect();
    of_input.sort_by(|a, b| a.name.cmp(&b.name));
    let lent = lent.iter().map(|source| {
        let files = records.by_ref().take(source.opened().len()).collect();
        Ok(LentRecord { folder: absolute(source.folder())?, files })
    });
    let input = InputRecord {
        path: absolute(&request.input)?,
        folder: absolute(folder)?,
        options: request.reader_options.clone(),
        files: of_input,
        lent: lent.collect::<Result<_>>()?,
    };
    Ok((input, records.collect()))
}

pub(super) fn absolute(path: &Path) -> Result<String> {
    let absolute = std::path::absolute(path).map_err(|e| Error::from(e).file(path.display().to_string()))?;
    Ok(absolute.display().to_string())
}

pub(super) fn format_record(registry: &Registry, format: &RegisteredFormat) -> FormatRecord {
    let identity = registry.plugin_of(format);
    FormatRecord {
        id: format.description.id.clone(),
        plugin: identity.map(|identity| identity.name.clone()).unwrap_or_default(),
        version: identity.map(|identity| identity.version.clone()).unwrap_or_default(),
        output_revision: format.description.output_revision,
    }
}

fn model_record(conversion: &Conversion<'_>, index: usize, model: &Model<'_>) -> Result<ModelRecord> {
    let (logical, layout) = (&conversion.logical[index], conversion.layouts[index]);
    let digests = &conversion.digests[index];
    let mut tensors = Vec::with_capacity(digests.content.len());
    let mut contents = Vec::with_capacity(digests.content.len());
    for ((id, content), sha256) in logical.tensor_ids().zip(&digests.content).zip(&digests.sha256) {
        if layout.omitted().contains(&id) {
            continue;
        }
        let tensor = logical.tensor(id);
        let own = [tensor.name.to_owned()];
        for name in layout.names(id).unwrap_or(&own) {
            contents.push((name.clone(), *content));
            tensors.push(TensorRecord {
                name: name.clone(),
                dtype: logical.dtype_info(tensor.dtype)?.name().to_owned(),
                shape: tensor.shape.to_vec(),
                bytes: tensor.bytes,
                sha256: hex(sha256),
                content: hex(content),
            });
        }
    }
    let content = content::catalog(contents.iter().map(|(name, content)| (name.as_str(), *content)));
    Ok(ModelRecord {
        folder: model.folder.clone(),
        entry: match entry(&conversion.target.target, layout) {
            Entry::File(name) | Entry::Prefix(name) => Some(name),
            Entry::Folder => None,
        },
        from: format_record(conversion.registry, &model.input.format),
        content: hex(&content),
        tensors,
    })
}
