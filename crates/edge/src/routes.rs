//! Routes of HTTP requests: a table from host and path to the port of a Service without addresses of its own. Pure.
//!
//! An exact host has precedence over a wildcard, whose first label stands for exactly one label. Within a host the
//! longest path has precedence, and an exact path over a prefix of the same length. A prefix matches whole elements of
//! a path: `/a` matches `/a/b` and not `/ab`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::port_key::PortKey;

/// Routes of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTable {
    /// Routes of exact hosts, by name in lower case.
    hosts: BTreeMap<Arc<str>, HostRoutes>,
    /// Routes of wildcards, by the name behind `*.` in lower case.
    wildcards: BTreeMap<Arc<str>, HostRoutes>,
    /// Routes of requests for any other host.
    others: HostRoutes,
}

/// Routes of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRoutes {
    /// Owner of the host. A TLS connection for a host of one owner serves no hosts of others.
    pub owner: Arc<str>,
    /// Port of `https://` to which requests without TLS are redirected.
    pub redirects_to_https: Option<u16>,
    /// Uses the routes of any host for paths without a route.
    pub falls_through: bool,
    /// Routes, in the order of precedence after [`RouteTable::insert`].
    pub routes: Vec<Route>,
}

/// Route of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Path, which starts with `/`.
    pub path: Arc<str>,
    /// Comparison with the path of a request.
    pub matching: PathMatching,
    /// Port whose backends receive the request; `None` for a backend that does not exist.
    pub target: Option<PortKey>,
}

/// Comparison of a path with that of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMatching {
    /// Equal paths.
    Exact,
    /// Elements of the path, separated by `/`, are the first ones of the request's path.
    Prefix,
}

impl Route {
    fn matches(&self, path: &str) -> bool {
        match self.matching {
            PathMatching::Exact => *self.path == *path,
            PathMatching::Prefix => {
                let prefix = self.path.trim_end_matches('/');
                let rest = path.strip_prefix(prefix);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
    }
}

impl HostRoutes {
    fn find(&self, path: &str) -> Option<&Route> {
        self.routes.iter().find(|route| route.matches(path))
    }
}

impl RouteTable {
    /// Sets the routes of a host: a name, a wildcard such as `*.example.com`, or `""` for any other host. Of several
    /// equal routes the first one has precedence.
    pub fn insert(&mut self, host: &str, mut routes: HostRoutes) {
        routes.routes.sort_by_key(|route| {
            let is_prefix = route.matching == PathMatching::Prefix;
            // A slash at the end of a prefix has no effect.
            let compared = if is_prefix {
                route.path.trim_end_matches('/')
            } else {
                &*route.path
            };
            (Reverse(compared.len()), is_prefix)
        });
        let host = host.to_ascii_lowercase();
        if host.is_empty() {
            self.others = routes;
        } else if let Some(parent) = host.strip_prefix("*.") {
            self.wildcards.insert(parent.into(), routes);
        } else {
            self.hosts.insert(host.into(), routes);
        }
    }

    /// Returns the port of `https://` to which a request without TLS for `authority` is redirected.
    pub fn redirect(&self, authority: &str) -> Option<u16> {
        self.host(&host_of(authority)).redirects_to_https
    }

    /// Returns true if two hosts have the same owner. A client may use one TLS connection for all hosts of a
    /// certificate (RFC 9113, section 9.1.1).
    pub fn have_same_owner(&self, authority: &str, other: &str) -> bool {
        let (host, other) = (host_of(authority), host_of(other));
        host == other || self.host(&host).owner == self.host(&other).owner
    }

    /// Returns the route of a request; `None` without one.
    pub fn find(&self, authority: &str, path: &str) -> Option<&Route> {
        let host = self.host(&host_of(authority));
        let found = host.find(path);
        if found.is_none() && host.falls_through {
            return self.others.find(path);
        }
        found
    }

    fn host(&self, host: &str) -> &HostRoutes {
        let exact = self.hosts.get(host);
        let wildcard = || {
            let (first, parent) = host.split_once('.')?;
            self.wildcards.get(parent).filter(|_| !first.is_empty())
        };
        exact.or_else(wildcard).unwrap_or(&self.others)
    }
}

/// Returns the host of an authority in lower case, without port and without the dot of the root.
fn host_of(authority: &str) -> String {
    let end = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let port = authority.get(end..).and_then(|rest| rest.find(':'));
    let host = port.and_then(|colon| authority.get(..end + colon));
    let host = host.unwrap_or(authority);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
