//! Table of served Services: finds the differences between settings, and opens and closes listening sockets.
//!
//! A Service whose settings are equal is left alone. A changed port stays the same object and keeps its sockets at
//! addresses that remain. Ports to which routes lead are opened before the routes, and are removed after them. An
//! address at which a port cannot listen stays in the list of missing ones and is reported as a fault; the edge tries
//! again. The first settings use the sockets of a predecessor where addresses match, so that clients find them open
//! during an update.

mod namespace_listeners;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use counting::SharedValues;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::namespace_listeners::NamespaceListeners;
use crate::admission::ServiceLoad;
use crate::backends::Backend;
use crate::edge_state::EdgeState;
use crate::faults::{Fault, Faults};
use crate::health_checks;
use crate::log::Logs;
use crate::port::{Port, PortSettings};
use crate::port_key::{PortKey, Transport};
use crate::settings::{Frontend, LISTENERS_MAX, Listener, ServiceName, ServiceSettings, Settings};
use crate::sockets::{self, InheritedSockets, ListenAddress, ListeningSockets};
use crate::tls::{self, TlsTermination};
use crate::udp;
use crate::workers::{ListenerHandle, Workers};

/// Parts of an edge that serve the Services of the table.
pub(crate) struct ServingContext<'a> {
    /// State that all ports share.
    pub edge: &'a Arc<EdgeState>,
    /// Threads that serve connections.
    pub workers: &'a Workers,
    /// Access logs.
    pub logs: &'a Logs,
    /// Runtime for health checks.
    pub control: &'a Handle,
}

/// Served Services and their listening sockets.
#[derive(Debug, Default)]
pub(crate) struct ServiceTable {
    services: BTreeMap<ServiceName, ServiceEntry>,
    /// Loads of namespaces.
    namespaces: SharedValues<AtomicUsize>,
    sockets: BTreeMap<ListenAddress, OpenListener>,
    /// Addresses at which ports should listen and do not.
    missing: BTreeSet<(PortKey, SocketAddr)>,
    /// Sockets that a predecessor handed over and no port uses yet.
    inherited: InheritedSockets,
    /// All faults, as of the last call of [`ServiceTable::listen`].
    pub faults: Faults,
    /// Set when no port may listen any more.
    is_closed: bool,
}

/// A served Service.
#[derive(Debug)]
struct ServiceEntry {
    settings: Arc<ServiceSettings>,
    load: Arc<ServiceLoad>,
    ports: BTreeMap<PortKey, PortEntry>,
    /// First port beyond [`LISTENERS_MAX`].
    surplus: Option<PortKey>,
}

impl ServiceEntry {
    /// Returns the fault of the first port beyond [`LISTENERS_MAX`].
    fn surplus_fault(&self) -> Option<(PortKey, Vec<Fault>)> {
        let key = self.surplus.clone()?;
        let address = SocketAddr::new(*self.settings.addresses.first()?, key.port);
        let count = self.settings.listeners.len();
        let reason = format!(
            "expected at most {LISTENERS_MAX} ports of a Service, found {count}; divide it into several Services"
        );
        Some((key, vec![Fault::CannotListen { address, reason }]))
    }
}

/// A served port.
#[derive(Debug)]
struct PortEntry {
    port: Arc<Port>,
    tls_faults: Vec<Fault>,
    health_checks: AbortHandle,
}

impl Drop for PortEntry {
    fn drop(&mut self) {
        self.health_checks.abort();
        self.port.start_draining();
    }
}

/// Open sockets of one address. When this is dropped, they accept the connections of their backlogs, and no more.
#[derive(Debug)]
struct OpenListener {
    owner: PortKey,
    sockets: Vec<Arc<OwnedFd>>,
    _stop: watch::Sender<()>,
}

/// Removed backends, and the time after which their connections are closed.
pub(crate) type RemovedBackends = (Vec<Arc<Backend>>, Duration);

