use abi_stable::{StableAbi, sabi_trait, std_types::*};
#[repr(C)]
#[derive(StableAbi, Debug, Clone)]
pub struct AbiError { pub kind: u32, pub message: RString, pub details: RVec<Tuple2<RString, RString>> }

#[sabi_trait]
pub trait View: Send + Sync {
    fn name(&self, i: u32) -> RStr<'_>;
    #[sabi(last_prefix_field)]
    fn shape(&self, i: u32) -> RSlice<'_, u64>;
    fn newer(&self, i: u32) -> RResult<u64, AbiError> { let _ = i; ROk(0) }
}
#[sabi_trait]
pub trait Sink {
    fn put(&mut self, name: RStr<'_>, shape: RSlice<'_, u64>) -> RResult<u32, AbiError>;
}
#[sabi_trait]
pub trait Plan: Send + Sync {
    fn go(&self, v: View_TO<'_, abi_stable::RRef<'_, ()>>, s: Sink_TO<'_, abi_stable::RMut<'_, ()>>) -> RResult<(), AbiError>;
}
