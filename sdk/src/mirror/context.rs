//! [`Context`] across the boundary.

use super::guard::{guard, guard_or, received};
use super::source::{LentSource, RemoteSource};
use crate::{Context, Limits, Purpose, Result, Source};
use std::sync::Arc;
use tensorferry_abi::abi_stable::sabi_trait::TD_Opaque;
use tensorferry_abi::abi_stable::std_types::RStr;
use tensorferry_abi::{self as abi, AbiResult, ContextRef, SourceBox};

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

    fn purpose(&self) -> u32 {
        guard_or(Purpose::SHOW.0, || self.0.purpose().0)
    }

    fn open(&self, path: RStr<'_>) -> AbiResult<SourceBox> {
        guard("context.open", || {
            let source = LentSource(self.0.open(path.as_str())?);
            Ok(SourceBox::from_value(source, TD_Opaque))
        })
    }

    fn output_is_new(&self) -> bool {
        guard_or(false, || self.0.output_is_new())
    }

    fn threads(&self) -> u32 {
        guard_or(1, || u32::try_from(self.0.threads()).unwrap_or(u32::MAX))
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

    fn purpose(&self) -> Purpose {
        Purpose(self.object.purpose())
    }

    fn open(&self, path: &str) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(RemoteSource::new(received(self.object.open(path.into()))?)))
    }

    fn output_is_new(&self) -> bool {
        self.object.output_is_new()
    }

    fn threads(&self) -> usize {
        self.object.threads().max(1) as usize
    }
}
