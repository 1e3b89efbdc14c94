//! OCDBT is a key-value store in a few files: a manifest that names the root of a B+tree, and data files with nodes and values.
//!
//! ```text
//! manifest, node   magic u32 (big-endian), length u64, version 0, compression (0, 1 zstd), body, crc32c of all before
//! file table       n, n-1 shared lengths, n lengths, n lengths of bases, the paths' ends
//! manifest's body  uuid 16, kind u8, max_inline, max_node, arity u8, compression, file table, versions
//! node's body      height u8, file table, n; keys: n-1 shared lengths, n lengths, (inner: n lengths of prefixes), ends
//! leaf             n lengths, n kinds u8, files and offsets of the indirect values, bytes of the inline ones
//! inner node       n files, n offsets, n lengths, three statistics
//! ```
//!
//! Numbers are LEB128 but where a width is given; each field stands for all entries before the next one does.

use crate::span::{MANIFEST, Span, open_in};
use std::collections::BTreeMap;
use std::io::Read as _;
use tensorferry_sdk::{Context, Error, FileId, Result, Source, crc32c};

const MANIFEST_MAGIC: u32 = 0x0cdb_3a2a;
const NODE_MAGIC: u32 = 0x0cdb_20de;
/// The least that a node may be decoded to, and the most.
const NODE_BYTES: (u64, u64) = (8 << 20, 128 << 20);
/// Entries of a node.
const MOST_ENTRIES: u64 = 1 << 20;

/// A data file: the part of its path that files named in it inherit, and the rest.
#[derive(Debug, Clone)]
struct DataFile {
    base: String,
    rest: String,
}

/// A node that is still to be read.
struct Waiting {
    file: DataFile,
    offset: u64,
    len: u64,
    height: u8,
    prefix: Vec<u8>,
}

