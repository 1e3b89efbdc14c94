//! Checks the claims of a footer before the `parquet` crate parses it. The library reads the schema
//! recursively, allocates as many children as a group claims, and copies the path of each leaf.
//!
//! ```text
//! FileMetaData (parquet.thrift):
//!   2: list<SchemaElement>, the tree of the schema, depth first:
//!      3: i32 repetition_type (2: REPEATED)    4: name    5: i32 num_children
//!   4: list<RowGroup>:  1: list<ColumnChunk>
//!   5: list<KeyValue>
//! ```

use super::thrift::{self, Event, Fields, Shape};
use crate::{MAX_DEPTH, MAX_LISTS};
use std::borrow::Cow;
use std::cell::Cell;
use tensorferry_sdk::{Error, Limits, Result};

/// Estimated memory of a schema element or of a column chunk, in bytes.
const ENTRY: u64 = 512;
/// Estimated memory of a row group and its split, in bytes. The estimate exceeds the memory that
/// [`GROWTH`] allows for a row group without chunks.
const ROW_GROUP_ENTRY: u64 = 1024;
/// Estimated memory of one part of a leaf's path, in bytes, not including the name.
const PATH_PART: u64 = 32;
/// Maximum memory of a parsed footer, as a multiple of the footer's length. An additional 1 MiB is
/// allowed. The most compact schema needs 70 times its length in memory.
const GROWTH: u64 = 128;

/// Repetition type of a list.
const REPEATED: i64 = 2;

const I32: Shape = Shape::Integer(32);
const I64: Shape = Shape::Integer(64);
const EMPTY: Shape = Shape::Struct(&[]);
const SORTING_COLUMN: Shape = Shape::Struct(&[(1, I32), (2, Shape::Bool), (3, Shape::Bool)]);
/// A time unit or a column order, which is a union of up to three empty structs.
const CHOICE: Shape = Shape::Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]);
const TIME: Shape = Shape::Struct(&[(1, Shape::Bool), (2, CHOICE)]);

