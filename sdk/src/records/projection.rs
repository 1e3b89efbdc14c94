//! A projection selects columns and struct fields.

use super::BatchStream;
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchOptions, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The path of a field in a schema: the index of a column, followed by the indices of fields within
/// structs.
pub type FieldPath = Vec<usize>;

/// The selected fields of a schema, as a tree.
#[derive(Debug, Clone)]
pub struct Projection {
    wanted: FieldTree,
    schema: SchemaRef,
}

/// The selected fields, by index. An empty subtree selects the whole field.
#[derive(Debug, Clone, Default)]
struct FieldTree(BTreeMap<usize, FieldTree>);

impl FieldTree {
    fn add(&mut self, path: &[usize]) {
        if let Some((&first, rest)) = path.split_first() {
            let is_whole = self.0.get(&first).is_some_and(|inner| inner.0.is_empty());
            let inner = self.0.entry(first).or_default();
            if rest.is_empty() {
                *inner = Self::default();
            } else if !is_whole {
                inner.add(rest);
            }
        }
    }

    fn fields(&self, all: &Fields) -> Result<Fields> {
        let of = |(&place, inner): (&usize, &Self)| -> Result<FieldRef> {
            let field = all.get(place).ok_or_else(|| Error::plugin("no such column").found(place))?;
            if inner.0.is_empty() {
                return Ok(field.clone());
            }
            let DataType::Struct(children) = field.data_type() else {
                return Err(
                    Error::plugin("a field path enters a field that is not a struct").column(field.name())
                );
            };
            let children = DataType::Struct(inner.fields(children)?);
            Ok(Arc::new(Field::clone(field).with_data_type(children)))
        };
        self.0.iter().map(of).collect()
    }

    /// Returns the selected fields of a struct. If the tree does not select individual fields,
    /// returns the whole array.
    fn array(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if self.0.is_empty() {
            return Ok(array.clone());
        }
        let Some(whole) = array.as_struct_opt() else {
            return Err(ArrowError::SchemaError(
                "a field path enters a field that is not a struct".to_owned(),
            ));
        };
        let mut fields = Vec::new();
        let mut children = Vec::new();
        for (&place, inner) in &self.0 {
            let (Some(field), Some(child)) = (whole.fields().get(place), whole.columns().get(place)) else {
                return Err(ArrowError::SchemaError("no such field".to_owned()));
            };
            let child = inner.array(child)?;
            fields.push(Arc::new(Field::clone(field).with_data_type(child.data_type().clone())));
            children.push(child);
        }
        let nulls = whole.nulls().cloned();
        Ok(Arc::new(StructArray::try_new(fields.into(), children, nulls)?))
    }
}

impl Projection {
    /// Creates a projection to the fields at these paths. The order of the paths does not matter.
    /// If one path is a prefix of another, the projection contains the whole field at the shorter
    /// path.
    ///
    /// # Errors
    /// Returns a plugin error if a path does not lead to a field.
    pub fn new(schema: &Schema, paths: &[FieldPath]) -> Result<Self> {
        let mut wanted = FieldTree::default();
        for path in paths {
            if path.is_empty() {
                return Err(Error::plugin("a field path is empty"));
            }
            wanted.add(path);
        }
        let fields = wanted.fields(schema.fields())?;
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        Ok(Self { wanted, schema })
    }

    /// Returns the schema of the selected fields.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns the selected fields of a batch that contains all columns.
    ///
    /// # Errors
    /// Returns a plugin error if the batch has a different schema.
    pub fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.wanted.0.keys().map(|&place| batch.columns().get(place));
        let columns = columns.collect::<Option<Vec<_>>>().ok_or_else(|| Error::plugin("no such column"))?;
        self.of(&columns, batch.num_rows()).map_err(|error| Error::plugin(error.to_string()))
    }

    /// Returns the selected fields of a stream. The stream must contain exactly the columns in
    /// which fields are selected.
    ///
    /// # Errors
    /// Returns a plugin error if the stream has different columns.
    pub fn of_whole_columns(self, stream: BatchStream) -> Result<BatchStream> {
        if stream.schema().fields().len() != self.wanted.0.len() {
            return Err(Error::plugin("a stream has columns that were not requested"));
        }
        let schema = self.schema();
        let project =
            move |batch: RecordBatch| self.of(&batch.columns().iter().collect::<Vec<_>>(), batch.num_rows());
        Ok(Box::new(RecordBatchIterator::new(stream.map(move |batch| batch.and_then(&project)), schema)))
    }

    fn of(&self, columns: &[&ArrayRef], rows: usize) -> Result<RecordBatch, ArrowError> {
        let arrays = self.wanted.0.values().zip(columns).map(|(wanted, column)| wanted.array(column));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays.collect::<Result<_, _>>()?, &options)
    }
}
