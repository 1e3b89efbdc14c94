//! What schemas and arrays of C say of themselves, looked at before arrow-rs takes it at its word. What cannot be seen, such as how
//! long a buffer is, stays the promise of whoever made them.
#![allow(unsafe_code, reason = "the C data interface has no other form")]

use crate::{Error, Result};
use arrow_array::{Array, new_empty_array};
use arrow_schema::DataType;
use std::ffi::CStr;
use tensorferry_abi::{ArrowArray, ArrowSchema};

/// How deep a schema may nest.
const DEEPEST: usize = 256;

pub(super) fn wrong(what: &str) -> Error {
    Error::plugin(format!("not as Arrow's C data interface has it: {what}"))
}

/// Checks what arrow-rs would panic at.
pub(super) fn check_schema(schema: &ArrowSchema) -> Result<()> {
    check_field(schema, 0)
}

fn check_field(field: &ArrowSchema, depth: usize) -> Result<()> {
    if field.release.is_none() {
        return Err(Error::plugin("a schema that was released already"));
    }
    if depth > DEEPEST {
        return Err(wrong("a schema that nests too deep"));
    }
    for (text, what) in [(field.format, "a format"), (field.name, "a name")] {
        // SAFETY: a text that is not null ends with a zero byte, as the interface asks.
        if !text.is_null() && unsafe { CStr::from_ptr(text) }.to_str().is_err() {
            return Err(wrong(&format!("{what} of a column that is not UTF-8")));
        }
    }
    if field.format.is_null() {
        return Err(wrong("a column without a format"));
    }
    for child in children(field.n_children, field.children)? {
        check_field(child, depth + 1)?;
    }
    // SAFETY: null, or a schema that lives as long as this one.
    unsafe { field.dictionary.as_ref() }.map_or(Ok(()), |values| check_field(values, depth + 1))
}

/// The children of a structure that lives as long as they do.
fn children<'a, T>(count: i64, children: *mut *mut T) -> Result<Vec<&'a T>> {
    let count = usize::try_from(count).map_err(|_| wrong("a number of children below zero"))?;
    if count > 0 && (children.is_null() || !children.is_aligned()) {
        return Err(wrong("children that are nowhere"));
    }
    let child = |index| {
        // SAFETY: there are so many pointers, each null or to a structure that lives as long as its parent.
        unsafe { (*children.add(index)).as_ref() }.ok_or_else(|| wrong("a child that is null"))
    };
    (0..count).map(child).collect()
}

/// What an array of a type has.
pub(super) struct Shape {
    buffers: i64,
    children: Vec<Shape>,
    dictionary: Option<Box<Shape>>,
    /// Rows of a child for each row, where that is fixed.
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

    /// Checks what arrow-rs would panic at.
    pub(super) fn check(&self, array: &ArrowArray) -> Result<()> {
        if array.length < 0 || array.offset < 0 || array.null_count < -1 {
            return Err(wrong("an array of a length, an offset or a number of nulls below zero"));
        }
        if array.n_buffers < self.buffers || (self.buffers > 0 && array.buffers.is_null()) {
            let error = wrong("an array without all of its buffers");
            return Err(error.expected(self.buffers).found(array.n_buffers));
        }
        let children = children(array.n_children, array.children)?;
        if children.len() != self.children.len() {
            let error = wrong("an array with another number of children than its type");
            return Err(error.expected(self.children.len()).found(children.len()));
        }
        let rows = array.length.checked_add(array.offset).ok_or_else(|| wrong("an array without an end"))?;
        for (shape, child) in self.children.iter().zip(children) {
            if let Some(each) = self.rows_of_child
                && rows.checked_mul(each).is_none_or(|rows| child.length < rows)
            {
                let error = wrong("a column that is shorter than its rows");
                return Err(error.expected(format!("{rows} times {each}")).found(child.length));
            }
            shape.check(child)?;
        }
        // SAFETY: null, or an array that lives as long as this one.
        match (&self.dictionary, unsafe { array.dictionary.as_ref() }) {
            (None, None) => Ok(()),
            (Some(shape), Some(values)) => shape.check(values),
            _ => Err(wrong("an array whose dictionary is not that of its type")),
        }
    }
}
