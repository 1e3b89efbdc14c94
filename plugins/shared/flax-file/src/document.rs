//! A document is the tree of the values in a file, without the elements of the arrays. The reader
//! does not recurse, because the file controls the nesting depth.

use crate::array::Array;
use crate::cursor::Cursor;
use crate::{ARRAY, COMPLEX, MAX_NESTING, SCALAR};
use rmp::Marker;
use std::collections::HashSet;
use std::fmt;
use tensorferry_sdk::{Context, Error, FileId, Node, NodeKind, Result, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    Text(String),
    Int(i128),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Int(number) => number.fmt(f),
        }
    }
}

/// A value in a file.
#[derive(Debug)]
pub enum Item {
    /// A value without children.
    Leaf(Node),
    Array(Array),
    /// A list, with the indices of its items.
    List(Vec<u32>),
    /// A map, with its keys and the indices of its values.
    Map(Vec<(Key, u32)>),
    /// An extension of a type that Flax does not define.
    Unknown(i8),
}

/// The values of a file. Children precede their parents, and the root is the last value.
#[derive(Debug)]
pub struct Document {
    pub items: Vec<Item>,
}

/// A map or a list that is being read.
struct OpenContainer {
    is_map: bool,
    left: u64,
    place: u64,
    /// Key of the next value.
    key: Option<Key>,
    keys: Vec<Key>,
    parts: Vec<u32>,
}

/// A complete value, or the start of a map or list.
enum ItemStart {
    Item(Item),
    Container { is_map: bool, count: u64 },
}

/// A reader of the values in a file, in order.
struct Walk<'a> {
    cursor: Cursor<'a>,
    context: &'a dyn Context,
    items: Vec<Item>,
    /// Total length in bytes of the strings and byte strings that are in memory.
    held: u64,
}

impl Document {
    /// Reads a whole file.
    pub fn read(source: &dyn Source, file: FileId, context: &dyn Context) -> Result<Self> {
        let mut walk = Walk { cursor: Cursor::new(source, file), context, items: Vec::new(), held: 0 };
        walk.run(u64::MAX)?;
        if walk.cursor.rest() > 0 {
            let error = Error::malformed("extra bytes after the value").offset(walk.cursor.position());
            return Err(error.expected("the file's end").found(format!("{} bytes", walk.cursor.rest())));
        }
        Ok(Self { items: walk.items })
    }

    /// Reads the first values of a file. Returns whether at least one of them is an array.
    pub fn starts_with_arrays(source: &dyn Source, file: FileId, context: &dyn Context) -> Result<bool> {
        const VALUES: u64 = 64;
        let mut walk = Walk { cursor: Cursor::new(source, file), context, items: Vec::new(), held: 0 };
        walk.run(VALUES)?;
        Ok(walk.items.iter().any(|item| matches!(item, Item::Array(_))))
    }
}

