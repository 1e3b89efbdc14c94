//! OCDBT is a key-value store in a few files. A manifest specifies the root of a B+tree. Data files
//! contain nodes and values.
//!
//! ```text
//! manifest, node   magic u32 (big-endian), length u64, version 0, compression (0, 1 zstd), body, crc32c of all before
//! file table       n, n-1 shared prefix lengths, n suffix lengths, n base path lengths, path suffixes
//! manifest body    uuid 16, kind u8, max_inline, max_node, arity u8, compression, file table, versions
//! node body        height u8, file table, n; keys: n-1 shared prefix lengths, n suffix lengths,
//!                  (inner nodes: n subtree prefix lengths), key suffixes
//! leaf             n lengths, n kinds u8, files and offsets of the indirect values, bytes of the inline values
//! inner node       n files, n offsets, n lengths, three statistics
//! ```
//!
//! Numbers are LEB128 unless a width is given. Nodes and tables are stored by column: the values of
//! one field for all entries precede the values of the next field.

use crate::span::{MANIFEST, Span, open_in};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};
use std::io::Read as _;
use std::rc::Rc;
use tensorferry_sdk::{Context, Error, FileId, Limits, Result, Source, crc32c};

const MANIFEST_MAGIC: u32 = 0x0cdb_3a2a;
const NODE_MAGIC: u32 = 0x0cdb_20de;
/// Minimum and maximum for the limit on a node's decoded length. The manifest sets the limit within
/// these bounds.
const NODE_BYTES: (u64, u64) = (8 << 20, 128 << 20);
/// Maximum number of entries in a node or a table.
const MAX_ENTRIES: u64 = 1 << 20;
/// Size of an entry in memory, in bytes, excluding its key or path.
const ENTRY_BYTES: usize = 64;

/// A data file. Its path consists of `base` and `rest`. Files to which this data file refers
/// inherit `base`. Thousands of entries may share one `DataFile`.
#[derive(Debug)]
struct DataFile {
    base: String,
    rest: String,
    opened: OnceCell<FileId>,
}

impl DataFile {
    fn open(&self, source: &dyn Source, folder: &str) -> Result<FileId> {
        if let Some(file) = self.opened.get() {
            return Ok(*file);
        }
        let file = open_in(source, folder, &format!("{}{}", self.base, self.rest))?;
        Ok(*self.opened.get_or_init(|| file))
    }
}

/// A node that has not been read.
struct PendingNode {
    file: Rc<DataFile>,
    offset: u64,
    len: u64,
    height: u8,
    prefix: Vec<u8>,
}

/// Memory budget of a store. Keys share prefixes and zstd expands data, so a few bytes may decode
/// to many more bytes. The budget therefore grows with the number of bytes read, up to the limit.
struct Budget {
    held: u64,
    max: u64,
    limit: u64,
}

impl Budget {
    /// Initial budget in bytes, before any bytes are read.
    const ALLOWANCE: u64 = 32 << 20;
    /// Number of bytes added to the budget for each byte read.
    const MAX_RATIO: u64 = 256;

    fn new(limits: &Limits) -> Self {
        Self { held: 0, max: Self::ALLOWANCE.min(limits.header_bytes), limit: limits.header_bytes }
    }

    /// Increases the budget after `len` bytes have been read.
    fn read(&mut self, len: usize) {
        self.max = self.max.saturating_add(Self::MAX_RATIO.saturating_mul(len as u64)).min(self.limit);
    }

    fn left(&self) -> u64 {
        self.max.saturating_sub(self.held)
    }

    fn count_bytes(&mut self, len: usize) -> Result<()> {
        self.held = self.held.saturating_add(len as u64);
        if self.held <= self.max {
            return Ok(());
        }
        let what = "the nodes of the OCDBT store expand too much";
        Err(Error::limit(what).expected(format!("at most {} bytes", self.max)).found(self.held))
    }
}

