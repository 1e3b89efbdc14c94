//! Finds the shortest path from the root of an object graph to each object, and the optimizer, if
//! any, that the object belongs to.
//!
//! An object belongs to an optimizer if every path from the root to it passes through that
//! optimizer. The walk is breadth-first and has four rounds. A later round does not change the
//! objects that an earlier round has reached:
//!
//! 1. from the root, without entering an optimizer: the model, its metrics, counters;
//! 2. into the optimizers, without the variables that they train;
//! 3. trained variables that are not reachable in any other way, which also belong to the model;
//! 4. slot variables, which are not children of any object.
//!
//! The root is never treated as an optimizer, because a user who saves only an optimizer needs its
//! content.

use super::optimizer::{TRAINABLE_LIST, optimizers};
use super::path::{OPTIMIZER_SLOT, push_name};
use std::collections::VecDeque;
use tensorferry_proto::trackable_object_graph::TrackableObject;
use tensorferry_sdk::{Error, Result};

/// A reference from an object to its child.
#[derive(Clone, Copy)]
struct Edge<'a> {
    from: usize,
    name: &'a str,
    to: usize,
}

/// The way in which the walk reached an object.
#[derive(Clone, Copy)]
struct Step<'a> {
    last: Segment<'a>,
    /// Length of the path in bytes.
    len: u64,
    /// The optimizer that owns the object, as an index into [`GraphWalk::optimizers`].
    optimizer: Option<usize>,
}

/// The last step of the path to an object.
#[derive(Clone, Copy)]
enum Segment<'a> {
    Root,
    Child(Edge<'a>),
    Slot {
        variable: usize,
        optimizer: usize,
        name: &'a str,
    },
    /// A slot whose variable is unreachable.
    Unknown,
}

/// The result of a walk.
pub(super) struct GraphWalk<'a> {
    steps: Vec<Option<Step<'a>>>,
    optimizers: Vec<usize>,
}

pub(super) fn walk(nodes: &[TrackableObject]) -> Result<GraphWalk<'_>> {
    check_references(nodes)?;
    let mut walk = GraphWalk { steps: vec![None; nodes.len()], optimizers: Vec::new() };
    let mut is_optimizer = optimizers(nodes);
    let Some(root_is_optimizer) = is_optimizer.first_mut() else { return Ok(walk) };
    *root_is_optimizer = false;

    walk.reach(0, Segment::Root, None);
    let mut entrances = Vec::new();
    walk.spread(nodes, vec![0], |edge| {
        if is_optimizer[edge.to] {
            entrances.push(edge);
        }
        !is_optimizer[edge.to]
    });

    let mut inside = Vec::new();
    for edge in entrances {
        if walk.follow(edge, Some(walk.optimizers.len())) {
            walk.optimizers.push(edge.to);
            inside.push(edge.to);
        }
    }
    let mut trained = Vec::new();
    walk.spread(nodes, inside, |edge| {
        let is_trained = is_optimizer[edge.from] && edge.name == TRAINABLE_LIST;
        if is_trained {
            trained.push(edge);
        }
        !is_trained
    });

    trained.retain(|&edge| walk.follow(edge, None));
    walk.spread(nodes, trained.iter().map(|edge| edge.to).collect(), |_| true);

    walk.reach_slots(nodes);
    Ok(walk)
}

impl<'a> GraphWalk<'a> {
    /// Returns the optimizers that are not inside another optimizer.
    pub(super) fn optimizers(&self) -> &[usize] {
        &self.optimizers
    }

    /// Returns the optimizer that owns an object, as an index into
    /// [`optimizers`](Self::optimizers).
    pub(super) fn optimizer_of(&self, node: usize) -> Option<usize> {
        self.step(node)?.optimizer
    }

    /// Returns the length of the object's path, or `None` if the object is unreachable.
    pub(super) fn path_len(&self, node: usize) -> Option<u64> {
        let step = self.step(node)?;
        (!matches!(step.last, Segment::Unknown)).then_some(step.len)
    }

