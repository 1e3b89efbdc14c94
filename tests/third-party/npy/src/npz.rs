//! `.npz`: a zip archive of arrays. Member `name.npy` is tensor `name`.

mod deflate;
mod read;
mod write_deflated;
mod write_stored;

use crate::header::Header;
use crate::zip::read::Archive;
use tensorferry_sdk::{
    ByteOrder, Capabilities, CatalogView, Context, Description, Entry, Format, LayoutSink, Options, Order,
    Result, Score, Side, Source, Target, TensorId, TensorReader, TensorWriter, TypedOption,
};

const DEFLATES: TypedOption<bool> = TypedOption::choice(
    Side::Writer,
    "compress",
    &[("stored", false), ("deflate", true)],
    "stored as numpy.savez does, or deflate as numpy.savez_compressed does",
);

/// The format `npz`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Npz;

impl Format for Npz {
    fn describe(&self) -> Description {
        Description::new("npz", "numpy archive")
            .suffixes([".npz"])
            .magic(0, b"PK\x03\x04")
            .capabilities(Capabilities::READ | Capabilities::WRITE)
            .options([DEFLATES.spec()])
            .output_revision(2)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        let Entry::File(path) = source.entry() else { return Ok(Some(Score::NO)) };
        let archive = Archive { source, file: source.open(path)?, limits: context.limits() };
        // Many formats are zip archives; the first member tells this one from the others.
        Ok(match archive.first_name()? {
            Some(name) if name.ends_with(SUFFIX.as_bytes()) => Some(Score::CERTAIN),
            Some(_) if path.ends_with(".npz") => Some(Score::MAYBE),
            Some(_) => Some(Score::NO),
            None => None,
        })
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        if DEFLATES.get(options)? {
            Ok(Box::new(write_deflated::Writer))
        } else {
            Ok(Box::new(write_stored::Writer))
        }
    }
}

/// What a member's name has after the tensor's.
const SUFFIX: &str = ".npy";

/// A tensor that numpy can hold, its member's name and its header.
struct Array {
    tensor: TensorId,
    name: String,
    header: Vec<u8>,
}

/// The tensors that numpy can hold; the others are omitted. That it has no metadata and no ties, the
/// host knows from the capabilities.
fn arrays(catalog: &dyn CatalogView, layout: &mut dyn LayoutSink) -> Result<Vec<Array>> {
    let mut arrays = Vec::new();
    for tensor in catalog.tensor_ids() {
        let view = catalog.tensor(tensor);
        let header = Header {
            dtype: view.dtype,
            byte_order: ByteOrder::Little,
            order: Order::C,
            shape: view.shape.to_vec(),
        };
        let Some(header) = header.to_bytes() else {
            layout.omit(tensor, &format!("numpy has no {}", catalog.dtype_info(view.dtype)?.name()))?;
            continue;
        };
        let name = format!("{}{SUFFIX}", view.name);
        if name.contains('\0') || name.len() > crate::zip::Member::MOST_NAME_BYTES {
            layout.omit(tensor, "its name is not one that a zip archive can hold: rename it")?;
            continue;
        }
        arrays.push(Array { tensor, name, header });
    }
    Ok(arrays)
}

fn path(target: &Target) -> &str {
    match target {
        Target::File(path) => path,
        Target::Folder => "arrays.npz",
    }
}
