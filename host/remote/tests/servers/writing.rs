//! Write tests that every store must pass.

use super::install::read_whole;
use crate::support::server::pattern;
use std::sync::Arc;
use tensorferry_core::context::remote::{Condition, NewObject, Remote, RemotePlace, RemoteUpload};
use tensorferry_remote::Remotes;
use tensorferry_sdk::{ErrorKind, Result};

const MIB: usize = 1 << 20;

/// Uploads an object without completing it.
pub(crate) fn sent(place: &Arc<dyn RemotePlace>, key: &str, bytes: &[u8]) -> Result<Arc<dyn RemoteUpload>> {
    let late = std::iter::once(3..7).collect();
    let object =
        NewObject { len: Some(bytes.len() as u64), late: if bytes.len() > 7 { late } else { Vec::new() } };
    let is_late = !object.late.is_empty();
    let upload = place.create(key, object)?;
    for (number, window) in bytes.chunks(MIB).enumerate() {
        upload.write_at((number * MIB) as u64, window)?;
    }
    if is_late {
        upload.write_late(3, &bytes[3..7])?;
    }
    upload.finish()?;
    Ok(upload)
}

/// Writes small and multipart objects in three situations: the name is unused, the expected object
/// has the name, or a different object has the name. `knows_all` is false for a store that does not
/// support conditions for multipart uploads.
pub(crate) fn objects_are_written(remotes: &Remotes, root: &str, knows_all: bool) {
    let (place, _) = remotes.place(root).unwrap().unwrap();
    for len in [0, 100, 40 * MIB + 5] {
        let (bytes, other) = (pattern(len), vec![7; len + 1]);
        let key = format!("written/a b+%é/{len}");
        let put = |bytes: &[u8], condition: &Condition| sent(&place, &key, bytes)?.commit(condition);
        let upload = sent(&place, &key, &bytes).unwrap();
        assert_eq!(place.stamp(&key).unwrap(), None);
        upload.commit(&Condition::Absent).unwrap();
        assert!(read_whole(&*place.open(&key).unwrap()) == bytes, "{len}");
        let error = put(&other, &Condition::Absent).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        let same = Condition::Same(place.stamp(&key).unwrap().unwrap());
        put(&other, &same).unwrap();
        assert!(read_whole(&*place.open(&key).unwrap()) == other, "{len}");
        if knows_all || len < MIB {
            let error = put(&bytes, &same).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Transient, "{error}");
        }
        put(&bytes, &Condition::Any).unwrap();
        assert!(read_whole(&*place.open(&key).unwrap()) == bytes, "{len}");
        place.remove(&key).unwrap();
        place.remove(&key).unwrap();
        assert_eq!(place.stamp(&key).unwrap(), None);
    }
    // If an upload is dropped, no parts remain in the store.
    drop(sent(&place, "dropped", &pattern(40 * MIB)).unwrap());
    assert_eq!(place.stamp("dropped").unwrap(), None);
}
