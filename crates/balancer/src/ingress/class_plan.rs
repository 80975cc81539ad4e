//! Hosts of a class: the namespace that owns each, its routes and its Secret. Pure.
//!
//! A host belongs to the namespace of the oldest Ingress that names it. All Ingresses of the namespace that name the
//! host share its paths. The owner depends on the objects only, so all edges with the same objects select the same
//! owner, also after a restart.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use api::object::{Ingress, IngressBackend, ObjectKey, ServiceBackendPort};
use edge::routes::PathMatching;

use super::SSL_REDIRECT_ANNOTATION;

/// Maximum number of routes of a host. Each request is compared with them in turn.
const ROUTES_MAX: usize = 1_000;
/// Maximum number of Secrets of one namespace. Edges read 20 Secrets a second, those of all namespaces in turn.
const SECRETS_MAX: usize = 1_000;

/// Namespaces of hosts.
type HostOwners = BTreeMap<String, Arc<str>>;

/// Hosts of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassPlan {
    /// Plan of each host in lower case; `""` stands for any other host.
    pub hosts: BTreeMap<String, HostPlan>,
    /// Problems of each Ingress that has some.
    pub problems: BTreeMap<ObjectKey, BTreeSet<Problem>>,
}

/// Routes and Secret of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    /// Namespace that owns the host.
    pub namespace: Arc<str>,
    /// Routes. Of equal routes the first one has precedence.
    pub routes: Vec<RoutePlan>,
    /// Certificate of the host.
    pub tls: Option<TlsPlan>,
}

impl HostPlan {
    /// Returns true if a route matches all paths. Later routes of this kind then receive no request.
    fn has_route_of_all_paths(&self) -> bool {
        let mut routes = self.routes.iter();
        routes.any(|route| route.matching == PathMatching::Prefix && &*route.path == "/")
    }
}

/// Certificate of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPlan {
    /// Secret with the certificate.
    pub secret: ObjectKey,
    /// Ingress that names the Secret.
    pub ingress: ObjectKey,
    /// True if requests without TLS are redirected, once there is a certificate.
    pub redirects: bool,
}

/// Route of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePlan {
    /// Path, which starts with `/`.
    pub path: Arc<str>,
    /// Comparison with the path of a request.
    pub matching: PathMatching,
    /// Port of a Service; `None` for another kind of backend.
    pub backend: Option<BackendPlan>,
    /// Ingress with the route.
    pub ingress: ObjectKey,
}

/// Port of a Service to which a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendPlan {
    /// Service, in the namespace of the Ingress.
    pub service: ObjectKey,
    /// Name or number of its port.
    pub port: ServiceBackendPort,
}

/// Problem of an Ingress.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// The host belongs to another namespace.
    HostConflict(String),
    /// A backend is not a Service.
    ResourceBackend,
    /// The host has more routes than are served.
    TooManyRoutes(String),
    /// The Ingresses of the namespace name more Secrets than are used.
    TooManySecrets,
}

impl ClassPlan {
    /// Plans the hosts of the Ingresses of a class.
    pub fn new<'i>(ingresses: impl IntoIterator<Item = &'i Ingress>) -> Self {
        let mut ingresses: Vec<&Ingress> = ingresses
            .into_iter()
            .filter(|ingress| ingress.metadata.deletion_timestamp.is_none())
            .collect();
        ingresses.sort_by(|a, b| a.precedence().cmp(&b.precedence()));
        let owners = owners(&ingresses);
        let mut used_secrets = UsedSecrets::default();
        let mut plan = Self::default();
        for ingress in &ingresses {
            plan.add(ingress, &owners, &mut used_secrets);
        }
        // Routes to the default backend come after those of all rules.
        for ingress in ingresses {
            plan.add_default(ingress, &owners);
        }
        plan
    }

    /// Returns the Secrets of all hosts.
    pub fn secrets(&self) -> impl Iterator<Item = &ObjectKey> {
        self.hosts
            .values()
            .filter_map(|host| Some(&host.tls.as_ref()?.secret))
    }

    /// Returns the Services to which routes lead.
    pub fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        let routes = self.hosts.values().flat_map(|host| &host.routes);
        routes.filter_map(|route| Some(&route.backend.as_ref()?.service))
    }

    /// Adds the hosts, routes and certificates of an Ingress.
    fn add(&mut self, ingress: &Ingress, owners: &HostOwners, used_secrets: &mut UsedSecrets) {
        let secrets = Secrets::new(ingress);
        for rule in &ingress.spec.rules {
            let host = rule.host.to_ascii_lowercase();
            let paths = rule.http.iter().flat_map(|http| &http.paths);
            let routes: Vec<RoutePlan> = paths
                .map(|path| {
                    let matching = match path.path_type.as_str() {
                        "Exact" => PathMatching::Exact,
                        _ => PathMatching::Prefix,
                    };
                    route(ingress, &path.path, matching, &path.backend)
                })
                .collect();
            if routes.iter().any(|route| route.backend.is_none()) {
                self.add_problem(ingress, Problem::ResourceBackend);
            }
            let Some(plan) = self.host(ingress, &host, owners) else {
                continue;
            };
            plan.routes.extend(routes);
            let has_surplus_routes = plan.routes.len() > ROUTES_MAX;
            plan.routes.truncate(ROUTES_MAX);
            let has_tls = plan.tls.is_some();
            let tls = if has_tls { None } else { secrets.of(&host) };
            let is_surplus_secret = tls.as_ref().is_some_and(|tls| !used_secrets.admit(&tls.secret));
            if tls.is_some() && !is_surplus_secret {
                plan.tls = tls;
            }
            if is_surplus_secret {
                self.add_problem(ingress, Problem::TooManySecrets);
            }
            if has_surplus_routes {
                self.add_problem(ingress, Problem::TooManyRoutes(host));
            }
        }
    }

    fn add_default(&mut self, ingress: &Ingress, owners: &HostOwners) {
        let Some(backend) = &ingress.spec.default_backend else {
            return;
        };
        let route = route(ingress, "/", PathMatching::Prefix, backend);
        if route.backend.is_none() {
            self.add_problem(ingress, Problem::ResourceBackend);
        }
        for host in ingress.hosts() {
            if let Some(plan) = self.host(ingress, &host, owners)
                && !plan.has_route_of_all_paths()
            {
                plan.routes.push(route.clone());
            }
        }
    }

    /// Returns the plan of a host, or records that it belongs to another namespace.
    fn host(&mut self, ingress: &Ingress, host: &str, owners: &HostOwners) -> Option<&mut HostPlan> {
        let owner = owners.get(host)?;
        if **owner != *ingress.metadata.namespace {
            self.add_problem(ingress, Problem::HostConflict(host.to_owned()));
            return None;
        }
        let plan = self.hosts.entry(host.to_owned());
        Some(plan.or_insert_with(|| HostPlan {
            namespace: Arc::clone(owner),
            routes: Vec::new(),
            tls: None,
        }))
    }

    fn add_problem(&mut self, ingress: &Ingress, problem: Problem) {
        let problems = self.problems.entry(ingress.metadata.key()).or_default();
        problems.insert(problem);
    }
}

