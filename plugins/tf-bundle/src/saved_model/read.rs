//! Reads a SavedModel. Its variables become tensors. The other parts are displayed by `inspect`, or
//! reported as losses when converting to other formats.

use super::meta_graph::{Graphs, MetaGraph};
use super::open::open;
use super::{VARIABLES, fingerprint, outline, saved_variables, tags};
use crate::bundle::INDEX_SUFFIX;
use crate::bundle_tensors::read_bundle;
use crate::document::Document;
use crate::names::listed::listed;
use crate::options::ReadOptions;
use tensorferry_sdk::{
    CatalogSink, Context, Error, Loss, LossKind, NothingEncoded, Purpose, Result, Source, TensorDecoder,
    TensorReader,
};

#[derive(Debug)]
pub(crate) struct SavedModelReader {
    pub(crate) options: ReadOptions,
}

impl TensorReader for SavedModelReader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let document = open(source, context.limits())?;
        let graphs;
        let graph = {
            let mut wire = document.wire(source);
            graphs = Graphs::find(&mut wire, context.limits())?;
            let chosen = tags::choose(&graphs.tags, self.options.tags.as_deref());
            let chosen = chosen.map_err(|error| error.file(document.name()))?;
            MetaGraph::read(&mut wire, &graphs.ranges[chosen], context)?
        };
        note_missing_assets(source, &document, &graph, context)?;
        let purpose = context.purpose();
        if purpose.has(Purpose::SHOW) {
            let fingerprint = fingerprint::read(source, &document, context.limits())?;
            outline::describe(catalog, source, &document, &graphs.tags, &graph, fingerprint.as_ref())?;
        } else if !purpose.has(Purpose::COMPARE) {
            report_lost_graph(catalog, &document, &graph)?;
        }
        let prefix = document.sibling(VARIABLES);
        if !source.contains(&format!("{prefix}{INDEX_SUFFIX}"))? {
            no_variables(source, &prefix)?;
            let count = saved_variables::count(&graph);
            if count > 0 {
                let why = format!("the file with the values of the graph's {count} variables is missing");
                catalog.loss(Loss::new(LossKind::Tensor, format!("{prefix}{INDEX_SUFFIX}"), why))?;
            }
            return Ok(Box::new(NothingEncoded));
        }
        let labels = |bundle: Option<&_>| saved_variables::labels(&graph, bundle);
        Ok(Box::new(read_bundle(source, &prefix, &self.options, &labels, catalog, context)?))
    }
}

/// Checks that a model without a variable index also has no variable data files.
fn no_variables(source: &dyn Source, prefix: &str) -> Result<()> {
    let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
    let data = format!("{prefix}.data-");
    match outline::files(source, &format!("{folder}/")).into_iter().find(|name| name.starts_with(&data)) {
        None => Ok(()),
        Some(file) => Err(Error::malformed("the variables of the SavedModel have no index")
            .file(file)
            .expected(format!("{prefix}{INDEX_SUFFIX}"))),
    }
}

fn note_missing_assets(
    source: &dyn Source,
    document: &Document,
    graph: &MetaGraph,
    context: &dyn Context,
) -> Result<()> {
    let mut missing = Vec::new();
    for name in &graph.assets {
        if !source.contains(&document.sibling(&format!("assets/{name}")))? {
            missing.push(name.as_str());
        }
    }
    if !missing.is_empty() {
        context.note(&format!("files that the graph reads are missing from assets/: {}", listed(&missing)));
    }
    Ok(())
}

fn report_lost_graph(catalog: &mut dyn CatalogSink, document: &Document, graph: &MetaGraph) -> Result<()> {
    let what = format!("{}: graph", document.name());
    let why = format!(
        "{} nodes, {} functions: dropped, because only variables are converted; -o like= writes variables into a SavedModel",
        graph.nodes, graph.functions
    );
    catalog.loss(Loss::new(LossKind::Graph, what, why))?;
    let names: Vec<&str> = outline::callable(graph).map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let what = format!("{}: signatures", document.name());
    let why = format!("{}: dropped, because they call the graph", listed(&names));
    catalog.loss(Loss::new(LossKind::Graph, what, why))
}
