//! [`LayoutSink`] across the boundary.

use super::catalog_sink::{byte_order, byte_order_number};
use super::guard::{guard, received};
use super::loss::{received_loss, sent_loss};
use crate::{
    DeferredId, DigestAlgorithm, DigestId, Error, LayoutSink, Loss, LossSink, Order, OutputId, Region,
    Result, Role, StorageId, TensorId, TensorPart,
};
use std::ops::Range;
use tensorferry_abi::abi_stable::std_types::{RSlice, RStr};
use tensorferry_abi::{self as abi, AbiLoss, AbiResult, LayoutSinkMut};

fn role(number: u32) -> Role {
    if number == 1 { Role::Index } else { Role::Data }
}

fn role_number(role: Role) -> u32 {
    match role {
        Role::Data => 0,
        Role::Index => 1,
    }
}

pub(super) struct LentLayoutSink<'a>(pub(super) &'a mut dyn LayoutSink);

impl abi::LayoutSink for LentLayoutSink<'_> {
    fn file(&mut self, path: RStr<'_>, number: u32) -> AbiResult<u32> {
        guard("layout.file", || self.0.file(path.as_str(), role(number)).map(|id| id.0))
    }

    fn streamed_file(&mut self, path: RStr<'_>, number: u32, tensors: RSlice<'_, u32>) -> AbiResult<u32> {
        guard("layout.streamed_file", || {
            let tensors: Vec<TensorId> = tensors.iter().copied().map(TensorId).collect();
            self.0.streamed_file(path.as_str(), role(number), &tensors).map(|id| id.0)
        })
    }

    fn late_file(&mut self, path: RStr<'_>, number: u32) -> AbiResult<u32> {
        guard("layout.late_file", || self.0.late_file(path.as_str(), role(number)).map(|id| id.0))
    }

    fn bytes(&mut self, file: u32, bytes: RSlice<'_, u8>) -> AbiResult<u64> {
        guard("layout.bytes", || self.0.bytes(OutputId(file), bytes.as_slice()))
    }

    fn tensor(
        &mut self,
        file: u32,
        tensor: u32,
        region: RSlice<'_, u64>,
        order: u32,
        order_of_bytes: u32,
    ) -> AbiResult<u64> {
        guard("layout.tensor", || {
            let numbers = region.as_slice();
            if !numbers.len().is_multiple_of(2) {
                return Err(Error::plugin("a region's origin and shape differ in rank"));
            }
            let (origin, shape) = numbers.split_at(numbers.len() / 2);
            let region =
                (!numbers.is_empty()).then(|| Region { origin: origin.to_vec(), shape: shape.to_vec() });
            let part = TensorPart {
                tensor: TensorId(tensor),
                region,
                order: if order == 1 { Order::Fortran } else { Order::C },
                byte_order: byte_order(order_of_bytes),
            };
            self.0.tensor(OutputId(file), part)
        })
    }

    fn storage(&mut self, file: u32, storage: u32, offset: u64, len: u64, swap_unit: u32) -> AbiResult<u64> {
        guard("layout.storage", || self.0.storage(OutputId(file), StorageId(storage), offset, len, swap_unit))
    }

    fn pad(&mut self, file: u32, len: u64) -> AbiResult<u64> {
        guard("layout.pad", || self.0.pad(OutputId(file), len))
    }

    fn deferred(&mut self, file: u32, len: u64) -> AbiResult<u32> {
        guard("layout.deferred", || self.0.deferred(OutputId(file), len).map(|id| id.0))
    }

    fn digest(&mut self, file: u32, start: u64, end: u64, algorithm: u32) -> AbiResult<u32> {
        guard("layout.digest", || {
            self.0.digest(OutputId(file), start..end, DigestAlgorithm(algorithm)).map(|id| id.0)
        })
    }

    fn alias(&mut self, tensor: u32, of: u32) -> AbiResult<()> {
        guard("layout.alias", || self.0.alias(TensorId(tensor), TensorId(of)))
    }

    fn omit(&mut self, tensor: u32, why: RStr<'_>) -> AbiResult<()> {
        guard("layout.omit", || self.0.omit(TensorId(tensor), why.as_str()))
    }

    fn loss(&mut self, loss: AbiLoss<'_>) -> AbiResult<()> {
        guard("layout.loss", || self.0.loss(received_loss(loss)))
    }

    fn written_as(&mut self, tensor: u32, name: RStr<'_>) -> AbiResult<()> {
        guard("layout.written_as", || self.0.written_as(TensorId(tensor), name.as_str()))
    }

    fn encoded(&mut self, tensor: u32) -> AbiResult<()> {
        guard("layout.encoded", || self.0.encoded(TensorId(tensor)))
    }

    fn supersedes(&mut self, pattern: RStr<'_>, number: u32) -> AbiResult<()> {
        guard("layout.supersedes", || self.0.supersedes(pattern.as_str(), role(number)))
    }
}

