//! Finds cycles of modules. The modules of a cycle are in one folder and use each other, so none of
//! them can be read, tested or moved separately.
//!
//! An arrow leads from a module to every module that one of its paths names or passes through. Such
//! paths occur in `use` lines and in the code, and may lead through names that another module
//! imports or re-exports. Test modules do not count.

use crate::files::paths_below;
use crate::rust::{Module, ModulePath};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A cycle: modules of one folder that use each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// The folder's module. Empty for the root of the crate.
    pub folder: ModulePath,
    /// The names of the modules, sorted.
    pub modules: Vec<String>,
    /// The arrows between the modules. Each arrow consists of the name of a module and the name of
    /// a module that it uses.
    pub arrows: BTreeSet<String>,
}

/// Returns the cycles of the crate whose sources are in this folder.
pub fn cycles_in(folder: &Path) -> Vec<Cycle> {
    let names = paths_below(folder);
    let sources = names.iter().filter(|name| name.ends_with(".rs") && !name.starts_with("bin/"));
    let sources: Vec<(&str, String)> =
        sources.map(|name| (name.as_str(), std::fs::read_to_string(folder.join(name)).unwrap())).collect();
    assert!(!sources.is_empty(), "{}: no sources", folder.display());
    cycles(&sources)
}

/// Returns the cycles of a crate. Each source consists of its path inside `src` and its code.
pub fn cycles(sources: &[(&str, impl AsRef<str>)]) -> Vec<Cycle> {
    let modules = Modules::new(sources);
    // For each folder, the arrows between its modules, and the modules that cause each arrow.
    let mut folders: BTreeMap<&[String], BTreeMap<(&str, &str), BTreeSet<String>>> = BTreeMap::new();
    for (from, module) in &modules.0 {
        let paths = module.imports.iter().map(|(path, _)| path).chain(&module.paths);
        for to in paths.flat_map(|path| modules.passed(from, path, 0)) {
            let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) {
                let arrows = folders.entry(&from[..shared]).or_default().entry((a, b)).or_default();
                arrows.insert(format!("{} uses {}", from.join("::"), to.join("::")));
            }
        }
    }
    folders.iter().flat_map(|(folder, arrows)| cycles_among(folder, arrows)).collect()
}

/// Returns all modules that can be reached along arrows from a module, directly or indirectly.
fn reached<'a>(arrows: &BTreeMap<(&'a str, &'a str), BTreeSet<String>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        let targets = arrows.keys().filter(|(a, _)| *a == next).map(|&(_, b)| b);
        open.extend(targets.filter(|b| seen.insert(*b)));
    }
    seen
}

fn cycles_among(folder: &[String], arrows: &BTreeMap<(&str, &str), BTreeSet<String>>) -> Vec<Cycle> {
    let names: BTreeSet<&str> = arrows.keys().flat_map(|&(a, b)| [a, b]).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        names.iter().map(|&name| (name, reached(arrows, name))).collect();
    let mut found: Vec<Cycle> = Vec::new();
    for name in names {
        if found.iter().any(|cycle| cycle.modules.iter().any(|own| own == name)) {
            continue;
        }
        let mutual = reached[name].iter().filter(|other| **other == name || reached[**other].contains(name));
        let modules: Vec<String> = mutual.map(|&name| name.to_owned()).collect();
        if modules.len() > 1 {
            let is_within =
                |(a, b): &(&str, &str)| [a, b].iter().all(|end| modules.iter().any(|own| own == **end));
            let arrows = arrows.iter().filter(|(ends, _)| is_within(ends)).flat_map(|(_, why)| why.clone());
            found.push(Cycle { folder: folder.to_vec(), arrows: arrows.collect(), modules });
        }
    }
    found
}

