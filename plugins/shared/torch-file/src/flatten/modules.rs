//! Reads `torch.nn` modules that were saved as objects. A module is an object whose attributes
//! `_parameters`, `_buffers` and `_modules` are mappings. The reader converts a module to its
//! `state_dict()`. That dict contains the parameters, the persistent buffers, the entries that the
//! module's class adds ([`module_classes`]), and the entries of each submodule.
//!
//! Source: `Module._save_to_state_dict` and `Module.state_dict` in `torch/nn/modules/module.py`.
//! Entries that other classes add (with `get_extra_state` or hooks) are unknown. Each tensor that
//! is reachable from a module but not in its state dict is therefore reported as lost, with its
//! path. Class versions are defined in the code of the classes, not in the file. A state dict can
//! be loaded without these versions.

use super::module_classes::{self, StateDictEntries};
use super::{NamedEntry, Walk};
use crate::numpy;
use crate::persistent_id::PersistentId;
use crate::pickle::{Global, Graph, Value, ValueId};
use crate::rebuild::{self, RebuiltTensor};
use std::collections::{BTreeSet, HashMap, HashSet};
use tensorferry_sdk::{Error, Loss, LossKind, Result};

/// Maximum number of attributes that a loss lists.
const MAX_NAMED: usize = 12;

/// Maximum number of characters of an attribute name in a loss.
const MAX_NAME_CHARS: usize = 80;

/// Losses that occur in modules, which are reported once per module class.
#[derive(Default)]
pub(super) struct ClassLosses {
    by_class: HashMap<String, usize>,
    classes: Vec<ClassLoss>,
    /// Attributes of modules that their state dicts do not contain, with their paths.
    besides: Vec<(String, ValueId)>,
    /// The values that the state dicts contain.
    read: HashSet<ValueId>,
}

struct ClassLoss {
    class: String,
    /// Path of the first module that has this class.
    first: String,
    count: usize,
    attributes: BTreeSet<String>,
    /// Whether all entries that the class adds to state dicts are read.
    is_known: bool,
}

/// The parts of a module.
struct Module<'g> {
    class: String,
    parameters: Vec<(ValueId, ValueId)>,
    buffers: Vec<(ValueId, ValueId)>,
    modules: Vec<(ValueId, ValueId)>,
    not_persistent: HashSet<&'g str>,
    /// All other attributes of the module.
    others: Vec<(&'g str, ValueId)>,
    /// Entries that the module's class adds to the state dict.
    added: Option<StateDictEntries>,
    /// Whether the module has hooks that may change the state dict.
    has_hooks: bool,
}

impl<'g> Module<'g> {
    /// Returns the module that the value represents, or `None` if the value is not a module.
    fn of(graph: &'g Graph, id: ValueId) -> Option<Self> {
        let call = graph.call(id)?;
        let class = class_of(graph, id)?;
        let added = module_classes::added(graph, class, call.state?);
        let mut module = Self {
            class: class.path(),
            added,
            has_hooks: false,
            parameters: Vec::new(),
            buffers: Vec::new(),
            modules: Vec::new(),
            not_persistent: HashSet::new(),
            others: Vec::new(),
        };
        let Some(state) = graph.entries(call.state?) else {
            return module.added.is_some().then_some(module);
        };
        let mut found = 0;
        for (key, value) in state {
            let Some(name) = graph.text(key) else { continue };
            match name {
                "_parameters" => module.parameters = graph.entries(value)?,
                "_buffers" => module.buffers = graph.entries(value)?,
                "_modules" => module.modules = graph.entries(value)?,
                "_non_persistent_buffers_set" => {
                    module.not_persistent =
                        members(graph, value).iter().filter_map(|&name| graph.text(name)).collect();
                    continue;
                }
                "_state_dict_hooks" | "_state_dict_pre_hooks" => {
                    module.has_hooks |= graph.entries(value).is_none_or(|hooks| !hooks.is_empty());
                    continue;
                }
                // Every module has the attribute `training`, which is not worth reporting as a
                // loss.
                "training" => continue,
                _ => {
                    if module.added.as_ref().is_none_or(|added| !added.contains(name)) {
                        module.others.push((name, value));
                    }
                    continue;
                }
            }
            found += 1;
        }
        (found == 3).then_some(module)
    }

