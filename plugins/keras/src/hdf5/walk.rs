//! Visits all objects in a file by following hard links, without recursion. An object with two
//! links is visited under each of its paths. Links from a group to itself, or to a group that
//! contains it, are skipped. Named datatypes are also skipped, because they have no data.

use super::file::File;
use super::header::{DATASPACE, DATATYPE, Header, LAYOUT};
use super::links::{Target, children, is_group};
use std::rc::Rc;
use tensorferry_sdk::{Context, Error, Result};

/// Maximum depth of nested groups.
const MAX_DEPTH: usize = 64;

/// An object and its path. The path consists of the names of the links that lead from the root to
/// the object, joined with `/`. The path of the root is empty.
pub(crate) enum Object {
    Group {
        path: String,
        header: Header,
    },
    Dataset {
        path: String,
        header: Header,
    },
    /// A soft link. `address` is the address of the group that contains it.
    Link {
        path: String,
        target: String,
        address: u64,
    },
}

/// Passes each object in a file to `each`. A group precedes its children. Children are sorted by
/// name, and names that are numbers are compared as numbers. Soft links are passed but not
/// followed.
pub(crate) fn walk(
    file: &File<'_>,
    context: &dyn Context,
    each: &mut dyn FnMut(Object) -> Result<()>,
) -> Result<()> {
    let limits = context.limits();
    let mut open = vec![(String::new(), file.root, Rc::new(Ancestors::default()))];
    let mut visited = 0_u64;
    while let Some((path, address, above)) = open.pop() {
        context.check_cancelled()?;
        visited += 1;
        let named = |error: Error| error.context(format!("{:?}", if path.is_empty() { "/" } else { &path }));
        if visited > limits.entries {
            return Err(Error::limit("too many objects")
                .expected(format!("at most {}", limits.entries))
                .hint("pass --limit entries=N to raise the limit"));
        }
        if path.len() as u64 > limits.name_bytes {
            return Err(file.at(Error::limit("the path of an object is too long"), address));
        }
        if above.contains(address) {
            continue;
        }
        let header = Header::read(file, address).map_err(named)?;
        let is_group = is_group(&header);
        if is_group {
            if above.depth >= MAX_DEPTH {
                let error = Error::limit("groups are nested too deeply")
                    .expected(format!("at most {MAX_DEPTH} levels"));
                return Err(named(file.at(error, address)));
            }
            let mut children = children(file, &header).map_err(named)?;
            children.sort_by(|(a, _), (b, _)| natural_key(a).cmp(&natural_key(b)));
            let above = Rc::new(Ancestors { depth: above.depth + 1, address, above: Some(above) });
            for (name, target) in children.into_iter().rev() {
                let path = if path.is_empty() { name } else { format!("{path}/{name}") };
                file.held.add(path.len())?;
                match target {
                    Target::Hard(address) => open.push((path, address, above.clone())),
                    Target::Soft(target) => {
                        file.held.add(target.len())?;
                        each(Object::Link { path, target, address })?;
                    }
                }
                if open.len() as u64 > limits.entries {
                    return Err(Error::limit("too many links")
                        .expected(format!("at most {}", limits.entries))
                        .hint("pass --limit entries=N to raise the limit"));
                }
            }
        }
        let has = |kind| header.get(kind).is_some();
        if !is_group && has(DATATYPE) && !has(DATASPACE) && !has(LAYOUT) {
            continue;
        }
        each(if is_group { Object::Group { path, header } } else { Object::Dataset { path, header } })?;
    }
    Ok(())
}

/// The chain of groups that contain an object.
#[derive(Default)]
struct Ancestors {
    depth: usize,
    address: u64,
    above: Option<Rc<Ancestors>>,
}

impl Ancestors {
    fn contains(&self, address: u64) -> bool {
        let mut group = Some(self);
        while let Some(Ancestors { depth, address: own, above }) = group {
            if *depth > 0 && *own == address {
                return true;
            }
            group = above.as_deref();
        }
        false
    }
}

/// Returns the sort key for a name. Numbers precede other names and are compared as numbers, so
/// that `vars/2` precedes `vars/10`.
fn natural_key(name: &str) -> (bool, u64, &str) {
    let number = name.parse().ok();
    (number.is_none(), number.unwrap_or(0), name)
}
