//! View of an Event: reason, message and time.

use crate::object::Object;

/// An Event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'w>(pub &'w Object);

impl<'w> Event<'w> {
    /// Returns the kind, namespace and name of the object that the Event is about.
    pub(crate) fn regarding(self) -> (&'w str, &'w str, &'w str) {
        let text = |core, newer| match self.0.text(core) {
            "" => self.0.text(newer),
            text => text,
        };
        (
            text("/involvedObject/kind", "/regarding/kind"),
            text("/involvedObject/namespace", "/regarding/namespace"),
            text("/involvedObject/name", "/regarding/name"),
        )
    }

    /// Returns the reason, such as `Unhealthy`.
    pub(crate) fn reason(self) -> &'w str {
        self.0.text("/reason")
    }

    /// Returns the message.
    pub(crate) fn message(self) -> &'w str {
        match self.0.text("/message") {
            "" => self.0.text("/note"),
            message => message,
        }
    }

    /// Returns the RFC 3339 time of the last occurrence, or "".
    pub(crate) fn time(self) -> &'w str {
        [
            "/lastTimestamp",
            "/series/lastObservedTime",
            "/eventTime",
            "/metadata/creationTimestamp",
        ]
        .into_iter()
        .map(|pointer| self.0.text(pointer))
        .find(|time| !time.is_empty())
        .unwrap_or_default()
    }
}
