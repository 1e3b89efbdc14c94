//! Writes a copy of a SavedModel with different values in its variables. The graphs, signatures and
//! objects form a program that only TensorFlow can create. They are therefore copied from the
//! SavedModel that `-o like=` specifies.
//!
//! ```text
//! variables/variables.*    new: the same keys, the values of the catalog
//! fingerprint.pb           omitted, because its hash of the checkpoint would be wrong
//! all other files          copied
//! ```

use super::VARIABLES;
use super::open::open;
use crate::bundle::OBJECT_GRAPH_KEY;
use crate::document::Document;
use crate::names::key_map::KeyMap;
use crate::options::{MissingValues, Sharding, WriteOptions};
use crate::side_entry::{SIDE_ENTRY_KEY, other_metadata};
use crate::write::{
    Entry, Prefix, Template, WritableTensor, entries_of_tensors, plan_bundle, writable_tensors,
};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tensorferry_sdk::{
    CatalogView, Context, Error, LayoutSink, Loss, LossKind, Options, Result, Role, Severity, Source,
    SourceRange, Target, TensorPlan, TensorWriter,
};

/// The name of the fingerprint file. It is not copied, because readers could not detect that the
/// copy is outdated.
const FINGERPRINT: &str = "fingerprint.pb";
/// The folder in which ferry replaces all files.
const VARIABLES_FOLDER: &str = "variables";
/// Maximum depth of subfolders. Without a limit, cyclic links would cause infinite recursion.
const MAX_FOLDERS: usize = 16;

#[derive(Debug)]
pub(crate) struct SavedModelWriter {
    like: String,
    missing: MissingValues,
    sharding: Sharding,
}

impl SavedModelWriter {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let WriteOptions { like, missing, sharding, .. } = WriteOptions::new(options)?;
        let like = like.ok_or_else(|| {
            Error::usage("a SavedModel cannot be written from tensors only, because it contains a program")
                .hint("pass -o like=SAVEDMODEL to copy a SavedModel of the program with new variables")
        })?;
        Ok(Self { like, missing, sharding })
    }
}

impl TensorWriter for SavedModelWriter {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        if let Target::File(path) = target {
            return Err(Error::usage(format!(
                "a SavedModel is a folder, but the target is the file {path:?}"
            ))
            .hint(format!("write to {path}/")));
        }
        let in_like = |error: Error| error.context(format!("-o like={}", self.like));
        let source = context.open(&self.like).map_err(in_like)?;
        let document = open(&*source, context.limits()).map_err(in_like)?;
        let prefix = document.sibling(VARIABLES);
        let template =
            Template::bundle(&self.like, Arc::clone(&source), &prefix, context).map_err(in_like)?;

        let tensors = writable_tensors(catalog, layout)?;
        let entries = substitute(&template, self.missing, &tensors, catalog, layout, context)?;
        for (key, _) in other_metadata(catalog) {
            layout.loss(Loss::new(LossKind::Metadata, key, "a SavedModel cannot store it"))?;
        }
        let prefix = Prefix(VARIABLES.to_owned());
        let variables = plan_bundle(entries, &prefix, self.sharding, catalog, layout)?;
        copy_files(&self.like, &*source, &document, layout, context)?;
        Ok(Box::new(variables))
    }
}

/// Returns the entries of the new variables. For each key of the template, there is one entry with
/// the values of the matching tensor.
fn substitute(
    template: &Template,
    missing: MissingValues,
    tensors: &[WritableTensor],
    catalog: &dyn CatalogView,
    layout: &mut dyn LayoutSink,
    context: &dyn Context,
) -> Result<Vec<Entry>> {
    let metadata: BTreeMap<String, String> = catalog.metadata_texts().into_iter().collect();
    let (map, losses) = KeyMap::from_metadata(&metadata);
    losses.into_iter().try_for_each(|loss| layout.loss(loss))?;
    let keys = template.resolve(tensors, &map, catalog, layout, context)?;

    let mut unmatched: Vec<&str> = Vec::new();
    for (writable, _) in tensors.iter().zip(&keys).filter(|(_, keys)| keys.is_empty()) {
        layout.omit(writable.tensor, "no variable of the SavedModel has this name")?;
        unmatched.push(catalog.tensor(writable.tensor).name);
    }
    let taken: HashSet<&[u8]> = keys.iter().flatten().map(Vec::as_slice).collect();
    let mut entries = entries_of_tensors(tensors, &keys, catalog, layout)?;
    let rest = template.rest(&taken, context)?;
    let mut kept = rest.kept_variables(missing, &unmatched, context)?.to_vec();
    for (optimizer, state) in &rest.state {
        let why = format!("its {} tensors keep the values of the copied SavedModel", state.len());
        layout.loss(Loss::new(LossKind::State, optimizer, why).severity(Severity::Changed))?;
        kept.extend(state);
    }
    kept.extend(rest.kept_others(context));
    kept.extend(
        [OBJECT_GRAPH_KEY, SIDE_ENTRY_KEY].into_iter().filter_map(|key| template.index.find(key.as_bytes())),
    );
    for entry in kept {
        entries.push(template.copy_entry(entry, context)?);
    }
    Ok(entries)
}

/// Plans copies of all template files except the fingerprint and the files of the variables.
fn copy_files(
    like: &str,
    source: &dyn Source,
    document: &Document,
    layout: &mut dyn LayoutSink,
    context: &dyn Context,
) -> Result<()> {
    let root = document.sibling("");
    let folder_len = root.len();
    let mut names = Vec::new();
    let mut open = vec![root.trim_end_matches('/').to_owned()];
    while let Some(folder) = open.pop() {
        context.check_cancelled()?;
        if folder == document.sibling(VARIABLES_FOLDER) || folder.matches('/').count() > MAX_FOLDERS {
            continue;
        }
        let prefix = if folder.is_empty() { folder.clone() } else { format!("{folder}/") };
        names.extend(source.list(&prefix)?);
        if names.len() as u64 > context.limits().entries {
            return Err(Error::limit("too many files in the SavedModel").found(names.len()));
        }
        open.extend(source.folders(&folder)?);
    }
    names.sort();
    for name in names {
        let path = &name[folder_len..];
        if path == FINGERPRINT {
            context.note("fingerprint.pb is not copied, because it belongs to the old variables");
            continue;
        }
        let role = if name == document.name() { Role::Index } else { Role::Data };
        let file = layout.file(path, role)?;
        let range = 0..source.len(source.open(&name)?);
        layout.copy(file, SourceRange { source: like.to_owned(), file: name, range })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
