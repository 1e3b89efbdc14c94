//! The names of the tensors to read, in DeepSpeed's order, and the locations of their elements.

use crate::optimizer_states::OptimizerValue;
use crate::split_vector::Run;
use std::rc::Rc;
use tensorferry_sdk::{Dtype, Loss, LossKind};
use tensorferry_torch_file::Location;

/// Location of a tensor's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Elements {
    /// A view of a storage in one file.
    View(Location),
    /// Pieces of flat vectors. Their concatenation contains the elements in row-major order.
    Split { dtype: Dtype, shape: Vec<u64>, runs: Vec<Run> },
    /// A value in one file that several parameters share. Each parameter gets its own copy, so that
    /// the parameters are not reported as tied.
    Shared(Location),
    /// A Python number.
    Number(Dtype, [u8; 8]),
}

/// The selected tensors, and the losses that their selection causes.
#[derive(Debug, Default)]
pub(crate) struct SelectedTensors {
    /// The names and elements of the tensors, in order. Tied tensors share their `Elements`.
    pub(crate) tensors: Vec<(String, Rc<Elements>)>,
    pub(crate) losses: Vec<Loss>,
}

impl SelectedTensors {
    pub(crate) fn add(&mut self, name: &str, elements: Elements) {
        self.tensors.push((name.to_owned(), Rc::new(elements)));
    }

    /// Adds a value that the optimizer stores once for all parameters of a group.
    pub(crate) fn add_kept(&mut self, name: &str, kept: &OptimizerValue) {
        match kept {
            OptimizerValue::Tensor(location) => self.add(name, Elements::Shared(location.clone())),
            OptimizerValue::Number(dtype, bytes) => self.add(name, Elements::Number(*dtype, *bytes)),
            OptimizerValue::Other => self.lose(LossKind::State, name, "neither a tensor nor a number"),
        }
    }

    /// Adds a second name for the elements of an existing tensor.
    pub(crate) fn tie(&mut self, alias: &str, elements: &Rc<Elements>) {
        self.tensors.push((alias.to_owned(), Rc::clone(elements)));
    }

    pub(crate) fn lose(&mut self, kind: LossKind, what: &str, why: &str) {
        self.losses.push(Loss::new(kind, what, why));
    }
}
