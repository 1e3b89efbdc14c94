//! A meta graph is one of a SavedModel's graphs, together with its signatures, assets and objects.
//! The signatures, assets and objects are read into memory, but the graph's nodes and functions are
//! only counted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tensorferry_proto::collection_def::Kind;
use tensorferry_proto::{AssetFileDef, CollectionDef, Message, SavedObjectGraph, SignatureDef};
use tensorferry_proto_file::{Value, Wire};
use tensorferry_sdk::{Context, Error, Limits, Result};

/// Maximum ratio between the size of a decoded message and its encoded size. An empty object is
/// encoded in two bytes and uses over a hundred bytes in memory.
const MESSAGE_GROWTH: u64 = 16;
/// Number of nodes between two checks for cancellation.
const NODES_PER_CHECK: u64 = 1 << 16;
/// The name of the TensorFlow 1 collection that lists assets.
const ASSETS: &str = "saved_model_assets";
/// The name of the TensorFlow 1 collection that lists trainable variables.
const TRAINABLE: &str = "trainable_variables";

/// The meta graphs in the document of a SavedModel.
pub(super) struct Graphs {
    /// The range of each meta graph.
    pub(super) ranges: Vec<Range<u64>>,
    /// The tags of each meta graph.
    pub(super) tags: Vec<Vec<String>>,
}

#[derive(Debug, Default)]
pub(super) struct MetaGraph {
    pub(super) tensorflow_version: String,
    /// Number of nodes in the graph, not counting nodes of functions.
    pub(super) nodes: u64,
    /// Number of functions.
    pub(super) functions: u64,
    pub(super) signatures: BTreeMap<String, SignatureDef>,
    /// The names of the files in `assets/`.
    pub(super) assets: BTreeSet<String>,
    /// The objects, if TensorFlow 2 wrote the graph.
    pub(super) objects: Option<SavedObjectGraph>,
    /// The names of trainable variables, if a TensorFlow 1 graph lists them.
    pub(super) trainable: Option<BTreeSet<String>>,
}

impl Graphs {
    /// Finds the meta graphs in the document and their tags.
    pub(super) fn find(wire: &mut Wire<'_>, limits: &Limits) -> Result<Self> {
        let mut graphs = Self { ranges: Vec::new(), tags: Vec::new() };
        let mut rest = wire.whole();
        while let Some(range) = wire.next_of(&mut rest, 2)? {
            if graphs.ranges.len() as u64 >= limits.entries {
                return Err(wire.located(Error::limit("too many graphs"), range.start));
            }
            graphs.tags.push(tags(wire, &range, limits)?);
            graphs.ranges.push(range);
        }
        Ok(graphs)
    }
}

fn tags(wire: &mut Wire<'_>, graph: &Range<u64>, limits: &Limits) -> Result<Vec<String>> {
    let mut tags = Vec::new();
    let Some(mut info) = wire.last(graph, 1)? else { return Ok(tags) };
    while let Some(range) = wire.next_of(&mut info, 4)? {
        tags.push(wire.text(&range, limits.name_bytes)?);
    }
    Ok(tags)
}

impl MetaGraph {
    /// Reads the meta graph in a range.
    pub(super) fn read(wire: &mut Wire<'_>, range: &Range<u64>, context: &dyn Context) -> Result<Self> {
        let mut graph = Self::default();
        let mut budget = Budget { left: context.limits().header_bytes / MESSAGE_GROWTH };
        let mut rest = range.clone();
        while let Some(field) = wire.next(&mut rest)? {
            let Value::Bytes(range) = field.value else { continue };
            match field.number {
                1 => graph.read_info(wire, range, context.limits())?,
                2 => graph.count(wire, range, context)?,
                4 => graph.read_collection(wire, range, &mut budget)?,
                5 => {
                    let (name, value) = budget.entry(wire, range)?;
                    graph.signatures.insert(name, budget.decode(wire, &value, "a signature")?);
                }
                6 => {
                    let asset: AssetFileDef = budget.decode(wire, &range, "an asset")?;
                    graph.assets.insert(asset.filename);
                }
                7 => graph.objects = Some(budget.decode(wire, &range, "the object graph")?),
                _ => {}
            }
        }
        Ok(graph)
    }

