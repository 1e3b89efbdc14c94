//! A deflated archive: members are compressed at the same time, and only then it is known where they lie. The local
//! headers before them and the directory behind them are deferred.

use super::deflate::Deflater;
use super::{Array, arrays, path};
use crate::zip::write::{directory, local_header};
use crate::zip::{Member, Method};
use tensorferry_sdk::{
    ByteSink, CatalogView, Context, DeferredId, Digests, Encoded, EncodedId, Error, LayoutSink, Result, Role,
    SealSink, Target, TensorPlan, TensorWriter,
};

/// How much of a tensor is asked for at once.
const PIECE: u64 = 256 << 10;

pub(super) struct Writer;

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let file = layout.file(path(target), Role::Data)?;
        let (mut members, mut records) = (Vec::new(), Vec::new());
        let mut most_offset = 0;
        for array in arrays(catalog, layout)? {
            context.check_cancelled()?;
            let member = member(&array, catalog);
            let header_len = local_header(&member).len() as u64;
            let header = layout.deferred(file, header_len)?;
            // Segments are numbered as they are appended, so that a number is a place in `members`.
            let (segment, _) = layout.encoded(file, Encoded::tensors([array.tensor]))?;
            most_offset += header_len + member.most_stored_len();
            members.push(Waiting { array, header, segment });
            records.push(member);
        }
        let end = layout.deferred(file, directory(&records, 0, most_offset).len() as u64)?;
        Ok(Box::new(Plan { members, records, end, most_offset }))
    }
}

/// What is known of an array's member before it is compressed.
fn member(array: &Array, catalog: &dyn CatalogView) -> Member {
    Member {
        name: array.name.clone(),
        method: Method::Deflated,
        crc: 0,
        stored_len: 0,
        len: array.header.len() as u64 + catalog.tensor(array.tensor).bytes,
        header_offset: 0,
    }
}

/// An array, and what of its member comes when it is compressed.
struct Waiting {
    array: Array,
    header: DeferredId,
    segment: EncodedId,
}

struct Plan {
    members: Vec<Waiting>,
    /// What the directory says of them, but for what comes then.
    records: Vec<Member>,
    end: DeferredId,
    /// Where the directory begins at most.
    most_offset: u64,
}

impl TensorPlan for Plan {
    fn encode(
        &self,
        id: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<Vec<u8>> {
        let waiting = self.members.get(id.0 as usize);
        let array = &waiting.ok_or_else(|| Error::plugin(format!("no member {}", id.0)))?.array;
        Ok(deflate(array, catalog, output, context)?.to_le_bytes().to_vec())
    }

    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        let mut records = self.records.clone();
        let mut offset = 0;
        for (record, waiting) in records.iter_mut().zip(&self.members) {
            let place = digests.encoded(waiting.segment)?;
            let crc = place.note.try_into().map_err(|_| Error::plugin("a member without its CRC"))?;
            record.header_offset = offset;
            (record.crc, record.stored_len) = (u32::from_le_bytes(crc), place.len);
            output.deferred(waiting.header, &local_header(record))?;
            offset = place.offset + place.len;
        }
        output.deferred(self.end, &directory(&records, offset, self.most_offset))
    }
}

/// Compresses an array; gives the CRC of what it was.
fn deflate(
    array: &Array,
    catalog: &dyn CatalogView,
    output: &mut dyn ByteSink,
    context: &dyn Context,
) -> Result<u32> {
    let mut deflater = Deflater::new(output);
    deflater.write(&array.header)?;
    let len = catalog.tensor(array.tensor).bytes;
    let mut piece = Vec::new();
    let mut done = 0;
    while done < len {
        context.check_cancelled()?;
        piece.resize(usize::try_from((len - done).min(PIECE)).unwrap_or(usize::MAX), 0);
        catalog.read(array.tensor, done, &mut piece)?;
        deflater.write(&piece)?;
        done += piece.len() as u64;
    }
    deflater.finish()
}