/// Returns the keys of the store with the locations of their values.
pub(crate) fn keys(
    source: &dyn Source,
    folder: &str,
    context: &dyn Context,
) -> Result<BTreeMap<String, Span>> {
    let limits = context.limits();
    let manifest = format!("{folder}{MANIFEST}");
    let file = source.open(&manifest)?;
    let bytes = source.read_vec(file, 0, source.len(file), limits)?;
    let mut budget = Budget::new(limits);
    budget.read(bytes.len());
    let in_manifest = |error: Error| error.file(&*manifest);
    let body = unframe(&bytes, MANIFEST_MAGIC, NODE_BYTES.1.min(budget.left())).map_err(in_manifest)?;
    let (root, max) = newest_root(&body).map_err(in_manifest)?;
    drop((bytes, body));
    let mut found = BTreeMap::new();
    let mut waiting: Vec<PendingNode> = root.into_iter().collect();
    let mut visited = HashSet::new();
    let mut last: Option<Vec<u8>> = None;
    while let Some(node) = waiting.pop() {
        context.check_cancelled()?;
        let at = |error: Error| {
            if error.details().any(|(name, _)| name == "file") {
                error
            } else {
                error.file(format!("{folder}{}{}", node.file.base, node.file.rest)).offset(node.offset)
            }
        };
        let file = node.file.open(source, folder)?;
        if node.len > max {
            return Err(at(Error::malformed("the node is too long").expected(max).found(node.len)));
        }
        if !visited.insert((file, node.offset)) {
            return Err(at(Error::malformed("two nodes have the same child")));
        }
        let bytes = source.read_vec(file, node.offset, node.len, limits).map_err(at)?;
        budget.read(bytes.len());
        let body = unframe(&bytes, NODE_MAGIC, max.min(budget.left())).map_err(at)?;
        budget.count_bytes(body.len()).map_err(at)?;
        let children = entries(&body, &node, &mut budget, |key, value| {
            if found.len() as u64 >= limits.entries {
                return Err(Error::limit("the OCDBT store has too many keys")
                    .expected(format!("at most {}", limits.entries))
                    .hint("raise the limit with --limit entries=N"));
            }
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Err(Error::malformed("keys are not in order").found(key.escape_ascii()));
            }
            last = Some(key.clone());
            // The keys of arrays are UTF-8, so other keys are ignored.
            let Ok(key) = String::from_utf8(key) else { return Ok(()) };
            let span = match value {
                Value::Inline(bytes) => Span::inline(bytes),
                Value::Indirect(data, offset, len) => {
                    let file = data.open(source, folder)?;
                    check_inside(source, file, offset, len)
                        .map_err(|error| error.context(format!("key {key:?}")))?;
                    Span::File { file, offset, len }
                }
            };
            found.insert(key, span);
            Ok(())
        });
        waiting.extend(children.map_err(at)?.into_iter().rev());
    }
    Ok(found)
}

/// Checks that a range is within its file.
fn check_inside(source: &dyn Source, file: FileId, offset: u64, len: u64) -> Result<()> {
    if offset.checked_add(len).is_some_and(|end| end <= source.len(file)) {
        return Ok(());
    }
    let error =
        Error::malformed("a value extends past the end of its file").file(source.name(file)).offset(offset);
    Err(error.expected(format!("within {} bytes", source.len(file))).found(format!("{len} bytes")))
}

/// Checks the frame of a manifest or node and returns its body.
fn unframe(bytes: &[u8], magic: u32, max: u64) -> Result<Vec<u8>> {
    let mut fields = FieldReader(bytes);
    let found = u32::from_be_bytes(fields.array()?);
    if found != magic {
        let error = Error::malformed("wrong magic number in the OCDBT store");
        return Err(error.expected(format!("{magic:#010x}")).found(format!("{found:#010x}")));
    }
    let len = u64::from_le_bytes(fields.array()?);
    if len != bytes.len() as u64 {
        return Err(Error::malformed("wrong length").expected(bytes.len()).found(len));
    }
    let (content, stored) = bytes.split_last_chunk::<4>().ok_or_else(truncated)?;
    let (stored, computed) = (u32::from_le_bytes(*stored), crc32c(content));
    if stored != computed {
        let error = Error::malformed("wrong crc32c");
        return Err(error.expected(format!("{stored:#010x}")).found(format!("{computed:#010x}")));
    }
    let mut fields = FieldReader(content.get(12..).ok_or_else(truncated)?);
    let version = fields.varint()?;
    if version != 0 {
        return Err(Error::unsupported("unknown OCDBT version").expected(0).found(version));
    }
    match fields.varint()? {
        0 => Ok(fields.0.to_vec()),
        1 => {
            let mut body = Vec::new();
            let decoder = zstd::stream::read::Decoder::new(fields.0);
            let read = decoder.and_then(|decoder| decoder.take(max + 1).read_to_end(&mut body));
            read.map_err(|error| Error::malformed("invalid zstd data").found(error))?;
            if body.len() as u64 > max {
                return Err(
                    Error::malformed("the decoded node is too long").expected(format!("at most {max} bytes"))
                );
            }
            Ok(body)
        }
        other => Err(Error::unsupported("unknown compression").expected("0 or 1").found(other)),
    }
}