/// Where each key's value lies.
///
/// # Errors
/// Malformed, unsupported or over a limit, with the file; i/o.
pub(crate) fn keys(
    source: &dyn Source,
    folder: &str,
    context: &dyn Context,
) -> Result<BTreeMap<String, Span>> {
    let limits = context.limits();
    let manifest = format!("{folder}{MANIFEST}");
    let file = source.open(&manifest)?;
    let bytes = source.read_vec(file, 0, source.len(file), limits)?;
    let in_manifest = |error: Error| error.file(&*manifest);
    let body = frame(&bytes, MANIFEST_MAGIC, NODE_BYTES.1).map_err(in_manifest)?;
    let (root, most) = newest(&body).map_err(in_manifest)?;
    let mut found = BTreeMap::new();
    let mut waiting: Vec<Waiting> = root.into_iter().collect();
    // Nodes may be shared, so that what they unfold to is bounded by itself.
    let mut held = 0_u64;
    let mut last: Option<Vec<u8>> = None;
    while let Some(node) = waiting.pop() {
        context.check_cancelled()?;
        let path = format!("{}{}", node.file.base, node.file.rest);
        let at = |error: Error| {
            if error.details().any(|(name, _)| name == "file") {
                error
            } else {
                error.file(format!("{folder}{path}")).offset(node.offset)
            }
        };
        let file = open_in(source, folder, &path)?;
        if node.len > most {
            return Err(at(Error::malformed("a node that is too long").expected(most).found(node.len)));
        }
        let bytes = source.read_vec(file, node.offset, node.len, limits).map_err(at)?;
        let body = frame(&bytes, NODE_MAGIC, most).map_err(at)?;
        held = held.saturating_add(body.len() as u64);
        let children = entries(&body, &node, |key, value| {
            held = held.saturating_add(key.len() as u64 + 64);
            if held > limits.header_bytes || found.len() as u64 >= limits.entries {
                return Err(Error::limit("an OCDBT store of too many keys"));
            }
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Err(Error::malformed("keys are not in order").found(key.escape_ascii()));
            }
            last = Some(key.clone());
            // Keys that are no text name no array.
            let Ok(key) = String::from_utf8(key) else { return Ok(()) };
            let span = match value {
                Value::Inline(bytes) => {
                    held = held.saturating_add(bytes.len() as u64);
                    Span::Inline(bytes)
                }
                Value::Indirect(data, offset, len) => {
                    let file = open_in(source, folder, &format!("{}{}", data.base, data.rest))?;
                    inside(source, file, offset, len)
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

/// That a range is in its file.
fn inside(source: &dyn Source, file: FileId, offset: u64, len: u64) -> Result<()> {
    if offset.checked_add(len).is_some_and(|end| end <= source.len(file)) {
        return Ok(());
    }
    let error =
        Error::malformed("a value reaches past its file's end").file(source.name(file)).offset(offset);
    Err(error.expected(format!("within {} bytes", source.len(file))).found(format!("{len} bytes")))
}

/// The body of a manifest or node.
fn frame(bytes: &[u8], magic: u32, most: u64) -> Result<Vec<u8>> {
    let mut fields = Fields(bytes);
    let found = u32::from_be_bytes(fields.array()?);
    if found != magic {
        let error = Error::malformed("not the magic of this part of an OCDBT store");
        return Err(error.expected(format!("{magic:#010x}")).found(format!("{found:#010x}")));
    }
    let len = u64::from_le_bytes(fields.array()?);
    if len != bytes.len() as u64 {
        return Err(Error::malformed("the length is another").expected(bytes.len()).found(len));
    }
    let (content, stored) = bytes.split_last_chunk::<4>().ok_or_else(short)?;
    let (stored, computed) = (u32::from_le_bytes(*stored), crc32c(content));
    if stored != computed {
        let error = Error::malformed("the crc32c is wrong");
        return Err(error.expected(format!("{stored:#010x}")).found(format!("{computed:#010x}")));
    }
    let mut fields = Fields(content.get(12..).ok_or_else(short)?);
    let version = fields.varint()?;
    if version != 0 {
        return Err(Error::unsupported("a version of OCDBT that is not known").expected(0).found(version));
    }
    match fields.varint()? {
        0 => Ok(fields.0.to_vec()),
        1 => {
            let mut body = Vec::new();
            let decoder = zstd::stream::read::Decoder::new(fields.0);
            let read = decoder.and_then(|decoder| decoder.take(most + 1).read_to_end(&mut body));
            read.map_err(|error| Error::malformed("not what zstd made").found(error))?;
            if body.len() as u64 > most {
                return Err(Error::malformed("a node that becomes too long")
                    .expected(format!("at most {most} bytes")));
            }
            Ok(body)
        }
        other => Err(Error::unsupported("a compression that is not known").expected("0 or 1").found(other)),
    }
}

/// The newest version's root, and how long a node may be.
fn newest(body: &[u8]) -> Result<(Option<Waiting>, u64)> {
    let mut fields = Fields(body);
    fields.take(16)?;
    let kind = fields.byte()?;
    if kind != 0 {
        return Err(Error::unsupported("a store whose manifests are numbered").found(format!("kind {kind}")));
    }
    let _max_inline = fields.varint()?;
    let most = fields.varint()?.clamp(NODE_BYTES.0, NODE_BYTES.1);
    let _arity = fields.byte()?;
    if fields.varint()? != 0 {
        fields.take(4)?;
    }
    let files = file_table(&mut fields, "")?;
    let count = fields.count()?;
    let Some(last) = count.checked_sub(1) else { return Ok((None, most)) };
    fields.column(count)?;
    let heights = fields.take(count)?;
    let (ids, offsets, lens) = (fields.column(count)?, fields.column(count)?, fields.column(count)?);
    if offsets[last] == u64::MAX {
        return Ok((None, most));
    }
    let file = file_of(&files, ids[last])?;
    let root =
        Waiting { file, offset: offsets[last], len: lens[last], height: heights[last], prefix: Vec::new() };
    Ok((Some(root), most))
}

/// A value as a leaf has it.
enum Value {
    Inline(Vec<u8>),
    Indirect(DataFile, u64, u64),
}

/// Gives a leaf's values, or the nodes below an inner one.
fn entries(
    body: &[u8],
    node: &Waiting,
    mut each: impl FnMut(Vec<u8>, Value) -> Result<()>,
) -> Result<Vec<Waiting>> {
    let mut fields = Fields(body);
    let height = fields.byte()?;
    if height != node.height {
        let error = Error::malformed("a node of another height than its parent says");
        return Err(error.expected(node.height).found(height));
    }
    let files = file_table(&mut fields, &node.file.base)?;
    let count = fields.count()?;
    if count == 0 || count as u64 > MOST_ENTRIES {
        return Err(Error::malformed("a node of no entries or too many").found(count));
    }
    let (shared, lens) = (fields.column(count - 1)?, fields.column(count)?);
    let prefixes = if height > 0 { fields.column(count)? } else { Vec::new() };
    let mut keys: Vec<Vec<u8>> = Vec::with_capacity(count);
    let mut unfolded = 0_usize;
    for (index, &len) in lens.iter().enumerate() {
        let mut key = Vec::new();
        if let (Some(before), Some(&len)) = (keys.last(), index.checked_sub(1).and_then(|at| shared.get(at)))
        {
            let part = usize::try_from(len).ok().and_then(|len| before.get(..len));
            key.extend(part.ok_or_else(|| Error::malformed("a key shares more than the one before it has"))?);
        }
        key.extend(fields.slice(len)?);
        unfolded = unfolded.saturating_add(key.len());
        if unfolded as u64 > NODE_BYTES.1 {
            return Err(Error::malformed("a node whose keys unfold to too much"));
        }
        if keys.last().is_some_and(|before| *before >= key) {
            return Err(Error::malformed("a node's keys are not in order"));
        }
        keys.push(key);
    }
    let whole = |key: &[u8]| [&node.prefix, key].concat();
    if height > 0 {
        let (ids, offsets, sizes) = (fields.column(count)?, fields.column(count)?, fields.column(count)?);
        let children = keys.iter().enumerate().map(|(index, key)| {
            let common = usize::try_from(prefixes[index]).ok().and_then(|len| key.get(..len));
            let common = common.ok_or_else(|| Error::malformed("a prefix is longer than its key"))?;
            Ok(Waiting {
                file: file_of(&files, ids[index])?,
                offset: offsets[index],
                len: sizes[index],
                height: height - 1,
                prefix: whole(common),
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
            (0, _) => Value::Inline(fields.slice(len)?.to_vec()),
            (1, 1..) => {
                let (id, offset) = places.next().ok_or_else(short)?;
                Value::Indirect(file_of(&files, id)?, offset, len)
            }
            _ => return Err(Error::malformed("a value of a kind that is not known").found(kind)),
        };
        each(whole(key), value)?;
    }
    Ok(Vec::new())
}

fn file_of(files: &[DataFile], id: u64) -> Result<DataFile> {
    let file = usize::try_from(id).ok().and_then(|id| files.get(id)).cloned();
    file.ok_or_else(|| Error::malformed("a file that is not in the table").expected(files.len()).found(id))
}

fn file_table(fields: &mut Fields<'_>, inherited: &str) -> Result<Vec<DataFile>> {
    let count = fields.count()?;
    let Some(later) = count.checked_sub(1) else { return Ok(Vec::new()) };
    let (shared, lens, bases) = (fields.column(later)?, fields.column(count)?, fields.column(count)?);
    let wrong = || Error::malformed("a path of the file table does not fit the others");
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
        files.push(DataFile { base: format!("{inherited}{base}"), rest: rest.to_owned() });
    }
    Ok(files)
}

fn short() -> Error {
    Error::malformed("a part of an OCDBT store ends too early")
}

/// What is left of a body.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn slice(&mut self, len: u64) -> Result<&'a [u8]> {
        self.take(usize::try_from(len).map_err(|_| short())?)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| short())
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
        Err(Error::malformed("a number of more than 64 bits"))
    }

    /// How many entries follow, each of a byte at least.
    fn count(&mut self) -> Result<usize> {
        let count = self.varint()?;
        usize::try_from(count).ok().filter(|count| *count <= self.0.len()).ok_or_else(|| {
            let error = Error::malformed("more entries than there are bytes");
            error.expected(format!("at most {}", self.0.len())).found(count)
        })
    }

    fn column(&mut self, count: usize) -> Result<Vec<u64>> {
        if count > self.0.len() {
            return Err(short());
        }
        (0..count).map(|_| self.varint()).collect()
    }
}