/// Returns the namespace of each host: that of the first Ingress.
fn owners(ingresses: &[&Ingress]) -> HostOwners {
    let mut owners = HostOwners::new();
    for ingress in ingresses {
        for host in ingress.hosts() {
            let owner = owners.entry(host);
            owner.or_insert_with(|| ingress.metadata.namespace.as_str().into());
        }
    }
    owners
}

fn route(ingress: &Ingress, path: &str, matching: PathMatching, backend: &IngressBackend) -> RoutePlan {
    let namespace = &ingress.metadata.namespace;
    RoutePlan {
        path: if path.is_empty() { "/" } else { path }.into(),
        matching,
        backend: backend.service.as_ref().map(|service| BackendPlan {
            service: ObjectKey::new(namespace, &service.name),
            port: service.port.clone(),
        }),
        ingress: ingress.metadata.key(),
    }
}

/// Secrets that hosts use, by namespace.
#[derive(Default)]
struct UsedSecrets(HashMap<Arc<str>, HashSet<ObjectKey>>);

impl UsedSecrets {
    /// Returns true if a host may use the Secret: its namespace is within the bound of Secrets.
    fn admit(&mut self, secret: &ObjectKey) -> bool {
        let used = self.0.entry(Arc::clone(&secret.namespace)).or_default();
        used.contains(secret) || (used.len() < SECRETS_MAX && used.insert(secret.clone()))
    }
}

/// Secrets of an Ingress by host. An Ingress may have as many hosts as entries.
struct Secrets<'i> {
    ingress: &'i Ingress,
    /// Position and Secret of the first entry with each host, in lower case.
    by_host: HashMap<String, (usize, &'i str)>,
    /// Position and Secret of the first entry without hosts.
    for_all_hosts: Option<(usize, &'i str)>,
}

impl<'i> Secrets<'i> {
    fn new(ingress: &'i Ingress) -> Self {
        let mut secrets = Self {
            ingress,
            by_host: HashMap::new(),
            for_all_hosts: None,
        };
        let entries = ingress.spec.tls.iter().enumerate();
        for (position, tls) in entries.filter(|(_, tls)| !tls.secret_name.is_empty()) {
            let found = (position, tls.secret_name.as_str());
            if tls.hosts.is_empty() {
                secrets.for_all_hosts.get_or_insert(found);
            }
            for host in &tls.hosts {
                secrets.by_host.entry(host.to_ascii_lowercase()).or_insert(found);
            }
        }
        secrets
    }

    /// Returns the certificate of a host: that of the first entry with the host, a wildcard for it, or without hosts.
    fn of(&self, host: &str) -> Option<TlsPlan> {
        if host.is_empty() {
            return None;
        }
        let wildcard = host
            .split_once('.')
            .and_then(|(_, parent)| self.by_host.get(&format!("*.{parent}")));
        let candidates = [self.by_host.get(host), wildcard, self.for_all_hosts.as_ref()];
        let (_, secret) = candidates.into_iter().flatten().min()?;
        let meta = &self.ingress.metadata;
        let annotation = meta.annotations.get(SSL_REDIRECT_ANNOTATION);
        Some(TlsPlan {
            secret: ObjectKey::new(&meta.namespace, secret),
            ingress: meta.key(),
            redirects: annotation.is_none_or(|value| value != "false"),
        })
    }
}

#[cfg(test)]
mod tests;
