//! Reads a file of arrays, or the arrays in an archive. The host copies stored elements directly
//! from the file. Deflated members are decoded.

use crate::array::Arrays;
use crate::encoded::ArrayBytes;
use crate::options::ReadOptions;
use crate::{ARCHIVE_SUFFIX, ARRAY_SUFFIX};
use tensorferry_hub::{only_file, refuse_part};
use tensorferry_sdk::file_name::{has_any_suffix, strip_suffix};
use tensorferry_sdk::{
    CatalogSink, Context, ErrorKind, Loss, LossKind, Result, Source, TensorDecoder, TensorReader, UniqueNames,
};
use tensorferry_zip::{Archive, EMPTY_MAGIC, Extent, MAGIC, Names};

pub(crate) struct Reader {
    pub(crate) options: ReadOptions,
}

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let name = &only_file(source, &[ARRAY_SUFFIX, ARCHIVE_SUFFIX])?;
        if has_any_suffix(name, [ARCHIVE_SUFFIX]) && !self.options.shard_is_alone {
            refuse_part(source, name, context)?;
        }
        let mut arrays = Arrays {
            source,
            catalog,
            context,
            options: self.options,
            encoded: Vec::new(),
            expanded: 0,
            names: UniqueNames::default(),
        };
        let extent = Extent::whole(source, source.open(name)?);
        let read = if is_archive(source, extent)? {
            read_archive(&mut arrays, extent)
        } else {
            arrays.add_all(stem(name), extent)
        };
        read.map_err(|error| error.file(name))?;
        Ok(Box::new(arrays.encoded))
    }
}

/// Returns whether the name of a file has one of this format's suffixes.
pub(crate) fn has_suffix_of_format(name: &str) -> bool {
    !name.starts_with('.') && has_any_suffix(name, [ARRAY_SUFFIX, ARCHIVE_SUFFIX])
}

/// Returns whether a file starts with the signature of a zip archive.
pub(crate) fn is_archive(source: &dyn Source, file: Extent) -> Result<bool> {
    let mut start = [0; 4];
    let start = file.read_start(source, &mut start)?;
    Ok(start == MAGIC || start == EMPTY_MAGIC)
}

/// Returns the file name without folder and suffix, which becomes the name of the array in the
/// file.
pub(crate) fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    strip_suffix(name, ARRAY_SUFFIX).unwrap_or(name)
}

fn read_archive(arrays: &mut Arrays<'_>, extent: Extent) -> Result<()> {
    let archive = Archive::open(arrays.source, extent, Names::Any, arrays.context.limits())?;
    for (index, entry) in archive.entries().iter().enumerate() {
        arrays.context.check_cancelled()?;
        let is_folder = entry.name.ends_with('/') && entry.len == 0;
        let Some(name) = entry.name.strip_suffix(ARRAY_SUFFIX) else {
            if !is_folder {
                let why = "the member is not an array (numpy.load returns its bytes)";
                arrays.catalog.loss(Loss::new(LossKind::Sidecar, &*entry.name, why))?;
            }
            continue;
        };
        let member = archive.member(index)?;
        let offset = member.stored.offset;
        match arrays.add(name, &ArrayBytes::Member(member)) {
            // Skip an unsupported array, such as an array of Python objects, and read the other
            // arrays.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                arrays.catalog.loss(Loss::new(LossKind::Tensor, name, error.message()))?;
            }
            added => {
                let after = added.map_err(|error| {
                    error.offset(offset).context(format!("zip entry {:?}", entry.name)).tensor(name)
                })?;
                if after > 0 {
                    let why = format!("{after} bytes follow it in its member; ferry does not read them");
                    arrays.catalog.loss(Loss::new(LossKind::Tensor, name, why))?;
                }
            }
        }
    }
    Ok(())
}
