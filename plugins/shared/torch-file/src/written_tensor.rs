//! Writes a tensor to a pickle as a call that creates the tensor from its storage. The form of the
//! call is the same as in `Tensor._reduce_ex_internal` in `torch/_tensor.py`.

use crate::dtype::TorchDtype;
use crate::pickle_writer::PickleWriter;
use tensorferry_sdk::Result;

/// A view of a storage, described in torch's terms.
#[derive(Debug, Clone, Copy)]
pub struct WrittenTensor<'v> {
    pub dtype: &'static TorchDtype,
    /// Key of the storage.
    pub key: usize,
    /// Length of the storage in elements of its storage class. If the dtype has no storage class,
    /// the length is in bytes.
    pub elements: u64,
    /// Offset in the storage, in elements.
    pub offset: i64,
    /// Shape in torch's elements.
    pub shape: &'v [i64],
    /// Strides in torch's elements.
    pub strides: &'v [i64],
    /// Whether the pickle is part of a legacy stream instead of an archive. torch wrote such
    /// streams before version 1.6.
    pub is_in_stream: bool,
}

impl WrittenTensor<'_> {
    /// Appends the tensor: a call of `_rebuild_tensor_v2` with a typed storage, or of
    /// `_rebuild_tensor_v3` with an untyped storage and a dtype.
    pub fn push(&self, pickle: &mut PickleWriter, requires_grad: bool) -> Result<()> {
        let function = match self.dtype.storage_class {
            Some(_) => "_rebuild_tensor_v2",
            None => "_rebuild_tensor_v3",
        };
        pickle.global("torch._utils", function);
        pickle.mark();
        self.push_view(pickle)?;
        pickle.bool(requires_grad);
        // This call creates the mapping for gradient hooks. torch stores the mapping in the tensor,
        // so each tensor needs a separate mapping.
        pickle.call_without_arguments("collections", "OrderedDict");
        if self.dtype.storage_class.is_none() {
            pickle.global("torch", self.dtype.name);
        }
        pickle.tuple_since_mark();
        pickle.reduce();
        Ok(())
    }

    /// Appends the first arguments of all calls that rebuild a stored tensor: storage, offset,
    /// shape and strides.
    pub fn push_view(&self, pickle: &mut PickleWriter) -> Result<()> {
        let class = match (self.dtype.storage_class, self.is_in_stream) {
            (Some(class), _) => ("torch", class),
            (None, false) => ("torch.storage", "UntypedStorage"),
            // When loading a stream, torch needs a dtype for the class of each storage, but the
            // class of untyped storages has no dtype.
            (None, true) => ("torch", "ByteStorage"),
        };
        pickle.mark();
        pickle.text("storage")?;
        pickle.global(class.0, class.1);
        pickle.unique_text(&self.key.to_string())?;
        pickle.text("cpu")?;
        pickle.int(self.elements.cast_signed());
        if self.is_in_stream {
            // `None` means that the storage is not a view of another storage.
            pickle.none();
        }
        pickle.tuple_since_mark();
        pickle.persistent_id();
        pickle.int(self.offset);
        pickle.int_tuple(self.shape);
        pickle.int_tuple(self.strides);
        Ok(())
    }
}

/// A row-major tensor that occupies a whole storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeTensor {
    dtype: &'static TorchDtype,
    shape: Vec<i64>,
    bytes: u64,
}

impl WholeTensor {
    /// Creates a tensor from the dtype and shape in the catalog, and the length in bytes. If torch
    /// does not support such a tensor, returns the reason.
    pub fn new(dtype: tensorferry_sdk::Dtype, shape: &[u64], bytes: u64) -> Result<Self, String> {
        let dtype =
            TorchDtype::of(dtype).filter(|dtype| !dtype.quantized).ok_or("torch has no such dtype")?;
        let shape = dtype
            .torch_shape(shape)
            .ok_or("torch packs two elements into one, and the tensor's last dimension is odd")?;
        let shape = shape.into_iter().map(i64::try_from).collect::<Result<_, _>>();
        Ok(Self { dtype, shape: shape.map_err(|_| "a dimension is longer than 63 bits")?, bytes })
    }

    #[must_use]
    pub fn dtype(&self) -> &'static TorchDtype {
        self.dtype
    }

    /// Returns the shape in torch elements.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends the tensor as a view of the whole storage with this key.
    pub fn push(&self, pickle: &mut PickleWriter, key: usize) -> Result<()> {
        let Self { dtype, shape, bytes } = self;
        let elements = bytes / dtype.storage_class.map_or(1, |_| u64::from(dtype.element_bytes));
        let strides = contiguous_strides(shape);
        let view =
            WrittenTensor { dtype, key, elements, offset: 0, shape, strides: &strides, is_in_stream: false };
        view.push(pickle, false)
    }
}

/// Returns the strides of a contiguous tensor. As in torch, a dimension of length 0 is treated as
/// if its length were 1.
#[must_use]
pub fn contiguous_strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1_i64; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim].saturating_mul(shape[dim].max(1));
    }
    strides
}
