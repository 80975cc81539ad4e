//! Routes: the meaning of a path.

use std::borrow::Cow;

use api::kind::{self, Kind};

use crate::request::query::decode_segment;

/// Path of the list of CustomResourceDefinitions.
const CUSTOM_RESOURCE_DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Meaning of a path.
#[derive(Debug)]
pub(crate) enum Route {
    /// Objects of a kind.
    Resource(Target),
    /// `/healthz`, `/livez`, `/readyz` and paths below them.
    Health,
    /// `/version`.
    Version,
    /// `/metrics`.
    Metrics,
    /// `/openid/v1/jwks`: public keys of ServiceAccount tokens.
    TokenKeys,
    /// `/.well-known/openid-configuration`: issuer of ServiceAccount tokens and URL of its keys.
    TokenIssuer,
    /// `/api`, `/apis`, `/openapi/…` and `/`: discovery documents.
    Document,
    /// The list of CustomResourceDefinitions, which is empty.
    CustomResourceDefinitions,
    /// API path of a resource or version that is not served.
    UnknownResource,
    /// Subresource of Pods that upstream serves, and this server does not.
    UnservedSubresource,
    /// Any other path.
    Unknown,
}

/// Object or collection that a request is about.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Kind of the objects.
    pub(crate) kind: &'static Kind,
    /// Namespace; `None` for cluster-scoped objects and across all namespaces.
    pub(crate) namespace: Option<String>,
    /// Name of the object; `None` for a collection.
    pub(crate) name: Option<String>,
    /// Subresource of the object.
    pub(crate) subresource: Option<&'static str>,
    /// True if the path has the old form `/api/v1/watch/…`.
    pub(crate) is_watch_path: bool,
    /// Path behind `/proxy`, percent-encoded, or ""; `None` for requests that are not proxied.
    pub(crate) proxy_path: Option<String>,
}

impl Target {
    /// Returns the collection of a kind, in one namespace or in all.
    pub(crate) fn collection(kind: &'static Kind, namespace: Option<&str>) -> Target {
        Target {
            kind,
            namespace: namespace.filter(|_| kind.namespaced).map(str::to_owned),
            name: None,
            subresource: None,
            is_watch_path: false,
            proxy_path: None,
        }
    }

    /// Returns one object; `namespace` is ignored for a cluster-scoped kind.
    pub(crate) fn object(kind: &'static Kind, namespace: &str, name: &str) -> Target {
        Target {
            name: Some(name.to_owned()),
            ..Target::collection(kind, Some(namespace))
        }
    }

    /// Returns the object at a store key of its kind.
    pub(crate) fn at_key(kind: &'static Kind, key: &str) -> Target {
        let mut segments = key.rsplit('/');
        let (name, namespace) = (segments.next(), segments.next());
        Target::object(kind, namespace.unwrap_or_default(), name.unwrap_or_default())
    }

    /// Returns the subresource of the object.
    pub(crate) fn with_subresource(self, subresource: &'static str) -> Target {
        Target {
            subresource: Some(subresource),
            ..self
        }
    }

    /// Returns the namespace, "" if it is absent.
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the name, "" if it is absent.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Returns the kind of request and response bodies. Some subresources have a kind of their own.
    pub(crate) fn sent_kind(&self) -> &'static Kind {
        let subresource = self.subresource.and_then(|name| self.kind.subresource(name));
        subresource
            .and_then(|subresource| subresource.body_kind)
            .unwrap_or(self.kind)
    }

    /// Returns the store key of the named object.
    pub(crate) fn key(&self) -> String {
        self.kind.store_key(self.namespace(), self.name())
    }
}