    /// Returns the object's path, or `None` if the object is unreachable.
    pub(super) fn path(&self, node: usize) -> Option<String> {
        let mut segments = Vec::new();
        let mut at = node;
        loop {
            let segment = self.step(at)?.last;
            segments.push(segment);
            at = match segment {
                Segment::Root => break,
                Segment::Unknown => return None,
                Segment::Child(edge) => edge.from,
                Segment::Slot { variable, .. } => variable,
            };
        }
        let mut path = String::new();
        for segment in segments.into_iter().rev() {
            match segment {
                Segment::Root | Segment::Unknown => {}
                Segment::Child(edge) => {
                    if edge.from != 0 {
                        path.push('/');
                    }
                    push_name(&mut path, edge.name);
                }
                Segment::Slot { optimizer, name, .. } => {
                    path.push_str(OPTIMIZER_SLOT);
                    // The path of an optimizer never contains one of its own slots, so this
                    // recursion terminates.
                    path.push_str(&self.path(optimizer)?);
                    path.push('/');
                    push_name(&mut path, name);
                }
            }
        }
        Some(path)
    }

    fn step(&self, node: usize) -> Option<&Step<'a>> {
        self.steps.get(node)?.as_ref()
    }

    fn len_of(&self, last: &Segment<'_>) -> u64 {
        let before = |node| self.step(node).map_or(0, |step| step.len);
        match last {
            Segment::Root | Segment::Unknown => 0,
            Segment::Child(edge) => before(edge.from) + u64::from(edge.from != 0) + name_len(edge.name),
            Segment::Slot { variable, optimizer, name } => {
                let optimizer = before(*optimizer) + 1 + name_len(name);
                before(*variable) + OPTIMIZER_SLOT.len() as u64 + optimizer
            }
        }
    }

    /// Records how the walk reached an object, unless the object was already reached.
    fn reach(&mut self, node: usize, last: Segment<'a>, optimizer: Option<usize>) -> bool {
        let is_new = self.step(node).is_none();
        if is_new {
            self.steps[node] = Some(Step { len: self.len_of(&last), last, optimizer });
        }
        is_new
    }

    fn follow(&mut self, edge: Edge<'a>, optimizer: Option<usize>) -> bool {
        self.reach(edge.to, Segment::Child(edge), optimizer)
    }

    /// Walks breadth-first from the objects that have been reached, along the edges that `enter`
    /// accepts.
    fn spread(
        &mut self,
        nodes: &'a [TrackableObject],
        start: Vec<usize>,
        mut enter: impl FnMut(Edge<'a>) -> bool,
    ) {
        let mut queue = VecDeque::from(start);
        while let Some(from) = queue.pop_front() {
            let optimizer = self.optimizer_of(from);
            for child in &nodes[from].children {
                let edge = Edge { from, name: &child.local_name, to: index(child.node_id) };
                if self.step(edge.to).is_none() && enter(edge) && self.follow(edge, optimizer) {
                    queue.push_back(edge.to);
                }
            }
        }
    }

    fn reach_slots(&mut self, nodes: &'a [TrackableObject]) {
        let reached: Vec<usize> = (0..nodes.len()).filter(|&node| self.step(node).is_some()).collect();
        for optimizer in reached {
            for slot in &nodes[optimizer].slot_variables {
                let variable = index(slot.original_variable_node_id);
                let last = match self.step(variable) {
                    Some(_) => Segment::Slot { variable, optimizer, name: &slot.slot_name },
                    None => Segment::Unknown,
                };
                self.reach(index(slot.slot_variable_node_id), last, self.optimizer_of(optimizer));
            }
        }
    }
}

/// Returns the number of bytes that a local name occupies in a path.
fn name_len(name: &str) -> u64 {
    let escaped = name.bytes().filter(|byte| matches!(byte, b'.' | b'/')).count();
    (name.len() + escaped) as u64
}

/// Converts a reference to an index. [`check_references`] has already checked the reference.
fn index(id: i32) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

fn check_references(nodes: &[TrackableObject]) -> Result<()> {
    let is_there = |id: i32| usize::try_from(id).is_ok_and(|id| id < nodes.len());
    for (place, node) in nodes.iter().enumerate() {
        let children = node.children.iter().map(|child| ("a child", child.node_id));
        let slots = node.slot_variables.iter().flat_map(|slot| {
            [("a variable", slot.original_variable_node_id), ("a slot variable", slot.slot_variable_node_id)]
        });
        if let Some((what, id)) = children.chain(slots).find(|&(_, id)| !is_there(id)) {
            return Err(Error::malformed(format!(
                "node {place} of the object graph refers to {what} that does not exist"
            ))
            .expected(format!("a node from 0 to {}", nodes.len() - 1))
            .found(format!("node {id}")));
        }
    }
    Ok(())
}
