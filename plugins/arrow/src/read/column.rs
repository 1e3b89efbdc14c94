//! The parts of a column in a record batch: its counts, its buffers and its nested columns. Reads
//! the bytes of a range of rows, and builds an array from them. The Arrow library validates each
//! array.

use super::decode::Values;
use super::message::SourceFile;
use super::runs::RunCursor;
use super::stored::StoredBuffer;
use super::views::ViewRanges;
use crate::fault::decoded;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_ipc::{Buffer as BufferPlace, FieldNode, MetadataVersion, RecordBatch};
use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, BooleanArray, OffsetSizeTrait, StructArray, UnionArray, make_array, new_empty_array,
};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, FieldRef, UnionFields, UnionMode};
use tensorferry_sdk::{Error, Result};

/// Yields the parts of a message in the order of its columns.
pub(super) struct Parts<'m> {
    file: &'m SourceFile,
    /// Offset of the message's body.
    body: u64,
    version: MetadataVersion,
    nodes: Box<dyn Iterator<Item = FieldNode> + 'm>,
    buffers: Box<dyn Iterator<Item = BufferPlace> + 'm>,
    data_buffers: Box<dyn Iterator<Item = i64> + 'm>,
}

impl<'m> Parts<'m> {
    /// The caller must have checked the counts and the positions of the buffers.
    pub(super) fn new(
        file: &'m SourceFile,
        body: u64,
        version: MetadataVersion,
        batch: RecordBatch<'m>,
    ) -> Self {
        Self {
            file,
            body,
            version,
            nodes: Box::new(batch.nodes().into_iter().flatten().copied()),
            buffers: Box::new(batch.buffers().into_iter().flatten().copied()),
            data_buffers: Box::new(batch.variadicBufferCounts().into_iter().flatten()),
        }
    }

    /// Checks that the columns of the batch use all counts of data buffers.
    pub(super) fn end(mut self) -> Result<()> {
        match self.data_buffers.next() {
            Some(_) => {
                Err(Error::malformed("a message has more counts of data buffers than columns of views"))
            }
            None => Ok(()),
        }
    }

    fn buffer(&mut self) -> Result<StoredBuffer> {
        let missing = || Error::malformed("a message has fewer buffers than its columns need");
        let place = self.buffers.next().ok_or_else(missing)?;
        let [offset, len] = [place.offset(), place.length()].map(|part| u64::try_from(part).unwrap_or(0));
        Ok(StoredBuffer::new(self.file, self.body + offset..self.body + offset + len))
    }
}

pub(super) struct Column {
    field: FieldRef,
    pub(super) len: u64,
    nulls: u64,
    buffers: Vec<StoredBuffer>,
    children: Vec<Column>,
    /// Position in the runs of a run-end encoded column.
    runs: RunCursor,
}

impl Column {
    /// Takes the parts of a column from a message.
    pub(super) fn new(field: &FieldRef, parts: &mut Parts<'_>) -> Result<Self> {
        use DataType as T;
        let missing = || Error::malformed("a message has fewer columns than its schema");
        let node = parts.nodes.next().ok_or_else(missing)?;
        let [len, nulls] = [node.length(), node.null_count()].map(|count| u64::try_from(count).unwrap_or(0));
        let data_type = field.data_type();
        // Unions in messages of version 4 start with a validity buffer, which is not used.
        if matches!(data_type, T::Union(..)) && parts.version < MetadataVersion::V5 {
            parts.buffer()?;
        }
        let count = match data_type {
            T::Null | T::RunEndEncoded(..) => 0,
            T::Struct(_) | T::FixedSizeList(..) | T::Union(_, UnionMode::Sparse) => 1,
            T::Utf8 | T::LargeUtf8 | T::Binary | T::LargeBinary | T::ListView(_) | T::LargeListView(_) => 3,
            T::Utf8View | T::BinaryView => {
                let count = parts.data_buffers.next().and_then(|count| u32::try_from(count).ok());
                let missing =
                    || Error::malformed("the number of data buffers of a column of views is missing");
                u64::from(count.ok_or_else(missing)?) + 2
            }
            _ => 2,
        };
        let buffers = (0..count).map(|_| parts.buffer()).collect::<Result<_>>()?;
        let children = nested(data_type).into_iter().map(|field| Self::new(field, parts));
        let children: Vec<Self> = children.collect::<Result<_>>()?;
        let is_as_long = match data_type {
            T::Null => nulls == len,
            T::Struct(_) | T::Union(_, UnionMode::Sparse) => children.iter().all(|child| child.len == len),
            T::RunEndEncoded(..) => children.windows(2).all(|pair| pair[0].len == pair[1].len),
            _ => true,
        };
        if !is_as_long {
            return Err(Error::malformed("the parts of a column have different lengths").column(field.name()));
        }
        let runs = RunCursor::default();
        Ok(Self { field: field.clone(), len, nulls, buffers, children, runs })
    }

