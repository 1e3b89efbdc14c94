//! The dictionaries that apply to a batch. A dictionary message sets, replaces or extends one
//! dictionary.

use super::contents::{Contents, DictionaryMessage};
use super::decode::{Values, dictionary};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{Limits, Result};

/// The dictionaries that were read most recently, and the number of dictionary messages that were
/// applied to build them. The streams of several splits share this cache.
#[derive(Default)]
pub(super) struct DictionaryCache(Mutex<Option<(usize, Arc<Values>)>>);

impl DictionaryCache {
    /// Returns the dictionaries after the first `count` dictionary messages of a file.
    pub(super) fn after(&self, contents: &Contents, count: usize, limits: &Limits) -> Result<Arc<Values>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let all = &contents.dictionaries[..count.min(contents.dictionaries.len())];
        let (mut values, messages) = match known {
            Some((known, values)) if known == count => return Ok(values),
            Some((known, values)) if known < count => (values.as_ref().clone(), all[known..].to_vec()),
            _ => (Values::default(), without_replaced(all)),
        };
        for message in &messages {
            dictionary(contents, message, &mut values, limits)?;
        }
        let values = Arc::new(values);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((count, values.clone()));
        Ok(values)
    }
}

/// Returns the dictionary messages that still apply. Omits messages whose values a later message
/// replaces.
fn without_replaced(all: &[DictionaryMessage]) -> Vec<DictionaryMessage> {
    let mut whole = HashSet::new();
    let mut kept: Vec<DictionaryMessage> = all
        .iter()
        .rev()
        .filter(|message| !whole.contains(&message.id) && (message.is_delta || whole.insert(message.id)))
        .copied()
        .collect();
    kept.reverse();
    kept
}
