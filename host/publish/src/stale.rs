//! Stale files belong to an older output that the new output replaces under different names.
//! Examples are shards with a different count, and the index of a model that is now a single file.
//! Writers provide patterns for the names of stale files.

use crate::disk::exists;
use crate::stage::{FileKind, StagedFile};
use crate::staging::OutputFolder;
use globset::{Glob, GlobBuilder, GlobMatcher};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use tensorferry_sdk::{Error, Result, Role, listed};

/// A search for stale files in the output's folder, by name patterns.
pub struct Search<'a> {
    folder: &'a dyn OutputFolder,
    /// The files of the new output.
    outputs: &'a [StagedFile],
    patterns: Vec<Pattern<'a>>,
}

/// A pattern for names in one folder.
struct Pattern<'a> {
    /// The folder of the names, relative to the output's folder.
    parent: &'a str,
    name: &'a str,
    role: Role,
    /// The glob; `None` if the pattern is the name of one file.
    glob: Option<Glob>,
    /// The compiled glob. The glob is compiled when the first name with the pattern's prefix is
    /// found, because most folders contain no such name.
    matcher: OnceCell<GlobMatcher>,
    found: BTreeSet<String>,
}

impl<'a> Search<'a> {
    /// Creates a search in `folder` for names that match one of the patterns and are not among the
    /// `outputs`.
    pub fn new(
        folder: &'a dyn OutputFolder,
        patterns: impl IntoIterator<Item = (&'a str, Role)>,
        outputs: &'a [StagedFile],
    ) -> Result<Self> {
        let patterns = patterns.into_iter().map(|(pattern, role)| Pattern::parse(pattern, role));
        Ok(Self { folder, outputs, patterns: patterns.collect::<Result<_>>()? })
    }

    /// Returns the stale files. `more` is an additional stale file that exists. With `force`, the
    /// stale files are to be removed, except for files that are being read according to `is_input`.
    /// Without `force`, stale files are kept.
    ///
    /// Without `force`, returns an error if a file matches a pattern that also matches an output
    /// file, such as a shard with a different count. Readers would read the old file and the output
    /// file as one set.
    pub fn find(
        self,
        more: Option<StagedFile>,
        force: bool,
        is_input: impl Fn(&Path) -> bool,
    ) -> Result<StaleFiles> {
        let folder = self.folder;
        let mut stale = StaleFiles::default();
        let more = more.map(|file| (file, false));
        for (file, is_like_output) in self.matching()?.into_iter().chain(more) {
            let path = folder.path_of(&file.path);
            match (is_input(&path), force) {
                (false, true) => stale.gone.push(file),
                (false, false) if is_like_output => return Err(exists(&path)),
                _ => stale.kept.push(file.path),
            }
        }
        Ok(stale)
    }

    /// Returns the matching files. For each file, also returns whether its pattern matches an
    /// output file.
    fn matching(mut self) -> Result<Vec<(StagedFile, bool)>> {
        self.list()?;
        let is_output = |name: &str| self.outputs.iter().any(|file| file.path == name);
        let mut found: Vec<(StagedFile, bool)> = Vec::new();
        for pattern in &self.patterns {
            let is_like_output = self.outputs.iter().any(|file| pattern.matches(&file.path));
            for name in &pattern.found {
                let path = match pattern.parent {
                    "" => name.clone(),
                    parent => format!("{parent}/{name}"),
                };
                let is_file = self.folder.is_file(&path)?;
                if is_file && !is_output(&path) && !found.iter().any(|(file, _)| file.path == path) {
                    let kind = if pattern.role == Role::Index { FileKind::Index } else { FileKind::Data };
                    found.push((StagedFile::new(path, kind), is_like_output));
                }
            }
        }
        Ok(found)
    }

    /// Lists each folder that has patterns once.
    fn list(&mut self) -> Result<()> {
        let globs = self.patterns.iter().filter(|pattern| pattern.glob.is_some());
        let parents: BTreeSet<&str> = globs.map(|pattern| pattern.parent).collect();
        for parent in parents {
            let mut own: Vec<_> = self.patterns.iter_mut().filter(|p| p.parent == parent).collect();
            let prefixes: Vec<&str> = own.iter().map(|pattern| pattern.start()).collect();
            self.folder.each_name(parent, &prefixes, &mut |name| {
                own.iter_mut().for_each(|pattern| pattern.see(name));
            })?;
        }
        Ok(())
    }
}

/// The result of a search for stale files.
#[derive(Debug, Default)]
pub struct StaleFiles {
    /// Stale files that the commit removes.
    pub gone: Vec<StagedFile>,
    /// Paths of stale files that are kept.
    kept: Vec<String>,
}

impl StaleFiles {
    /// Returns whether the file is already listed, as a file to remove or to keep.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.gone.iter().any(|file| file.path == name) || self.kept.iter().any(|kept| kept == name)
    }

    pub fn keep(&mut self, name: String) {
        self.kept.push(name);
    }

    /// Returns a note about the files that are kept, if there are any.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let kept = listed(self.kept.iter().map(|name| format!("{name:?}")), 1);
        (!kept.is_empty()).then(|| format!("{kept} next to the output may be mistaken for a part of it"))
    }
}

impl<'a> Pattern<'a> {
    const GLOB_CHARACTERS: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