    pub(super) fn field(&self) -> &FieldRef {
        &self.field
    }

    /// Adds all buffers of the column to a list.
    pub(super) fn list_buffers<'c>(&'c mut self, all: &mut Vec<&'c mut StoredBuffer>) {
        all.extend(&mut self.buffers);
        self.children.iter_mut().for_each(|child| child.list_buffers(all));
    }

    /// Subtracts the bytes of a range of rows from `left`. Returns `false` if they are more than
    /// `left`. In that case, not all of them are counted.
    pub(super) fn measure(&mut self, start: u64, len: u64, left: &mut u64) -> Result<bool> {
        use DataType as T;
        if len == 0 {
            return Ok(true);
        }
        if !take(left, self.fixed_bytes(len)) {
            return Ok(false);
        }
        let data = match self.field.data_type() {
            T::Utf8 | T::Binary => ends::<i32>(&mut self.buffers[1], start, len)?.1,
            T::LargeUtf8 | T::LargeBinary => ends::<i64>(&mut self.buffers[1], start, len)?.1,
            T::Utf8View | T::BinaryView => ViewRanges::of(&mut self.buffers, start, len)?.bytes(),
            _ => 0,
        };
        if !take(left, data) {
            return Ok(false);
        }
        let ranges = self.child_rows(start, len)?;
        for (child, (start, len)) in self.children.iter_mut().zip(ranges) {
            if !child.measure(start, len, left)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the bytes of rows in the buffers whose size does not depend on the values.
    fn fixed_bytes(&self, len: u64) -> u64 {
        use DataType as T;
        let bits = len.div_ceil(8);
        let nulls = if self.nulls > 0 { bits } else { 0 };
        let width = |width: u64| len.saturating_mul(width);
        nulls.saturating_add(match self.field.data_type() {
            T::Boolean => bits,
            T::Utf8View | T::BinaryView | T::LargeListView(_) => width(16),
            T::Utf8 | T::Binary | T::List(_) | T::Map(..) => width(4),
            T::LargeUtf8 | T::LargeBinary | T::LargeList(_) | T::ListView(_) => width(8),
            T::Union(_, UnionMode::Sparse) => width(1),
            T::Union(_, UnionMode::Dense) => width(5),
            T::Dictionary(keys, _) => width(width_of(keys).unwrap_or(0)),
            other => width(width_of(other).unwrap_or(0)),
        })
    }

    /// Returns the first row and the number of rows of each nested column that a range of rows
    /// needs.
    fn child_rows(&mut self, start: u64, len: u64) -> Result<Vec<(u64, u64)>> {
        use DataType as T;
        let ranges = match self.field.data_type() {
            T::List(_) | T::Map(..) => vec![ends::<i32>(&mut self.buffers[1], start, len)?],
            T::LargeList(_) => vec![ends::<i64>(&mut self.buffers[1], start, len)?],
            T::ListView(_) => vec![viewed::<i32>(&mut self.buffers, start, len)?],
            T::LargeListView(_) => vec![viewed::<i64>(&mut self.buffers, start, len)?],
            T::FixedSizeList(_, width) => {
                let width = u64::try_from(*width).unwrap_or(0);
                vec![(start.saturating_mul(width), len.saturating_mul(width))]
            }
            T::Union(fields, UnionMode::Dense) => dense(fields, &mut self.buffers, start, len)?,
            T::RunEndEncoded(..) => {
                let ends = &mut self.children[0];
                let all = ends.len;
                let (first, count) = self.runs.seek((start, len), all, |at, len| ends.integers(at, len))?;
                vec![(0, 0), (first, count)]
            }
            _ => vec![(start, len); self.children.len()],
        };
        for (child, (start, len)) in self.children.iter().zip(&ranges) {
            if start.checked_add(*len).is_none_or(|end| end > child.len) {
                return Err(Error::malformed("rows refer to values outside a nested column")
                    .column(self.field.name())
                    .expected(format!("at most {} values", child.len))
                    .found(format!("{len} values at {start}")));
            }
        }
        Ok(ranges)
    }

    /// Reads a range of rows.
    pub(super) fn slice(&mut self, start: u64, len: u64, values: &Values) -> Result<ArrayRef> {
        use DataType as T;
        let field = self.field.clone();
        let data_type = field.data_type();
        if len == 0 {
            return Ok(new_empty_array(data_type));
        }
        let rows = usize::try_from(len).map_err(|_| Error::limit("too long for the address space"))?;
        let nulls = self.nulls(start, len)?;
        let array = ArrayData::builder(data_type.clone()).len(rows);
        let ranges = self.child_rows(start, len)?;
        let buffers = &mut self.buffers;
        let mut children = Vec::with_capacity(ranges.len());
        if !matches!(data_type, T::RunEndEncoded(..)) {
            for (child, (start, len)) in self.children.iter_mut().zip(&ranges) {
                children.push(child.slice(*start, *len, values)?);
            }
        }
        let first_value = ranges.first().map_or(0, |range| range.0);
        match data_type {
            T::Null => built(array),
            T::Boolean => {
                let bits = bits(&mut buffers[1], start, len)?;
                Ok(Arc::new(BooleanArray::new(bits, nulls)))
            }
            T::Utf8 | T::Binary => flat::<i32>(array, buffers, nulls, start, len),
            T::LargeUtf8 | T::LargeBinary => flat::<i64>(array, buffers, nulls, start, len),
            T::Utf8View | T::BinaryView => {
                let (views, data) = ViewRanges::of(buffers, start, len)?.read(buffers)?;
                built(array.add_buffer(views).add_buffers(data).nulls(nulls))
            }
            T::List(_) | T::Map(..) => {
                let offsets = offsets::<i32>(&mut buffers[1], start, len)?;
                built(with_children(array.add_buffer(offsets), children).nulls(nulls))
            }
            T::LargeList(_) => {
                let offsets = offsets::<i64>(&mut buffers[1], start, len)?;
                built(with_children(array.add_buffer(offsets), children).nulls(nulls))
            }
            T::ListView(_) => {
                let array = list_views::<i32>(array, buffers, start, len, first_value)?;
                built(with_children(array, children).nulls(nulls))
            }
            T::LargeListView(_) => {
                let array = list_views::<i64>(array, buffers, start, len, first_value)?;
                built(with_children(array, children).nulls(nulls))
            }
            T::FixedSizeList(..) => built(with_children(array, children).nulls(nulls)),
            T::Struct(fields) => checked(|| {
                Ok(match children.is_empty() {
                    true => StructArray::new_empty_fields(rows, nulls),
                    false => StructArray::try_new(fields.clone(), children, nulls)?,
                })
            }),
            T::Union(fields, mode) => {
                let ids = buffers[0].numbers::<i8>(start, len)?;
                let offsets = match mode {
                    UnionMode::Sparse => None,
                    UnionMode::Dense => Some(rebased(fields, &ids, &mut buffers[1], start, &ranges)?),
                };
                checked(|| UnionArray::try_new(fields.clone(), ids, offsets, children))
            }
            T::RunEndEncoded(ends, _) => {
                let (first, count) = ranges[1];
                let ends = self.runs.clipped(ends, start, len, count);
                let values = self.children[1].slice(first, count, values)?;
                built(with_children(array, vec![ends, values]))
            }
            T::Dictionary(keys, items) => {
                let keys = fixed(&mut buffers[1], width_of(keys), start, len)?;
                // A column that contains only nulls may have no dictionary.
                #[expect(deprecated, reason = "only the field of the file contains the ID")]
                let dictionary = field.dict_id().and_then(|id| values.get(&id)).cloned();
                let dictionary = dictionary.unwrap_or_else(|| new_empty_array(items));
                built(with_children(array.add_buffer(keys), vec![dictionary]).nulls(nulls))
            }
            other => {
                built(array.add_buffer(fixed(&mut buffers[1], width_of(other), start, len)?).nulls(nulls))
            }
        }
    }

    fn nulls(&mut self, start: u64, len: u64) -> Result<Option<NullBuffer>> {
        let is_without = matches!(
            self.field.data_type(),
            DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..)
        );
        if self.nulls == 0 || is_without {
            return Ok(None);
        }
        let nulls = NullBuffer::new(bits(&mut self.buffers[0], start, len)?);
        Ok(Some(nulls).filter(|nulls| nulls.null_count() > 0))
    }

    /// Returns numbers of a column of integers, such as the ends of runs.
    fn integers(&mut self, start: u64, len: u64) -> Result<Vec<i64>> {
        let column = self.slice(start, len, &Values::default())?;
        let data = column.to_data();
        Ok(match self.field.data_type() {
            DataType::Int16 => data.buffer::<i16>(0)[..data.len()].iter().map(|&end| end.into()).collect(),
            DataType::Int32 => data.buffer::<i32>(0)[..data.len()].iter().map(|&end| end.into()).collect(),
            _ => data.buffer::<i64>(0)[..data.len()].to_vec(),
        })
    }
}

