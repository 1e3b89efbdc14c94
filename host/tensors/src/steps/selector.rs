//! A selector selects the tensors to which a step applies, by name, dtype, size or rank. All
//! specified keys must match. If a key is specified more than once, at least one of its values must
//! match.

use super::regexes;
use super::signature::CheckedSpec;
use super::spec::Field;
use globset::{Glob, GlobSet, GlobSetBuilder};
use regex::{RegexSet, RegexSetBuilder};
use tensorferry_core::context::suggest::or_which;
use tensorferry_sdk::{Catalog, Dtype, Error, Result, Tensor, parse_size};

/// A condition that selects the tensors to which a step applies.
#[derive(Debug, Clone)]
pub(super) struct Selector {
    globs: Option<GlobSet>,
    regexes: Option<RegexSet>,
    not_globs: GlobSet,
    not_regexes: RegexSet,
    dtypes: Vec<Field>,
    ranks: Vec<usize>,
    min_size: u64,
    max_size: u64,
}

impl Selector {
    /// Returns the selector for the keys of a spec. Without keys, the selector selects all tensors.
    /// `more` may contain an additional glob, which has the same effect as a value of `where=`.
    pub(super) fn of(spec: &CheckedSpec<'_>, more: Option<&Field>) -> Result<Self> {
        let globs: Vec<&Field> = spec.all("where").chain(more).collect();
        let regexes: Vec<&Field> = spec.all("where_re").collect();
        let size = |field: &Field| {
            let size = parse_size(&field.text);
            size.ok_or_else(|| field.error(format!("expected a size such as 4KiB, found {:?}", field.text)))
        };
        Ok(Self {
            globs: if globs.is_empty() { None } else { Some(glob_set(globs)?) },
            regexes: if regexes.is_empty() { None } else { Some(regex_set(regexes)?) },
            not_globs: glob_set(spec.all("not"))?,
            not_regexes: regex_set(spec.all("not_re"))?,
            dtypes: spec.all("dtype").cloned().collect(),
            ranks: spec.all("rank").map(Field::number).collect::<Result<_>>()?,
            min_size: spec.one("min_size").map_or(Ok(0), size)?,
            max_size: spec.one("max_size").map_or(Ok(u64::MAX), size)?,
        })
    }

    /// Applies the selector to a catalog, and checks that the selector's dtypes exist. The dtypes
    /// cannot be checked earlier, because a format may define its own dtypes.
    pub(super) fn on<'a>(&'a self, catalog: &'a Catalog) -> Result<Selection<'a>> {
        let built_in = || Dtype::built_in().filter_map(Dtype::info).map(|info| info.name());
        for field in &self.dtypes {
            let is = |name: &str| name.eq_ignore_ascii_case(&field.text);
            let has = |tensor: &Tensor| catalog.dtype_info(tensor.dtype).is_some_and(|info| is(info.name()));
            if !built_in().any(is) && !catalog.tensors().iter().any(has) {
                let which = or_which(&field.text, built_in().collect::<Vec<_>>());
                return Err(field.error(format!("unknown dtype {:?}{which}", field.text)));
            }
        }
        Ok(Selection { selector: self, catalog })
    }

    /// Returns whether the selector selects all tensors.
    #[must_use]
    pub(super) fn is_all(&self) -> bool {
        self.globs.is_none()
            && self.regexes.is_none()
            && self.not_globs.is_empty()
            && self.not_regexes.is_empty()
            && self.dtypes.is_empty()
            && self.ranks.is_empty()
            && (self.min_size, self.max_size) == (0, u64::MAX)
    }
}

/// The result of applying a selector to a catalog.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selection<'a> {
    selector: &'a Selector,
    catalog: &'a Catalog,
}

impl Selection<'_> {
    /// Returns whether the selector selects this tensor.
    #[must_use]
    pub(super) fn has(&self, tensor: &Tensor) -> bool {
        let Selector { globs, regexes, not_globs, not_regexes, dtypes, ranks, min_size, max_size } =
            self.selector;
        let name = &tensor.name;
        let is_of = |field: &Field| {
            let info = self.catalog.dtype_info(tensor.dtype);
            info.is_some_and(|info| info.name().eq_ignore_ascii_case(&field.text))
        };
        globs.as_ref().is_none_or(|globs| globs.is_match(name))
            && regexes.as_ref().is_none_or(|regexes| regexes.is_match(name))
            && !not_globs.is_match(name)
            && !not_regexes.is_match(name)
            && (dtypes.is_empty() || dtypes.iter().any(is_of))
            && (ranks.is_empty() || ranks.contains(&tensor.shape.len()))
            && (*min_size..=*max_size).contains(&tensor.bytes)
    }
}

fn glob_set<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for field in fields {
        let glob = Glob::new(&field.text);
        set.add(glob.map_err(|error| field.error(format!("not a glob: {}", error.kind())))?);
    }
    set.build().map_err(|error| Error::usage(format!("too many globs: {error}")))
}

fn regex_set<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Result<RegexSet> {
    let fields: Vec<&Field> = fields.into_iter().collect();
    for field in &fields {
        regexes::parse(field)?;
    }
    let set = RegexSetBuilder::new(fields.iter().map(|field| &field.text)).build();
    set.map_err(|error| Error::usage(format!("too many expressions: {error}")))
}
