//! Verb, target, query and accepted media types of a request, as upstream's `RequestInfo`.

use api::selector::FieldSelector;
use http::{Method, Request, Uri};

use super::negotiation::Accept;
use super::query::Query;
use super::route::{Route, Target, route};
use super::verb::Verb;
use crate::failure::Failure;

/// A request line and its Accept headers, parsed.
#[derive(Debug)]
pub(crate) struct RequestInfo {
    pub(crate) method: Method,
    uri: Uri,
    pub(crate) route: Route,
    /// Verb on objects; `None` for other routes and for methods that are not a verb.
    pub(crate) verb: Option<Verb>,
    pub(crate) query: Query,
    pub(crate) accept: Accept,
    /// Field selector of a request on objects; `None` if it is absent or invalid.
    pub(crate) field_selector: Option<FieldSelector>,
}

impl RequestInfo {
    /// Parses the request line.
    pub(crate) fn of<B>(request: &Request<B>, accept: Accept) -> RequestInfo {
        let uri = request.uri().clone();
        let method = request.method().clone();
        let query = Query::parse(uri.query().unwrap_or_default());
        let route = route(uri.path());
        let (verb, field_selector) = match &route {
            Route::Resource(target) => (
                target_verb(target, &method, &query),
                field_selector(target, &query),
            ),
            _ => (None, None),
        };
        RequestInfo {
            method,
            uri,
            route,
            verb,
            query,
            accept,
            field_selector,
        }
    }

    /// Returns the path of the URL, percent-encoded.
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    /// Returns the objects that the request is about; `None` for other routes.
    pub(crate) fn target(&self) -> Option<&Target> {
        match &self.route {
            Route::Resource(target) => Some(target),
            _ => None,
        }
    }

    /// Returns the name of the verb, or "" if the method has no verb.
    pub(crate) fn verb_name(&self) -> &'static str {
        self.verb.map_or("", Verb::name)
    }
}

/// Returns the verb to perform on a target, for the method and the verb of a [`RequestInfo`].
///
/// # Errors
/// 405 if discovery does not list the verb for the target.
pub(crate) fn served_verb(target: &Target, method: &Method, verb: Option<Verb>) -> Result<Verb, Failure> {
    let is_named = target.name.is_some();
    let verb = match verb {
        Some(Verb::Create) if is_named && target.subresource.is_none() => None,
        Some(Verb::Update | Verb::Patch) if !is_named => None,
        // As upstream: only proxied paths serve HEAD.
        Some(_) if target.proxy_path.is_none() && *method == Method::HEAD => None,
        // OPTIONS is proxied, too, though it is not a verb.
        None if target.proxy_path.is_some() && *method == Method::OPTIONS => Some(Verb::Get),
        verb => verb,
    };
    verb.filter(|verb| is_offered(*verb, target))
        .ok_or_else(Failure::method_not_allowed)
}

/// Returns the verb of a method on a target. The old form `/api/v1/watch/…` of a path watches one object, too.
fn target_verb(target: &Target, method: &Method, query: &Query) -> Option<Verb> {
    let is_named = target.name.is_some();
    let is_watch = target.is_watch_path || (!is_named && query.flag("watch") == Some(true));
    Verb::of_method(method, is_named, is_watch)
}

/// Returns the field selector of a query, parsed as the list parses it. Authorization and the list then use the same
/// selection.
fn field_selector(target: &Target, query: &Query) -> Option<FieldSelector> {
    let text = query.text("fieldSelector");
    if text.is_empty() {
        return None;
    }
    FieldSelector::parse(text, target.kind).ok()
}

/// Returns true if discovery lists the verb. Across all namespaces there are reads only.
fn is_offered(verb: Verb, target: &Target) -> bool {
    let offered = match target.subresource.and_then(|name| target.kind.subresource(name)) {
        Some(subresource) => subresource.verbs,
        None => target.kind.verbs,
    };
    let needs_namespace = matches!(verb, Verb::Create | Verb::DeleteCollection)
        && target.kind.namespaced
        && target.namespace.is_none();
    offered.contains(&verb.name()) && !needs_namespace
}

#[cfg(test)]
mod tests;
