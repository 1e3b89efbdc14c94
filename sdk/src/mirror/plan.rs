//! Passes a [`TensorPlan`] across the boundary.

use super::byte_sink::{LentByteSink, RemoteByteSink};
use super::catalog_view::{LentCatalogView, RemoteCatalogView};
use super::collector::Collector;
use super::context::{LentContext, RemoteContext};
use super::faults::PluginObject;
use super::seal::{LentDigests, LentSealSink, RemoteDigests, RemoteSealSink};
use crate::{ByteSink, CatalogView, Context, Digests, EncodedId, OutputId, Result, SealSink, TensorPlan};
use std::sync::Arc;
use tensorferry_abi::{
    Borrowed, ByteSinkTable, CatalogViewTable, ContextTable, DigestsTable, Failure, Owned, SealSinkTable,
    TensorPlanCalls, TensorPlanTable,
};

pub(super) fn lend_plan(plan: Box<dyn TensorPlan>) -> Owned<TensorPlanTable> {
    Owned::give(LentPlan(plan))
}

struct LentPlan(Box<dyn TensorPlan>);

impl TensorPlanCalls for LentPlan {
    fn stream(
        &self,
        file: u32,
        catalog: Borrowed<'_, CatalogViewTable>,
        output: Borrowed<'_, ByteSinkTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> Result<(), Failure> {
        let (catalog, context) = (RemoteCatalogView::new(&catalog)?, RemoteContext::new(context)?);
        Ok(self.0.stream(OutputId(file), &catalog, &mut RemoteByteSink(output), &context)?)
    }

    fn encode(
        &self,
        id: u32,
        catalog: Borrowed<'_, CatalogViewTable>,
        output: Borrowed<'_, ByteSinkTable>,
        note: Borrowed<'_, ByteSinkTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> Result<(), Failure> {
        let (catalog, context) = (RemoteCatalogView::new(&catalog)?, RemoteContext::new(context)?);
        note.write(&self.0.encode(EncodedId(id), &catalog, &mut RemoteByteSink(output), &context)?)
    }

    fn seal(
        &self,
        digests: Borrowed<'_, DigestsTable>,
        output: Borrowed<'_, SealSinkTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> Result<(), Failure> {
        let context = RemoteContext::new(context)?;
        Ok(self.0.seal(&RemoteDigests(digests), &mut RemoteSealSink(output), &context)?)
    }
}

pub(super) struct RemotePlan(pub(super) Arc<PluginObject<TensorPlanTable>>);

impl TensorPlan for RemotePlan {
    fn stream(
        &self,
        file: OutputId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let (catalog, mut output, context) =
            (LentCatalogView(catalog), LentByteSink(output), LentContext(context));
        let (catalog, context) = (Borrowed::shared(&catalog), Borrowed::shared(&context));
        self.0.result(self.0.stream(file.0, catalog, Borrowed::sink(&mut output), context))
    }

    fn encode(
        &self,
        id: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<Vec<u8>> {
        let (catalog, context) = (LentCatalogView(catalog), LentContext(context));
        let (mut output, mut note) = (LentByteSink(output), Collector::<u8>::default());
        self.0.result(self.0.encode(
            id.0,
            Borrowed::shared(&catalog),
            Borrowed::sink(&mut output),
            Borrowed::sink(&mut note),
            Borrowed::shared(&context),
        ))?;
        Ok(note.0)
    }

    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, context: &dyn Context) -> Result<()> {
        let (mut digests, mut output, context) =
            (LentDigests(digests), LentSealSink(output), LentContext(context));
        let (digests, output) = (Borrowed::sink(&mut digests), Borrowed::sink(&mut output));
        self.0.result_or_default(self.0.seal(digests, output, Borrowed::shared(&context)))
    }
}
