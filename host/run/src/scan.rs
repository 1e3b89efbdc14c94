//! A scan is what one look at a unit's files finds: the schema of their records.

use super::found::Placed;
use super::job::Job;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use tensorferry::engine::context::session::Session;
use tensorferry::engine::formats::probe::probe;
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::formats::used::UsedFormat;
use tensorferry::engine::read::context::ReadContext;
use tensorferry::engine::read::unit::{Unit, files_alone, takes_schema};
use tensorferry::engine::records::rows::{self, holds_records};
use tensorferry::engine::records::schema_file::schema_file;
use tensorferry_sdk::{Error, Purpose, Result};

/// What was found in a unit's files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Scan {
    /// The format that they were read as.
    pub reader: UsedFormat,
    /// The files, and what they were then.
    pub inputs: Vec<Placed>,
    /// The schema, as a file of it is.
    pub schema: Value,
    /// Whether the reader takes such a file.
    pub takes_schema: bool,
}

/// What tells a scan from those of other files, and of the same ones read otherwise.
pub(super) fn key(job: &Job, unit: &Unit) -> String {
    let c = &job.conversion;
    let said = (&unit.folder, &unit.files, &c.from, &c.reader_options);
    // They are texts alone.
    let text = serde_json::to_vec(&said).unwrap_or_default();
    blake3::hash(&text).to_hex()[..32].to_owned()
}

impl Scan {
    /// Whether the files, and the format that reads them, are still what they were.
    pub(super) fn is_valid(&self, registry: &Registry) -> bool {
        let mut formats = registry.formats().iter();
        let is_same = formats.any(|format| UsedFormat::of(format) == self.reader);
        is_same && self.inputs.iter().all(|placed| placed.check_input().is_ok())
    }
}

/// Looks at a unit's files.
pub(super) fn scan(job: &Job, unit: &Unit, registry: &Registry, session: &Session) -> Result<Scan> {
    let source = unit.source();
    let format = probe(registry, &source, job.conversion.from.as_deref(), session)?;
    if !holds_records(&format.description) {
        let error = Error::unsupported("a data set is made of records, and this is none");
        return Err(error.file(&unit.files[0]).found(&format.description.id));
    }
    let given = &job.conversion.reader_options;
    let context = ReadContext::new(session, Purpose::SHOW);
    let rows = rows::open(&source, format, &files_alone(format, given), &context)?;
    let schema = schema_file(&rows.set.schema());
    let inputs = rows.source.stamped().map(|(path, identity)| Placed { path: path.to_owned(), identity });
    let mut inputs: Vec<Placed> = inputs.collect();
    let lent = context.lent_files().into_iter();
    inputs.extend(lent.map(|(path, identity): (PathBuf, _)| Placed { path, identity }));
    rows.close()?;
    context.check_lent()?;
    Ok(Scan { reader: UsedFormat::of(format), inputs, schema, takes_schema: takes_schema(format, given) })
}
