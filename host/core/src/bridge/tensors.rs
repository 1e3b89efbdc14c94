//! Records become an input of tensors: read once, into spools.

use super::chain::{self, Chain};
use super::column::{Column, Made as Tensor};
use super::columns::{self, Columns, KEY};
use super::crossing::TensorOf;
use super::leaf;
use super::spool::Spools;
use super::whole;
use crate::context::session::Session;
use crate::formats::registry::RegisteredFormat;
use crate::read::context::ReadContext;
use crate::read::input::Input;
use crate::read::source::FileSource;
use crate::records::flow::Flow;
use crate::records::rows::{self, Rows};
use crate::records::steps::{self, Origin, RecordAction};
use crate::steps::Step;
use crate::tensors::stored::Spill;
use arrow_schema::SchemaRef;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use tensorferry_sdk::{
    Catalog, CatalogBuilder, CatalogSink, Context, Dtype, Error, FileId, Loss, LossKind, LossSink, Result,
    Storage, arrow_schema,
};

/// How records are to become tensors.
#[derive(Clone, Copy)]
pub struct RecordsAsTensors<'a> {
    /// `-i`.
    pub options: &'a [(String, String)],
    /// The steps that they go through before.
    pub steps: &'a [Step<RecordAction>],
    /// What becomes a tensor.
    pub tensor_of: TensorOf,
    /// Whether there is room for metadata.
    pub keeps_metadata: bool,
    /// Makes temporary files.
    pub spill: &'a Spill,
}

/// What is made of a flow.
#[derive(Default)]
pub(super) struct Spooled {
    pub(super) files: Vec<File>,
    pub(super) tensors: Vec<Placed>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) losses: Vec<Loss>,
}

/// A tensor in one of the files.
pub(super) struct Placed {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<u64>,
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// Reads all records of a source, through the steps on records.
///
/// # Errors
/// Usage: options that the reader does not have, columns that become tensors of one name; whatever is wrong
/// with the records; i/o.
pub fn read(
    source: &FileSource,
    format: &RegisteredFormat,
    how: RecordsAsTensors<'_>,
    context: &ReadContext<'_>,
    session: &Session,
) -> Result<Input> {
    let rows = rows::open(source, format, how.options, context)?;
    let mut spooled = spool(&rows, how, session)?;
    spooled.losses.splice(0..0, rows.losses()?);
    let source = rows.source.clone();
    rows.close()?;
    let catalog = catalog(spooled, &source, &format.description.id, context)?;
    Ok(Input::of_records(source, format, catalog))
}

fn spool(rows: &Rows<'_>, how: RecordsAsTensors<'_>, session: &Session) -> Result<Spooled> {
    std::thread::scope(|scope| {
        let mut flow = steps::make(scope, Origin::Rows(rows), how.steps, session)?;
        match how.tensor_of {
            TensorOf::Column { splits_strings } => of_columns(&mut *flow, splits_strings, how, session),
            TensorOf::Record => whole::tensors(&mut *flow, how.spill, session),
        }
    })
}

/// A tensor for each column, or several.
fn of_columns(
    flow: &mut dyn Flow,
    splits_strings: bool,
    how: RecordsAsTensors<'_>,
    session: &Session,
) -> Result<Spooled> {
    let schema = flow.schema();
    let (chains, mut losses) = chain::chains(&schema, splits_strings);
    let spools = Spools::new(how.spill, chains.iter().map(Column::spools_of).sum(), session);
    let mut columns: Vec<Column<'_>> =
        chains.iter().map(|chain| Column::new(chain, &spools)).collect::<Result<_>>()?;
    while let Some(batch) = flow.next()? {
        session.check_cancelled()?;
        for (chain, column) in chains.iter().zip(&mut columns) {
            column.push(batch.column(chain.field)).map_err(|error| error.column(&chain.name))?;
        }
    }
    let (mut files, mut tensors) = (Vec::new(), Vec::new());
    for column in columns {
        for Tensor { name, dtype, shape, file, len } in column.finish()? {
            tensors.push(Placed { name, dtype, shape, file: files.len(), offset: 0, len });
            files.push(file);
        }
    }
    check_names(&tensors)?;
    let mut metadata = BTreeMap::new();
    if how.keeps_metadata {
        metadata.extend(schema.metadata().iter().map(|(key, value)| (key.clone(), value.clone())));
        metadata.retain(|key, _| !key.starts_with("ferry."));
        metadata.insert(KEY.to_owned(), kept(&schema, &chains).text()?);
    } else {
        losses.extend(chains.iter().filter(|chain| leaf::is_more_than_its_dtype(&chain.leaf)).map(forgotten));
    }
    Ok(Spooled { files, tensors, metadata, losses })
}

fn forgotten(chain: &Chain) -> Loss {
    let why = format!("the target has no place for its type, {}", chain.leaf);
    Loss::new(LossKind::Metadata, chain.name.clone(), why)
}

fn kept(schema: &SchemaRef, chains: &[Chain]) -> Columns {
    let column = |chain: &Chain| {
        let field = schema.field(chain.field);
        columns::Column {
            name: chain.name.clone(),
            data_type: chain.leaf.to_string(),
            nullable: field.is_nullable(),
            shape: chain.shape(),
            metadata: columns::hints(field.metadata()),
        }
    };
    Columns { metadata: columns::hints(schema.metadata()), columns: chains.iter().map(column).collect() }
}

fn check_names(tensors: &[Placed]) -> Result<()> {
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<&str> =
        tensors.iter().map(|tensor| tensor.name.as_str()).filter(|name| !seen.insert(*name)).collect();
    if twice.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = twice.iter().map(|name| format!("{name:?}")).collect();
    Err(Error::usage("two columns make tensors of one name: map:rename gives one of them another")
        .found(names.join(", ")))
}

/// The catalog over spools, which the source takes in.
fn catalog(
    spooled: Spooled,
    source: &FileSource,
    format: &str,
    context: &ReadContext<'_>,
) -> Result<Catalog> {
    let files: Vec<FileId> = spooled
        .files
        .into_iter()
        .map(|file| source.adopt("(what was made of the records)", file))
        .collect::<Result<_>>()?;
    let mut builder = CatalogBuilder::new(format, source, context.limits());
    for Placed { name, dtype, shape, file, offset, len } in spooled.tensors {
        let storage = builder.storage(Storage::file(files[file], offset, len))?;
        builder.tensor(&name, dtype, &shape, storage, 0)?;
    }
    for (key, value) in spooled.metadata {
        builder.metadata(&key, &value)?;
    }
    spooled.losses.into_iter().try_for_each(|loss| builder.loss(loss))?;
    builder.finish()
}
