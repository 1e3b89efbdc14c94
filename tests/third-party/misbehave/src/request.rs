//! The misbehavior that the environment requests.

/// Reports whether `FERRY_MISBEHAVE` requests this misbehavior.
pub(crate) fn is_requested(what: &str) -> bool {
    std::env::var("FERRY_MISBEHAVE").is_ok_and(|request| request == what)
}

pub(crate) fn panic_if_requested(what: &str) {
    assert!(!is_requested(what), "asked to panic in {what}");
}

/// Misbehaves in a way that no error can report: aborts, hangs or exhausts memory.
pub(crate) fn ruin(request: &[u8]) {
    match request {
        b"!abort" => std::process::abort(),
        [b'!', b'l', b'o', b'o', b'p', ..] => loop {
            std::thread::sleep(std::time::Duration::from_millis(1));
        },
        [b'!', b'e', b'a', b't', ..] => {
            let mut eaten = Vec::new();
            loop {
                eaten.push(vec![1_u8; 1 << 20]);
            }
        }
        _ => {}
    }
}

/// A value that panics when it is dropped, if its name is requested.
pub(crate) struct Misbehaving(pub(crate) &'static str);

impl Drop for Misbehaving {
    fn drop(&mut self) {
        panic_if_requested(self.0);
    }
}
