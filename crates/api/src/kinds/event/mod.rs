//! Rules of Events. One set of objects has two forms: that of the core group, which is stored, and that of
//! `events.k8s.io`, with other names for some fields and stricter validation.

mod form;
mod validate;

#[cfg(test)]
mod tests;

pub(crate) use form::core_selector;
pub use form::{GROUP, into_core, of_core};
pub use validate::{default_event_on_write, validate_core_event, validate_event, validate_event_update};
