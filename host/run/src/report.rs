//! The report of a run: `report.json`, an HTML page, and a program that checks the outputs.

mod html;
mod summary;

pub use html::render;
pub use summary::{BudgetSummary, JobFailure, JobState, JobSummary, Summary, Totals, VERSION};

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Error, Result};

/// Writes the report into a folder. Each file is written atomically. Returns the path of the HTML
/// page. If no job had to run, the report of the previous run is kept, because the old report
/// describes how the outputs were made.
///
/// `check` is the source of the Python program `check.py`, which checks the outputs without using
/// ferry's code. The caller passes the program, because its code contains the names of formats.
pub fn write(folder: &Path, summary: &Summary, check: &str) -> Result<PathBuf> {
    let at = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Error::from(error).context("cannot write the report").file(path)
    };
    std::fs::create_dir_all(folder).map_err(at(folder))?;
    let mut json = serde_json::to_vec_pretty(summary).map_err(|e| at(folder)(e.into()))?;
    json.push(b'\n');
    let page = folder.join("report.html");
    let totals = &summary.totals;
    if totals.unchanged > 0 && totals.done + totals.failed + totals.cancelled == 0 && page.is_file() {
        return Ok(page);
    }
    let html = render(summary);
    let files = [
        (folder.join("report.json"), &*json, 0o666),
        (folder.join("check.py"), check.as_bytes(), 0o777),
        (page.clone(), html.as_bytes(), 0o666),
    ];
    for (path, content, mode) in files {
        place(folder, &path, content, mode).map_err(at(&path))?;
    }
    Ok(page)
}

/// Replaces a file atomically. The umask applies to `mode`.
fn place(folder: &Path, path: &Path, content: &[u8], mode: u32) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".ferry-report-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    file.write_all(content)?;
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}
