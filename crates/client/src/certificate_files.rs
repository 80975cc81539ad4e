//! A certificate and its key in files that somebody replaces in time: each new connection gets what is there now.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Why files cannot be used. Mending the files helps; they are read again with the next connection.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFilesError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something else is in them.
    #[error("{} and {} are not a certificate and its key: {reason}", certificate.display(), key.display())]
    Unusable {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// A certificate chain and its key, PEM, for either side of TLS. As long as they cannot be read, what was read before
/// is used.
#[derive(Debug)]
pub struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    loaded: Mutex<Option<Loaded>>,
}

#[derive(Debug)]
struct Loaded {
    stamps: [Stamp; 2],
    pair: Arc<CertifiedKey>,
}

/// By which a file that was replaced is told from the one of before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    modified_nanoseconds: i128,
}

impl CertificateFiles {
    /// Those files. They need not be there yet.
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self {
            certificate,
            key,
            loaded: Mutex::new(None),
        }
    }

    /// What is in them now.
    ///
    /// # Errors
    /// See [`CertificateFilesError`].
    pub fn load(&self) -> Result<Arc<CertifiedKey>, CertificateFilesError> {
        let stamps = [stamp(&self.certificate)?, stamp(&self.key)?];
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.stamps == stamps) {
            return Ok(Arc::clone(&loaded.pair));
        }
        let pair = self.read()?;
        *loaded = Some(Loaded {
            stamps,
            pair: Arc::clone(&pair),
        });
        Ok(pair)
    }

    fn read(&self) -> Result<Arc<CertifiedKey>, CertificateFilesError> {
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|source| CertificateFilesError::Read {
                path: path.clone(),
                source,
            })
        };
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        let unusable = |reason: String| CertificateFilesError::Unusable {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            reason,
        };
        let chain = CertificateDer::pem_slice_iter(&certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unusable(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| unusable(error.to_string()))?;
        let provider = rustls::crypto::ring::default_provider();
        // That the two belong together is checked, too: between the writing of one and of the other they do not.
        let pair =
            CertifiedKey::from_der(chain, key, &provider).map_err(|error| unusable(error.to_string()))?;
        Ok(Arc::new(pair))
    }

    /// What is in them, or was when they could be read last.
    fn current(&self) -> Option<Arc<CertifiedKey>> {
        let before = || {
            let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            loaded.as_ref().map(|loaded| Arc::clone(&loaded.pair))
        };
        self.load()
            .inspect_err(|error| tracing::debug!(%error, "no new certificate"))
            .ok()
            .or_else(before)
    }
}

fn stamp(path: &PathBuf) -> Result<Stamp, CertificateFilesError> {
    let about = fs::metadata(path).map_err(|source| CertificateFilesError::Read {
        path: path.clone(),
        source,
    })?;
    Ok(Stamp {
        inode: about.ino(),
        modified_nanoseconds: i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec()),
    })
}

impl ResolvesClientCert for CertificateFiles {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ResolvesServerCert for CertificateFiles {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}
