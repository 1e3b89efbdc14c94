//! Writes a bundle: its entries, and the files next to them.

use super::entry::Entry;
use super::files::Prefix;
use super::keys;
use super::plan::plan_bundle;
use super::writable::writable_tensors;
use crate::options::WriteOptions;
use crate::side_entry::{self, SIDE_ENTRY_KEY};
use crate::state_file;
use tensorferry_proto::CheckpointState;
use tensorferry_sdk::{CatalogView, Context, LayoutSink, Result, Role, Target, TensorPlan, TensorWriter};

#[derive(Debug)]
pub(crate) struct BundleWriter {
    pub(crate) options: WriteOptions,
}

impl TensorWriter for BundleWriter {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let prefix = Prefix::of(target)?;
        let tensors = writable_tensors(catalog, layout)?;
        let mut entries = keys::assign(&tensors, &self.options, catalog, layout, context)?;
        if let Some(record) = side_entry::of(catalog) {
            entries.push(Entry::text(SIDE_ENTRY_KEY, record.to_bytes()));
        }
        context.check_cancelled()?;
        let plan = plan_bundle(entries, &prefix, self.options.sharding, catalog, layout)?;
        let is_new_folder = *target == Target::Folder && context.output_is_new();
        if self.options.latest || is_new_folder {
            let (path, name) = prefix.state_file();
            let file = layout.file(&path, Role::Index)?;
            let state = CheckpointState {
                model_checkpoint_path: name.to_owned(),
                all_model_checkpoint_paths: vec![name.to_owned()],
                ..CheckpointState::default()
            };
            layout.bytes(file, state_file::render(&state).as_bytes())?;
        }
        Ok(Box::new(plan))
    }
}