    fn is_persistent(&self, graph: &Graph, name: ValueId) -> bool {
        graph.text(name).is_none_or(|name| !self.not_persistent.contains(name))
    }
}

/// Returns the number of attributes in an object's state. Checking whether the object is a module
/// takes time proportional to this number.
fn attributes(graph: &Graph, id: ValueId) -> usize {
    let state = graph.call(id).and_then(|call| call.state);
    state.map_or(0, |state| graph.entry_count(state))
}

/// Returns the class of an object. Also recognizes `copyreg._reconstructor`, with which protocols
/// below 2 create objects.
fn class_of(graph: &Graph, id: ValueId) -> Option<&Global> {
    let (global, call) = graph.called(id)?;
    if global.is("copyreg", "_reconstructor") {
        return graph.global(*graph.tuple(call.arguments)?.first()?);
    }
    Some(global)
}

/// Returns the members of a set, in any protocol's encoding.
fn members(graph: &Graph, id: ValueId) -> &[ValueId] {
    match graph.value(id) {
        Value::Set(items) => items,
        _ => match graph.plain_call(id, "builtins", "set") {
            Some(&[items]) => graph.sequence(items).unwrap_or_default(),
            _ => &[],
        },
    }
}

enum Step {
    Enter { module: ValueId, prefix: String, depth: u64 },
    Leave(ValueId),
}

impl Walk<'_, '_, '_, '_> {
    /// Returns the entries of a module's state dict, if the value is a module.
    pub(super) fn state_dict(&mut self, id: ValueId) -> Result<Option<Vec<(String, NamedEntry)>>> {
        let graph = self.graph;
        self.count_steps(attributes(graph, id))?;
        if Module::of(graph, id).is_none() {
            return Ok(None);
        }
        let limits = self.to.context.limits();
        let mut entries = Vec::new();
        let mut names: HashSet<String> = HashSet::new();
        let mut open: HashSet<ValueId> = HashSet::new();
        let mut steps = vec![Step::Enter { module: id, prefix: String::new(), depth: 0 }];
        while let Some(step) = steps.pop() {
            let (id, prefix, depth) = match step {
                Step::Enter { module, prefix, depth } => (module, prefix, depth),
                Step::Leave(module) => {
                    open.remove(&module);
                    continue;
                }
            };
            if depth >= limits.nesting {
                return Err(Error::limit("modules are nested too deeply")
                    .expected(format!("at most {} levels", limits.nesting))
                    .found(format!("at {prefix:.200?}")));
            }
            self.count_steps(attributes(graph, id))?;
            let Some(module) = Module::of(graph, id) else {
                let why = "it is in a module's place, but has an unknown form, so it is not read";
                self.lose_at(&prefix, LossKind::State, why)?;
                self.modules.besides.push((join(self.path.text(), &prefix), id));
                continue;
            };
            if !open.insert(id) {
                self.lose_at(&prefix, LossKind::State, "it contains itself")?;
                continue;
            }
            let parts = module.parameters.len() + module.buffers.len() + module.modules.len();
            self.count_steps(parts + module.not_persistent.len())?;
            self.note_module(id, &module, &prefix)?;
            let buffers = module.buffers.iter().filter(|&&(key, _)| module.is_persistent(graph, key));
            for &(key, value) in module.parameters.iter().chain(buffers) {
                if *graph.value(value) == Value::None {
                    continue;
                }
                let name = self.name_below(&prefix, key)?;
                // If a name occurs more than once, the first entry is used. A dict would keep the
                // last entry, but the code of modules prevents duplicate names.
                if names.insert(name.clone()) {
                    // A state dict does not contain the parameter object. It contains the
                    // parameter's tensor.
                    let tensor = rebuild::data_of(graph, value);
                    self.modules.read.insert(tensor);
                    if tensor != value
                        && module.added.as_ref().is_none_or(|added| !added.takes_state_of(value))
                    {
                        self.modules.besides.push((join(self.path.text(), &name), value));
                    }
                    entries.push((name, NamedEntry::Value(tensor)));
                }
            }
            for (name, entry) in module.added.map(|added| added.entries).unwrap_or_default() {
                if let NamedEntry::Value(value) = entry {
                    self.modules.read.insert(value);
                }
                let name = join(&prefix, &name);
                self.count_path_bytes(name.len(), self.path.text().len() + name.len())?;
                if names.insert(name.clone()) {
                    entries.push((name, entry));
                }
            }
            steps.push(Step::Leave(id));
            for &(key, value) in module.modules.iter().rev() {
                if *graph.value(value) != Value::None {
                    let prefix = self.name_below(&prefix, key)?;
                    steps.push(Step::Enter { module: value, prefix, depth: depth + 1 });
                }
            }
        }
        Ok(Some(entries))
    }

