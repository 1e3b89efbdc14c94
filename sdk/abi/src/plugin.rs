//! Objects that a plugin owns and the host calls.
//!
//! Each has a `close`, which drops what it holds and says how that went: a panic in a destructor
//! becomes an error there. Dropping an object that was not closed catches the panic and is silent.
#![allow(
    non_local_definitions,
    missing_docs,
    clippy::needless_pass_by_value,
    clippy::cast_possible_truncation,
    reason = "expansions of sabi_trait; the SDK's traits of the same names are documented"
)]

use crate::host::{
    ByteSinkMut, CatalogSinkMut, CatalogViewRef, ContextRef, DescriptionSinkMut, DigestsRef, LayoutSinkMut,
    SealSinkMut, SourceRef,
};
use crate::{AbiError, AbiResult};
use abi_stable::library::RootModule;
use abi_stable::package_version_strings;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::{RBox, RErr, RSlice, RStr, RString, RVec, Tuple2};
use abi_stable::{StableAbi, sabi_trait};

/// An owned [`Format`].
pub type FormatBox = Format_TO<'static, RBox<()>>;
/// An owned [`TensorReader`].
pub type TensorReaderBox = TensorReader_TO<'static, RBox<()>>;
/// An owned [`TensorDecoder`].
pub type TensorDecoderBox = TensorDecoder_TO<'static, RBox<()>>;
/// An owned [`TensorWriter`].
pub type TensorWriterBox = TensorWriter_TO<'static, RBox<()>>;
/// An owned [`TensorPlan`].
pub type TensorPlanBox = TensorPlan_TO<'static, RBox<()>>;

/// A format. `probe` gives -1 where the declared magic, suffixes and members decide. Options are
/// the checked values of one side, defaults filled in.
#[sabi_trait]
pub trait Format: Send + Sync {
    fn describe(&self, sink: DescriptionSinkMut<'_>) -> AbiResult<()>;
    fn probe(&self, source: SourceRef<'_>, context: ContextRef<'_>) -> AbiResult<i64>;
    fn reader(&self, options: RSlice<'_, Tuple2<RString, RString>>) -> AbiResult<TensorReaderBox>;
    fn writer(&self, options: RSlice<'_, Tuple2<RString, RString>>) -> AbiResult<TensorWriterBox>;
    #[sabi(last_prefix_field)]
    fn close(&mut self) -> AbiResult<()>;
    /// Since 1.2.
    fn record_reader(
        &self,
        _options: RSlice<'_, Tuple2<RString, RString>>,
    ) -> AbiResult<crate::records::RecordReaderBox> {
        RErr(AbiError::unsupported("this format reads no records"))
    }
    /// Since 1.2.
    fn record_writer(
        &self,
        _options: RSlice<'_, Tuple2<RString, RString>>,
    ) -> AbiResult<crate::records::RecordWriterBox> {
        RErr(AbiError::unsupported("this format writes no records"))
    }
}

/// Describes what an input holds.
#[sabi_trait]
pub trait TensorReader: Send + Sync {
    fn read(
        &self,
        source: SourceRef<'_>,
        catalog: CatalogSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<TensorDecoderBox>;
    #[sabi(last_prefix_field)]
    fn close(&mut self) -> AbiResult<()>;
}

/// Decodes the encoded storages of an input that was read.
#[sabi_trait]
pub trait TensorDecoder: Send + Sync {
    fn decode(
        &self,
        source: SourceRef<'_>,
        handle: u64,
        output: ByteSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<()>;
    #[sabi(last_prefix_field)]
    fn close(&mut self) -> AbiResult<()>;
}

/// Describes an output. `target_kind`: 0 a file, 1 a folder.
#[sabi_trait]
pub trait TensorWriter: Send + Sync {
    fn plan(
        &self,
        catalog: CatalogViewRef<'_>,
        target_kind: u32,
        target_name: RStr<'_>,
        layout: LayoutSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<TensorPlanBox>;
    #[sabi(last_prefix_field)]
    fn close(&mut self) -> AbiResult<()>;
}

/// A plan in hand.
#[sabi_trait]
pub trait TensorPlan: Send + Sync {
    fn stream(&self, file: u32, catalog: CatalogViewRef<'_>, output: ByteSinkMut<'_>) -> AbiResult<()>;
    fn seal(&self, digests: DigestsRef<'_>, output: SealSinkMut<'_>) -> AbiResult<()>;
    #[sabi(last_prefix_field)]
    fn close(&mut self) -> AbiResult<()>;
}

/// A library's root: what it has.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginRef)))]
pub struct Plugin {
    /// Makes the formats of this library.
    #[sabi(last_prefix_field)]
    pub formats: extern "C" fn() -> AbiResult<RVec<FormatBox>>,
}

impl RootModule for PluginRef {
    abi_stable::declare_root_module_statics! {PluginRef}
    const BASE_NAME: &'static str = "ferry_plugin";
    const NAME: &'static str = "ferry plugin";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}