/// All modules of a crate.
struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    fn new(sources: &[(&str, impl AsRef<str>)]) -> Self {
        let (mut modules, mut tests) = (Self(BTreeMap::new()), Vec::new());
        for (name, text) in sources {
            let mut path: ModulePath = name.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            path.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
            let (found, of_tests) = crate::rust::modules(path, text.as_ref());
            modules.0.extend(found);
            tests.extend(of_tests);
        }
        modules.0.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
        modules
    }

    /// Returns the modules through which a path in module `from` passes. A path passes through the
    /// modules that import its names, and through the module that defines its last name.
    fn passed(&self, from: &ModulePath, path: &[String], depth: usize) -> Vec<&ModulePath> {
        let ups = path.iter().take_while(|name| *name == "super").count();
        let (mut at, mut rest) = match path.first().map(String::as_str) {
            Some("crate") => (Vec::new(), &path[1..]),
            Some("self") => (from.clone(), &path[1..]),
            Some("super") => (from[..from.len().saturating_sub(ups)].to_vec(), &path[ups..]),
            // A crate, a child module, or a name imported in the same module.
            Some(name) if self.has(from, name) => (from.clone(), path),
            _ => return Vec::new(),
        };
        while let Some((name, after)) = rest.split_first() {
            let child = [&at[..], std::slice::from_ref(name)].concat();
            if !self.0.contains_key(&child) {
                break;
            }
            (at, rest) = (child, after);
        }
        let Some((own, module)) = self.0.get_key_value(&at) else { return Vec::new() };
        let mut passed = vec![own];
        // The depth limit ends the recursion for paths that lead back to themselves.
        let Some((name, after)) = rest.split_first().filter(|_| depth < 16) else { return passed };
        let named = module.imports.iter().find(|(_, alias)| alias.as_ref() == Some(name));
        let from_all = || {
            let mut all = module.imports.iter().filter(|(_, alias)| alias.is_none());
            all.find(|(path, _)| {
                self.passed(&at, path, depth + 1).last().is_some_and(|to| self.has(to, name))
            })
        };
        if let Some((path, _)) = named {
            passed.extend(self.passed(&at, &[&path[..], after].concat(), depth + 1));
        } else if !module.items.contains(name)
            && let Some((path, _)) = from_all()
        {
            passed.extend(self.passed(&at, &[&path[..], rest].concat(), depth + 1));
        }
        passed
    }

    /// Returns whether a module has an item, an import or a child with this name.
    fn has(&self, module: &ModulePath, name: &str) -> bool {
        let own = &self.0[module];
        own.items.contains(name)
            || own.imports.iter().any(|(_, alias)| alias.as_deref() == Some(name))
            || self.0.contains_key(&[&module[..], &[name.to_owned()]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the cycles, each as `folder: modules`.
    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let shown = |cycle: Cycle| format!("{}: {}", cycle.folder.join("::"), cycle.modules.join(" "));
        cycles(sources).into_iter().map(shown).collect()
    }

    #[test]
    fn imports_in_one_direction_are_not_a_cycle() {
        let sources = [
            ("lib.rs", "mod a; mod b; pub use a::A; use b::{B, c::*};"),
            ("a.rs", "use crate::b::B; pub struct A; // crate::a\nconst S: &str = \"crate::b::a\";"),
            ("b/mod.rs", "pub mod c; pub struct B; fn f() { self::c::g(); c::g() }"),
            ("b/c.rs", "pub fn g() { super::h(); crate::b::h() }"),
        ];
        assert_eq!(found(&sources), [""; 0]);
    }

    #[test]
    fn cycles_are_found_at_every_depth() {
        let sources = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::{self, x::{y}};"),
            ("b.rs", "pub mod x; pub mod y; fn f() { crate::c::g() }"),
            ("b/x.rs", "use super::y::Y as Z;"),
            ("b/y.rs", "fn f(x: crate::b::x::X) {}"),
            ("c.rs", "mod inner { fn f() { super::super::a::h() } }"),
        ];
        assert_eq!(found(&sources), [": a b c", "b: x y"]);
        let cycle = &cycles(&sources)[0];
        assert!(cycle.arrows.contains("c::inner uses a") && cycle.arrows.contains("b uses c"), "{cycle:?}");
    }

    #[test]
    fn inline_modules_are_modules() {
        let sources =
            [("lib.rs", "mod a { use super::b::B; pub struct A; } mod b { use crate::a::A; pub struct B; }")];
        assert_eq!(found(&sources), [": a b"]);
    }

    #[test]
    fn a_name_leads_to_where_it_comes_from() {
        let user = ("a.rs", "use crate::Name; pub struct A;");
        let owner = ("b.rs", "use crate::a::A; pub struct Name;");
        for root in
            ["pub use b::Name;", "pub use crate::b::*;", "use b::Other as Name;", "use self::b::{Name};"]
        {
            assert_eq!(found(&[("lib.rs", root), user, owner]), [": a b"], "{root}");
        }
        assert_eq!(found(&[("lib.rs", "pub use b::Other;"), user, owner]), [""; 0]);
        // The arrow leads through two modules, and the path is in the code instead of a `use` line.
        let through = ("c.rs", "pub use crate::b::Name;");
        let sources = [("lib.rs", "pub use c::Name;"), ("a.rs", "fn f() -> crate::Name {}"), owner, through];
        assert_eq!(found(&sources), [": a b c"]);
        // The arrow leads through a name that the folder imports for its own use.
        let sources = [("lib.rs", "use b::Name;"), ("a.rs", "pub struct A(super::Name);"), owner];
        assert_eq!(found(&sources), [": a b"]);
    }

    #[test]
    fn tests_do_not_count() {
        let sources = [
            ("a.rs", "use crate::b::B; #[cfg(test)] mod tests;"),
            ("a/tests.rs", "use crate::c::C;"),
            ("b.rs", "#[cfg(test)] mod tests { use crate::a::A; } #[cfg(test)] use crate::a::A;"),
            ("c.rs", "use crate::a::A;"),
        ];
        assert_eq!(found(&sources), [""; 0]);
    }
}
