//! Lists cross through sinks: these collect what arrives.

use tensorferry_abi::{ByteSinkCalls, Failure, NameSinkCalls, NumberSinkCalls};

/// What one call has pushed.
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
