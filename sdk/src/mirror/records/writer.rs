//! [`RecordWriter`] across the boundary.

use super::super::context::{LentContext, RemoteContext};
use super::super::faults::Faults;
use super::super::guard::{Held, guard, received};
use super::arrow::{schema_from_abi, schema_to_abi};
use super::loss_sink::{LentLossSink, RemoteLossSink};
use super::plan::{RemoteRecordPlan, lend_record_plan};
use super::{UNKNOWN, known};
use crate::records::{RecordPlan, RecordWriter};
use crate::{Context, LossSink, Result, Target};
use arrow_schema::SchemaRef;
use std::sync::Arc;
use tensorferry_abi::abi_stable::erased_types::TD_Opaque;
use tensorferry_abi::abi_stable::std_types::RStr;
use tensorferry_abi::abi_stable::{RMut, RRef};
use tensorferry_abi::{
    self as abi, AbiResult, ArrowSchema, Context_TO, ContextRef, LossSink_TO, LossSinkMut, RecordPlanBox,
    RecordWriter_TO, RecordWriterBox,
};

pub(in super::super) fn lend_record_writer(writer: Box<dyn RecordWriter>) -> RecordWriterBox {
    RecordWriter_TO::from_value(LentRecordWriter(Held::new(writer)), TD_Opaque)
}

struct LentRecordWriter(Held<dyn RecordWriter>);

impl abi::RecordWriter for LentRecordWriter {
    fn plan(
        &self,
        schema: ArrowSchema,
        rows: u64,
        target_kind: u32,
        target_name: RStr<'_>,
        losses: LossSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<RecordPlanBox> {
        guard("plan", || {
            let target = match target_kind {
                0 => Target::File(target_name.as_str().to_owned()),
                _ => Target::Folder,
            };
            let schema = schema_from_abi(schema)?;
            let (mut losses, context) = (RemoteLossSink(losses), RemoteContext::new(context));
            let plan = self.0.get()?.plan(&schema, known(rows), &target, &mut losses, &context);
            plan.map(lend_record_plan)
        })
    }

    fn close(&mut self) -> AbiResult<()> {
        self.0.close()
    }
}

pub(in super::super) struct RemoteRecordWriter {
    pub(in super::super) object: RecordWriterBox,
    pub(in super::super) faults: Arc<Faults>,
}

impl Drop for RemoteRecordWriter {
    fn drop(&mut self) {
        self.faults.closed(self.object.close());
    }
}

impl RecordWriter for RemoteRecordWriter {
    fn plan(
        &self,
        schema: &SchemaRef,
        rows: Option<u64>,
        target: &Target,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        let (kind, name) = match target {
            Target::File(name) => (0, name.as_str()),
            Target::Folder => (1, ""),
        };
        let (mut losses, context) = (LentLossSink(losses), LentContext(context));
        let losses = LossSink_TO::from_ptr(RMut::new(&mut losses), TD_Opaque);
        let context = Context_TO::from_ptr(RRef::new(&context), TD_Opaque);
        let rows = rows.unwrap_or(UNKNOWN);
        let plan =
            received(self.object.plan(schema_to_abi(schema)?, rows, kind, name.into(), losses, context));
        let object = plan.map_err(|e| self.faults.blame(e))?;
        Ok(Box::new(RemoteRecordPlan::new(object, self.faults.clone())))
    }
}
