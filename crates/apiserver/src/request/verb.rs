//! Verbs of requests on objects.

use http::Method;

/// Verb of a request on objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// Returns the verb of a method on one named object or on a collection, as upstream's `RequestInfoFactory` derives
    /// it. Returns `None` for other methods.
    pub(crate) fn of_method(method: &Method, is_named: bool, is_watch: bool) -> Option<Verb> {
        match (method.as_str(), is_named) {
            ("GET" | "HEAD", _) if is_watch => Some(Verb::Watch),
            ("GET" | "HEAD", true) => Some(Verb::Get),
            ("GET" | "HEAD", false) => Some(Verb::List),
            ("POST", _) => Some(Verb::Create),
            ("PUT", _) => Some(Verb::Update),
            ("PATCH", _) => Some(Verb::Patch),
            ("DELETE", true) => Some(Verb::Delete),
            ("DELETE", false) => Some(Verb::DeleteCollection),
            _ => None,
        }
    }

    /// Returns true if the verb changes nothing.
    pub(crate) fn is_read(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }

    /// Returns the name in discovery documents, roles and audit events.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }

    /// Returns the value of the label `verb` of upstream's request metrics.
    pub(crate) fn metrics_label(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::List => "LIST",
            Verb::Watch => "WATCH",
            Verb::Create => "POST",
            Verb::Update => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
            Verb::DeleteCollection => "DELETECOLLECTION",
        }
    }
}
