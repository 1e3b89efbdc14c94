//! [`Context`] across the boundary.

use super::guard::guard_or;
use crate::{Context, Limits};
use tensorferry_abi::abi_stable::std_types::RStr;
use tensorferry_abi::{self as abi, ContextRef};

pub(super) struct LentContext<'a>(pub(super) &'a dyn Context);

impl abi::Context for LentContext<'_> {
    fn limit(&self, name: RStr<'_>) -> u64 {
        guard_or(u64::MAX, || self.0.limits().get(name.as_str()).unwrap_or(u64::MAX))
    }

    fn is_cancelled(&self) -> bool {
        guard_or(false, || self.0.is_cancelled())
    }

    fn note(&self, message: RStr<'_>) {
        guard_or((), || self.0.note(message.as_str()));
    }
}

pub(super) struct RemoteContext<'a> {
    object: ContextRef<'a>,
    limits: Limits,
}

impl<'a> RemoteContext<'a> {
    pub(super) fn new(object: ContextRef<'a>) -> Self {
        let limits =
            Limits::from_lookup(|name| Some(object.limit(name.into())).filter(|&limit| limit != u64::MAX));
        Self { object, limits }
    }
}

impl Context for RemoteContext<'_> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn is_cancelled(&self) -> bool {
        self.object.is_cancelled()
    }

    fn note(&self, message: &str) {
        self.object.note(message.into());
    }
}
