//! The web page with the rights of a kubeconfig.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use chart::feed::{Feed, KINDS_OF_USERS, WATCHED};
use chart::server::Server;
use chart::server::access::{Access, Announce, user_name};
use client::Client;
use serde_json::Value;

use super::Flags;
use crate::error::CommandError;
use crate::{output, runtime, shutdown};

/// Serves the page until a signal requests shutdown.
///
/// # Errors
///
/// An error if the kubeconfig is unusable, the user must not list a kind that the map needs, or the address is in use.
pub(super) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let client = flags.administrator.client()?.named("portolan-chart");
    runtime::multi_thread(2)?.block_on(serve(flags, client))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(flags: &Flags, client: Client) -> Result<(), CommandError> {
    let listening = Server::listen(flags.page.bind_address)?;
    check_rights(&client).await?;
    let user = user_name(&client).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "user name not known");
        String::new()
    });
    let access = Access::by_secret(&user, print_url(listening.1))?;
    let name = flags.page.cluster_name.as_deref().unwrap_or(client.server());
    let feed = Feed::new(client.clone(), name, &KINDS_OF_USERS);
    let server = Server::new(listening, feed, access, &flags.page.cluster_domain);
    tokio::select! {
        () = server.run() => {}
        () = shutdown::signal_received() => {}
    }
    Ok(())
}

/// Checks that the user may list the watched kinds of the map.
async fn check_rights(client: &Client) -> Result<(), CommandError> {
    for kind in WATCHED {
        let path = format!("{}?limit=1", kind.collection());
        if let Err(error) = client.get::<Value>(&path).await {
            if error.is_forbidden() {
                let message = format!(
                    "the user must be allowed to list and watch {} in all namespaces: {error}",
                    kind.name()
                );
                return Err(message.into());
            }
            return Err(error.into());
        }
    }
    Ok(())
}

/// Prints the URL with the secret. The secret is in the fragment, which browsers do not send to servers. It works once,
/// and another page needs the next one.
fn print_url(address: SocketAddr) -> Announce {
    let is_first = AtomicBool::new(true);
    Box::new(move |secret| {
        let intro = if is_first.swap(false, Ordering::Relaxed) {
            "The chart is at this URL, which works once:"
        } else {
            "The URL was used. The next one is:"
        };
        output::print_message(&format!("{intro}\n\n  http://{address}/#login={secret}\n\n"));
    })
}
