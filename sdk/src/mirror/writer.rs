//! Passes a [`TensorWriter`] across the boundary.

use super::catalog_view::{LentCatalogView, RemoteCatalogView};
use super::collector::Collector;
use super::context::{LentContext, RemoteContext};
use super::faults::PluginObject;
use super::layout_sink::{LentLayoutSink, RemoteLayoutSink};
use super::numbers::{target, target_number};
use super::plan::{RemotePlan, lend_plan};
use crate::{CatalogView, Context, LayoutSink, Result, Target, TensorPlan, TensorWriter};
use std::sync::Arc;
use tensorferry_abi::{
    Borrowed, CatalogViewTable, ContextTable, Failure, LayoutSinkTable, NameSinkTable, Owned,
    TensorPlanTable, TensorWriterCalls, TensorWriterTable,
};

pub(super) fn lend_writer(writer: Box<dyn TensorWriter>) -> Owned<TensorWriterTable> {
    Owned::give(LentWriter(writer))
}

struct LentWriter(Box<dyn TensorWriter>);

impl TensorWriterCalls for LentWriter {
    fn plan(
        &self,
        catalog: Borrowed<'_, CatalogViewTable>,
        target_kind: u32,
        target_name: &str,
        layout: Borrowed<'_, LayoutSinkTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> Result<Owned<TensorPlanTable>, Failure> {
        let target = target(target_kind, target_name)?;
        let (catalog, context) = (RemoteCatalogView::whole(&catalog)?, RemoteContext::new(context)?);
        Ok(lend_plan(self.0.plan(&catalog, &target, &mut RemoteLayoutSink(layout), &context)?))
    }

    fn steps(
        &self,
        catalog: Borrowed<'_, CatalogViewTable>,
        steps: Borrowed<'_, NameSinkTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> Result<(), Failure> {
        let (catalog, context) = (RemoteCatalogView::whole(&catalog)?, RemoteContext::new(context)?);
        self.0.steps(&catalog, &context)?.iter().try_for_each(|step| steps.name(step))
    }
}

pub(super) struct RemoteWriter(pub(super) Arc<PluginObject<TensorWriterTable>>);

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
        let (kind, name) = target_number(target);
        let (catalog, context) = (Borrowed::shared(&catalog), Borrowed::shared(&context));
        let plan = self.0.plan(catalog, kind, name, Borrowed::sink(&mut layout), context);
        Ok(Box::new(RemotePlan(self.0.child(plan)?)))
    }

    fn steps(&self, catalog: &dyn CatalogView, context: &dyn Context) -> Result<Vec<String>> {
        let (catalog, context) = (LentCatalogView(catalog), LentContext(context));
        let (catalog, context) = (Borrowed::shared(&catalog), Borrowed::shared(&context));
        let mut steps = Collector::<String>::default();
        self.0.result_or_default(self.0.steps(catalog, Borrowed::sink(&mut steps), context))?;
        Ok(steps.0)
    }
}
