//! Collects the content of a model's files: the datasets, and the attributes that describe layers
//! and variables.

use crate::config;
use crate::hdf5::{Attributes, File, Object, walk};
use crate::names::LayerNames;
use serde_json::Value;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use tensorferry_sdk::{CatalogSink, Context, Error, Limits, Node, NodeId, Result, TensorId};

/// A dataset, and the index of the file that contains it.
#[derive(Debug)]
pub(crate) struct FoundDataset {
    pub(crate) file: usize,
    pub(crate) path: String,
    pub(crate) address: u64,
    /// Whether the elements of the dataset are one-byte numbers. In a quantized layer, such numbers
    /// are the codes.
    pub(crate) is_narrow: bool,
}

/// The soft links and groups in a file.
#[derive(Default)]
struct Links {
    /// For each link: its path, its target's path, and the address of the group that contains it.
    links: Vec<(String, String, u64)>,
    groups: HashSet<String>,
}

impl Links {
    /// Returns the datasets to which soft links refer. The path of each dataset is its path through
    /// the link. The target of a link must be a dataset or group that can be reached through hard
    /// links. Soft links inside the target are not followed, so cycles cannot occur.
    fn resolve(
        &self,
        datasets: &[FoundDataset],
        file: &File<'_>,
        limits: &Limits,
    ) -> Result<Vec<FoundDataset>> {
        let mut found = Vec::new();
        let by_path: BTreeMap<&str, &FoundDataset> =
            datasets.iter().map(|dataset| (&*dataset.path, dataset)).collect();
        for (link, target, address) in &self.links {
            let parent = link.rsplit_once('/').map_or("", |(parent, _)| parent);
            let start = if target.starts_with('/') { "" } else { parent };
            let parts = start.split('/').chain(target.split('/'));
            let parts: Vec<&str> = parts.filter(|part| !matches!(*part, "" | ".")).collect();
            let path = parts.join("/");
            let mut add = |path: String, dataset: &FoundDataset| {
                file.held.add(path.len())?;
                if (datasets.len() + found.len()) as u64 >= limits.entries {
                    return Err(Error::limit("too many links")
                        .expected(format!("at most {}", limits.entries))
                        .hint("pass --limit entries=N to raise the limit"));
                }
                found.push(FoundDataset {
                    file: dataset.file,
                    path,
                    address: dataset.address,
                    is_narrow: dataset.is_narrow,
                });
                Ok(())
            };
            if let Some(dataset) = by_path.get(&*path) {
                add(link.clone(), dataset)?;
            } else if self.groups.contains(&path) {
                let inside = if path.is_empty() { String::new() } else { format!("{path}/") };
                // A link to a group that contains the link does not add any datasets.
                if link.starts_with(&inside) {
                    continue;
                }
                let below = by_path.range(&*inside..).take_while(|(path, _)| path.starts_with(&inside));
                for (path, dataset) in below {
                    add(format!("{link}/{}", &path[inside.len()..]), dataset)?;
                }
            } else {
                let error =
                    Error::unsupported("the target of a soft link is not reachable through hard links");
                return Err(file.at(error.tensor(link).found(format!("{target:?}")), *address));
            }
        }
        Ok(found)
    }
}

/// The content of a model's files.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) datasets: Vec<FoundDataset>,
    /// The attribute `name` of each group `vars`. The key is the path of the object that contains
    /// the group.
    layer_names: HashMap<String, String>,
    pub(crate) is_legacy: bool,
    /// In Keras 1 and 2 files, the name of each variable, by path.
    weight_names: HashMap<String, String>,
    pub(crate) metadata: Vec<(&'static str, String)>,
    /// Parts of the catalog's tree that are not tensors, such as the configuration.
    pub(crate) parts: Vec<(&'static str, Value)>,
}

/// Returns the part of a model's state that contains the dataset with this path.
pub(crate) fn part(path: &str) -> &'static str {
    match path.split('/').next() {
        Some("optimizer" | "optimizer_weights") => "optimizer",
        Some("metrics") => "metrics",
        _ => "model",
    }
}

