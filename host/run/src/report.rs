//! A report is what stays of a run for people and for those who do not trust it: `report.json`, the
//! page that is drawn from it, and a program that checks the outputs without ferry.

use super::report_html::render;
use super::summary::Summary;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Error, Result};

/// Checks outputs with the frameworks' own readers: Python, and none of ferry's code.
const CHECK: &str = include_str!("check.py");

/// Writes the report into a folder, each file whole or not at all; gives the page's path.
///
/// # Errors
/// I/o, naming the file.
pub fn write(folder: &Path, summary: &Summary) -> Result<PathBuf> {
    let at = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Error::from(error).context("cannot write the report").file(path)
    };
    std::fs::create_dir_all(folder).map_err(at(folder))?;
    let mut json = serde_json::to_vec_pretty(summary).map_err(|e| at(folder)(e.into()))?;
    json.push(b'\n');
    let (page, html) = (folder.join("report.html"), render(summary));
    let files = [
        (folder.join("report.json"), &*json, 0o666),
        (folder.join("check.py"), CHECK.as_bytes(), 0o777),
        (page.clone(), html.as_bytes(), 0o666),
    ];
    for (path, content, mode) in files {
        place(folder, &path, content, mode).map_err(at(&path))?;
    }
    Ok(page)
}

/// The mode is what the umask leaves of `mode`.
fn place(folder: &Path, path: &Path, content: &[u8], mode: u32) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".ferry-report-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    file.write_all(content)?;
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}
