//! Writes a checkpoint as one file or several ([`shards`]). Each file is a zip archive or a stream
//! ([`legacy`]).

mod composite;
mod forms;
mod legacy;
mod losses;
mod object;
mod options;
mod rebuild;
mod shards;
mod state;
mod storages;
#[cfg(test)]
mod tests;
mod tree;
mod unpacked;

use crate::SIDE_RECORD;
pub(crate) use options::specs as options;
use options::{FileFormat, WriteOptions};
use storages::StoragePlan;
use tensorferry_hub::SideRecord;
use tensorferry_sdk::{
    CatalogView, Context, Digests, LayoutSink, Options, Result, Role, SealSink, Target, TensorPlan,
    TensorWriter,
};
use tensorferry_torch_file::{WrittenArchive, ZipPlan};

/// Name of an archive's root folder if it cannot be derived from the file name. torch uses the same
/// name when it writes to a stream.
const DEFAULT_ROOT: &str = "archive";

/// The ID of this format. It is not recorded as an origin.
const OWN_ID: &str = "torch";

#[derive(Debug)]
pub(crate) struct TorchWriter {
    options: WriteOptions,
}

impl TorchWriter {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self { options: WriteOptions::new(options)? })
    }
}

impl TensorWriter for TorchWriter {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let WriteOptions { format, max_shard_size, shard_tag } = self.options;
        let storages = StoragePlan::plan(format, catalog, layout, context)?;
        if format == FileFormat::Legacy {
            legacy::report(catalog, layout, context)?;
        }
        let names = shards::names(target).tagged(shard_tag);
        let records = shards::divide(&storages, max_shard_size);
        let mut plan = Plan(Vec::new());
        if records.len() <= 1 {
            let pickle = state::pickle(catalog, &storages, layout, context)?;
            plan.file(catalog, &pickle, &storages, &names.whole, layout)?;
        } else {
            shards::report_lost_state(catalog, layout)?;
            let numbered = records.iter().zip(1..);
            let files: Vec<(String, StoragePlan)> = numbered
                .map(|(part, number)| (names.file(number, records.len()), storages.only(part)))
                .collect();
            for (path, part) in &files {
                context.check_cancelled()?;
                let pickle = rebuild::state_dict(catalog, part)?;
                plan.file(catalog, &pickle, part, path, layout)?;
            }
            shards::write_index(catalog, &names, &files, layout)?;
        }
        shards::supersede(target, &names, layout)?;
        Ok(Box::new(plan))
    }
}

/// Archives under construction. `seal` fills in their checksums.
struct Plan(Vec<ZipPlan>);

impl Plan {
    /// Adds one file to the layout.
    fn file(
        &mut self,
        catalog: &dyn CatalogView,
        pickle: &[u8],
        storages: &StoragePlan,
        path: &str,
        layout: &mut dyn LayoutSink,
    ) -> Result<()> {
        match storages.format {
            FileFormat::Zip => {
                self.0.push(write_archive(pickle, storages, side_record(catalog), path, layout)?);
            }
            FileFormat::Legacy => legacy::write(pickle, storages, path, layout)?,
        }
        Ok(())
    }
}

impl TensorPlan for Plan {
    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        self.0.iter().try_for_each(|archive| archive.seal(digests, output))
    }
}

fn write_archive(
    pickle: &[u8],
    storages: &StoragePlan,
    side: Option<SideRecord>,
    path: &str,
    layout: &mut dyn LayoutSink,
) -> Result<ZipPlan> {
    let file = layout.file(path, Role::Data)?;
    let side = side.map(|side| side.to_bytes());
    let own = side.as_deref().map(|side| (SIDE_RECORD, side));
    let archive = WrittenArchive { root: root_folder(path), pickle, own };
    let lens = storages.records.iter().map(|record| record.len);
    archive.lay_out(layout, file, lens, |key, layout, file| storages.records[key].append(layout, file))
}

/// Returns the part of the file name before its last dot, which is also the root folder that torch
/// chooses. Returns [`DEFAULT_ROOT`] if this part is not a valid folder name.
fn root_folder(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let odd = stem.is_empty()
        || stem.chars().all(|c| c == '.')
        || stem.contains(|c: char| c == '\\' || c.is_control());
    if odd { DEFAULT_ROOT } else { stem }
}

fn side_record(catalog: &dyn CatalogView) -> Option<SideRecord> {
    let record =
        SideRecord { origin: catalog.origin(), metadata: catalog.metadata_texts().into_iter().collect() };
    let has_origin = ![OWN_ID, ""].contains(&&*record.origin);
    (has_origin || !record.metadata.is_empty()).then_some(record)
}
