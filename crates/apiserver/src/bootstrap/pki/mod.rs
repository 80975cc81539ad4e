//! Certificate authorities and their certificates.
//!
//! The cluster CA signs the serving certificate of the API server and client certificates. The kubelet
//! serving CA signs serving certificates of node agents; only the API server trusts it, for its connections
//! to agents. All files are in one directory. They are used again at the next start, and renewed before they
//! expire.

mod issue;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use api::certificates::NodeIdentity;
use rcgen::{Issuer, KeyPair};
use trust::private_file;

use issue::Purpose;

/// Remaining validity below which a certificate is renewed.
const RENEW_BEFORE_DAYS: i64 = 30;
/// Age up to which the certificate of a node component is used again: without a Node it is valid for one hour only.
const NODE_REUSE_SECONDS: i64 = 600;
/// File names of the cluster CA and of the kubelet serving CA.
const AUTHORITY: &str = "ca";
const KUBELET_SERVING_AUTHORITY: &str = "kubelet-serving-ca";

/// Failure to read or issue certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file is not readable or writable. A retry helps after the cause is removed.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// A file holds no usable certificate or key. After the removal of `.crt` and `.key`, both are issued again.
    #[error("{} cannot be used: {reason}; remove its .crt and .key to issue both again", path.display())]
    Unusable {
        /// Path of the file.
        path: PathBuf,
        /// Fault of the content.
        reason: String,
    },
    /// The cluster CA does not exist. A retry helps after the first start of the API server, which creates it.
    #[error("{} does not exist: start the API server first; it creates the cluster CA", path.display())]
    NoAuthority {
        /// Path of the certificate.
        path: PathBuf,
    },
    /// A certificate cannot be issued.
    #[error("cannot issue the {subject} certificate: {source}")]
    Issue {
        /// Kind of the certificate: `CA`, `serving` or `client`.
        subject: &'static str,
        /// Error of the certificate library.
        source: rcgen::Error,
    },
}

/// Certificate and key, both PEM.
#[derive(Clone)]
pub struct CertificateAndKey {
    /// X.509 certificate.
    pub certificate: String,
    /// Key, PKCS 8.
    pub key: String,
}

/// Certificates of a server.
#[derive(Clone)]
pub struct Pki {
    /// Cluster CA certificate, PEM. Clients verify the server by it, and the server its clients.
    pub authority: String,
    /// Kubelet serving CA certificate, PEM. The server verifies node agents by it; no client of the API trusts it.
    pub kubelet_serving_authority: String,
    /// Serving certificate.
    pub serving: CertificateAndKey,
    /// Client certificate of the administrator: user `kubernetes-admin`, group `system:masters`.
    pub admin: CertificateAndKey,
}

/// Certificate of a client or of a node agent, with the cluster CA.
#[derive(Clone)]
pub struct Client {
    /// Cluster CA certificate, PEM, by which the peer is verified.
    pub authority: String,
    /// Certificate and key.
    pub pair: CertificateAndKey,
}

/// Returns the client certificate for `user`, a member of `group` unless that is "". The files `NAME.crt` and
/// `NAME.key` in `directory`, that of the cluster CA, are used again until they expire soon or have another subject.
/// The certificate of a node component is used again for ten minutes, and is marked as issued by an administrator.
///
/// # Errors
/// See [`PkiError`]. The cluster CA is absent if no server was started with the directory.
pub fn client(directory: &Path, name: &str, user: &str, group: &str) -> Result<Client, PkiError> {
    let files = Files { directory };
    let authority = files.authority()?;
    let now_seconds = jiff::Timestamp::now().as_second();
    let valid_until = now_seconds + RENEW_BEFORE_DAYS * 86_400;
    let issuer = files.issuer(AUTHORITY, &authority)?;
    let is_of_node = NodeIdentity::of(user, &[group]).is_some();
    let pair = match files.read(name)? {
        Some(pair)
            if issue::expires_after(&pair.certificate, valid_until)
                && issue::has_subject(&pair.certificate, user, group)
                && issue::is_signed_by(&pair.certificate, &authority.certificate)
                && (!is_of_node
                    || issue::is_issued_by_administrator_since(
                        &pair.certificate,
                        now_seconds - NODE_REUSE_SECONDS,
                    )) =>
        {
            pair
        }
        _ => {
            let purpose = if is_of_node {
                Purpose::NodeClient { user, group }
            } else {
                Purpose::Client { user, group }
            };
            files.write(name, issue::sign(&issuer, purpose, now_seconds)?)?
        }
    };
    Ok(Client {
        authority: authority.certificate,
        pair,
    })
}

