//! [`TensorPlan`] across the boundary.

use super::byte_sink::{LentByteSink, RemoteByteSink};
use super::catalog_view::{LentCatalogView, RemoteCatalogView};
use super::faults::Plugged;
use super::seal::{LentDigests, LentSealSink, RemoteDigests, RemoteSealSink};
use crate::{ByteSink, CatalogView, Digests, OutputId, Result, SealSink, TensorPlan};
use std::sync::Arc;
use tensorferry_abi::{
    Borrowed, ByteSinkTable, CatalogViewTable, DigestsTable, Failure, Owned, SealSinkTable, TensorPlanCalls,
    TensorPlanTable,
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
    ) -> Result<(), Failure> {
        let catalog = RemoteCatalogView::new(&catalog)?;
        Ok(self.0.stream(OutputId(file), &catalog, &mut RemoteByteSink(output))?)
    }

    fn seal(
        &self,
        digests: Borrowed<'_, DigestsTable>,
        output: Borrowed<'_, SealSinkTable>,
    ) -> Result<(), Failure> {
        Ok(self.0.seal(&RemoteDigests(digests), &mut RemoteSealSink(output))?)
    }
}

pub(super) struct RemotePlan(pub(super) Arc<Plugged<TensorPlanTable>>);

impl TensorPlan for RemotePlan {
    fn stream(&self, file: OutputId, catalog: &dyn CatalogView, output: &mut dyn ByteSink) -> Result<()> {
        let (catalog, mut output) = (LentCatalogView(catalog), LentByteSink(output));
        self.0.answer(self.0.stream(file.0, Borrowed::shared(&catalog), Borrowed::sink(&mut output)))
    }

    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink) -> Result<()> {
        let (mut digests, mut output) = (LentDigests(digests), LentSealSink(output));
        self.0.answer(self.0.seal(Borrowed::sink(&mut digests), Borrowed::sink(&mut output)))
    }
}
