//! Lists cross the boundary as calls to sinks. The sinks in this module collect the elements.

use tensorferry_abi::{ByteSinkCalls, Failure, NameSinkCalls, NumberSinkCalls};

/// The elements that the other side pushed during one call.
#[derive(Default)]
pub(super) struct Collector<T>(pub(super) Vec<T>);

impl NameSinkCalls for Collector<String> {
    fn name(&mut self, name: &str) -> Result<(), Failure> {
        self.0.push(name.to_owned());
        Ok(())
    }
}

impl NumberSinkCalls for Collector<u64> {
    fn numbers(&mut self, numbers: &[u64]) -> Result<(), Failure> {
        self.0.extend_from_slice(numbers);
        Ok(())
    }
}

impl ByteSinkCalls for Collector<u8> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}
