//! Fixture: an edge with one Service.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use edge::settings::{Backend, BackendProtocol, Frontend, Listener, ServiceName, ServiceSettings, Settings};
use edge::{Edge, Options};

/// Edge that serves a Service.
pub(crate) struct Served {
    pub edge: Edge,
    pub address: SocketAddr,
    pub service: ServiceSettings,
}

/// Returns a Service with an HTTP listener and these backends.
pub(crate) fn service(backends: &[SocketAddr]) -> ServiceSettings {
    let listener = Listener {
        name: "web".into(),
        port: free_port(),
        frontend: Frontend::Http {
            redirects_to_https: None,
        },
        backend_protocol: BackendProtocol::Http,
        backends: backends.iter().copied().map(Backend::ready).collect(),
    };
    ServiceSettings::new(vec![Ipv4Addr::LOCALHOST.into()], vec![listener])
}

pub(crate) fn name() -> ServiceName {
    ServiceName {
        namespace: "shop".into(),
        name: "web".into(),
    }
}

impl Served {
    pub(crate) fn new(service: ServiceSettings) -> Self {
        Self::with(Options::default(), service)
    }

    pub(crate) fn with(options: Options, service: ServiceSettings) -> Self {
        let edge = Edge::start(Options {
            threads: 2,
            ..options
        })
        .unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, service.listeners[0].port));
        let served = Self {
            edge,
            address,
            service,
        };
        served.apply();
        assert!(
            served.edge.faults().borrow().is_empty(),
            "{:?}",
            served.edge.faults().borrow()
        );
        served
    }

    /// Applies the changed settings.
    pub(crate) fn apply(&self) {
        let settings = Settings::from([(name(), Arc::new(self.service.clone()))]);
        self.edge.apply(&settings);
    }
}

/// Serves a Service with these backends and default settings.
pub(crate) fn served(backends: &[SocketAddr]) -> Served {
    Served::new(service(backends))
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
