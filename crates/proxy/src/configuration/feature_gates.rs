//! Feature gates with an effect here (KPF-05): the debug pages, and external IPs of Services.

use std::str::FromStr;

use super::v1alpha1::KubeProxyConfiguration;

/// Gate that serves `/statusz`.
pub const COMPONENT_STATUSZ: &str = "ComponentStatusz";
/// Gate that serves `/flagz`.
pub const COMPONENT_FLAGZ: &str = "ComponentFlagz";
/// Gate that implements `spec.externalIPs` of Services (KPR-19, GATE-01; upstream's `pkg/proxy/serviceport.go`).
const ALLOW_SERVICE_EXTERNAL_IPS: &str = "AllowServiceExternalIPs";
/// Gates with an effect on `portolan proxy`.
const PROXY_GATES: [&str; 3] = [COMPONENT_STATUSZ, COMPONENT_FLAGZ, ALLOW_SERVICE_EXTERNAL_IPS];

/// Part of `--feature-gates` that is not a gate. No retry helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected Name=true or Name=false, found {pair:?}")]
pub struct ParseFeatureGateError {
    /// The part as given.
    pub pair: String,
}

/// Gates by name, in the notation of `--feature-gates`: `Name=true,Other=false`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(pub Vec<(String, bool)>);

impl FromStr for FeatureGates {
    type Err = ParseFeatureGateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let gates: Result<Vec<(String, bool)>, Self::Err> = pairs.map(parse_gate).collect();
        gates.map(Self)
    }
}

fn parse_gate(pair: &str) -> Result<(String, bool), ParseFeatureGateError> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    match value.trim().to_ascii_lowercase().parse::<bool>() {
        Ok(value) => Ok((name.trim().to_owned(), value)),
        Err(_) => Err(ParseFeatureGateError {
            pair: pair.to_owned(),
        }),
    }
}

impl FeatureGates {
    /// Returns the gates without an effect on `portolan proxy`.
    pub fn without_effect(&self) -> Vec<&str> {
        self.names_except(&PROXY_GATES)
    }

    /// Returns the gates without an effect on the proxy inside `portolan up` and `portolan join`.
    pub fn without_effect_on_hosts(&self) -> Vec<&str> {
        self.names_except(&[ALLOW_SERVICE_EXTERNAL_IPS])
    }

    fn names_except(&self, excluded: &[&str]) -> Vec<&str> {
        let names = self.0.iter().map(|(name, _)| name.as_str());
        names.filter(|name| !excluded.contains(name)).collect()
    }
}

impl KubeProxyConfiguration {
    /// Returns true if external IPs of Services are implemented, which is the default of the gate.
    pub(super) fn allows_external_ips(&self) -> bool {
        self.feature_gates.get(ALLOW_SERVICE_EXTERNAL_IPS) != Some(&false)
    }

    /// Returns true if the file or a flag turns this gate on.
    pub fn has_feature(&self, gate: &str) -> bool {
        self.feature_gates.get(gate) == Some(&true)
    }
}

#[cfg(test)]
mod tests;
