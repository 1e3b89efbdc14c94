//! Copies values from the pickle of an input to the pickle of an output. Only plain values, torch's
//! dtypes, and members of known enumerations are copied. No other values from an input's pickle are
//! ever written.

use crate::dtype::TorchDtype;
use crate::pickle::{CallKind, Graph, Value, ValueId};
use crate::pickle_writer::{MAX_INTEGER_BYTES, PickleWriter};
use tensorferry_sdk::Result;

/// Maximum nesting depth of lists. The arguments of an exported program have up to three levels.
const MAX_NESTING: u32 = 16;
/// Maximum number of values in a copy. Without a limit, lists that share values could become very
/// large.
const MAX_VALUES: usize = 1 << 16;

/// The module and name of a class.
pub type ClassName = (&'static str, &'static str);

/// If all parts of a value may be copied, appends a copy and returns true. Otherwise, appends
/// nothing and returns false. A member of an enumeration in `enums` is copied as a call with the
/// number of the member.
pub fn push_plain(
    graph: &Graph,
    value: ValueId,
    enums: &[ClassName],
    pickle: &mut PickleWriter,
) -> Result<bool> {
    let copy = PlainCopier { graph, enums };
    let mut left = MAX_VALUES;
    if !copy.is_plain(value, MAX_NESTING, &mut left) {
        return Ok(false);
    }
    copy.push(value, pickle)?;
    Ok(true)
}

struct PlainCopier<'g> {
    graph: &'g Graph,
    enums: &'g [ClassName],
}

impl PlainCopier<'_> {
    fn is_plain(&self, value: ValueId, depth: u32, left: &mut usize) -> bool {
        let (Some(less), Some(depth)) = (left.checked_sub(1), depth.checked_sub(1)) else { return false };
        *left = less;
        let graph = self.graph;
        match graph.value(value) {
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => true,
            Value::Long(bytes) => bytes.len() <= MAX_INTEGER_BYTES,
            Value::Text(text) => text.as_str().is_some(),
            Value::List(_) | Value::Tuple(_) => {
                let items = graph.sequence(value).unwrap_or_default();
                items.iter().all(|&item| self.is_plain(item, depth, left))
            }
            Value::Dict(entries) => entries
                .iter()
                .all(|&(key, value)| graph.text(key).is_some() && self.is_plain(value, depth, left)),
            Value::Global(_) => self.dtype(value).is_some(),
            Value::Call(_) => self.member(value).is_some(),
            _ => false,
        }
    }

    fn push(&self, value: ValueId, pickle: &mut PickleWriter) -> Result<()> {
        let graph = self.graph;
        match graph.value(value) {
            Value::Bool(flag) => pickle.bool(*flag),
            Value::Int(int) => pickle.int(*int),
            Value::Long(bytes) => pickle.long(bytes),
            Value::Float(float) => pickle.float(*float),
            Value::Text(text) => pickle.text(text.as_str().unwrap_or_default())?,
            Value::List(items) => {
                pickle.empty_list();
                pickle.mark();
                items.iter().try_for_each(|&item| self.push(item, pickle))?;
                pickle.appends();
            }
            Value::Tuple(_) => {
                pickle.mark();
                let items = graph.sequence(value).unwrap_or_default();
                items.iter().try_for_each(|&item| self.push(item, pickle))?;
                pickle.tuple_since_mark();
            }
            Value::Dict(entries) => {
                pickle.empty_dict();
                pickle.mark();
                for &(key, value) in entries {
                    self.push(key, pickle)?;
                    self.push(value, pickle)?;
                }
                pickle.set_items();
            }
            _ => match (self.dtype(value), self.member(value)) {
                (Some(dtype), _) => pickle.global("torch", dtype.name),
                (None, Some(((module, name), number))) => {
                    pickle.global(module, name);
                    pickle.int(number);
                    pickle.call(1);
                }
                // The value is Python's `None`, because all other values that are not plain have
                // already been rejected.
                (None, None) => pickle.none(),
            },
        }
        Ok(())
    }

    fn dtype(&self, value: ValueId) -> Option<&'static TorchDtype> {
        let global = self.graph.global(value).filter(|global| &*global.module == "torch")?;
        TorchDtype::named(&global.name)
    }

    /// If the value is a member of an enumeration, returns the class of the enumeration and the
    /// number of the member.
    fn member(&self, value: ValueId) -> Option<(ClassName, i64)> {
        let (global, call) = self.graph.called(value)?;
        let class = *self.enums.iter().find(|(module, name)| global.is(module, name))?;
        let is_bare = call.kind == CallKind::Function
            && call.keywords.is_none()
            && call.state.is_none()
            && call.items.is_empty()
            && call.appended.is_empty();
        match self.graph.tuple(call.arguments)? {
            &[number] if is_bare => Some((class, self.graph.int(number)?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::pickle::{EvaluatedPickle, evaluate};
    use tensorferry_sdk::Limits;

    const ENUMS: [ClassName; 1] = [("megatron.core.enums", "ModelType")];

    /// Returns the pickle of a value, and the pickle of its copy. The copy is `None` if the value
    /// must not be copied.
    fn copied(write: impl FnOnce(&mut PickleWriter)) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut pickle = PickleWriter::new();
        write(&mut pickle);
        let before = pickle.finish();
        let EvaluatedPickle { graph, root, .. } = evaluate(&before, 0, &Limits::default()).unwrap();
        let mut again = PickleWriter::new();
        let is_plain = push_plain(&graph, root, &ENUMS, &mut again).unwrap();
        (before, is_plain.then(|| again.finish()))
    }

    #[test]
    fn plain_values_are_written_as_they_were() {
        let (before, after) = copied(|p| {
            p.empty_dict();
            p.mark();
            p.text("list").unwrap();
            p.empty_list();
            p.mark();
            p.int(1 << 40);
            p.float(0.5);
            p.none();
            p.bool(true);
            p.appends();
            p.text("dtype").unwrap();
            p.global("torch", "bfloat16");
            p.text("enum").unwrap();
            p.global("megatron.core.enums", "ModelType");
            p.int(2);
            p.call(1);
            p.set_items();
        });
        assert_eq!(after, Some(before));
    }

    #[test]
    fn what_calls_something_else_is_not_plain() {
        let (_, system) = copied(|p| {
            p.global("os", "system");
            p.text("true").unwrap();
            p.call(1);
        });
        let (_, function) = copied(|p| p.global("torch", "load"));
        let (_, argument) = copied(|p| {
            p.global("megatron.core.enums", "ModelType");
            p.text("x").unwrap();
            p.call(1);
        });
        let (_, deep) = copied(|p| {
            p.none();
            (0..40).for_each(|_| p.tuple(1));
        });
        assert_eq!((system, function, argument, deep), (None, None, None, None));
    }
}
