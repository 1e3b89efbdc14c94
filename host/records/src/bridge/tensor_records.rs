//! Converts each tensor to a record that contains the tensor's name, dtype, shape, and data.

use crate::flow::{BATCH_BYTES, Flow, from_fn};
use crate::steps::FlowSource;
use arrow_array::builder::{BinaryBuilder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use tensorferry_sdk::{CatalogView, Context, Error, Result, TensorId, arrow_array, arrow_schema};
use tensorferry_tensors::logical::Logical;

/// Name of the column that contains the tensors' names.
pub const NAME: &str = "name";
/// Name of the column that contains the tensors' dtypes.
pub const DTYPE: &str = "dtype";
/// Name of the column that contains the tensors' shapes.
pub const SHAPE: &str = "shape";
/// Name of the column that contains the tensors' bytes.
pub const DATA: &str = "data";

/// Tensors, each of which becomes one record.
pub(crate) struct TensorRecords<'a> {
    logical: &'a Logical<'a>,
    schema: SchemaRef,
}

impl<'a> TensorRecords<'a> {
    /// Creates the records of a catalog's tensors.
    pub(crate) fn new(logical: &'a Logical<'a>) -> Result<Self> {
        let most = (logical.stored().session().memory / 4).min(i32::MAX as u64);
        for tensor in logical.catalog().tensors() {
            if tensor.dtype.info().is_none() {
                let error = Error::unsupported("the dtype exists only in the input's format");
                return Err(error.tensor(&tensor.name));
            }
            if tensor.bytes > most {
                return Err(Error::limit("the tensor is too large for a record")
                    .tensor(&tensor.name)
                    .hint("raise --memory: a record may take a quarter of it")
                    .expected(format!("at most {most} bytes"))
                    .found(tensor.bytes));
            }
        }
        let item = Field::new_list_field(DataType::Int64, true);
        let fields = vec![
            Field::new(NAME, DataType::Utf8, false),
            Field::new(DTYPE, DataType::Utf8, false),
            Field::new(SHAPE, DataType::List(Arc::new(item)), false),
            Field::new(DATA, DataType::Binary, false),
        ];
        Ok(Self { logical, schema: Arc::new(Schema::new(fields)) })
    }

    /// Returns the number of records.
    pub(crate) fn records(&self) -> u64 {
        u64::from(self.logical.tensor_count())
    }
}

impl FlowSource for TensorRecords<'_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn flow<'a>(&'a self) -> Result<Box<dyn Flow + 'a>> {
        let mut next = 0;
        Ok(from_fn(self.schema.clone(), move || self.batch(&mut next)))
    }
}

impl TensorRecords<'_> {
    /// Returns the batch of records that starts with tensor `next`.
    fn batch(&self, next: &mut u32) -> Result<Option<RecordBatch>> {
        let logical = self.logical;
        let (mut names, mut dtypes) = (StringBuilder::new(), StringBuilder::new());
        let item = Field::new_list_field(DataType::Int64, true);
        let mut shapes = ListBuilder::new(Int64Builder::new()).with_field(item);
        let mut data = BinaryBuilder::new();
        let mut held = 0;
        let begin = *next;
        while *next < logical.tensor_count() {
            let id = TensorId(*next);
            let tensor = logical.tensor(id);
            if *next > begin && held + tensor.bytes > BATCH_BYTES {
                break;
            }
            logical.stored().session().check_cancelled()?;
            let mut bytes = vec![0; usize::try_from(tensor.bytes).unwrap_or(usize::MAX)];
            logical.read(id, 0, &mut bytes)?;
            names.append_value(tensor.name);
            dtypes.append_value(logical.dtype_info(tensor.dtype)?.name());
            for &dim in tensor.shape {
                let dim = i64::try_from(dim)
                    .map_err(|_| Error::unsupported("a dimension is larger than 2^63").tensor(tensor.name))?;
                shapes.values().append_value(dim);
            }
            shapes.append(true);
            data.append_value(&bytes);
            held += tensor.bytes;
            *next += 1;
        }
        if *next == begin {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(names.finish()),
            Arc::new(dtypes.finish()),
            Arc::new(shapes.finish()),
            Arc::new(data.finish()),
        ];
        let made = RecordBatch::try_new(self.schema.clone(), columns);
        made.map(Some).map_err(|error| Error::plugin(error.to_string()))
    }
}