/// Returns the serving certificate of a node agent, for the name and addresses of its node. The kubelet serving CA
/// signs it, so that no client of the API accepts the agent as API server. The files `serving-NODE.crt` and
/// `serving-NODE.key` in `directory` are used again, unless they expire soon or lack a name. Files that an earlier
/// version signed with the cluster CA are not used.
///
/// # Errors
/// See [`PkiError`]. The cluster CA is absent if no server was started with the directory.
pub fn node_serving(directory: &Path, node_name: &str, addresses: &[IpAddr]) -> Result<Client, PkiError> {
    let files = Files { directory };
    let authority = files.authority()?;
    let serving_authority = files.ensure_kubelet_serving_authority(&authority)?;
    let mut names = vec![node_name.to_owned()];
    names.extend(addresses.iter().map(IpAddr::to_string));
    let name = format!("serving-{node_name}");
    let now_seconds = jiff::Timestamp::now().as_second();
    let valid_until = now_seconds + RENEW_BEFORE_DAYS * 86_400;
    let pair = match files.read(&name)? {
        Some(pair)
            if issue::expires_after(&pair.certificate, valid_until)
                && issue::has_names(&pair.certificate, &names)
                && issue::is_signed_by(&pair.certificate, &serving_authority.certificate) =>
        {
            pair
        }
        _ => {
            let purpose = Purpose::Serving {
                common_name: &format!("system:node:{node_name}"),
                names: &names,
            };
            let issuer = files.issuer(KUBELET_SERVING_AUTHORITY, &serving_authority)?;
            files.write(&name, issue::sign(&issuer, purpose, now_seconds)?)?
        }
    };
    Ok(Client {
        authority: authority.certificate,
        pair,
    })
}

/// Creates the cluster CA and the kubelet serving CA in `directory`, if they are absent or expire soon. A server does so
/// at its start, too; a caller can do it while it opens the store.
///
/// # Errors
/// See [`PkiError`].
pub fn ensure_authorities(directory: &Path) -> Result<(), PkiError> {
    create_directory(directory)?;
    let files = Files { directory };
    let authority = files.ensure_authority()?;
    files.ensure_kubelet_serving_authority(&authority)?;
    Ok(())
}

/// Returns true if a CA signed the first certificate of a PEM text, by the key identifiers of both.
pub fn is_signed_by(certificate: &str, authority: &str) -> bool {
    issue::is_signed_by(certificate, authority)
}

/// Returns the subject names and addresses of the serving certificate: for clients on this host, in the cluster and
/// outside.
pub fn serving_names(node_name: &str, cluster_domain: &str, addresses: &[IpAddr]) -> Vec<String> {
    let mut names: Vec<String> = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push(format!("kubernetes.default.svc.{cluster_domain}"));
    names.push(node_name.to_owned());
    names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
    names.extend(
        addresses
            .iter()
            .filter(|address| !address.is_unspecified())
            .map(IpAddr::to_string),
    );
    names.sort();
    names.dedup();
    names
}

impl Pki {
    /// Reads the certificates in `directory`, and issues those that are absent, expire soon, or lack one of
    /// `serving_names`.
    ///
    /// # Errors
    /// See [`PkiError`].
    pub fn open(directory: &Path, serving_names: &[String]) -> Result<Pki, PkiError> {
        create_directory(directory)?;
        let files = Files { directory };
        let now_seconds = jiff::Timestamp::now().as_second();
        let valid_until = now_seconds + RENEW_BEFORE_DAYS * 86_400;
        let authority = files.ensure_authority()?;
        let kubelet_serving_authority = files.ensure_kubelet_serving_authority(&authority)?;
        let issuer = files.issuer(AUTHORITY, &authority)?;
        let is_reusable = |pair: &CertificateAndKey| {
            issue::is_signed_by(&pair.certificate, &authority.certificate)
                && issue::expires_after(&pair.certificate, valid_until)
        };
        let serving = match files.read("apiserver")? {
            Some(pair) if is_reusable(&pair) && issue::has_names(&pair.certificate, serving_names) => pair,
            _ => {
                let purpose = Purpose::Serving {
                    common_name: "kube-apiserver",
                    names: serving_names,
                };
                files.write("apiserver", issue::sign(&issuer, purpose, now_seconds)?)?
            }
        };
        let admin = match files.read("admin")? {
            Some(pair) if is_reusable(&pair) => pair,
            _ => {
                let purpose = Purpose::Client {
                    user: "kubernetes-admin",
                    group: "system:masters",
                };
                files.write("admin", issue::sign(&issuer, purpose, now_seconds)?)?
            }
        };
        Ok(Pki {
            authority: authority.certificate,
            kubelet_serving_authority: kubelet_serving_authority.certificate,
            serving,
            admin,
        })
    }
}

/// Creates the directory of certificates and keys.
///
/// # Errors
/// [`PkiError::File`] if the directory cannot be created.
pub(crate) fn create_directory(directory: &Path) -> Result<(), PkiError> {
    private_file::create_directory(directory).map_err(|source| PkiError::File {
        path: directory.to_owned(),
        source,
    })
}

