//! [`ByteSink`] across the boundary.

use super::guard::{guard, received};
use crate::{ByteSink, Result};
use tensorferry_abi::abi_stable::std_types::RSlice;
use tensorferry_abi::{self as abi, AbiResult, ByteSinkMut};

pub(super) struct LentByteSink<'a>(pub(super) &'a mut dyn ByteSink);

impl abi::ByteSink for LentByteSink<'_> {
    fn write(&mut self, bytes: RSlice<'_, u8>) -> AbiResult<()> {
        guard("output.write", || self.0.write(bytes.as_slice()))
    }
}

pub(super) struct RemoteByteSink<'a>(pub(super) ByteSinkMut<'a>);

impl ByteSink for RemoteByteSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        received(self.0.write(bytes.into()))
    }
}