/// Parses a path.
pub(crate) fn route(path: &str) -> Route {
    let trimmed = path.trim_end_matches('/');
    let mut segments = trimmed.split('/').skip(1);
    let Some(first) = segments.next() else {
        return Route::Document;
    };
    match first {
        "api" => match segments.next() {
            None => Route::Document,
            Some(version) => parse_versioned(path, trimmed, "", version, segments.collect()),
        },
        "apis" => match (segments.next(), segments.next()) {
            (Some(group), Some(version)) if is_group(group) => {
                parse_versioned(path, trimmed, group, version, segments.collect())
            }
            (Some(_), Some(_)) if trimmed == CUSTOM_RESOURCE_DEFINITIONS => Route::CustomResourceDefinitions,
            (Some(_), Some(_)) => Route::Unknown,
            (Some(group), None) if !is_group(group) => Route::Unknown,
            _ => Route::Document,
        },
        "openapi" => Route::Document,
        "openid" if trimmed == "/openid/v1/jwks" => Route::TokenKeys,
        ".well-known" if trimmed == "/.well-known/openid-configuration" => Route::TokenIssuer,
        "healthz" | "livez" | "readyz" if !path.ends_with('/') => Route::Health,
        "version" => Route::Version,
        "metrics" => Route::Metrics,
        _ => Route::Unknown,
    }
}

fn is_group(group: &str) -> bool {
    kind::served().any(|kind| kind.group == group)
}

/// Parses the segments behind group and version. `path` is the whole path, `trimmed` without slashes at its end.
fn parse_versioned(path: &str, trimmed: &str, group: &str, version: &str, segments: Vec<&str>) -> Route {
    if segments.is_empty() {
        return Route::Document;
    }
    let (is_watch_path, rest) = match segments.as_slice() {
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    // A resource follows a namespace, unless it is a subresource of the Namespace.
    let (namespace, rest) = match rest {
        ["namespaces", name, resource, after @ ..] if !is_namespace_subresource(resource, after) => {
            (Some(segment(name)), &rest[2..])
        }
        rest => (None, rest),
    };
    let (plural, name, subresource, proxied) = match rest {
        [plural] => (plural, None, None, 0),
        [plural, name] => (plural, Some(segment(name)), None, 0),
        [plural, name, subresource] => (plural, Some(segment(name)), Some(*subresource), 0),
        [plural, name, subresource @ kind::PROXY, proxied @ ..] => {
            (plural, Some(segment(name)), Some(*subresource), proxied.len())
        }
        _ => return Route::UnknownResource,
    };
    let Some(kind) = kind::find(group, version, plural) else {
        return Route::UnknownResource;
    };
    // A named object has a namespace exactly if its kind is namespaced.
    if (kind.namespaced && name.is_some() && namespace.is_none()) || (!kind.namespaced && namespace.is_some())
    {
        return Route::UnknownResource;
    }
    // A review has no name, and a namespaced one no path across all namespaces.
    if !kind.is_stored() && (name.is_some() || (kind.namespaced && namespace.is_none())) {
        return Route::UnknownResource;
    }
    let subresource = match subresource.map(|name| (name, kind.subresource(name))) {
        None => None,
        Some((_, Some(subresource))) => Some(subresource.name),
        Some((name, None)) if is_unserved(kind, name) => return Route::UnservedSubresource,
        Some(_) => return Route::UnknownResource,
    };
    let proxy_path =
        (subresource == Some(kind::PROXY)).then(|| proxy_path(path, trimmed, proxied).to_owned());
    Route::Resource(Target {
        kind,
        namespace,
        name,
        subresource,
        is_watch_path,
        proxy_path,
    })
}

/// Returns the last segments of a path, with the slashes at its end.
fn proxy_path<'p>(path: &'p str, trimmed: &str, segments: usize) -> &'p str {
    let begin = match segments {
        0 => trimmed.len(),
        count => trimmed.rmatch_indices('/').nth(count - 1).map_or(0, |(at, _)| at),
    };
    path.get(begin..).unwrap_or_default()
}

fn is_unserved(kind: &Kind, subresource: &str) -> bool {
    kind.kind == "Pod" && matches!(subresource, "binding" | "eviction")
}

fn is_namespace_subresource(segment: &str, after: &[&str]) -> bool {
    after.is_empty() && matches!(segment, "status" | "finalize")
}

fn segment(text: &str) -> String {
    match decode_segment(text) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    }
}

#[cfg(test)]
mod tests;