    fn read_info(&mut self, wire: &mut Wire<'_>, mut info: Range<u64>, limits: &Limits) -> Result<()> {
        while let Some(range) = wire.next_of(&mut info, 5)? {
            self.tensorflow_version = wire.text(&range, limits.name_bytes)?;
        }
        Ok(())
    }

    fn count(&mut self, wire: &mut Wire<'_>, mut graph: Range<u64>, context: &dyn Context) -> Result<()> {
        while let Some(field) = wire.next(&mut graph)? {
            match (field.number, field.value) {
                (1, Value::Bytes(_)) => self.nodes += 1,
                (2, Value::Bytes(mut library)) => {
                    while let Some(field) = wire.next(&mut library)? {
                        self.functions += u64::from(field.number == 1);
                    }
                }
                _ => {}
            }
            if self.nodes.is_multiple_of(NODES_PER_CHECK) {
                context.check_cancelled()?;
            }
        }
        Ok(())
    }

    fn read_collection(&mut self, wire: &mut Wire<'_>, range: Range<u64>, budget: &mut Budget) -> Result<()> {
        let (name, value) = budget.entry(wire, range)?;
        if name != ASSETS && name != TRAINABLE {
            return Ok(());
        }
        let collection: CollectionDef = budget.decode(wire, &value, "a collection")?;
        let Some(Kind::BytesList(list)) = collection.kind else { return Ok(()) };
        if name == ASSETS {
            // Each value is an `Any` message whose field 2 contains the asset.
            let assets = list.value.iter().filter_map(|any| nested(any, 2));
            let assets = assets.filter_map(|asset| AssetFileDef::decode(&*asset).ok());
            self.assets.extend(assets.map(|asset| asset.filename));
        } else {
            // Each value is a `VariableDef` whose field 1 contains the name of the variable.
            let names = list.value.iter().filter_map(|variable| nested(variable, 1));
            let names = names.filter_map(|name| String::from_utf8(name).ok());
            let names = names.map(|name| name.strip_suffix(":0").unwrap_or(&name).to_owned());
            self.trainable.get_or_insert_default().extend(names);
        }
        Ok(())
    }
}

/// Returns the content of a field in an in-memory message, or `None` if the message is invalid or
/// lacks the field.
fn nested(message: &[u8], number: u32) -> Option<Vec<u8>> {
    let mut wire = Wire::of_memory(message, "");
    let range = wire.last(&wire.whole(), number).ok()??;
    wire.bytes(&range, message.len() as u64).ok()
}

/// The number of message bytes that the reader may still decode.
struct Budget {
    left: u64,
}

impl Budget {
    /// Returns the key of a map entry and the range of its value.
    fn entry(&mut self, wire: &mut Wire<'_>, entry: Range<u64>) -> Result<(String, Range<u64>)> {
        let key = wire.last(&entry, 1)?.unwrap_or(entry.end..entry.end);
        let value = wire.last(&entry, 2)?.unwrap_or(entry.end..entry.end);
        Ok((self.text(wire, &key)?, value))
    }

    fn text(&mut self, wire: &mut Wire<'_>, range: &Range<u64>) -> Result<String> {
        let text = wire.text(range, self.left)?;
        self.left -= text.len() as u64;
        Ok(text)
    }

    fn decode<M: Message + Default>(
        &mut self,
        wire: &mut Wire<'_>,
        range: &Range<u64>,
        what: &str,
    ) -> Result<M> {
        let bytes = wire.bytes(range, self.left)?;
        self.left -= bytes.len() as u64;
        M::decode(&*bytes).map_err(|error| {
            wire.located(Error::malformed(format!("{what} cannot be decoded: {error}")), range.start)
        })
    }
}
