//! The edge in a process of its own, for measurements.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use edge::settings::{
    Backend, BackendProtocol, Certificate, Frontend, Listener, ServiceName, ServiceSettings, Settings, Tls,
};
use edge::{Edge, Options, Shares};

use crate::Failure;

/// Idle timeout of connections, longer than any measurement.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Flags of `bench edge-under-test`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Address to listen at
    #[arg(long)]
    address: IpAddr,
    /// TCP port
    #[arg(long)]
    port: u16,
    /// TLS port
    #[arg(long)]
    tls_port: u16,
    /// Address of the backend
    #[arg(long)]
    backend: SocketAddr,
    /// Number of threads; 0 for one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// File with a certificate and its key in PEM
    #[arg(long)]
    certificate: PathBuf,
}

/// Serves until the process is killed.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let pem = fs::read(&flags.certificate)?;
    let source = flags.certificate.display().to_string();
    let certificate = Certificate::new(source.into(), pem.clone(), pem);
    let tls = Tls::new(vec![Arc::new(certificate)]);
    let edge = Edge::start(Options {
        threads: flags.threads,
        // There is only one Service and one client.
        shares: Shares {
            service_percent: 100,
            client_percent: 100,
        },
        ..Options::default()
    })?;
    let listeners = [(flags.port, Frontend::Tcp), (flags.tls_port, Frontend::Ssl(tls))];
    let listeners = listeners.map(|(port, frontend)| listener(flags, port, frontend));
    let mut service = ServiceSettings::new(vec![flags.address], listeners.into());
    service.policy.idle_timeout = IDLE_TIMEOUT;
    let name = ServiceName {
        namespace: "bench".into(),
        name: "measured".into(),
    };
    edge.apply(&Settings::from([(name, Arc::new(service))]));
    for (port, faults) in edge.faults().borrow().iter() {
        eprintln!("{port}: {faults:?}");
    }
    loop {
        std::thread::park();
    }
}

fn listener(flags: &Flags, port: u16, frontend: Frontend) -> Listener {
    Listener {
        name: "".into(),
        port,
        frontend,
        backend_protocol: BackendProtocol::Tcp,
        backends: vec![Backend {
            address: flags.backend,
            zone: None,
            is_ready: true,
            is_serving_while_terminating: false,
        }],
    }
}

/// Writes a certificate of ECDSA P-256 and its key into one file, as haproxy reads them.
pub(super) fn write_certificate(file: &Path) -> Result<(), Failure> {
    let key = rcgen::KeyPair::generate()?;
    let params = rcgen::CertificateParams::new(vec!["bench.test".to_owned()])?;
    let certificate = params.self_signed(&key)?;
    fs::write(file, certificate.pem() + &key.serialize_pem())?;
    Ok(())
}
