//! `portolan balancer status`: assigned addresses, announcing nodes, the edge of this node, and problems.
//!
//! - [`api_state`]: state of load balancing in the API
//! - [`report`] (pure): that state and the status of the local process, combined; problems
//! - [`text`]: human-readable form of the report

mod api_state;
mod report;
mod text;

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;

use self::api_state::ApiState;
use self::report::Report;
use crate::balancer_endpoints::{self, Status};
use crate::error::CommandError;
use crate::flags::administrator::{AdministratorError, AdministratorFlags};
use crate::flags::values::{OptionalAddress, optional_address};
use crate::output::Format;
use crate::{runtime, status_client};

#[cfg(test)]
mod tests;

/// Flags of `portolan balancer status`.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Address of the local process, as in its --[load-balancer-]metrics-bind-address; empty to read only the API
    #[arg(long, default_value = balancer_endpoints::ADDRESS, value_name = "ADDRESS:PORT", value_parser = optional_address)]
    address: OptionalAddress,
    /// Show the BGP sessions of this node only
    #[arg(long)]
    bgp: bool,
    #[command(flatten)]
    administrator: AdministratorFlags,
    /// Output format
    #[arg(long, short, default_value = "text", value_name = "FORMAT")]
    output: Format,
}

/// Reads and prints the status. The exit code is 1 if the report contains a problem ([`report`]), or if the API or the
/// local process is unreachable.
///
/// # Errors
///
/// An error if neither the API nor the local process responds.
pub(super) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let local = flags.address.0.map(|address| {
        status_client::read::<Status>(address, "/status").map_err(|error| {
            format!("load balancing does not respond on {address}: {error}; does it run on this node?")
        })
    });
    let api = match flags.administrator.client() {
        Ok(client) => {
            let needs_events = local.as_ref().is_none_or(Result::is_err);
            runtime::multi_thread(1)?.block_on(ApiState::read(&client, needs_events))
        }
        // On a joined host there is no kubeconfig of an administrator. That is no problem of load balancing.
        Err(AdministratorError::NoKubeconfig) if local.as_ref().is_some_and(Result::is_ok) => {
            ApiState::not_queried(&AdministratorError::NoKubeconfig.to_string())
        }
        Err(error) => ApiState::unreachable(&error.to_string()),
    };
    if let (Some(Err(reason)), true) = (&local, api.is_unreachable()) {
        let api = api.services.err().unwrap_or_default();
        return Err(format!("{reason}\nand the API is unreachable: {api}").into());
    }
    let report = Report::new(local, api, Timestamp::now());
    let json = serde_json::to_value(&report)?;
    if flags.bgp {
        return print_bgp(flags, &report);
    }
    flags.output.print(&json, || text::render(&report));
    Ok(if report.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints the BGP sessions of this node. The exit code is 1 without a speaker, or if a session is not established.
fn print_bgp(flags: &Flags, report: &Report) -> Result<ExitCode, CommandError> {
    let Some(bgp) = &report.bgp else {
        return Err("no BGP sessions: load balancing does not run on this node, or without --bgp".into());
    };
    let json = serde_json::to_value(bgp)?;
    flags.output.print(&json, || {
        let faults = bgp.faults.iter().map(|fault| format!("{fault}\n"));
        faults.chain([text::sessions(Some(bgp))]).collect()
    });
    Ok(if report::bgp_problems(bgp).is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