    fn parse(pattern: &'a str, role: Role) -> Result<Self> {
        let (parent, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        let glob = GlobBuilder::new(name).literal_separator(true).build();
        let glob = glob.map_err(|e| Error::plugin(format!("invalid file name pattern: {e}")))?;
        let is_glob = name.contains(Self::GLOB_CHARACTERS);
        let found = if is_glob { BTreeSet::new() } else { BTreeSet::from([name.to_owned()]) };
        Ok(Self { parent, name, role, glob: is_glob.then_some(glob), matcher: OnceCell::new(), found })
    }

    /// Returns the common prefix of all names that match the pattern.
    fn start(&self) -> &'a str {
        &self.name[..self.name.find(Self::GLOB_CHARACTERS).unwrap_or(self.name.len())]
    }

    /// Adds a name to the list of found names if the name matches the pattern.
    fn see(&mut self, name: &OsStr) {
        if !name.as_encoded_bytes().starts_with(self.start().as_bytes()) {
            return;
        }
        if let Some(name) = name.to_str().filter(|name| self.is_match(name)) {
            self.found.insert(name.to_owned());
        }
    }

    /// Returns whether the pattern is a glob that matches this name.
    fn is_match(&self, name: &str) -> bool {
        let matcher = |glob: &Glob| self.matcher.get_or_init(|| glob.compile_matcher()).is_match(name);
        self.glob.as_ref().is_some_and(matcher)
    }

    /// Returns whether the pattern is a glob that matches this path in the output's folder.
    fn matches(&self, path: &str) -> bool {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        parent == self.parent && self.is_match(name)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::stage::{Destination, DestinationKind};
    use crate::staging::LocalFolder;
    use tensorferry_core::context::folder_names::FolderNames;

    fn patterns() -> Vec<Pattern<'static>> {
        [
            ("m.index.json", Role::Index),
            ("m-[0-9][0-9]-of-[0-9][0-9].st", Role::Data),
            ("sub/m.?", Role::Data),
            ("sub/n", Role::Data),
        ]
        .into_iter()
        .map(|(pattern, role)| Pattern::parse(pattern, role).unwrap())
        .collect()
    }

    fn found(folder: &Path) -> Vec<String> {
        let known = FolderNames::default();
        let [found, again, of_known] = [None, Some(&known), Some(&known)].map(|known| {
            let destination = Destination { folder: folder.to_owned(), kind: DestinationKind::Folder };
            let folder = &LocalFolder { destination: &destination, known };
            let search = Search { folder, outputs: &[], patterns: patterns() };
            search.matching().unwrap().into_iter().map(|(file, _)| file.path).collect::<Vec<_>>()
        });
        assert_eq!((&again, &of_known), (&found, &found));
        found
    }

    #[test]
    fn names_are_found_in_the_output_s_folder_and_below() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path();
        assert!(found(&folder.join("none")).is_empty());
        for name in ["sub", "m-03-of-03.st"] {
            std::fs::create_dir(folder.join(name)).unwrap();
        }
        for name in
            ["m.index.json", "m-01-of-02.st", "m-1-of-2.st", "m-02-of-02.st", "sub/m.1", "sub/n", "m.1"]
        {
            std::fs::write(folder.join(name), "x").unwrap();
        }
        let expected = ["m.index.json", "m-01-of-02.st", "m-02-of-02.st", "sub/m.1", "sub/n"];
        assert_eq!(found(folder), expected);
        let link = home.path().join("link");
        std::os::unix::fs::symlink(".", &link).unwrap();
        assert_eq!(found(&link), expected);
    }

    #[test]
    fn a_set_of_another_length_is_an_output_that_exists() {
        let home = tempfile::tempdir().unwrap();
        for name in ["m.index.json", "m-01-of-03.st"] {
            std::fs::write(home.path().join(name), "x").unwrap();
        }
        let find = |output: &str, force, read: &str| {
            let outputs = [StagedFile::new(output, FileKind::Data)];
            let destination = Destination { folder: home.path().to_owned(), kind: DestinationKind::Folder };
            let folder = &LocalFolder { destination: &destination, known: None };
            let search = Search { folder, outputs: &outputs, patterns: patterns() };
            let found = search.find(None, force, |path| path.ends_with(read));
            found.map(|stale| (stale.gone.into_iter().map(|file| file.path).collect(), stale.kept))
        };
        let [index, shard] = ["m.index.json", "m-01-of-03.st"].map(str::to_owned);
        let (all, none) = (vec![index.clone(), shard.clone()], Vec::<String>::new());
        assert_eq!(find("m.st", false, "no").unwrap(), (none.clone(), all.clone()));
        assert_eq!(find("m.st", true, "no").unwrap(), (all.clone(), none));
        let refused = find("m-01-of-02.st", false, "no").unwrap_err();
        assert_eq!(refused.kind(), tensorferry_sdk::ErrorKind::Usage);
        assert!(refused.to_string().contains("m-01-of-03.st exists; use --force"), "{refused}");
        assert_eq!(find("m-01-of-02.st", false, "m-01-of-03.st").unwrap().1, all);
        assert_eq!(find("m-01-of-02.st", true, "m-01-of-03.st").unwrap(), (vec![index], vec![shard]));
    }

    #[test]
    fn what_is_no_pattern_is_a_plugin_s_error() {
        let error = Pattern::parse("m[", Role::Data).err().unwrap();
        assert_eq!(error.kind(), tensorferry_sdk::ErrorKind::Plugin);
    }
}
