//! `portolan balancer status`: what is assigned, who announces it, how the edge of this machine is, and why a Service waits.
//!
//! - [`asked`]: what the API says
//! - [`report`] (pure): that and what the process of this machine says, put together, and what is wrong
//! - [`text`]: the report for people

mod asked;
mod report;
mod text;

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;

use self::asked::Asked;
use self::report::Report;
use super::pages::{self, Page};
use crate::commands::administrator::AdministratorFlags;
use crate::commands::page::{self, Output};
use crate::commands::{Failure, runtime};
use crate::flags::{OptionalAddress, optional_address};

#[cfg(test)]
mod tests;

/// Flags of `portolan balancer status`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Where load balancing on this machine serves its metrics, as its --metrics-bind-address says
    /// (--load-balancer-metrics-bind-address of up and join); empty to ask the API alone
    #[arg(long, default_value = pages::ADDRESS, value_name = "ADDRESS:PORT", value_parser = optional_address)]
    address: OptionalAddress,
    #[command(flatten)]
    administrator: AdministratorFlags,
    /// How to print it
    #[arg(long, short, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

/// Asks and prints. The exit code says whether all is well: 1 if a Service waits for an address, an address is announced by
/// nobody, a member is silent, a port is not served as asked, or something cannot be asked.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let page = flags.address.0.map(|address| {
        page::read::<Page>(address, "/status").map_err(|error| {
            format!("load balancing does not answer on {address}: {error}; does it run on this machine?")
        })
    });
    let client = flags.administrator.client();
    let asked = match client {
        Ok(client) => runtime(1)?.block_on(Asked::of(&client, page.as_ref().is_none_or(Result::is_err))),
        Err(error) => Asked::nothing(&error.to_string()),
    };
    if let (Some(Err(why)), true) = (&page, asked.is_nothing()) {
        let api = asked.services.err().unwrap_or_default();
        return Err(format!("{why}\nand the API cannot be asked: {api}").into());
    }
    let report = Report::new(page, asked, Timestamp::now());
    let json = serde_json::to_value(&report)?;
    flags.output.print(&json, || text::of(&report));
    Ok(if report.wrong.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
