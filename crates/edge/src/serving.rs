//! What an edge serves: the differences between settings, and the listening sockets that follow from them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::backends::{self, Backend};
use crate::faults::{Fault, Faults};
use crate::handover::Sockets;
use crate::log::Logs;
use crate::port::{Current, Load, Port, PortKey, Shared, Transport};
use crate::settings::{Frontend, Listener, ServiceName, ServiceSettings, Settings};
use crate::sockets;
use crate::tls::{self, Ending};
use crate::udp;
use crate::workers::{Door, Workers};

/// Ports of one Service that the edge listens at. Each takes a descriptor for each thread and address, and whoever may write a
/// Service would otherwise take them all. Clouds allow fewer.
const LISTENERS_MAX: usize = 256;

/// An address that is listened at.
pub(crate) type Spot = (SocketAddr, Transport);

/// What serving needs beside the settings.
pub(crate) struct Means<'a> {
    pub shared: &'a Arc<Shared>,
    pub workers: &'a Workers,
    pub logs: &'a Logs,
    /// Where health checks run.
    pub control: &'a Handle,
}

/// Everything that is served.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    services: BTreeMap<ServiceName, Served>,
    sockets: BTreeMap<Spot, Listening>,
    /// Where ports are to be listened at and are not.
    missing: BTreeSet<(PortKey, SocketAddr)>,
    /// Sockets that a predecessor handed over and nobody has asked for yet.
    inherited: Sockets,
    pub faults: Faults,
    /// Nothing is listened at any more, whatever settings come.
    is_closed: bool,
}

#[derive(Debug)]
struct Served {
    settings: Arc<ServiceSettings>,
    load: Arc<Load>,
    ports: BTreeMap<PortKey, ServedPort>,
    /// The first port beyond [`LISTENERS_MAX`].
    surplus: Option<PortKey>,
}

#[derive(Debug)]
struct ServedPort {
    port: Arc<Port>,
    tls_faults: Vec<Fault>,
    check: AbortHandle,
}

impl Served {
    /// The fault of the first port that is not listened at because there are too many.
    fn surplus_fault(&self) -> Option<(PortKey, Vec<Fault>)> {
        let key = self.surplus.clone()?;
        let at = SocketAddr::new(*self.settings.addresses.first()?, key.port);
        let count = self.settings.listeners.len();
        let why = format!(
            "expected at most {LISTENERS_MAX} ports of a Service, found {count}; divide it into several Services"
        );
        Some((key, vec![Fault::CannotListen { at, why }]))
    }
}

impl Drop for ServedPort {
    fn drop(&mut self) {
        self.check.abort();
        self.port.begin_draining();
    }
}

/// Open sockets of one address. Dropping this has them take what waits, and no more.
#[derive(Debug)]
struct Listening {
    owner: PortKey,
    sockets: Vec<Arc<OwnedFd>>,
    _stop: watch::Sender<()>,
}

/// Backends that left, and how long their connections may go on.
pub(crate) type Left = (Vec<Arc<Backend>>, Duration);

impl Serving {
    /// Nothing yet; sockets of a predecessor are used where the first settings ask for their addresses.
    pub fn new(inherited: Sockets) -> Self {
        Self {
            inherited,
            ..Self::default()
        }
    }

