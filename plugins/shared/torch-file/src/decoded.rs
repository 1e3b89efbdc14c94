//! Declares tensors whose bytes are computed at the user's request. The bytes encode the floats
//! that a quantized tensor represents, or all elements of a sparse tensor.

use crate::lazy::{
    Blocks, ChannelValues, Compressed, Dense, Dequantized, Indices, Parameters, Recipe, StoredView,
};
use crate::object_file::ObjectFile;
use crate::pickle::ValueId;
use crate::rebuild::{self, Blocked, Layout, Quantized, RebuiltTensor, Scheme, Sparse};
use crate::storages::{Location, Storages, ViewLocation};
use tensorferry_sdk::{CatalogSink, Context, Dtype, Error, Result, Source, StorageId, element_count};

/// A tensor that is a part of a composed tensor, such as the indices of a sparse tensor.
struct TensorPart {
    view: StoredView,
    storage: StorageId,
    extent: u64,
}

impl Storages<'_> {
    /// Declares a tensor with the floats that a quantized tensor represents, as F32, F16 or BF16.
    pub(crate) fn dequantized(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        quantized: &Quantized,
        to: Dtype,
    ) -> Result<ViewLocation> {
        let Quantized { view, scheme } = quantized;
        let resolved = match self.resolve(catalog, object, view)? {
            Ok(resolved) => resolved,
            Err(why) => return Ok(ViewLocation::Lost(why)),
        };
        if !resolved.row.quantized {
            return Ok(ViewLocation::Lost(format!("its dtype {} is not quantized", resolved.row.name)));
        }
        if !resolved.has_whole_bytes(view) {
            return Ok(ViewLocation::Lost(format!("it is a strided view of packed {}", resolved.row.name)));
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
                    (Err(why), _) | (_, Err(why)) => return Ok(ViewLocation::Lost(why)),
                };
                let are_floats = match &zero_points {
                    ChannelValues::Stored(view) => matches!(view.dtype, Dtype::F32 | Dtype::F64),
                    ChannelValues::Listed(_) => *is_float,
                };
                let run = element_count(&view.size[axis + 1..])?;
                Parameters::PerChannel { scales, zero_points, are_floats, channels, run }
            }
        };
        let (shape, stored) = (resolved.shape.clone(), resolved.stored_view(view));
        let elements = element_count(&shape)?;
        let dequantized = Dequantized { stored, dtype: resolved.row.dtype, elements, parameters, to };
        dequantized.check()?;
        self.make_floats(catalog, dequantized, shape, resolved.extent, from)
    }

    /// Declares an F32, F16 or BF16 tensor. Its elements are the floats that quantized codes
    /// represent, if there is one scale per block.
    pub(crate) fn dequantized_blocks(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        blocked: &Blocked,
        to: Dtype,
    ) -> Result<ViewLocation> {
        let mut from = Vec::new();
        let mut part = |id| -> Result<Result<TensorPart, String>> {
            let part = self.part(catalog, object, id)?;
            from.extend(part.iter().map(|part| part.storage));
            Ok(part)
        };
        let zero_points = blocked.zero_points.map(&mut part).transpose()?.transpose();
        let (codes, scales, zero_points) = match (part(blocked.codes)?, part(blocked.scales)?, zero_points) {
            (Ok(codes), Ok(scales), Ok(zero_points)) => (codes, scales, zero_points),
            (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => return Ok(ViewLocation::Lost(why)),
        };
        let dtype = codes.view.dtype;
        if !matches!(dtype, Dtype::I8 | Dtype::F8_E4M3 | Dtype::F8_E5M2) || codes.view.size != blocked.size {
            return Ok(ViewLocation::Lost("torchao does not use the dtype or shape of its codes".to_owned()));
        }
        let block = blocked.block.clone().or_else(|| block_of(&blocked.size, &scales.view.size));
        let Some(blocks) = block.and_then(|block| Blocks::new(&blocked.size, &block)) else {
            return Ok(ViewLocation::Lost("its size is not a multiple of its block size".to_owned()));
        };
        let count = element_count(&blocks.counts())?;
        for part in [Some(&scales), zero_points.as_ref()].into_iter().flatten() {
            if !ChannelValues::reads(part.view.dtype) {
                return Ok(ViewLocation::Lost(
                    "torchao does not use the dtype of its scales or zero points".to_owned(),
                ));
            }
            check_channels(part.view.elements()?, count)?;
            part.view.check_held(self.limits())?;
        }
        let stored = |part: TensorPart| ChannelValues::Stored(part.view);
        let parameters =
            Parameters::Blocks { scales: stored(scales), zero_points: zero_points.map(stored), blocks };
        let elements = element_count(&blocked.size)?;
        let dequantized = Dequantized { stored: codes.view, dtype, elements, parameters, to };
        self.make_floats(catalog, dequantized, blocked.size.clone(), codes.extent, from)
    }

    fn make_floats(
        &mut self,
        catalog: &mut dyn CatalogSink,
        dequantized: Dequantized,
        shape: Vec<u64>,
        stored: u64,
        from: Vec<StorageId>,
    ) -> Result<ViewLocation> {
        let to = dequantized.to;
        let len = dequantized.elements.checked_mul(if to == Dtype::F32 { 4 } else { 2 });
        let len = len.ok_or_else(|| Error::malformed("the tensor's length does not fit in 64 bits"))?;
        let (recipe, location) = (Recipe::Dequantized(dequantized), Location::without_bytes(to, shape));
        self.dequantized += 1;
        self.add_computed(catalog, recipe, location, len, stored.saturating_mul(16), from)
    }

    /// Returns the scales or zero points of a tensor that has `channels` channels, or the reason
    /// why they cannot be used.
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
                return Ok(Ok(ChannelValues::Listed(list.iter().map(|number| number.to_bits()).collect())));
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
            return Ok(Err("torch does not use the dtype of its scales or zero points".to_owned()));
        }
        check_channels(view.elements()?, channels)?;
        view.check_held(self.limits())?;
        Ok(Ok(ChannelValues::Stored(view)))
    }

    /// Declares a dense tensor with all elements of a sparse tensor.
    pub(crate) fn dense(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        sparse: &Sparse,
    ) -> Result<ViewLocation> {
        let mut parts = Vec::new();
        for id in sparse.indices.iter().map(|&(_, id)| id).chain([sparse.values]) {
            match self.part(catalog, object, id)? {
                Ok(part) => parts.push(part),
                Err(why) => return Ok(ViewLocation::Lost(why)),
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
            _ => return Err(Error::malformed("wrong number of parts in a sparse tensor")),
        };
        let dense = Dense { indices, values, size: sparse.size.clone() };
        if let Err(why) = dense.check_dtypes() {
            return Ok(ViewLocation::Lost(why));
        }
        let len = dense.check(self.limits())?;
        let location = Location::without_bytes(dense.values.dtype, sparse.size.clone());
        let stored = stored.into_iter().fold(0, u64::saturating_add);
        self.add_computed(catalog, Recipe::Dense(dense), location, len, stored, from)
    }

    /// Reads the value of an F32 tensor that has a single element.
    pub(crate) fn number(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        id: ValueId,
        source: &dyn Source,
        context: &dyn Context,
    ) -> Result<Option<f64>> {
        let Ok(TensorPart { view, .. }) = self.part(catalog, object, id)? else { return Ok(None) };
        if view.dtype != Dtype::F32 || view.elements()? != 1 {
            return Ok(None);
        }
        let bytes = view.read(source, context)?;
        Ok(bytes.as_chunks().0.first().map(|&bytes| f32::from_le_bytes(bytes).into()))
    }

    /// Returns a part of a composed tensor in a form that the plugin can read. If the part cannot
    /// be read, returns the reason why the composed tensor is lost.
    fn part(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        id: ValueId,
    ) -> Result<Result<TensorPart, String>> {
        let view = match rebuild::tensor(object.graph(), id)?.map(RebuiltTensor::into_view) {
            Some(Ok(view)) => view,
            Some(Err(why)) => return Ok(Err(format!("a part of it is lost: {why}"))),
            None => return Ok(Err("a part of it is not a tensor".to_owned())),
        };
        if view.conjugate || view.negative {
            return Ok(Err("a part of it is a conjugate or negated view".to_owned()));
        }
        let resolved = self.resolve(catalog, object, &view)?;
        Ok(resolved.map(|resolved| TensorPart {
            view: resolved.stored_view(&view),
            storage: resolved.storage(),
            extent: resolved.extent,
        }))
    }
}

/// Returns the block shape of a tensor, given the size of the tensor and the number of scales along
/// each dimension. A single scale applies to all elements.
fn block_of(size: &[u64], scales: &[u64]) -> Option<Vec<u64>> {
    if scales.iter().all(|&dim| dim == 1) {
        return Some(size.iter().map(|&dim| dim.max(1)).collect());
    }
    let block = |(&dim, &scales): (&u64, &u64)| dim.checked_div(scales).filter(|&block| block > 0);
    (size.len() == scales.len()).then(|| size.iter().zip(scales).map(block).collect())?
}

/// Checks that the number of scales or zero points equals the number of channels.
pub(crate) fn check_channels(count: u64, channels: u64) -> Result<()> {
    if count == channels {
        return Ok(());
    }
    Err(Error::malformed(
        "the number of scales or zero points of a quantized tensor does not equal its number of channels",
    )
    .expected(channels)
    .found(count))
}
