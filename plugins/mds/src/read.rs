//! The reader. It first reads the index, and then the table of each shard, which contains the
//! offsets of the samples. Each split is a run of consecutive samples. A compressed shard is a
//! single split.

mod arrays;
mod column;
mod compressed;
mod sample;
mod shard;
mod stream;

use crate::encoding::Encoding;
use crate::index::{Column, Index};
use crate::{ENCODING, INDEX, hash, probe};
use arrays::Form;
use shard::{OpenShard, Part};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use stream::Layout;
use tensorferry_sdk::arrow_schema::{DataType, Field, Schema, SchemaRef};
use tensorferry_sdk::records::{BatchStream, RecordReader, RecordSet, ScanRequest, Split, narrowed};
use tensorferry_sdk::{
    Context, Entry, Error, Limits, Loss, LossKind, LossSink, Purpose, Result, Severity, Source,
};

pub(crate) struct Reader {
    pub(crate) is_verified: bool,
}

impl RecordReader for Reader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let limits = context.limits();
        let (index, folder) = index_of(source.as_ref(), limits)?;
        index.columns.iter().try_for_each(|column| report_losses(column, losses))?;
        if self.is_verified {
            note_unknown_hashes(&index, context);
        }
        let columns: Arc<[Column]> = index.columns.into();
        let (mut shards, mut parts, mut splits) = (Vec::new(), Vec::new(), Vec::new());
        for shard in index.shards {
            context.check_cancelled()?;
            let shard = Arc::new(OpenShard::new(&source, &folder, shard, self.is_verified)?);
            for part in shard.parts(limits)? {
                splits.push(Split {
                    file: shard.file_name().to_owned(),
                    offset: part.offset,
                    bytes: part.bytes,
                    records: Some(part.samples.end - part.samples.start),
                });
                parts.push((shard.clone(), part));
            }
            shards.push(shard);
        }
        let is_guessed = context.purpose().has(Purpose::ONCE);
        let forms = arrays::forms(&columns, &shards, is_guessed, context)?;
        let fields = columns.iter().zip(&forms).map(|(column, form)| field(column, form.as_ref()));
        let schema = Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?));
        let layout = Arc::new(Layout { columns, forms, is_guessed });
        Ok(Box::new(MdsSet { schema, layout, parts, splits, limits: limits.clone() }))
    }
}

/// Reads the index of the input. If the input is a shard, the index is limited to that shard. Also
/// returns the shard folder.
fn index_of(source: &dyn Source, limits: &Limits) -> Result<(Index, String)> {
    let name = match source.entry() {
        Entry::File(name) if probe::is_index(name) => name.clone(),
        Entry::File(name) => Index::sibling_name(name),
        Entry::Folder => INDEX.to_owned(),
        Entry::Prefix(prefix) => {
            return Err(Error::unsupported("an MDS dataset is a folder or its index").file(prefix));
        }
    };
    let folder = name.strip_suffix(INDEX).unwrap_or_default().to_owned();
    let mut index = Index::read(source, &name, limits)?;
    if let Entry::File(shard) = source.entry()
        && *shard != name
    {
        let is_meant = |basename: &str| shard.strip_prefix(&folder) == Some(basename);
        index.shards.retain(|shard| {
            is_meant(&shard.raw.basename)
                || shard.zip.as_ref().is_some_and(|(_, zip)| is_meant(&zip.basename))
        });
        if index.shards.is_empty() {
            return Err(Error::malformed("the index does not list this shard").file(shard));
        }
    }
    Ok((index, folder))
}

/// Reports a column whose values are read only as raw bytes.
fn report_losses(column: &Column, losses: &mut dyn LossSink) -> Result<()> {
    let (why, severity) = match &column.encoding {
        Encoding::Pickle => {
            ("pickles are not opened, so their bytes are copied unchanged", Severity::Changed)
        }
        Encoding::Image("pil" | "list[pil]" | "list[jpeg]" | "list[png]" | "jpeg_array" | "jpegarray") => (
            "images in an MDS container are not decoded, so their bytes are copied unchanged",
            Severity::Note,
        ),
        _ => return Ok(()),
    };
    losses.loss(Loss::new(LossKind::Record, &column.name, why).severity(severity))
}

fn note_unknown_hashes(index: &Index, context: &dyn Context) {
    let files =
        index.shards.iter().flat_map(|shard| [Some(&shard.raw), shard.zip.as_ref().map(|(_, zip)| zip)]);
    let names: BTreeSet<&String> = files.flatten().flat_map(|file| file.hashes.keys()).collect();
    for name in names.into_iter().filter(|name| hash::Hasher::named(name).is_none()) {
        context
            .note(&format!("shards are not checked against their {name:?} hashes, which are not supported"));
    }
}

/// Returns the field of a column.
fn field(column: &Column, form: Option<&Form>) -> Result<Field> {
    let (data_type, is_said) = match (&column.encoding, form) {
        // The writer writes 64-bit integers as `int` by default, so only `int64` needs metadata.
        (Encoding::Number(number), _) => (number.data_type(), column.word != "int64"),
        (Encoding::Text(text), _) => (DataType::Utf8, *text == "str"),
        (Encoding::Array { .. }, Some(form)) => {
            (form.data_type().map_err(|error| error.column(&column.name))?, false)
        }
        (Encoding::Bytes, _) => (DataType::Binary, true),
        _ => (DataType::Binary, false),
    };
    let field = Field::new(&column.name, data_type, false);
    let said = || HashMap::from([(ENCODING.to_owned(), column.word.clone())]);
    Ok(if is_said { field } else { field.with_metadata(said()) })
}

struct MdsSet {
    schema: SchemaRef,
    layout: Arc<Layout>,
    /// The shard and the range of samples of each split.
    parts: Vec<(Arc<OpenShard>, Part)>,
    splits: Vec<Split>,
    limits: Limits,
}

impl RecordSet for MdsSet {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// In an uncompressed shard, does not read the samples before the first requested sample.
    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let (shard, part) =
            self.parts.get(split).ok_or_else(|| Error::plugin(format!("no split {split}")))?;
        let rows = stream::open(shard, part, &self.schema, &self.layout, scan, &self.limits)?;
        narrowed(rows, &self.schema, &ScanRequest { first_row: 0, limit: None, ..scan.clone() })
    }
}
