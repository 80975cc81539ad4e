//! What a node knows for its edge, and what the edge is to serve: settings as a pure function of Services, slices,
//! certificates and of the addresses that the node has. Only what was touched is made anew.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use api::object::{AddressType, Condition, EndpointSlice, ObjectKey, Protocol, Service};
use edge::settings::{
    AccessLog, Backend, Frontend, Listener, LogDestination, ServiceName, ServiceSettings, Settings,
    Stickiness, Tls,
};

use super::certificates::Certificates;
use super::{Addresses, Buckets};
use crate::annotations;
use crate::annotations::value::SecretName;
use crate::annotations::wish::{EdgeWish, FrontendWish, ListenerWish, LogWish};
use crate::core::{CONDITION, IngressMode};

#[cfg(test)]
mod tests;

/// What does not change while the process runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// The Node.
    pub node_name: Arc<str>,
    /// Whether access logs can go to a directory.
    pub has_directory: bool,
    /// The buckets that access logs can go to.
    pub buckets: Buckets,
}

/// Which addresses this node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owned {
    /// These.
    These(Addresses),
    /// All of them.
    All,
}

impl Owned {
    fn has(&self, address: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::These(addresses) => addresses.contains(&address),
        }
    }
}

/// A Service that is the edge's.
#[derive(Debug)]
pub struct Served {
    /// The Service.
    pub service: Service,
    /// What it asks for.
    pub wish: EdgeWish,
    /// Its addresses.
    pub addresses: Addresses,
}

/// What is known of the secret that cookies of sticky sessions are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CookieSecret {
    /// Nothing yet.
    Unread,
    /// There is none, and why.
    Missing(Arc<str>),
    /// It is there.
    Known,
}

/// All that is known.
#[derive(Debug)]
pub struct World {
    place: Place,
    owned: Owned,
    services: HashMap<ObjectKey, Served>,
    /// The slices of each Service.
    slices: HashMap<ObjectKey, HashMap<ObjectKey, EndpointSlice>>,
    /// The Service of a slice.
    slice_owners: HashMap<ObjectKey, ObjectKey>,
    /// What the Secrets were found to be.
    pub certificates: Certificates,
    cookie_secret: CookieSecret,
    touched: BTreeSet<ObjectKey>,
    settings: Settings,
    /// What is wrong with a Service, besides what the edge finds out.
    complaints: HashMap<ObjectKey, Vec<String>>,
}

impl World {
    /// A world in which nothing is known.
    pub fn new(place: Place, owned: Owned) -> Self {
        Self {
            place,
            owned,
            services: HashMap::new(),
            slices: HashMap::new(),
            slice_owners: HashMap::new(),
            certificates: Certificates::default(),
            cookie_secret: CookieSecret::Unread,
            touched: BTreeSet::new(),
            settings: Settings::new(),
            complaints: HashMap::new(),
        }
    }

    /// A Service is there, new or changed.
    pub fn service_applied(&mut self, service: Service) {
        let key = service.metadata.key();
        let addresses = addresses(&service);
        let reading = annotations::read(&service);
        // The assigner withdraws the address; until then nobody is served, rather than everybody.
        let is_enforced = reading.restrictions.withholds(true).is_none();
        match reading.edge.filter(|_| is_enforced && !addresses.is_empty()) {
            None => self.service_deleted(&key),
            Some(wish) => {
                let served = Served {
                    service,
                    wish,
                    addresses,
                };
                self.services.insert(key.clone(), served);
                self.touched.insert(key);
            }
        }
    }

    /// A Service is gone.
    pub fn service_deleted(&mut self, key: &ObjectKey) {
        if self.services.remove(key).is_some() {
            self.touched.insert(key.clone());
        }
    }

    /// A slice is there, new or changed.
    pub fn slice_applied(&mut self, slice: EndpointSlice) {
        let key = slice.metadata.key();
        let owner = slice
            .service_name()
            .map(|name| ObjectKey::new(&slice.metadata.namespace, name));
        if self.slice_owners.get(&key) != owner.as_ref() {
            self.slice_deleted(&key);
        }
        let Some(owner) = owner else { return };
        self.slice_owners.insert(key.clone(), owner.clone());
        self.slices.entry(owner.clone()).or_default().insert(key, slice);
        self.touch(owner);
    }