/// Returns the fields of the nested columns of a type, in the order in which messages store them.
fn nested(data_type: &DataType) -> Vec<&FieldRef> {
    use DataType as T;
    match data_type {
        T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) => vec![item],
        T::FixedSizeList(item, _) | T::Map(item, _) => vec![item],
        T::Struct(fields) => fields.iter().collect(),
        T::Union(fields, _) => fields.iter().map(|(_, field)| field).collect(),
        T::RunEndEncoded(ends, values) => vec![ends, values],
        _ => Vec::new(),
    }
}

fn take(left: &mut u64, bytes: u64) -> bool {
    let rest = left.checked_sub(bytes);
    *left = rest.unwrap_or(0);
    rest.is_some()
}

fn checked<A: Array + 'static>(build: impl FnOnce() -> Result<A, ArrowError>) -> Result<ArrayRef> {
    decoded(build).map(|array| Arc::new(array) as ArrayRef)
}

fn built(array: ArrayDataBuilder) -> Result<ArrayRef> {
    decoded(|| Ok(make_array(array.align_buffers(true).build()?)))
}

fn with_children(array: ArrayDataBuilder, children: Vec<ArrayRef>) -> ArrayDataBuilder {
    array.child_data(children.into_iter().map(|child| child.to_data()).collect())
}

