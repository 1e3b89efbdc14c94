//! A module is an object of a class of `torch.nn`, saved whole: an instance whose attributes
//! `_parameters`, `_buffers` and `_modules` are mappings. It is read as its `state_dict()` would be:
//! its parameters, its persistent buffers, then its modules, and so on below.
//!
//! Source: `Module._save_to_state_dict` and `Module.state_dict` in `torch/nn/modules/module.py`. What
//! code of the module itself adds there (`get_extra_state`, hooks) is not known. Nor are the classes'
//! versions, which stand in their code: a state dict without them is loaded all the same.

use super::Walk;
use crate::pickle::{Graph, Value, ValueId};
use crate::rebuild;
use std::collections::{BTreeSet, HashMap, HashSet};
use tensorferry_sdk::{Error, Loss, LossKind, Result};

/// Attributes that are named in a loss.
const MOST_NAMED: usize = 12;

/// What is said of a name that is longer than any attribute's.
const MOST_NAME_CHARS: usize = 80;

/// What is said of each class of modules, once.
#[derive(Default)]
pub(super) struct ClassLosses {
    by_class: HashMap<String, usize>,
    classes: Vec<ClassLoss>,
}

struct ClassLoss {
    class: String,
    /// Where the first one is.
    first: String,
    count: usize,
    attributes: BTreeSet<String>,
}

/// The pieces of a module.
struct Module<'g> {
    class: String,
    parameters: Vec<(ValueId, ValueId)>,
    buffers: Vec<(ValueId, ValueId)>,
    modules: Vec<(ValueId, ValueId)>,
    not_persistent: HashSet<&'g str>,
    /// The names of its other attributes.
    others: Vec<&'g str>,
}

impl<'g> Module<'g> {
    /// The module, if the value is one.
    fn of(graph: &'g Graph, id: ValueId) -> Option<Self> {
        let call = graph.call(id)?;
        let state = graph.entries(call.state?)?;
        let mut module = Self {
            class: class_of(graph, id)?,
            parameters: Vec::new(),
            buffers: Vec::new(),
            modules: Vec::new(),
            not_persistent: HashSet::new(),
            others: Vec::new(),
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
                // Every module has these, and says nothing by them.
                "training" => continue,
                _ if name.starts_with("_") => continue,
                _ => {
                    module.others.push(name);
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

/// How many attributes the state of an object has, if it has one: what looking for a module takes.
fn attributes(graph: &Graph, id: ValueId) -> usize {
    let state = graph.call(id).and_then(|call| call.state);
    state.map_or(0, |state| graph.entry_count(state))
}

/// The class of an object, also of one that protocols below 2 make by `copyreg._reconstructor`.
fn class_of(graph: &Graph, id: ValueId) -> Option<String> {
    let (global, call) = graph.called(id)?;
    if global.is("copyreg", "_reconstructor") {
        let class = graph.tuple(call.arguments)?.first()?;
        return graph.global(*class).map(crate::pickle::Global::path);
    }
    Some(global.path())
}

/// The members of a set, however the protocol spells it.
fn members(graph: &Graph, id: ValueId) -> &[ValueId] {
    match graph.value(id) {
        Value::Set(items) => items,
        _ => match graph.plain_call(id, "builtins", "set") {
            Some(&[items]) => graph.sequence(items).unwrap_or_default(),
            _ => &[],
        },
    }
}

/// A step of a walk through modules.
enum Step {
    Enter { module: ValueId, prefix: String, depth: u64 },
    Leave(ValueId),
}

impl Walk<'_, '_, '_, '_> {
    /// The entries of a module's state dict, if the value is a module.
    pub(super) fn state_dict(&mut self, id: ValueId) -> Result<Option<Vec<(String, ValueId)>>> {
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
                return Err(Error::limit("modules are nested too deep")
                    .expected(format!("at most {} levels", limits.nesting))
                    .found(format!("at {prefix:.200?}")));
            }
            self.count_steps(attributes(graph, id))?;
            let Some(module) = Module::of(graph, id) else {
                let why = "it stands where a module should be: state_dict() has nothing of it";
                self.lose_at(&prefix, LossKind::State, why)?;
                continue;
            };
            if !open.insert(id) {
                self.lose_at(&prefix, LossKind::State, "it contains itself")?;
                continue;
            }
            let parts = module.parameters.len() + module.buffers.len() + module.modules.len();
            self.count_steps(parts + module.not_persistent.len())?;
            self.note_module(&module, &prefix);
            let buffers = module.buffers.iter().filter(|&&(key, _)| module.is_persistent(graph, key));
            for &(key, value) in module.parameters.iter().chain(buffers) {
                if *graph.value(value) == Value::None {
                    continue;
                }
                let name = self.name_below(&prefix, key)?;
                // A dict keeps the last of two entries; a module's own code sees to it that there is one.
                if names.insert(name.clone()) {
                    // Of a parameter, a state dict holds the tensor.
                    entries.push((name, rebuild::data_of(graph, value)));
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

    fn note_module(&mut self, module: &Module<'_>, prefix: &str) {
        let losses = &mut self.modules;
        let index = match losses.by_class.get(&module.class) {
            Some(&index) => index,
            None => {
                let first = join(self.path.text(), prefix);
                let (class, attributes) = (module.class.clone(), BTreeSet::new());
                losses.classes.push(ClassLoss { class: class.clone(), first, count: 0, attributes });
                losses.by_class.insert(class, losses.classes.len() - 1);
                losses.classes.len() - 1
            }
        };
        let loss = &mut losses.classes[index];
        loss.count += 1;
        for name in &module.others {
            if loss.attributes.len() <= MOST_NAMED {
                loss.attributes.insert(name.chars().take(MOST_NAME_CHARS).collect());
            }
        }
    }

    /// Says what of the modules is not in their state dicts: once for each class.
    pub(super) fn report_modules(&mut self) -> Result<()> {
        for loss in std::mem::take(&mut self.modules).classes {
            let ClassLoss { class, first, count, attributes } = loss;
            let mut why = match count {
                1 => format!("a module of class {class} is read as its state_dict(), without the class"),
                _ => format!(
                    "{count} modules of class {class} are read as their state_dict(), without the class"
                ),
            };
            if !attributes.is_empty() {
                let named: Vec<&str> = attributes.iter().take(MOST_NAMED).map(String::as_str).collect();
                let more = if attributes.len() > MOST_NAMED { ", ..." } else { "" };
                why.push_str(&format!(" and the attributes {}{more}", named.join(", ")));
            }
            self.to.catalog.loss(Loss::new(LossKind::State, first, why))?;
        }
        Ok(())
    }
}

fn join(path: &str, below: &str) -> String {
    let dot = if path.is_empty() || below.is_empty() { "" } else { "." };
    [path, dot, below].concat()
}
