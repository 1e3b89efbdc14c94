//! Converts records to an input of tensors. The records are read once and spooled to temporary
//! files.

use super::column_metadata::{ColumnMetadata, ColumnsMetadata, KEY, hints};
use super::column_path::{ColumnPath, column_paths};
use super::column_spooler::ColumnSpooler;
use super::crossing::TensorOf;
use super::spool::{Spooled, SpooledTensor, Spools};
use super::{record_tensors, value_types};
use crate::flow::Flow;
use crate::rows::{self, Rows};
use crate::steps::{self, Origin, RecordAction};
use arrow_schema::SchemaRef;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::input::TensorInput;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::{
    Catalog, CatalogBuilder, CatalogSink, Context, Dtype, Error, FileId, Loss, LossKind, LossSink, Result,
    Severity, Storage, arrow_schema,
};
use tensorferry_tensors::steps::Step;
use tensorferry_tensors::stored::Spill;

/// The settings for a conversion of records to tensors.
#[derive(Clone, Copy)]
pub struct RecordsAsTensors<'a> {
    /// The options for the input format.
    pub options: &'a [(String, String)],
    /// The steps on records before the conversion.
    pub steps: &'a [Step<RecordAction>],
    /// The content of each tensor.
    pub tensor_of: TensorOf,
    /// Whether the target format can store metadata.
    pub keeps_metadata: bool,
    /// Creates temporary files.
    pub spill: &'a Spill,
    /// Whether an input without records is allowed.
    pub may_be_empty: bool,
}

/// The tensors to which a flow of records was converted.
struct SpooledCatalog {
    files: Vec<File>,
    tensors: Vec<SpooledTensor>,
    metadata: BTreeMap<String, String>,
    losses: Vec<Loss>,
}

/// Reads all records of a source and applies the steps on records.
pub fn read(
    source: &FileSource,
    format: &RegisteredFormat,
    how: RecordsAsTensors<'_>,
    context: &ReadContext<'_>,
    session: &Session,
) -> Result<TensorInput> {
    let rows = rows::open(source, format, how.options, context)?;
    let mut spooled = spool(&rows, how, session)?;
    spooled.losses.splice(0..0, rows.losses()?);
    if !how.may_be_empty && spooled.tensors.iter().all(|tensor| tensor.bytes.len == 0) {
        rows.check_any()?;
    }
    let source = rows.source.clone();
    rows.close()?;
    let catalog = catalog(spooled, &source, &format.description.id, context)?;
    Ok(TensorInput::of_records(source, format, catalog))
}

fn spool(rows: &Rows<'_>, how: RecordsAsTensors<'_>, session: &Session) -> Result<SpooledCatalog> {
    std::thread::scope(|scope| {
        let mut flow = steps::make(scope, Origin::Rows(rows), how.steps, session)?;
        match how.tensor_of {
            TensorOf::Column { splits_strings } => of_columns(&mut *flow, splits_strings, how, session),
            TensorOf::Record => {
                let (files, tensors) = record_tensors::tensors(&mut *flow, how.spill, session)?;
                Ok(SpooledCatalog { files, tensors, metadata: BTreeMap::new(), losses: Vec::new() })
            }
        }
    })
}

/// Converts each column to one or more tensors.
fn of_columns(
    flow: &mut dyn Flow,
    splits_strings: bool,
    how: RecordsAsTensors<'_>,
    session: &Session,
) -> Result<SpooledCatalog> {
    let schema = flow.schema();
    let (paths, mut losses) = column_paths(&schema, splits_strings);
    let spools = Spools::new(how.spill, paths.iter().map(ColumnSpooler::spools_of).sum(), session);
    let mut columns: Vec<ColumnSpooler<'_>> =
        paths.iter().map(|path| ColumnSpooler::new(path, &spools)).collect::<Result<_>>()?;
    while let Some(batch) = flow.next()? {
        session.check_cancelled()?;
        for (path, column) in paths.iter().zip(&mut columns) {
            column.push(batch.column(path.field)).map_err(|error| error.column(&path.name))?;
        }
    }
    let mut tensors = Vec::new();
    let mut owners = Vec::new();
    for (number, column) in columns.into_iter().enumerate() {
        tensors.extend(column.finish()?);
        owners.resize(tensors.len(), number);
    }
    check_names(&tensors)?;
    check_parts(&tensors, &owners)?;
    let mut metadata = BTreeMap::new();
    if how.keeps_metadata {
        metadata.extend(schema.metadata().iter().map(|(key, value)| (key.clone(), value.clone())));
        metadata.retain(|key, _| !key.starts_with("ferry."));
        metadata.insert(KEY.to_owned(), kept(&schema, &paths).text()?);
    } else {
        losses.extend(
            paths.iter().filter(|path| value_types::is_more_than_its_dtype(&path.leaf)).map(forgotten),
        );
        let has_more = |path: &&ColumnPath| {
            schema.field(path.field).metadata().keys().any(|key| !key.starts_with("ferry."))
        };
        let why = "the target has no place for the metadata of columns";
        let lose = |path: &ColumnPath| Loss::new(LossKind::Attribute, path.name.clone(), why);
        losses.extend(paths.iter().filter(has_more).map(lose));
    }
    Ok(SpooledCatalog { files: spools.into_files(), tensors, metadata, losses })
}