/// Directory of the pairs `NAME.crt` and `NAME.key`.
struct Files<'d> {
    directory: &'d Path,
}

impl Files<'_> {
    fn authority(&self) -> Result<CertificateAndKey, PkiError> {
        self.read(AUTHORITY)?.ok_or_else(|| PkiError::NoAuthority {
            path: self.path(AUTHORITY, "crt"),
        })
    }

    /// Returns the cluster CA, created if it is absent or expires soon.
    fn ensure_authority(&self) -> Result<CertificateAndKey, PkiError> {
        let now_seconds = jiff::Timestamp::now().as_second();
        let valid_until = now_seconds + RENEW_BEFORE_DAYS * 86_400;
        match self.read(AUTHORITY)? {
            Some(pair) if issue::expires_after(&pair.certificate, valid_until) => Ok(pair),
            _ => {
                let pair = issue::create_ca("portolan-ca", issue::generate_key()?, now_seconds)?;
                self.write_authority(AUTHORITY, pair)
            }
        }
    }

    /// Returns the kubelet serving CA, created if it is absent or expires soon. Its key derives from that of the
    /// cluster CA, so that servers with the same cluster CA trust the same agents.
    fn ensure_kubelet_serving_authority(
        &self,
        authority: &CertificateAndKey,
    ) -> Result<CertificateAndKey, PkiError> {
        let now_seconds = jiff::Timestamp::now().as_second();
        let valid_until = now_seconds + RENEW_BEFORE_DAYS * 86_400;
        match self.read(KUBELET_SERVING_AUTHORITY)? {
            Some(pair) if issue::expires_after(&pair.certificate, valid_until) => Ok(pair),
            _ => {
                let key = issue::derive_key(authority, b"portolan kubelet-serving authority")?;
                let pair = issue::create_ca("portolan-kubelet-serving-ca", key, now_seconds)?;
                self.write_authority(KUBELET_SERVING_AUTHORITY, pair)
            }
        }
    }

    fn read(&self, name: &str) -> Result<Option<CertificateAndKey>, PkiError> {
        let read = |path: PathBuf| match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // Damaged: it matches nothing.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(String::new())),
            Err(source) => Err(PkiError::File { path, source }),
        };
        let certificate = read(self.path(name, "crt"))?;
        let key = read(self.path(name, "key"))?;
        let Some((certificate, key)) = certificate.zip(key) else {
            return Ok(None);
        };
        let fits = KeyPair::from_pem(&key).is_ok_and(|key| issue::is_for_key(&certificate, &key));
        if matches!(name, AUTHORITY | KUBELET_SERVING_AUTHORITY) && !fits {
            // No client trusts a new CA, so an administrator must decide.
            let reason = "certificate and key do not match".to_owned();
            return Err(PkiError::Unusable {
                path: self.path(name, "crt"),
                reason,
            });
        }
        Ok(fits.then_some(CertificateAndKey { certificate, key }))
    }

    /// Writes the pair of a CA to the disk, the key first. A crash before the first certificate is written leaves a key
    /// alone, and the next start creates both again.
    fn write_authority(&self, name: &str, pair: CertificateAndKey) -> Result<CertificateAndKey, PkiError> {
        self.write_by(private_file::write, name, pair)
    }

    /// Writes a signed pair, the key first. The write does not wait for the disk. A crash can leave a pair that is
    /// damaged or does not match. The next start issues it again.
    fn write(&self, name: &str, pair: CertificateAndKey) -> Result<CertificateAndKey, PkiError> {
        self.write_by(private_file::write_unsynced, name, pair)
    }

    fn write_by(
        &self,
        write: fn(&Path, &[u8]) -> io::Result<()>,
        name: &str,
        pair: CertificateAndKey,
    ) -> Result<CertificateAndKey, PkiError> {
        for (extension, contents) in [("key", &pair.key), ("crt", &pair.certificate)] {
            let path = self.path(name, extension);
            write(&path, contents.as_bytes()).map_err(|source| PkiError::File { path, source })?;
        }
        Ok(pair)
    }

    fn issuer(
        &self,
        name: &str,
        authority: &CertificateAndKey,
    ) -> Result<Issuer<'static, KeyPair>, PkiError> {
        KeyPair::from_pem(&authority.key)
            .and_then(|key| Issuer::from_ca_cert_pem(&authority.certificate, key))
            .map_err(|error| PkiError::Unusable {
                path: self.path(name, "crt"),
                reason: error.to_string(),
            })
    }

    fn path(&self, name: &str, extension: &str) -> PathBuf {
        self.directory.join(format!("{name}.{extension}"))
    }
}

#[cfg(test)]
mod tests;
