//! Objects that the host owns and a plugin calls.
#![allow(
    non_local_definitions,
    missing_docs,
    clippy::needless_pass_by_value,
    clippy::cast_possible_truncation,
    reason = "expansions of sabi_trait; the SDK's traits of the same names are documented"
)]

use crate::{AbiError, AbiLoss, AbiResult};
use abi_stable::sabi_trait;
use abi_stable::std_types::{RBox, RErr, ROk, RSlice, RSliceMut, RStr, RString, RVec, Tuple2};
use abi_stable::{RMut, RRef};

/// A borrowed [`Source`].
pub type SourceRef<'a> = Source_TO<'a, RRef<'a, ()>>;
/// An owned [`Source`].
pub type SourceBox = Source_TO<'static, RBox<()>>;
/// A borrowed [`Context`].
pub type ContextRef<'a> = Context_TO<'a, RRef<'a, ()>>;
/// A borrowed [`DescriptionSink`].
pub type DescriptionSinkMut<'a> = DescriptionSink_TO<'a, RMut<'a, ()>>;
/// A borrowed [`CatalogSink`].
pub type CatalogSinkMut<'a> = CatalogSink_TO<'a, RMut<'a, ()>>;
/// A borrowed [`CatalogView`].
pub type CatalogViewRef<'a> = CatalogView_TO<'a, RRef<'a, ()>>;
/// A borrowed [`LayoutSink`].
pub type LayoutSinkMut<'a> = LayoutSink_TO<'a, RMut<'a, ()>>;
/// A borrowed [`LossSink`].
pub type LossSinkMut<'a> = LossSink_TO<'a, RMut<'a, ()>>;
/// A borrowed [`ByteSink`].
pub type ByteSinkMut<'a> = ByteSink_TO<'a, RMut<'a, ()>>;
/// A borrowed [`Digests`].
pub type DigestsRef<'a> = Digests_TO<'a, RRef<'a, ()>>;
/// A borrowed [`SealSink`].
pub type SealSinkMut<'a> = SealSink_TO<'a, RMut<'a, ()>>;

