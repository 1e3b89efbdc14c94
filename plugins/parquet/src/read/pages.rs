//! Reads and checks the pages of one column in one row group before the `parquet` crate decodes them.

use super::column::{ColumnChunk, LocatedPage};
use super::header::{PageHeader, PageKind};
use super::int96::Int96Units;
use super::levels::split_levels;
use super::memory::{HeldDecoder, ReadMemory};
use super::old_writer::OldWriter;
use super::parts::{self, PageParts, Sequence};
use super::{OpenFile, delta, file::SourceFile};
use crate::fault::FirstError;
use bytes::Bytes;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::ColumnDescPtr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tensorferry_sdk::{Error, Result};

/// A row group that the `parquet` crate decodes, and the limits for decoding it.
#[derive(Debug, Clone)]
pub(super) struct RowGroupPages {
    pub(super) file: SourceFile,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) index: usize,
    /// Units of the INT96 columns.
    int96: Arc<Int96Units>,
    /// Maximum number of decoded bytes of a page, or of all list pages for one batch.
    pub(super) max: u64,
    /// Number of decoded bytes of the list pages for the current batch.
    pub(super) listed: Arc<AtomicU64>,
    pub(super) first_error: FirstError,
    pub(super) memory: Arc<ReadMemory>,
    /// Whether each decoder reserves the memory of its pages before it reads them.
    is_counted: bool,
    is_out_of_memory: Arc<AtomicBool>,
}

impl RowGroupPages {
    /// Opens a row group. Each of its pages may have at most `max` decoded bytes.
    pub(super) fn new(file: &OpenFile, index: usize, max: u64, memory: Arc<ReadMemory>) -> Self {
        Self {
            file: file.file.clone(),
            metadata: file.metadata.clone(),
            index,
            int96: file.int96.clone(),
            max,
            listed: Arc::default(),
            first_error: FirstError::default(),
            memory,
            is_counted: false,
            is_out_of_memory: Arc::default(),
        }
    }

    /// Returns the same row group. The decoders of its columns reserve the memory of their pages.
    pub(super) fn counted(&self) -> Self {
        Self { is_counted: true, ..self.clone() }
    }

    /// Returns the same row group for a different thread.
    pub(super) fn separate(&self) -> Self {
        Self { listed: Arc::default(), ..self.clone() }
    }

    /// Returns whether a page did not fit in the memory since the last call.
    pub(super) fn take_out_of_memory(&self) -> bool {
        self.is_out_of_memory.swap(false, Ordering::Relaxed)
    }

    pub(super) fn group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.index)
    }

    /// Opens the bytes of a column.
    pub(super) fn chunk(&self, column: usize) -> ColumnChunk {
        let writer = OldWriter::named(self.metadata.file_metadata().created_by());
        ColumnChunk::new(&self.file, self.group(), column, self.max, writer)
    }

    /// Opens the pages of a column.
    pub(super) fn pages(&self, column: usize) -> Result<CheckedPages, ParquetError> {
        let chunk = self.chunk(column);
        let metadata = self.group().column(column);
        // The footer may claim few values for a large chunk, so the larger of the two limits
        // applies.
        let by_bytes =
            metadata.byte_range().1.saturating_mul(super::MAX_VALUES_PER_BYTE).saturating_add(1 << 20);
        let mut pages = CheckedPages {
            descriptor: metadata.column_descr_ptr(),
            column,
            int96: self.int96.clone(),
            max: self.max,
            values: u64::try_from(metadata.num_values()).unwrap_or(0).max(by_bytes),
            listed: self.listed.clone(),
            first_error: self.first_error.clone(),
            is_out_of_memory: self.is_out_of_memory.clone(),
            held: None,
            next: None,
            parts: None,
            sequence: None,
            deferred: None,
            memory: self.memory.clone(),
            chunk,
        };
        if self.is_counted {
            let held = HeldDecoder::new(&self.memory, pages.chunk.decoder_memory());
            pages.held = Some(held.ok_or_else(|| pages.out_of_memory())?);
        }
        Ok(pages)
    }
}

