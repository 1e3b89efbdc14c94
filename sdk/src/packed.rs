//! Packs tensors whose dtype the target does not support. A packed tensor has the dtype U8 and the
//! shape `[..., bytes of a row]`, and a metadata entry `ferry.packed.NAME` describes the original.
//! Packed tensors keep every bit, so reading the file restores the original tensors.
//!
//! ```text
//! ferry.packed.blk.0.attn_q.weight = "32/18/1 4096x4096 Q4_0"
//!                                     elements per block / bytes per block / swap unit, shape, dtype
//! ```
//!
//! A writer without the capability `DTYPES` receives packed tensors. When the file is converted
//! again, the tensors are restored before any steps run. A plugin does not need to support dtypes
//! that another plugin declares.

use crate::{
    ByteOrder, Catalog, Data, Dtype, DtypeInfo, Loss, LossKind, Severity, Storage, StorageLocation, Tensor,
    Value, element_count,
};
use std::collections::{BTreeMap, HashMap};

/// Prefix of the metadata key. The name of the tensor follows the prefix.
const PREFIX: &str = "ferry.packed.";

/// The original dtype and shape of a packed tensor.
struct PackedTensor {
    info: DtypeInfo,
    shape: Vec<u64>,
}

impl Catalog {
    /// Restores packed tensors according to the catalog's metadata. Returns the catalog, and
    /// whether it contained packed tensors. A metadata entry that does not match its tensor remains
    /// in the metadata.
    #[must_use]
    pub fn unpacked(mut self) -> (Self, bool) {
        let entries = self.metadata.range(PREFIX.to_owned()..).take_while(|(key, _)| key.starts_with(PREFIX));
        let packed: Vec<(String, PackedTensor)> = entries
            .filter_map(|(key, value)| {
                Some((key[PREFIX.len()..].to_owned(), PackedTensor::parse(value.as_text()?)?))
            })
            .collect();
        if packed.is_empty() {
            return (self, false);
        }
        let places: HashMap<String, usize> =
            self.tensors.iter().enumerate().map(|(place, tensor)| (tensor.name.clone(), place)).collect();
        let mut any = false;
        for (name, packed) in packed {
            let Some(&place) = places.get(&name) else { continue };
            let tensor = &self.tensors[place];
            let is_packed =
                tensor.dtype == Dtype::U8 && matches!(tensor.data, Data::Whole { .. } | Data::Empty);
            let bytes = element_count(&packed.shape).and_then(|elements| packed.info.bytes_of(elements));
            if !is_packed
                || packed.packed_shape().as_ref() != Some(&tensor.shape)
                || bytes != Ok(tensor.bytes)
            {
                continue;
            }
            let Some(dtype) = self.intern(&packed.info) else { continue };
            (self.tensors[place].dtype, self.tensors[place].shape) = (dtype, packed.shape);
            self.metadata.remove(&format!("{PREFIX}{name}"));
            any = true;
        }
        (self, any)
    }

    /// Returns the catalog's dtype with these properties. If the catalog does not contain the
    /// dtype, adds it. Returns `None` if the catalog contains a different dtype with that name.
    fn intern(&mut self, info: &DtypeInfo) -> Option<Dtype> {
        let known = &mut self.extensions;
        let index = known.iter().position(|known| known.name() == info.name()).unwrap_or(known.len());
        if index == known.len() {
            known.push(info.clone());
        }
        (known[index] == *info).then(|| Dtype::extension(index))?
    }

    /// Packs each tensor whose dtype is not built in, and returns one loss for all of them. A
    /// tensor is not packed if its bytes are not contiguous, or if they are converted when they are
    /// read.
    pub(crate) fn pack_tensors(&mut self) -> Option<Loss> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for tensor in &mut self.tensors {
            let info = tensor.dtype.extension_index().and_then(|index| self.extensions.get(index));
            let Some(info) = info.filter(|info| is_stored_plain(tensor, &self.storages, info)) else {
                continue;
            };
            let packed = PackedTensor { info: info.clone(), shape: tensor.shape.clone() };
            let key = format!("{PREFIX}{}", tensor.name);
            let Some(stored) = packed.packed_shape().filter(|_| !self.metadata.contains_key(&key)) else {
                continue;
            };
            *counts.entry(info.name().to_owned()).or_default() += 1;
            self.metadata.insert(key, Value::text(&packed.text()));
            (tensor.dtype, tensor.shape) = (Dtype::U8, stored);
        }
        let total: u64 = counts.values().sum();
        let names: Vec<String> = counts.into_keys().collect();
        (total > 0).then(|| {
            let why = "the target format has no such dtype, so they are written as U8 and restored when the file \
                       is read; use --step dequantize to write numbers instead";
            let what = format!("{total} tensors of {}", names.join(", "));
            Loss::new(LossKind::Tensor, what, why).severity(Severity::Changed)
        })
    }
}

