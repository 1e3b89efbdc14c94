//! Passes a [`ByteSink`] across the boundary.

use crate::{ByteSink, Result};
use tensorferry_abi::{Borrowed, ByteSinkCalls, ByteSinkTable, Failure};

pub(super) struct LentByteSink<'a>(pub(super) &'a mut dyn ByteSink);

impl ByteSinkCalls for LentByteSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.0.write(bytes)?)
    }
}

pub(super) struct RemoteByteSink<'a>(pub(super) Borrowed<'a, ByteSinkTable>);

impl ByteSink for RemoteByteSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.0.write(bytes)?)
    }
}
