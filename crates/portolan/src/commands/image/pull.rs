//! `portolan image pull`: downloads images from registries.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use images::{Reference, RegistryCredential, StoreSettings, parse_docker_credentials};

use super::progress::PullProgress;
use super::{HOSTS_DIRECTORY, REGISTRY_FLAGS, StoreFlags, print_stored};
use crate::error::{CommandError, FileError, UsageError};
use crate::flags::values::duration;
use crate::output::Format;
use crate::runtime;

/// Name of standard input for --password-file.
const STANDARD_INPUT: &str = "-";
/// Maximum number of bytes of a file with credentials. Identity tokens have a few KiB.
const CREDENTIALS_BYTES_MAX: u64 = 1 << 20;

/// Flags of `portolan image pull`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Names of images: nginx, registry.example:5000/team/app:1.0, quay.io/app@sha256:…
    #[arg(required = true, value_name = "NAME")]
    names: Vec<Reference>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    registry: RegistryFlags,
    #[command(flatten)]
    store: StoreFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = REGISTRY_FLAGS)]
struct RegistryFlags {
    /// User of the registry
    #[arg(long, requires = "password_file", value_name = "NAME")]
    username: Option<String>,
    /// File with the password, or - for standard input
    #[arg(long, requires = "username", value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// File with credentials in the form of Docker's config.json
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// Directory with HOST/hosts.toml for mirrors and registries without TLS
    #[arg(long, default_value = HOSTS_DIRECTORY, value_name = "DIR")]
    hosts_dir: PathBuf,
    /// Time for each image
    #[arg(long, default_value = "1h", value_name = "DURATION", value_parser = duration)]
    timeout: Duration,
}

/// Pulls images one after the other.
///
/// # Errors
///
/// An error if a file with credentials is invalid, or a registry or the store fails.
pub(super) fn run(flags: &Flags) -> Result<(), CommandError> {
    let settings = StoreSettings {
        hosts_directory: Some(flags.registry.hosts_dir.clone()),
        pull_timeout: flags.registry.timeout,
        ..StoreSettings::default()
    };
    let credentials = flags.registry.credentials(&flags.names)?;
    let store = flags.store.open(settings)?;
    runtime::multi_thread(2)?.block_on(async {
        let mut images = Vec::new();
        for name in &flags.names {
            let progress = PullProgress::new(name);
            images.push(
                store
                    .pull(name, &credentials, &|step| progress.report(step))
                    .await?,
            );
        }
        print_stored(&images, flags.output, "pulled");
        Ok(())
    })
}

impl RegistryFlags {
    /// Returns the credentials of the flags. User and password are for the registries of the names only.
    fn credentials(&self, names: &[Reference]) -> Result<Vec<RegistryCredential>, CommandError> {
        let mut credentials = Vec::new();
        if let Some(path) = &self.credentials {
            let content = read_bounded(path)?;
            let parsed = parse_docker_credentials(&content);
            credentials.extend(parsed.map_err(|error| format!("{}: {error}", path.display()))?);
        }
        if let (Some(username), Some(path)) = (&self.username, &self.password_file) {
            let content = if path.as_os_str() == STANDARD_INPUT {
                read_to_limit(std::io::stdin(), Path::new("standard input"))?
            } else {
                read_bounded(path)?
            };
            let password = String::from_utf8(content)
                .map_err(|_| UsageError::new("the password of --password-file is not UTF-8"))?;
            credentials.extend(names.iter().map(|name| RegistryCredential {
                registry: name.registry().to_owned(),
                username: username.clone(),
                password: password.trim_end_matches(['\r', '\n']).to_owned(),
            }));
        }
        Ok(credentials)
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, CommandError> {
    read_to_limit(File::open(path).map_err(FileError::at(path))?, path)
}

fn read_to_limit(reader: impl Read, path: &Path) -> Result<Vec<u8>, CommandError> {
    let mut content = Vec::new();
    let read = reader.take(CREDENTIALS_BYTES_MAX + 1).read_to_end(&mut content);
    read.map_err(FileError::at(path))?;
    if content.len() as u64 > CREDENTIALS_BYTES_MAX {
        return Err(format!("{}: more than {CREDENTIALS_BYTES_MAX} bytes", path.display()).into());
    }
    Ok(content)
}
