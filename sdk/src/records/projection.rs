//! A projection takes fields out of columns: those below structs too.

use super::Batched;
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchOptions, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A field of a schema: the place of a column, then the places of fields within structs.
pub type FieldPath = Vec<usize>;

/// The fields of a schema that are wanted, as a tree.
#[derive(Debug, Clone)]
pub struct Projection {
    wanted: Wanted,
    schema: SchemaRef,
}

/// What is wanted of some fields, by their places: all of one where its own tree is empty.
#[derive(Debug, Clone, Default)]
struct Wanted(BTreeMap<usize, Wanted>);

impl Wanted {
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
                return Err(Error::plugin("a path through what is no struct").column(field.name()));
            };
            let children = DataType::Struct(inner.fields(children)?);
            Ok(Arc::new(Field::clone(field).with_data_type(children)))
        };
        self.0.iter().map(of).collect()
    }

    /// The fields of a struct of which some are wanted, all if none is named.
    fn array(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if self.0.is_empty() {
            return Ok(array.clone());
        }
        let Some(whole) = array.as_struct_opt() else {
            return Err(ArrowError::SchemaError("a path through what is no struct".to_owned()));
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
    /// These fields of a schema. The order of the paths is of no matter, and a path that begins another takes all of it.
    ///
    /// # Errors
    /// A plugin error, for a path that leads nowhere.
    pub fn new(schema: &Schema, paths: &[FieldPath]) -> Result<Self> {
        let mut wanted = Wanted::default();
        for path in paths {
            if path.is_empty() {
                return Err(Error::plugin("a path of no field"));
            }
            wanted.add(path);
        }
        let fields = wanted.fields(schema.fields())?;
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        Ok(Self { wanted, schema })
    }

    /// The schema of what is wanted.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// What is wanted of a batch that has all columns.
    ///
    /// # Errors
    /// A plugin error, if the batch is of another schema.
    pub fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.wanted.0.keys().map(|&place| batch.columns().get(place));
        let columns = columns.collect::<Option<Vec<_>>>().ok_or_else(|| Error::plugin("no such column"))?;
        self.of(&columns, batch.num_rows()).map_err(|error| Error::plugin(error.to_string()))
    }

    /// What is wanted of a stream that has whole columns: those that are wanted in part, and no other.
    ///
    /// # Errors
    /// A plugin error, if the stream has others.
    pub fn of_whole_columns(self, stream: Batched) -> Result<Batched> {
        if stream.schema().fields().len() != self.wanted.0.len() {
            return Err(Error::plugin("a stream of other columns than were asked for"));
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
