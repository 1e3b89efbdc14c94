//! [`TensorWriter`] across the boundary.

use super::catalog_view::{LentCatalogView, RemoteCatalogView};
use super::context::{LentContext, RemoteContext};
use super::faults::Faults;
use super::guard::{Held, guard, received};
use super::layout_sink::{LentLayoutSink, RemoteLayoutSink};
use super::plan::{RemotePlan, lend_plan};
use crate::{CatalogView, Context, LayoutSink, Result, Target, TensorPlan, TensorWriter};
use std::sync::Arc;
use tensorferry_abi::abi_stable::erased_types::TD_Opaque;
use tensorferry_abi::abi_stable::std_types::RStr;
use tensorferry_abi::abi_stable::{RMut, RRef};
use tensorferry_abi::{
    self as abi, AbiResult, CatalogView_TO, CatalogViewRef, Context_TO, ContextRef, LayoutSink_TO,
    LayoutSinkMut, TensorPlanBox, TensorWriter_TO, TensorWriterBox,
};

pub(super) fn lend_writer(writer: Box<dyn TensorWriter>) -> TensorWriterBox {
    TensorWriter_TO::from_value(LentWriter(Held::new(writer)), TD_Opaque)
}

struct LentWriter(Held<dyn TensorWriter>);

impl abi::TensorWriter for LentWriter {
    fn plan(
        &self,
        catalog: CatalogViewRef<'_>,
        target_kind: u32,
        target_name: RStr<'_>,
        layout: LayoutSinkMut<'_>,
        context: ContextRef<'_>,
    ) -> AbiResult<TensorPlanBox> {
        guard("plan", || {
            let target = match target_kind {
                0 => Target::File(target_name.as_str().to_owned()),
                _ => Target::Folder,
            };
            let (catalog, context) = (RemoteCatalogView(catalog), RemoteContext::new(context));
            let plan = self.0.get()?.plan(&catalog, &target, &mut RemoteLayoutSink(layout), &context)?;
            Ok(lend_plan(plan))
        })
    }

    fn close(&mut self) -> AbiResult<()> {
        self.0.close()
    }
}

pub(super) struct RemoteWriter {
    pub(super) object: TensorWriterBox,
    pub(super) faults: Arc<Faults>,
}

impl Drop for RemoteWriter {
    fn drop(&mut self) {
        self.faults.closed(self.object.close());
    }
}

impl TensorWriter for RemoteWriter {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let (catalog, context) = (LentCatalogView(catalog), LentContext(context));
        let mut layout = LentLayoutSink(layout);
        let (kind, name) = match target {
            Target::File(name) => (0, name.as_str()),
            Target::Folder => (1, ""),
        };
        let catalog = CatalogView_TO::from_ptr(RRef::new(&catalog), TD_Opaque);
        let context = Context_TO::from_ptr(RRef::new(&context), TD_Opaque);
        let layout = LayoutSink_TO::from_ptr(RMut::new(&mut layout), TD_Opaque);
        let plan = received(self.object.plan(catalog, kind, name.into(), layout, context));
        let object = plan.map_err(|e| self.faults.blame(e))?;
        Ok(Box::new(RemotePlan { object, faults: self.faults.clone() }))
    }
}
