//! Checks schemas and arrays of the C interface before arrow-rs relies on them. Some properties
//! cannot be checked, such as the length of a buffer. For these properties, the sender must be
//! trusted.
#![allow(unsafe_code, reason = "the C data interface requires unsafe code")]

use crate::{Error, Result};
use arrow_array::{Array, new_empty_array};
use arrow_schema::DataType;
use std::ffi::CStr;
use tensorferry_abi::{ArrowArray, ArrowSchema};

/// Maximum nesting depth of a schema.
const MAX_DEPTH: usize = 256;

pub(super) fn wrong(what: &str) -> Error {
    Error::plugin(format!("invalid Arrow C data: {what}"))
}

/// Checks all properties of a schema that could make arrow-rs panic.
pub(super) fn check_schema(schema: &ArrowSchema) -> Result<()> {
    check_field(schema, 0)
}

fn check_field(field: &ArrowSchema, depth: usize) -> Result<()> {
    if field.release.is_none() {
        return Err(Error::plugin("the schema was already released"));
    }
    if depth > MAX_DEPTH {
        return Err(wrong("the schema is nested too deeply"));
    }
    for (text, what) in [(field.format, "format"), (field.name, "name")] {
        // SAFETY: the string is not null, and ends with a zero byte, as the interface requires.
        if !text.is_null() && unsafe { CStr::from_ptr(text) }.to_str().is_err() {
            return Err(wrong(&format!("the {what} of a column is not UTF-8")));
        }
    }
    if field.format.is_null() {
        return Err(wrong("a column has no format"));
    }
    for child in children(field.n_children, field.children)? {
        check_field(child, depth + 1)?;
    }
    // SAFETY: the pointer is null, or points to a schema that lives as long as this schema.
    unsafe { field.dictionary.as_ref() }.map_or(Ok(()), |values| check_field(values, depth + 1))
}

/// Returns the children of a structure. The children live as long as the structure.
fn children<'a, T>(count: i64, children: *mut *mut T) -> Result<Vec<&'a T>> {
    let count = usize::try_from(count).map_err(|_| wrong("the number of children is negative"))?;
    if count > 0 && (children.is_null() || !children.is_aligned()) {
        return Err(wrong("the list of children is null"));
    }
    let child = |index| {
        // SAFETY: the array contains `count` pointers. Each pointer is null, or points to a
        // structure that lives as long as its parent.
        unsafe { (*children.add(index)).as_ref() }.ok_or_else(|| wrong("a child is null"))
    };
    (0..count).map(child).collect()
}

/// The buffers and children that an array of a type must have.
pub(super) struct Shape {
    buffers: i64,
    children: Vec<Shape>,
    dictionary: Option<Box<Shape>>,
    /// Number of child rows per parent row, if that number is fixed.
    rows_of_child: Option<i64>,
}

impl Shape {
    pub(super) fn of(data_type: &DataType) -> Self {
        let has_validity =
            !matches!(data_type, DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..));
        let empty = new_empty_array(data_type).to_data();
        let dictionary = match data_type {
            DataType::Dictionary(_, values) => Some(Box::new(Self::of(values))),
            _ => None,
        };
        let children = match dictionary {
            Some(_) => Vec::new(),
            None => empty.child_data().iter().map(|child| Self::of(child.data_type())).collect(),
        };
        let rows_of_child = match data_type {
            DataType::Struct(_) => Some(1),
            DataType::FixedSizeList(_, rows) => Some((*rows).into()),
            _ => None,
        };
        let buffers = empty.buffers().len() + usize::from(has_validity);
        Self { buffers: i64::try_from(buffers).unwrap_or(i64::MAX), children, dictionary, rows_of_child }
    }

    /// Checks all properties of an array that could make arrow-rs panic.
    pub(super) fn check(&self, array: &ArrowArray) -> Result<()> {
        if array.length < 0 || array.offset < 0 || array.null_count < -1 {
            return Err(wrong("the length, offset or null count of an array is negative"));
        }
        if array.n_buffers < self.buffers || (self.buffers > 0 && array.buffers.is_null()) {
            let error = wrong("buffers of an array are missing");
            return Err(error.expected(self.buffers).found(array.n_buffers));
        }
        let children = children(array.n_children, array.children)?;
        if children.len() != self.children.len() {
            let error = wrong("an array has the wrong number of children for its type");
            return Err(error.expected(self.children.len()).found(children.len()));
        }
        let rows = array.length.checked_add(array.offset).ok_or_else(|| wrong("an array is too long"))?;
        for (shape, child) in self.children.iter().zip(children) {
            if let Some(each) = self.rows_of_child
                && rows.checked_mul(each).is_none_or(|rows| child.length < rows)
            {
                let error = wrong("a column has too few values for its rows");
                return Err(error.expected(format!("{rows} times {each}")).found(child.length));
            }
            shape.check(child)?;
        }
        // SAFETY: the pointer is null, or points to an array that lives as long as this array.
        match (&self.dictionary, unsafe { array.dictionary.as_ref() }) {
            (None, None) => Ok(()),
            (Some(shape), Some(values)) => shape.check(values),
            _ => Err(wrong("the dictionary of an array does not fit its type")),
        }
    }
}
