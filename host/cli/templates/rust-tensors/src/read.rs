//! The reader, which describes where the bytes of tensors are. The host reads the bytes.

use crate::{DTYPES, MAGIC};
use tensorferry_sdk::{
    CatalogSink, Context, Entry, Error, NothingEncoded, Result, Source, Storage, TensorDecoder, TensorReader,
    element_count,
};

pub(crate) struct Reader;

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let Entry::File(path) = source.entry() else {
            return Err(Error::unsupported("a tray is one file").found(source.entry().name()));
        };
        let file = source.open(path)?;
        // `read_vec` checks a length against the file and the limits before allocating memory.
        let start = MAGIC.len() as u64;
        let head = source.read_vec(file, 0, start + 8, context.limits())?;
        let (magic, numbers) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Error::malformed("not a tray").file(path).offset(0));
        }
        let mut numbers = Bytes { rest: numbers, offset: start, path };
        let (count, len) = (numbers.u32()?, u64::from(numbers.u32()?));
        let entries = source.read_vec(file, start + 8, len, context.limits())?;
        let mut entries = Bytes { rest: &entries, offset: start + 8, path };
        let mut place = start + 8 + len;
        for _ in 0..count {
            let at = entries.offset;
            let wrong = |what: &str| Error::malformed(what).file(path).offset(at);
            let (code, rank, name_len) = (entries.u8()?, entries.u8()?, entries.u16()?);
            let shape = (0..rank).map(|_| entries.u64()).collect::<Result<Vec<u64>>>()?;
            let name = String::from_utf8(entries.take(name_len.into())?.to_vec())
                .map_err(|_| wrong("a tensor's name is not UTF-8"))?;
            let dtype = DTYPES.iter().find(|(known, _)| *known == code).map(|(_, dtype)| *dtype);
            let dtype = dtype.ok_or_else(|| wrong("no such dtype").found(code))?;
            let info = dtype.info().ok_or_else(|| Error::plugin("a dtype that is not built in"))?;
            let bytes = element_count(&shape).and_then(|count| info.bytes_of(count));
            let bytes = bytes.map_err(|error| error.file(path).tensor(&*name).offset(at))?;
            // The host checks that the bytes are inside the file, and that names are unique.
            let storage = catalog.storage(Storage::file(file, place, bytes))?;
            catalog.tensor(&name, dtype, &shape, storage, 0)?;
            place += bytes;
        }
        if !entries.rest.is_empty() {
            return Err(Error::malformed("more entries than tensors").file(path).offset(entries.offset));
        }
        if place != source.len(file) {
            let error = Error::malformed("bytes after the last tensor").file(path).offset(place);
            return Err(error.expected(format!("a file of {place} bytes")).found(source.len(file)));
        }
        Ok(Box::new(NothingEncoded))
    }
}

/// The bytes of a part of the file that have not been parsed yet.
struct Bytes<'a> {
    rest: &'a [u8],
    offset: u64,
    path: &'a str,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| {
            let error = Error::malformed("a truncated entry").file(self.path).offset(self.offset);
            error.expected(format!("{len} bytes")).found(self.rest.len())
        })?;
        self.rest = rest;
        self.offset += len as u64;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_le_bytes)
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorferry_sdk::memory::MemoryView;
    use tensorferry_sdk::{Catalog, ErrorKind, MemoryContext, MemorySource};

    /// Returns a file with one tensor, whose entry consists of these bytes.
    fn file(entry: &[u8], data: &[u8]) -> Vec<u8> {
        let len = u32::try_from(entry.len()).unwrap_or(u32::MAX);
        [MAGIC, &1_u32.to_le_bytes(), &len.to_le_bytes(), entry, data].concat()
    }

    fn read(bytes: Vec<u8>) -> Result<Catalog> {
        let (source, context) = (MemorySource::file("a.tray", bytes), MemoryContext::default());
        MemoryView::read(&crate::TrayFormat, &[], &source, &context).map(|view| view.catalog().clone())
    }

    #[test]
    fn a_tensor_is_found() {
        let catalog = read(file(&[2, 1, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, b'x'], b"abc")).unwrap();
        assert_eq!((&*catalog.tensors()[0].name, &*catalog.tensors()[0].shape), ("x", &[3][..]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let at = (MAGIC.len() + 8).to_string();
        let cases: [(&[u8], &[u8], &str); 5] = [
            (&[99, 0, 1, 0, b'x'], b"", "no such dtype"),
            (&[2, 0, 1, 0, 0xff], b"a", "not UTF-8"),
            (&[2, 0, 9, 0, b'x'], b"a", "truncated entry"),
            (&[2, 0, 1, 0, b'x', 0], b"a", "more entries"),
            (&[2, 0, 1, 0, b'x'], b"ab", "after the last tensor"),
        ];
        for (entry, data, says) in cases {
            let error = read(file(entry, data)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed);
            assert!(error.to_string().contains(says) && error.to_string().contains("a.tray"), "{error}");
        }
        let error = read(file(&[99, 0, 1, 0, b'x'], b"")).unwrap_err();
        assert!(error.to_string().contains(&at), "{error}");
    }
}
