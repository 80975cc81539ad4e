//! A certificate and its key in files that are rotated: each new connection uses their current contents.

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

/// Failure to load the files. They are read again for the next connection.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFilesError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The contents are invalid.
    #[error("expected a certificate in {} and its key in {}: {reason}", certificate.display(), key.display())]
    Unusable {
        /// Path of the certificate.
        certificate: PathBuf,
        /// Path of the key.
        key: PathBuf,
        /// Description of the fault.
        reason: String,
    },
}

/// A certificate chain and its key, as PEM files, for either side of TLS. While they cannot be loaded, the previous
/// contents are used.
#[derive(Debug)]
pub struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    loaded: Mutex<Option<LoadedPair>>,
}

/// Certificate and key, with the stamps of their files.
#[derive(Debug)]
struct LoadedPair {
    stamps: [FileStamp; 2],
    pair: Arc<CertifiedKey>,
}

/// File attributes that change when a file is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    modified_nanoseconds: i128,
}

impl CertificateFiles {
    /// Creates a source for these files, which need not exist yet.
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self {
            certificate,
            key,
            loaded: Mutex::new(None),
        }
    }

    /// Loads the current contents.
    ///
    /// # Errors
    ///
    /// Returns [`CertificateFilesError`] if the files cannot be read or are invalid.
    pub fn load(&self) -> Result<Arc<CertifiedKey>, CertificateFilesError> {
        let stamps = [file_stamp(&self.certificate)?, file_stamp(&self.key)?];
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.stamps == stamps) {
            return Ok(Arc::clone(&loaded.pair));
        }
        let pair = self.read()?;
        *loaded = Some(LoadedPair {
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
        // The pair is checked too: between the writes of the two files they do not match.
        let pair =
            CertifiedKey::from_der(chain, key, &provider).map_err(|error| unusable(error.to_string()))?;
        Ok(Arc::new(pair))
    }

    /// Returns the current contents, or the last valid ones.
    fn current(&self) -> Option<Arc<CertifiedKey>> {
        let before = || {
            let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            loaded.as_ref().map(|loaded| Arc::clone(&loaded.pair))
        };
        self.load()
            .inspect_err(|error| tracing::debug!(%error, "certificate not reloaded"))
            .ok()
            .or_else(before)
    }
}

fn file_stamp(path: &PathBuf) -> Result<FileStamp, CertificateFilesError> {
    let about = fs::metadata(path).map_err(|source| CertificateFilesError::Read {
        path: path.clone(),
        source,
    })?;
    Ok(FileStamp {
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
