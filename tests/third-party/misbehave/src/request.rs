//! A request is the one misbehaviour that the environment asks for.

/// Whether `FERRY_MISBEHAVE` asks for this one.
pub(crate) fn is_requested(what: &str) -> bool {
    std::env::var("FERRY_MISBEHAVE").is_ok_and(|request| request == what)
}

pub(crate) fn panic_if_requested(what: &str) {
    assert!(!is_requested(what), "asked to panic in {what}");
}

/// Panics when it is dropped, if its name is requested.
pub(crate) struct Misbehaving(pub(crate) &'static str);

impl Drop for Misbehaving {
    fn drop(&mut self) {
        panic_if_requested(self.0);
    }
}