    /// A slice is gone.
    pub fn slice_deleted(&mut self, key: &ObjectKey) {
        let Some(owner) = self.slice_owners.remove(key) else {
            return;
        };
        if let Some(slices) = self.slices.get_mut(&owner) {
            slices.remove(key);
            if slices.is_empty() {
                self.slices.remove(&owner);
            }
        }
        self.touch(owner);
    }

    /// Slices are not followed any more.
    pub fn forget_slices(&mut self) {
        self.slices.clear();
        self.slice_owners.clear();
    }

    /// This node has these addresses.
    pub fn set_owned(&mut self, owned: Owned) {
        if self.owned == owned {
            return;
        }
        let before = std::mem::replace(&mut self.owned, owned);
        let moved = self.services.iter().filter(|(_, served)| {
            let mut addresses = served.addresses.iter();
            addresses.any(|address| before.has(*address) != self.owned.has(*address))
        });
        self.touched.extend(moved.map(|(key, _)| key.clone()));
    }

    /// A Secret is something else than before.
    pub fn secret_changed(&mut self, secret: &ObjectKey) {
        let concerned = self.services.iter().filter(|(_, served)| {
            let mut names = secrets_of(served);
            names.any(|name| name == *secret)
        });
        self.touched.extend(concerned.map(|(key, _)| key.clone()));
    }

    /// What is known of the secret of cookies.
    pub fn set_cookie_secret(&mut self, known: CookieSecret) {
        if self.cookie_secret == known {
            return;
        }
        self.cookie_secret = known;
        let concerned = self.services.iter().filter(|(_, served)| has_cookies(served));
        self.touched.extend(concerned.map(|(key, _)| key.clone()));
    }

    /// Whether anything is known of it, be it that there is none.
    pub fn knows_of_cookie_secret(&self) -> bool {
        self.cookie_secret != CookieSecret::Unread
    }

    /// Whether clients of this node's edge get cookies of sticky sessions.
    pub fn gives_cookies(&self) -> bool {
        let mut here = self.services.values().filter(|served| self.is_here(served));
        here.any(has_cookies)
    }

    /// Whether any Service is the edge's.
    pub fn has_services(&self) -> bool {
        !self.services.is_empty()
    }

    /// A Service that is the edge's.
    pub fn service(&self, key: &ObjectKey) -> Option<&Served> {
        self.services.get(key)
    }

    /// The addresses of this node at which the edge serves, as of the last [`World::settle`].
    pub fn addresses(&self) -> Addresses {
        let all = self.settings.values().flat_map(|settings| &settings.addresses);
        all.copied().collect()
    }

    /// The addresses of a Service that this node has.
    pub fn addresses_of(&self, served: &Served) -> Addresses {
        let all = served.addresses.iter().copied();
        all.filter(|address| self.owned.has(*address)).collect()
    }

    /// The Secrets that Services of this node's edge refer to.
    pub fn secrets(&self) -> BTreeSet<ObjectKey> {
        let here = self.services.values().filter(|served| self.is_here(served));
        here.flat_map(secrets_of).collect()
    }

    /// Brings the settings up to date; the Services that were looked at. Those with Secrets that were not read yet wait for
    /// them, so that no client is refused for want of a certificate that is on its way, and none loses its backend for want
    /// of the secret that its cookie was made of.
    pub fn settle(&mut self) -> BTreeSet<ObjectKey> {
        let certificates = &self.certificates;
        let services = &self.services;
        let owned = &self.owned;
        let knows_cookies = self.knows_of_cookie_secret();
        let is_complete = |key: &ObjectKey| {
            let here = |served: &&Served| served.addresses.iter().any(|address| owned.has(*address));
            let served = services.get(key).filter(here);
            served.is_none_or(|served| {
                let has_certificates = secrets_of(served).all(|secret| certificates.is_known(&secret));
                has_certificates && (knows_cookies || !has_cookies(served))
            })
        };
        let (touched, waiting) = std::mem::take(&mut self.touched)
            .into_iter()
            .partition::<BTreeSet<ObjectKey>, _>(is_complete);
        self.touched = waiting;
        for key in &touched {
            let name = ServiceName {
                namespace: Arc::clone(&key.namespace),
                name: Arc::clone(&key.name),
            };
            match self.services.get(key).filter(|served| self.is_here(served)) {
                None => {
                    self.settings.remove(&name);
                    self.complaints.remove(key);
                }
                Some(served) => {
                    let (settings, complaints) = self.build(key, served);
                    self.complaints.insert(key.clone(), complaints);
                    if self.settings.get(&name).is_none_or(|before| **before != settings) {
                        self.settings.insert(name, Arc::new(settings));
                    }
                }
            }
        }
        touched
    }