/// All fields of a footer that the `parquet` crate reads. Statistics are not listed, because the
/// library reads them only for columns in the comparisons of a scan.
static FILE_META_DATA: Fields = &[
    (1, I32),
    (2, Shape::List(&Shape::Struct(SCHEMA_ELEMENT))),
    (3, I64),
    (4, Shape::List(&Shape::Struct(ROW_GROUP))),
    (5, Shape::List(&Shape::Struct(&[(1, Shape::Binary), (2, Shape::Binary)]))),
    (6, Shape::Binary),
    (7, Shape::List(&CHOICE)),
];
const SCHEMA_ELEMENT: Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Shape::Binary),
    (5, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, Shape::Struct(LOGICAL_TYPE)),
];
const LOGICAL_TYPE: Fields = &[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Shape::Struct(&[(1, I32), (2, I32)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Shape::Struct(&[(1, Shape::Byte), (2, Shape::Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Shape::Struct(&[(1, Shape::Byte)])),
    (17, Shape::Struct(&[(1, Shape::Binary)])),
    (18, Shape::Struct(&[(1, Shape::Binary), (2, I32)])),
    (19, EMPTY),
];
const ROW_GROUP: Fields = &[
    (1, Shape::List(&Shape::Struct(COLUMN_CHUNK))),
    (2, I64),
    (3, I64),
    (4, Shape::List(&SORTING_COLUMN)),
    (5, I64),
    (7, Shape::Integer(16)),
];
const COLUMN_CHUNK: Fields = &[
    (1, Shape::Binary),
    (2, I64),
    (3, Shape::Struct(COLUMN_META_DATA)),
    (4, I64),
    (5, I32),
    (6, I64),
    (7, I32),
];
const COLUMN_META_DATA: Fields = &[
    (1, I32),
    (2, Shape::List(&I32)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, Shape::Struct(STATISTICS)),
    (14, I64),
    (15, I32),
    (17, Shape::Struct(&[(1, Shape::Struct(BOUNDING_BOX)), (2, Shape::List(&I32))])),
];
const STATISTICS: Fields = &[
    (1, Shape::Binary),
    (2, Shape::Binary),
    (3, I64),
    (4, I64),
    (5, Shape::Binary),
    (6, Shape::Binary),
    (7, Shape::Bool),
    (8, Shape::Bool),
];
const BOUNDING_BOX: Fields = &[
    (1, Shape::Double),
    (2, Shape::Double),
    (3, Shape::Double),
    (4, Shape::Double),
    (5, Shape::Double),
    (6, Shape::Double),
    (7, Shape::Double),
    (8, Shape::Double),
];

pub(super) fn check(footer: &[u8], limits: &Limits) -> Result<()> {
    let len = footer.len() as u64;
    let max = limits.header_bytes.min(len.saturating_mul(GROWTH).saturating_add(1 << 20));
    let (mut memory, mut tree) = (Memory { bytes: 0, max }, Tree::new(limits.nesting));
    let mut element = Element::default();
    thrift::walk(&mut &*footer, FILE_META_DATA, &mut |path, seen| match (path, seen) {
        ([2], Event::Len(count)) => {
            tree.left = count;
            Ok(())
        }
        ([2, 3], Event::Number(repetition)) => {
            element.is_list = repetition == REPEATED;
            Ok(())
        }
        ([2, 4], Event::Len(len)) => {
            element.name = len;
            Ok(())
        }
        ([2, 5], Event::Number(number)) => {
            element.children = u64::try_from(number)
                .map_err(|_| Error::malformed("a group has a negative number of children").found(number))?;
            Ok(())
        }
        ([2], Event::End) => {
            let path = tree.add(std::mem::take(&mut element))?;
            memory.add(path.saturating_add(ENTRY))
        }
        ([4], Event::End) => memory.add(ROW_GROUP_ENTRY),
        ([4, 1] | [5], Event::End) => memory.add(ENTRY),
        _ => Ok(()),
    })
}

/// Estimated memory of the parsed footer.
struct Memory {
    bytes: u64,
    max: u64,
}

impl Memory {
    fn add(&mut self, bytes: u64) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.max {
            return Err(Error::limit("too long in memory, including the paths to its columns")
                .expected(format!("at most {} bytes", self.max)));
        }
        Ok(())
    }
}

/// An element of the schema.
#[derive(Debug, Clone, Copy, Default)]
struct Element {
    /// Length of the element's name.
    name: u64,
    children: u64,
    is_list: bool,
}

/// A group whose children have not all been read.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    left: u64,
    /// Memory of the path to the group, in bytes.
    path: u64,
    /// Number of lists on the path, including this group if it is a list.
    lists: u64,
}

/// The elements of the schema tree that have been read.
struct Tree {
    /// Number of elements that have not been read.
    left: u64,
    /// Number of unread elements that are claimed as children by the groups that have been read.
    awaited: u64,
    open: Vec<Group>,
    most_depth: u64,
    is_rooted: bool,
}

impl Tree {
    fn new(nesting: u64) -> Self {
        let most_depth = nesting.min(MAX_DEPTH);
        Self { left: 0, awaited: 0, open: Vec::new(), most_depth, is_rooted: false }
    }

    /// Adds the next element. Returns the memory of its path in bytes, or 0 if the element is not a
    /// leaf.
    fn add(&mut self, element: Element) -> Result<u64> {
        self.left = self.left.saturating_sub(1);
        let mut group = Group { left: element.children, ..Group::default() };
        if std::mem::replace(&mut self.is_rooted, true) {
            while self.open.last().is_some_and(|group| group.left == 0) {
                self.open.pop();
            }
            let beside = || Error::malformed("the schema has elements outside of any group");
            let above = self.open.last_mut().ok_or_else(beside)?;
            above.left -= 1;
            self.awaited -= 1;
            group.path = above.path.saturating_add(element.name).saturating_add(PATH_PART);
            group.lists = above.lists + u64::from(element.is_list);
        }
        let nests = |what: &str, max: u64| Error::limit(what).expected(format!("at most {max}"));
        if group.lists > MAX_LISTS {
            return Err(nests("the schema's lists nest too deep", MAX_LISTS));
        }
        if element.children == 0 {
            return Ok(group.path);
        }
        let max = self.left.saturating_sub(self.awaited);
        if element.children > max {
            return Err(Error::malformed("a group has more children than the schema has elements")
                .expected(format!("at most {max}"))
                .found(element.children));
        }
        self.awaited += element.children;
        self.open.push(group);
        if self.open.len() as u64 > self.most_depth {
            return Err(nests("the schema's groups nest too deep", self.most_depth));
        }
        Ok(0)
    }
}

/// Returns the footer after adding an element type to each empty list. fastparquet omits the type,
/// and the `parquet` crate rejects lists without an element type.
pub(super) fn with_typed_empty_lists(footer: &[u8]) -> Result<Cow<'_, [u8]>> {
    let (at, mut empty) = (Cell::new(0), Vec::new());
    thrift::walk(&mut PositionedBytes { bytes: footer, at: &at }, FILE_META_DATA, &mut |path, seen| {
        // If the count is in a separate byte, the last two bytes are the list's type and the count.
        // Otherwise, they are the field header and a byte that contains the type and the count.
        let is_empty = matches!((path, seen), ([4 | 5], Event::Len(0)));
        let last = at.get().checked_sub(2).and_then(|at| footer.get(at..at + 2));
        if is_empty && last.is_some_and(|last| last[0] & 0x0f == thrift::LIST && last[1] == 0) {
            empty.push(at.get() - 1);
        }
        Ok(())
    })?;
    let mut footer = Cow::Borrowed(footer);
    for head in empty {
        footer.to_mut()[head] = thrift::STRUCT;
    }
    Ok(footer)
}

/// A byte slice, and the number of bytes that have been read from it.
struct PositionedBytes<'a> {
    bytes: &'a [u8],
    at: &'a Cell<usize>,
}