/// Returns the root of the newest version, and the maximum decoded length of a node.
fn newest_root(body: &[u8]) -> Result<(Option<PendingNode>, u64)> {
    let mut fields = FieldReader(body);
    fields.take(16)?;
    let kind = fields.byte()?;
    if kind != 0 {
        return Err(Error::unsupported("a store with numbered manifests").found(format!("kind {kind}")));
    }
    let _max_inline = fields.varint()?;
    let max = fields.varint()?.clamp(NODE_BYTES.0, NODE_BYTES.1);
    let _arity = fields.byte()?;
    if fields.varint()? != 0 {
        fields.take(4)?;
    }
    let files = file_table(&mut fields, "")?;
    let count = fields.count()?;
    let Some(last) = count.checked_sub(1) else { return Ok((None, max)) };
    fields.column(count)?;
    let heights = fields.take(count)?;
    let (ids, offsets, lens) = (fields.column(count)?, fields.column(count)?, fields.column(count)?);
    if offsets[last] == u64::MAX {
        return Ok((None, max));
    }
    let file = file_of(&files, ids[last])?;
    let root = PendingNode {
        file,
        offset: offsets[last],
        len: lens[last],
        height: heights[last],
        prefix: Vec::new(),
    };
    Ok((Some(root), max))
}

/// A value, as a leaf stores it.
enum Value<'a> {
    Inline(&'a [u8]),
    Indirect(Rc<DataFile>, u64, u64),
}