    /// What the edge is to serve, as of the last [`World::settle`].
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What is wrong with a Service, as of the last [`World::settle`], for people.
    pub fn complaints(&self, key: &ObjectKey) -> &[String] {
        self.complaints.get(key).map_or(&[], Vec::as_slice)
    }

    fn touch(&mut self, key: ObjectKey) {
        if self.services.contains_key(&key) {
            self.touched.insert(key);
        }
    }

    fn is_here(&self, served: &Served) -> bool {
        served.addresses.iter().any(|address| self.owned.has(*address))
    }

    fn build(&self, key: &ObjectKey, served: &Served) -> (ServiceSettings, Vec<String>) {
        let wish = &served.wish;
        let mut complaints = Vec::new();
        let mut certificates = Vec::new();
        for secret in secrets_of(served) {
            match self.certificates.of(&key.namespace, &secret) {
                Some(Ok(certificate)) => certificates.push(certificate),
                Some(Err(why)) => complaints.push(why),
                None => {}
            }
        }
        if let (CookieSecret::Missing(why), true) = (&self.cookie_secret, has_cookies(served)) {
            complaints.push(format!(
                "who tries all addresses can find out which one a cookie of a sticky session stands for: {why}"
            ));
        }
        let tls = Tls {
            certificates,
            policy: wish.tls_policy,
            alpn: wish.alpn,
        };
        let addresses = served.addresses.iter().copied();
        let listeners = wish.listeners.iter();
        let settings = ServiceSettings {
            addresses: addresses.filter(|address| self.owned.has(*address)).collect(),
            listeners: listeners
                .map(|wanted| self.listener(key, &served.service, wanted, &tls))
                .collect(),
            policy: wish.policy.clone(),
            access_log: wish
                .access_log
                .as_ref()
                .and_then(|log| self.access_log(&key.namespace, log, &mut complaints)),
        };
        (settings, complaints)
    }

    fn listener(&self, key: &ObjectKey, service: &Service, wanted: &ListenerWish, tls: &Tls) -> Listener {
        Listener {
            name: Arc::clone(&wanted.name),
            port: wanted.port,
            frontend: match wanted.frontend {
                FrontendWish::Tcp => Frontend::Tcp,
                FrontendWish::Ssl => Frontend::Ssl(tls.clone()),
                FrontendWish::Http { redirects_to_https } => Frontend::Http { redirects_to_https },
                FrontendWish::Https => Frontend::Https(tls.clone()),
                FrontendWish::Udp => Frontend::Udp,
            },
            backend_protocol: wanted.backend_protocol,
            backends: self.backends(key, service, wanted),
        }
    }

    /// The endpoints of a port. Those of the Service's first family count, if there are any: the other family's are the same
    /// Pods again.
    fn backends(&self, key: &ObjectKey, service: &Service, port: &ListenerWish) -> Vec<Backend> {
        let of_family = |family: AddressType| {
            let slices = self.slices.get(key).into_iter().flat_map(HashMap::values);
            let slices = slices.filter(|slice| slice.address_type == family);
            let mut backends: Vec<Backend> = slices
                .flat_map(|slice| self.backends_of(slice, service, port))
                .collect();
            backends.sort_by_key(|backend| (backend.address, !backend.is_ready));
            backends.dedup_by_key(|backend| backend.address);
            backends
        };
        let families = match service.spec.ip_families.first().map(String::as_str) {
            Some("IPv6") => [AddressType::IPv6, AddressType::IPv4],
            _ => [AddressType::IPv4, AddressType::IPv6],
        };
        let first = of_family(families[0]);
        if first.is_empty() {
            return of_family(families[1]);
        }
        first
    }

