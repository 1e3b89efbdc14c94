//! [`Digests`] and [`SealSink`] across the boundary.

use super::guard::{guard, received};
use crate::{DeferredId, Digest, DigestAlgorithm, DigestId, Digests, OutputId, Result, SealSink};
use tensorferry_abi::abi_stable::std_types::{RSlice, RVec, Tuple2};
use tensorferry_abi::{self as abi, AbiResult, DigestsRef, SealSinkMut};

pub(super) struct LentDigests<'a>(pub(super) &'a dyn Digests);

impl abi::Digests for LentDigests<'_> {
    fn get(&self, id: u32) -> AbiResult<Tuple2<u32, RVec<u8>>> {
        guard("digests.get", || self.0.get(DigestId(id)).map(|d| Tuple2(d.algorithm.0, d.value.into())))
    }

    fn file_len(&self, file: u32) -> AbiResult<u64> {
        guard("digests.file_len", || self.0.file_len(OutputId(file)))
    }
}

pub(super) struct RemoteDigests<'a>(pub(super) DigestsRef<'a>);

impl Digests for RemoteDigests<'_> {
    fn get(&self, id: DigestId) -> Result<Digest> {
        let Tuple2(algorithm, value) = received(self.0.get(id.0))?;
        Ok(Digest { algorithm: DigestAlgorithm(algorithm), value: value.into_vec() })
    }

    fn file_len(&self, file: OutputId) -> Result<u64> {
        received(self.0.file_len(file.0))
    }
}

pub(super) struct LentSealSink<'a>(pub(super) &'a mut dyn SealSink);

impl abi::SealSink for LentSealSink<'_> {
    fn deferred(&mut self, id: u32, bytes: RSlice<'_, u8>) -> AbiResult<()> {
        guard("seal.deferred", || self.0.deferred(DeferredId(id), bytes.as_slice()))
    }

    fn late(&mut self, file: u32, bytes: RSlice<'_, u8>) -> AbiResult<()> {
        guard("seal.late", || self.0.late(OutputId(file), bytes.as_slice()))
    }
}

pub(super) struct RemoteSealSink<'a>(pub(super) SealSinkMut<'a>);

impl SealSink for RemoteSealSink<'_> {
    fn deferred(&mut self, id: DeferredId, bytes: &[u8]) -> Result<()> {
        received(self.0.deferred(id.0, bytes.into()))
    }

    fn late(&mut self, file: OutputId, bytes: &[u8]) -> Result<()> {
        received(self.0.late(file.0, bytes.into()))
    }
}