impl thrift::Bytes for PositionedBytes<'_> {
    fn byte(&mut self) -> Result<u8> {
        self.at.set(self.at.get() + 1);
        self.bytes.byte()
    }

    fn skip(&mut self, count: u64) -> Result<()> {
        let before = self.bytes.len();
        self.bytes.skip(count)?;
        self.at.set(self.at.get() + before - self.bytes.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    fn tree(elements: &[(u64, u64)]) -> Result<Vec<u64>> {
        let mut tree = Tree::new(3);
        tree.left = elements.len() as u64;
        let elements = elements.iter().map(|&(name, children)| Element { name, children, is_list: false });
        elements.map(|element| tree.add(element)).collect()
    }

    #[test]
    fn the_elements_are_one_tree() {
        // The schema consists of a root with a leaf, a group of two leaves, and another leaf.
        let paths = tree(&[(9, 3), (1, 0), (10, 2), (2, 0), (3, 0), (4, 0)]).unwrap();
        assert_eq!(paths, [0, 33, 0, 12 + 64, 13 + 64, 36]);
        let kind = |elements: &[(u64, u64)]| tree(elements).unwrap_err().kind();
        assert_eq!(kind(&[(9, 1), (1, 0), (1, 0)]), ErrorKind::Malformed);
        assert_eq!(kind(&[(9, 0), (1, 0)]), ErrorKind::Malformed);
        assert_eq!(kind(&[(9, 2), (1, 0)]), ErrorKind::Malformed);
        // Both groups claim the only leaf.
        assert_eq!(kind(&[(9, 2), (1, 2), (1, 0)]), ErrorKind::Malformed);
        assert_eq!(kind(&[(9, 1), (1, 1), (1, 1), (1, 1), (1, 0)]), ErrorKind::Limit);
        tree(&[(9, 1), (1, 1), (1, 1), (1, 0)]).unwrap();
        assert_eq!(tree(&[(9, 0)]).unwrap(), [0]);
    }
}
