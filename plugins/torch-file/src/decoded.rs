//! Decoded tensors are those that a user asked for instead of what is stored: the floats that a
//! quantized tensor stands for, all elements of a sparse one.

use crate::lazy::{Compressed, Dense, Dequantized, Indices, Numbers, Parameters, StoredView};
use crate::pickle::ValueId;
use crate::rebuild::{self, Layout, Quantized, Rebuilt, Scheme, Sparse, View};
use crate::storages::{Found, Located, Location};
use crate::{ObjectFile, Storages};
use tensorferry_sdk::{
    CatalogSink, Dtype, Error, OptionKind, OptionSpec, Options, Result, StorageId, element_count,
};

/// What is made of tensors that are more than elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decoding {
    /// Quantized tensors become the floats that they stand for.
    pub dequantize: bool,
    /// Sparse tensors become dense ones.
    pub densify: bool,
}

impl Decoding {
    /// The options of a reader that say it.
    #[must_use]
    pub fn options() -> [OptionSpec; 2] {
        let words = OptionKind::Choice(vec!["no".to_owned(), "f32".to_owned()]);
        let floats = "f32: give the values of quantized tensors, not their integers, scales and zero points";
        let all = "give all elements of sparse tensors, not their indices and values";
        [
            OptionSpec::reader("dequantize", words, Some("no"), floats),
            OptionSpec::reader("densify", OptionKind::Bool, Some("false"), all),
        ]
    }

    /// What the options say.
    #[must_use]
    pub fn of(options: &Options) -> Self {
        Self { dequantize: options.text("dequantize") == Some("f32"), densify: options.is_true("densify") }
    }
}

/// A tensor that is a part of another one.
struct Piece {
    view: StoredView,
    storage: StorageId,
    extent: u64,
}

impl Piece {
    fn of(found: &Found, view: &View) -> Self {
        Self { view: found.stored_view(view), storage: found.storage(), extent: found.extent }
    }
}

impl Storages<'_> {
    /// Declares the F32 that a quantized tensor stands for.
    ///
    /// # Errors
    /// Malformed: what torch's `dequantize()` refuses; as [`locate`](Storages::locate).
    pub(crate) fn dequantized(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        quantized: &Quantized,
    ) -> Result<Located> {
        let Quantized { view, scheme } = quantized;
        let found = match self.find(catalog, object, view)? {
            Ok(found) => found,
            Err(why) => return Ok(Located::Lost(why)),
        };
        if !found.row.quantized {
            return Ok(Located::Lost(format!(
                "a quantized tensor of {}, which is not quantized",
                found.row.name
            )));
        }
        if !found.has_whole_bytes(view) {
            return Ok(Located::Lost(format!("a strided view of packed {}", found.row.name)));
        }
        let mut from = vec![found.storage()];
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
                    Numbers::Stored(view) => matches!(view.dtype, Dtype::F32 | Dtype::F64),
                    Numbers::Given(_) => *is_float,
                };
                let run = element_count(&view.size[axis + 1..])?;
                Parameters::PerChannel { scales, zero_points, are_floats, channels, run }
            }
        };
        let (shape, stored) = (found.shape.clone(), found.stored_view(view));
        let elements = element_count(&shape)?;
        let dequantized = Dequantized { stored, dtype: found.row.dtype, elements, parameters };
        dequantized.check()?;
        let location = Location { dtype: Dtype::F32, shape, start: None, strides: None };
        if elements == 0 {
            return Ok(Located::At(location));
        }
        let len = elements.checked_mul(4).ok_or_else(too_long)?;
        let id = self.make(catalog, dequantized.into(), len, found.extent.saturating_mul(16), from)?;
        Ok(Located::At(Location { start: Some((id, 0)), ..location }))
    }

    /// The scales or zero points of as many channels; or why they are lost.
    fn numbers(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        numbers: &rebuild::Numbers,
        channels: u64,
        from: &mut Vec<StorageId>,
    ) -> Result<Result<Numbers, String>> {
        let view = match numbers {
            rebuild::Numbers::List(list) => {
                check_channels(list.len() as u64, channels)?;
                return Ok(Ok(Numbers::Given(list.iter().map(|number| number.to_bits()).collect())));
            }
            rebuild::Numbers::Tensor(id) => match self.piece(catalog, object, *id)? {
                Ok(Piece { view, storage, .. }) => {
                    from.push(storage);
                    view
                }
                Err(why) => return Ok(Err(why)),
            },
        };
        if !Numbers::reads(view.dtype) {
            return Ok(Err("its scales or zero points are of another dtype than torch's".to_owned()));
        }
        check_channels(view.elements()?, channels)?;
        view.check_held(self.limits())?;
        Ok(Ok(Numbers::Stored(view)))
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
        let mut pieces = Vec::new();
        for id in sparse.indices.iter().map(|&(_, id)| id).chain([sparse.values]) {
            match self.piece(catalog, object, id)? {
                Ok(piece) => pieces.push(piece),
                Err(why) => return Ok(Located::Lost(why)),
            }
        }
        let (from, stored): (Vec<_>, Vec<_>) =
            pieces.iter().map(|piece| (piece.storage, piece.extent)).unzip();
        let mut views = pieces.into_iter().map(|piece| piece.view);
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
        let location =
            Location { dtype: dense.values.dtype, shape: sparse.size.clone(), start: None, strides: None };
        if len == 0 {
            return Ok(Located::At(location));
        }
        let stored = stored.into_iter().fold(0, u64::saturating_add);
        let id = self.make(catalog, dense.into(), len, stored, from)?;
        Ok(Located::At(Location { start: Some((id, 0)), ..location }))
    }

    /// A tensor that is a part of another one, to be read by the plugin; or why it is lost.
    fn piece(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        id: ValueId,
    ) -> Result<Result<Piece, String>> {
        let view = match rebuild::tensor(object.graph(), id)?.map(Rebuilt::into_view) {
            Some(Ok(view)) => view,
            Some(Err(why)) => return Ok(Err(format!("a part of it is lost: {why}"))),
            None => return Ok(Err("a part of it is not a tensor".to_owned())),
        };
        if view.conjugate || view.negative {
            return Ok(Err("a part of it is a conjugate or a negative".to_owned()));
        }
        let found = self.find(catalog, object, &view)?;
        Ok(found.map(|found| Piece::of(&found, &view)))
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

fn too_long() -> Error {
    Error::malformed("the tensor's length does not fit 64 bits")
}