impl ServiceTable {
    /// Creates an empty table. The first settings use the sockets of a predecessor where addresses match.
    pub(crate) fn new(inherited: InheritedSockets) -> Self {
        Self {
            inherited,
            ..Self::default()
        }
    }

    /// Serves exactly these settings. Returns the removed backends whose connections have to be closed later.
    pub(crate) fn apply(
        &mut self,
        settings: &Settings,
        context: &ServingContext<'_>,
    ) -> Vec<RemovedBackends> {
        let mut removed = Vec::new();
        // Ports to which routes lead are present before the routes, and stay until the routes are replaced.
        let targets = settings
            .iter()
            .filter(|(_, settings)| settings.addresses.is_empty());
        if self.apply_changed(targets, context, &mut removed) {
            self.publish_route_targets(context);
        }
        let others = settings
            .iter()
            .filter(|(_, settings)| !settings.addresses.is_empty());
        let mut has_changed = self.apply_changed(others, context, &mut removed);
        let gone: Vec<ServiceName> = self
            .services
            .keys()
            .filter(|name| !settings.contains_key(name))
            .cloned()
            .collect();
        has_changed |= !gone.is_empty();
        for name in gone {
            if let Some(service) = self.services.remove(&name) {
                service
                    .ports
                    .into_values()
                    .for_each(|entry| removed.extend(self.remove_port(&entry.port)));
            }
        }
        if has_changed {
            self.publish_route_targets(context);
        }
        self.listen(context);
        // Inherited sockets that the first settings do not use are closed.
        self.inherited.clear();
        removed
    }

