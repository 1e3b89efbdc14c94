//! Describes an archive: a stored member's elements lie in the file, a deflated member is decoded.

use super::{SUFFIX, deflate};
use crate::array;
use crate::header::Header;
use crate::zip::read::Archive;
use crate::zip::{Member, Method};
use tensorferry_sdk::{
    ByteSink, CatalogSink, Context, Digest, Entry, Error, ErrorKind, Loss, LossKind, Result, Source, Storage,
    TensorDecoder, TensorReader,
};

pub(super) struct Reader;

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let archive = open(source, context)?;
        read(&archive, catalog, context).map_err(|e| e.file(source.name(archive.file)))?;
        Ok(Box::new(Inflate))
    }
}

/// Decodes deflated members. A handle is the offset of the member's directory record, which says all that
/// has to be known.
struct Inflate;

impl TensorDecoder for Inflate {
    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let archive = open(source, context)?;
        let decoded = archive.member_at(handle).and_then(|member| {
            let offset = archive.data_offset(&member)?;
            deflate::inflate(&archive, &member, offset, output, context)
                .map_err(|e| e.context(format!("member {:?}", member.name)))
        });
        decoded.map_err(|e| e.file(source.name(archive.file)))
    }
}

fn open<'a>(source: &'a dyn Source, context: &'a dyn Context) -> Result<Archive<'a>> {
    let Entry::File(path) = source.entry() else {
        return Err(Error::usage("arrays are read from one .npz file"));
    };
    Ok(Archive { source, file: source.open(path)?, limits: context.limits() })
}

fn read(archive: &Archive<'_>, catalog: &mut dyn CatalogSink, context: &dyn Context) -> Result<()> {
    let mut taken = Vec::new();
    for (record, member) in archive.members()? {
        context.check_cancelled()?;
        let Some(name) = member.name.strip_suffix(SUFFIX) else {
            catalog.loss(Loss::new(LossKind::Sidecar, &*member.name, "a member that is not an array"))?;
            continue;
        };
        let offset = archive.data_offset(&member)?;
        taken.push((member.header_offset, offset.saturating_add(member.stored_len)));
        match add(archive, catalog, name, record, &member, offset) {
            // One array of strings does not keep the others from being read.
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                catalog.loss(Loss::new(LossKind::Tensor, name, e.message()))?;
            }
            added => added.map_err(|e| e.context(format!("member {:?}", member.name)))?,
        }
    }
    check_apart(taken)
}

fn add(
    archive: &Archive<'_>,
    catalog: &mut dyn CatalogSink,
    name: &str,
    record: u64,
    member: &Member,
    offset: u64,
) -> Result<()> {
    if member.method == Method::Deflated {
        deflate::check_ratio(member)?;
        let (header, header_len) = Header::read(&|len| deflate::front(archive, member, offset, len))?;
        return array::add(catalog, name, &header, Storage::encoded(record, member.len), header_len);
    }
    let front = |len: u64| {
        if len > member.len {
            return Err(deflate::too_short(len, member.len));
        }
        archive.source.read_vec(archive.file, offset, len, archive.limits)
    };
    let (header, header_len) = Header::read(&front)?;
    let data_len = member.len - header_len;
    let crc = crc_of_rest(member.crc, &front(header_len)?, data_len);
    let storage = Storage::file(archive.file, offset + header_len, data_len).digest(Digest::crc32(crc));
    array::add(catalog, name, &header, storage, 0)
}

/// The CRC-32 of the last `rest_len` bytes, from that of all and from the bytes before them: so that
/// the storage is the elements alone, and a copy of them checks it in passing. A CRC is linear:
/// all = (first, moved on by the length of the rest) xor rest.
fn crc_of_rest(all: u32, first: &[u8], rest_len: u64) -> u32 {
    let mut moved = crc32fast::Hasher::new();
    moved.update(first);
    moved.combine(&crc32fast::Hasher::new_with_initial_len(0, rest_len));
    all ^ moved.finalize()
}

/// Members that share bytes are how a small archive claims to hold petabytes.
fn check_apart(mut taken: Vec<(u64, u64)>) -> Result<()> {
    taken.sort_unstable();
    match taken.array_windows().find(|[before, after]| before.1 > after.0) {
        Some([_, after]) => Err(Error::malformed("two members of the archive overlap").offset(after.0)),
        None => Ok(()),
    }
}
