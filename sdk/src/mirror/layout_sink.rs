//! Passes a [`LayoutSink`] across the boundary.

use super::loss::{decode_loss, encode_loss};
use super::numbers::{byte_order, byte_order_number, order, order_number, role, role_number, unknown};
use super::region::{decode_region, encode_region};
use crate::{
    DeferredId, DigestAlgorithm, DigestId, Encoded, EncodedId, Error, LayoutSink, Loss, LossSink, OutputId,
    Result, Role, SourceRange, StorageId, TensorId, TensorPart,
};
use std::ops::Range;
use tensorferry_abi::{
    Borrowed, CopyFacts, DigestFacts, EncodedFacts, Failure, FileFacts, LayoutSinkCalls, LayoutSinkTable,
    LossFacts, PartFacts, StoragePartFacts, UNKNOWN,
};

/// The values of `kind` in [`FileFacts`].
const LAID_OUT: u32 = 0;
const STREAMED: u32 = 1;
const LATE: u32 = 2;

pub(super) struct LentLayoutSink<'a>(pub(super) &'a mut dyn LayoutSink);

impl LayoutSinkCalls for LentLayoutSink<'_> {
    fn file(&mut self, file: FileFacts<'_>) -> Result<u32, Failure> {
        let role = role(file.role)?;
        let id = match file.kind {
            LAID_OUT => self.0.file(file.path, role)?,
            STREAMED => {
                let tensors: Vec<TensorId> = file.tensors.iter().copied().map(TensorId).collect();
                self.0.streamed_file(file.path, role, &tensors)?
            }
            LATE => self.0.late_file(file.path, role)?,
            other => return Err(unknown("kind of file", other).into()),
        };
        Ok(id.0)
    }

    fn bytes(&mut self, file: u32, bytes: &[u8]) -> Result<u64, Failure> {
        Ok(self.0.bytes(OutputId(file), bytes)?)
    }

    fn tensor(&mut self, part: PartFacts<'_>) -> Result<u64, Failure> {
        let region = decode_region(part.is_region, part.region)?;
        let (order, byte_order) = (order(part.order)?, byte_order(part.byte_order)?);
        let tensor = TensorId(part.tensor);
        Ok(self.0.tensor(OutputId(part.file), TensorPart { tensor, region, order, byte_order })?)
    }

    fn storage(&mut self, part: StoragePartFacts<'_>) -> Result<u64, Failure> {
        let (file, storage) = (OutputId(part.file), StorageId(part.storage));
        Ok(self.0.storage(file, storage, part.offset, part.len, part.swap_unit)?)
    }

    fn copy(&mut self, copy: CopyFacts<'_>) -> Result<u64, Failure> {
        let CopyFacts { file, source, name, offset, len } = copy;
        let range = offset
            ..offset.checked_add(len).ok_or_else(|| Error::plugin("the end of a copy exceeds 64 bits"))?;
        let from = SourceRange { source: source.to_owned(), file: name.to_owned(), range };
        Ok(self.0.copy(OutputId(file), from)?)
    }

    fn pad(&mut self, file: u32, len: u64) -> Result<u64, Failure> {
        Ok(self.0.pad(OutputId(file), len)?)
    }

    fn encoded(&mut self, segment: EncodedFacts<'_>) -> Result<(u32, u64), Failure> {
        let tensors = segment.tensors.iter().copied().map(TensorId).collect();
        let region = decode_region(segment.is_region, segment.region)?;
        let len = Some(segment.len).filter(|&len| len != UNKNOWN);
        let (id, offset) = self.0.encoded(OutputId(segment.file), Encoded { tensors, region, len })?;
        Ok((id.0, offset))
    }

    fn deferred(&mut self, file: u32, len: u64) -> Result<u32, Failure> {
        Ok(self.0.deferred(OutputId(file), len)?.0)
    }

    fn digest(&mut self, digest: DigestFacts<'_>) -> Result<u32, Failure> {
        let range = digest.start..digest.end;
        Ok(self.0.digest(OutputId(digest.file), range, DigestAlgorithm(digest.algorithm))?.0)
    }

    fn alias(&mut self, tensor: u32, of: u32) -> Result<(), Failure> {
        Ok(self.0.alias(TensorId(tensor), TensorId(of))?)
    }

    fn omit(&mut self, tensor: u32, why: &str) -> Result<(), Failure> {
        Ok(self.0.omit(TensorId(tensor), why)?)
    }

    fn loss(&mut self, loss: LossFacts<'_>) -> Result<(), Failure> {
        Ok(self.0.loss(decode_loss(&loss))?)
    }

    fn written_as(&mut self, tensor: u32, name: &str) -> Result<(), Failure> {
        Ok(self.0.written_as(TensorId(tensor), name)?)
    }

    fn held_in_bytes(&mut self, tensor: u32) -> Result<(), Failure> {
        Ok(self.0.written_in_bytes(TensorId(tensor))?)
    }

    fn supersedes(&mut self, pattern: &str, number: u32) -> Result<(), Failure> {
        Ok(self.0.supersedes(pattern, role(number)?)?)
    }
}