    /// Serves those of `settings` that are new or have changed. Returns true if there are any.
    fn apply_changed<'s>(
        &mut self,
        settings: impl Iterator<Item = (&'s ServiceName, &'s Arc<ServiceSettings>)>,
        context: &ServingContext<'_>,
        removed: &mut Vec<RemovedBackends>,
    ) -> bool {
        let is_same = |service: &ServiceEntry, settings: &Arc<ServiceSettings>| {
            Arc::ptr_eq(&service.settings, settings) || service.settings == *settings
        };
        let mut has_changed = false;
        for (name, settings) in settings {
            match self.services.get(name) {
                Some(service) if is_same(service, settings) => {}
                _ => {
                    has_changed = true;
                    self.apply_service(name, settings, context, removed);
                }
            }
        }
        has_changed
    }

    /// Publishes the ports of Services without addresses, to which routes lead.
    fn publish_route_targets(&self, context: &ServingContext<'_>) {
        let targets = self.services.values();
        let targets = targets.filter(|service| service.settings.addresses.is_empty());
        let ports = targets.flat_map(|service| service.ports.values());
        context.edge.set_route_targets(ports.map(|entry| &entry.port));
    }

    /// Serves a Service that is new or has changed.
    fn apply_service(
        &mut self,
        name: &ServiceName,
        settings: &Arc<ServiceSettings>,
        context: &ServingContext<'_>,
        removed: &mut Vec<RemovedBackends>,
    ) {
        let former = self.services.remove(name);
        let (load, mut former_ports) = match former {
            Some(former) => (former.load, former.ports),
            None => {
                let namespace = self.namespaces.get(&name.namespace, AtomicUsize::default);
                (Arc::new(ServiceLoad::in_namespace(namespace)), BTreeMap::new())
            }
        };
        let log = settings.access_log.as_ref();
        let log = log.map(|settings| context.logs.open(name, settings));
        let mut ports = BTreeMap::new();
        let key_of = |listener: &Listener| PortKey {
            service: name.clone(),
            port: listener.port,
            transport: Transport::of(&listener.frontend),
        };
        for listener in settings.listeners.iter().take(LISTENERS_MAX) {
            let key = key_of(listener);
            let former = former_ports.remove(&key);
            let (tls, tls_faults) = tls_termination(listener, former.as_ref());
            let port_settings = PortSettings {
                service: settings.clone(),
                listener: listener.clone(),
                log: log.clone(),
                tls,
            };
            let entry = match former {
                Some(former) => change_port(former, port_settings, tls_faults, removed),
                None => open_port(key.clone(), port_settings, tls_faults, &load, context),
            };
            let addresses = settings.addresses.iter().map(|ip| SocketAddr::new(*ip, key.port));
            self.set_listen_addresses(&key, &addresses.collect());
            ports.insert(key, entry);
        }
        for (_, former) in former_ports {
            removed.extend(self.remove_port(&former.port));
        }
        let entry = ServiceEntry {
            settings: settings.clone(),
            load,
            ports,
            surplus: settings.listeners.get(LISTENERS_MAX).map(key_of),
        };
        self.services.insert(name.clone(), entry);
    }

    /// Closes the listeners of a removed port, and removes its backends.
    fn remove_port(&mut self, port: &Port) -> Option<RemovedBackends> {
        self.set_listen_addresses(&port.key, &BTreeSet::new());
        let settings = port.policy.settings();
        let without_backends = Listener {
            backends: Vec::new(),
            ..settings.listener.clone()
        };
        let removed = port.policy.set(PortSettings {
            service: settings.service.clone(),
            listener: without_backends,
            log: settings.log.clone(),
            tls: settings.tls.clone(),
        });
        let drain_time = settings.service.policy.draining;
        drain_time.map(|drain_time| (removed, drain_time))
    }

    /// Sets the addresses at which a port should listen, and closes its listeners at others.
    fn set_listen_addresses(&mut self, key: &PortKey, addresses: &BTreeSet<SocketAddr>) {
        self.sockets
            .retain(|(address, _), listener| listener.owner != *key || addresses.contains(address));
        self.missing
            .retain(|(owner, address)| owner != key || addresses.contains(address));
        for address in addresses {
            let listener = self.sockets.get(&(*address, key.transport));
            if listener.is_none_or(|listener| listener.owner != *key) {
                self.missing.insert((key.clone(), *address));
            }
        }
    }

    /// Opens the missing listeners, and updates the faults.
    pub(crate) fn listen(&mut self, context: &ServingContext<'_>) {
        if self.is_closed {
            return;
        }
        let mut faults = Faults::new();
        let owners = self.sockets.values().map(|listener| &listener.owner);
        let mut listeners = NamespaceListeners::of(owners.map(|owner| &owner.service.namespace));
        for (key, address) in std::mem::take(&mut self.missing) {
            let Some(port) = self.port(&key) else { continue };
            let namespace = &key.service.namespace;
            let opened = listeners
                .check(namespace)
                .and_then(|()| self.open_listener(port, address, context));
            if let Err(reason) = opened {
                let fault = Fault::CannotListen { address, reason };
                faults.entry(key.clone()).or_default().push(fault);
                self.missing.insert((key, address));
            } else {
                listeners.add(namespace);
            }
        }
        for service in self.services.values() {
            faults.extend(service.surplus_fault());
            for (key, entry) in &service.ports {
                let settings = entry.port.policy.settings();
                let reason = settings.log.as_ref().and_then(|log| log.fault());
                let no_log = reason.map(|reason| Fault::NoAccessLog { reason });
                let port_faults: Vec<Fault> = entry.tls_faults.iter().cloned().chain(no_log).collect();
                if !port_faults.is_empty() {
                    faults.entry(key.clone()).or_default().extend(port_faults);
                }
            }
        }
        self.faults = faults;
    }

    /// Returns true if a listener is missing.
    pub(crate) fn is_missing_any(&self) -> bool {
        !self.missing.is_empty() && !self.is_closed
    }

    /// Opens the sockets of a listener, one for each worker. The kernel distributes clients over them.
    fn open_listener(
        &mut self,
        port: Arc<Port>,
        address: SocketAddr,
        context: &ServingContext<'_>,
    ) -> Result<(), String> {
        let key = (address, port.key.transport);
        if let Some(other) = self.sockets.get(&key) {
            return Err(format!("Service {} listens there", other.owner.service));
        }
        let mut sockets = self.inherited.remove(&key).unwrap_or_default();
        while sockets.len() < context.workers.count() {
            let opened = sockets::open(address, port.key.transport);
            sockets.push(opened.map_err(|error| error.to_string())?);
        }
        let sockets: Vec<Arc<OwnedFd>> = sockets.into_iter().map(Arc::new).collect();
        let (stop, stopped) = watch::channel(());
        for (number, socket) in sockets.iter().enumerate() {
            match port.key.transport {
                Transport::Tcp => {
                    let listener = ListenerHandle {
                        socket: socket.clone(),
                        address,
                        port: port.clone(),
                        stop: stopped.clone(),
                    };
                    context.workers.accept_connections(number, listener);
                }
                Transport::Udp => {
                    let socket = socket.try_clone().map_err(|error| error.to_string())?;
                    let task = udp::serve(socket, port.clone(), stopped.clone());
                    context.workers.spawn(number, task);
                }
            }
        }
        let listener = OpenListener {
            owner: port.key.clone(),
            sockets,
            _stop: stop,
        };
        self.sockets.insert(key, listener);
        Ok(())
    }

    fn port(&self, key: &PortKey) -> Option<Arc<Port>> {
        let entry = self.services.get(&key.service)?.ports.get(key)?;
        Some(entry.port.clone())
    }

    /// Returns all ports.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &Arc<Port>> {
        let ports = self.services.values().flat_map(|service| service.ports.values());
        ports.map(|entry| &entry.port)
    }

    /// Returns the open listening sockets, for a successor.
    pub(crate) fn sockets(&self) -> ListeningSockets {
        self.sockets
            .iter()
            .map(|(address, listener)| (*address, listener.sockets.clone()))
            .collect()
    }

    /// Closes all listeners; none opens again.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.sockets.clear();
        self.missing.clear();
        self.inherited.clear();
    }
}