/// Returns the number of bytes of a value, if all values of the type have the same size.
fn width_of(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::FixedSizeBinary(width) => u64::try_from(*width).ok(),
        other => other.primitive_width().map(|width| width as u64),
    }
}

fn fixed(buffer: &mut StoredBuffer, width: Option<u64>, start: u64, len: u64) -> Result<Buffer> {
    let width = width.ok_or_else(|| Error::unsupported("unknown column type"))?;
    buffer.read(start.saturating_mul(width), len.saturating_mul(width))
}

fn bits(buffer: &mut StoredBuffer, start: u64, len: u64) -> Result<BooleanBuffer> {
    let (first, end) = (start / 8, start.saturating_add(len).div_ceil(8));
    let bytes = buffer.read(first, end - first)?;
    let [offset, len] = [start % 8, len].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    Ok(BooleanBuffer::new(bytes, offset, len))
}

/// Returns the first value and the number of values that rows with offsets refer to.
fn ends<O: OffsetSizeTrait>(buffer: &mut StoredBuffer, start: u64, len: u64) -> Result<(u64, u64)> {
    let offsets = buffer.numbers::<O>(start, len.saturating_add(1))?;
    let end = |offset: Option<&O>| offset.and_then(|offset| offset.to_usize()).map(|end| end as u64);
    let range = end(offsets.first()).zip(end(offsets.last()));
    let range = range.and_then(|(first, last)| Some((first, last.checked_sub(first)?)));
    range.ok_or_else(|| {
        Error::malformed("the offsets of a column are not in order").found(format!(
            "{:?} to {:?}",
            offsets.first(),
            offsets.last()
        ))
    })
}

/// Returns the offsets of rows, counted from the first value of the first row.
fn offsets<O: OffsetSizeTrait>(buffer: &mut StoredBuffer, start: u64, len: u64) -> Result<Buffer> {
    let offsets = buffer.numbers::<O>(start, len.saturating_add(1))?;
    let first = offsets.first().map_or(0, |first| first.as_usize());
    if first == 0 {
        return Ok(offsets.into_inner());
    }
    let moved = offsets.iter().map(|offset| offset.as_usize().checked_sub(first).and_then(O::from_usize));
    let moved: Option<Vec<O>> = moved.collect();
    let moved = moved.ok_or_else(|| Error::malformed("the offsets of a column are not in order"))?;
    Ok(Buffer::from_vec(moved))
}

fn flat<O: OffsetSizeTrait>(
    array: ArrayDataBuilder,
    buffers: &mut [StoredBuffer],
    nulls: Option<NullBuffer>,
    start: u64,
    len: u64,
) -> Result<ArrayRef> {
    let (first, count) = ends::<O>(&mut buffers[1], start, len)?;
    let offsets = offsets::<O>(&mut buffers[1], start, len)?;
    built(array.add_buffer(offsets).add_buffer(buffers[2].read(first, count)?).nulls(nulls))
}