    /// Serves these settings. Returns the backends that left and whose connections are to be ended in a while.
    pub fn apply(&mut self, settings: &Settings, means: &Means<'_>) -> Vec<Left> {
        let mut left = Vec::new();
        let gone: Vec<ServiceName> = self
            .services
            .keys()
            .filter(|name| !settings.contains_key(name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(served) = self.services.remove(&name) {
                served
                    .ports
                    .into_values()
                    .for_each(|port| left.extend(self.end(&port.port)));
            }
        }
        let is_same = |served: &Served, settings: &Arc<ServiceSettings>| {
            Arc::ptr_eq(&served.settings, settings) || served.settings == *settings
        };
        for (name, settings) in settings {
            match self.services.get(name) {
                Some(served) if is_same(served, settings) => {}
                _ => self.serve(name, settings, means, &mut left),
            }
        }
        self.listen(means);
        // What nobody asks for now is not served any more.
        self.inherited.clear();
        left
    }

    /// Serves a Service that is new or has changed.
    fn serve(
        &mut self,
        name: &ServiceName,
        settings: &Arc<ServiceSettings>,
        means: &Means<'_>,
        left: &mut Vec<Left>,
    ) {
        let former = self.services.remove(name);
        let (load, mut former_ports) = match former {
            Some(former) => (former.load, former.ports),
            None => (Arc::default(), BTreeMap::new()),
        };
        let log = settings.access_log.as_ref();
        let log = log.map(|settings| means.logs.of(name, settings));
        let mut ports = BTreeMap::new();
        let key_of = |listener: &Listener| PortKey {
            service: name.clone(),
            port: listener.port,
            transport: Transport::of(&listener.frontend),
        };
        for listener in settings.listeners.iter().take(LISTENERS_MAX) {
            let key = key_of(listener);
            let former = former_ports.remove(&key);
            let (tls, tls_faults) = ending(listener, former.as_ref());
            let current = Current {
                service: settings.clone(),
                listener: listener.clone(),
                log: log.clone(),
                tls,
            };
            let served = match former {
                Some(mut served) => {
                    let gone = served.port.set(current);
                    left.extend(settings.policy.draining.map(|patience| (gone, patience)));
                    served.tls_faults = tls_faults;
                    served
                }
                None => {
                    let port = Port::new(key.clone(), current, load.clone(), means.shared.clone());
                    let port = Arc::new(port);
                    let check = means.control.spawn(backends::check(port.clone()));
                    ServedPort {
                        port,
                        tls_faults,
                        check: check.abort_handle(),
                    }
                }
            };
            let spots = settings.addresses.iter().map(|ip| SocketAddr::new(*ip, key.port));
            self.want(&key, &spots.collect());
            ports.insert(key, served);
        }
        for (_, former) in former_ports {
            left.extend(self.end(&former.port));
        }
        let served = Served {
            settings: settings.clone(),
            load,
            ports,
            surplus: settings.listeners.get(LISTENERS_MAX).map(key_of),
        };
        self.services.insert(name.clone(), served);
    }

    /// Stops listening for a port that is no more.
    fn end(&mut self, port: &Port) -> Option<Left> {
        self.want(&port.key, &BTreeSet::new());
        let current = port.current();
        let without_backends = Listener {
            backends: Vec::new(),
            ..current.listener.clone()
        };
        let left = port.set(Current {
            service: current.service.clone(),
            listener: without_backends,
            log: current.log.clone(),
            tls: current.tls.clone(),
        });
        current.service.policy.draining.map(|patience| (left, patience))
    }

    /// Takes note of where a port is to be listened at; closes what is open elsewhere.
    fn want(&mut self, key: &PortKey, spots: &BTreeSet<SocketAddr>) {
        self.sockets
            .retain(|(at, _), listening| listening.owner != *key || spots.contains(at));
        self.missing
            .retain(|(owner, at)| owner != key || spots.contains(at));
        for at in spots {
            let listening = self.sockets.get(&(*at, key.transport));
            if listening.is_none_or(|listening| listening.owner != *key) {
                self.missing.insert((key.clone(), *at));
            }
        }
    }

    /// Listens where that is still missing, and says what is wrong now.
    pub fn listen(&mut self, means: &Means<'_>) {
        if self.is_closed {
            return;
        }
        let mut faults = Faults::new();
        for (key, at) in std::mem::take(&mut self.missing) {
            let Some(port) = self.port(&key) else { continue };
            if let Err(why) = self.open(port, at, means) {
                let fault = Fault::CannotListen { at, why };
                faults.entry(key.clone()).or_default().push(fault);
                self.missing.insert((key, at));
            }
        }
        for served in self.services.values() {
            faults.extend(served.surplus_fault());
            for (key, port) in &served.ports {
                let current = port.port.current();
                let why = current.log.as_ref().and_then(|log| log.fault());
                let no_log = why.map(|why| Fault::NoAccessLog { why });
                let of_port: Vec<Fault> = port.tls_faults.iter().cloned().chain(no_log).collect();
                if !of_port.is_empty() {
                    faults.entry(key.clone()).or_default().extend(of_port);
                }
            }
        }
        self.faults = faults;
    }

    /// Whether it is not listened everywhere.
    pub fn is_missing_any(&self) -> bool {
        !self.missing.is_empty() && !self.is_closed
    }

    fn open(&mut self, port: Arc<Port>, at: SocketAddr, means: &Means<'_>) -> Result<(), String> {
        let spot = (at, port.key.transport);
        if let Some(other) = self.sockets.get(&spot) {
            return Err(format!("Service {} listens there", other.owner.service));
        }
        let mut sockets = self.inherited.remove(&spot).unwrap_or_default();
        while sockets.len() < means.workers.count() {
            let opened = sockets::open(at, spot.1);
            sockets.push(opened.map_err(|error| error.to_string())?);
        }
        let sockets: Vec<Arc<OwnedFd>> = sockets.into_iter().map(Arc::new).collect();
        let (stop, stopped) = watch::channel(());
        for (number, socket) in sockets.iter().enumerate() {
            match spot.1 {
                Transport::Tcp => means.workers.take_connections(
                    number,
                    Door {
                        socket: socket.clone(),
                        at,
                        port: port.clone(),
                        stop: stopped.clone(),
                    },
                ),
                Transport::Udp => {
                    let socket = socket.try_clone().map_err(|error| error.to_string())?;
                    let served = udp::serve(socket, port.clone(), stopped.clone());
                    means.workers.spawn(number, served);
                }
            }
        }
        let listening = Listening {
            owner: port.key.clone(),
            sockets,
            _stop: stop,
        };
        self.sockets.insert(spot, listening);
        Ok(())
    }

    fn port(&self, key: &PortKey) -> Option<Arc<Port>> {
        let served = self.services.get(&key.service)?.ports.get(key)?;
        Some(served.port.clone())
    }

    /// All ports.
    pub fn ports(&self) -> impl Iterator<Item = &Arc<Port>> {
        let ports = self.services.values().flat_map(|served| served.ports.values());
        ports.map(|served| &served.port)
    }

    /// The open sockets, for a successor.
    pub fn sockets(&self) -> Vec<(Spot, Vec<Arc<OwnedFd>>)> {
        self.sockets
            .iter()
            .map(|(spot, listening)| (*spot, listening.sockets.clone()))
            .collect()
    }

    /// Takes no more connections anywhere, and never again.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.sockets.clear();
        self.missing.clear();
        self.inherited.clear();
    }
}

/// How TLS ends at a listener: as it did, if nothing about it has changed.
fn ending(listener: &Listener, former: Option<&ServedPort>) -> (Option<Arc<Ending>>, Vec<Fault>) {
    let (tls, is_http) = match &listener.frontend {
        Frontend::Ssl(tls) => (tls, false),
        Frontend::Https(tls) => (tls, true),
        Frontend::Tcp | Frontend::Http { .. } | Frontend::Udp => return (None, Vec::new()),
    };
    let Some(former) = former else {
        let (ending, faults) = Ending::new(tls, is_http, None, tls::tickets());
        return (ending.map(Arc::new), faults);
    };
    let current = former.port.current();
    if current.listener.frontend == listener.frontend {
        return (current.tls.clone(), former.tls_faults.clone());
    }
    // Sessions of before are resumed, whatever certificate is in force now.
    let tickets = current.tls.as_ref().map(|ending| ending.config.ticketer.clone());
    let (ending, faults) = Ending::new(
        tls,
        is_http,
        current.tls.as_deref(),
        tickets.or_else(tls::tickets),
    );
    (ending.map(Arc::new), faults)
}
