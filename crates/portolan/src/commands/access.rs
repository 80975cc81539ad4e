//! Flags that concern who may do what, under upstream's names.

use apiserver::{Access, AdmissionPlugin, AuthorizationMode, RequestLimits};
use clap::{ArgAction, Args};

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
    /// Checks of writes that run besides those that are on by default: DenyServiceExternalIPs
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME]")]
    enable_admission_plugins: Vec<AdmissionPlugin>,
    /// Checks of writes that do not run
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME]")]
    disable_admission_plugins: Vec<AdmissionPlugin>,
    /// Reads that are answered at a time, those of system:masters not counted; 0 for no limit
    #[arg(long, default_value_t = RequestLimits::default().reads_at_a_time, value_name = "N")]
    max_requests_inflight: u32,
    /// Writes that are carried out at a time, those of system:masters not counted; 0 for no limit
    #[arg(long, default_value_t = RequestLimits::default().writes_at_a_time, value_name = "N")]
    max_mutating_requests_inflight: u32,
    /// Requests that one user may make in a second; twice as many after a pause; 0 for no limit
    #[arg(long, default_value_t = RequestLimits::default().per_user_per_second, value_name = "N")]
    max_requests_per_user: u32,
    /// Issuer of ServiceAccount tokens; https://kubernetes.default.svc and the cluster's domain if not given
    #[arg(long, value_name = "URL")]
    service_account_issuer: Option<String>,
}

impl AccessFlags {
    /// What the API server is told.
    pub fn access(&self) -> Result<Access, BadValue> {
        let mut plugins = AdmissionPlugin::defaults();
        plugins.extend(&self.enable_admission_plugins);
        for plugin in &self.disable_admission_plugins {
            if self.enable_admission_plugins.contains(plugin) {
                return Err(BadValue(format!("{plugin} is both enabled and disabled")));
            }
            if *plugin == AdmissionPlugin::NamespaceLifecycle {
                return Err(BadValue(format!(
                    "{plugin} cannot be disabled: the end of namespaces rests on it"
                )));
            }
            plugins.remove(plugin);
        }
        Ok(Access {
            authorization_modes: self.authorization_mode.clone(),
            allows_anonymous: self.anonymous_auth,
            admission_plugins: plugins,
            request_limits: RequestLimits {
                reads_at_a_time: self.max_requests_inflight,
                writes_at_a_time: self.max_mutating_requests_inflight,
                per_user_per_second: self.max_requests_per_user,
            },
            service_account_issuer: self.service_account_issuer.clone(),
        })
    }
}
