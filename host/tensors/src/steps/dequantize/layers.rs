//! Finds the tensors that a weight consists of by their names.

use crate::cast::load_singles;
use crate::steps::model_config::ModelConfig;
use crate::steps::model_facts::ModelFacts;
use crate::stored::Stored;
use std::collections::{BTreeSet, HashMap};
use tensorferry_sdk::{ByteOrder, Catalog, Data, Dtype, Error, Result, StorageId, Tensor, TensorId};

/// The tensors of a catalog by name.
pub(super) struct Layers<'a> {
    catalog: &'a Catalog,
    by_name: HashMap<&'a str, TensorId>,
    /// The source of the tensors' bytes, if the bytes are available.
    stored: Option<Stored<'a>>,
    config: Option<&'a ModelConfig>,
}

/// The location of a tensor's bytes, which are contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Extent {
    pub(super) storage: StorageId,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) dtype: Dtype,
}

/// A weight to dequantize, and its parts.
pub(super) struct Layer<'a> {
    /// The name of the weight.
    pub(super) name: String,
    /// The tensor that the dequantized weight replaces.
    pub(super) place: TensorId,
    /// All parts of the weight, which the dequantized weight replaces.
    pub(super) parts: BTreeSet<TensorId>,
    layers: &'a Layers<'a>,
}

impl<'a> Layers<'a> {
    /// Collects the tensors of a catalog by name.
    #[must_use]
    pub(super) fn of(catalog: &'a Catalog, model: Option<&'a ModelFacts<'a>>) -> Self {
        let ids = (0..).map(TensorId).zip(catalog.tensors());
        let by_name = ids.map(|(id, tensor)| (tensor.name.as_str(), id)).collect();
        let stored = model.map(|model| {
            let spill = Box::new(|| tempfile::tempfile().map_err(Error::from));
            Stored::new(model.input, catalog, model.session, spill)
        });
        Self { catalog, by_name, stored, config: model.map(|model| &model.config) }
    }

    /// Iterates over all names, in the catalog's order.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.catalog.tensors().iter().map(|tensor| tensor.name.as_str())
    }

    pub(super) fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    /// Returns the ID of the tensor with a name.
    #[must_use]
    pub(super) fn id(&self, name: &str) -> Option<TensorId> {
        self.by_name.get(name).copied()
    }

    /// Returns the tensor with a name.
    #[must_use]
    pub(super) fn get(&self, name: &str) -> Option<&'a Tensor> {
        self.by_name.get(name).and_then(|id| self.catalog.tensor(*id))
    }

    /// Returns whether a tensor with this name is in a different shard.
    pub(super) fn is_elsewhere(&self, name: &str) -> bool {
        self.get(name).is_none() && self.config.is_some_and(|config| config.is_indexed(name))
    }

    /// Finds the tensor names that end with this suffix, and returns them without the suffix. Each
    /// result is the name of a layer.
    pub(super) fn ending(&self, suffix: &str) -> Vec<&'a str> {
        self.names().filter_map(|name| name.strip_suffix(suffix)).collect()
    }

    /// Creates a weight whose dequantized form replaces the tensor `in_place_of`. This tensor is
    /// also the weight's first part.
    pub(super) fn layer(&'a self, name: String, in_place_of: &str) -> Result<Layer<'a>> {
        let place = self.by_name.get(in_place_of).copied();
        let place = place.ok_or_else(|| Error::malformed("no such tensor").tensor(in_place_of))?;
        Ok(Layer { name, place, parts: BTreeSet::from([place]), layers: self })
    }

    /// Reads the bytes at a location.
    fn read(&self, lying: Extent) -> Result<Vec<u8>> {
        let stored = self.stored.as_ref();
        let stored = stored.ok_or_else(|| Error::unsupported("tensors whose bytes are not available"))?;
        let mut bytes = vec![0; usize::try_from(lying.bytes).unwrap_or(0)];
        stored.read(lying.storage, lying.offset, &mut bytes)?;
        Ok(bytes)
    }
}

