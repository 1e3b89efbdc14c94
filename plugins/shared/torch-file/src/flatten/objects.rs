//! Creates nodes for the results of calls. If the call only represents data, the node contains that
//! data. Otherwise, the node is the recorded call.

use super::{Children, Form, ObjectPart, Visit, Walk};
use crate::calls::UnknownCall;
use crate::names::PathMark;
use crate::pickle::{Call, CallKind, Global, Value, ValueId};
use crate::{data_calls, rebuild};
use std::collections::{BTreeSet, HashSet};
use tensorferry_sdk::{LossKind, Node, NodeId, NodeKind, Result};

pub(super) const ORDERED_DICT: &str = "collections.OrderedDict";

/// A container that a call creates and fills, with the container's attributes.
struct FilledContainer<'g> {
    content: ObjectPart<'g>,
    attributes: Option<ObjectPart<'g>>,
}

impl<'g> Walk<'g, '_, '_, '_> {
    pub(super) fn call(&mut self, id: ValueId, call: &'g Call, outside: PathMark) -> Result<Visit> {
        let graph = self.graph;
        if let Some(rebuilt) = rebuild::tensor(graph, id).map_err(|e| e.tensor(self.path.text()))? {
            self.mark_tensor();
            self.reported[id.index()] = true;
            return self.tensor(id, rebuilt, outside);
        }
        if let Some(visit) = self.array(id)? {
            return Ok(visit);
        }
        if rebuild::data_of_old_parameter(graph, id).is_some() {
            self.change("a parameter from torch 0.3 or earlier is read as its tensor")?;
            // Nested parameters are not unwrapped recursively, because the file would then control
            // the depth of the recursion.
            return self.visit(rebuild::data_of(graph, id), outside);
        }
        if let Some(state_dict) = self.state_dict(id)? {
            let form = Form::Node(NodeKind::MAP, ORDERED_DICT.to_owned());
            return self.enter(Some(id), form, Children::Named(state_dict), outside);
        }
        for (class, is_set) in [("set", true), ("frozenset", false)] {
            let items = match graph.plain_call(id, "builtins", class) {
                Some(&[items]) => graph.sequence(items),
                _ => None,
            };
            let Some(items) = items else { continue };
            let (form, children) = if is_set {
                (Form::plain(NodeKind::SET), Children::Indexed(items))
            } else {
                let form = Form::Object("builtins.frozenset".to_owned(), CallKind::Function);
                (form, Children::Parts(vec![ObjectPart::Listing(String::new(), items)]))
            };
            return self.enter(Some(id), form, children, outside);
        }
        if let Some(container) = self.container(id, call)? {
            return self.enter_container(id, container, outside);
        }
        self.report(id, call)?;
        let global = graph.global(call.function);
        let arguments = graph.tuple(call.arguments).unwrap_or_default();
        let class = match global {
            Some(global) => global.path(),
            // The function is the result of another call, so its class is unknown.
            None => graph
                .called(call.function)
                .map_or_else(String::new, |(global, _)| format!("{}()", global.path())),
        };
        // The name of a parameter is also the name of its tensor.
        let bare = global.is_some_and(rebuild::is_parameter);
        let mut parts =
            vec![if bare { ObjectPart::BareArguments(arguments) } else { ObjectPart::Arguments(arguments) }];
        let entries = || ObjectPart::Mapping(String::new(), Vec::new(), graph.last_of_each(&call.items));
        let state = match (self.object.declared(&class), call.state) {
            (Some(declared), Some(state)) => Some(self.declared_state(declared, state)?),
            (_, state) => state.map(|state| self.state(state)),
        };
        let rest = [
            state,
            (!call.items.is_empty()).then(entries),
            (!call.appended.is_empty()).then(|| ObjectPart::Listing(String::new(), &call.appended)),
            call.keywords.map(ObjectPart::Value),
        ];
        let used = rest.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        parts.extend(rest.into_iter().take(used).map(|part| part.unwrap_or(ObjectPart::Nothing)));
        self.enter(Some(id), Form::Object(class, call.kind), Children::Parts(parts), outside)
    }

    fn enter_container(
        &mut self,
        id: ValueId,
        container: FilledContainer<'g>,
        outside: PathMark,
    ) -> Result<Visit> {
        if let Some(attributes) = container.attributes {
            let parts = Children::Parts(vec![container.content, attributes]);
            return self.enter(Some(id), Form::plain(NodeKind::ATTRIBUTED), parts, outside);
        }
        let (form, children) = match container.content {
            ObjectPart::Mapping(class, _, entries) => {
                (Form::Node(NodeKind::MAP, class), Children::Entries(entries))
            }
            ObjectPart::Listing(class, items) => {
                (Form::Node(NodeKind::LIST, class), Children::Indexed(items))
            }
            other => (Form::plain(NodeKind::TUPLE), Children::Parts(vec![other])),
        };
        self.enter(Some(id), form, children, outside)
    }

    /// If a call only creates and fills a mapping or a list, returns this container. The container
    /// may have any class.
    fn container(&mut self, id: ValueId, call: &'g Call) -> Result<Option<FilledContainer<'g>>> {
        let graph = self.graph;
        let Some(global) = graph.global(call.function).filter(|_| call.keywords.is_none()) else {
            return Ok(None);
        };
        let arguments = graph.tuple(call.arguments).unwrap_or_default();
        let mapping = |entries| ObjectPart::Mapping(global.path(), Vec::new(), entries);
        let listing = |items| ObjectPart::Listing(global.path(), items);
        let (has_items, has_appended) = (!call.items.is_empty(), !call.appended.is_empty());
        let content = match (&*global.module, &*global.name) {
            ("argparse", "Namespace") | ("types", "SimpleNamespace")
                if arguments.is_empty() && !has_items && !has_appended =>
            {
                let Some(attributes) = call.state.and_then(|state| graph.entries(state)) else {
                    return Ok(None);
                };
                return Ok(Some(FilledContainer { content: mapping(attributes), attributes: None }));
            }
            ("collections", "OrderedDict" | "Counter" | "defaultdict") if !has_appended => {
                graph.entries(id).map(mapping)
            }
            ("collections", "deque") if !has_items => match *arguments {
                [] | [_] | [_, _] if has_appended => Some(listing(&call.appended)),
                [] => Some(listing(&[])),
                [items] | [items, _] => graph.sequence(items).map(listing),
                _ => None,
            },
            // When a pickle fills such an object, Python calls the `__setitem__` or `append` method
            // of the object's class.
            _ if call.kind == CallKind::New && arguments.is_empty() && has_items && !has_appended => {
                Some(mapping(graph.last_of_each(&call.items)))
            }
            _ if call.kind == CallKind::New && arguments.is_empty() && has_appended && !has_items => {
                Some(listing(&call.appended))
            }
            _ => None,
        };
        let Some(content) = content else { return Ok(None) };
        let attributes = match (self.constructed(global, arguments)?, call.state) {
            (None, None) => None,
            (None, Some(state)) => Some(self.state(state)),
            (Some(nodes), None) => Some(ObjectPart::Mapping(String::new(), nodes, Vec::new())),
            (Some(_), Some(_)) => return Ok(None),
        };
        Ok(Some(FilledContainer { content, attributes }))
    }

    /// Returns the attribute that corresponds to a constructor argument of the container. The
    /// argument for the content is excluded.
    fn constructed(&mut self, global: &Global, arguments: &[ValueId]) -> Result<Option<Vec<NodeId>>> {
        let (name, value) = match (&*global.name, arguments) {
            ("defaultdict", &[factory, ..]) => ("default_factory", factory),
            ("deque", &[_, len]) => ("maxlen", len),
            _ => return Ok(None),
        };
        if global.module != "collections".into() || *self.graph.value(value) == Value::None {
            return Ok(None);
        }
        // A factory is either a class or an object that only the program's code defines.
        let node = match self.scalar(value)? {
            Some(node) => node,
            None => self.to.catalog.node(Node::none())?,
        };
        Ok(Some(vec![self.text_node(name)?, node]))
    }

    /// Returns the state of an object, which is a dict of its attributes. If the class has slots,
    /// the state is a pair of dicts.
    pub(super) fn state(&self, state: ValueId) -> ObjectPart<'g> {
        let attributes = |&id: &ValueId| matches!(self.graph.value(id), Value::None | Value::Dict(_));
        match self.graph.tuple(state) {
            Some(pair) if pair.len() == 2 && pair.iter().all(attributes) => ObjectPart::BareArguments(pair),
            _ => ObjectPart::Value(state),
        }
    }

    /// Returns the state of a TorchScript object. Omits tensors that are neither parameters nor
    /// buffers, and reports them as losses. Keeps packed objects, because state dicts of other
    /// modules contain them.
    fn declared_state(&mut self, declared: &HashSet<String>, state: ValueId) -> Result<ObjectPart<'g>> {
        let graph = self.graph;
        let Some(entries) = graph.entries(state) else { return Ok(self.state(state)) };
        let mut kept = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let is_declared = graph.text(key).is_none_or(|name| declared.contains(name));
            if is_declared {
                self.mark_read(value);
            } else if self.is_plain_data(value) {
                self.record_outside(key, value)?;
                continue;
            }
            kept.push((key, value));
        }
        Ok(ObjectPart::Mapping(String::new(), Vec::new(), kept))
    }

    /// Returns whether the value is a tensor, an array, or a container.
    fn is_plain_data(&self, value: ValueId) -> bool {
        match self.graph.value(value) {
            Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::Dict(_) => true,
            Value::Call(_) => {
                self.graph.called(value).is_some_and(|(global, _)| data_calls::rebuilds(global))
                    || self.graph.entries(value).is_some()
            }
            _ => false,
        }
    }

    pub(super) fn text_node(&mut self, text: &str) -> Result<NodeId> {
        self.to.catalog.node(Node::text(text))
    }

    /// Reports a call, unless the call only represents data.
    fn report(&mut self, id: ValueId, call: &Call) -> Result<()> {
        self.reported[id.index()] = true;
        match UnknownCall::of(self.graph, call) {
            Some(unknown) => {
                let called = unknown.text(self.graph);
                self.lose(
                    LossKind::State,
                    &format!("calls {called}: it was not called, so its result is unknown"),
                )
            }
            None => Ok(()),
        }
    }

    /// Reports the calls that the walk did not reach. A pickle may discard the result of a call, or
    /// store the result in a part that no reader examines.
    pub(super) fn report_hidden(&mut self) -> Result<()> {
        let (graph, object) = (self.graph, self.object);
        let is_hidden = |(id, _): &(ValueId, &Call)| !self.reported[id.index()];
        let hidden: HashSet<UnknownCall> =
            graph.calls().filter(is_hidden).filter_map(|(_, call)| UnknownCall::of(graph, call)).collect();
        let hidden: BTreeSet<String> = hidden.into_iter().map(|call| call.text(graph)).collect();
        for called in hidden.iter().chain(object.side_calls()) {
            let why = format!("calls {called} outside of the saved object: it was not called");
            self.lose(LossKind::State, &why)?;
        }
        Ok(())
    }
}