/// Applies changed settings to a served port.
fn change_port(
    mut entry: PortEntry,
    settings: PortSettings,
    tls_faults: Vec<Fault>,
    removed: &mut Vec<RemovedBackends>,
) -> PortEntry {
    let drain_time = settings.service.policy.draining;
    let gone = entry.port.policy.set(settings);
    removed.extend(drain_time.map(|drain_time| (gone, drain_time)));
    entry.tls_faults = tls_faults;
    entry
}

/// Creates a port, and starts its health checks.
fn open_port(
    key: PortKey,
    settings: PortSettings,
    tls_faults: Vec<Fault>,
    load: &Arc<ServiceLoad>,
    context: &ServingContext<'_>,
) -> PortEntry {
    let port = Arc::new(Port::new(key, settings, load.clone(), context.edge.clone()));
    let health_checks = context.control.spawn(health_checks::run(port.clone()));
    PortEntry {
        port,
        tls_faults,
        health_checks: health_checks.abort_handle(),
    }
}

/// Returns the TLS termination of a listener, and its faults. It stays the same object if its settings have not
/// changed.
fn tls_termination(
    listener: &Listener,
    former: Option<&PortEntry>,
) -> (Option<Arc<TlsTermination>>, Vec<Fault>) {
    let (tls, is_http) = match &listener.frontend {
        Frontend::Ssl(tls) => (tls, false),
        Frontend::Https(tls) => (tls, true),
        Frontend::Tcp | Frontend::Http { .. } | Frontend::Udp => return (None, Vec::new()),
    };
    let Some(former) = former else {
        let (termination, faults) = TlsTermination::new(tls, is_http, None, tls::tickets());
        return (termination.map(Arc::new), faults);
    };
    let settings = former.port.policy.settings();
    if settings.listener.frontend == listener.frontend {
        return (settings.tls.clone(), former.tls_faults.clone());
    }
    // Clients resume earlier sessions, independent of the current certificate.
    let tickets = settings
        .tls
        .as_ref()
        .map(|termination| termination.config.ticketer.clone());
    let (termination, faults) = TlsTermination::new(
        tls,
        is_http,
        settings.tls.as_deref(),
        tickets.or_else(tls::tickets),
    );
    (termination.map(Arc::new), faults)
}
