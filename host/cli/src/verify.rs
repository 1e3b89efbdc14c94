//! `ferry verify`: checks outputs against their receipts.

use super::args::Verify;
use super::terminal::{self, printable};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use tensorferry::places::absolute;
use tensorferry::receipts::{Receipt, Verdict, VerifyOptions, VerifyResult, find, is_name, output_of};
use tensorferry::{Registry, Session};
use tensorferry_sdk::{Error, Result, listed};

/// Maximum number of problems per output that the text output lists. `--json` lists all of them.
const MAX_SHOWN: usize = 10;
/// Maximum number of files without a receipt that the text output lists.
const MAX_NAMED: usize = 3;

/// Runs the command, and prints a verdict for each output.
pub(super) fn run(command: &Verify, registry: &Registry, session: &Session) -> Result<()> {
    let found = find(&command.outputs, session)?;
    let depth = VerifyOptions { quick: command.quick, source: command.source };
    let mut printer = VerdictPrinter { json: command.json, ..VerdictPrinter::default() };
    for path in &found.without {
        printer.without(path)?;
    }
    // If there are several outputs, each verdict is printed as soon as it is known. A progress bar
    // would appear between the verdicts.
    let quiet = found.receipts.len() > 1 && std::io::stdout().is_terminal();
    terminal::with_progress(session, quiet, |_| {
        registry.verify(&found.receipts, depth, |checked| printer.take(checked))
    })?;
    printer.unlisted = unlisted(&command.outputs, &found.receipts, session);
    printer.end()
}

/// Returns the files below the named folders that no receipt lists. A folder without receipts is
/// reported as a whole. Folders in object stores are not searched.
fn unlisted(outputs: &[PathBuf], receipts: &[PathBuf], session: &Session) -> Vec<PathBuf> {
    let folders: Vec<&PathBuf> = outputs.iter().filter(|path| path.is_dir()).collect();
    let plain = |path: &Path| absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut named = HashSet::new();
    for path in receipts.iter().filter(|_| !folders.is_empty()) {
        let Ok(receipt) = Receipt::read(path, session) else { continue };
        let folder = plain(path.parent().unwrap_or(Path::new("")));
        named.extend(receipt.output.files.iter().map(|file| folder.join(&file.name)));
    }
    let has_receipt = |folder: &Path| {
        let folder = plain(folder);
        receipts.iter().any(|path| plain(path).starts_with(&folder))
    };
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = folders.into_iter().filter(|folder| has_receipt(folder)).cloned().collect();
    while let Some(folder) = open.pop() {
        // Errors are ignored, because the search for receipts has already reported the folders that
        // cannot be listed.
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !name.starts_with('.') => open.push(path),
                Ok(kind) if kind.is_file() && !is_name(&name) && !named.contains(&plain(&path)) => {
                    found.push(path);
                }
                _ => {}
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

#[derive(Default)]
struct VerdictPrinter {
    json: bool,
    records: Vec<Value>,
    counts: [u64; Verdict::ALL.len()],
    unreadable: Option<Error>,
    /// Files that no receipt lists.
    unlisted: Vec<PathBuf>,
}

impl VerdictPrinter {
    fn count(&mut self, verdict: Verdict) {
        self.counts[verdict as usize] += 1;
    }

    fn of(&self, verdict: Verdict) -> u64 {
        self.counts[verdict as usize]
    }

    fn without(&mut self, path: &Path) -> Result<()> {
        self.count(Verdict::NoReceipt);
        if self.json {
            self.records.push(json!({ "verdict": Verdict::NoReceipt.words(), "output": path }));
            return Ok(());
        }
        terminal::print_verdict(&line(Verdict::NoReceipt, path))
    }

    fn take(&mut self, checked: VerifyResult) -> Result<()> {
        self.count(checked.verdict);
        if self.json {
            self.records.push(checked.json());
        } else {
            terminal::print_verdict(&text(&checked))?;
        }
        if checked.verdict == Verdict::Unreadable {
            self.unreadable = self.unreadable.take().or(checked.error);
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        let total: u64 = self.counts.iter().sum();
        let counts = Verdict::ALL.map(|verdict| (verdict.words(), self.of(verdict)));
        if self.json {
            let counts: serde_json::Map<String, Value> =
                counts.into_iter().map(|(words, count)| (words.to_owned(), count.into())).collect();
            let is_ok = self.of(Verdict::Ok) == total;
            let unlisted: Vec<_> = self.unlisted.iter().map(|path| path.display().to_string()).collect();
            let document = json!({ "ok": is_ok, "counts": counts, "outputs": self.records, "without_receipt": unlisted });
            terminal::print_json(&document)?;
        } else {
            let parts = counts.iter().filter(|(_, count)| *count > 0);
            let parts: Vec<String> = parts.map(|(words, count)| format!("{count} {words}")).collect();
            let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
            if !self.unlisted.is_empty() {
                terminal::print(&unlisted_line(&self.unlisted))?;
            }
            terminal::print(&format!("{}{parts}\n", terminal::counted(total, "output")))?;
        }
        let failed = [Verdict::NoReceipt, Verdict::Missing, Verdict::Changed];
        let failed: u64 = failed.iter().map(|verdict| self.of(*verdict)).sum();
        match (failed, &self.unreadable) {
            (0, None) => Ok(()),
            (0, Some(error)) => Err(error.clone()),
            (failed, _) => {
                let failed = failed + self.of(Verdict::Unreadable);
                let outputs = terminal::counted(total, "output");
                let error = if self.of(Verdict::NoReceipt) == total {
                    Error::verification(format!("nothing was compared: no receipt for {outputs}"))
                } else {
                    Error::verification(format!("{failed} of {outputs} could not be verified"))
                };
                let hint = "convert with --receipt to write a receipt next to the output";
                Err(if self.of(Verdict::NoReceipt) > 0 { error.hint(hint) } else { error })
            }
        }
    }
}

fn unlisted_line(files: &[PathBuf]) -> String {
    let names = listed(files.iter().map(|path| terminal::shown(path)), MAX_NAMED);
    format!("no receipt lists {}: {names}\n", terminal::counted(files.len() as u64, "file"))
}

fn line(verdict: Verdict, path: &Path) -> String {
    format!("{:10}  {}\n", verdict.words(), terminal::shown(path))
}

fn text(checked: &VerifyResult) -> String {
    let mut text = line(checked.verdict, &output_of(&checked.receipt));
    for problem in checked.problems.iter().take(MAX_SHOWN) {
        let _ = writeln!(text, "  {}", printable(&problem.to_string()));
    }
    if checked.problems.len() > MAX_SHOWN {
        let _ = writeln!(text, "  ... and {} more (--json lists all)", checked.problems.len() - MAX_SHOWN);
    }
    for column in &checked.left_out {
        let _ = writeln!(text, "  not compared: {}", printable(column));
    }
    if let Some(error) = &checked.error {
        let _ = writeln!(text, "  {}", printable(&error.to_string()));
    }
    text
}
