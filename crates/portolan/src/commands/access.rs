//! Flags that concern who may do what, under upstream's names.

use std::path::PathBuf;

use apiserver::{Access, AdmissionConfiguration, AdmissionPlugin, AuthorizationMode, RequestLimits};
use clap::{ArgAction, Args};

use super::Failure;
use super::audit::AuditFlags;
use crate::flags::BadValue;

/// Who may do what, and how much of it.
#[derive(Clone, Debug, Args)]
pub struct AccessFlags {
    /// Who decides what is allowed, in this order: Node, RBAC, AlwaysAllow, AlwaysDeny
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "Node,RBAC",
        value_name = "MODE[,MODE]"
    )]
    authorization_mode: Vec<AuthorizationMode>,
    /// Whether requests without credentials may do what is allowed to system:anonymous
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    anonymous_auth: bool,
    /// Checks of writes that run besides those that are on by default: DenyServiceExternalIPs, which portolan up has on
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME]")]
    enable_admission_plugins: Vec<AdmissionPlugin>,
    /// Checks of writes that do not run
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME]")]
    disable_admission_plugins: Vec<AdmissionPlugin>,
    /// File with settings of admission plugins: an AdmissionConfiguration of apiserver.config.k8s.io/v1, in which the plugin
    /// PodSecurity has a PodSecurityConfiguration
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
    /// Reads that are answered at a time, divided among the priority levels, those of system:masters not counted; 0 for
    /// no limit
    #[arg(long, default_value_t = RequestLimits::default().concurrent_reads_max, value_name = "N")]
    max_requests_inflight: u32,
    /// Writes that are carried out at a time, divided among the priority levels, those of system:masters not counted; 0
    /// for no limit
    #[arg(long, default_value_t = RequestLimits::default().concurrent_writes_max, value_name = "N")]
    max_mutating_requests_inflight: u32,
    /// Requests that one user may make in a second; twice as many after a pause; 0 for no limit
    #[arg(long, default_value_t = RequestLimits::default().per_user_per_second, value_name = "N")]
    max_requests_per_user: u32,
    /// Connections to the API from one address (one /64 of IPv6): so many with a client certificate, as many with a token,
    /// and a fourth of that without any proof; those of system:masters not counted; 0 for no limit
    #[arg(long, default_value_t = RequestLimits::default().connections_per_address, value_name = "N")]
    max_connections_per_address: u32,
    /// Issuer of ServiceAccount tokens; https://kubernetes.default.svc and the cluster's domain if not given
    #[arg(long, value_name = "URL")]
    service_account_issuer: Option<String>,
    #[command(flatten)]
    audit: AuditFlags,
}

impl AccessFlags {
    /// What the API server is told.
    pub fn access(&self) -> Result<Access, Failure> {
        self.access_with(&[])
    }

    /// As [`AccessFlags::access`], where these plugins are on by default, too.
    pub fn access_with(&self, more_plugins: &[AdmissionPlugin]) -> Result<Access, Failure> {
        let mut plugins = AdmissionPlugin::defaults();
        plugins.extend(more_plugins);
        plugins.extend(&self.enable_admission_plugins);
        for plugin in &self.disable_admission_plugins {
            if self.enable_admission_plugins.contains(plugin) {
                return Err(BadValue(format!("{plugin} is both enabled and disabled")).into());
            }
            if *plugin == AdmissionPlugin::NamespaceLifecycle {
                return Err(BadValue(format!(
                    "{plugin} cannot be disabled: the end of namespaces rests on it"
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
