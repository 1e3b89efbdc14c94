//! The tensors that the user asked for: their names, in DeepSpeed's order, and where their elements lie.

use crate::optimizer_states::OptimizerValue;
use crate::split_vector::Run;
use std::rc::Rc;
use tensorferry_sdk::{Dtype, Loss, LossKind};
use tensorferry_torch_file::Location;

/// Where the elements of a tensor lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Elements {
    /// In one file.
    View(Location),
    /// In pieces of flat vectors, row-major.
    Split { dtype: Dtype, shape: Vec<u64>, runs: Vec<Run> },
    /// In one file, for many parameters: each has it as its own, so that they do not count as tied.
    Shared(Location),
    /// Here: a number of Python's.
    Number(Dtype, [u8; 8]),
}

/// The tensors, and what they do not say.
#[derive(Debug, Default)]
pub(crate) struct SelectedTensors {
    /// Tied names share their elements.
    pub(crate) tensors: Vec<(String, Rc<Elements>)>,
    pub(crate) losses: Vec<Loss>,
}

impl SelectedTensors {
    pub(crate) fn add(&mut self, name: &str, elements: Elements) {
        self.tensors.push((name.to_owned(), Rc::new(elements)));
    }

    /// Adds what an optimizer keeps for all parameters of a group.
    pub(crate) fn add_kept(&mut self, name: &str, kept: &OptimizerValue) {
        match kept {
            OptimizerValue::Tensor(location) => self.add(name, Elements::Shared(location.clone())),
            OptimizerValue::Number(dtype, bytes) => self.add(name, Elements::Number(*dtype, *bytes)),
            OptimizerValue::Other => self.lose(LossKind::State, name, "neither a tensor nor a number"),
        }
    }

    /// Adds another name for a tensor that is there.
    pub(crate) fn tie(&mut self, alias: &str, elements: &Rc<Elements>) {
        self.tensors.push((alias.to_owned(), Rc::clone(elements)));
    }

    pub(crate) fn lose(&mut self, kind: LossKind, what: &str, why: &str) {
        self.losses.push(Loss::new(kind, what, why));
    }
}
