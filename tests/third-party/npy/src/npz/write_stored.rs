//! A stored archive is copied: the elements lie in the layout, and what needs their CRCs (the local
//! headers before them, the directory behind them) is deferred.

use super::{arrays, path};
use crate::zip::write::{directory, local_header};
use crate::zip::{Member, Method};
use tensorferry_sdk::{
    CatalogView, Context, DeferredId, DigestAlgorithm, DigestId, Digests, LayoutSink, Result, Role, SealSink,
    Target, TensorPart, TensorPlan, TensorWriter,
};

pub(super) struct Writer;

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let arrays = arrays(catalog, layout)?;
        let file = layout.file(path(target), Role::Data)?;
        let mut members = Vec::with_capacity(arrays.len());
        let mut waiting = Vec::with_capacity(arrays.len());
        let mut offset = 0;
        for array in arrays {
            context.check_cancelled()?;
            let len = array.header.len() as u64 + catalog.tensor(array.tensor).bytes;
            let member = Member {
                name: array.name,
                method: Method::Stored,
                crc: 0,
                stored_len: len,
                len,
                header_offset: offset,
            };
            let header = layout.deferred(file, local_header(&member).len() as u64)?;
            let start = layout.bytes(file, &array.header)?;
            layout.tensor(file, TensorPart::whole(array.tensor))?;
            offset = start + len;
            let crc = layout.digest(file, start..offset, DigestAlgorithm::CRC32)?;
            waiting.push((header, crc));
            members.push(member);
        }
        let len = directory(&members, offset, offset).len() as u64;
        let end = layout.deferred(file, len)?;
        Ok(Box::new(Plan { members, waiting, end, directory_offset: offset }))
    }
}

struct Plan {
    members: Vec<Member>,
    /// For each member its local header, and the digest of what follows it.
    waiting: Vec<(DeferredId, DigestId)>,
    end: DeferredId,
    directory_offset: u64,
}

impl TensorPlan for Plan {
    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        let mut members = self.members.clone();
        for (member, &(header, crc)) in members.iter_mut().zip(&self.waiting) {
            member.crc = digests.crc(crc)?;
            output.deferred(header, &local_header(member))?;
        }
        output.deferred(self.end, &directory(&members, self.directory_offset, self.directory_offset))
    }
}
