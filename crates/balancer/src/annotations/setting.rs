//! One setting that annotations can select.

use super::row::{Annotation, ApplyError, Effect};

/// Value of a setting and the annotation that selects it. Two annotations may select the same value.
#[derive(Debug)]
pub struct Setting<T>(Option<(&'static str, T)>);

impl<T> Default for Setting<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> Setting<T> {
    /// Sets the value.
    ///
    /// # Errors
    /// [`ApplyError::Conflict`] if another annotation selects another value.
    pub fn set(&mut self, annotation: Annotation<'_>, value: T) -> Result<Effect, ApplyError> {
        match &self.0 {
            Some((first, present)) if *present != value => Err(ApplyError::Conflict(first)),
            _ => {
                self.0 = Some((annotation.name, value));
                Ok(Effect::Changed)
            }
        }
    }

    /// Sets the value. The effect is [`Effect::Unchanged`] if it equals `default`.
    ///
    /// # Errors
    /// [`ApplyError::Conflict`] if another annotation selects another value.
    pub fn set_with_default(
        &mut self,
        annotation: Annotation<'_>,
        value: T,
        default: T,
    ) -> Result<Effect, ApplyError> {
        let is_default = value == default;
        let effect = self.set(annotation, value)?;
        Ok(if is_default { Effect::Unchanged } else { effect })
    }

    /// Returns the value, if an annotation selects one.
    pub fn get(&self) -> Option<&T> {
        self.0.as_ref().map(|(_, value)| value)
    }

    /// Returns the name of the annotation that selects the value.
    pub fn source(&self) -> Option<&'static str> {
        self.0.as_ref().map(|(source, _)| *source)
    }
}

impl<T: Copy + PartialEq> Setting<T> {
    /// Returns the value, or `default` if no annotation selects one.
    pub fn get_or(&self, default: T) -> T {
        self.get().copied().unwrap_or(default)
    }
}
