//! A plan is a manifest's jobs, found once and cut into pieces, for as many workers as there are: a folder that does not change.
//!
//! ```text
//! PLAN/plan.json             what it is; made visible with the folder, when all of it is there
//! PLAN/pieces/00000.jsonl    jobs, one a line
//! PLAN/journal/00000/W.jsonl what worker W has done of the piece; see `journal`
//! PLAN/leases/00000          the worker that has claimed the piece; see `lease`
//! ```
//!
//! So a worker reads its own pieces and their journals, however large the plan is. Pieces have about as much to do as each other; a big
//! model is one alone.
//!
//! Workers of a plan lock nothing and append to no file of another worker. The commit keeps them
//! apart: it replaces no file that it did not expect. Workers get pieces by shards, by leases, or
//! from a program that writes pieces to `ferry work` and reads the results.
//!
//! The guide's page on large runs simulates these rules. If a rule about pieces, commits or
//! journals changes, update that page.

mod lease;
mod pieces;

pub(crate) use lease::{Claim, Leases};
pub(crate) use pieces::{PieceWriter, PlannedJob};

use crate::place::{Place, check_no_link};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tensorferry::Session;
use tensorferry::places::is_url;
use tensorferry_sdk::{Error, Result};

/// The version of a plan's files.
const VERSION: u32 = 1;
const HEADER: &str = "plan.json";

/// What a plan is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanHeader {
    /// The version of its files.
    pub plan: u32,
    /// The program's version.
    pub ferry: String,
    /// Absolute.
    pub manifest: PathBuf,
    /// When it was made.
    pub made: String,
    /// How many there are, numbered from 0.
    pub pieces: u64,
    /// How many there are in all.
    pub jobs: u64,
    /// Of their inputs, about.
    pub bytes: u64,
    /// Bytes of buffers that a worker needs for the biggest of its jobs, twice.
    pub memory: u64,
}

/// A plan that is there.
#[derive(Clone)]
pub struct Plan {
    path: PathBuf,
    place: Place,
    header: PlanHeader,
}

impl Plan {
    /// Whether a path leads to a plan and not to a manifest.
    #[must_use]
    pub fn is_at(path: &Path) -> bool {
        path.is_dir() || path.to_str().is_some_and(is_url)
    }

    /// Opens one: a folder, or the URL of one in a store.
    ///
    /// # Errors
    /// Usage, if there is none; malformed; i/o.
    pub fn open(path: &Path, session: &Session) -> Result<Self> {
        let place = Place::at(path, session)?;
        let shown = place.shown(HEADER);
        let text = place.read(HEADER)?.ok_or_else(|| {
            Error::usage("this is no plan: `ferry plan MANIFEST PLAN` makes one")
                .file(&shown)
                .expected(HEADER)
        })?;
        let header: PlanHeader = serde_json::from_slice(&text)
            .map_err(|e| Error::malformed(format!("the plan: {e}")).file(&shown))?;
        if header.plan != VERSION {
            let error = Error::unsupported("the plan is of another version of ferry").file(&shown);
            return Err(error.expected(VERSION.to_string()).found(header.plan.to_string()));
        }
        if let Place::Local(folder) = &place {
            [pieces::FOLDER, "journal", "leases"]
                .iter()
                .try_for_each(|name| check_no_link(&folder.join(name)))?;
        }
        Ok(Self { path: path.to_owned(), place, header })
    }

    /// What it is.
    #[must_use]
    pub fn header(&self) -> &PlanHeader {
        &self.header
    }

    /// Where it is, as it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The jobs of a piece.
    pub(crate) fn piece(&self, number: u64) -> Result<Vec<PlannedJob>> {
        if number >= self.header.pieces {
            let error = Error::usage("the plan has no such piece").file(self.place.shown(""));
            return Err(error
                .expected(format!("less than {}", self.header.pieces))
                .found(number.to_string()));
        }
        pieces::read(&self.place.below(pieces::FOLDER), number)
    }

    /// The folder of a piece's journals.
    pub(crate) fn journal(&self, number: u64) -> Result<Place> {
        let folder = self.place.below("journal").below(&pieces::name(number));
        if let Place::Local(path) = &folder {
            check_no_link(path)?;
        }
        Ok(folder)
    }

    /// Its leases.
    pub(crate) fn leases(&self, worker: &str) -> Result<Leases> {
        match &self.place {
            Place::Local(folder) => Ok(Leases::new(folder.join("leases"), self.header.pieces, worker)),
            Place::Remote(..) => {
                let error = Error::unsupported(
                    "pieces of a plan in a store are not claimed: a shard, or who drives the worker, says which",
                );
                Err(error.file(self.place.shown("")))
            }
        }
    }
}
