//! Attributes of a request on which authorization decides.

use api::rbac::Action;
use api::selector::FieldSelector;
use http::Method;

use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::request::route::Target;
use crate::request::verb::Verb;

/// User, place and action of a request.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a> {
    pub(crate) user: &'a Identity,
    /// "" for all namespaces, and for cluster-scoped objects.
    pub(crate) namespace: &'a str,
    pub(crate) action: Action<'a>,
    /// Node to which the field selector of a list or watch restricts Pods; "" if it does not.
    pub(crate) selected_node: &'a str,
}

impl<'a> Attributes<'a> {
    /// Creates attributes without a field selector.
    pub(crate) fn new(user: &'a Identity, namespace: &'a str, action: Action<'a>) -> Attributes<'a> {
        Attributes {
            user,
            namespace,
            action,
            selected_node: "",
        }
    }

    /// Returns the attributes of a request for objects. A list, watch or deletecollection whose `selector` names one
    /// object is a request for that object.
    pub(crate) fn of_target(
        user: &'a Identity,
        target: &'a Target,
        verb: &'a str,
        selector: Option<&'a FieldSelector>,
    ) -> Attributes<'a> {
        // Other verbs do not use selectors: their object is in the path or body.
        let selector = selector.filter(|_| matches!(verb, "list" | "watch" | "deletecollection"));
        let selected = |field| selector.and_then(|selector| selector.exact(field));
        // A Namespace object belongs to itself: rights in the namespace include rights to the object.
        let namespace = match target.kind.kind {
            "Namespace" => target.name(),
            _ => target.namespace(),
        };
        let action = Action::Resource {
            verb,
            group: target.kind.group,
            resource: target.kind.plural,
            subresource: target.subresource.unwrap_or_default(),
            name: target
                .name
                .as_deref()
                .or_else(|| selected("metadata.name"))
                .unwrap_or_default(),
        };
        Attributes {
            selected_node: selected("spec.nodeName").unwrap_or_default(),
            ..Attributes::new(user, namespace, action)
        }
    }

    /// Returns the attributes of a request for a path that the server does not serve as objects.
    pub(crate) fn of_path(
        user: &'a Identity,
        path: &'a str,
        method: &'a Method,
        lower: &'a str,
    ) -> Attributes<'a> {
        match resource_path(path) {
            None => Attributes::new(user, "", Action::Path { verb: lower, path }),
            Some(parts) => {
                let action = Action::Resource {
                    verb: Verb::of_method(method, !parts.name.is_empty(), parts.is_watch_path)
                        .map_or("", Verb::name),
                    group: parts.group,
                    resource: parts.resource,
                    subresource: parts.subresource,
                    name: parts.name,
                };
                Attributes::new(user, parts.namespace, action)
            }
        }
    }

    /// Returns the 403 response with upstream's message; `reason` is appended if it is not empty.
    pub(crate) fn refusal(&self, reason: &str) -> Failure {
        let user = &self.user.user;
        let mut message = match self.action {
            Action::Path { verb, path } => format!("User {user:?} cannot {verb} path {path:?}"),
            Action::Resource {
                verb,
                group,
                resource,
                subresource,
                ..
            } => {
                let separator = if subresource.is_empty() { "" } else { "/" };
                let scope = match self.namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                format!(
                    "User {user:?} cannot {verb} resource \"{resource}{separator}{subresource}\" \
                     in API group {group:?} {scope}"
                )
            }
        };
        if !reason.is_empty() {
            message = format!("{message}: {reason}");
        }
        match self.action {
            Action::Path { .. } => Failure::forbidden_for("", "", "", &message),
            Action::Resource {
                group,
                resource,
                name,
                ..
            } => Failure::forbidden_for(group, resource, name, &message),
        }
    }
}

/// Parts of a path that has the form of a path to objects.
struct ResourcePath<'p> {
    group: &'p str,
    resource: &'p str,
    subresource: &'p str,
    namespace: &'p str,
    name: &'p str,
    is_watch_path: bool,
}

fn resource_path(path: &str) -> Option<ResourcePath<'_>> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let (group, rest) = match segments.as_slice() {
        ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
        ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
        _ => return None,
    };
    let (is_watch_path, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", name, after @ ..] if !matches!(after, [] | ["status" | "finalize"]) => (*name, after),
        ["namespaces", name, ..] => (*name, rest),
        rest => ("", rest),
    };
    let part = |index: usize| rest.get(index).copied().unwrap_or_default();
    Some(ResourcePath {
        group,
        resource: part(0),
        subresource: part(2),
        namespace,
        name: part(1),
        is_watch_path,
    })
}
