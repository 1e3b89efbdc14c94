//! Lists cross the boundary as calls of sinks. The sinks in this module collect the elements.

use tensorferry_abi::{ByteSinkCalls, Failure, NameSinkCalls, NumberSinkCalls};

/// The elements that the other side pushed during one call.
#[derive(Default)]
pub(super) struct Collected<T>(pub(super) Vec<T>);

impl NameSinkCalls for Collected<String> {
    fn name(&mut self, name: &str) -> Result<(), Failure> {
        self.0.push(name.to_owned());
        Ok(())
    }
}

impl NumberSinkCalls for Collected<u64> {
    fn numbers(&mut self, numbers: &[u64]) -> Result<(), Failure> {
        self.0.extend_from_slice(numbers);
        Ok(())
    }
}

impl ByteSinkCalls for Collected<u8> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}