    fn backends_of(&self, slice: &EndpointSlice, service: &Service, port: &ListenerWish) -> Vec<Backend> {
        let mut ports = slice.ports.iter();
        let target = ports.find(|of_slice| {
            of_slice.name.as_deref().unwrap_or_default() == &*port.name
                && of_slice.protocol.unwrap_or(Protocol::Tcp) == port.protocol
        });
        let Some(number) = target.and_then(|target| target.port) else {
            return Vec::new();
        };
        let is_local = service.spec.external_traffic_policy == "Local";
        let endpoints = slice.endpoints.iter();
        let eligible = endpoints
            .filter(|endpoint| !is_local || endpoint.node_name.as_deref() == Some(&*self.place.node_name));
        let backend = eligible.filter_map(|endpoint| {
            let ip: IpAddr = endpoint.addresses.first()?.parse().ok()?;
            let conditions = &endpoint.conditions;
            let serves = conditions.serving.or(conditions.ready) != Some(false);
            Some(Backend {
                address: SocketAddr::new(ip, number),
                zone: endpoint.zone.clone(),
                is_ready: conditions.ready != Some(false),
                is_serving_while_terminating: serves && conditions.terminating == Some(true),
            })
        });
        backend.collect()
    }

    /// The destination of an access log: its bucket, or a directory of the bucket's name where there are no buckets. In a
    /// bucket, which other namespaces may use too, the names of files begin with the namespace.
    fn access_log(&self, namespace: &str, wish: &LogWish, complaints: &mut Vec<String>) -> Option<AccessLog> {
        let join = |first: &str, rest: &str| match rest {
            "" => first.to_owned(),
            rest => format!("{first}/{rest}"),
        };
        let (destination, prefix) = match &wish.bucket {
            Some(bucket) if self.place.buckets != Buckets::Unknown => {
                if !self.place.buckets.allow(bucket) {
                    complaints.push(format!(
                        "no access log is kept: bucket {bucket} is not among those of --edge-access-log-buckets on node {}",
                        self.place.node_name
                    ));
                    return None;
                }
                let mut parts = wish.prefix.split('/').filter(|part| !part.is_empty());
                let prefix = if parts.next() == Some(namespace) {
                    Arc::clone(&wish.prefix)
                } else {
                    join(namespace, wish.prefix.trim_start_matches('/')).into()
                };
                (LogDestination::Bucket(Arc::clone(bucket)), prefix)
            }
            _ if !self.place.has_directory => {
                complaints.push(
                    "no access log is kept: the edge of this node was started without --edge-access-log-directory"
                        .to_owned(),
                );
                return None;
            }
            Some(bucket) => (LogDestination::Directory, join(bucket, &wish.prefix).into()),
            None => (LogDestination::Directory, Arc::clone(&wish.prefix)),
        };
        Some(AccessLog {
            destination,
            prefix,
            interval: wish.interval,
            format: wish.format,
        })
    }
}

/// The addresses of a Service that are the edge's: assigned by our assigner, with mode Proxy.
fn addresses(service: &Service) -> Addresses {
    let is_ours = |condition: &Condition| condition.kind == CONDITION && condition.status == "True";
    let is_served = service.spec.kind == "LoadBalancer" && service.status.conditions.iter().any(is_ours);
    if !is_served || service.metadata.deletion_timestamp.is_some() {
        return Addresses::new();
    }
    let ingress = service.status.load_balancer.ingress.iter();
    let proxied = ingress.filter(|ingress| IngressMode::of(ingress) == IngressMode::Proxy);
    proxied.filter_map(|ingress| ingress.ip.parse().ok()).collect()
}

/// Whether its clients stay with their backends by cookies.
fn has_cookies(served: &Served) -> bool {
    matches!(served.wish.policy.stickiness, Stickiness::Cookie { .. })
}

fn secrets_of(served: &Served) -> impl Iterator<Item = ObjectKey> + '_ {
    let own = served.service.metadata.namespace.as_str();
    let has_tls =
        |listener: &ListenerWish| matches!(listener.frontend, FrontendWish::Ssl | FrontendWish::Https);
    let is_needed = served.wish.listeners.iter().any(has_tls);
    let named = served.wish.certificates.iter().filter(move |_| is_needed);
    named.map(move |SecretName { namespace, name }| ObjectKey::new(namespace.as_deref().unwrap_or(own), name))
}
