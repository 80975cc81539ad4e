//! Certificates of a server, and their renewal at run time.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::StartError;
use super::config::Config;
use crate::access::authentication::Authenticator;
use crate::bootstrap::kubeconfig;
use crate::bootstrap::pki::{self, Pki, PkiError, serving_names};
use crate::shutdown::Shutdown;
use crate::transport::tls::ServingCertificate;

/// User of the API server towards kubelets (kubeadm's name).
const KUBELET_CLIENT_USER: &str = "kube-apiserver-kubelet-client";
/// Group of that user. No role is bound to the group, so it has no rights in the API; agents check the user.
const KUBELET_CLIENT_GROUP: &str = "system:portolan:apiservers";
/// Interval of checks for certificates that expire.
const RENEWAL_PERIOD: Duration = Duration::from_secs(24 * 3600);

/// Location and subject names of a server's certificates.
pub(super) struct ServerCertificates {
    directory: PathBuf,
    /// Names and addresses of the serving certificate.
    names: Vec<String>,
    kubeconfig: Option<PathBuf>,
    server_url: String,
}

impl ServerCertificates {
    pub(super) fn new(config: &Config, address: SocketAddr) -> ServerCertificates {
        let mut addresses: Vec<IpAddr> = vec![address.ip()];
        addresses.extend(config.advertise_address);
        // The `kubernetes` Service has the first address of a range.
        addresses.extend(
            config
                .service_cidrs
                .iter()
                .filter_map(|range| range.hosts().next()),
        );
        ServerCertificates {
            directory: config.data_dir.join("pki"),
            names: serving_names(&config.node_name, &config.cluster_domain, &addresses),
            kubeconfig: config.kubeconfig.clone(),
            server_url: kubeconfig::server_url(address),
        }
    }

    /// Returns the directory of the certificates.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the names and addresses of the serving certificate.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Creates the directory of the certificates and of the keys of ServiceAccount tokens.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub(super) fn create_directory(&self) -> Result<(), PkiError> {
        pki::create_directory(&self.directory)
    }

    /// Reads the certificates, and issues those that are missing or expire soon.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub(super) fn open(&self) -> Result<Pki, PkiError> {
        Pki::open(&self.directory, &self.names)
    }

    /// Returns the client certificate towards kubelets.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub(super) fn kubelet_client(&self) -> Result<pki::Client, PkiError> {
        pki::client(
            &self.directory,
            "apiserver-kubelet-client",
            KUBELET_CLIENT_USER,
            KUBELET_CLIENT_GROUP,
        )
    }

    /// Writes the administrator's kubeconfig, if it is configured.
    ///
    /// # Errors
    /// The file is not writable.
    pub(super) fn write_kubeconfig(&self, pki: &Pki) -> Result<(), StartError> {
        let Some(path) = &self.kubeconfig else {
            return Ok(());
        };
        kubeconfig::write(path, &self.server_url, pki).map_err(|source| StartError::Kubeconfig {
            path: path.clone(),
            source,
        })
    }
}

/// Renews certificates and the key of ServiceAccount tokens before they expire, until the server shuts down.
pub(super) async fn renew(
    certificates: ServerCertificates,
    serving: Arc<ServingCertificate>,
    authenticator: Arc<Authenticator>,
    mut shutdown: Shutdown,
) {
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(RENEWAL_PERIOD) => {}
        }
        let renewed = certificates.open().map_err(StartError::from).and_then(|pki| {
            serving.replace(&pki.serving)?;
            authenticator.service_accounts.renew()?;
            certificates.write_kubeconfig(&pki)
        });
        if let Err(error) = renewed {
            tracing::error!(%error, "certificates not renewed");
        }
    }
}
