//! Collects notes for the user about how files are read.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Maximum number of notes.
const MAX_NOTES: usize = 100;

/// The notes without duplicates. Notes that have not been passed to the caller yet are also listed
/// separately.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<NotesState>);

#[derive(Debug, Default)]
struct NotesState {
    seen: BTreeSet<String>,
    waiting: Vec<String>,
}

impl Notes {
    /// Adds a note, unless the same note was already added.
    pub(crate) fn say(&self, note: String) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.seen.len() < MAX_NOTES && state.seen.insert(note.clone()) {
            state.waiting.push(note);
        }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_note_is_said_once_and_not_too_many_are() {
        let notes = Notes::default();
        for _ in 0..2 {
            notes.say("a".into());
        }
        assert_eq!(notes.take(), ["a"]);
        notes.say("a".into());
        assert!(notes.take().is_empty());
        (0..2 * MAX_NOTES).for_each(|number| notes.say(number.to_string()));
        assert_eq!(notes.take().len(), MAX_NOTES - 1);
    }
}
