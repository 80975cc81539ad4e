//! Errors and counters of a walk.

use std::cell::{Cell, RefCell};

use serde::de::Error;

use super::location::Location;

/// Maximum number of reported errors of one body, so that the response stays readable.
const STRICT_ERRORS_MAX: usize = 100;

/// Results of a walk besides the value.
pub(super) struct Findings {
    values: Cell<usize>,
    values_max: usize,
    pub(super) mismatch: RefCell<Option<String>>,
    strict_errors: RefCell<Vec<String>>,
}

impl Findings {
    /// Creates findings of a walk over `values_max` values at most.
    pub(super) fn new(values_max: usize) -> Self {
        Self {
            values: Cell::new(0),
            values_max,
            mismatch: RefCell::default(),
            strict_errors: RefCell::default(),
        }
    }

    /// Returns the number of values read.
    pub(super) fn values(&self) -> usize {
        self.values.get()
    }

    /// Returns true if the walk ended because of too many values.
    pub(super) fn has_too_many_values(&self) -> bool {
        self.values.get() > self.values_max
    }

    /// Counts one value.
    pub(super) fn count<E: Error>(&self) -> Result<(), E> {
        self.values.set(self.values.get() + 1);
        if self.has_too_many_values() {
            return Err(E::custom("too many values"));
        }
        Ok(())
    }

    /// Returns the first mismatch and all strict errors.
    pub(super) fn take(self) -> (Option<String>, Vec<String>) {
        (self.mismatch.into_inner(), self.strict_errors.into_inner())
    }

    /// Adds a strict error about a field, unless it is present or the bound is reached.
    pub(super) fn add_strict_error(&self, problem: &str, location: &Location<'_>, name: &str) {
        let mut errors = self.strict_errors.borrow_mut();
        if errors.len() < STRICT_ERRORS_MAX {
            let error = format!("{problem} field {:?}", location.path_to(name));
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
    }
}