impl Model {
    /// Adds the datasets and the attributes of a file.
    pub(crate) fn scan(&mut self, file: &File<'_>, number: usize, context: &dyn Context) -> Result<()> {
        let mut lists: HashMap<String, Rc<Vec<String>>> = HashMap::new();
        // Lists of names, by the address of their group. If several links refer to a group, its
        // list is stored only once.
        let mut list_of: HashMap<u64, Option<Rc<Vec<String>>>> = HashMap::new();
        let mut order: Option<(String, Vec<String>)> = None;
        let first = self.datasets.len();
        let mut links = Links::default();
        walk(file, context, &mut |object| {
            let (path, header) = match object {
                Object::Group { path, header } => (path, header),
                Object::Dataset { path, header } => {
                    let is_narrow = header.number_width() == Some(1);
                    self.datasets.push(FoundDataset {
                        file: number,
                        path,
                        address: header.address,
                        is_narrow,
                    });
                    return Ok(());
                }
                Object::Link { path, target, address } => {
                    links.links.push((path, target, address));
                    return Ok(());
                }
            };
            links.groups.insert(path.clone());
            let attributes = Attributes::read(file, &header)?;
            if let Some(layer) = path.strip_suffix("vars").filter(|p| p.is_empty() || p.ends_with('/')) {
                if let Some(name) = attributes.text(file, "name")? {
                    self.layer_names.insert(layer.trim_end_matches('/').to_owned(), name);
                }
                return Ok(());
            }
            if matches!(&*path, "" | "model_weights") {
                if let Some(layers) = attributes.list(file, "layer_names")? {
                    order = Some((path.clone(), layers));
                } else if attributes.get("nb_layers").is_some() {
                    return Err(Error::unsupported(
                        "weights from Keras versions before 1.0 have no names (nb_layers)",
                    )
                    .hint("load and save them with Keras 1"));
                }
            }
            if path.is_empty() {
                self.root_attributes(file, &attributes, context.limits())?;
            }
            let names = match list_of.entry(header.address) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(attributes.list(file, "weight_names")?.map(Rc::new)),
            };
            if let Some(names) = names {
                lists.insert(path, names.clone());
            }
            Ok(())
        })?;
        let aliases = links.resolve(&self.datasets[first..], file, context.limits())?;
        self.datasets.extend(aliases);
        match order {
            Some((root, layers)) => self.legacy(&root, &layers, &lists),
            None => Ok(()),
        }
    }

    /// Reads the attributes of the root group. If a Keras 1 or 2 file contains a whole model, its
    /// root has these attributes.
    fn root_attributes(&mut self, file: &File<'_>, attributes: &Attributes, limits: &Limits) -> Result<()> {
        for name in ["keras_version", "backend"] {
            if let Some(text) = attributes.text(file, name)? {
                self.metadata.push((name, text));
            }
        }
        for name in ["model_config", "training_config"] {
            if let Some(text) = attributes.text(file, name)? {
                self.parts.push((name, config::parse(text.as_bytes(), name, limits)?));
            }
        }
        Ok(())
    }

    /// Checks that the listed layers and weights exist, and records the weights' names.
    fn legacy(
        &mut self,
        root: &str,
        layers: &[String],
        lists: &HashMap<String, Rc<Vec<String>>>,
    ) -> Result<()> {
        self.is_legacy = true;
        let there: HashSet<&str> = self.datasets.iter().map(|found| &*found.path).collect();
        // Check a repeated name only once.
        for layer in layers.iter().collect::<BTreeSet<_>>() {
            let group = if root.is_empty() { layer.clone() } else { format!("{root}/{layer}") };
            let names = lists.get(&group).ok_or_else(|| {
                Error::malformed("a layer of layer_names has no group with weight_names")
                    .found(format!("{group:?}"))
            })?;
            for name in names.iter().collect::<BTreeSet<_>>() {
                let path = format!("{group}/{name}");
                if !there.contains(&*path) {
                    return Err(Error::malformed("a weight in weight_names is missing").tensor(path));
                }
                let own = name.strip_suffix(":0").unwrap_or(name);
                self.weight_names.insert(path, own.to_owned());
            }
        }
        Ok(())
    }

    /// Returns whether a configuration mentions the dtype bfloat16. In older files, nothing else
    /// shows that weights are BF16.
    pub(crate) fn has_bfloat16(&self) -> bool {
        let mut open: Vec<&Value> = self.parts.iter().map(|(_, value)| value).collect();
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) if text == "bfloat16" => return true,
                Value::Array(values) => open.extend(values),
                Value::Object(entries) => open.extend(entries.values()),
                _ => {}
            }
        }
        false
    }

    /// Checks that each file contains the groups that the map of shards assigns to it.
    pub(crate) fn check_map(&self, map: &[(String, Vec<String>)], files: &[&str]) -> Result<()> {
        let there: HashSet<(&str, usize)> = self
            .datasets
            .iter()
            .filter_map(|found| Some((found.path.rsplit_once('/')?.0, found.file)))
            .collect();
        let numbers: HashMap<&str, usize> = files.iter().copied().zip(0..).collect();
        for (group, names) in map {
            for name in names {
                let number = numbers.get(&**name);
                if !number.is_some_and(|&number| there.contains(&(&**group, number))) {
                    return Err(Error::malformed("a shard lacks a group that the map assigns to it")
                        .file(name)
                        .expected(format!("{group:?}")));
                }
            }
        }
        Ok(())
    }

    /// Returns the names of the datasets. By default, the name of a dataset is its path. If `own`
    /// is set, the names consist of layer and variable names where such names are unique.
    pub(crate) fn names(&self, own: bool) -> Vec<String> {
        let keys = || self.datasets.iter().map(|found| found.path.clone());
        if !own {
            return keys().collect();
        }
        let config = self.parts.iter().find(|(name, _)| *name == "config").map(|(_, value)| value);
        let paths = self.datasets.iter().map(|found| &*found.path);
        let narrow = self.datasets.iter().filter(|found| found.is_narrow).map(|found| &*found.path);
        let names = LayerNames::new(&self.layer_names, config, paths.clone(), narrow);
        let own: Vec<String> = paths
            .map(|path| match self.weight_names.get(path) {
                Some(name) => name.clone(),
                None => names.of(path),
            })
            .collect();
        let mut uses: HashMap<&str, u32> = HashMap::new();
        for name in own.iter().map(|name| &**name).chain(self.datasets.iter().map(|found| &*found.path)) {
            *uses.entry(name).or_default() += 1;
        }
        let unique = |(name, key): (&String, String)| match uses.get(&**name) {
            Some(1) => name.clone(),
            _ => key,
        };
        own.iter().zip(keys()).map(unique).collect()
    }

    /// Adds a tree that contains the tensors of the model, the optimizer and the metrics, and the
    /// configuration. If the model consists only of weights, adds no tree.
    pub(crate) fn tree(
        self,
        names: &[String],
        ids: &[Option<TensorId>],
        catalog: &mut dyn CatalogSink,
    ) -> Result<()> {
        let is_plain = self.datasets.iter().all(|found| part(&found.path) == "model");
        if is_plain && self.parts.is_empty() {
            return Ok(());
        }
        let mut root = Vec::new();
        for wanted in ["model", "optimizer", "metrics"] {
            let mut entries = Vec::new();
            for ((found, name), id) in self.datasets.iter().zip(names).zip(ids) {
                if let (true, Some(id)) = (part(&found.path) == wanted, id) {
                    entries.push((catalog.node(Node::text(name))?, catalog.node(Node::tensor(*id))?));
                }
            }
            if !entries.is_empty() {
                root.push((catalog.node(Node::text(wanted))?, catalog.node(Node::map("", &entries))?));
            }
        }
        for (name, value) in &self.parts {
            let value: NodeId = config::add(catalog, value)?;
            root.push((catalog.node(Node::text(name))?, value));
        }
        let root = catalog.node(Node::map("", &root))?;
        catalog.root(root)
    }
}
