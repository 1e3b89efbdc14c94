//! Objects of formats that hold rows: a plugin owns them and the host calls them. Rows cross as Arrow C
//! streams. Since 1.2.
#![allow(
    non_local_definitions,
    missing_docs,
    clippy::needless_pass_by_value,
    clippy::cast_possible_truncation,
    reason = "expansions of sabi_trait; the SDK's traits of the same names are documented"
)]

use crate::AbiResult;
use crate::arrow::{ArrowArrayStream, ArrowSchema};
use crate::host::{ByteSinkMut, ContextRef, LossSinkMut, SourceBox, SourceRef};
use abi_stable::sabi_trait;
use abi_stable::std_types::{RBox, RSlice, RStr, RString, RVec, Tuple2, Tuple4};

/// An owned [`RecordReader`].
pub type RecordReaderBox = RecordReader_TO<'static, RBox<()>>;
/// An owned [`RecordSet`].
pub type RecordSetBox = RecordSet_TO<'static, RBox<()>>;
/// An owned [`RecordWriter`].
pub type RecordWriterBox = RecordWriter_TO<'static, RBox<()>>;
/// An owned [`RecordPlan`].
pub type RecordPlanBox = RecordPlan_TO<'static, RBox<()>>;

/// Opens inputs of rows. `index` gives the records and the bytes that it saw.
#[sabi_trait]
pub trait RecordReader: Send + Sync {
    fn open(
        &self,
        source: SourceBox,
        losses: LossSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<RecordSetBox>;
    fn index(
        &self,
        source: SourceRef<'_>,
        output: ByteSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<Tuple2<u64, u64>>;
    #[sabi(last_prefix_field)]
    fn close(&mut self) -> AbiResult<()>;
}

/// An opened input of rows. A split is its file, offset, bytes and records (`u64::MAX`: not known).
/// `stream` takes column numbers where `projected`, and gives a stream with a ticket: when the stream
/// reports an error, `fault` gives the typed error behind the ticket, once. `json` gives `u64::MAX`
/// where the format has no mapping of its own. `skipped` is file, record (`u64::MAX`: not known), offset, why.
#[sabi_trait]
pub trait RecordSet: Send + Sync {
    fn schema(&self) -> AbiResult<ArrowSchema>;
    fn split_count(&self) -> u32;
    fn split(&self, split: u32) -> AbiResult<Tuple4<RString, u64, u64, u64>>;
    fn stream(
        &self,
        split: u32,
        projected: bool,
        columns: RSlice<'_, u32>,
        rows: u64,
        bytes: u64,
    ) -> AbiResult<Tuple2<ArrowArrayStream, u64>>;
    fn fault(&self, ticket: u64) -> AbiResult<()>;
    fn json(&self, split: u32, most: u64, output: ByteSinkMut<'_>) -> AbiResult<u64>;
    fn skipped(&self) -> RVec<Tuple4<RString, u64, u64, RString>>;
    fn losses(&self, losses: LossSinkMut<'_>) -> AbiResult<()>;
    #[sabi(last_prefix_field)]
    fn close(&mut self) -> AbiResult<()>;
}

/// Plans outputs of rows. `rows`: how many there will be, `u64::MAX` where that is not known.
/// `target_kind`: 0 a file, 1 a folder.
#[sabi_trait]
pub trait RecordWriter: Send + Sync {
    fn plan(
        &self,
        schema: ArrowSchema,
        rows: u64,
        target_kind: u32,
        target_name: RStr<'_>,
        losses: LossSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<RecordPlanBox>;
    #[sabi(last_prefix_field)]
    fn close(&mut self) -> AbiResult<()>;
}

/// A plan in hand. `group` is rows and bytes. `encode` gives the piece's note; a piece is its
/// offset, length, rows and note.
#[sabi_trait]
pub trait RecordPlan: Send + Sync {
    fn files(&self) -> RVec<RString>;
    fn group(&self) -> Tuple2<u64, u64>;
    fn begin(&self, file: u32, output: ByteSinkMut<'_>) -> AbiResult<()>;
    fn encode(
        &self,
        file: u32,
        batches: ArrowArrayStream,
        output: ByteSinkMut<'_>,
        losses: LossSinkMut<'_>,
    ) -> AbiResult<RVec<u8>>;
    fn finish(
        &self,
        file: u32,
        pieces: RVec<Tuple4<u64, u64, u64, RVec<u8>>>,
        output: ByteSinkMut<'_>,
    ) -> AbiResult<()>;
    #[sabi(last_prefix_field)]
    fn close(&mut self) -> AbiResult<()>;
    fn notes(&self) -> RVec<RString> {
        RVec::new()
    }
}
