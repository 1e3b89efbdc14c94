//! [`TensorPlan`] across the boundary.

use super::byte_sink::{LentByteSink, RemoteByteSink};
use super::catalog_view::{LentCatalogView, RemoteCatalogView};
use super::faults::Faults;
use super::guard::{Held, guard, received};
use super::seal::{LentDigests, LentSealSink, RemoteDigests, RemoteSealSink};
use crate::{ByteSink, CatalogView, Digests, OutputId, Result, SealSink, TensorPlan};
use std::sync::Arc;
use tensorferry_abi::abi_stable::erased_types::TD_Opaque;
use tensorferry_abi::abi_stable::{RMut, RRef};
use tensorferry_abi::{
    self as abi, AbiResult, ByteSink_TO, ByteSinkMut, CatalogView_TO, CatalogViewRef, Digests_TO, DigestsRef,
    SealSink_TO, SealSinkMut, TensorPlan_TO, TensorPlanBox,
};

pub(super) fn lend_plan(plan: Box<dyn TensorPlan>) -> TensorPlanBox {
    TensorPlan_TO::from_value(LentPlan(Held::new(plan)), TD_Opaque)
}

struct LentPlan(Held<dyn TensorPlan>);

impl abi::TensorPlan for LentPlan {
    fn stream(&self, file: u32, catalog: CatalogViewRef<'_>, output: ByteSinkMut<'_>) -> AbiResult<()> {
        guard("stream", || {
            let catalog = RemoteCatalogView(catalog);
            self.0.get()?.stream(OutputId(file), &catalog, &mut RemoteByteSink(output))
        })
    }

    fn seal(&self, digests: DigestsRef<'_>, output: SealSinkMut<'_>) -> AbiResult<()> {
        guard("seal", || self.0.get()?.seal(&RemoteDigests(digests), &mut RemoteSealSink(output)))
    }

    fn close(&mut self) -> AbiResult<()> {
        self.0.close()
    }
}

pub(super) struct RemotePlan {
    pub(super) object: TensorPlanBox,
    pub(super) faults: Arc<Faults>,
}

impl Drop for RemotePlan {
    fn drop(&mut self) {
        self.faults.closed(self.object.close());
    }
}

impl TensorPlan for RemotePlan {
    fn stream(&self, file: OutputId, catalog: &dyn CatalogView, output: &mut dyn ByteSink) -> Result<()> {
        let (catalog, mut output) = (LentCatalogView(catalog), LentByteSink(output));
        let catalog = CatalogView_TO::from_ptr(RRef::new(&catalog), TD_Opaque);
        let output = ByteSink_TO::from_ptr(RMut::new(&mut output), TD_Opaque);
        received(self.object.stream(file.0, catalog, output)).map_err(|e| self.faults.blame(e))
    }

    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink) -> Result<()> {
        let (digests, mut output) = (LentDigests(digests), LentSealSink(output));
        let digests = Digests_TO::from_ptr(RRef::new(&digests), TD_Opaque);
        let output = SealSink_TO::from_ptr(RMut::new(&mut output), TD_Opaque);
        received(self.object.seal(digests, output)).map_err(|e| self.faults.blame(e))
    }
}
