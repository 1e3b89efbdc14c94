//! Reads an archive's directory from the end, as every reader does: what lies between the members
//! is nobody's.

use super::{
    DIRECTORY_RECORD, ENCRYPTED, END, LOCAL_HEADER, Member, Method, ZIP64_END, ZIP64_EXTRA, ZIP64_LOCATOR,
};
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// An archive: a file of a source that ends in a zip directory.
pub(crate) struct Archive<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) file: FileId,
    pub(crate) limits: &'a Limits,
}

const END_LEN: u64 = 22;
const LOCATOR_LEN: u64 = 20;
const RECORD_LEN: u64 = 46;
const LOCAL_LEN: u64 = 30;

/// Where the directory lies, and how many records it has.
struct Directory {
    offset: u64,
    len: u64,
    records: u64,
}

impl Archive<'_> {
    /// The members, each with the offset of its directory record.
    ///
    /// # Errors
    /// Malformed, with the offset; unsupported for encryption and other methods; a limit.
    pub(crate) fn members(&self) -> Result<Vec<(u64, Member)>> {
        let directory = self.directory()?;
        if directory.records > self.limits.entries {
            return Err(Error::limit("too many members in the archive")
                .expected(format!("at most {}", self.limits.entries))
                .found(directory.records));
        }
        let bytes = self.read(directory.offset, directory.len)?;
        let mut fields = Fields { bytes: &bytes, at: 0, offset: directory.offset };
        let mut members = Vec::new();
        for _ in 0..directory.records {
            members.push((fields.position(), record(&mut fields)?));
        }
        Ok(members)
    }

    /// The member whose directory record lies at `offset`.
    ///
    /// # Errors
    /// As [`members`](Self::members).
    pub(crate) fn member_at(&self, offset: u64) -> Result<Member> {
        let fixed = self.read(offset, RECORD_LEN)?;
        let variable = [28, 30, 32].map(|at| u64::from(u16::from_le_bytes([fixed[at], fixed[at + 1]])));
        let bytes = self.read(offset, RECORD_LEN + variable.iter().sum::<u64>())?;
        record(&mut Fields { bytes: &bytes, at: 0, offset })
    }

    /// Where the member's own bytes begin.
    ///
    /// # Errors
    /// Malformed, if its local header is not where the directory says, or is another's.
    pub(crate) fn data_offset(&self, member: &Member) -> Result<u64> {
        let start = member.header_offset;
        let fixed = self.read(start, LOCAL_LEN)?;
        let mut fields = Fields { bytes: &fixed, at: 0, offset: start };
        fields.signature(LOCAL_HEADER, "a member's local header")?;
        fields.take(22)?;
        let (name_len, extra_len) = (u64::from(fields.u16()?), u64::from(fields.u16()?));
        if self.read(start + LOCAL_LEN, name_len)? != member.name.as_bytes() {
            return Err(Error::malformed("the directory and the member's own header differ in its name")
                .offset(start)
                .expected(format!("{:?}", member.name)));
        }
        Ok(start + LOCAL_LEN + name_len + extra_len)
    }

    /// The name in the local header that the file begins with, if it begins with one.
    ///
    /// # Errors
    /// I/o.
    pub(crate) fn first_name(&self) -> Result<Option<Vec<u8>>> {
        let len = self.source.len(self.file);
        if len < LOCAL_LEN {
            return Ok(None);
        }
        let fixed = self.read(0, LOCAL_LEN)?;
        let name_len = u64::from(u16::from_le_bytes([fixed[26], fixed[27]]));
        if !fixed.starts_with(&LOCAL_HEADER.to_le_bytes()) || len < LOCAL_LEN + name_len {
            return Ok(None);
        }
        self.read(LOCAL_LEN, name_len).map(Some)
    }

    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        self.source.read_vec(self.file, offset, len, self.limits)
    }

    fn directory(&self) -> Result<Directory> {
        let file_len = self.source.len(self.file);
        let tail_len = file_len.min(END_LEN + u64::from(u16::MAX));
        let tail_offset = file_len - tail_len;
        let tail = self.read(tail_offset, tail_len)?;
        let at = end_in(&tail).ok_or_else(|| Error::malformed("the archive has no end of directory"))?;
        let end_offset = tail_offset + at as u64;
        let mut end = Fields { bytes: &tail[at..], at: 10, offset: end_offset };
        let records = u64::from(end.u16()?);
        let len = u64::from(end.u32()?);
        let offset = u64::from(end.u32()?);
        let is_wide = records == 0xffff || len == 0xffff_ffff || offset == 0xffff_ffff;
        let wide = if is_wide { self.zip64_directory(end_offset)? } else { None };
        let directory = wide.unwrap_or(Directory { offset, len, records });
        let fits = directory.offset.checked_add(directory.len).is_some_and(|end| end <= end_offset);
        if !fits {
            return Err(Error::malformed("the archive's directory lies outside the file")
                .offset(end_offset)
                .expected(format!("an end at most at {end_offset}"))
                .found(format!("{} bytes at {}", directory.len, directory.offset)));
        }
        Ok(directory)
    }

    /// The directory as zip64 has it; nothing, where 65,535 members are just that many.
    fn zip64_directory(&self, end_offset: u64) -> Result<Option<Directory>> {
        let Some(locator_offset) = end_offset.checked_sub(LOCATOR_LEN) else { return Ok(None) };
        let locator = self.read(locator_offset, LOCATOR_LEN)?;
        if !locator.starts_with(&ZIP64_LOCATOR.to_le_bytes()) {
            return Ok(None);
        }
        let end_offset = Fields { bytes: &locator, at: 8, offset: locator_offset }.u64()?;
        let end = self.read(end_offset, 56)?;
        let mut fields = Fields { bytes: &end, at: 0, offset: end_offset };
        fields.signature(ZIP64_END, "the zip64 end of directory")?;
        fields.take(28)?;
        let (records, len, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
        Ok(Some(Directory { offset, len, records }))
    }
}

