//! Authentication, authorization, admission and request limits of the API server, with upstream's names.

use std::path::PathBuf;

use apiserver::{Access, AdmissionConfiguration, AdmissionPlugin, AuthorizationMode, RequestLimits};
use clap::{ArgAction, Args};

use super::audit::AuditFlags;
use crate::error::{CommandError, UsageError};

/// Flags of authentication, authorization, admission, request limits and auditing.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Authentication, authorization and admission")]
pub(crate) struct AccessFlags {
    /// Authorizers in their order: Node, RBAC, AlwaysAllow, AlwaysDeny
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "Node,RBAC",
        value_name = "MODE[,MODE]"
    )]
    authorization_mode: Vec<AuthorizationMode>,
    /// Accept requests without credentials as user system:anonymous
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    anonymous_auth: bool,
    /// Issuer of ServiceAccount tokens [default: https://kubernetes.default.svc.DOMAIN, with the cluster domain]
    #[arg(long, value_name = "URL")]
    service_account_issuer: Option<String>,
    /// Admission plugins to enable besides the defaults; `up` enables DenyServiceExternalIPs by default
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME]")]
    enable_admission_plugins: Vec<AdmissionPlugin>,
    /// Admission plugins to disable
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME]")]
    disable_admission_plugins: Vec<AdmissionPlugin>,
    /// AdmissionConfiguration file (apiserver.config.k8s.io/v1) with settings of PodSecurity
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
    /// Concurrent reads, divided among the priority levels; 0 for no limit
    #[arg(long, default_value_t = RequestLimits::default().concurrent_reads_max, value_name = "N", help_heading = "Request limits")]
    max_requests_inflight: u32,
    /// Concurrent writes, divided among the priority levels; 0 for no limit
    #[arg(long, default_value_t = RequestLimits::default().concurrent_writes_max, value_name = "N", help_heading = "Request limits")]
    max_mutating_requests_inflight: u32,
    /// Requests per second of one user, with a burst of twice as many; 0 for no limit
    #[arg(long, default_value_t = RequestLimits::default().per_user_per_second, value_name = "N", help_heading = "Request limits")]
    max_requests_per_user: u32,
    /// Maximum number of connections from one IPv4 address or IPv6 /64: this number with certificates, the same number with
    /// tokens, a quarter without credentials, a sixteenth in the handshake; 0 for no limit
    #[arg(long, default_value_t = RequestLimits::default().connections_per_address, value_name = "N", help_heading = "Request limits")]
    max_connections_per_address: u32,
    #[command(flatten)]
    audit: AuditFlags,
}

impl AccessFlags {
    /// Returns the settings of the API server.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if plugins contradict each other, or an error about a file.
    pub(crate) fn access(&self) -> Result<Access, CommandError> {
        self.access_with(&[])
    }

    /// As [`AccessFlags::access`], with more plugins that are enabled by default.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if plugins contradict each other, or an error about a file.
    pub(crate) fn access_with(&self, more_plugins: &[AdmissionPlugin]) -> Result<Access, CommandError> {
        let mut plugins = AdmissionPlugin::defaults();
        plugins.extend(more_plugins);
        plugins.extend(&self.enable_admission_plugins);
        for plugin in &self.disable_admission_plugins {
            if self.enable_admission_plugins.contains(plugin) {
                return Err(UsageError(format!("{plugin} is both enabled and disabled")).into());
            }
            if *plugin == AdmissionPlugin::NamespaceLifecycle {
                return Err(UsageError(format!(
                    "{plugin} cannot be disabled: the deletion of namespaces depends on it"
                ))
                .into());
            }
            plugins.remove(plugin);
        }
        let configuration = match &self.admission_control_config_file {
            Some(path) => AdmissionConfiguration::read(path)?,
            None => AdmissionConfiguration::default(),
        };
        Ok(Access {
            authorization_modes: self.authorization_mode.clone(),
            allows_anonymous: self.anonymous_auth,
            admission_plugins: plugins,
            admission_configuration: configuration,
            request_limits: RequestLimits {
                concurrent_reads_max: self.max_requests_inflight,
                concurrent_writes_max: self.max_mutating_requests_inflight,
                per_user_per_second: self.max_requests_per_user,
                connections_per_address: self.max_connections_per_address,
            },
            audit: self.audit.settings()?,
            service_account_issuer: self.service_account_issuer.clone(),
        })
    }
}