pub(super) struct RemoteLayoutSink<'a>(pub(super) Borrowed<'a, LayoutSinkTable>);

impl RemoteLayoutSink<'_> {
    fn file_of(&self, kind: u32, path: &str, role: Role, tensors: &[u32]) -> Result<OutputId> {
        Ok(OutputId(self.0.file(FileFacts { path, role: role_number(role), kind, tensors })?))
    }
}

impl LossSink for RemoteLayoutSink<'_> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        Ok(self.0.loss(encode_loss(&loss))?)
    }
}

impl LayoutSink for RemoteLayoutSink<'_> {
    fn file(&mut self, path: &str, role: Role) -> Result<OutputId> {
        self.file_of(LAID_OUT, path, role, &[])
    }

    fn streamed_file(&mut self, path: &str, role: Role, tensors: &[TensorId]) -> Result<OutputId> {
        let tensors: Vec<u32> = tensors.iter().map(|tensor| tensor.0).collect();
        self.file_of(STREAMED, path, role, &tensors)
    }

    fn late_file(&mut self, path: &str, role: Role) -> Result<OutputId> {
        self.file_of(LATE, path, role, &[])
    }

    fn bytes(&mut self, file: OutputId, bytes: &[u8]) -> Result<u64> {
        Ok(self.0.bytes(file.0, bytes)?)
    }

    fn tensor(&mut self, file: OutputId, part: TensorPart) -> Result<u64> {
        Ok(self.0.tensor(PartFacts {
            file: file.0,
            tensor: part.tensor.0,
            is_region: part.region.is_some(),
            region: &encode_region(part.region.as_ref()),
            order: order_number(part.order),
            byte_order: byte_order_number(part.byte_order),
        })?)
    }

    fn storage(
        &mut self,
        file: OutputId,
        storage: StorageId,
        offset: u64,
        len: u64,
        swap_unit: u32,
    ) -> Result<u64> {
        Ok(self.0.storage(StoragePartFacts { file: file.0, storage: storage.0, offset, len, swap_unit })?)
    }

    fn copy(&mut self, file: OutputId, from: SourceRange) -> Result<u64> {
        let SourceRange { source, file: name, range } = &from;
        let len = range
            .end
            .checked_sub(range.start)
            .ok_or_else(|| Error::plugin("a range ends before it begins"))?;
        Ok(self.0.copy(CopyFacts { file: file.0, source, name, offset: range.start, len })?)
    }

    fn pad(&mut self, file: OutputId, len: u64) -> Result<u64> {
        Ok(self.0.pad(file.0, len)?)
    }

    fn encoded(&mut self, file: OutputId, encoded: Encoded) -> Result<(EncodedId, u64)> {
        let tensors: Vec<u32> = encoded.tensors.iter().map(|tensor| tensor.0).collect();
        let (id, offset) = self.0.encoded(EncodedFacts {
            file: file.0,
            len: encoded.len.unwrap_or(UNKNOWN),
            tensors: &tensors,
            is_region: encoded.region.is_some(),
            region: &encode_region(encoded.region.as_ref()),
        })?;
        Ok((EncodedId(id), offset))
    }

    fn deferred(&mut self, file: OutputId, len: u64) -> Result<DeferredId> {
        Ok(DeferredId(self.0.deferred(file.0, len)?))
    }

    fn digest(&mut self, file: OutputId, range: Range<u64>, algorithm: DigestAlgorithm) -> Result<DigestId> {
        let (start, end, algorithm) = (range.start, range.end, algorithm.0);
        Ok(DigestId(self.0.digest(DigestFacts { file: file.0, start, end, algorithm })?))
    }

    fn alias(&mut self, tensor: TensorId, of: TensorId) -> Result<()> {
        Ok(self.0.alias(tensor.0, of.0)?)
    }

    fn omit(&mut self, tensor: TensorId, why: &str) -> Result<()> {
        Ok(self.0.omit(tensor.0, why)?)
    }

    fn written_as(&mut self, tensor: TensorId, name: &str) -> Result<()> {
        Ok(self.0.written_as(tensor.0, name)?)
    }

    fn written_in_bytes(&mut self, tensor: TensorId) -> Result<()> {
        Ok(self.0.held_in_bytes(tensor.0)?)
    }

    fn supersedes(&mut self, pattern: &str, role: Role) -> Result<()> {
        Ok(self.0.supersedes(pattern, role_number(role))?)
    }
}