/// Returns whether the stored bytes of a tensor are the same as its logical bytes.
fn is_stored_plain(tensor: &Tensor, storages: &[Storage], info: &DtypeInfo) -> bool {
    match &tensor.data {
        Data::Empty => true,
        Data::Whole { storage, .. } => storages.get(storage.0 as usize).is_some_and(|storage| {
            let swaps = storage.byte_order != ByteOrder::Little && info.swap_unit() > 1;
            !swaps && !matches!(storage.location, StorageLocation::Cast(_))
        }),
        Data::Blocks(_) | Data::Grid(_) => false,
    }
}

impl PackedTensor {
    /// Returns the shape of the packed bytes. If a row does not consist of whole blocks, the result
    /// has a single row.
    fn packed_shape(&self) -> Option<Vec<u64>> {
        let (elements, bytes) = (u64::from(self.info.block_elements()), u64::from(self.info.block_bytes()));
        match self.shape.split_last() {
            Some((row, rest)) if row.is_multiple_of(elements) => {
                let row = (row / elements).checked_mul(bytes)?;
                Some(rest.iter().copied().chain([row]).collect())
            }
            _ => Some(vec![self.info.bytes_of(element_count(&self.shape).ok()?).ok()?]),
        }
    }

    fn text(&self) -> String {
        let shape: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        let info = &self.info;
        let (elements, bytes, swap) = (info.block_elements(), info.block_bytes(), info.swap_unit());
        format!("{elements}/{bytes}/{swap} {} {}", shape.join("x"), info.name())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (block, shape, name) = (words.next()?, words.next()?, words.next()?);
        let numbers: Vec<u32> = block.split('/').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let &[elements, bytes, swap] = &*numbers else { return None };
        let dims = shape.split('x').filter(|dim| !dim.is_empty());
        let shape = dims.map(|dim| dim.parse().ok()).collect::<Option<Vec<u64>>>()?;
        Some(Self { info: DtypeInfo::extension(name, elements, bytes, swap).ok()?, shape })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{Capabilities, CatalogBuilder, CatalogSink, FileId, Limits, MemorySource};

    fn catalog(fill: impl FnOnce(&mut CatalogBuilder<'_>) -> crate::Result<()>) -> Catalog {
        let (source, limits) = (MemorySource::file("x", vec![0_u8; 400]), Limits::default());
        let mut builder = CatalogBuilder::new("test", &source, &limits);
        fill(&mut builder).unwrap();
        builder.finish().unwrap()
    }

    fn blocks() -> Catalog {
        catalog(|builder| {
            let q4 = builder.dtype(&DtypeInfo::extension("Q4_0", 32, 18, 1)?)?;
            let odd = builder.dtype(&DtypeInfo::extension("a b", 1, 3, 3)?)?;
            let storage = builder.storage(Storage::file(FileId(0), 0, 400))?;
            builder.tensor("w", q4, &[3, 64], storage, 0)?;
            builder.tensor("flat", q4, &[4, 16], storage, 200)?;
            builder.tensor("scalar", odd, &[], storage, 300)?;
            builder.tensor("empty", q4, &[0, 32], storage, 0)?;
            builder.tensor("plain", Dtype::U8, &[2], storage, 0).map(drop)
        })
    }

    #[test]
    fn what_is_packed_comes_back() {
        let (packed, losses) = blocks().reduced_to(Capabilities::METADATA);
        let facts: Vec<(Dtype, &[u64])> = packed.tensors().iter().map(|t| (t.dtype, &*t.shape)).collect();
        let u8s: [&[u64]; 5] = [&[3, 36], &[36], &[3], &[0, 18], &[2]];
        assert_eq!(facts, u8s.map(|shape| (Dtype::U8, shape)));
        assert_eq!(packed.metadata()["ferry.packed.w"], "32/18/1 3x64 Q4_0");
        assert_eq!(losses.len(), 1, "{losses:?}");
        assert_eq!(losses[0].what, "4 tensors of Q4_0, a b");
        assert_eq!(losses[0].severity, Severity::Changed);
        let (back, any) = packed.unpacked();
        assert!(any && back.tensors() == blocks().tensors() && back.metadata().is_empty());
    }

    #[test]
    fn who_has_a_name_for_them_keeps_them() {
        for capabilities in [Capabilities::METADATA | Capabilities::DTYPES, Capabilities::default()] {
            let (held, losses) = blocks().reduced_to(capabilities);
            assert_eq!((held.tensors(), losses.len()), (blocks().tensors(), 0));
        }
    }

    #[test]
    fn an_entry_that_does_not_fit_is_metadata() {
        for entry in [
            "",
            "32/18/1 3x64",
            "32/18/1 3x64 F32",
            "32/18/1 3x65 Q4_0",
            "32/17/1 3x64 Q",
            "0/0/0  x",
            "32/18 3x64 Q",
        ] {
            let made = catalog(|builder| {
                let storage = builder.storage(Storage::file(FileId(0), 0, 108))?;
                builder.tensor("w", Dtype::U8, &[3, 36], storage, 0)?;
                builder.metadata_text("ferry.packed.w", entry)?;
                builder.metadata_text("ferry.packed.other", "32/18/1 3x64 Q4_0")
            });
            let (same, any) = made.clone().unpacked();
            assert!(!any && same.tensors() == made.tensors() && same.metadata().len() == 2, "{entry}");
        }
    }
}