impl Walk<'_> {
    /// Reads the root value with all its children, but at most `max` values.
    fn run(&mut self, max: u64) -> Result<()> {
        let limits = self.context.limits();
        let mut open: Vec<OpenContainer> = Vec::new();
        loop {
            let place = self.cursor.position();
            let mut item = match self.value().map_err(|error| at(error, place))? {
                ItemStart::Item(item) => item,
                ItemStart::Container { is_map, count } if count > 0 => {
                    if open.len() >= MAX_NESTING {
                        let error = Error::limit("maps and lists are nested too deeply").offset(place);
                        return Err(error.expected(format!("at most {MAX_NESTING} levels")));
                    }
                    let key = if is_map { Some(self.key()?) } else { None };
                    open.push(OpenContainer {
                        is_map,
                        left: count,
                        place,
                        key,
                        keys: Vec::new(),
                        parts: Vec::new(),
                    });
                    continue;
                }
                ItemStart::Container { is_map: true, .. } => Item::Map(Vec::new()),
                ItemStart::Container { .. } => Item::List(Vec::new()),
            };
            loop {
                if self.items.len() as u64 >= limits.nodes {
                    let error = Error::limit("too many values").offset(place);
                    return Err(error
                        .hint("raise the limit with --limit nodes=N")
                        .expected(format!("at most {}", limits.nodes)));
                }
                if self.items.len().is_multiple_of(1 << 16) {
                    self.context.check_cancelled()?;
                }
                let id = u32::try_from(self.items.len()).map_err(|_| Error::limit("too many values"))?;
                self.items.push(item);
                let Some(parent) = open.last_mut() else { return Ok(()) };
                if u64::from(id) + 1 >= max {
                    return Ok(());
                }
                parent.keys.extend(parent.key.take());
                parent.parts.push(id);
                parent.left -= 1;
                if parent.left > 0 {
                    if parent.is_map {
                        let key = self.key()?;
                        open.last_mut().into_iter().for_each(|parent| parent.key = Some(key.clone()));
                    }
                    break;
                }
                let Some(done) = open.pop() else { return Ok(()) };
                item = done.close()?;
            }
        }
    }

    /// Reads a value without children, or the header of a map or list.
    fn value(&mut self) -> Result<ItemStart> {
        let place = self.cursor.position();
        let marker = self.cursor.marker()?;
        if let Some(count) = self.cursor.list_len(marker)? {
            self.cursor.check_remaining(count, "a list (at one byte per item)")?;
            return Ok(ItemStart::Container { is_map: false, count });
        }
        if let Some(len) = self.cursor.text_len(marker)? {
            let text = self.counted_text(len)?;
            return Ok(ItemStart::Item(Item::Leaf(Node::text(&text))));
        }
        if let Some(len) = self.cursor.bin_len(marker)? {
            self.cursor.check_remaining(len, "a byte string")?;
            self.count_bytes(len)?;
            let bytes = self.cursor.vec(len, self.context.limits())?;
            return Ok(ItemStart::Item(Item::Leaf(Node::scalar(NodeKind::BYTES, &bytes))));
        }
        if let Some(number) = self.cursor.integer(marker)? {
            return Ok(ItemStart::Item(Item::Leaf(Node::wide_int(number))));
        }
        if let Some((number, is_narrow)) = self.cursor.float(marker)? {
            let class = if is_narrow { "F32" } else { "" };
            return Ok(ItemStart::Item(Item::Leaf(Node { class: class.into(), ..Node::float(number) })));
        }
        let count = match marker {
            Marker::FixMap(count) => count.into(),
            Marker::Map16 => self.cursor.length(2)?,
            Marker::Map32 => self.cursor.length(4)?,
            Marker::Null => return Ok(ItemStart::Item(Item::Leaf(Node::none()))),
            Marker::True | Marker::False => {
                return Ok(ItemStart::Item(Item::Leaf(Node::bool(marker == Marker::True))));
            }
            Marker::FixExt1 => return self.extension(place, 1),
            Marker::FixExt2 => return self.extension(place, 2),
            Marker::FixExt4 => return self.extension(place, 4),
            Marker::FixExt8 => return self.extension(place, 8),
            Marker::FixExt16 => return self.extension(place, 16),
            Marker::Ext8 | Marker::Ext16 | Marker::Ext32 => {
                let width = match marker {
                    Marker::Ext8 => 1,
                    Marker::Ext16 => 2,
                    _ => 4,
                };
                let len = self.cursor.length(width)?;
                return self.extension(place, len);
            }
            _ => {
                let error = Error::malformed("invalid first byte of a msgpack value").offset(place);
                return Err(error.found(format!("{:#04x}", marker.to_u8())));
            }
        };
        self.cursor.check_remaining(count.saturating_mul(2), "a map (at two bytes per entry)")?;
        Ok(ItemStart::Container { is_map: true, count })
    }

    fn extension(&mut self, place: u64, len: u64) -> Result<ItemStart> {
        let [kind] = self.cursor.bytes::<1>()?;
        let kind = i8::from_be_bytes([kind]);
        self.cursor.check_remaining(len, "an extension")?;
        let end = self.cursor.position() + len;
        let item = match kind {
            ARRAY | SCALAR => {
                Item::Array(Array::read(&mut self.cursor, place, kind, len, self.context.limits())?)
            }
            COMPLEX => {
                let wrong = || Error::malformed("a complex number is not two floats").offset(place);
                let marker = self.cursor.marker()?;
                if self.cursor.list_len(marker)? != Some(2) {
                    return Err(wrong());
                }
                let mut bytes = [0; 16];
                for half in bytes.chunks_exact_mut(8) {
                    let marker = self.cursor.marker()?;
                    let (number, _) = self.cursor.float(marker)?.ok_or_else(wrong)?;
                    half.copy_from_slice(&number.to_le_bytes());
                }
                if self.cursor.position() != end {
                    return Err(wrong());
                }
                Item::Leaf(Node::scalar(NodeKind::COMPLEX, &bytes))
            }
            kind => {
                self.cursor.skip(len)?;
                Item::Unknown(kind)
            }
        };
        Ok(ItemStart::Item(item))
    }

    fn key(&mut self) -> Result<Key> {
        let place = self.cursor.position();
        let marker = self.cursor.marker()?;
        if let Some(len) = self.cursor.text_len(marker)? {
            return self.counted_text(len).map(Key::Text);
        }
        let number = self.cursor.integer(marker)?.map(Key::Int);
        number.ok_or_else(|| {
            let error = Error::malformed("a map key is neither a string nor an integer").offset(place);
            error.found(format!("a value that begins with {:#04x}", marker.to_u8()))
        })
    }

    fn counted_text(&mut self, len: u64) -> Result<String> {
        self.cursor.check_remaining(len, "a text")?;
        self.count_bytes(len)?;
        self.cursor.text(len, self.context.limits())
    }

    /// Counts the bytes of strings against the limit for the length of a header.
    fn count_bytes(&mut self, len: u64) -> Result<()> {
        self.held = self.held.saturating_add(len);
        let max = self.context.limits().header_bytes;
        if self.held > max {
            let error = Error::limit("too many bytes of text").offset(self.cursor.position());
            return Err(error
                .hint("raise the limit with --limit header_bytes=N")
                .expected(format!("at most {max}")));
        }
        Ok(())
    }
}

impl OpenContainer {
    fn close(self) -> Result<Item> {
        if !self.is_map {
            return Ok(Item::List(self.parts));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = self.keys.iter().find(|key| !seen.insert(*key)) {
            let error = Error::malformed("a map has duplicate keys").offset(self.place);
            return Err(error.found(format!("{:?}", twice.to_string())));
        }
        Ok(Item::Map(self.keys.into_iter().zip(self.parts).collect()))
    }
}

/// Adds the offset of a value to an error, unless the error already has an offset.
fn at(error: Error, place: u64) -> Error {
    if error.details().any(|(name, _)| name == "offset") { error } else { error.offset(place) }
}
