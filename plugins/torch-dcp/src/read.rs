//! Reads a checkpoint. Tensors are described in the tables or in the headers of shards, and their
//! chunks become blocks. All other values become a tree.

use crate::chunks::{Files, ReadBudget};
use crate::halves::Halves;
use crate::megatron::{BlockTensor, each_slice, is_torch_dist};
use crate::members::{Members, TABLE, members};
use crate::merged::{self, MergedTables};
use crate::shards;
use crate::table::{ArchiveLocation, Content, Step, TableEntry};
use crate::tree::NestedState;
use tensorferry_megatron_model::is_extra_state;
use tensorferry_sdk::{
    CatalogSink, Context, Error, Limits, Loss, LossKind, Node, NodeId, NothingEncoded, Result, Source,
    TensorDecoder, TensorReader,
};
use tensorferry_torch_file::pickle::Value;
use tensorferry_torch_file::{Destination, Extent, LazyView, Names, Storages, flatten};

#[derive(Debug, Default)]
pub(crate) struct Reader;

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let Members { tables, shards, has_data } = members(source)?;
        if tables.is_empty() && !shards.is_empty() {
            shards::read(source, &shards, catalog, context)?;
            return Ok(Box::new(NothingEncoded));
        }
        if tables.is_empty() {
            let found = if has_data { "data without a table" } else { "neither a table nor shards" };
            let error = Error::malformed("not a distributed checkpoint");
            return Err(error.expected(format!("{TABLE} or __<rank>{TABLE}")).found(found));
        }
        let merged = merged::read(source, &tables, context)?;
        Ok(Box::new(describe(source, merged, catalog, context)?))
    }
}

fn describe(
    source: &dyn Source,
    merged: MergedTables,
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<Vec<LazyView>> {
    let MergedTables { items, copies, unlisted, globals, calls, .. } = merged;
    let is_megatron = is_torch_dist(source, context.limits())?;
    let storages = Storages::new(context.limits());
    let mut files = Files { source, context, storages, opened: ReadBudget::default(), globals, calls };
    let mut names = Names::default();
    // Reserve the names of the tensors in the table first, so that tensors inside objects cannot
    // use them.
    items.iter().filter(|item| matches!(item.content, Content::Tensor(_))).for_each(|item| {
        names.take(&item.name);
    });
    for (place, copy) in copies {
        check_copy(&files, &items[place], &copy, catalog)?;
    }
    let mut tree = NestedState::default();
    let mut halves = Halves::of(&items, is_megatron);
    for TableEntry { name, path, content } in items {
        match content {
            Content::Tensor(tensor) => {
                let blocks = files.blocks(&name, &tensor, catalog).map_err(|error| error.tensor(&name))?;
                let mut put = |of: BlockTensor, path| {
                    let id = catalog.tensor_of_blocks(&of.name, of.dtype, &of.shape, of.blocks)?;
                    tree.put(path, catalog.node(Node::tensor(id))?).map_err(|error| error.tensor(&of.name))
                };
                let Some(whole) = halves.join(blocks)? else { continue };
                if is_megatron {
                    each_slice(whole, context.limits(), &mut |slice| {
                        let path = slice_path(&path, &slice.name);
                        put(slice, path)
                    })?;
                } else {
                    put(whole, path)?;
                }
            }
            Content::Object(stored) => {
                let is_state = is_megatron && is_extra_state(&name);
                let node = add_object(&mut files, &name, &stored, &mut names, is_state, catalog)
                    .map_err(|error| error.context(format!("object {name:?}")).file(&stored.file))?;
                let Some(node) = node else { continue };
                tree.put(path, node).map_err(|error| error.tensor(&name))?;
            }
        }
    }
    tree.add_nodes(catalog)?;
    for name in unlisted {
        let why = "it is stored, but the table does not describe it";
        catalog.loss(Loss::new(LossKind::Tensor, name, why))?;
    }
    files.calls.report(catalog)?;
    files.globals.iter().try_for_each(|global| catalog.global(global))?;
    Ok(files.storages.into_lazy_views())
}

/// Returns the path of a slice, which is the path of its stack with the last step replaced by the
/// slice's name.
fn slice_path(path: &[Step], name: &str) -> Vec<Step> {
    let above = path.split_last().map_or(&[][..], |(_, above)| above);
    let dotted = |step: &Step| match step {
        Step::Key(key) => format!("{key}."),
        Step::Index(index) => format!("{index}."),
    };
    let prefix: String = above.iter().map(dotted).collect();
    let own = name.strip_prefix(&prefix).unwrap_or(name);
    above.iter().cloned().chain([Step::Key(own.to_owned())]).collect()
}

/// Adds an object that is not a tensor, and the tensors inside it. Returns `None` if the object is
/// a module's empty extra state.
fn add_object(
    files: &mut Files<'_, '_>,
    name: &str,
    stored: &ArchiveLocation,
    names: &mut Names,
    is_state: bool,
    catalog: &mut dyn CatalogSink,
) -> Result<Option<NodeId>> {
    let object = files.open(stored)?;
    let is_none = |&id: &_| *object.graph().value(id) == Value::None;
    if is_state && object.graph().sequence(object.root()).is_some_and(|states| states.iter().all(is_none)) {
        return Ok(None);
    }
    let mut to = Destination {
        catalog,
        storages: &mut files.storages,
        names,
        source: files.source,
        context: files.context,
    };
    Ok(Some(flatten(&object, object.root(), name, &mut to)?.node))
}

/// Compares a rank's copy of an object with the copy that is read, and reports a loss if they
/// differ. Ranks that save without coordination each save a copy.
fn check_copy(
    files: &Files<'_, '_>,
    item: &TableEntry,
    copy: &ArchiveLocation,
    catalog: &mut dyn CatalogSink,
) -> Result<()> {
    let Content::Object(first) = &item.content else { return Ok(()) };
    let bytes = |stored: &ArchiveLocation| bytes(files.source, stored, files.context.limits());
    if first.len == copy.len && bytes(first)? == bytes(copy)? {
        return Ok(());
    }
    let why = format!("the copy in {:?} differs from the one in {:?}, which is kept", copy.file, first.file);
    catalog.loss(Loss::new(LossKind::State, &*item.name, why))
}

fn bytes(source: &dyn Source, stored: &ArchiveLocation, limits: &Limits) -> Result<Vec<u8>> {
    Extent::within(source, source.open(&stored.file)?, stored.offset, stored.len)?.read(source, limits)
}