    fn name_below(&mut self, prefix: &str, key: ValueId) -> Result<String> {
        let mut name = crate::names::Path::at(prefix);
        name.push_key(self.graph, key, self.to.context.limits().name_bytes);
        let len = name.text().len();
        self.count_path_bytes(len, self.path.text().len() + len)?;
        Ok(name.text().to_owned())
    }

    fn lose_at(&mut self, below: &str, kind: LossKind, why: &str) -> Result<()> {
        self.to.catalog.loss(Loss::new(kind, join(self.path.text(), below), why))
    }

    fn note_module(&mut self, id: ValueId, module: &Module<'_>, prefix: &str) -> Result<()> {
        let path = join(self.path.text(), prefix);
        self.modules.read.insert(id);
        for &(name, value) in &module.others {
            // Most values are scalars, which are skipped.
            if may_hold_tensors(self.graph.value(value)) {
                let path = join(&path, name);
                self.count_path_bytes(path.len(), path.len())?;
                self.modules.besides.push((path, value));
            }
        }
        let losses = &mut self.modules;
        let index = match losses.by_class.get(&module.class) {
            Some(&index) => index,
            None => {
                let (class, attributes) = (module.class.clone(), BTreeSet::new());
                let is_known = module.added.is_some() || module.class.starts_with("torch.nn.modules.");
                let is_known = is_known && !module.has_hooks;
                let loss = ClassLoss { class: class.clone(), first: path, count: 0, attributes, is_known };
                losses.classes.push(loss);
                losses.by_class.insert(class, losses.classes.len() - 1);
                losses.classes.len() - 1
            }
        };
        let loss = &mut losses.classes[index];
        loss.count += 1;
        for (name, _) in module.others.iter().filter(|(name, _)| !name.starts_with('_')) {
            if loss.attributes.len() <= MAX_NAMED {
                loss.attributes.insert(name.chars().take(MAX_NAME_CHARS).collect());
            }
        }
        Ok(())
    }

    /// Records that the state dicts contain a value.
    pub(super) fn mark_read(&mut self, value: ValueId) {
        self.modules.read.insert(value);
    }

    /// Records an attribute of the current object that its state dict does not contain.
    pub(super) fn record_outside(&mut self, key: ValueId, value: ValueId) -> Result<()> {
        let path = self.path.text().to_owned();
        let name = self.name_below(&path, key)?;
        self.modules.besides.push((name, value));
        Ok(())
    }

    /// Reports, once per class, the parts of modules that are not in their state dicts.
    pub(super) fn report_modules(&mut self) -> Result<()> {
        for loss in std::mem::take(&mut self.modules.classes) {
            let ClassLoss { class, first, count, attributes, is_known } = loss;
            let what = if is_known { "state_dict()" } else { "parameters and buffers" };
            let mut why = match count {
                1 => format!("a module of class {class} is read as its {what}, without the class"),
                _ => format!("{count} modules of class {class} are read as their {what}, without the class"),
            };
            if !attributes.is_empty() {
                let named: Vec<&str> = attributes.iter().take(MAX_NAMED).map(String::as_str).collect();
                let more = if attributes.len() > MAX_NAMED { ", ..." } else { "" };
                why.push_str(&format!(" and the attributes {}{more}", named.join(", ")));
            }
            self.to.catalog.loss(Loss::new(LossKind::State, first, why))?;
        }
        self.report_outside()
    }

