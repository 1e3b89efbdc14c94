//! A minimal format, for examples and documentation.
//!
//! The format `tensors-in-memory` has the suffix `.mem`. The first eight bytes of a file contain
//! the length of the header, little-endian. The header contains one line per tensor, such as `F32
//! 2,3 NAME`. The bytes of the tensors follow in the same order.

use crate::{
    Capabilities, CatalogSink, CatalogView, Context, Description, Dtype, Error, Format, LayoutSink,
    NothingEncoded, NothingToSeal, Options, Result, Role, Source, Storage, Target, TensorDecoder, TensorPart,
    TensorPlan, TensorReader, TensorWriter,
};

/// Returns the formats of this module. Register them with
/// `Registry::new().with_all(memory::formats())`.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(MemoryTensors)]
}

/// A format that stores tensors with names, dtypes and shapes.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryTensors;

impl Format for MemoryTensors {
    fn describe(&self) -> Description {
        Description::new("tensors-in-memory", "a minimal tensor format, for examples")
            .suffixes([".mem"])
            .capabilities(Capabilities::READ | Capabilities::WRITE)
            .output_revision(1)
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(*self))
    }

    fn writer(&self, _options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(*self))
    }
}

impl TensorReader for MemoryTensors {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let path = source.entry().name();
        let file = source.open(path)?;
        let len = source.read_vec(file, 0, 8, context.limits())?;
        let len = len.try_into().map(u64::from_le_bytes).map_err(|_| Error::malformed("too short"))?;
        let header = source.read_vec(file, 8, len, context.limits())?;
        let header = String::from_utf8(header)
            .map_err(|_| Error::malformed("the header is not UTF-8").file(path).offset(8))?;
        let mut start = 8 + len;
        for line in header.lines() {
            let wrong = |what: &str| Error::malformed(what.to_owned()).file(path).found(format!("{line:?}"));
            let mut words = line.splitn(3, ' ');
            let (Some(dtype), Some(shape), Some(name)) = (words.next(), words.next(), words.next()) else {
                return Err(wrong("a line does not consist of a dtype, a shape and a name"));
            };
            let dtype = Dtype::named(dtype).ok_or_else(|| wrong("no such dtype"))?;
            let dims = shape.split(',').filter(|dim| !dim.is_empty());
            let dims: Result<Vec<u64>, _> = dims.map(str::parse).collect();
            let shape = dims.map_err(|_| wrong("not a shape"))?;
            let info = dtype.info().ok_or_else(|| wrong("no such dtype"))?;
            let bytes = info.bytes_of(crate::element_count(&shape)?)?;
            let storage = catalog.storage(Storage::file(file, start, bytes))?;
            catalog.tensor(name, dtype, &shape, storage, 0)?;
            start += bytes;
        }
        Ok(Box::new(NothingEncoded))
    }
}

impl TensorWriter for MemoryTensors {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let mut header = String::new();
        let mut kept = Vec::new();
        for id in catalog.tensor_ids() {
            let tensor = catalog.tensor(id);
            let dtype = tensor.dtype.info().filter(|info| info.bytes_of(0).is_ok());
            let Some(dtype) = dtype.filter(|_| !tensor.name.contains(['\n', '\r'])) else {
                layout.omit(
                    id,
                    "the format cannot store strings, other dtypes or names that contain newlines",
                )?;
                continue;
            };
            let dims: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
            header += &format!("{} {} {}\n", dtype.name(), dims.join(","), tensor.name);
            kept.push(id);
        }
        let Target::File(path) = target else {
            return Err(Error::usage("the output must be a file"));
        };
        let file = layout.file(path, Role::Data)?;
        layout.bytes(file, &(header.len() as u64).to_le_bytes())?;
        layout.bytes(file, header.as_bytes())?;
        for id in kept {
            layout.tensor(file, TensorPart::whole(id))?;
        }
        Ok(Box::new(NothingToSeal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Sample, check};

    #[test]
    fn it_is_a_format_like_any_other() {
        let header = "F32 2,2 w\nI64  step\n";
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[7; 24]].concat();
        let report = check(&MemoryTensors, &[Sample::file("a.mem", bytes).holding(&["w", "step"])]);
        assert!(report.written > 0, "{report:?}");
    }
}