pub(super) struct RemoteLayoutSink<'a>(pub(super) LayoutSinkMut<'a>);

impl LossSink for RemoteLayoutSink<'_> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        received(self.0.loss(sent_loss(&loss)))
    }
}

impl LayoutSink for RemoteLayoutSink<'_> {
    fn file(&mut self, path: &str, role: Role) -> Result<OutputId> {
        received(self.0.file(path.into(), role_number(role))).map(OutputId)
    }

    fn streamed_file(&mut self, path: &str, role: Role, tensors: &[TensorId]) -> Result<OutputId> {
        let tensors: Vec<u32> = tensors.iter().map(|tensor| tensor.0).collect();
        received(self.0.streamed_file(path.into(), role_number(role), tensors.as_slice().into()))
            .map(OutputId)
    }

    fn late_file(&mut self, path: &str, role: Role) -> Result<OutputId> {
        received(self.0.late_file(path.into(), role_number(role))).map(OutputId)
    }

    fn bytes(&mut self, file: OutputId, bytes: &[u8]) -> Result<u64> {
        received(self.0.bytes(file.0, bytes.into()))
    }

    fn tensor(&mut self, file: OutputId, part: TensorPart) -> Result<u64> {
        let region: Vec<u64> = match &part.region {
            Some(region) => region.origin.iter().chain(&region.shape).copied().collect(),
            None => Vec::new(),
        };
        let order = match part.order {
            Order::C => 0,
            Order::Fortran => 1,
        };
        let byte_order = byte_order_number(part.byte_order);
        received(self.0.tensor(file.0, part.tensor.0, region.as_slice().into(), order, byte_order))
    }

    fn storage(
        &mut self,
        file: OutputId,
        storage: StorageId,
        offset: u64,
        len: u64,
        swap_unit: u32,
    ) -> Result<u64> {
        received(self.0.storage(file.0, storage.0, offset, len, swap_unit))
    }

    fn pad(&mut self, file: OutputId, len: u64) -> Result<u64> {
        received(self.0.pad(file.0, len))
    }

    fn deferred(&mut self, file: OutputId, len: u64) -> Result<DeferredId> {
        received(self.0.deferred(file.0, len)).map(DeferredId)
    }

    fn digest(&mut self, file: OutputId, range: Range<u64>, algorithm: DigestAlgorithm) -> Result<DigestId> {
        received(self.0.digest(file.0, range.start, range.end, algorithm.0)).map(DigestId)
    }

    fn alias(&mut self, tensor: TensorId, of: TensorId) -> Result<()> {
        received(self.0.alias(tensor.0, of.0))
    }

    fn omit(&mut self, tensor: TensorId, why: &str) -> Result<()> {
        received(self.0.omit(tensor.0, why.into()))
    }

    fn written_as(&mut self, tensor: TensorId, name: &str) -> Result<()> {
        received(self.0.written_as(tensor.0, name.into()))
    }

    fn encoded(&mut self, tensor: TensorId) -> Result<()> {
        received(self.0.encoded(tensor.0))
    }

    fn supersedes(&mut self, pattern: &str, role: Role) -> Result<()> {
        received(self.0.supersedes(pattern.into(), role_number(role)))
    }
}
