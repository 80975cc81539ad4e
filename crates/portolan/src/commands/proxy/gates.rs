//! Feature gates with an effect here (KPF-05): those of the pages for people, and the one of external IPs.

use std::ffi::OsString;
use std::str::FromStr;

use clap::CommandFactory;

use super::configuration::Configuration;
use crate::cli::Cli;

/// There is `/statusz`.
const STATUSZ: &str = "ComponentStatusz";
/// There is `/flagz`.
const FLAGZ: &str = "ComponentFlagz";
/// `spec.externalIPs` of Services are in force (KPR-19, GATE-01; upstream's `pkg/proxy/serviceport.go`).
const EXTERNAL_IPS: &str = "AllowServiceExternalIPs";
/// All of them.
const KNOWN: [&str; 3] = [STATUSZ, FLAGZ, EXTERNAL_IPS];

/// Gates by name, as `--feature-gates` has them: `Name=true,Other=false`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates(pub Vec<(String, bool)>);

impl FromStr for Gates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let gates: Result<Vec<(String, bool)>, String> = pairs.map(gate).collect();
        gates.map(Self)
    }
}

fn gate(pair: &str) -> Result<(String, bool), String> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    match value.trim().to_ascii_lowercase().parse::<bool>() {
        Ok(value) => Ok((name.trim().to_owned(), value)),
        Err(_) => Err(format!("{pair:?} is not of the form Name=true or Name=false")),
    }
}

impl Gates {
    /// Those without an effect on `portolan proxy`.
    pub fn without_effect(&self) -> Vec<&str> {
        self.others_than(&KNOWN)
    }

    /// Those without an effect on the proxy of a machine of `portolan up` or `portolan join`.
    pub fn without_effect_on_machines(&self) -> Vec<&str> {
        self.others_than(&[EXTERNAL_IPS])
    }

    fn others_than(&self, known: &[&str]) -> Vec<&str> {
        let names = self.0.iter().map(|(name, _)| name.as_str());
        names.filter(|name| !known.contains(name)).collect()
    }
}

/// Whether external IPs of Services are in force: unless the gate is closed.
pub fn allows_external_ips(configuration: &Configuration) -> bool {
    configuration.feature_gates.get(EXTERNAL_IPS) != Some(&false)
}

/// Which pages are served; `/flagz` with what a command line means, the program's name first.
pub fn pages(configuration: &Configuration, arguments: impl Iterator<Item = OsString>) -> proxy::Pages {
    let is_on = |gate: &str| configuration.feature_gates.get(gate) == Some(&true);
    proxy::Pages {
        statusz: is_on(STATUSZ),
        flagz: is_on(FLAGZ).then(|| flags(arguments).unwrap_or_default()),
    }
}

/// All flags of the subcommand with their values, given or not.
fn flags(arguments: impl Iterator<Item = OsString>) -> Option<Vec<(String, String)>> {
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(arguments).ok()?;
    let (name, matches) = matches.subcommand()?;
    let known = command.find_subcommand(name)?.get_arguments();
    let flags = known.filter_map(|argument| {
        let values = matches.get_raw(argument.get_id().as_str()).into_iter().flatten();
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        Some((argument.get_long()?.to_owned(), values.join(",")))
    });
    Some(
        flags
            .filter(|(name, _)| name != "help" && name != "version")
            .collect(),
    )
}
