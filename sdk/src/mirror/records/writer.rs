//! Passes a [`RecordWriter`] across the boundary.

use super::super::context::{LentContext, RemoteContext};
use super::super::faults::PluginObject;
use super::super::numbers::{target, target_number};
use super::known;
use super::loss_sink::{LentLossSink, RemoteLossSink};
use super::plan::{RemoteRecordPlan, lend_record_plan};
use crate::records::c_data::{schema_from_abi, schema_to_abi};
use crate::records::{RecordPlan, RecordWriter};
use crate::{Context, LossSink, Result, Target};
use arrow_schema::SchemaRef;
use std::mem::replace;
use std::sync::Arc;
use tensorferry_abi::{
    ArrowSchema, Borrowed, ContextTable, Failure, LossSinkTable, OutputFacts, Owned, RecordPlanTable,
    RecordWriterCalls, RecordWriterTable, UNKNOWN,
};

pub(in super::super) fn lend_record_writer(writer: Box<dyn RecordWriter>) -> Owned<RecordWriterTable> {
    Owned::give(LentRecordWriter(writer))
}

struct LentRecordWriter(Box<dyn RecordWriter>);

impl RecordWriterCalls for LentRecordWriter {
    fn plan(
        &self,
        schema: &mut ArrowSchema,
        output: OutputFacts<'_>,
        losses: Borrowed<'_, LossSinkTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> Result<Owned<RecordPlanTable>, Failure> {
        let schema = schema_from_abi(replace(schema, ArrowSchema::released()))?;
        let target = target(output.target_kind, output.target_name)?;
        let (mut losses, context) = (RemoteLossSink(losses), RemoteContext::new(context)?);
        let plan = self.0.plan(&schema, known(output.rows), &target, &mut losses, &context)?;
        Ok(lend_record_plan(plan))
    }
}

pub(in super::super) struct RemoteRecordWriter(pub(in super::super) Arc<PluginObject<RecordWriterTable>>);

impl RecordWriter for RemoteRecordWriter {
    fn plan(
        &self,
        schema: &SchemaRef,
        rows: Option<u64>,
        target: &Target,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        let (target_kind, target_name) = target_number(target);
        let output = OutputFacts { rows: rows.unwrap_or(UNKNOWN), target_kind, target_name };
        let (mut schema, context) = (schema_to_abi(schema)?, LentContext(context));
        let mut losses = LentLossSink(losses);
        let (losses, context) = (Borrowed::sink(&mut losses), Borrowed::shared(&context));
        let plan = self.0.child(self.0.plan(&mut schema, output, losses, context))?;
        Ok(Box::new(RemoteRecordPlan::new(plan)?))
    }
}
