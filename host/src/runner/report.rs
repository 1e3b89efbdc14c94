//! The report of a run: a folder beside its journal.

use super::summary::Summary;
use std::path::Path;
use tensorferry_sdk::{Error, Result};

/// Writes the report of a run into `folder`, in the place of an older one.
///
/// # Errors
/// I/o.
pub fn write_report(summary: &Summary, folder: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Error::from(e).context("cannot write the report").file(folder.display().to_string());
    std::fs::create_dir_all(folder).map_err(failed)?;
    let json = serde_json::to_vec_pretty(summary).map_err(|e| Error::io(e.to_string()))?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    std::io::Write::write_all(&mut file, &json).map_err(failed)?;
    file.persist(folder.join("report.json")).map_err(|e| failed(e.error))?;
    Ok(())
}
