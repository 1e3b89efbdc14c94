//! Passes [`Digests`] and a [`SealSink`] across the boundary.

use super::collector::Collector;
use crate::{
    DeferredId, Digest, DigestAlgorithm, DigestId, Digests, EncodedId, EncodedLocation, OutputId, Result,
    SealSink,
};
use tensorferry_abi::{
    Borrowed, ByteSinkTable, DigestsCalls, DigestsTable, Failure, SealSinkCalls, SealSinkTable,
};

pub(super) struct LentDigests<'a>(pub(super) &'a dyn Digests);

impl DigestsCalls for LentDigests<'_> {
    fn get(&mut self, id: u32, value: Borrowed<'_, ByteSinkTable>) -> Result<u32, Failure> {
        let digest = self.0.get(DigestId(id))?;
        value.write(&digest.value)?;
        Ok(digest.algorithm.0)
    }

    fn encoded(&mut self, id: u32, note: Borrowed<'_, ByteSinkTable>) -> Result<(u64, u64), Failure> {
        let place = self.0.encoded(EncodedId(id))?;
        note.write(&place.note)?;
        Ok((place.offset, place.len))
    }

    fn file_len(&mut self, file: u32) -> Result<u64, Failure> {
        Ok(self.0.file_len(OutputId(file))?)
    }
}

pub(super) struct RemoteDigests<'a>(pub(super) Borrowed<'a, DigestsTable>);

impl Digests for RemoteDigests<'_> {
    fn get(&self, id: DigestId) -> Result<Digest> {
        let mut value = Collector::<u8>::default();
        let algorithm = self.0.get(id.0, Borrowed::sink(&mut value))?;
        Ok(Digest { algorithm: DigestAlgorithm(algorithm), value: (*value.0).into() })
    }

    fn encoded(&self, id: EncodedId) -> Result<EncodedLocation> {
        let mut note = Collector::<u8>::default();
        let (offset, len) = self.0.encoded(id.0, Borrowed::sink(&mut note))?;
        Ok(EncodedLocation { offset, len, note: note.0 })
    }

    fn file_len(&self, file: OutputId) -> Result<u64> {
        Ok(self.0.file_len(file.0)?)
    }
}

pub(super) struct LentSealSink<'a>(pub(super) &'a mut dyn SealSink);

impl SealSinkCalls for LentSealSink<'_> {
    fn deferred(&mut self, id: u32, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.0.deferred(DeferredId(id), bytes)?)
    }

    fn late(&mut self, file: u32, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.0.late(OutputId(file), bytes)?)
    }
}

pub(super) struct RemoteSealSink<'a>(pub(super) Borrowed<'a, SealSinkTable>);

impl SealSink for RemoteSealSink<'_> {
    fn deferred(&mut self, id: DeferredId, bytes: &[u8]) -> Result<()> {
        Ok(self.0.deferred(id.0, bytes)?)
    }

    fn late(&mut self, file: OutputId, bytes: &[u8]) -> Result<()> {
        Ok(self.0.late(file.0, bytes)?)
    }
}