impl<'a> Layer<'a> {
    /// Adds a tensor to the weight's parts, if the tensor exists.
    pub(super) fn part(&mut self, name: &str) -> Option<&'a Tensor> {
        let id = *self.layers.by_name.get(name)?;
        self.parts.insert(id);
        self.layers.catalog.tensor(id)
    }

    /// Adds a tensor to the weight's parts. Returns an error if the tensor is missing.
    pub(super) fn needed(&mut self, name: &str) -> Result<&'a Tensor> {
        self.part(name).ok_or_else(|| {
            Error::malformed("a quantized weight lacks one of its tensors")
                .tensor(&self.name)
                .expected(name)
                .found("no such tensor")
        })
    }

    /// Adds parts that do not affect the weight's values, such as scales of the layer's input.
    pub(super) fn leave(&mut self, names: &[String]) {
        self.parts.extend(names.iter().filter_map(|name| self.layers.by_name.get(name.as_str())));
    }

    /// Returns the location of a tensor's bytes.
    pub(super) fn extent(&self, tensor: &Tensor) -> Result<Extent> {
        let catalog = self.layers.catalog;
        match &tensor.data {
            Data::Whole { storage, offset }
                if catalog.storage(*storage).is_some_and(|found| found.byte_order == ByteOrder::Little) =>
            {
                Ok(Extent { storage: *storage, offset: *offset, bytes: tensor.bytes, dtype: tensor.dtype })
            }
            Data::Empty => {
                Err(Error::malformed("a part of a quantized weight is empty").tensor(&tensor.name))
            }
            _ => Err(Error::unsupported(
                "a part of a quantized weight that is not contiguous and little-endian",
            )
            .tensor(&tensor.name)),
        }
    }

    /// Returns the location of a tensor's bytes, or an error if its dtype is not one of `dtypes`.
    pub(super) fn extent_of(&self, tensor: &Tensor, dtypes: &[Dtype]) -> Result<Extent> {
        if dtypes.contains(&tensor.dtype) {
            return self.extent(tensor);
        }
        let name = |dtype: Dtype| dtype.info().map_or("a dtype of its format", |info| info.name());
        let names: Vec<&str> = dtypes.iter().map(|dtype| name(*dtype)).collect();
        Err(Error::malformed("a part of a quantized weight has an unexpected dtype")
            .tensor(&tensor.name)
            .expected(names.join(" or "))
            .found(name(tensor.dtype)))
    }

    /// Reads the bytes of a tensor that has at most `max` bytes.
    pub(super) fn bytes(&self, tensor: &Tensor, max: u64) -> Result<Vec<u8>> {
        if tensor.bytes > max {
            return Err(Error::malformed("a part of a quantized weight is too long")
                .tensor(&tensor.name)
                .expected(format!("at most {max} bytes"))
                .found(tensor.bytes));
        }
        self.layers.read(self.extent(tensor)?).map_err(|error| error.tensor(&tensor.name))
    }

    /// Reads the floats of a tensor, which must have exactly `count` elements.
    pub(super) fn floats(&self, tensor: &Tensor, count: u64) -> Result<Vec<f32>> {
        let lying = self.extent_of(tensor, &[Dtype::F32, Dtype::F16, Dtype::BF16])?;
        let width = if tensor.dtype == Dtype::F32 { 4 } else { 2 };
        if lying.bytes != count * width {
            return Err(shaped(tensor, format!("{count} numbers")));
        }
        let bytes = self.bytes(tensor, lying.bytes)?;
        let mut floats = vec![0.0; usize::try_from(count).unwrap_or(0)];
        if let Some(load) = load_singles(tensor.dtype) {
            load(&bytes, &mut floats);
        }
        Ok(floats)
    }
}

/// Returns the error for a part whose shape does not match the shapes of the other parts.
pub(super) fn shaped(tensor: &Tensor, expected: impl std::fmt::Display) -> Error {
    Error::malformed("a part of a quantized weight has a shape that does not match the other parts")
        .tensor(&tensor.name)
        .expected(expected)
        .found(format!("{:?}", tensor.shape))
}

/// Returns the rows and columns of a tensor with two dimensions.
pub(super) fn matrix(tensor: &Tensor) -> Result<[u64; 2]> {
    match *tensor.shape {
        [rows, columns] => Ok([rows, columns]),
        _ => Err(shaped(tensor, "two dimensions")),
    }
}
