//! From a path to what it means: data, decided once before anything else is looked at.

use std::borrow::Cow;

use api::kind::{self, Kind};

use crate::request::query::decode_segment;

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Route<'p> {
    /// Objects of a kind.
    Resource(Target),
    /// `/healthz`, `/livez`, `/readyz` and what is below them.
    Health,
    /// `/version`.
    Version,
    /// `/metrics`.
    Metrics,
    /// `/openid/v1/jwks`: the keys that tokens of ServiceAccounts are signed with.
    TokenKeys,
    /// `/.well-known/openid-configuration`: who signs them, and where the keys are.
    TokenIssuer,
    /// `/api`, `/apis`, `/openapi/…` and the like; the answer is a prepared document.
    Document(&'p str),
    /// A path of the API that names a resource or version which is not served.
    UnknownResource,
    /// Anything else.
    Unknown,
}

/// The objects that a request is about.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Their kind.
    pub(crate) kind: &'static Kind,
    /// The namespace, if the path has one.
    pub(crate) namespace: Option<String>,
    /// The object, if the path names one.
    pub(crate) name: Option<String>,
    /// What of the object.
    pub(crate) subresource: Option<&'static str>,
    /// Whether the path has the old form `/api/v1/watch/…`.
    pub(crate) is_watch_path: bool,
    /// The rest of the path as it came, if the subresource passes requests on: "" or a path of its own.
    pub(crate) proxy_path: Option<String>,
}

impl Target {
    /// All objects of a kind, or those in one namespace.
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

    /// One object; `namespace` does not count for a kind without namespaces.
    pub(crate) fn object(kind: &'static Kind, namespace: &str, name: &str) -> Target {
        Target {
            name: Some(name.to_owned()),
            ..Target::collection(kind, Some(namespace))
        }
    }

    /// The object at a store key of its kind.
    pub(crate) fn at_key(kind: &'static Kind, key: &str) -> Target {
        let mut segments = key.rsplit('/');
        let (name, namespace) = (segments.next(), segments.next());
        Target::object(kind, namespace.unwrap_or_default(), name.unwrap_or_default())
    }

    /// The same object's subresource.
    pub(crate) fn with_subresource(self, subresource: &'static str) -> Target {
        Target {
            subresource: Some(subresource),
            ..self
        }
    }

    /// The namespace, "" if the path has none.
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// The name, "" if the path has none.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// The kind of what is sent and answered here: the objects' own, but for subresources with a form of their own.
    pub(crate) fn sent_kind(&self) -> &'static Kind {
        let subresource = self.subresource.and_then(|name| self.kind.subresource(name));
        subresource
            .and_then(|subresource| subresource.sent)
            .unwrap_or(self.kind)
    }

    /// The store key of the named object.
    pub(crate) fn key(&self) -> String {
        self.kind.store_key(self.namespace(), self.name())
    }
}

/// Decides what `path` means.
pub(crate) fn route(path: &str) -> Route<'_> {
    let trimmed = path.trim_end_matches('/');
    let mut segments = trimmed.split('/').skip(1);
    let Some(first) = segments.next() else {
        return Route::Document(path);
    };
    match first {
        "api" => match segments.next() {
            None => Route::Document(trimmed),
            Some(version) => versioned(path, trimmed, "", version, segments.collect()),
        },
        "apis" => match (segments.next(), segments.next()) {
            (Some(group), Some(version)) if is_group(group) => {
                versioned(path, trimmed, group, version, segments.collect())
            }
            (Some(_), Some(_)) => Route::Unknown,
            _ => Route::Document(trimmed),
        },
        "openapi" => Route::Document(trimmed),
        "openid" if trimmed == "/openid/v1/jwks" => Route::TokenKeys,
        ".well-known" if trimmed == "/.well-known/openid-configuration" => Route::TokenIssuer,
        "healthz" | "livez" | "readyz" => Route::Health,
        "version" => Route::Version,
        "metrics" => Route::Metrics,
        _ => Route::Unknown,
    }
}

fn is_group(group: &str) -> bool {
    kind::all().iter().any(|kind| kind.group == group)
}

/// What a path of a group and version means: `path` as it came, and without slashes at its end.
fn versioned<'p>(
    path: &'p str,
    trimmed: &'p str,
    group: &str,
    version: &str,
    segments: Vec<&str>,
) -> Route<'p> {
    if segments.is_empty() {
        return Route::Document(trimmed);
    }
    let (is_watch_path, rest) = match segments.as_slice() {
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    // The name of a namespace is followed by a resource in it, unless that is a subresource of the namespace.
    let (namespace, rest) = match rest {
        ["namespaces", name, resource, after @ ..] if !is_namespace_subresource(resource, after) => {
            (Some(segment(name)), &rest[2..])
        }
        rest => (None, rest),
    };
    let (plural, name, subresource, passed) = match rest {
        [plural] => (plural, None, None, 0),
        [plural, name] => (plural, Some(segment(name)), None, 0),
        [plural, name, subresource] => (plural, Some(segment(name)), Some(*subresource), 0),
        [plural, name, subresource @ kind::PROXY, passed @ ..] => {
            (plural, Some(segment(name)), Some(*subresource), passed.len())
        }
        _ => return Route::UnknownResource,
    };
    let Some(kind) = kind::find(group, version, plural) else {
        return Route::UnknownResource;
    };
    let subresource = match subresource.map(|name| kind.subresource(name)) {
        None => None,
        Some(Some(subresource)) => Some(subresource.name),
        Some(None) => return Route::UnknownResource,
    };
    // Namespaced objects are named within a namespace, others never.
    if (kind.namespaced && name.is_some() && namespace.is_none()) || (!kind.namespaced && namespace.is_some())
    {
        return Route::UnknownResource;
    }
    let proxy_path = (subresource == Some(kind::PROXY)).then(|| proxy_path(path, trimmed, passed).to_owned());
    Route::Resource(Target {
        kind,
        namespace,
        name,
        subresource,
        is_watch_path,
        proxy_path,
    })
}

/// The end of a path: that many segments of what is left without slashes at its end, and those slashes.
fn proxy_path<'p>(path: &'p str, trimmed: &str, segments: usize) -> &'p str {
    let begin = match segments {
        0 => trimmed.len(),
        count => trimmed.rmatch_indices('/').nth(count - 1).map_or(0, |(at, _)| at),
    };
    path.get(begin..).unwrap_or_default()
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
