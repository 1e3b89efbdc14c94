//! Extracts from Rust sources the paths, items and strings that the architecture tests need.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Item, Lit, UseTree};

/// The names from a crate's root to a module.
pub(crate) type ModulePath = Vec<String>;

/// The contents of a module, without its tests.
#[derive(Debug, Default)]
pub struct Module {
    /// Each imported path with its local name, or with `None` if all names of a module are
    /// imported.
    pub imports: Vec<(ModulePath, Option<String>)>,
    /// Paths in the code, relative to the crate or to the module.
    pub paths: Vec<ModulePath>,
    /// The names of the module's own items.
    pub items: BTreeSet<String>,
    /// The contents of the module's string literals, except documentation.
    pub texts: Vec<String>,
}

/// Returns the modules in the source of the module `at`, and the modules that exist only for tests.
pub fn modules(at: ModulePath, source: &str) -> (BTreeMap<ModulePath, Module>, Vec<ModulePath>) {
    let file = syn::parse_file(source).unwrap_or_else(|error| panic!("{}: {error}", at.join("::")));
    let mut scan = Scan { at, depth: 0, found: BTreeMap::new(), tests: Vec::new() };
    scan.module();
    scan.visit_file(&file);
    (scan.found, scan.tests)
}

struct Scan {
    at: ModulePath,
    /// The number of enclosing code blocks.
    depth: usize,
    found: BTreeMap<ModulePath, Module>,
    tests: Vec<ModulePath>,
}

impl Scan {
    fn module(&mut self) -> &mut Module {
        self.found.entry(self.at.clone()).or_default()
    }

    fn path(&mut self, path: ModulePath) {
        let is_ours = path.first().is_some_and(|first| ["crate", "super", "self"].contains(&&**first));
        self.module().paths.extend(Some(path).filter(|path| is_ours && path.len() > 1));
    }

    fn text(&mut self, literal: &Lit) {
        let bytes = match literal {
            Lit::Str(text) => text.value().into_bytes(),
            Lit::ByteStr(bytes) => bytes.value(),
            Lit::CStr(text) => text.value().into_bytes(),
            _ => return,
        };
        self.module().texts.push(String::from_utf8_lossy(&bytes).into_owned());
    }

    /// Scans the input of a macro.
    fn tokens(&mut self, stream: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for tree in stream {
            match tree {
                TokenTree::Punct(mark) if mark.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.path(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => self.text(&Lit::new(literal)),
                TokenTree::Punct(_) => {}
            }
            self.path(std::mem::take(&mut path));
            colons = 0;
        }
        self.path(path);
    }
}

impl<'a> Visit<'a> for Scan {
    fn visit_item(&mut self, item: &'a Item) {
        let (attributes, name) = parts(item);
        let module = if let Item::Mod(module) = item { Some(module.ident.to_string()) } else { None };
        let inner = module.map(|name| [&self.at[..], &[name]].concat());
        if attributes.iter().any(is_of_tests) {
            self.tests.extend(inner);
            return;
        }
        if self.depth == 0 {
            self.module().items.extend(name.map(ToString::to_string));
        }
        // The contents of `mod name;` are in a different file.
        let inner = inner.filter(|_| matches!(item, Item::Mod(module) if module.content.is_some()));
        let outer = inner.map(|inner| std::mem::replace(&mut self.at, inner));
        self.module();
        visit::visit_item(self, item);
        self.at = outer.unwrap_or_else(|| std::mem::take(&mut self.at));
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !item.attrs.iter().any(is_of_tests) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_block(&mut self, block: &'a syn::Block) {
        self.depth += 1;
        visit::visit_block(self, block);
        self.depth -= 1;
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        leaves(&item.tree, Vec::new(), &mut self.module().imports);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if !attribute.path().is_ident("doc") {
            visit::visit_attribute(self, attribute);
        }
    }

    fn visit_meta_list(&mut self, list: &'a syn::MetaList) {
        self.tokens(list.tokens.clone());
    }

    fn visit_lit(&mut self, literal: &'a Lit) {
        self.text(literal);
    }
}

fn is_of_tests(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let words = list.tokens.to_string();
    let mut words =
        words.split(|c: char| !c.is_alphanumeric()).filter(|word| !["", "all", "any"].contains(word));
    list.path.is_ident("cfg") && words.next() == Some("test")
}

/// Returns the attributes of an item, and its name if a path can refer to the item.
fn parts(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::ForeignMod(item) => (&item.attrs, None),
        Item::Impl(item) => (&item.attrs, None),
        Item::Mod(item) => (&item.attrs, None),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}

/// Collects the paths of a `use` tree, each with its local name.
fn leaves(tree: &UseTree, mut path: ModulePath, found: &mut Vec<(ModulePath, Option<String>)>) {
    let (ident, name) = match tree {
        UseTree::Path(branch) => {
            path.push(branch.ident.to_string());
            return leaves(&branch.tree, path, found);
        }
        UseTree::Group(group) => {
            return group.items.iter().for_each(|tree| leaves(tree, path.clone(), found));
        }
        UseTree::Glob(_) => return found.push((path, None)),
        UseTree::Name(leaf) => (&leaf.ident, None),
        UseTree::Rename(leaf) => (&leaf.ident, Some(leaf.rename.to_string())),
    };
    // The path `a::{self}` is the same as `a`.
    if path.is_empty() || ident != "self" {
        path.push(ident.to_string());
    }
    let name = name.or_else(|| path.last().cloned());
    found.push((path, name));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the paths, strings and test modules of a source as one text.
    fn said(source: &str) -> String {
        let (modules, tests) = modules(Vec::new(), source);
        let module = &modules[&Vec::new()];
        let paths = module.paths.iter().map(|path| path.join("::"));
        let texts = module.texts.iter().map(|text| format!("<{text}>"));
        let tests = tests.iter().map(|path| format!("-{}", path.join("::")));
        paths.chain(texts).chain(tests).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn macros_and_attributes_are_read_and_documentation_is_not() {
        assert_eq!(
            said("/// crate::a \"b\"\nfn f() { /* crate::a */ m!(x: crate::b::c, [\"d\"]) }"),
            "crate::b::c <d>"
        );
        assert_eq!(said("#[a(b = \"c\")] #[d = b\"e\"] struct F;"), "<c> <e>");
        assert_eq!(said("macro_rules! m { () => { $crate::a::<self::b> } }"), "crate::a self::b");
    }

    #[test]
    fn tests_are_left_out() {
        assert_eq!(
            said("#[cfg(test)] mod tests { fn f() { crate::a::b() } } const B: &str = \"b\";"),
            "<b> -tests"
        );
        assert_eq!(said("#[cfg(test)] #[path = \"x\"] mod far;"), "-far");
        assert_eq!(said("#[cfg(all(test, unix))] fn f(a: [u8; 2]) -> u8 { crate::a::b() }"), "");
        assert_eq!(said("impl A { #[cfg(test)] fn f() { crate::a::b() } }"), "");
        assert_eq!(said("#[cfg(not(test))] fn f() { crate::a::b() }"), "crate::a::b");
    }
}
