//! A plan is a list of a manifest's jobs, split into pieces for any number of workers. A plan is
//! stored as a folder, and its jobs do not change.
//!
//! ```text
//! PLAN/plan.json             the header, which becomes visible with the folder when the plan is complete
//! PLAN/pieces/00000.jsonl    jobs, one per line
//! PLAN/journal/00000/W.jsonl the record of worker W for the piece; see `journal`
//! PLAN/leases/00000          the worker that has claimed the piece; see `lease`
//! ```
//!
//! A worker reads only its own pieces and their journals, no matter how large the plan is. All
//! pieces contain about the same amount of work, but each big model is a separate piece.

mod lease;
mod pieces;

pub(crate) use lease::{Claim, Leases};
pub(crate) use pieces::{PieceWriter, PlannedJob};

use crate::plan_folder::{PlanFolder, check_no_link};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tensorferry::Session;
use tensorferry::places::is_url;
use tensorferry_sdk::{Error, Result};

/// Version of the plan file formats.
const VERSION: u32 = 1;
const HEADER: &str = "plan.json";

/// The content of `plan.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanHeader {
    /// Version of the plan file formats.
    pub plan: u32,
    /// The version of ferry that made the plan.
    pub ferry: String,
    /// The absolute path of the manifest.
    pub manifest: PathBuf,
    /// The time when the plan was made.
    pub made: String,
    /// The number of pieces, which are numbered starting at 0.
    pub pieces: u64,
    /// The total number of jobs.
    pub jobs: u64,
    /// Approximate total input size.
    pub bytes: u64,
    /// Size in bytes of the buffers that a worker needs for two of the biggest jobs.
    pub memory: u64,
}

/// An opened plan.
#[derive(Clone)]
pub struct Plan {
    path: PathBuf,
    place: PlanFolder,
    header: PlanHeader,
}

impl Plan {
    /// Returns whether a path refers to a plan and not to a manifest.
    #[must_use]
    pub fn is_at(path: &Path) -> bool {
        path.is_dir() || path.to_str().is_some_and(is_url)
    }

    /// Opens a plan. `path` is the path of a folder, or the URL of a folder in a store.
    pub fn open(path: &Path, session: &Session) -> Result<Self> {
        let place = PlanFolder::open(path, session)?;
        let shown = place.shown(HEADER);
        let text = place.read(HEADER)?.ok_or_else(|| {
            Error::usage("this is not a plan")
                .file(&shown)
                .hint("make a plan with `ferry plan MANIFEST PLAN`")
        })?;
        let header: PlanHeader = serde_json::from_slice(&text)
            .map_err(|e| Error::malformed(format!("the plan: {e}")).file(&shown))?;
        if header.plan != VERSION {
            let error = Error::unsupported("the plan was made by a different version of ferry").file(&shown);
            return Err(error.expected(VERSION.to_string()).found(header.plan.to_string()));
        }
        if let PlanFolder::Local(folder) = &place {
            [pieces::FOLDER, "journal", "leases"]
                .iter()
                .try_for_each(|name| check_no_link(&folder.join(name)))?;
        }
        Ok(Self { path: path.to_owned(), place, header })
    }

    #[must_use]
    pub fn header(&self) -> &PlanHeader {
        &self.header
    }

    /// Returns the path from which the plan was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn piece(&self, number: u64) -> Result<Vec<PlannedJob>> {
        if number >= self.header.pieces {
            let error = Error::usage("the plan has no such piece").file(self.place.shown(""));
            return Err(error
                .expected(format!("less than {}", self.header.pieces))
                .found(number.to_string()));
        }
        pieces::read(&self.place.subfolder(pieces::FOLDER), number)
    }

    /// Returns the folder that contains the journals of a piece.
    pub(crate) fn journal(&self, number: u64) -> Result<PlanFolder> {
        let folder = self.place.subfolder("journal").subfolder(&pieces::name(number));
        if let PlanFolder::Local(path) = &folder {
            check_no_link(path)?;
        }
        Ok(folder)
    }

    pub(crate) fn leases(&self, worker: &str) -> Result<Leases> {
        match &self.place {
            PlanFolder::Local(folder) => Ok(Leases::new(folder.join("leases"), self.header.pieces, worker)),
            PlanFolder::Remote(..) => {
                let error = Error::unsupported("workers cannot claim pieces of a plan in a store")
                    .hint("pass --shard I/N, or send the pieces to `ferry work` on its standard input");
                Err(error.file(self.place.shown("")))
            }
        }
    }
}
