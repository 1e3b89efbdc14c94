//! Parses structures. A structure is a dtype that consists of named fields, like a row of a table.
//! numpy writes a structure as a list of tuples: `[('id', '<i4'), ('w', '<f8', (2,)), ('',
//! '|V4')]`. In this example, the last field is padding. Instead of a name, a field can have a pair
//! of a title and a name. The descr of a field can be a nested list, or a pair of a descr and a
//! shape.
//!
//! As in `numpy.lib.format.descr_to_dtype`, a field with an empty name is padding only if it has no
//! type (`V`).

use crate::dtype::{self, Element};
use crate::literal::Literal;
use tensorferry_sdk::{Error, Result};

/// A dtype that consists of named fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Structure {
    /// The fields, without padding. Fields of nested structures are named `outer.inner`.
    pub(crate) fields: Vec<Field>,
    /// Length of a row in bytes.
    pub(crate) width: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) element: Element,
    /// Dimensions of the field, if it is an array.
    pub(crate) shape: Vec<u64>,
    /// Byte offset of the field in a row.
    pub(crate) offset: u64,
    /// Length of the field in a row, in bytes.
    pub(crate) width: u64,
}

/// Parses a list of fields.
pub(crate) fn parse(list: &[Literal]) -> Result<Structure> {
    let mut structure = Structure { fields: Vec::new(), width: 0 };
    structure.add(list, "")?;
    Ok(structure)
}

impl Structure {
    /// Appends the fields in a list. The literal parser limits the depth of nested lists, so
    /// recursion is safe.
    fn add(&mut self, list: &[Literal], prefix: &str) -> Result<()> {
        for item in list {
            let Literal::Tuple(parts) = item else { return Err(malformed("a tuple for each field")) };
            let (name, mut descr, mut shape) = match &**parts {
                [name, descr] => (name, descr, Vec::new()),
                [name, descr, shape] => (name, descr, dimensions(shape)?),
                _ => return Err(malformed("a name, a descr and optionally a shape")),
            };
            let (name, has_title) = match name {
                Literal::Text(name) => (name, false),
                Literal::Tuple(pair) => match &**pair {
                    [Literal::Text(_), Literal::Text(name)] => (name, true),
                    _ => return Err(malformed("a title and a name")),
                },
                _ => return Err(malformed("a field's name")),
            };
            let path = format!("{prefix}{name}");
            // The field is a subarray, whose elements may also be subarrays.
            while let Literal::Tuple(pair) = descr {
                let [inner, inner_shape] = &**pair else { return Err(malformed("a descr and a shape")) };
                shape.extend(dimensions(inner_shape)?);
                descr = inner;
            }
            match descr {
                Literal::Text(descr) => {
                    let element = dtype::parse(descr)?;
                    let is_padding = name.is_empty() && !has_title && matches!(element, Element::Void(_));
                    self.push(path, is_padding, element, shape)?;
                }
                Literal::List(inner) if shape.is_empty() => self.add(inner, &format!("{path}."))?,
                Literal::List(_) => {
                    return Err(Error::unsupported("an array of structures inside a structure"));
                }
                _ => return Err(malformed("a field's descr")),
            }
        }
        Ok(())
    }

    fn push(&mut self, name: String, is_padding: bool, element: Element, shape: Vec<u64>) -> Result<()> {
        let width = shape.iter().try_fold(element.width(), |width, &dim| Some(width?.checked_mul(dim)));
        let (offset, width) = (self.width, width.flatten());
        let end = width.and_then(|width| offset.checked_add(width));
        let (Some(width), Some(end)) = (width, end) else {
            return Err(Error::malformed("the width of a structure does not fit in 64 bits"));
        };
        self.width = end;
        if !is_padding {
            self.fields.push(Field { name, element, shape, offset, width });
        }
        Ok(())
    }
}

/// Returns the dimensions in a shape, which is a tuple of integers or a single integer.
fn dimensions(shape: &Literal) -> Result<Vec<u64>> {
    let items = match shape {
        Literal::Tuple(items) => items,
        one => std::slice::from_ref(one),
    };
    let dimension = |item: &Literal| match item {
        Literal::Int(value) => u64::try_from(*value).ok(),
        _ => None,
    };
    items.iter().map(dimension).collect::<Option<_>>().ok_or_else(|| malformed("a field's shape"))
}

fn malformed(expected: &str) -> Error {
    Error::malformed("the array's structured descr is invalid").expected(expected)
}