/// Returns the first value and the number of values that list views refer to.
fn viewed<O: OffsetSizeTrait>(buffers: &mut [StoredBuffer], start: u64, len: u64) -> Result<(u64, u64)> {
    let (offsets, sizes) = (buffers[1].numbers::<O>(start, len)?, buffers[2].numbers::<O>(start, len)?);
    let mut range = None;
    for (offset, size) in offsets.iter().zip(sizes.iter()) {
        let [offset, size] = [offset, size].map(|part| part.to_usize().map(|part| part as u64));
        let wrong = || Error::malformed("a list view is outside its values");
        let (offset, size) = offset.zip(size).ok_or_else(wrong)?;
        if size > 0 {
            include(&mut range, offset..offset.checked_add(size).ok_or_else(wrong)?);
        }
    }
    Ok(range.map_or((0, 0), |range| (range.start, range.end - range.start)))
}

fn include(all: &mut Option<Range<u64>>, range: Range<u64>) {
    *all = Some(match all.take() {
        Some(all) => all.start.min(range.start)..all.end.max(range.end),
        None => range,
    });
}

/// Adds the offsets and sizes of list views, counted from value number `first`.
fn list_views<O: OffsetSizeTrait>(
    array: ArrayDataBuilder,
    buffers: &mut [StoredBuffer],
    start: u64,
    len: u64,
    first: u64,
) -> Result<ArrayDataBuilder> {
    let (offsets, sizes) = (buffers[1].numbers::<O>(start, len)?, buffers[2].numbers::<O>(start, len)?);
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    // The offset of an empty list has no meaning.
    let moved = offsets.iter().zip(sizes.iter()).map(|(offset, size)| match size.as_usize() {
        0 => O::default(),
        _ => O::from_usize(offset.as_usize().saturating_sub(first)).unwrap_or_default(),
    });
    let moved: Vec<O> = moved.collect();
    Ok(array.add_buffer(Buffer::from_vec(moved)).add_buffer(sizes.into_inner()))
}

/// Returns the first value and the number of values of each nested column of a dense union.
fn dense(
    fields: &UnionFields,
    buffers: &mut [StoredBuffer],
    start: u64,
    len: u64,
) -> Result<Vec<(u64, u64)>> {
    let ids = buffers[0].numbers::<i8>(start, len)?;
    let offsets = buffers[1].numbers::<i32>(start, len)?;
    let numbers = numbers_of(fields);
    let mut ranges = vec![None; fields.len()];
    for (id, offset) in ids.iter().zip(offsets.iter()) {
        let number = usize::try_from(*id).ok().and_then(|id| numbers[id]);
        let range = number.and_then(|number| ranges.get_mut(number)).zip(u64::try_from(*offset).ok());
        let wrong = || Error::malformed("a union refers to a value that does not exist");
        let (range, offset) = range.ok_or_else(wrong)?;
        include(range, offset..offset + 1);
    }
    Ok(ranges
        .into_iter()
        .map(|range| range.map_or((0, 0), |range| (range.start, range.end - range.start)))
        .collect())
}

/// Returns the number of the nested column of each type ID.
fn numbers_of(fields: &UnionFields) -> [Option<usize>; 128] {
    let mut numbers = [None; 128];
    for (number, (id, _)) in fields.iter().enumerate() {
        if let Ok(id) = usize::try_from(id) {
            numbers[id] = Some(number);
        }
    }
    numbers
}

/// Returns the offsets of a dense union, counted from the first value in each range.
fn rebased(
    fields: &UnionFields,
    ids: &[i8],
    offsets: &mut StoredBuffer,
    start: u64,
    ranges: &[(u64, u64)],
) -> Result<ScalarBuffer<i32>> {
    let offsets = offsets.numbers::<i32>(start, ids.len() as u64)?;
    let numbers = numbers_of(fields);
    // The ranges were made from the same IDs and offsets, so they contain all offsets.
    let first = |id: i8| {
        let number = usize::try_from(id).ok().and_then(|id| numbers[id]);
        number.and_then(|number| i32::try_from(ranges.get(number)?.0).ok()).unwrap_or(0)
    };
    Ok(offsets.iter().zip(ids).map(|(offset, id)| offset.saturating_sub(first(*id))).collect())
}