/// The input's files. `entry_kind`: 0 a file, 1 a folder, 2 a prefix.
#[sabi_trait]
pub trait Source: Send + Sync {
    fn entry_kind(&self) -> u32;
    fn entry_name(&self) -> RStr<'_>;
    fn open(&self, name: RStr<'_>) -> AbiResult<u32>;
    fn contains(&self, name: RStr<'_>) -> bool;
    fn list(&self, prefix: RStr<'_>) -> AbiResult<RVec<RString>>;
    fn name(&self, file: u32) -> RStr<'_>;
    fn len(&self, file: u32) -> u64;
    #[sabi(last_prefix_field)]
    fn read_at(&self, file: u32, offset: u64, buffer: RSliceMut<'_, u8>) -> AbiResult<()>;
    /// Since 1.1: a host without it shows no folders.
    fn folders(&self, _folder: RStr<'_>) -> AbiResult<RVec<RString>> {
        ROk(RVec::new())
    }
}

/// What a plugin may know of the run. `limit` gives `u64::MAX` for a name that the host does not
/// know; the plugin then keeps its own default.
#[sabi_trait]
pub trait Context: Send + Sync {
    fn limit(&self, name: RStr<'_>) -> u64;
    fn is_cancelled(&self) -> bool;
    #[sabi(last_prefix_field)]
    fn note(&self, message: RStr<'_>);
    /// The number of the SDK's `Purpose`; since 1.1.
    fn purpose(&self) -> u32 {
        0
    }
    /// What an option of kind 5 names; since 1.1.
    fn open(&self, path: RStr<'_>) -> AbiResult<SourceBox> {
        RErr(AbiError::missing(path.as_str()))
    }
    /// Since 1.1.
    fn output_is_new(&self) -> bool {
        false
    }
    /// Since 1.2.
    fn threads(&self) -> u32 {
        1
    }
}

/// Takes a format's description. `side`: 0 reader, 1 writer. `kind`: 0 text, 1 bool, 2 integer,
/// 3 size, 4 one of `choices`, 5 a source (since 1.1); a host treats another as text.
#[sabi_trait]
pub trait DescriptionSink {
    fn identity(&mut self, id: RStr<'_>, title: RStr<'_>, capabilities: u64, output_revision: u32);
    fn suffix(&mut self, suffix: RStr<'_>);
    fn magic(&mut self, offset: u64, bytes: RSlice<'_, u8>);
    fn member(&mut self, pattern: RStr<'_>);
    #[sabi(last_prefix_field)]
    fn option(
        &mut self,
        side: u32,
        key: RStr<'_>,
        kind: u32,
        choices: RSlice<'_, RStr<'_>>,
        default: RSlice<'_, RStr<'_>>,
        help: RStr<'_>,
    );
}

/// Takes what a reader finds. `byte_order`: 0 little, 1 big. `algorithm` 0: no digest is known.
/// `blocks`, one after the other: storage, offset, origin (rank numbers), shape (rank), strides
/// (rank, two's complement).
#[sabi_trait]
pub trait CatalogSink {
    fn file_storage(
        &mut self,
        file: u32,
        offset: u64,
        len: u64,
        byte_order: u32,
        algorithm: u32,
        digest: RSlice<'_, u8>,
    ) -> AbiResult<u32>;
    fn encoded_storage(
        &mut self,
        handle: u64,
        len: u64,
        byte_order: u32,
        algorithm: u32,
        digest: RSlice<'_, u8>,
    ) -> AbiResult<u32>;
    fn inline_storage(
        &mut self,
        bytes: RSlice<'_, u8>,
        byte_order: u32,
        algorithm: u32,
        digest: RSlice<'_, u8>,
    ) -> AbiResult<u32>;
    fn dtype(
        &mut self,
        name: RStr<'_>,
        block_elements: u32,
        block_bytes: u32,
        swap_unit: u32,
    ) -> AbiResult<u32>;
    fn tensor(
        &mut self,
        name: RStr<'_>,
        dtype: u32,
        shape: RSlice<'_, u64>,
        storage: u32,
        offset: u64,
    ) -> AbiResult<u32>;
    fn tensor_of_blocks(
        &mut self,
        name: RStr<'_>,
        dtype: u32,
        shape: RSlice<'_, u64>,
        blocks: RSlice<'_, u64>,
    ) -> AbiResult<u32>;
    fn metadata(&mut self, key: RStr<'_>, value: RStr<'_>) -> AbiResult<()>;
    fn node(
        &mut self,
        kind: u32,
        class: RStr<'_>,
        bytes: RSlice<'_, u8>,
        children: RSlice<'_, u32>,
    ) -> AbiResult<u32>;
    fn root(&mut self, node: u32) -> AbiResult<()>;
    fn loss(&mut self, loss: AbiLoss<'_>) -> AbiResult<()>;
    fn origin(&mut self, format: RStr<'_>) -> AbiResult<()>;
    #[sabi(last_prefix_field)]
    fn global(&mut self, name: RStr<'_>) -> AbiResult<()>;
    /// Since 1.1: a host without it shows no labels.
    fn label(&mut self, _tensor: u32, _key: RStr<'_>, _value: RStr<'_>) -> AbiResult<()> {
        ROk(())
    }
}

/// The catalog that a writer lays out. An id that is not there gives empty values; `root` and
/// `tied_to` then give `u32::MAX`. Blocks are numbers as in [`CatalogSink`].
#[sabi_trait]
pub trait CatalogView: Send + Sync {
    fn tensor_count(&self) -> u32;
    fn tensor_name(&self, id: u32) -> RStr<'_>;
    fn tensor_dtype(&self, id: u32) -> u32;
    fn tensor_shape(&self, id: u32) -> RSlice<'_, u64>;
    fn tensor_bytes(&self, id: u32) -> u64;
    fn tied_to(&self, id: u32) -> u32;
    fn blocks(&self, id: u32) -> RVec<u64>;
    fn dtype_name(&self, dtype: u32) -> RString;
    fn dtype_numbers(&self, dtype: u32) -> RVec<u32>;
    fn storage_count(&self) -> u32;
    fn storage_len(&self, id: u32) -> AbiResult<u64>;
    fn storage_byte_order(&self, id: u32) -> u32;
    fn metadata(&self) -> RVec<Tuple2<RString, RString>>;
    fn root(&self) -> u32;
    fn node_kind(&self, id: u32) -> AbiResult<u32>;
    fn node_class(&self, id: u32) -> RString;
    fn node_bytes(&self, id: u32) -> RVec<u8>;
    fn node_children(&self, id: u32) -> RVec<u32>;
    fn origin(&self) -> RString;
    #[sabi(last_prefix_field)]
    fn read(&self, id: u32, offset: u64, buffer: RSliceMut<'_, u8>) -> AbiResult<()>;
}

/// Takes what a writer plans. `role`: 0 data, 1 index. `region`: origin then shape, or empty for
/// the whole tensor. `order`: 0 C, 1 Fortran. `byte_order`: 0 little, 1 big.
#[sabi_trait]
pub trait LayoutSink {
    fn file(&mut self, path: RStr<'_>, role: u32) -> AbiResult<u32>;
    fn streamed_file(&mut self, path: RStr<'_>, role: u32, tensors: RSlice<'_, u32>) -> AbiResult<u32>;
    fn late_file(&mut self, path: RStr<'_>, role: u32) -> AbiResult<u32>;
    fn bytes(&mut self, file: u32, bytes: RSlice<'_, u8>) -> AbiResult<u64>;
    fn tensor(
        &mut self,
        file: u32,
        tensor: u32,
        region: RSlice<'_, u64>,
        order: u32,
        byte_order: u32,
    ) -> AbiResult<u64>;
    fn storage(&mut self, file: u32, storage: u32, offset: u64, len: u64, swap_unit: u32) -> AbiResult<u64>;
    fn pad(&mut self, file: u32, len: u64) -> AbiResult<u64>;
    fn deferred(&mut self, file: u32, len: u64) -> AbiResult<u32>;
    fn digest(&mut self, file: u32, start: u64, end: u64, algorithm: u32) -> AbiResult<u32>;
    fn alias(&mut self, tensor: u32, of: u32) -> AbiResult<()>;
    fn omit(&mut self, tensor: u32, why: RStr<'_>) -> AbiResult<()>;
    #[sabi(last_prefix_field)]
    fn loss(&mut self, loss: AbiLoss<'_>) -> AbiResult<()>;
    /// Since 1.1: a host without it looks for the tensor under its own name.
    fn written_as(&mut self, _tensor: u32, _name: RStr<'_>) -> AbiResult<()> {
        ROk(())
    }
    /// Since 1.1.
    fn encoded(&mut self, _tensor: u32) -> AbiResult<()> {
        RErr(AbiError::missing("tensors in bytes of the writer's own"))
    }
    /// Since 1.1: a host without it leaves such files where they are.
    fn supersedes(&mut self, _pattern: RStr<'_>, _role: u32) -> AbiResult<()> {
        ROk(())
    }
}

/// Takes what rows or their files cannot say.
#[sabi_trait]
pub trait LossSink {
    #[sabi(last_prefix_field)]
    fn loss(&mut self, loss: AbiLoss<'_>) -> AbiResult<()>;
}

/// Takes bytes in order.
#[sabi_trait]
pub trait ByteSink {
    #[sabi(last_prefix_field)]
    fn write(&mut self, bytes: RSlice<'_, u8>) -> AbiResult<()>;
}

/// The digests that a layout asked for: algorithm and value.
#[sabi_trait]
pub trait Digests {
    fn get(&self, id: u32) -> AbiResult<Tuple2<u32, RVec<u8>>>;
    #[sabi(last_prefix_field)]
    fn file_len(&self, file: u32) -> AbiResult<u64>;
}

/// Takes what needed digests.
#[sabi_trait]
pub trait SealSink {
    fn deferred(&mut self, id: u32, bytes: RSlice<'_, u8>) -> AbiResult<()>;
    #[sabi(last_prefix_field)]
    fn late(&mut self, file: u32, bytes: RSlice<'_, u8>) -> AbiResult<()>;
}