fn forgotten(path: &ColumnPath) -> Loss {
    let why = format!("the target has no place for its type, {}", type_text(&path.leaf));
    Loss::new(LossKind::Metadata, path.name.clone(), why).severity(Severity::Changed)
}

fn kept(schema: &SchemaRef, paths: &[ColumnPath]) -> ColumnsMetadata {
    let column = |path: &ColumnPath| {
        let field = schema.field(path.field);
        ColumnMetadata {
            name: path.name.clone(),
            data_type: path.leaf.to_string(),
            nullable: field.is_nullable(),
            shape: path.shape(),
            // The entry stores all of the column's metadata, because tensors cannot store it
            // anywhere else. Converting the tensors back to records restores the metadata.
            metadata: field.metadata().iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        }
    };
    ColumnsMetadata { metadata: hints(schema.metadata()), columns: paths.iter().map(column).collect() }
}

fn check_names(tensors: &[SpooledTensor]) -> Result<()> {
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<&str> =
        tensors.iter().map(|tensor| tensor.name.as_str()).filter(|name| !seen.insert(*name)).collect();
    if twice.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = twice.iter().map(|name| format!("{name:?}")).collect();
    Err(Error::usage("tensors of two columns have the same name")
        .hint("rename one of the columns with --step map:rename")
        .found(names.join(", ")))
}

/// Checks that no column's tensor has a name that denotes a part of another column. Such a tensor
/// would be read back as that part. `owners` contains the column of each tensor.
fn check_parts(tensors: &[SpooledTensor], owners: &[usize]) -> Result<()> {
    let owned: BTreeMap<&str, usize> =
        tensors.iter().map(|tensor| &*tensor.name).zip(owners.iter().copied()).collect();
    for (tensor, owner) in tensors.iter().zip(owners) {
        let of = match tensor.dtype {
            Dtype::BOOL => tensor.name.strip_suffix(".valid").map(str::to_owned),
            Dtype::I32 | Dtype::I64 => {
                tensor.name.strip_suffix(".row_splits").map(|name| format!("{name}.values"))
            }
            _ => None,
        };
        if let Some(of) = of.filter(|of| owned.get(&**of).is_some_and(|other| other != owner)) {
            return Err(Error::usage("a column would be read back as a part of another column")
                .column(&tensor.name)
                .found(format!("{of:?}"))
                .hint("rename one of the columns with --step map:rename"));
        }
    }
    Ok(())
}

/// Creates the catalog of spooled tensors. `source` takes ownership of the files that contain these
/// tensors.
fn catalog(
    spooled: SpooledCatalog,
    source: &FileSource,
    format: &str,
    context: &ReadContext<'_>,
) -> Result<Catalog> {
    let files: Vec<FileId> = spooled
        .files
        .into_iter()
        .map(|file| source.adopt("(tensors of the records)", file))
        .collect::<Result<_>>()?;
    let mut builder = CatalogBuilder::new(format, source, context.limits());
    for SpooledTensor { name, dtype, shape, bytes: Spooled { file, offset, len } } in spooled.tensors {
        let storage = builder.storage(Storage::file(files[file], offset, len))?;
        builder.tensor(&name, dtype, &shape, storage, 0)?;
    }
    for (key, value) in spooled.metadata {
        builder.metadata_text(&key, &value)?;
    }
    spooled.losses.into_iter().try_for_each(|loss| builder.loss(loss))?;
    builder.finish()
}
