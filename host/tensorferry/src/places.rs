//! Names of inputs and outputs: paths and URLs.

pub use tensorferry_core::read::folder::{InputFolder, absolute, is_url, place_of, shown};
pub use tensorferry_publish::commit::{check_free, recover, recover_by_hand};
pub use tensorferry_publish::stage::{Destination, DestinationKind, FileKind, Stage, StagedFile};