/// Passes the values of a leaf to `each`, or returns the children of an inner node.
fn entries(
    body: &[u8],
    node: &PendingNode,
    budget: &mut Budget,
    mut each: impl FnMut(Vec<u8>, Value<'_>) -> Result<()>,
) -> Result<Vec<PendingNode>> {
    let mut fields = FieldReader(body);
    let height = fields.byte()?;
    if height != node.height {
        let error = Error::malformed("the height of a node does not match its parent");
        return Err(error.expected(node.height).found(height));
    }
    let files = file_table(&mut fields, &node.file.base)?;
    budget.count_bytes(files.iter().map(|file| ENTRY_BYTES + file.base.len() + file.rest.len()).sum())?;
    let count = fields.count()?;
    if count == 0 {
        return Err(Error::malformed("the node has no entries"));
    }
    let (shared, lens) = (fields.column(count - 1)?, fields.column(count)?);
    let prefixes = if height > 0 { fields.column(count)? } else { Vec::new() };
    let mut keys: Vec<Vec<u8>> = Vec::with_capacity(count);
    for (index, &len) in lens.iter().enumerate() {
        let mut key = Vec::new();
        if let (Some(before), Some(&len)) = (keys.last(), index.checked_sub(1).and_then(|at| shared.get(at)))
        {
            let part = usize::try_from(len).ok().and_then(|len| before.get(..len));
            key.extend(
                part.ok_or_else(|| Error::malformed("a shared prefix is longer than the previous key"))?,
            );
        }
        key.extend(fields.slice(len)?);
        budget.count_bytes(ENTRY_BYTES + key.len())?;
        if keys.last().is_some_and(|before| *before >= key) {
            return Err(Error::malformed("a node's keys are not in order"));
        }
        keys.push(key);
    }
    let mut whole = |key: &[u8], value_len: usize| -> Result<Vec<u8>> {
        budget.count_bytes(node.prefix.len() + key.len() + value_len)?;
        Ok([&node.prefix, key].concat())
    };
    if height > 0 {
        let (ids, offsets, sizes) = (fields.column(count)?, fields.column(count)?, fields.column(count)?);
        let children = keys.iter().enumerate().map(|(index, key)| {
            let common = usize::try_from(prefixes[index]).ok().and_then(|len| key.get(..len));
            let common = common.ok_or_else(|| Error::malformed("a prefix is longer than its key"))?;
            Ok(PendingNode {
                file: file_of(&files, ids[index])?,
                offset: offsets[index],
                len: sizes[index],
                height: height - 1,
                prefix: whole(common, 0)?,
            })
        });
        return children.collect();
    }
    let lens = fields.column(count)?;
    let kinds = fields.take(count)?.to_vec();
    let indirect = kinds.iter().filter(|kind| **kind == 1).count();
    let (ids, offsets) = (fields.column(indirect)?, fields.column(indirect)?);
    let mut places = ids.into_iter().zip(offsets);
    for ((key, len), kind) in keys.iter().zip(lens).zip(kinds) {
        let value = match (kind, places.len()) {
            (0, _) => Value::Inline(fields.slice(len)?),
            (1, 1..) => {
                let (id, offset) = places.next().ok_or_else(truncated)?;
                Value::Indirect(file_of(&files, id)?, offset, len)
            }
            _ => return Err(Error::malformed("unknown kind of value").found(kind)),
        };
        let held = if let Value::Inline(bytes) = value { bytes.len() } else { 0 };
        each(whole(key, held)?, value)?;
    }
    Ok(Vec::new())
}

fn file_of(files: &[Rc<DataFile>], id: u64) -> Result<Rc<DataFile>> {
    let file = usize::try_from(id).ok().and_then(|id| files.get(id)).cloned();
    file.ok_or_else(|| Error::malformed("a file is not in the table").expected(files.len()).found(id))
}

fn file_table(fields: &mut FieldReader<'_>, inherited: &str) -> Result<Vec<Rc<DataFile>>> {
    let count = fields.count()?;
    let Some(later) = count.checked_sub(1) else { return Ok(Vec::new()) };
    let (shared, lens, bases) = (fields.column(later)?, fields.column(count)?, fields.column(count)?);
    let wrong = || Error::malformed("invalid path in the file table");
    let mut files = Vec::new();
    let mut path: Vec<u8> = Vec::new();
    let mut unfolded = 0_usize;
    for index in 0..count {
        let kept = if index == 0 { 0 } else { usize::try_from(shared[index - 1]).map_err(|_| wrong())? };
        if kept > path.len() {
            return Err(wrong());
        }
        path.truncate(kept);
        path.extend(fields.slice(lens[index])?);
        unfolded = unfolded.saturating_add(path.len() + inherited.len());
        if path.len() > 0xffff || unfolded as u64 > NODE_BYTES.0 {
            return Err(wrong());
        }
        let text = std::str::from_utf8(&path).map_err(|_| wrong())?;
        let base = usize::try_from(bases[index]).ok().filter(|base| text.is_char_boundary(*base));
        let (base, rest) = text.split_at_checked(base.ok_or_else(wrong)?).ok_or_else(wrong)?;
        let (base, rest) = (format!("{inherited}{base}"), rest.to_owned());
        files.push(Rc::new(DataFile { base, rest, opened: OnceCell::new() }));
    }
    Ok(files)
}

fn truncated() -> Error {
    Error::malformed("the OCDBT store is truncated")
}

/// The part of a body that has not been read.
struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn slice(&mut self, len: u64) -> Result<&'a [u8]> {
        self.take(usize::try_from(len).map_err(|_| truncated())?)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| truncated())
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::malformed("a number is longer than 64 bits"))
    }

    /// Reads the number of entries that follow. Each entry occupies at least one byte.
    fn count(&mut self) -> Result<usize> {
        let count = self.varint()?;
        let max = MAX_ENTRIES.min(self.0.len() as u64);
        usize::try_from(count).ok().filter(|_| count <= max).ok_or_else(|| {
            let error = Error::malformed("too many entries for the length or the limit of a node");
            error.expected(format!("at most {max}")).found(count)
        })
    }

    fn column(&mut self, count: usize) -> Result<Vec<u64>> {
        if count > self.0.len() {
            return Err(truncated());
        }
        (0..count).map(|_| self.varint()).collect()
    }
}
