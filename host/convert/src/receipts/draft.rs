//! Drafts the part that all receipts have in common: all fields except those for tensors and
//! records.

use crate::context::ConversionContext;
use crate::receipt::{
    AdditionalInput, FileRecord, Files, FormatRecord, InputRecord, OutputRecord, Receipt, VERSION, now,
};
use crate::report::Report;
use crate::write::copy::InputTrees;
use std::path::Path;
use std::sync::Arc;
use tensorferry_core::context::loss::LossRecord;
use tensorferry_core::formats::registry::{Formats, RegisteredFormat};
use tensorferry_core::read::account::Account;
use tensorferry_core::read::folder::{self, shown};
use tensorferry_core::read::source::FileSource;
use tensorferry_publish::staging::Staging;
use tensorferry_sdk::{Entry, Error, Result};
use tensorferry_tensors::content::Algorithm;
use tensorferry_tensors::hash_tree::HashTree;

pub struct ReceiptFiles<'a> {
    /// The files of the input. Each item contains the source, the name in the source, the name in
    /// the receipt, and the parts that were hashed during the copy.
    pub input: Vec<(&'a FileSource, &'a str, String, Option<&'a InputTrees>)>,
    /// The additional inputs that options of the reader name.
    pub additional: &'a [Arc<FileSource>],
    /// The staged files of the output, and the parts of each file that were hashed during the copy.
    pub output: Vec<(&'a str, Option<&'a HashTree>)>,
}

/// Drafts a receipt without tensors and records. All files are hashed in parallel.
pub fn draft(
    context: &ConversionContext<'_>,
    files: &ReceiptFiles<'_>,
    stage: &dyn Staging,
    report: &Report,
) -> Result<Receipt> {
    let (request, target) = (context.request, &context.target);
    let (mut input, output) = hash(context, files, stage)?;
    input.account = report.account.as_ref().map(Account::record);
    Ok(Receipt {
        receipt: VERSION,
        ferry: env!("CARGO_PKG_VERSION").to_owned(),
        written: now(),
        input,
        part: request.input.part.to_string(),
        steps: request.steps.clone(),
        output: OutputRecord {
            format: format_record(context.registry, target.format),
            options: request.output.options.clone(),
            files: output,
        },
        verified: report.verified,
        records: None,
        models: Vec::new(),
        losses: report.losses.iter().map(|loss| LossRecord::of(loss).into_owned()).collect(),
    })
}

fn hash(
    context: &ConversionContext<'_>,
    files: &ReceiptFiles<'_>,
    stage: &dyn Staging,
) -> Result<(InputRecord, Vec<FileRecord>)> {
    let written = stage.written("", Entry::Folder, context.session)?;
    let mut hashed = Files::default();
    for (source, name, recorded, seen) in &files.input {
        hashed.add_source(source, name, recorded.clone(), *seen)?;
    }
    for source in files.additional {
        for name in source.opened() {
            hashed.add_source(source, name, name.to_owned(), None)?;
        }
    }
    for (name, seen) in &files.output {
        match stage.local_path(name) {
            Some(path) => hashed.add_path(path, (*name).to_owned(), *seen)?,
            None => hashed.add_written(&written, name, *seen)?,
        }
    }
    let algorithm = context.request.output.receipt.unwrap_or(Algorithm::Sha256);
    let mut records = hashed.digest(algorithm, context.session)?.into_iter();
    let mut of_input: Vec<FileRecord> = records.by_ref().take(files.input.len()).collect();
    of_input.sort_by(|a, b| a.name.cmp(&b.name));
    let additional = files.additional.iter().map(|source| {
        let files = records.by_ref().take(source.opened().len()).collect();
        Ok(AdditionalInput { folder: absolute(source.folder())?, files })
    });
    let input = InputRecord {
        path: absolute(&context.request.input.path)?,
        folder: absolute(context.source.folder())?,
        options: context.request.input.options.clone(),
        files: of_input,
        additional_inputs: additional.collect::<Result<_>>()?,
        account: None,
    };
    Ok((input, records.collect()))
}

fn absolute(path: &Path) -> Result<String> {
    let absolute = folder::absolute(path).map_err(|e| Error::from(e).file(path.display().to_string()))?;
    Ok(shown(&absolute))
}

/// Creates the record of a format and its plugin.
pub fn format_record(registry: &Formats, format: &RegisteredFormat) -> FormatRecord {
    let identity = registry.plugin_of(format);
    FormatRecord {
        id: format.description.id.clone(),
        plugin: identity.map(|identity| identity.name.clone()).unwrap_or_default(),
        version: identity.map(|identity| identity.version.clone()).unwrap_or_default(),
        output_revision: format.description.output_revision,
    }
}
