//! Builds the outline of a SavedModel that `inspect` shows, as a tree in the catalog.

use super::meta_graph::MetaGraph;
use crate::document::Document;
use crate::dtype;
use std::collections::BTreeMap;
use tensorferry_proto::saved_object::Kind;
use tensorferry_proto::tensor_info::Encoding;
use tensorferry_proto::{FingerprintDef, SignatureDef, TensorInfo};
use tensorferry_sdk::{CatalogSink, Node, NodeId, NodeKind, Result, Source};

/// The prefix of signatures that only TensorFlow's loader calls.
const INTERNAL: &str = "__saved_model_";
/// Classes that occur in every model, and are therefore not worth listing.
const PLAIN_CLASSES: [&str; 5] = [
    "_generic_user_object",
    "signature_map",
    "trackable_dict_wrapper",
    "trackable_list_wrapper",
    "trackable_tuple_wrapper",
];

/// Adds the outline to a catalog.
pub(super) fn describe(
    catalog: &mut dyn CatalogSink,
    source: &dyn Source,
    document: &Document,
    tag_sets: &[Vec<String>],
    graph: &MetaGraph,
    fingerprint: Option<&FingerprintDef>,
) -> Result<()> {
    let mut outline = Outline { catalog };
    let mut entries = Vec::new();
    let sets = tag_sets.iter().map(|tags| outline.texts(tags)).collect::<Result<Vec<_>>>()?;
    entries.push(("tag_sets", outline.catalog.node(Node::container(NodeKind::LIST, "", sets))?));
    entries.push(("signatures", outline.signatures(graph)?));
    entries.push(("graph", outline.counts([("functions", graph.functions), ("nodes", graph.nodes)])?));
    let classes = classes(graph);
    if !classes.is_empty() {
        entries.push(("classes", outline.counts(classes)?));
    }
    for (name, folder) in [("assets", "assets/"), ("assets_extra", "assets.extra/")] {
        let folder = document.sibling(folder);
        let files = files(source, &folder);
        if !files.is_empty() {
            entries.push((name, outline.texts(files.iter().filter_map(|file| file.strip_prefix(&*folder)))?));
        }
    }
    if !graph.tensorflow_version.is_empty() {
        entries.push(("tensorflow_version", outline.text(&graph.tensorflow_version)?));
    }
    if let Some(fingerprint) = fingerprint {
        entries.push(("fingerprint", outline.fingerprint(fingerprint)?));
    }
    let root = outline.map(entries)?;
    outline.catalog.root(root)
}

/// Returns the files of a folder, or an empty list if the folder does not exist.
pub(super) fn files(source: &dyn Source, folder: &str) -> Vec<String> {
    source.list(folder).unwrap_or_default()
}

/// Returns the signatures that a user can call, with their names.
pub(super) fn callable(graph: &MetaGraph) -> impl Iterator<Item = (&String, &SignatureDef)> {
    graph.signatures.iter().filter(|(name, _)| !name.starts_with(INTERNAL))
}

/// Counts the objects of each class.
fn classes(graph: &MetaGraph) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for object in graph.objects.iter().flat_map(|objects| &objects.nodes) {
        if let Some(Kind::UserObject(user)) = &object.kind
            && !PLAIN_CLASSES.contains(&&*user.identifier)
        {
            *counts.entry(&*user.identifier).or_default() += 1;
        }
    }
    counts
}

/// Describes an input or output of a signature, such as `F32 [-1, 4]`.
fn tensor_text(tensor: &TensorInfo) -> String {
    let info = dtype::of_number(tensor.dtype).and_then(|dtype| dtype.info());
    let dtype = info.map_or_else(|| dtype::name(tensor.dtype), |info| info.name().to_owned());
    let kind = match &tensor.encoding {
        Some(Encoding::CooSparse(_)) => "sparse ",
        Some(Encoding::CompositeTensor(_)) => "composite ",
        Some(Encoding::Name(_)) | None => "",
    };
    match &tensor.tensor_shape {
        Some(shape) if !shape.unknown_rank => {
            let sizes: Vec<String> = shape.dim.iter().map(|dim| dim.size.to_string()).collect();
            format!("{kind}{dtype} [{}]", sizes.join(", "))
        }
        _ => format!("{kind}{dtype} of any shape"),
    }
}

struct Outline<'a> {
    catalog: &'a mut dyn CatalogSink,
}

impl Outline<'_> {
    fn signatures(&mut self, graph: &MetaGraph) -> Result<NodeId> {
        let mut signatures = Vec::new();
        for (name, signature) in callable(graph) {
            let method = self.text(&signature.method_name)?;
            let inputs = self.tensors(&signature.inputs)?;
            let outputs = self.tensors(&signature.outputs)?;
            let parts = [("method", method), ("inputs", inputs), ("outputs", outputs)];
            signatures.push((&**name, self.map(parts)?));
        }
        self.map(signatures)
    }

    fn tensors(&mut self, tensors: &BTreeMap<String, TensorInfo>) -> Result<NodeId> {
        let texts = tensors.iter().map(|(name, tensor)| Ok((&**name, self.text(&tensor_text(tensor))?)));
        let texts: Vec<_> = texts.collect::<Result<_>>()?;
        self.map(texts)
    }

    /// Adds the hashes as decimal numbers, as TensorFlow displays them. They are stored as strings,
    /// because some JSON readers cannot represent such large numbers exactly.
    fn fingerprint(&mut self, fingerprint: &FingerprintDef) -> Result<NodeId> {
        let texts = [
            ("checkpoint_hash", fingerprint.checkpoint_hash.to_string()),
            ("saved_model_checksum", fingerprint.saved_model_checksum.to_string()),
            ("uuid", fingerprint.uuid.clone()),
        ];
        let known = texts.iter().filter(|(_, text)| !text.is_empty() && text != "0");
        let nodes: Vec<_> = known.map(|(key, text)| Ok((*key, self.text(text)?))).collect::<Result<_>>()?;
        self.map(nodes)
    }

    fn counts<'a>(&mut self, counts: impl IntoIterator<Item = (&'a str, u64)>) -> Result<NodeId> {
        let mut nodes = Vec::new();
        for (key, count) in counts {
            let count = Node::int(i64::try_from(count).unwrap_or(i64::MAX));
            nodes.push((key, self.catalog.node(count)?));
        }
        self.map(nodes)
    }

    fn texts(&mut self, texts: impl IntoIterator<Item = impl AsRef<str>>) -> Result<NodeId> {
        let nodes: Vec<NodeId> =
            texts.into_iter().map(|text| self.text(text.as_ref())).collect::<Result<_>>()?;
        self.catalog.node(Node::container(NodeKind::LIST, "", nodes))
    }

    fn text(&mut self, text: &str) -> Result<NodeId> {
        self.catalog.node(Node::text(text))
    }

    fn map<'a>(&mut self, entries: impl IntoIterator<Item = (&'a str, NodeId)>) -> Result<NodeId> {
        let entries: Vec<_> =
            entries.into_iter().map(|(key, value)| Ok((self.text(key)?, value))).collect::<Result<_>>()?;
        self.catalog.node(Node::map("", &entries))
    }
}
