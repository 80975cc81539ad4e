//! Certificates that components of the node use: those of the kubelet, of node proxies, and of Portolan.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use explain::observation::Certificate;
use jiff::Timestamp;
use serde_json::Value;
use x509_parser::pem::Pem;

use super::processes::{Process, open_regular};
use crate::flags::values::DATA_DIRECTORY;

/// Maximum number of bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of certificates.
const CERTIFICATES_MAX: usize = 200;
/// Maximum number of files of one directory that are read.
const FILES_MAX: usize = 200;
/// Maximum number of data directories and kubeconfigs that arguments of processes name. A host runs a handful of
/// components.
const NAMED_MAX: usize = 32;
/// Files with certificates, and directories whose files are read.
const PATHS: [&str; 8] = [
    "/var/lib/kubelet/pki/kubelet-client-current.pem",
    "/var/lib/kubelet/pki/kubelet-server-current.pem",
    "/var/lib/kubelet/pki/kubelet.crt",
    "/var/lib/kubelet/kubeconfig",
    "/etc/kubernetes",
    "/etc/kubernetes/pki",
    "/var/lib/rancher/k3s/agent",
    "/var/lib/kube-proxy/kubeconfig",
];
/// Directories of certificates below Portolan's data directory.
const PORTOLAN_DIRECTORIES: [&str; 4] = ["", "pki", "join", "agent"];
/// Ends of the names of files that can contain certificates.
const EXTENSIONS: [&str; 4] = ["crt", "pem", "conf", "kubeconfig"];

/// Reads the certificates. Returns true if a file exists and must not be read. `own` is the network namespace of the node.
///
/// Components of the node are in this namespace. Processes of other Pods can have the same arguments, and there can be
/// thousands.
pub(super) fn read(processes: &[Process], own: u64) -> (Vec<Certificate>, bool) {
    let is_here = |process: &&Process| process.namespace.is_none_or(|namespace| namespace == own);
    let processes: Vec<&Process> = processes.iter().filter(is_here).collect();
    let mut is_denied = false;
    let mut certificates = Vec::new();
    let mut seen = BTreeSet::new();
    let paths = PATHS.iter().map(PathBuf::from);
    for path in paths.chain(portolan_directories(&processes)) {
        let files = match files(&path) {
            Ok(files) => files,
            Err(error) => {
                is_denied |= error.kind() == io::ErrorKind::PermissionDenied;
                continue;
            }
        };
        for file in files {
            match read_bounded(&file) {
                Ok(text) if seen.insert(file.clone()) => {
                    certificates.extend(certificates_of_text(&file, &text, &read_bounded));
                }
                Ok(_) => {}
                Err(error) => is_denied |= error.kind() == io::ErrorKind::PermissionDenied,
            }
        }
    }
    for (process, path) in kubeconfigs(&processes) {
        let read = |path: &Path| -> io::Result<Vec<u8>> {
            let text = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
            read_to_limit(process.open(text)?)
        };
        match read(&path) {
            Ok(text) if seen.insert(path.clone()) => {
                certificates.extend(certificates_of_text(&path, &text, &read))
            }
            Ok(_) => {}
            Err(error) => is_denied |= error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
    certificates.truncate(CERTIFICATES_MAX);
    (certificates, is_denied)
}

/// Returns the directories of Portolan's certificates.
fn portolan_directories(processes: &[&Process]) -> Vec<PathBuf> {
    let process_directories = processes
        .iter()
        .filter(|process| process.file_name() == "portolan")
        .filter_map(|process| process.flag("data-dir"));
    let data: BTreeSet<&str> = process_directories
        .take(NAMED_MAX)
        .chain([DATA_DIRECTORY])
        .collect();
    data.iter()
        .flat_map(|data| PORTOLAN_DIRECTORIES.map(|directory| Path::new(data).join(directory)))
        .collect()
}

/// Returns the node components with the paths of their kubeconfigs, as the components name them.
fn kubeconfigs<'p>(processes: &[&'p Process]) -> Vec<(&'p Process, PathBuf)> {
    let components = processes
        .iter()
        .copied()
        .filter(|process| matches!(process.file_name(), "kubelet" | "kube-proxy" | "portolan"));
    let named = components.filter_map(|process| {
        let path = process.flag("kubeconfig").filter(|path| path.starts_with('/'))?;
        Some((process, PathBuf::from(path)))
    });
    named.take(NAMED_MAX).collect()
}

/// Returns a file, or the files of a directory that can contain certificates.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path)?.take(FILES_MAX) {
        let file = entry?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    read_to_limit(open_regular(path)?)
}

fn read_to_limit(file: fs::File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the first certificate of a PEM file, or the client certificates of a kubeconfig. The other certificates of a
/// file are those of its authorities. `read` reads a file that a kubeconfig names.
fn certificates_of_text(
    path: &Path,
    text: &[u8],
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Vec<Certificate> {
    if let Some(certificate) = first_certificate(path, text) {
        return vec![certificate];
    }
    let text = String::from_utf8_lossy(text);
    let tree: Value = serde_saphyr::from_str(&text).unwrap_or_default();
    let users = tree["users"].as_array().into_iter().flatten();
    users
        .filter_map(|user| {
            let user = &user["user"];
            if let Some(data) = user["client-certificate-data"].as_str() {
                let pem = base64::engine::general_purpose::STANDARD
                    .decode(data.trim())
                    .ok()?;
                return first_certificate(path, &pem);
            }
            let file = user["client-certificate"].as_str()?;
            let file = path.parent()?.join(file);
            first_certificate(&file, &read(&file).ok()?)
        })
        .collect()
}

fn first_certificate(path: &Path, text: &[u8]) -> Option<Certificate> {
    let mut blocks = Pem::iter_from_buffer(text).filter_map(Result::ok);
    let block = blocks.find(|block| block.label == "CERTIFICATE")?;
    let certificate = block.parse_x509().ok()?;
    let expires = certificate.validity().not_after.timestamp();
    Some(Certificate {
        path: path.display().to_string(),
        subject: Some(certificate.subject().to_string()),
        expires: Timestamp::from_second(expires).ok().map(|time| time.to_string()),
    })
}

#[cfg(test)]
mod tests;
