//! Iterates over the plain files of a tar, and creates the headers of a new tar.
//!
//! | Offset | Bytes | Content |
//! |---|---|---|
//! | 0 | 100 | name |
//! | 100 | 8, 8, 8 | mode, owner and group, in octal |
//! | 124 | 12 | size, in octal, or in big-endian binary if the first byte is 0x80 or above |
//! | 136 | 12 | time |
//! | 148 | 8 | the checksum: the sum of the header's bytes, with this field counted as spaces |
//! | 156 | 1 | kind: `0` or 0 a file, `5` a folder, `x` pax records of the next entry, `L` the name of the next entry |
//! | 257 | 8 | `ustar`, 0, `00`; in GNU format, `ustar` and spaces |
//! | 265 | 32, 32 | names of the owner and the group |
//! | 345 | 155 | ustar: the part of the path that precedes the name and a slash |

use crate::input::Input;
use tensorferry_sdk::{Error, Limits, Result};

pub(crate) const BLOCK: u64 = 512;
/// Maximum length of a member's pax records in bytes. The records may contain more than a name.
const MAX_PAX_BYTES: u64 = 1 << 20;

/// A plain file in a tar. The input is positioned at the first byte of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) path: String,
    pub(crate) size: u64,
    /// The offset of the member's first header.
    pub(crate) offset: u64,
}

pub(crate) enum Entry {
    File(Member),
    /// The path of an entry that is not a plain file and was skipped.
    Other(String),
}

/// Returns the next entry, or `None` at the end of the archive.
pub(crate) fn next(input: &mut Input, limits: &Limits) -> Result<Option<Entry>> {
    let offset = input.offset();
    let name = input.file_name().to_owned();
    next_at(input, offset, limits).map_err(|error| error.file(name).offset(offset))
}

fn next_at(input: &mut Input, offset: u64, limits: &Limits) -> Result<Option<Entry>> {
    let (mut long_name, mut long_size) = (None, None);
    loop {
        let Some(header) = input.block()? else {
            return if long_name.is_none() && long_size.is_none() {
                Ok(None)
            } else {
                Err(Error::malformed("the archive ends after the name of a member"))
            };
        };
        if header.iter().all(|byte| *byte == 0) {
            check_end(input)?;
            return Ok(None);
        }
        check_sum(&header)?;
        let size = number(&header[124..136])?;
        match header[156] {
            b'x' => {
                let records = read_extended_header(input, size)?;
                for (key, value) in pax(&records)? {
                    match key {
                        "path" => long_name = Some(bounded(value, limits)?),
                        "size" => {
                            let wrong = || Error::malformed("invalid size in the pax records").found(value);
                            long_size = Some(value.parse::<u64>().map_err(|_| wrong())?);
                        }
                        _ if key.starts_with("GNU.sparse") => {
                            return Err(Error::unsupported("a sparse member"));
                        }
                        _ => {}
                    }
                }
            }
            b'g' => pax(&read_extended_header(input, size)?).map(drop)?,
            b'L' => {
                let bytes = read_extended_header(input, size)?;
                long_name = Some(bounded(text(&bytes)?, limits)?);
            }
            b'K' => drop(read_extended_header(input, size)?),
            b'S' => return Err(Error::unsupported("a sparse member")),
            kind => {
                let is_file = matches!(kind, 0 | b'0' | b'7');
                let path = match long_name.take() {
                    // The header contains only the first 100 bytes of the name, and the cut may
                    // split a character.
                    Some(long) => long,
                    None if is_file => own_name(&header)?,
                    None => own_name(&header).unwrap_or_else(|_| lossy_name(&header)),
                };
                // In old tars, a folder is an entry of the type "file" whose name ends with a
                // slash.
                if is_file && (kind != 0 || !path.ends_with('/')) {
                    let size = long_size.unwrap_or(size);
                    return Ok(Some(Entry::File(Member { path, size, offset })));
                }
                if !(b'1'..=b'6').contains(&kind) && kind != 0 {
                    input.skip(size)?;
                    input.skip(padding(size))?;
                }
                return Ok(Some(Entry::Other(path)));
            }
        }
    }
}

/// Returns the number of zero bytes that follow a member of this size.
pub(crate) fn padding(size: u64) -> u64 {
    (BLOCK - size % BLOCK) % BLOCK
}

