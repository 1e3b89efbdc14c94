//! Declares tensors whose bytes have to be computed, where a user asks for them: the floats that a quantized
//! tensor stands for, all elements of a sparse one.

use crate::lazy::{ChannelValues, Compressed, Dense, Dequantized, Indices, Parameters, Recipe, StoredView};
use crate::object_file::ObjectFile;
use crate::pickle::ValueId;
use crate::rebuild::{self, Layout, Quantized, Rebuilt, Scheme, Sparse};
use crate::storages::{Located, Location, Storages};
use tensorferry_sdk::{CatalogSink, Dtype, Error, Result, StorageId, element_count};

/// A tensor that is a part of another one.
struct TensorPart {
    view: StoredView,
    storage: StorageId,
    extent: u64,
}

impl Storages<'_> {
    /// Declares the floats that a quantized tensor stands for, in F32, F16 or BF16.
    ///
    /// # Errors
    /// Malformed: what torch's `dequantize()` refuses; as [`locate`](Storages::locate).
    pub(crate) fn dequantized(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        quantized: &Quantized,
        to: Dtype,
    ) -> Result<Located> {
        let Quantized { view, scheme } = quantized;
        let resolved = match self.resolve(catalog, object, view)? {
            Ok(resolved) => resolved,
            Err(why) => return Ok(Located::Lost(why)),
        };
        if !resolved.row.quantized {
            return Ok(Located::Lost(format!(
                "a quantized tensor of {}, which is not quantized",
                resolved.row.name
            )));
        }
        if !resolved.has_whole_bytes(view) {
            return Ok(Located::Lost(format!("a strided view of packed {}", resolved.row.name)));
        }
        let mut from = vec![resolved.storage()];
        let parameters = match scheme {
            Scheme::PerTensor { scale, zero_point } => {
                Parameters::PerTensor { scale: scale.to_bits(), zero_point: *zero_point }
            }
            Scheme::PerChannel { scales, zero_points, is_float, axis } => {
                let channels = view.size.get(*axis).copied().unwrap_or(0);
                let mut numbers = |numbers| self.numbers(catalog, object, numbers, channels, &mut from);
                let (scales, zero_points) = match (numbers(scales)?, numbers(zero_points)?) {
                    (Ok(scales), Ok(zero_points)) => (scales, zero_points),
                    (Err(why), _) | (_, Err(why)) => return Ok(Located::Lost(why)),
                };
                let are_floats = match &zero_points {
                    ChannelValues::Stored(view) => matches!(view.dtype, Dtype::F32 | Dtype::F64),
                    ChannelValues::Given(_) => *is_float,
                };
                let run = element_count(&view.size[axis + 1..])?;
                Parameters::PerChannel { scales, zero_points, are_floats, channels, run }
            }
        };
        let (shape, stored) = (resolved.shape.clone(), resolved.stored_view(view));
        let elements = element_count(&shape)?;
        let dequantized = Dequantized { stored, dtype: resolved.row.dtype, elements, parameters, to };
        dequantized.check()?;
        let len = elements.checked_mul(if to == Dtype::F32 { 4 } else { 2 });
        let len = len.ok_or_else(|| Error::malformed("the tensor's length does not fit 64 bits"))?;
        let (recipe, location) = (Recipe::Dequantized(dequantized), Location::without_bytes(to, shape));
        self.dequantized += 1;
        self.make(catalog, recipe, location, len, resolved.extent.saturating_mul(16), from)
    }

    /// The scales or zero points of as many channels; or why they are lost.
    fn numbers(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        numbers: &rebuild::ChannelNumbers,
        channels: u64,
        from: &mut Vec<StorageId>,
    ) -> Result<Result<ChannelValues, String>> {
        let view = match numbers {
            rebuild::ChannelNumbers::List(list) => {
                check_channels(list.len() as u64, channels)?;
                return Ok(Ok(ChannelValues::Given(list.iter().map(|number| number.to_bits()).collect())));
            }
            rebuild::ChannelNumbers::Tensor(id) => match self.part(catalog, object, *id)? {
                Ok(TensorPart { view, storage, .. }) => {
                    from.push(storage);
                    view
                }
                Err(why) => return Ok(Err(why)),
            },
        };
        if !ChannelValues::reads(view.dtype) {
            return Ok(Err("its scales or zero points are of another dtype than torch's".to_owned()));
        }
        check_channels(view.elements()?, channels)?;
        view.check_held(self.limits())?;
        Ok(Ok(ChannelValues::Stored(view)))
    }

    /// Declares all elements of a sparse tensor.
    ///
    /// # Errors
    /// Malformed, if its parts' shapes do not agree; a limit; as [`locate`](Storages::locate).
    pub(crate) fn dense(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        sparse: &Sparse,
    ) -> Result<Located> {
        let mut parts = Vec::new();
        for id in sparse.indices.iter().map(|&(_, id)| id).chain([sparse.values]) {
            match self.part(catalog, object, id)? {
                Ok(part) => parts.push(part),
                Err(why) => return Ok(Located::Lost(why)),
            }
        }
        let (from, stored): (Vec<_>, Vec<_>) = parts.iter().map(|part| (part.storage, part.extent)).unzip();
        let mut views = parts.into_iter().map(|part| part.view);
        let (first, second, third) = (views.next(), views.next(), views.next());
        let (indices, values) = match (sparse.layout, first, second, third) {
            (Layout::Coo, Some(indices), Some(values), None) => (Indices::Coordinates(indices), values),
            (layout, Some(starts), Some(plain), Some(values)) => {
                let (by_rows, of_blocks) = (layout.is_by_rows(), layout.is_of_blocks());
                (Indices::Compressed(Compressed { starts, plain, by_rows, of_blocks }), values)
            }
            _ => return Err(Error::malformed("a sparse tensor with another number of parts")),
        };
        let dense = Dense { indices, values, size: sparse.size.clone() };
        if let Err(why) = dense.check_dtypes() {
            return Ok(Located::Lost(why));
        }
        let len = dense.check(self.limits())?;
        let location = Location::without_bytes(dense.values.dtype, sparse.size.clone());
        let stored = stored.into_iter().fold(0, u64::saturating_add);
        self.make(catalog, Recipe::Dense(dense), location, len, stored, from)
    }

    /// A tensor that is a part of another one, to be read by the plugin; or why it is lost.
    fn part(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        id: ValueId,
    ) -> Result<Result<TensorPart, String>> {
        let view = match rebuild::tensor(object.graph(), id)?.map(Rebuilt::into_view) {
            Some(Ok(view)) => view,
            Some(Err(why)) => return Ok(Err(format!("a part of it is lost: {why}"))),
            None => return Ok(Err("a part of it is not a tensor".to_owned())),
        };
        if view.conjugate || view.negative {
            return Ok(Err("a part of it is a conjugate or a negative".to_owned()));
        }
        let resolved = self.resolve(catalog, object, &view)?;
        Ok(resolved.map(|resolved| TensorPart {
            view: resolved.stored_view(&view),
            storage: resolved.storage(),
            extent: resolved.extent,
        }))
    }
}

/// Each channel has a number.
///
/// # Errors
/// Malformed, if there are more or fewer.
pub(crate) fn check_channels(count: u64, channels: u64) -> Result<()> {
    if count == channels {
        return Ok(());
    }
    Err(Error::malformed("a quantized tensor has another number of scales or zero points than channels")
        .expected(channels)
        .found(count))
}
