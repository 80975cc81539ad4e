//! Events: one set of objects in two forms, that of the core group, in which they are kept, and that of
//! `events.k8s.io`, which has other names for some fields and stricter rules for what is written.

mod form;
mod validate;

#[cfg(test)]
mod tests;

pub(crate) use form::core_selector;
pub use form::{GROUP, into_core, of_core};
pub use validate::{default_event_on_write, validate_core_event, validate_event, validate_event_update};
