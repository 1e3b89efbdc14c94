//! The step `map` selects or drops columns of all records, or changes the names, types or shapes of
//! columns.

use super::{Pushdown, RecordAction, RecordStep, Upstream};
use crate::cast::{cast, fraction};
use crate::flow::{self, Flow};
use crate::lists::{leaf_type, lists};
use crate::nested;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use std::sync::Arc;
use tensorferry_sdk::records::{FieldPath, Projection, type_named, type_text};
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};
use tensorferry_tensors::steps::signature::{ArgumentSpec, CheckedSpec, Key, Signature};

pub(super) static MAP: Signature = Signature {
    name: "map",
    summary: "select, drop, rename, cast or reshape columns",
    details: "map:select and map:drop take columns=, a list of names separated by spaces; put names with spaces\n\
              in double quotes. select also takes fields of structs (person.name). map:rename takes one column\n\
              and to=NAME. map:cast takes columns= and to=TYPE (int8 to int64, uint8 to uint64, float16, float32,\n\
              float64, bool, utf8, binary); a value that does not fit, or a fraction that would be cut off, is an\n\
              error. map:reshape takes columns= and shape=, which must have as many values as each record.",
    argument: ArgumentSpec::Required("select|drop|rename|cast|reshape", "what to do"),
    keys: &[
        Key::some("columns", "NAMES", "names of columns (repeatable)"),
        Key::optional("to", "NAME|TYPE", "new name or type, for rename and cast"),
        Key::optional("shape", "NxN", "of reshape"),
    ],
    selects: false,
    examples: &[
        "map:select,columns=image label",
        "map:rename,columns=x,to=image",
        "map:cast,columns=label,to=int32",
        "map:reshape,columns=image,shape=28x28",
    ],
};

#[derive(Debug)]
enum ColumnChange {
    Select,
    Drop,
    Rename(String),
    Cast(DataType),
    Reshape(Vec<i32>),
}

#[derive(Debug)]
struct Map {
    columns: Vec<String>,
    change: ColumnChange,
}

pub(super) fn map(spec: &CheckedSpec<'_>) -> Result<RecordAction> {
    let what = spec.required_argument()?;
    let columns: Vec<Vec<String>> =
        spec.all("columns").map(|field| names(&field.text)).collect::<Result<_>>()?;
    let columns = columns.concat();
    let change = match what.text.as_str() {
        "select" => ColumnChange::Select,
        "drop" => ColumnChange::Drop,
        "rename" if columns.len() != 1 => return Err(what.error("rename takes exactly one column")),
        "rename" => ColumnChange::Rename(spec.required("to")?.text.clone()),
        "cast" => ColumnChange::Cast(data_type(&spec.required("to")?.text)?),
        "reshape" => {
            let shape = spec.required("shape")?;
            let dims = shape.numbers()?.into_iter().map(i32::try_from).collect::<Result<Vec<_>, _>>();
            ColumnChange::Reshape(dims.map_err(|_| shape.error("a dimension is larger than 2^31"))?)
        }
        other => {
            return Err(
                what.error(format!("expected select, drop, rename, cast or reshape, found {other:?}"))
            );
        }
    };
    Ok(Box::new(Map { columns, change }))
}

/// Parses a list of names that are separated by spaces. A name that contains spaces must be in
/// double quotes.
fn names(text: &str) -> Result<Vec<String>> {
    let (mut names, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let without_end = || Error::usage("missing closing \"").found(rest);
                quoted.split_once('"').ok_or_else(without_end)?
            }
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        names.push(name.to_owned());
        rest = after.trim_start();
    }
    Ok(names)
}

fn data_type(word: &str) -> Result<DataType> {
    let is_value = |of: &DataType| {
        of.is_integer()
            || of.is_floating()
            || matches!(of, DataType::Boolean | DataType::Utf8 | DataType::Binary)
    };
    let unknown =
        || Error::usage(format!("unknown type {word:?}")).hint("run `ferry steps map` to list the types");
    type_named(word).filter(is_value).ok_or_else(unknown)
}

impl RecordStep for Map {
    fn apply<'a>(&'a self, upstream: Upstream<'a>) -> Result<Box<dyn Flow + 'a>> {
        let mut flow = upstream.flow()?;
        if let ColumnChange::Select = self.change {
            let selection = self.selection(&flow.schema())?;
            return Ok(flow::from_fn(selection.schema(), move || {
                flow.next()?.map(|batch| selection.batch(&batch)).transpose()
            }));
        }
        let schema = Arc::new(self.changed_schema(&flow.schema())?);
        Ok(flow::from_fn(schema.clone(), move || {
            flow.next()?.map(|batch| self.changed(&batch, &schema)).transpose()
        }))
    }

    fn schema(&self, upstream: &SchemaRef) -> Result<SchemaRef> {
        match self.change {
            ColumnChange::Select => Ok(self.selection(upstream)?.schema()),
            _ => self.changed_schema(upstream).map(Arc::new),
        }
    }

    fn is_row_wise(&self) -> bool {
        true
    }

    fn pushdown(&self) -> Pushdown<'_> {
        match self.change {
            ColumnChange::Select => Pushdown::Select(&self.columns),
            ColumnChange::Drop => Pushdown::Drop(&self.columns),
            ColumnChange::Rename(_) | ColumnChange::Cast(_) | ColumnChange::Reshape(_) => Pushdown::KeepsRows,
        }
    }
}