    /// Reports each tensor that is in a module but not in its state dict.
    fn report_outside(&mut self) -> Result<()> {
        let graph = self.graph;
        let mut visited = std::mem::take(&mut self.modules.read);
        let read: HashSet<TensorPlace<'_>> =
            visited.iter().filter_map(|&id| TensorPlace::of(graph, id).transpose()).collect::<Result<_>>()?;
        let mut pending = std::mem::take(&mut self.modules.besides);
        pending.reverse();
        while let Some((path, id)) = pending.pop() {
            if !may_hold_tensors(graph.value(id)) || !visited.insert(id) {
                continue;
            }
            let called = graph.called(id).map(|(global, _)| global);
            let is_array = called.is_some_and(numpy::makes_array);
            let is_parameter = rebuild::data_of_parameter(graph, id).is_some();
            let is_tensor = !is_parameter && called.is_some_and(rebuild::is_rebuild);
            if is_array || is_tensor {
                if !TensorPlace::of(graph, id)?.is_some_and(|place| read.contains(&place)) {
                    let what = if is_array { "a numpy array" } else { "a tensor" };
                    let why = format!(
                        "{what} outside of the parameters, buffers and modules of a module: ferry does not read it"
                    );
                    self.to.catalog.loss(Loss::new(LossKind::Tensor, path, why))?;
                }
                continue;
            }
            let (parts, steps) = parts_of(graph, id);
            self.count_steps(steps)?;
            for (part, value) in parts.into_iter().rev() {
                let mut below = crate::names::Path::at(&path);
                match part {
                    ModulePart::Same => {}
                    ModulePart::Index(index) => below.push_index(index),
                    ModulePart::Key(key) => below.push_key(graph, key, self.to.context.limits().name_bytes),
                }
                let len = below.text().len();
                self.count_path_bytes(len - path.len().min(len), len)?;
                pending.push((below.text().to_owned(), value));
            }
        }
        Ok(())
    }
}

/// The name of a part in its value's path.
enum ModulePart {
    Same,
    Index(usize),
    Key(ValueId),
}

/// Returns whether the value can contain other values, which may be tensors.
fn may_hold_tensors(value: &Value) -> bool {
    matches!(value, Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::Dict(_) | Value::Call(_))
}

/// Returns the parts of a value, and their number, which is the cost of listing them.
fn parts_of(graph: &Graph, id: ValueId) -> (Vec<(ModulePart, ValueId)>, usize) {
    let indexed = |items: &[ValueId]| -> Vec<(ModulePart, ValueId)> {
        items.iter().enumerate().map(|(index, &item)| (ModulePart::Index(index), item)).collect()
    };
    let keyed = |entries: Vec<(ValueId, ValueId)>| -> Vec<(ModulePart, ValueId)> {
        entries.into_iter().map(|(key, value)| (ModulePart::Key(key), value)).collect()
    };
    let parts = match graph.value(id) {
        Value::List(items) | Value::Set(items) => indexed(items),
        Value::Tuple(_) => indexed(graph.tuple(id).unwrap_or_default()),
        Value::Dict(entries) => keyed(graph.last_of_each(entries)),
        Value::Call(call) => {
            let mut parts: Vec<_> = graph
                .tuple(call.arguments)
                .unwrap_or_default()
                .iter()
                .map(|&item| (ModulePart::Same, item))
                .collect();
            parts.extend(keyed(call.items.clone()));
            parts.extend(indexed(&call.appended));
            parts.extend(call.state.into_iter().chain(call.keywords).map(|part| (ModulePart::Same, part)));
            parts
        }
        _ => Vec::new(),
    };
    let steps = parts.len();
    (parts, steps)
}

/// The location of a plain tensor's elements. If two tensors have the same location, they have the
/// same elements.
#[derive(PartialEq, Eq, Hash)]
struct TensorPlace<'g> {
    key: &'g str,
    offset: u64,
    size: Vec<u64>,
    stride: Vec<u64>,
}

impl<'g> TensorPlace<'g> {
    fn of(graph: &'g Graph, id: ValueId) -> Result<Option<Self>> {
        let Some(RebuiltTensor::View(view)) = rebuild::tensor(graph, id)? else { return Ok(None) };
        let Ok(named) = PersistentId::of(graph, view.storage)? else { return Ok(None) };
        Ok(Some(Self { key: named.key, offset: view.offset, size: view.size, stride: view.stride }))
    }
}

fn join(path: &str, below: &str) -> String {
    let dot = if path.is_empty() || below.is_empty() { "" } else { "." };
    [path, dot, below].concat()
}
