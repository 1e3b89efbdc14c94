//! The writer. The header is at the start of a file, and each piece is a sequence of rows.

use crate::MAGIC;
use crate::column::Column;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{Float32Type, Int64Type};
use tensorferry_sdk::arrow_array::{Array, ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::{DataType, SchemaRef};
use tensorferry_sdk::records::{Group, RecordPlan, RecordWriter, ShardFiles, Sharding, WrittenFile};
use tensorferry_sdk::{ByteSink, Context, Error, Loss, LossKind, LossSink, Result, Target};

pub(crate) struct Writer {
    pub(crate) piece: usize,
    pub(crate) has_index: bool,
    pub(crate) sharding: Sharding,
}

impl RecordWriter for Writer {
    fn plan(
        &self,
        schema: &SchemaRef,
        _rows: Option<u64>,
        target: &Target,
        losses: &mut dyn LossSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        let mut columns = Vec::new();
        for (place, field) in schema.fields().iter().enumerate() {
            match Column::of(field) {
                Some(column) if u16::try_from(column.name.len()).is_err() => {
                    return Err(Error::unsupported("the name is too long").column(column.name));
                }
                Some(column) if columns.iter().any(|(_, other): &(_, Column)| other.name == column.name) => {
                    return Err(Error::unsupported("two columns have this name").column(column.name));
                }
                Some(column) => columns.push((place, column)),
                None => {
                    let why = format!("a file of rows cannot hold {}", field.data_type());
                    losses.loss(Loss::new(LossKind::Record, field.name(), why))?;
                }
            }
        }
        if u16::try_from(columns.len()).is_err() || (columns.is_empty() && !schema.fields().is_empty()) {
            return Err(Error::unsupported("no column that a file of rows can hold, or too many"));
        }
        let file = match target {
            Target::File(name) => name.clone(),
            Target::Folder => "data.rows".to_owned(),
        };
        let stem = file.strip_suffix(".rows").unwrap_or(&file);
        let files = ShardFiles::new(self.sharding, &file, stem, ".rows");
        let index = self.has_index.then(|| format!("{stem}.index.json"));
        let sealed = index.into_iter().collect();
        Ok(Box::new(Plan { files, sealed, piece: self.piece, columns }))
    }
}

struct Plan {
    files: ShardFiles,
    /// The entries of the index, if there is one.
    sealed: Vec<String>,
    piece: usize,
    /// The columns, with their positions in the batches.
    columns: Vec<(usize, Column)>,
}

impl RecordPlan for Plan {
    fn shard_files(&self) -> Option<&ShardFiles> {
        Some(&self.files)
    }

    fn group(&self) -> Group {
        self.files.group(Group { rows: self.piece, ..Group::default() })
    }

    fn begin(&self, _file: usize, output: &mut dyn ByteSink) -> Result<()> {
        output.write(MAGIC)?;
        output.write(&u16::try_from(self.columns.len()).unwrap_or(u16::MAX).to_le_bytes())?;
        for (_, column) in &self.columns {
            output.write(&[column.code()])?;
            output.write(&u16::try_from(column.name.len()).unwrap_or(u16::MAX).to_le_bytes())?;
            output.write(column.name.as_bytes())?;
        }
        Ok(())
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let mut nulls = vec![0_u64; self.columns.len()];
        let mut bytes = Vec::new();
        for batch in batches {
            for row in 0..batch.num_rows() {
                let start = bytes.len();
                bytes.extend([0; 4]);
                for ((place, column), nulls) in self.columns.iter().zip(&mut nulls) {
                    *nulls += push(&mut bytes, batch.column(*place), row)
                        .map_err(|error| error.column(&column.name))?;
                }
                let len = len(bytes.len() - start - 4)?;
                bytes[start..start + 4].copy_from_slice(&len);
            }
        }
        output.write(&bytes)?;
        for ((_, column), nulls) in self.columns.iter().zip(nulls).filter(|(_, nulls)| *nulls > 0) {
            let why = format!("{nulls} nulls in lists are left out");
            losses.loss(Loss::new(LossKind::Record, &column.name, why))?;
        }
        Ok(Vec::new())
    }

    fn sealed(&self) -> &[String] {
        &self.sealed
    }

    fn seal(&self, _sealed: usize, files: &[WrittenFile], output: &mut dyn ByteSink) -> Result<()> {
        let shard = |file: &WrittenFile| {
            let (name, bytes, rows) = (quoted(&file.name), file.bytes, file.rows());
            format!("{{\"basename\": {name}, \"bytes\": {bytes}, \"samples\": {rows}}}")
        };
        let shards: Vec<String> = files.iter().map(shard).collect();
        output.write(format!("{{\"version\": 1, \"shards\": [{}]}}\n", shards.join(", ")).as_bytes())
    }
}

/// Returns a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for sign in text.chars() {
        match sign {
            '"' | '\\' => quoted.extend(['\\', sign]),
            '\0'..='\x1f' => quoted.push_str(&format!("\\u{:04x}", u32::from(sign))),
            _ => quoted.push(sign),
        }
    }
    quoted + "\""
}

/// Appends a value. Returns the number of nulls in the value that were left out.
fn push(bytes: &mut Vec<u8>, column: &ArrayRef, row: usize) -> Result<u64> {
    if column.is_null(row) {
        bytes.push(0);
        return Ok(0);
    }
    bytes.push(1);
    if !matches!(column.data_type(), DataType::List(_)) {
        value(bytes, column, row)?;
        return Ok(0);
    }
    let list = column.as_list::<i32>().value(row);
    let nulls = list.null_count();
    bytes.extend(len(list.len() - nulls)?);
    for place in (0..list.len()).filter(|&place| list.is_valid(place)) {
        value(bytes, &list, place)?;
    }
    Ok(nulls as u64)
}

fn value(bytes: &mut Vec<u8>, column: &ArrayRef, row: usize) -> Result<()> {
    match column.data_type() {
        DataType::Int64 => bytes.extend(column.as_primitive::<Int64Type>().value(row).to_le_bytes()),
        DataType::Float32 => bytes.extend(column.as_primitive::<Float32Type>().value(row).to_le_bytes()),
        _ => {
            let value = column.as_binary::<i32>().value(row);
            bytes.extend(len(value.len())?);
            bytes.extend(value);
        }
    }
    Ok(())
}

fn len(len: usize) -> Result<[u8; 4]> {
    u32::try_from(len).map(u32::to_le_bytes).map_err(|_| Error::unsupported("a row of more than 4 GiB"))
}
