//! Handles content that a format cannot store. The host removes such content or converts it to text
//! before the writer receives the catalog, and reports a loss.

use crate::{CODES_OF, Capabilities, Catalog, Loss, LossKind, Severity, Value};

/// Maximum number of losses of the same kind to list individually. Further losses are only counted.
const MAX_LISTED: usize = 200;

impl Catalog {
    /// Returns this catalog reduced to the content that a format with these capabilities can store,
    /// and the losses:
    ///
    /// - Without [`ATTRIBUTES`](Capabilities::ATTRIBUTES), attributes of tensors are removed.
    /// - With [`METADATA`](Capabilities::METADATA) but without [`VALUES`](Capabilities::VALUES),
    ///   metadata that is not text becomes compact JSON.
    /// - With `METADATA` but without [`DTYPES`](Capabilities::DTYPES), tensors whose dtypes are not
    ///   built in become U8. [`unpacked`](Self::unpacked) restores them.
    ///
    /// Metadata is kept even if the format cannot store any metadata.
    #[must_use]
    pub fn reduced_to(mut self, capabilities: Capabilities) -> (Self, Vec<Loss>) {
        let mut losses = Vec::new();
        if !capabilities.has(Capabilities::ATTRIBUTES) {
            let (why, mut count) = ("the target format cannot hold attributes of tensors", 0_usize);
            for tensor in &mut self.tensors {
                let attributes = std::mem::take(&mut tensor.attributes);
                // If the writer requires numbers, tensors that contain codes have already been
                // refused.
                for key in attributes.into_keys().filter(|key| key != CODES_OF) {
                    count += 1;
                    if count <= MAX_LISTED {
                        losses.push(Loss::new(LossKind::Attribute, format!("{}: {key}", tensor.name), why));
                    }
                }
            }
            if count > MAX_LISTED {
                let rest = format!("{} more attributes", count - MAX_LISTED);
                losses.push(Loss::new(LossKind::Attribute, rest, why));
            }
        }
        if capabilities.has(Capabilities::METADATA) && !capabilities.has(Capabilities::VALUES) {
            let why =
                "the target format holds metadata only as text, so it is written as JSON without its type";
            for (key, value) in self.metadata.iter_mut().filter(|(_, value)| value.as_text().is_none()) {
                *value = Value::text(&value.json());
                losses.push(Loss::new(LossKind::Metadata, key, why).severity(Severity::Changed));
            }
        }
        if capabilities.has(Capabilities::METADATA) && !capabilities.has(Capabilities::DTYPES) {
            losses.extend(self.pack_tensors());
        }
        (self, losses)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{CatalogBuilder, CatalogSink, Dtype, Limits, MemorySource, Storage};

    #[test]
    fn what_a_format_has_no_place_for_is_said() {
        let (source, limits) = (MemorySource::file("x", []), Limits::default());
        let mut builder = CatalogBuilder::new("test", &source, &limits);
        let storage = builder.storage(Storage::inline([0])).unwrap();
        for number in 0..MAX_LISTED + 5 {
            let tensor = builder.tensor(&format!("t{number}"), Dtype::U8, &[1], storage, 0).unwrap();
            builder.attribute(tensor, "unit", Value::text("mm")).unwrap();
            assert!(builder.attribute(tensor, "unit", Value::text("s")).is_err());
        }
        builder.metadata_text("text", "a").unwrap();
        builder.metadata("number", Value::int(7)).unwrap();
        assert!(builder.metadata_text("number", "8").is_err());
        let catalog = builder.finish().unwrap();
        let all = Capabilities::METADATA | Capabilities::VALUES | Capabilities::ATTRIBUTES;
        let (same, losses) = catalog.clone().reduced_to(all);
        assert_eq!((same.tensors(), same.metadata()), (catalog.tensors(), catalog.metadata()));
        assert_eq!(losses, []);
        let (less, losses) = catalog.reduced_to(Capabilities::METADATA);
        assert!(less.tensors().iter().all(|tensor| tensor.attributes.is_empty()));
        assert_eq!((less.metadata()["number"] == "7", less.metadata()["text"] == "a"), (true, true));
        assert_eq!(losses.len(), MAX_LISTED + 2);
        assert_eq!((losses[0].kind, losses[0].what.as_str()), (LossKind::Attribute, "t0: unit"));
        assert_eq!(losses[MAX_LISTED].what, "5 more attributes");
        let last = &losses[MAX_LISTED + 1];
        assert_eq!(
            (last.kind, last.severity, &*last.what),
            (LossKind::Metadata, Severity::Changed, "number")
        );
    }
}