/// Checks that only zeros follow the end of the archive. Without this check, a second archive after
/// the first one would be lost.
fn check_end(input: &mut Input) -> Result<()> {
    // In a plain file, check only as many blocks as tar may add as padding.
    let max = if matches!(input, Input::Plain(_)) { 40 } else { usize::MAX };
    for _ in 0..max {
        match input.block() {
            Ok(Some(block)) if block.iter().all(|byte| *byte == 0) => {}
            Ok(Some(_)) => {
                return Err(Error::malformed("data after the end of the archive"));
            }
            Ok(None) => break,
            // The file ends in the middle of a block.
            Err(_) if matches!(input, Input::Plain(_)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns a copy of the name, or an error if the name is too long.
fn bounded(name: &str, limits: &Limits) -> Result<String> {
    if name.len() as u64 <= limits.name_bytes {
        return Ok(name.to_owned());
    }
    let expected = format!("at most {} bytes", limits.name_bytes);
    Err(Error::limit("a member's name is too long")
        .hint("raise the limit with --limit name_bytes=N")
        .expected(expected)
        .found(name.len()))
}

fn read_extended_header(input: &mut Input, size: u64) -> Result<Vec<u8>> {
    if size > MAX_PAX_BYTES {
        return Err(Error::malformed("the extended header is too long").expected(MAX_PAX_BYTES).found(size));
    }
    let bytes = input.take(size)?.to_vec();
    input.skip(padding(size))?;
    Ok(bytes)
}

fn check_sum(header: &[u8; 512]) -> Result<()> {
    let own = number(&header[148..156])?;
    let mut summed = *header;
    summed[148..156].fill(b' ');
    let sum: u64 = summed.iter().map(|byte| u64::from(*byte)).sum();
    // Some old programs computed the checksum from signed bytes.
    let signed: i64 = summed.iter().map(|byte| i64::from(byte.cast_signed())).sum();
    if own == sum || i64::try_from(own) == Ok(signed) {
        Ok(())
    } else {
        Err(Error::malformed("the checksum of the header does not match").expected(sum).found(own))
    }
}

fn number(field: &[u8]) -> Result<u64> {
    let wrong = |what: &str| Error::malformed(what).found(format!("{:?}", String::from_utf8_lossy(field)));
    match field.first() {
        Some(0x80) => field[1..].iter().try_fold(0_u64, |value, byte| {
            let value = value.checked_mul(256).and_then(|value| value.checked_add(u64::from(*byte)));
            value.ok_or_else(|| wrong("a number in the header is too large"))
        }),
        Some(0x81..) => Err(wrong("a number in the header is negative or invalid")),
        _ => {
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
            let digits = field[..end].trim_ascii();
            let value = digits.iter().try_fold(0_u64, |value, byte| match byte {
                b'0'..=b'7' => value.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
                _ => None,
            });
            value.ok_or_else(|| wrong("invalid octal number in the header"))
        }
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let wrong =
        || Error::unsupported("the name is not UTF-8").found(String::from_utf8_lossy(bytes).escape_debug());
    std::str::from_utf8(&bytes[..end]).map_err(|_| wrong())
}

fn own_name(header: &[u8; 512]) -> Result<String> {
    let (name, prefix) = (text(&header[..100])?, text(&header[345..500])?);
    let is_ustar = header[257..263] == *b"ustar\0";
    Ok(if is_ustar && !prefix.is_empty() { format!("{prefix}/{name}") } else { name.to_owned() })
}

/// Returns the name of a skipped entry.
fn lossy_name(header: &[u8; 512]) -> String {
    let end = header[..100].iter().position(|byte| *byte == 0).unwrap_or(100);
    String::from_utf8_lossy(&header[..end]).into_owned()
}

/// Parses pax records of the form `LENGTH KEY=VALUE\n`. `LENGTH` is the length of the whole record.
fn pax(mut bytes: &[u8]) -> Result<Vec<(&str, &str)>> {
    let wrong = || Error::malformed("invalid pax records");
    let mut records = Vec::new();
    while !bytes.is_empty() && bytes[0] != 0 {
        let space = bytes.iter().take(20).position(|byte| *byte == b' ').ok_or_else(wrong)?;
        let len = std::str::from_utf8(&bytes[..space]).ok().and_then(|len| len.parse::<usize>().ok());
        let (record, rest) = len.and_then(|len| bytes.split_at_checked(len)).ok_or_else(wrong)?;
        let pair = record.get(space + 1..).and_then(|pair| pair.strip_suffix(b"\n")).ok_or_else(wrong)?;
        // The values of all other keys may contain arbitrary bytes.
        if let Ok(pair) = std::str::from_utf8(pair) {
            records.push(pair.split_once('=').ok_or_else(wrong)?);
        } else if pair.starts_with(b"path=") {
            return Err(Error::unsupported("the name is not UTF-8"));
        }
        bytes = rest;
    }
    Ok(records)
}

/// Returns whether a path has the form of the metadata files that macOS adds to archives.
pub(crate) fn is_macos_metadata(path: &str) -> bool {
    let base = path.rsplit('/').next().unwrap_or(path);
    base.starts_with("._") || base == ".DS_Store" || path.split('/').any(|folder| folder == "__MACOSX")
}

/// Splits a path into its key and its member name. Returns `None` if the file is not part of any
/// sample. The `webdataset` library uses the pattern `^((?:.*/|)[^.]+)[.]([^/]*)$`.
pub(crate) fn split(path: &str) -> Option<(&str, String)> {
    let is_meta = path.strip_prefix("__").and_then(|rest| {
        let part = rest.split('/').next()?;
        part.ends_with("__").then_some(())
    });
    if is_meta.is_some() || is_macos_metadata(path) {
        return None;
    }
    let base = path.rfind('/').map_or(0, |slash| slash + 1);
    let dot = base + path[base..].find('.')?;
    // If the name starts with a dot, the pattern matches the folder as the key, provided that the
    // folder's name contains no dot.
    let folder = path[..base].strip_suffix('/').map(|folder| folder.rsplit('/').next().unwrap_or(folder));
    let has_key = dot > base || folder.is_some_and(|folder| !folder.contains('.'));
    has_key.then(|| (&path[..dot], path[dot + 1..].to_lowercase()))
}

/// Returns the header of a plain file. If the name is too long for this header, a pax header
/// precedes it.
pub(crate) fn header(path: &str, size: u64) -> Result<Vec<u8>> {
    if path.len() <= 100 {
        return Ok(block(path, size, b'0')?.to_vec());
    }
    // The length in a pax record includes the digits of the length itself.
    let rest = format!(" path={path}\n");
    let mut len = rest.len();
    while len != rest.len() + len.to_string().len() {
        len = rest.len() + len.to_string().len();
    }
    let record = format!("{len}{rest}");
    let mut bytes = block("././@PaxHeader", record.len() as u64, b'x')?.to_vec();
    bytes.extend(record.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    let mut end = 100;
    while !path.is_char_boundary(end) {
        end -= 1;
    }
    bytes.extend(block(&path[..end], size, b'0')?);
    Ok(bytes)
}

fn block(name: &str, size: u64, kind: u8) -> Result<[u8; 512]> {
    if size >= 1 << 33 {
        return Err(Error::unsupported("a member of 8 GiB or larger cannot be written").found(size));
    }
    let mut block = [0; 512];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000444\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    put(265, b"bigdata");
    put(297, b"bigdata");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_as_the_library_does() {
        let of = |path| split(path).map(|(key, member)| (key.to_owned(), member));
        let some = |key: &str, member: &str| Some((key.to_owned(), member.to_owned()));
        assert_eq!(of("dir.v1/a.seg.PNG"), some("dir.v1/a", "seg.png"));
        assert_eq!(of("dir/.hidden.txt"), some("dir/", "hidden.txt"));
        assert_eq!(of("e."), some("e", ""));
        assert_eq!(of("./a.txt"), some("./a", "txt"));
        assert_eq!(of("a.b/c/.x"), some("a.b/c/", "x"));
        for none in [
            ".hidden",
            "README",
            "dir.v1/README",
            "__meta__",
            "__meta__/a.txt",
            "./.DS_Store",
            "./._a.jpg",
            "./.hidden.txt",
            "train.v1/.hidden.txt",
            "train/._a.jpg",
            "train/.DS_Store",
            "__MACOSX/train/._a.jpg",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(of("__a.txt"), some("__a", "txt"));
    }
}
