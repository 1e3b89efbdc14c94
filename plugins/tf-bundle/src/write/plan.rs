//! Plans a bundle: lays out the data files, and schedules the index to be written after them.

use super::data::{self, DataFiles};
use super::entry::Entry;
use super::files::Prefix;
use super::index;
use crate::names::key_text::key_text;
use crate::options::Sharding;
use tensorferry_sdk::{
    ByteSink, CatalogView, Context, Digests, EncodedId, Error, LayoutSink, OutputId, Result, Role, SealSink,
    TensorPlan,
};

pub(crate) struct BundlePlan {
    data: DataFiles,
    index: OutputId,
}

/// Lays out a bundle of these entries, which may be in any order.
pub(crate) fn plan_bundle(
    mut entries: Vec<Entry>,
    prefix: &Prefix,
    sharding: Sharding,
    catalog: &dyn CatalogView,
    layout: &mut dyn LayoutSink,
) -> Result<BundlePlan> {
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].key == pair[1].key) {
        return Err(Error::usage("two tensors have the same key")
            .hint("rename one of them")
            .tensor(key_text(&pair[0].key)));
    }
    let data = data::lay_out(entries, prefix, sharding, catalog, layout)?;
    let index = layout.late_file(&prefix.index(), Role::Index)?;
    if let Some(pattern) = prefix.superseded() {
        layout.supersedes(&pattern, Role::Data)?;
    }
    Ok(BundlePlan { data, index })
}

impl TensorPlan for BundlePlan {
    fn encode(
        &self,
        id: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        _context: &dyn Context,
    ) -> Result<Vec<u8>> {
        self.data.strings.encode(id, catalog, output)
    }

    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        index::write(&self.data, self.index, digests, output)
    }
}