/// Where the end of directory begins: the last signature whose comment ends with the file.
fn end_in(tail: &[u8]) -> Option<usize> {
    let signature = END.to_le_bytes();
    let last = tail.len().checked_sub(22)?;
    (0..=last).rev().find(|&at| {
        let comment_len = usize::from(u16::from_le_bytes([tail[at + 20], tail[at + 21]]));
        tail[at..].starts_with(&signature) && at + 22 + comment_len == tail.len()
    })
}

fn record(fields: &mut Fields<'_>) -> Result<Member> {
    let start = fields.position();
    fields.signature(DIRECTORY_RECORD, "a record of the archive's directory")?;
    fields.take(4)?;
    let (flags, method) = (fields.u16()?, fields.u16()?);
    fields.take(4)?;
    let crc = fields.u32()?;
    let (mut stored_len, mut len) = (u64::from(fields.u32()?), u64::from(fields.u32()?));
    let (name_len, extra_len, comment_len) = (fields.u16()?, fields.u16()?, fields.u16()?);
    fields.take(8)?;
    let mut header_offset = u64::from(fields.u32()?);
    let name = std::str::from_utf8(fields.take(name_len.into())?)
        .map_err(|_| Error::malformed("a member's name is not UTF-8").offset(start))?
        .to_owned();
    let extra = Fields { offset: fields.position(), bytes: fields.take(extra_len.into())?, at: 0 };
    fields.take(comment_len.into())?;
    if let Some(mut wide) = zip64_extra(extra)? {
        // Only those are there that do not fit their place, in this order.
        for value in [&mut len, &mut stored_len, &mut header_offset] {
            if *value == 0xffff_ffff {
                *value = wide.u64()?;
            }
        }
    }
    if flags & ENCRYPTED != 0 {
        return Err(Error::unsupported("the archive is encrypted").offset(start));
    }
    let method = match method {
        0 => Method::Stored,
        8 => Method::Deflated,
        _ => {
            return Err(Error::unsupported(format!("member {name:?} is compressed in an unknown way"))
                .offset(start)
                .expected("stored (0) or deflated (8)")
                .found(method));
        }
    };
    if method == Method::Stored && stored_len != len {
        return Err(Error::malformed(format!("member {name:?} is stored, and has two lengths"))
            .offset(start)
            .expected(len)
            .found(stored_len));
    }
    Ok(Member { name, method, crc, stored_len, len, header_offset })
}

fn zip64_extra(mut extra: Fields<'_>) -> Result<Option<Fields<'_>>> {
    // Writers pad this area with bytes that are no field at all.
    while extra.bytes.len() - extra.at >= 4 {
        let (id, len) = (extra.u16()?, extra.u16()?);
        let offset = extra.position();
        let bytes = extra.take(len.into())?;
        if id == ZIP64_EXTRA {
            return Ok(Some(Fields { bytes, at: 0, offset }));
        }
    }
    Ok(None)
}

/// Little-endian fields of a record, in order.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where `bytes` lies in the file.
    offset: u64,
}

impl<'a> Fields<'a> {
    fn position(&self) -> u64 {
        self.offset + self.at as u64
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let part = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        let part = part.ok_or_else(|| {
            Error::malformed("a record of the archive is cut short")
                .offset(self.position())
                .expected(format!("{len} bytes"))
        })?;
        self.at += len;
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn signature(&mut self, expected: u32, what: &str) -> Result<()> {
        let offset = self.position();
        let found = self.u32()?;
        if found == expected {
            return Ok(());
        }
        Err(Error::malformed(format!("{what} is not where it should be"))
            .offset(offset)
            .expected(format!("{expected:#010x}"))
            .found(format!("{found:#010x}")))
    }
}