impl Map {
    fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column == name)
    }

    /// Returns the selected columns and fields, in the order of the schema.
    fn selection(&self, before: &Schema) -> Result<Projection> {
        let paths: Vec<FieldPath> =
            self.columns.iter().map(|name| nested::find(before, name)).collect::<Result<_>>()?;
        let selection = Projection::new(before, &paths)?;
        check_names(selection.schema().fields())?;
        Ok(selection)
    }

    fn changed_schema(&self, before: &Schema) -> Result<Schema> {
        if let Some(missing) = self.columns.iter().find(|name| before.field_with_name(name).is_err()) {
            let names: Vec<&str> = before.fields().iter().map(|field| field.name().as_str()).collect();
            return Err(Error::usage("no such column").column(missing).expected(names.join(", ")));
        }
        let mut fields = Vec::new();
        for field in before.fields() {
            let field = field.as_ref().clone();
            match (&self.change, self.has(field.name())) {
                (ColumnChange::Drop, true) => {}
                (ColumnChange::Rename(to), true) => fields.push(field.with_name(to)),
                (ColumnChange::Cast(to), true) => {
                    let to = with_leaf(field.data_type(), to);
                    if !arrow_cast::can_cast_types(field.data_type(), &to) {
                        let error = Error::usage(format!(
                            "{} cannot be cast to {}",
                            type_text(field.data_type()),
                            type_text(&to)
                        ));
                        return Err(error.column(field.name()));
                    }
                    fields.push(field.with_data_type(to));
                }
                (ColumnChange::Reshape(shape), true) => {
                    let data_type = shaped(leaf_type(field.data_type()), shape);
                    fields.push(field.with_data_type(data_type));
                }
                _ => fields.push(field),
            }
        }
        let fields = Fields::from(fields);
        check_names(&fields)?;
        Ok(Schema::new_with_metadata(fields, before.metadata().clone()))
    }

    fn changed(&self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let changed = match (&self.change, self.has(field.name())) {
                (ColumnChange::Drop, true) => continue,
                (ColumnChange::Cast(to), true) => cast_exactly(column, &with_leaf(column.data_type(), to)),
                (ColumnChange::Reshape(shape), true) => reshape(column, shape),
                _ => Ok(column.clone()),
            };
            columns.push(changed.map_err(|e| e.column(field.name()))?);
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(schema.clone(), columns, &rows)
            .map_err(|e| Error::unsupported(format!("the columns do not form a batch: {e}")))
    }
}

/// Casts values. Only casts from floats to narrower floats may lose precision; any other loss is an
/// error.
fn cast_exactly(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if let Some(fraction) = fraction(column, to) {
        let error = Error::unsupported("the cast would drop a fraction");
        return Err(error.expected(format!("whole numbers, for {}", type_text(to))).found(fraction));
    }
    cast(column, to, true).map_err(|e| Error::unsupported(format!("the value cannot be cast: {e}")))
}

/// Checks that there is at least one column, and that column names are unique.
fn check_names(fields: &Fields) -> Result<()> {
    let mut names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::usage("two columns would have the same name").column(twice[0]));
    }
    if fields.is_empty() {
        return Err(Error::usage("no column would remain"));
    }
    Ok(())
}

/// Returns `data_type` with the type inside all lists replaced by `to`.
fn with_leaf(data_type: &DataType, to: &DataType) -> DataType {
    let item = |field: &Field| Arc::new(field.clone().with_data_type(with_leaf(field.data_type(), to)));
    match data_type {
        DataType::List(field) => DataType::List(item(field)),
        DataType::LargeList(field) => DataType::LargeList(item(field)),
        DataType::FixedSizeList(field, len) => DataType::FixedSizeList(item(field), *len),
        _ => to.clone(),
    }
}

fn shaped(values: &DataType, shape: &[i32]) -> DataType {
    shape.iter().rev().fold(values.clone(), |inner, &dim| {
        DataType::FixedSizeList(Arc::new(Field::new("item", inner, true)), dim)
    })
}

/// Changes the shape of the values in each row. The number of values remains the same.
fn reshape(column: &ArrayRef, shape: &[i32]) -> Result<ArrayRef> {
    let wrong = |found: String| {
        let expected = shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
        Err(Error::malformed("the number of values in a record does not match the shape")
            .expected(expected)
            .found(found))
    };
    if column.null_count() > 0 {
        return wrong("a missing value".to_owned());
    }
    let mut values = column.clone();
    let mut per_row = 1;
    while let Some((begins, items)) = lists(&values) {
        let mut lens = begins.windows(2).map(|pair| pair[1] - pair[0]);
        let len = lens.next().unwrap_or(0);
        if let Some(other) = lens.find(|&other| other != len) {
            return wrong(format!("{len} values, then {other}"));
        }
        per_row *= len as u64;
        values = items.slice(begins[0], begins[values.len()] - begins[0]);
    }
    let wanted: u64 = shape.iter().map(|&dim| u64::try_from(dim).unwrap_or(0)).product();
    if per_row != wanted && !column.is_empty() {
        return wrong(format!("{per_row} values"));
    }
    // The number of lists at each level is passed explicitly, because it cannot be derived if the
    // lists are empty.
    let mut lens: Vec<usize> = shape
        .iter()
        .scan(column.len(), |len, &dim| {
            let outer = *len;
            *len *= usize::try_from(dim).unwrap_or(0);
            Some(outer)
        })
        .collect();
    let mut made = values;
    for &dim in shape.iter().rev() {
        let item = Arc::new(Field::new("item", made.data_type().clone(), true));
        let len = lens.pop().unwrap_or(0);
        let list = FixedSizeListArray::try_new_with_length(item, dim, made, None, len);
        made = Arc::new(list.map_err(|e| Error::unsupported(e.to_string()))?);
    }
    Ok(made)
}
