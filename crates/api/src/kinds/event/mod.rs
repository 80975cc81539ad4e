//! Rules of Events. One set of objects has two forms. The store has the form of the core group. The form of
//! `events.k8s.io` has other names for some fields and stricter validation.

mod form;
mod validate;

#[cfg(test)]
mod tests;

pub(crate) use form::core_selector;
pub use form::{GROUP, into_core, of_core};
pub use validate::{default_event_on_write, validate_core_event, validate_event, validate_event_update};