impl RowGroups for RowGroupPages {
    fn num_rows(&self) -> usize {
        usize::try_from(self.group().num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, i: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        Ok(Box::new(ColumnPages(Some(self.pages(i)?))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.group()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// Pages of a column in the only row group of the `parquet` crate's input.
struct ColumnPages(Option<CheckedPages>);

impl Iterator for ColumnPages {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as _))
    }
}

impl PageIterator for ColumnPages {}

/// A page reader that checks each page.
pub(super) struct CheckedPages {
    chunk: ColumnChunk,
    descriptor: ColumnDescPtr,
    /// Index of the leaf column.
    column: usize,
    int96: Arc<Int96Units>,
    max: u64,
    /// Number of values that the remaining pages of a list column may contain.
    values: u64,
    listed: Arc<AtomicU64>,
    first_error: FirstError,
    /// Set if the memory that the stream may hold does not suffice for a page.
    is_out_of_memory: Arc<AtomicBool>,
    memory: Arc<ReadMemory>,
    /// The memory of the column's decoder, if it is counted.
    held: Option<HeldDecoder>,
    /// The next page, if its header has been parsed.
    next: Option<LocatedPage>,
    /// The parts of the next page that have not been read, if it is read in parts.
    parts: Option<PageParts>,
    sequence: Option<Sequence>,
    /// A dictionary that was skipped, which the `parquet` crate may read later.
    deferred: Option<LocatedPage>,
}

impl CheckedPages {
    /// Returns the number of bytes that are needed to load only the first page.
    pub(super) fn memory_of_first_page(&mut self) -> Result<u64, ParquetError> {
        let next = self.peek()?;
        Ok(next
            .map_or(0, |page| self.chunk.decoder_memory().load(&parts::estimated(&self.chunk, page.header))))
    }

    /// Keeps an error that names the column, and returns it as a `parquet` crate error.
    fn fail(&self, error: Error) -> ParquetError {
        self.first_error.keep(self.chunk.named(error))
    }

    /// Returns an error for a page that does not fit in the memory that the stream may hold. The
    /// stream then decodes the columns in groups.
    fn out_of_memory(&self) -> ParquetError {
        self.is_out_of_memory.store(true, Ordering::Relaxed);
        ParquetError::General("the pages of all columns do not fit in memory".to_owned())
    }

    /// Parses the header of the next page.
    fn peek(&mut self) -> Result<Option<LocatedPage>, ParquetError> {
        while self.next.is_none() {
            let next = self.chunk.next_page().map_err(|error| self.fail(error))?;
            let Some(page) = next else { break };
            if parts::is_sequence(&self.chunk, &page) {
                self.reserve(&parts::in_parts(&self.chunk, page.header))?;
                let sequence = Sequence::open(&self.chunk, &page);
                self.sequence = Some(sequence.map_err(|error| self.fail(error))?);
                self.chunk.move_behind(&page);
            } else {
                self.next = next;
            }
        }
        Ok(self.next)
    }

    /// Returns whether a page is read in parts.
    fn is_divided(&self, page: &LocatedPage) -> bool {
        parts::is_divided(&page.header, self.chunk.compression, &self.descriptor)
            || self.sequence.is_some() && page.header.is_indexed()
    }

    /// Moves behind the next page.
    fn pass(&mut self, next: &LocatedPage) {
        (self.next, self.parts) = (None, None);
        self.chunk.move_behind(next);
    }

    /// Reserves the memory for a page.
    fn reserve(&mut self, header: &PageHeader) -> Result<(), ParquetError> {
        let fits = self.held.as_mut().is_none_or(|held| held.load(header));
        if fits { Ok(()) } else { Err(self.out_of_memory()) }
    }

    /// Reads, decompresses and checks a page.
    fn load(&mut self, located: &LocatedPage) -> Result<Page, ParquetError> {
        self.reserve(&located.header)?;
        let read = self.chunk.read(located).and_then(|bytes| {
            if let Some(held) = &mut self.held {
                held.loaded();
            }
            let page = located.page(bytes);
            self.check(&page)?;
            Ok(page)
        });
        read.map_err(|error| self.fail(error))
    }

    fn open_parts(&mut self, located: &LocatedPage) -> Result<PageParts, ParquetError> {
        if parts::is_divided(&located.header, self.chunk.compression, &self.descriptor) {
            self.reserve(&parts::in_parts(&self.chunk, located.header))?;
            return PageParts::open(&self.chunk, located).map_err(|error| self.fail(error));
        }
        let page = self.load(located)?;
        let sequence =
            self.sequence.as_mut().ok_or_else(|| ParquetError::General("no dictionary".to_owned()))?;
        PageParts::indexed(&page, &self.descriptor, sequence).map_err(|error| self.fail(error))
    }

    /// Returns the next part of a page that is read in parts, or `None` at its end.
    fn load_part(&mut self, located: &LocatedPage) -> Result<Option<Page>, ParquetError> {
        let mut parts = match self.parts.take() {
            Some(parts) => parts,
            None => self.open_parts(located)?,
        };
        let part = parts.next(self.sequence.as_mut(), |bytes| self.memory.check(bytes)).and_then(|part| {
            part.as_ref().map_or(Ok(()), |part| self.check(part))?;
            Ok(part)
        });
        self.parts = Some(parts);
        part.map_err(|error| self.fail(error))
    }

    fn check(&mut self, page: &Page) -> Result<()> {
        if self.descriptor.physical_type() == Type::INT96 {
            self.int96.check(self.column, &self.plain_values(page))?;
        }
        let values = u64::from(page.num_values());
        if !page.is_data_page() {
            return Ok(());
        }
        if self.descriptor.max_rep_level() > 0 {
            let left = self.values.checked_sub(values);
            self.values = left.ok_or_else(|| {
                Error::malformed("pages have more values than their chunk")
                    .expected(format!("at most {} more", self.values))
                    .found(values)
            })?;
            // All values of a row are decoded in one call, and a few bytes may encode many values.
            let width = match self.descriptor.physical_type() {
                Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(self.descriptor.type_length()).unwrap_or(0),
                _ => 8,
            };
            // Each value has two levels of two bytes.
            let bytes = values.saturating_mul(width + 4).saturating_add(page.buffer().len() as u64);
            let sum = self.listed.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            if sum > self.max {
                return Err(Error::limit("lists are too long to decode at once")
                    .expected(format!("at most {} bytes", self.max))
                    .found(sum));
            }
        }
        // The `parquet` crate allocates four bytes per claimed value before it decodes any values.
        let max_values = values.min(self.max / 8);
        match page.encoding() {
            Encoding::DELTA_BINARY_PACKED | Encoding::DELTA_LENGTH_BYTE_ARRAY => {
                delta::check_count(&self.values(page)?, max_values)
            }
            Encoding::DELTA_BYTE_ARRAY => delta::check_prefixed(&self.values(page)?, max_values, self.max),
            _ => Ok(()),
        }
    }

    /// Returns the values of a dictionary page, or of a data page in plain encoding.
    pub(super) fn plain_values(&self, page: &Page) -> Bytes {
        match page {
            Page::DictionaryPage { buf, .. } => buf.clone(),
            // The `parquet` crate rejects a page that ends inside its levels.
            page if page.encoding() == Encoding::PLAIN => self.values(page).unwrap_or_default(),
            _ => Bytes::new(),
        }
    }

    /// Returns the bytes after the levels of a data page.
    fn values(&self, page: &Page) -> Result<Bytes> {
        Ok(split_levels(page, &self.descriptor)?.1)
    }
}

#[deny(clippy::missing_trait_methods)]
impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        while let Some(next) = self.peek()? {
            if self.is_divided(&next) {
                if let Some(part) = self.load_part(&next)? {
                    return Ok(Some(part));
                }
                self.pass(&next);
            } else {
                let page = self.load(&next)?;
                self.pass(&next);
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        let next = self.peek()?;
        Ok(next.map(|page| {
            let values = page.header.values as usize;
            match page.header.kind {
                // The number of values in the next part is not known.
                _ if self.parts.is_some() || self.sequence.is_some() => {
                    PageMetadata { num_rows: None, num_levels: None, is_dict: false }
                }
                PageKind::DataV2 { rows, .. } => {
                    PageMetadata { num_rows: Some(rows as usize), num_levels: Some(values), is_dict: false }
                }
                PageKind::Data { .. } => {
                    PageMetadata { num_rows: None, num_levels: Some(values), is_dict: false }
                }
                PageKind::Dictionary | PageKind::Other => {
                    PageMetadata { num_rows: None, num_levels: None, is_dict: true }
                }
            }
        }))
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        if let Some(next) = self.peek()? {
            self.pass(&next);
            if next.header.kind == PageKind::Dictionary {
                self.deferred = Some(next);
            }
        }
        Ok(())
    }

    fn at_record_boundary(&mut self) -> Result<bool, ParquetError> {
        let next = self.peek()?;
        // Pages of version 2 start with a row.
        Ok(next.is_none_or(|page| matches!(page.header.kind, PageKind::DataV2 { .. })))
    }

    fn supports_deferred_dictionary(&self) -> bool {
        true
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>, ParquetError> {
        let deferred = self.deferred.take();
        deferred.map(|page| self.load(&page)).transpose()
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
