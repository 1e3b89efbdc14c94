//! Opens a file that `torch.save` wrote, in any container.

use crate::container::Container;
use crate::object_file::ObjectFile;
use crate::{Extent, archive, legacy, tar};
use std::sync::Arc;
use tensorferry_sdk::{Context, Error, Result, Source};

/// The record in an archive that contains the pickle, and the folder that contains its storages.
const PICKLE: &str = "data.pkl";
const STORAGES: &str = "data/";

impl ObjectFile {
    /// Opens a file that `torch.save` wrote, in any container.
    pub fn open(source: &dyn Source, extent: Extent, context: &dyn Context) -> Result<Self> {
        let named = |error: Error| error.file(source.name(extent.file));
        match Container::detect(source, extent)? {
            Container::Zip => {
                let archive = Arc::new(archive::open(source, extent, context.limits())?);
                if archive.contains("constants.pkl") {
                    return Err(named(Error::unsupported(
                        "the file is a TorchScript archive, not a saved object",
                    )));
                }
                Self::of_archive(source, &archive, PICKLE, STORAGES, context.limits())
            }
            Container::Legacy => legacy::open(source, extent, context).map_err(named),
            Container::Tar => tar::open(source, extent, context).map_err(named),
            other => Err(named(other.refusal())),
        }
    }
}
